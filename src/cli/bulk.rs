//! `longhaul pause, resume, cancel, retry` of many jobs at once: those that `--where` and its like pick.
//!
//! In come a selector and an action; out goes how many jobs it changed, after a look at how many it would.
//! Nothing is changed before somebody at a terminal has said yes, or `--yes` has; then page follows page to the end.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::json;

use super::client::{Client, ClientArgs, call_error};
use super::exit::{CliError, Exit};
use super::format::FormatArgs;
use super::render::{jobs, one_line, thousands};
use super::{list, usage};
use crate::rpc::proto::{
    ControlJobsRequest, ControlJobsResponse, JobSelector, JobStatus, control_jobs_request::Action,
};

/// So many of the jobs that could not be moved are named to a person.
const NAMED: usize = 10;

/// Which jobs, instead of one, and how carefully.
#[derive(Args, Debug)]
pub struct PickArgs {
    /// All jobs of which this is so: status=STATUS or label.KEY=VALUE; may be repeated, and then all must hold, but of
    /// several statuses any
    #[arg(id = "where", long = "where", value_name = "WHAT=VALUE", value_parser = condition)]
    conditions: Vec<Condition>,
    /// All jobs submitted on this day or later: 2026-11-01, in UTC, a time such as 2026-11-01T08:00:00Z, or 2h ago
    #[arg(long, visible_alias = "since", value_name = "WHEN", value_parser = usage::moment)]
    created_from: Option<DateTime<Utc>>,
    /// All jobs submitted before this day or time
    #[arg(long, visible_alias = "until", value_name = "WHEN", value_parser = usage::moment)]
    created_before: Option<DateTime<Utc>>,
    /// Only tell how many jobs these are
    #[arg(long, conflicts_with = "job")]
    dry_run: bool,
    /// Tell nobody, neither people nor endpoints, what becomes of them
    #[arg(long, conflicts_with = "job")]
    silent: bool,
    /// Do not ask first
    #[arg(long, conflicts_with = "job")]
    yes: bool,
}

/// What must be so of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Status(JobStatus),
    Label(String, String),
}

/// Does an action to all jobs that are picked.
pub async fn run(
    pick: PickArgs,
    request_id: String,
    client: &ClientArgs,
    action: Action,
) -> Result<Exit> {
    let verb = verb(&action);
    let (dry_run, is_sure, silent) = (pick.dry_run, pick.yes, pick.silent);
    let request = ControlJobsRequest {
        selector: Some(pick.into_selector()),
        silent,
        request_id,
        action: Some(action),
        ..ControlJobsRequest::default()
    };
    let mut server = client.connect().await?;
    let would = ControlJobsRequest { dry_run: true, ..request.clone() };
    let would = server.control_jobs(would).await.map_err(call_error)?.into_inner();
    let many = many(&would);
    if dry_run {
        let told = || json!({"matched": would.matched, "more": would.more, "dry_run": true});
        if !client.format.told(&mut io::stdout(), told)? {
            writeln!(io::stdout(), "would {verb} {many}")?;
        }
        return Ok(Exit::Ok);
    }
    if would.matched > 0 && !is_sure && !confirm(format!("{verb} {many}?")).await? {
        eprintln!("nothing was changed");
        return Ok(Exit::Ok);
    }
    let done = finish(&mut server, request, would.matched).await?;
    tell(&done, verb, client.format)?;
    Ok(if done.refused > 0 { Exit::Refused } else { Exit::Ok })
}

/// Page after page, to the end; answers the sum.
async fn finish(
    server: &mut Client,
    mut request: ControlJobsRequest,
    matched: i32,
) -> Result<ControlJobsResponse> {
    let mut sum = ControlJobsResponse::default();
    let is_shown = io::stderr().is_terminal();
    loop {
        let page = server.control_jobs(request.clone()).await;
        let page = page.inspect_err(|_| {
            if sum.changed > 0 {
                eprintln!("{} were changed before this went wrong", jobs(sum.changed));
            }
        });
        let page = page.map_err(call_error)?.into_inner();
        sum.matched += page.matched;
        sum.changed += page.changed;
        sum.refused += page.refused;
        sum.refused_job_ids.extend(page.refused_job_ids);
        if is_shown && page.more {
            let (tried, all) = (sum.matched, matched.max(sum.matched));
            eprintln!("{} of {}", thousands(tried.into()), thousands(all.into()));
        }
        if !page.more {
            return Ok(sum);
        }
        request.page_token = page.next_page_token;
    }
}

