//! (s): very many answers of the model at once, in one server: what they weigh, and whether each flows.
//!
//! First a crowd that drips one token a second: the memory of the server, read from /proc while all are in flight, and
//! what the server has kept of each answer in its ledger, by which none may be far behind.
//! Then fewer that flow twenty times as fast. Of those of the server, the ledger tells how long each took. The gaps
//! between the tokens of one answer are measured where the model client takes them off the wire, which needs the
//! client in hand: it is the server's own, in this process, and beside it the server has its two hundred in flight.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use longhaul::domain::submission::TruncationPolicy;
use longhaul::model::{Call, Model, ModelSettings, Partial, Role, Turn};
use longhaul::rpc::proto::{ContextMode, RunStep, Step, SubmitJobRequest, step::Kind};
use sqlx::postgres::PgPool;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Scale;
use crate::load::{self, job, since};
use crate::machine::Ground;
use crate::report::{Part, quantile};
use crate::server::{Client, Served, with_sandbox};
use crate::subject::Subject;

/// So many drip, and so many flow.
const DRIPPING: usize = 2000;
const FLOWING: usize = 200;
/// So many submit at once.
const SUBMITTERS: usize = 64;
/// How long until the next token of each.
const DRIP: Duration = Duration::from_secs(1);
const FLOW: Duration = Duration::from_millis(50);
const FLOW_MS: f64 = FLOW.as_millis() as f64;
/// The letters of one token of the sandbox.
const TOKEN: usize = 12;
/// What has arrived is kept every two seconds, and is on its way to Postgres for a while.
const KEPT_BEHIND: Duration = Duration::from_secs(3);
/// A crowd that is not under way after this long will not be.
const PATIENCE: Duration = Duration::from_mins(1);

/// Measures it.
pub async fn measure(ground: &Ground, scale: Scale) -> Result<Part> {
    let about = format!("{DRIPPING} answers at a token a second, then {FLOWING} at twenty");
    let mut part = Part::new("s", about);
    // The client that is measured is in this process; a second time it is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sandbox = Served::sandbox(ground.folder()).await?;
    let [base_url, api_key] = with_sandbox(sandbox.url()?);
    let variables = [base_url, api_key, ("LONGHAUL_SLOTS", "2500")];
    pace(sandbox.url()?, DRIP).await?;
    let subject = Subject::make(ground, "dripping", 1, &variables).await?;
    drip(&subject, scale, &mut part).await?;
    subject.end(ground).await?;
    pace(sandbox.url()?, FLOW).await?;
    let subject = Subject::make(ground, "flowing", 1, &variables).await?;
    flow(&subject, sandbox.url()?, scale, &mut part).await?;
    subject.end(ground).await?;
    sandbox.stop().await?;
    Ok(part)
}

/// Lets every further answer send a token each time this has passed.
async fn pace(sandbox: &str, between: Duration) -> Result<()> {
    let faults = serde_json::json!({"model": {"event_delay_ms": between.as_millis()}});
    let client = reqwest::Client::builder().no_proxy().build()?;
    client
        .post(format!("{sandbox}/_sandbox/faults"))
        .json(&faults)
        .send()
        .await?
        .error_for_status()?;
    Ok(())
}

/// A job of one step whose answer has so many tokens, and some more.
fn of_tokens(tokens: usize) -> SubmitJobRequest {
    let run =
        RunStep { prompt: prompt(tokens), context: ContextMode::None.into(), ..RunStep::default() };
    job(vec![Step { name: String::new(), kind: Some(Kind::Run(Box::new(run))) }])
}

/// A word has some six letters with its space.
fn prompt(tokens: usize) -> String {
    format!("Write at least {} words.", tokens * TOKEN / 5)
}

