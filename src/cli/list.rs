//! `longhaul list`: the jobs there are, newest first.
//!
//! In come a status, labels, a span of time and how many; out goes a table that fits the terminal, or one JSON object.
//! Pages are fetched until there are as many as asked for, or no more.

use std::io::{self, Write as _};

use anyhow::Result;
use chrono::{DateTime, Utc};
use clap::Args;
use prost_types::Timestamp;
use serde_json::{Value, json};

use super::{
    client::{Client, ClientArgs, call_error},
    columns::{Columns, Give},
    exit::Exit,
    json,
    render::{self, Paint, clip, local_time, money, one_line, thousands},
    usage, word,
};
use crate::rpc::proto::{Job, JobSelector, JobStatus, ListJobsRequest, StatusCount};

/// The most jobs the server puts on one page.
const PAGE: usize = 200;

/// List jobs, newest first
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only jobs in this status; may be repeated, or be several with commas between
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<JobStatus>,
    /// Only jobs with this label; may be repeated, and then all must match
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Only jobs submitted on this day or later: 2026-11-01, in UTC, a time such as 2026-11-01T08:00:00Z, or 2h ago
    #[arg(long, visible_alias = "since", value_name = "WHEN", value_parser = usage::moment)]
    created_from: Option<DateTime<Utc>>,
    /// Only jobs submitted before this day or time
    #[arg(long, visible_alias = "until", value_name = "WHEN", value_parser = usage::moment)]
    created_before: Option<DateTime<Utc>>,
    /// Also tell how many jobs are in each status; with no label and no time
    #[arg(long, conflicts_with_all = ["label", "created_from", "created_before"])]
    counts: bool,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Every one there is
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// What was listed.
struct Listed {
    jobs: Vec<Job>,
    has_more: bool,
    counts: Option<(Vec<StatusCount>, Option<Timestamp>)>,
}

/// Runs the command.
pub async fn run(args: ListArgs) -> Result<Exit> {
    let mut client = args.client.connect().await?;
    let selector = JobSelector {
        statuses: args.status.iter().map(|status| *status as i32).collect(),
        labels: args.label.into_iter().collect(),
        created_from: args.created_from.map(usage::timestamp),
        created_before: args.created_before.map(usage::timestamp),
    };
    let limit = if args.all { usize::MAX } else { args.limit as usize };
    let listed = fetch(&mut client, selector, limit, args.counts).await?;
    let mut out = io::stdout().lock();
    if args.client.format.told(&mut out, || in_json(&listed))? {
        return Ok(Exit::Ok);
    }
    if let Some((counts, _)) = &listed.counts {
        writeln!(out, "{}\n", in_a_line(counts))?;
    }
    // A pipe gets whole lines.
    let wide = render::terminal_size().map_or(usize::MAX, |(wide, _)| wide);
    for line in lines(&listed.jobs, wide, Paint::for_stdout()) {
        writeln!(out, "{line}")?;
    }
    if listed.has_more {
        eprintln!("there are more; see them with --limit or --all");
    }
    Ok(Exit::Ok)
}

/// Page after page, up to so many jobs; the counts come with the first.
async fn fetch(
    client: &mut Client,
    selector: JobSelector,
    limit: usize,
    include_counts: bool,
) -> Result<Listed> {
    let mut request =
        ListJobsRequest { selector: Some(selector), include_counts, ..Default::default() };
    let mut listed = Listed { jobs: Vec::new(), has_more: false, counts: None };
    loop {
        request.page_size = (limit - listed.jobs.len()).min(PAGE) as i32;
        let page = client.list_jobs(request.clone()).await.map_err(call_error)?.into_inner();
        listed.jobs.extend(page.jobs);
        if request.include_counts {
            listed.counts = Some((page.counts, page.counts_as_of));
        }
        request.include_counts = false;
        if page.next_page_token.is_empty() || listed.jobs.len() >= limit {
            listed.has_more = !page.next_page_token.is_empty();
            return Ok(listed);
        }
        request.page_token = page.next_page_token;
    }
}

fn in_json(listed: &Listed) -> Value {
    let jobs: Vec<_> = listed.jobs.iter().map(json::job).collect();
    let mut told = json!({"jobs": jobs, "has_more": listed.has_more});
    if let Some((counts, as_of)) = &listed.counts {
        let counts = counts.iter().map(|one| (word::job_status(one.status), one.count.into()));
        told["counts"] = Value::Object(counts.collect());
        told["counts_as_of"] = json::time(as_of.as_ref());
    }
    told
}