fn tell(done: &ControlJobsResponse, verb: &str, format: FormatArgs) -> Result<()> {
    let mut out = io::stdout();
    let told = || {
        json!({"matched": done.matched, "changed": done.changed, "refused": done.refused,
            "refused_job_ids": done.refused_job_ids})
    };
    if format.told(&mut out, told)? {
        return Ok(());
    }
    writeln!(out, "{}", summary(done, verb))?;
    for job_id in done.refused_job_ids.iter().take(NAMED) {
        eprintln!("could not {verb} {}", one_line(job_id));
    }
    if done.refused > 0 {
        eprintln!("`longhaul {verb} JOB` tells why");
    }
    Ok(())
}

fn summary(done: &ControlJobsResponse, verb: &str) -> String {
    if done.matched == 0 {
        return format!("no job to {verb}");
    }
    let unchanged = done.matched - done.changed - done.refused;
    let mut told = format!("{verb}: {} changed", jobs(done.changed));
    for (count, what) in [(unchanged, "were so already"), (done.refused, "could not be")] {
        if count > 0 {
            told = format!("{told}, {} {what}", thousands(count.into()));
        }
    }
    told
}

/// Whether a person at the terminal says yes.
async fn confirm(question: String) -> Result<bool> {
    if !io::stdin().is_terminal() {
        let why =
            "nobody is there to be asked: say --yes to change the jobs, or --dry-run to count them";
        return Err(CliError::Usage(why.to_owned()).into());
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = line.await?.context("reading the answer")?;
    Ok(["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()))
}

fn verb(action: &Action) -> &'static str {
    match action {
        Action::Pause(_) => "pause",
        Action::Resume(_) => "resume",
        Action::Cancel(_) => "cancel",
        Action::Retry(_) => "retry",
    }
}

/// How many jobs an answer to a dry run means.
fn many(would: &ControlJobsResponse) -> String {
    let least = if would.more { "more than " } else { "" };
    format!("{least}{}", jobs(would.matched))
}

impl PickArgs {
    fn into_selector(self) -> JobSelector {
        let mut selector = JobSelector {
            created_from: self.created_from.map(usage::timestamp),
            created_before: self.created_before.map(usage::timestamp),
            ..JobSelector::default()
        };
        for condition in self.conditions {
            match condition {
                Condition::Status(status) => selector.statuses.push(status.into()),
                Condition::Label(key, value) => {
                    selector.labels.insert(key, value);
                }
            }
        }
        selector
    }
}

/// Reads what must be so of a job.
fn condition(text: &str) -> Result<Condition, String> {
    let usage = || "use status=STATUS or label.KEY=VALUE".to_owned();
    if let Some(status) = text.strip_prefix("status=") {
        return list::status(status).map(Condition::Status);
    }
    let label = text.strip_prefix("label.").ok_or_else(usage)?;
    list::label(label).map(|(key, value)| Condition::Label(key, value)).map_err(|_why| usage())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_status_or_a_label() {
        assert_eq!(condition("status=failed"), Ok(Condition::Status(JobStatus::Failed)));
        let label = Condition::Label("team".to_owned(), "a=b".to_owned());
        assert_eq!(condition("label.team=a=b"), Ok(label));
        assert!(condition("status=done").is_err_and(|why| why.contains("awaiting_approval")));
        for bad in ["failed", "label.=x", "label.x", "task=x", ""] {
            assert!(condition(bad).is_err_and(|why| why.contains("label.KEY=VALUE")), "{bad}");
        }
    }

    #[test]
    fn what_was_done_is_told_in_a_line() {
        let done = |matched, changed, refused| {
            summary(
                &ControlJobsResponse { matched, changed, refused, ..Default::default() },
                "cancel",
            )
        };
        assert_eq!(done(0, 0, 0), "no job to cancel");
        assert_eq!(done(1, 1, 0), "cancel: 1 job changed");
        assert_eq!(
            done(1300, 1200, 3),
            "cancel: 1,200 jobs changed, 97 were so already, 3 could not be"
        );
        let would =
            |matched, more| many(&ControlJobsResponse { matched, more, ..Default::default() });
        assert_eq!([would(1, false), would(100_000, true)], ["1 job", "more than 100,000 jobs"]);
    }
}
