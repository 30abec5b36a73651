//! (f): very many watchers of one server: what they weigh, how soon they are told, and what they cost the engine.
//!
//! Every watch checks that its sequences have neither gap nor repeat, and at the end that it was told everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use longhaul::rpc::proto::{EventKind, WatchJobResponse};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tonic::Streaming;

use crate::load::{self, job, of_waits};
use crate::machine::Ground;
use crate::report::{Part, quantile};
use crate::server::Client;
use crate::subject::Subject;
use crate::watch::{self, age_ms};
use crate::{Scale, connect};

/// So many watch each job.
const EACH: usize = 10;
const CONNECTIONS: usize = 50;
/// So many events a second.
const RATE: u64 = 200;
/// So many watches are being opened at once.
const OPENING: usize = 64;
/// A watcher that was not told everything after this long will not be.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures it.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let jobs = scale.watched_jobs();
    let about = format!("{} watchers on {jobs} jobs, {RATE} events a second", jobs * EACH);
    let mut part = Part::new("f", about);
    // Nothing here asks the model.
    let variables = [("LONGHAUL_REQUESTS_MAX", "20000")];
    let subject = Subject::make(ground, "watched", 1, &variables).await?;
    let clients = connect(&subject.servers[0], CONNECTIONS).await?;
    let watched = submit(&subject, jobs).await?;
    subject.saturate(scale.span(), of_waits).await?;
    let alone = subject.servers[0].memory_mib()?;
    let (mut without, mut beside, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let mut opening = Vec::new();
    for _ in 0..scale.rounds() {
        without.push(subject.saturate(scale.span(), of_waits).await?.rate());
        let begun_at = Instant::now();
        let crowd = Crowd::open(&clients, &watched).await?;
        opening.push(begun_at.elapsed().as_secs_f64());
        beside.push(subject.saturate(scale.span(), of_waits).await?.rate());
        kept.extend(beside.last().zip(without.last()).map(|(beside, without)| beside / without));
        crowd.leave().await?;
    }
    part.figure("f, a, 64 in flight, without watchers", "jobs/s", &without);
    part.figure("f, a, 64 in flight, beside idle watchers", "jobs/s", &beside);
    part.figure("f, a, kept beside idle watchers", "", &kept);
    part.figure("f, opening all watches", "s", &opening);
    let mut crowd = Crowd::open(&clients, &watched).await?;
    let with = subject.servers[0].memory_mib()?;
    let (mut said, mut p50, mut p99) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.rounds() {
        said.push(speak(&clients, &watched, scale.event_seconds()).await?);
        let mut ages = crowd.listen(&watched).await?;
        ages.sort_by(f64::total_cmp);
        p50.push(quantile(&ages, 0.5));
        p99.push(quantile(&ages, 0.99));
    }
    let after = subject.servers[0].memory_mib()?;
    part.figure("f, memory of the server, without watchers", "MiB", &[alone]);
    part.figure("f, memory of the server, with watchers", "MiB", &[with]);
    part.figure("f, memory of the server, after the events", "MiB", &[after]);
    let said = part.figure("f, events", "1/s", &said);
    part.figure("f, event to watcher, p50", "ms", &p50);
    let p99 = part.figure("f, event to watcher, p99", "ms", &p99);
    part.at_least("f, events a second that were made", said, 0.95 * RATE as f64);
    part.at_most("f, memory of the server in MiB", with.max(after), 400.0);
    part.at_most("f, event to watcher, p99 in ms", p99, 250.0);
    crowd.leave().await?;
    subject.end(ground).await?;
    Ok(part)
}

/// A job that is watched, and what it is turned to.
struct Watched {
    job_id: String,
    last_sequence: AtomicI32,
    is_paused: Mutex<bool>,
}

/// Submits so many jobs that wait for a person.
async fn submit(subject: &Subject, jobs: usize) -> Result<Vec<Arc<Watched>>> {
    let mut tasks = JoinSet::new();
    for _ in 0..jobs {
        let mut client = subject.clients[0].clone();
        tasks.spawn(async move { load::submit(&mut client, job(vec![load::approval()])).await });
    }
    let mut watched = Vec::new();
    while let Some(job) = tasks.join_next().await {
        let job = job??;
        watched.push(Arc::new(Watched {
            job_id: job.job_id,
            last_sequence: AtomicI32::new(job.last_sequence),
            is_paused: Mutex::new(false),
        }));
    }
    Ok(watched)
}

