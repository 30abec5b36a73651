//! The looks at the server: one page of jobs at a time, and what was spent.
//!
//! In comes which jobs are wanted and which is open; out goes what each look brings, or why it came to nothing.
//! A list leaves out what is asked, so jobs that ask are shown one by one, each once and then only if it has changed.
//! There is at most one look a second; a server that is slow is looked at less often, and one that is away less and less.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, NaiveTime, Utc};
use prost_types::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tonic::Status;

use super::state::{Input, Seen, Spent};
use crate::{
    cli::{
        client::{self, Client, in_words, is_passing},
        clock::moment,
    },
    rpc::proto::{
        Approval, GetJobResponse, GetUsageRequest, Job, JobSelector, JobStatus, ListJobsRequest,
        ListJobsResponse, UsageRow,
    },
};

/// The most jobs of a look, and the most of those that await an approval.
const PAGE: i32 = 100;
const PENDING: i32 = 50;
/// How many jobs of a look are asked what they ask.
const ASKED: usize = 10;
/// The least and the most time between two looks.
const PACE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Between two sums of what was spent.
const SUMS: Duration = Duration::from_secs(10);
/// A server that says nothing for so long is away.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// No call was begun before this.
const EVER: Timestamp = Timestamp { seconds: -62_135_596_800, nanos: 0 };

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aim {
    /// Which jobs.
    pub selector: JobSelector,
    /// What their ids begin with; it may be a whole one.
    pub prefix: String,
    /// The job that is open.
    pub open: Option<String>,
}

/// Looks until nobody listens.
pub async fn look_on(mut client: Client, mut aim: watch::Receiver<Aim>, out: mpsc::Sender<Input>) {
    let mut failures = 0;
    let mut asked = Asked::default();
    loop {
        let began = Instant::now();
        let wanted = aim.borrow_and_update().clone();
        let input = match within(look(&mut client, &wanted, &mut asked)).await {
            Ok(seen) => {
                failures = 0;
                Input::Seen(Box::new(seen))
            }
            Err(status) => {
                failures += 1;
                Input::Away(in_words(&status))
            }
        };
        if out.send(input).await.is_err() {
            return;
        }
        sleep_until(began + PACE.0).await;
        tokio::select! {
            () = sleep_until(began + pause(began.elapsed(), failures)) => {}
            changed = aim.changed() => if changed.is_err() { return },
            () = out.closed() => return,
        }
    }
}

/// How long after the beginning of a look the next one begins, if it took so long and so many came to nothing.
fn pause(took: Duration, failures: u32) -> Duration {
    let pause = if failures > 0 {
        PACE.0 * 2_u32.saturating_pow(failures - 1).min(60)
    } else {
        // The server has three quarters of the time for others.
        took * 4
    };
    pause.clamp(PACE.0, PACE.1)
}

/// What jobs ask, as far as it is known, each with the sequence of its last event.
#[derive(Debug, Default)]
pub struct Asked(HashMap<String, (i32, Option<Approval>)>);

impl Asked {
    /// Adds to jobs what they ask; asks the server about a few that it does not know, who has waited longest first.
    async fn add_to(&mut self, client: &mut Client, seen: &mut Seen) -> Result<(), Status> {
        let mut asking: Vec<&mut Job> = seen.jobs.iter_mut().chain(&mut seen.pending).collect();
        asking.retain(|job| job.status() == JobStatus::AwaitingApproval);
        asking.sort_by_key(|job| job.updated_at.as_ref().map_or(0, |at| at.seconds));
        let is_known = |known: &HashMap<_, (i32, _)>, job: &Job| {
            known.get(&job.job_id).is_some_and(|(sequence, _)| *sequence == job.last_sequence)
        };
        let unknown = asking.iter().filter(|job| !is_known(&self.0, job)).take(ASKED);
        let unknown: Vec<(String, i32)> =
            unknown.map(|job| (job.job_id.clone(), job.last_sequence)).collect();
        for (job_id, sequence) in unknown {
            let job = find(client, &job_id).await?.and_then(|reply| reply.job);
            self.0.insert(job_id, (sequence, job.and_then(|job| job.approval)));
        }
        self.0.retain(|id, _| asking.iter().any(|job| job.job_id == *id));
        for job in asking {
            job.approval = self.0.get(&job.job_id).and_then(|(_, approval)| approval.clone());
        }
        Ok(())
    }
}