/// Submits so many jobs, some of them at once.
async fn submit(clients: &[Client], jobs: usize, tokens: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    for (at, client) in clients.iter().cycle().take(SUBMITTERS).enumerate() {
        let mut client = client.clone();
        tasks.spawn(async move {
            for _ in (at..jobs).step_by(SUBMITTERS) {
                load::submit(&mut client, of_tokens(tokens)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(submitted) = tasks.join_next().await {
        submitted??;
    }
    Ok(())
}

/// Waits until so many calls are under way at once.
async fn wait_until_in_flight(pool: &PgPool, calls: usize) -> Result<()> {
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        let started: i64 = sqlx::query_scalar(
            "select count(*) from longhaul.model_call where outcome = 'started' and partial_output <> ''",
        )
        .fetch_one(pool)
        .await?;
        if usize::try_from(started)? == calls {
            return Ok(());
        }
        if Instant::now() > give_up_at {
            bail!("{started} of {calls} calls are under way");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn drip(subject: &Subject, scale: Scale, part: &mut Part) -> Result<()> {
    let server = &subject.servers[0];
    let (alone, watched) = (server.memory_mib()?, scale.stream_seconds());
    let begun_at = Instant::now();
    submit(&subject.clients, DRIPPING, PATIENCE.as_secs() as usize + watched as usize).await?;
    let submitted = begun_at.elapsed();
    wait_until_in_flight(&subject.pool, DRIPPING).await?;
    let mut memory = Vec::new();
    let (before, looked_at) = (kept(&subject.pool).await?, Instant::now());
    for _ in 0..watched * 4 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        memory.push(server.memory_mib()?);
    }
    let (after, span) = (kept(&subject.pool).await?, looked_at.elapsed());
    let mut grown = Vec::new();
    for (call, letters) in &after {
        let Some(before) = before.get(call) else { bail!("a call is not under way any more") };
        grown.push((letters - before) as f64 / TOKEN as f64);
    }
    if grown.len() != DRIPPING {
        bail!("{} of {DRIPPING} calls are under way", grown.len());
    }
    grown.sort_by(f64::total_cmp);
    let due = span.saturating_sub(KEPT_BEHIND).as_secs_f64() / DRIP.as_secs_f64();
    part.figure("s, submitting all", "s", &[submitted.as_secs_f64()]);
    part.figure("s, memory of the server, alone", "MiB", &[alone]);
    part.figure("s, memory of the server, all in flight", "MiB", &memory);
    part.figure(format!("s, tokens of an answer kept in {:.1} s", span.as_secs_f64()), "", &grown);
    let most = memory.iter().copied().fold(0.0, f64::max);
    part.at_most("s, memory of the server in MiB", most, 300.0);
    part.at_least("s, tokens of the answer that is most behind", quantile(&grown, 0.0), due);
    Ok(())
}

/// How much of each answer under way is kept, in letters, by its call.
async fn kept(pool: &PgPool) -> Result<HashMap<Uuid, i64>> {
    let kept: Vec<(Uuid, i64)> = sqlx::query_as(
        "select call_id, coalesce(length(partial_output), 0)::bigint from longhaul.model_call
         where outcome = 'started'",
    )
    .fetch_all(pool)
    .await?;
    Ok(kept.into_iter().collect())
}

async fn flow(subject: &Subject, sandbox: &str, scale: Scale, part: &mut Part) -> Result<()> {
    let tokens = (scale.stream_seconds() as f64 * 1e3 / FLOW_MS) as usize;
    let model = Model::new(ModelSettings {
        base_url: sandbox.to_owned(),
        api_key: Some("sandbox".into()),
        ..ModelSettings::default()
    })?;
    submit(&subject.clients, FLOWING, tokens).await?;
    let mut asking = JoinSet::new();
    for _ in 0..FLOWING {
        let model = model.clone();
        asking.spawn(async move { gaps(&model, tokens).await });
    }
    let (mut all, mut longest) = (Vec::new(), Vec::new());
    while let Some(gaps) = asking.join_next().await {
        let gaps = gaps??;
        longest.push(gaps.iter().copied().fold(0.0, f64::max));
        if gaps.len() < tokens {
            bail!("an answer has {} tokens instead of {tokens}", gaps.len());
        }
        all.extend(gaps);
    }
    all.sort_by(f64::total_cmp);
    longest.sort_by(f64::total_cmp);
    let p99 = quantile(&all, 0.99);
    part.figure("s, gap between two tokens of an answer, p50", "ms", &[quantile(&all, 0.5)]);
    part.figure("s, gap between two tokens of an answer, p99", "ms", &[p99]);
    part.figure("s, gap between two tokens of an answer, longest", "ms", &[quantile(&all, 1.0)]);
    part.figure("s, longest gap of each answer", "ms", &longest);
    part.at_most("s, gap between two tokens, p99 in ms", p99, 4.0 * FLOW_MS);
    part.at_most("s, longest gap in ms", quantile(&all, 1.0), 20.0 * FLOW_MS);
    crate::meter::wait_until_completed(&subject.pool, FLOWING).await?;
    let each: Vec<f64> = sqlx::query_scalar(
        "select extract(epoch from m.settled_at - m.started_at)::float8 * 1e3 / (length(c.output) / $1)
         from longhaul.model_call m join longhaul.checkpoint c using (shard, job_id)
         where m.outcome = 'answered' order by 1",
    )
    .bind(TOKEN as f64)
    .fetch_all(&subject.pool)
    .await?;
    if each.len() != FLOWING {
        bail!("{} of {FLOWING} calls were answered", each.len());
    }
    part.figure("s, a token of an answer of the server, on average", "ms", &each);
    let slowest = quantile(&each, 1.0);
    part.at_most("s, a token of the server's slowest answer, in ms", slowest, 2.0 * FLOW_MS);
    Ok(())
}

/// Asks once; answers how many milliseconds passed between each two arrivals of text.
///
/// Whatever comes, the client sees it when it is polled, so nothing has to be looked for in between.
async fn gaps(model: &Model, tokens: usize) -> Result<Vec<f64>> {
    let (call, partial) = (call(tokens), Partial::default());
    let mut asking = pin!(model.ask(&call, &partial));
    let (mut gaps, mut len, mut last) = (Vec::new(), 0, None);
    let reply = poll_fn(|context| {
        let polled = asking.as_mut().poll(context);
        let now_len = partial.seen().text.len();
        if now_len > len {
            let before = last.replace(Instant::now());
            gaps.extend(before.map(since));
            // What arrives together has no gap.
            let together = (now_len - len).div_ceil(TOKEN) - 1;
            gaps.extend(std::iter::repeat_n(0.0, together));
            len = now_len;
        }
        polled
    });
    let reply = reply.await?;
    if reply.text.len() != len {
        bail!("an answer has {} letters, of which {len} were seen", reply.text.len());
    }
    Ok(gaps)
}

fn call(tokens: usize) -> Call {
    Call {
        model: "claude-sonnet-5-5".to_owned(),
        max_tokens: 4096,
        system: None,
        turns: vec![Turn { role: Role::User, text: prompt(tokens) }],
        web_search: None,
        timeout: Duration::from_mins(5),
        idle_timeout: Duration::from_mins(1),
        effort: None,
        output_schema: None,
        stop_sequences: Vec::new(),
        on_truncated: TruncationPolicy::Fail,
        extra: Vec::new(),
        is_cached: false,
        begun: None,
        paused_contents: Vec::new(),
        continuations: 0,
        is_batched: false,
    }
}