/// Pauses and resumes random jobs for so long; answers how many events a second that made.
async fn speak(clients: &[Client], watched: &[Arc<Watched>], seconds: u64) -> Result<f64> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE as u32);
    let mut tasks = JoinSet::new();
    let begun_at = Instant::now();
    let count = RATE * seconds;
    for at in 0..count {
        ticks.tick().await;
        let job = Arc::clone(&watched[rand::random_range(0..watched.len())]);
        let mut client = clients[at as usize % clients.len()].clone();
        tasks.spawn(async move {
            let mut is_paused = job.is_paused.lock().await;
            let turned = watch::turn(&mut client, &job.job_id, !*is_paused).await?;
            *is_paused = !*is_paused;
            job.last_sequence.store(turned.last_sequence, Ordering::Relaxed);
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(count as f64 / begun_at.elapsed().as_secs_f64())
}

/// Everybody who watches.
struct Crowd {
    watchers: JoinSet<Result<()>>,
    /// The last sequence of each, in the order of the jobs.
    heard: Vec<Arc<AtomicI32>>,
    ages: mpsc::UnboundedReceiver<f64>,
}

impl Crowd {
    /// Opens all watches from where each job is now.
    async fn open(clients: &[Client], watched: &[Arc<Watched>]) -> Result<Self> {
        let (tell, ages) = mpsc::unbounded_channel();
        let (mut watchers, mut heard) = (JoinSet::new(), Vec::new());
        let mut opening = JoinSet::new();
        for (at, job) in watched.iter().flat_map(|job| std::iter::repeat_n(job, EACH)).enumerate() {
            let after = job.last_sequence.load(Ordering::Relaxed);
            let last = Arc::new(AtomicI32::new(after));
            heard.push(Arc::clone(&last));
            if opening.len() >= OPENING {
                Self::seat(&mut watchers, opening.join_next().await, &tell)?;
            }
            let (mut client, job) = (clients[at % clients.len()].clone(), Arc::clone(job));
            opening.spawn(async move {
                let stream = watch::open(&mut client, &job.job_id, after).await;
                Ok((stream.context("a watch could not be opened")?, last))
            });
        }
        while let Some(opened) = opening.join_next().await {
            Self::seat(&mut watchers, Some(opened), &tell)?;
        }
        Ok(Self { watchers, heard, ages })
    }

    fn seat(
        watchers: &mut JoinSet<Result<()>>,
        opened: Option<Opened>,
        tell: &mpsc::UnboundedSender<f64>,
    ) -> Result<()> {
        let (stream, last) = opened.context("some are being opened")???;
        watchers.spawn(listen(stream, last, tell.clone()));
        Ok(())
    }

    /// Waits until everybody was told everything; answers how old each event was.
    async fn listen(&mut self, watched: &[Arc<Watched>]) -> Result<Vec<f64>> {
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            if let Some(ended) = self.watchers.try_join_next() {
                ended??;
                bail!("a watch ended by itself");
            }
            let behind = self.heard.iter().enumerate().filter(|(at, heard)| {
                let last = watched[at / EACH].last_sequence.load(Ordering::Relaxed);
                heard.load(Ordering::Relaxed) != last
            });
            match behind.count() {
                0 => break,
                behind if Instant::now() > give_up_at => bail!("{behind} watchers lack events"),
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        let mut ages = Vec::new();
        while let Ok(age) = self.ages.try_recv() {
            ages.push(age);
        }
        Ok(ages)
    }

    /// Closes all watches, unless one was found wrong.
    async fn leave(mut self) -> Result<()> {
        while let Some(ended) = self.watchers.try_join_next() {
            ended??;
        }
        self.watchers.shutdown().await;
        Ok(())
    }
}

/// A watch that was opened, and the last sequence it was told.
type Opened = Result<Result<(Streaming<WatchJobResponse>, Arc<AtomicI32>)>, tokio::task::JoinError>;

/// Hears everything, and checks that it is the next thing.
async fn listen(
    mut stream: Streaming<WatchJobResponse>,
    last: Arc<AtomicI32>,
    tell: mpsc::UnboundedSender<f64>,
) -> Result<()> {
    loop {
        let event = watch::next(&mut stream).await?;
        let age = age_ms(&event)?;
        if !matches!(event.kind(), EventKind::JobPaused | EventKind::JobResumed) {
            bail!("an event that nobody made: {}", event.kind().as_str_name());
        }
        let before = last.load(Ordering::Relaxed);
        if event.sequence != before + 1 {
            bail!("a watcher was told {} after {before}", event.sequence);
        }
        last.store(event.sequence, Ordering::Relaxed);
        // Nobody asks any more once the crowd has left.
        let _ = tell.send(age);
    }
}