/// One look.
pub async fn look(client: &mut Client, aim: &Aim, asked: &mut Asked) -> Result<Seen, Status> {
    let mut seen = Seen::default();
    let picks_all = aim.selector == JobSelector::default();
    let page = list(client, aim.selector.clone(), PAGE, picks_all).await?;
    seen.has_more = !page.next_page_token.is_empty();
    seen.jobs = page.jobs;
    seen.counts = if picks_all {
        page.counts
    } else {
        list(client, JobSelector::default(), 1, true).await?.counts
    };
    let is_asking = |job: &&Job| job.status() == JobStatus::AwaitingApproval;
    let known = seen.jobs.iter().filter(is_asking).count() as i64;
    let counted = seen.counts.iter().find(|one| one.status() == JobStatus::AwaitingApproval);
    if counted.is_some_and(|one| one.count > known) {
        let statuses = vec![JobStatus::AwaitingApproval.into()];
        let asking = JobSelector { statuses, ..JobSelector::default() };
        seen.pending = list(client, asking, PENDING, false).await?.jobs;
    }
    // A whole id finds its job, however old it is.
    if !aim.prefix.is_empty() && !seen.jobs.iter().any(|job| job.job_id.starts_with(&aim.prefix)) {
        seen.jobs.extend(find(client, &aim.prefix).await?.and_then(|reply| reply.job));
    }
    asked.add_to(client, &mut seen).await?;
    if let Some(id) = &aim.open {
        seen.opened = find(client, id).await?;
    }
    Ok(seen)
}

/// A job by its id; `None` where there is none, or the server takes it for none.
async fn find(client: &mut Client, job_id: &str) -> Result<Option<GetJobResponse>, Status> {
    match client::get_job(client, job_id, false).await {
        Ok(reply) => Ok(Some(reply)),
        Err(status) if is_passing(&status) => Err(status),
        Err(_) => Ok(None),
    }
}

async fn list(
    client: &mut Client,
    selector: JobSelector,
    page_size: i32,
    include_counts: bool,
) -> Result<ListJobsResponse, Status> {
    let request = ListJobsRequest {
        selector: Some(selector),
        page_size,
        include_counts,
        ..ListJobsRequest::default()
    };
    Ok(client.list_jobs(request).await?.into_inner())
}

/// Adds up again and again what was spent, until nobody listens.
pub async fn add_up(mut client: Client, out: mpsc::Sender<Input>) {
    loop {
        let began = Instant::now();
        // What it is for is told by the looks: a sum that fails is left out.
        if let Ok(Some(spent)) = within(spent(&mut client)).await
            && out.send(Input::Spent(Box::new(spent))).await.is_err()
        {
            return;
        }
        tokio::select! {
            () = sleep(SUMS.max(began.elapsed() * 10)) => {}
            () = out.closed() => return,
        }
    }
}

async fn spent(client: &mut Client) -> Result<Option<Spent>, Status> {
    let (all, at) = sum(client, EVER).await?;
    let Some(at) = moment(at.as_ref()) else { return Ok(None) };
    let day = at.date_naive().and_time(NaiveTime::MIN).and_utc();
    // A day that has only just begun has no calls, and no span to ask about.
    let today = if at - day < chrono::TimeDelta::milliseconds(1) {
        UsageRow { cost_usd: "0".to_owned(), ..UsageRow::default() }
    } else {
        sum(client, timestamp(day)).await?.0
    };
    Ok(Some(Spent { today, all, at }))
}

/// What was spent since then, and until when.
async fn sum(
    client: &mut Client,
    from: Timestamp,
) -> Result<(UsageRow, Option<Timestamp>), Status> {
    let request = GetUsageRequest { from_at: Some(from), ..GetUsageRequest::default() };
    let report = client.get_usage(request).await?.into_inner();
    Ok((report.total.unwrap_or_default(), report.before_at))
}

fn timestamp(at: DateTime<Utc>) -> Timestamp {
    Timestamp { seconds: at.timestamp(), nanos: at.timestamp_subsec_nanos() as i32 }
}

/// A call that a server may not leave unanswered.
pub async fn within<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    timeout(PATIENCE, call).await.unwrap_or_else(|_late| {
        Err(Status::deadline_exceeded(format!("no answer within {} s", PATIENCE.as_secs())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_server_is_looked_at_less_often_and_one_that_is_away_less_and_less() {
        let of = |ms, failures| pause(Duration::from_millis(ms), failures).as_millis();
        assert_eq!(of(5, 0), 1_000);
        assert_eq!(of(1_500, 0), 6_000);
        assert_eq!(of(60_000, 0), 30_000);
        let waits: Vec<u128> = (1..=7).map(|failures| of(5, failures) / 1_000).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(of(5, u32::MAX), 30_000);
    }
}
