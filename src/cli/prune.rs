//! `longhaul prune`: what is no longer to be kept goes now, or is only told.
//!
//! In comes the database that `DATABASE_URL` names, and how long jobs are kept, from the environment or from flags;
//! no server is asked, and servers may do the same meanwhile. Out goes a table, or one JSON object.
//! Whatever stops it, jobs are whole or pruned, and the next run goes on.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use super::{
    exit::{CliError, Exit},
    format::FormatArgs,
    render::{self, Paint, jobs, thousands},
};
use crate::config::{self, Source};
use crate::domain::job::Status;
use crate::domain::word::Word as _;
use crate::store::Store;
use crate::store::prune::{BATCH_MAX, Buried, DueJobs, Retention};

/// As many ended jobs are looked at in one statement.
const LOOK_MAX: i64 = 1000;
/// How often it is looked whether what was marked may go.
const LOOK: Duration = Duration::from_secs(1);
/// It is over when nothing has gone for so long; somebody else may mark and unmark for ever.
const PATIENCE: Duration = Duration::from_mins(1);

/// Prune jobs that ended long enough ago
///
/// Servers do it by themselves where they are told how long jobs are kept.
/// What is kept of a pruned job is its id, how and when it ended, and its lines of the ledger.
/// How long jobs are kept is said by `LONGHAUL_KEEP_COMPLETED_DAYS`, `LONGHAUL_KEEP_FAILED_DAYS` and
/// `LONGHAUL_KEEP_CANCELLED_DAYS`, or by the flags; where neither says it, it is for ever.
#[derive(Args, Debug)]
pub struct PruneArgs {
    /// Keep completed jobs so many days; 0 is for ever
    #[arg(long, value_name = "DAYS", value_parser = kept)]
    completed_days: Option<Kept>,
    /// Keep failed jobs so many days
    #[arg(long, value_name = "DAYS", value_parser = kept)]
    failed_days: Option<Kept>,
    /// Keep cancelled jobs so many days
    #[arg(long, value_name = "DAYS", value_parser = kept)]
    cancelled_days: Option<Kept>,
    /// The file of the configuration, which may name the database [env: `LONGHAUL_CONFIG`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only show what would go
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// How long; nothing is for ever.
#[derive(Clone, Copy, Debug)]
struct Kept(Option<Duration>);

fn kept(text: &str) -> Result<Kept, String> {
    config::days(text).map(Kept)
}

/// Runs the command.
pub async fn run(args: PruneArgs) -> Result<Exit> {
    let source = Source::open(args.config.as_deref());
    let mut kept = config::retention(&source)?;
    let flags = [
        (&mut kept.completed, args.completed_days),
        (&mut kept.failed, args.failed_days),
        (&mut kept.cancelled, args.cancelled_days),
    ];
    for (kept, flag) in flags {
        if let Some(Kept(flag)) = flag {
            *kept = flag;
        }
    }
    if kept.periods().is_empty() {
        let message = "all jobs are kept for ever: set LONGHAUL_KEEP_COMPLETED_DAYS, LONGHAUL_KEEP_FAILED_DAYS or \
            LONGHAUL_KEEP_CANCELLED_DAYS, or say --completed-days, --failed-days or --cancelled-days";
        return Err(CliError::Usage(message.to_owned()).into());
    }
    let store = Store::new(&config::database(&source)?).context("could not open the database")?;
    let done = if args.dry_run {
        tell(&store, &kept, args.format).await
    } else {
        prune(&store, &kept, args.format).await
    };
    store.close().await;
    done
}

async fn due_jobs(store: &Store, kept: &Retention) -> Result<Vec<DueJobs>> {
    let hint = "could not read what is due; has a server of this release ever used this database?";
    let mut due = Vec::new();
    for (status, kept) in kept.periods() {
        due.push(store.due_jobs(status, kept).await.context(hint)?);
    }
    Ok(due)
}

async fn tell(store: &Store, kept: &Retention, format: FormatArgs) -> Result<Exit> {
    let (due, bytes) = (due_jobs(store, kept).await?, store.bytes_of_a_job().await?);
    let mut out = io::stdout().lock();
    let for_machines = || {
        let of = |one: &DueJobs| json!({"status": one.status, "jobs": one.jobs, "under_way": one.under_way, "oldest_at": one.oldest_at});
        let all: i64 = due.iter().map(|one| one.jobs).sum();
        let due: Vec<Value> = due.iter().map(of).collect();
        json!({"dry_run": true, "due": due, "jobs": all, "bytes": estimate(all, bytes)})
    };
    if format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    let rows = due.iter().map(|one| {
        let oldest = one.oldest_at.map_or_else(String::new, |at| at.format("%Y-%m-%d").to_string());
        let about = format!("{} kB", thousands(estimate(one.jobs, bytes) / 1000));
        vec![one.status.word(), thousands(one.jobs), about, oldest, thousands(one.under_way)]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let header = ["STATUS", ">WOULD GO", ">ABOUT", "OLDEST ENDED", ">STILL UNDER WAY"];
    for line in render::table(&header, &rows, Paint::for_stdout()) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Ok)
}

/// About how many bytes so many jobs take.
fn estimate(jobs: i64, bytes_of_a_job: f64) -> i64 {
    (jobs as f64 * bytes_of_a_job).max(0.0) as i64
}

async fn prune(store: &Store, kept: &Retention, format: FormatArgs) -> Result<Exit> {
    let hint = "could not prune; has a server of this release ever used this database?";
    let mut marked = 0;
    for (status, kept) in kept.periods() {
        marked += mark(store, status, kept).await.context(hint)?;
    }
    if marked > 0 {
        eprintln!(
            "{} marked; they go in a few seconds, when no submit from before is under way",
            jobs(marked)
        );
    }
    let (mut gone, mut last_at, mut limit) = (Buried::default(), Instant::now(), BATCH_MAX);
    while last_at.elapsed() < PATIENCE {
        let batch = match store.bury_marked(kept, limit).await {
            Err(error) if error.may_pass() => {
                limit = (limit / 2).max(1);
                tokio::time::sleep(LOOK).await;
                continue;
            }
            batch => batch.context(hint)?,
        };
        limit = (limit * 2).min(BATCH_MAX);
        gone = gone.and(batch);
        if batch.pruned() > 0 {
            last_at = Instant::now();
            eprintln!("{} pruned", jobs(gone.pruned()));
        } else if store.marked_jobs(kept).await.context(hint)? == 0 {
            break;
        } else {
            tokio::time::sleep(LOOK).await;
        }
    }
    let left: i64 = due_jobs(store, kept).await?.iter().map(|due| due.jobs + due.under_way).sum();
    let mut out = io::stdout().lock();
    let for_machines = || {
        let pruned = json!({"completed": gone.completed, "failed": gone.failed, "cancelled": gone.cancelled});
        json!({"dry_run": false, "pruned": pruned, "jobs": gone.pruned(), "left": left})
    };
    if format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    let all = gone.pruned();
    let Buried { completed, failed, cancelled, .. } = gone;
    writeln!(
        out,
        "{} pruned: {completed} completed, {failed} failed, {cancelled} cancelled",
        jobs(all)
    )?;
    if left > 0 {
        writeln!(
            out,
            "{} stay for now: something of them is still under way, or they could not be pruned",
            jobs(left)
        )?;
    }
    Ok(Exit::Ok)
}

/// Marks all that is due of the jobs that ended in one way.
async fn mark(store: &Store, status: Status, kept: Duration) -> Result<i64> {
    let (mut marked, mut after) = (0, None);
    loop {
        let step = store.mark_due(status, kept, after.as_ref(), LOOK_MAX).await?;
        marked += step.marked;
        match step.last.filter(|_| step.looked == LOOK_MAX) {
            Some(last) => after = Some(last),
            None => return Ok(marked),
        }
    }
}