/// How many jobs are in each status.
fn in_a_line(counts: &[StatusCount]) -> String {
    let told = counts.iter().map(|one| {
        let status = word::job_status(one.status).replace('_', " ");
        format!("{} {status}", thousands(one.count))
    });
    told.collect::<Vec<_>>().join(", ")
}

fn lines(jobs: &[Job], wide: usize, paint: Paint) -> Vec<String> {
    if jobs.is_empty() {
        return vec!["no jobs".to_owned()];
    }
    let mut rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    let mut header = vec!["JOB", "STATUS", ">STEP", ">COST", "SUBMITTED", "TASK"];
    // What did not arrive is shown where there is any, so that it stands out.
    if jobs.iter().any(|job| job.undelivered_notices > 0) {
        header.insert(2, ">UNTOLD");
        for (row, job) in rows.iter_mut().zip(jobs) {
            let untold = job.undelivered_notices;
            row.insert(2, if untold > 0 { untold.to_string() } else { String::new() });
        }
    }
    // Ids are for pasting, so they are the last to be cut.
    let gives = [
        Give::Shrink("TASK", 16),
        Give::Shrink("SUBMITTED", 16),
        Give::Shrink("TASK", 10),
        Give::Drop("COST"),
        Give::Drop("SUBMITTED"),
        Give::Drop("TASK"),
        Give::Shrink("JOB", 10),
    ];
    let dress = |title: &str, cell: &str| match (title, word::find_job_status(cell)) {
        ("STATUS", Some(status)) => paint.status(status, cell),
        ("UNTOLD", _) => paint.red(cell),
        _ => cell.to_owned(),
    };
    Columns::new(header, rows).lines(wide, &gives, dress, paint)
}

fn row(job: &Job) -> Vec<String> {
    let has_cost = job.usage.as_ref().is_some_and(|usage| usage.calls > 0);
    vec![
        clip(&one_line(&job.job_id), 40),
        word::job_status(job.status),
        format!("{}/{}", job.current_step, job.step_count),
        if has_cost { money(&job.cost_usd, job.unpriced_calls) } else { String::new() },
        local_time(job.created_at.as_ref()),
        one_line(&clip(&job.task, 200)),
    ]
}

/// Reads a status.
pub(super) fn status(text: &str) -> Result<JobStatus, String> {
    word::find_job_status(text).ok_or_else(|| {
        "use queued, running, awaiting_approval, paused, completed, failed or cancelled".to_owned()
    })
}

/// Reads a label and its value.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "a label is KEY=VALUE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_lines_up_and_fits() {
        let job = |id: &str, task: &str| Job {
            job_id: id.to_owned(),
            task: task.to_owned(),
            status: JobStatus::Queued as i32,
            step_count: 2,
            ..Job::default()
        };
        let jobs = [job("a", "为一款记账App写推广文案"), job("a-long-id", "x\ny")];
        assert_eq!(
            lines(&jobs, 200, Paint::plain()),
            [
                "JOB        STATUS  STEP  COST  SUBMITTED  TASK",
                "a          queued   0/2                   为一款记账App写推广文案",
                "a-long-id  queued   0/2                   x y",
            ]
        );
        let mut untold = jobs.clone();
        untold[1].undelivered_notices = 2;
        assert_eq!(
            lines(&untold, 200, Paint::plain())[1..],
            [
                "a          queued           0/2                   为一款记账App写推广文案",
                "a-long-id  queued       2   0/2                   x y",
            ]
        );
        assert!(lines(&jobs, 50, Paint::plain()).iter().all(|line| render::width(line) <= 50));
        assert_eq!(lines(&[], 80, Paint::plain()), ["no jobs"]);
    }

    #[test]
    fn counts_are_told_in_a_line() {
        let count = |status: JobStatus, count| StatusCount { status: status.into(), count };
        let counts = [count(JobStatus::AwaitingApproval, 0), count(JobStatus::Completed, 12_345)];
        assert_eq!(in_a_line(&counts), "0 awaiting approval, 12,345 completed");
    }

    #[test]
    fn a_label_needs_a_key() {
        assert_eq!(label("team=a=b"), Ok(("team".to_owned(), "a=b".to_owned())));
        assert!(label("=x").is_err() && label("x").is_err());
    }
}
