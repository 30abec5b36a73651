//! `longhaul get`: shows one job, or one step's output.
//!
//! In comes a job's id; out go how it stands, its steps, its pending approval, its output and its notices.
//! With `--step` stdout holds that step's whole output and nothing else, so that it can be piped.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;

use super::{
    answer::Arriving,
    client::{ClientArgs, call_error},
    exit::Exit,
    json,
    progress::{self, View},
    render::{self, Paint, clip, harmless, local_time, money, one_line, pad},
    word,
};
use crate::rpc::proto::{GetJobRequest, Job};

/// Show a job
#[derive(Args, Debug)]
pub struct GetArgs {
    /// The job's id
    job: String,
    /// Print this step's whole output and nothing else
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    step: Option<i32>,
    /// Wait up to so many seconds until the job stands still or has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(i32).range(0..=60))]
    wait: i32,
    /// Also show fresh links to the page of the pending approval, one for each approver; who has a link can decide
    #[arg(long)]
    links: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub async fn run(args: GetArgs) -> Result<Exit> {
    let mut client = args.client.connect().await?;
    let request = GetJobRequest {
        job_id: args.job,
        step: args.step.unwrap_or(0),
        include_spec: true,
        wait_seconds: args.wait,
        include_links: args.links,
    };
    let reply = client.get_job(request).await.map_err(call_error)?.into_inner();
    let job = reply.job.context("the server answered without a job")?;
    let spec = reply.spec.unwrap_or_default();
    let mut out = io::stdout().lock();
    let for_machines = || json!({"job": json::job(&job), "spec": json::spec(&spec)});
    if args.client.format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    if let Some(number) = args.step {
        let step = job.steps.iter().find(|step| step.step == number);
        let output = &step.context("the server left the step out")?.output;
        // A file gets what the model wrote; a terminal must not be commanded by it.
        let text = if io::stdout().is_terminal() { harmless(output) } else { output.clone() };
        writeln!(out, "{text}")?;
        return Ok(Exit::Ok);
    }
    let wide = render::terminal_size().map_or(120, |(wide, _)| wide);
    let paint = Paint::for_stdout();
    let arriving = Arriving::default();
    let view =
        View { job: &job, steps: &spec.steps, elapsed: None, arriving: &arriving, remark: "" };
    let steps = progress::frame(&view, (wide, usize::MAX), paint);
    for line in steps.into_iter().chain(details(&job, wide, paint)) {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Ok)
}

/// What there is to say about a job below its steps.
fn details(job: &Job, wide: usize, paint: Paint) -> Vec<String> {
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(approval) = &job.approval {
        facts.push(("approval", approval.approval_id.clone()));
        if approval.deadline_at.is_some() {
            facts.push(("decide by", local_time(approval.deadline_at.as_ref())));
        }
        for link in &approval.links {
            facts.push(("link", format!("{} {}", link.url, link.approver)));
        }
    }
    if let Some(error) = &job.last_error {
        facts.push(("last error", format!("{} {}", error.reason, one_line(&error.message))));
    }
    if let Some(usage) = job.usage.as_ref().filter(|usage| usage.calls > 0) {
        facts.push(("tokens", render::tokens(Some(usage))));
        facts.push(("cost", money(&job.cost_usd, job.unpriced_calls)));
    }
    if !job.budget_usd.is_empty() {
        facts.push(("budget", money(&job.budget_usd, 0)));
    }
    facts.push(("submitted", local_time(job.created_at.as_ref())));
    if job.run_at.is_some() {
        facts.push(("goes on", local_time(job.run_at.as_ref())));
    }
    if job.finished_at.is_some() {
        facts.push(("ended", local_time(job.finished_at.as_ref())));
    }
    for notice in &job.notices {
        let kind = word::notice_kind(notice.kind).replace('_', " ");
        let delivery = word::delivery(notice.delivery);
        let error = one_line(&notice.error);
        let told = format!("{kind} to {}: {delivery} {error}", notice.recipient);
        facts.push(("notice", told.trim_end().to_owned()));
    }
    let mut lines = vec![String::new()];
    lines.extend(facts.iter().map(|(name, value)| {
        format!("{}{}", paint.dim(&pad(name, 12)), clip(value, wide.saturating_sub(13)))
    }));
    if !job.output.is_empty() {
        lines.push(String::new());
        lines.push(harmless(&job.output));
    }
    lines.extend(sources(job, paint));
    for step in job.steps.iter().filter(|step| !step.partial_output.is_empty()) {
        lines.push(String::new());
        lines.push(paint.dim(&format!("step {} so far, not whole:", step.step)));
        lines.push(harmless(&step.partial_output));
    }
    lines
}

/// The pages that the output cites, each once.
fn sources(job: &Job, paint: Paint) -> Vec<String> {
    let last = job.steps.iter().rev().find(|step| !step.output.is_empty());
    let mut pages: Vec<(&str, &str)> = Vec::new();
    for citation in last.into_iter().flat_map(|step| &step.citations) {
        if !pages.iter().any(|(url, _)| *url == citation.url) {
            pages.push((&citation.url, &citation.title));
        }
    }
    let listed = pages.iter().enumerate().map(|(number, (url, title))| {
        let (url, title) = (one_line(url), one_line(title));
        format!("[{}] {title} {}", number + 1, paint.dim(&url))
    });
    let listed: Vec<String> = listed.collect();
    if listed.is_empty() { listed } else { [vec![String::new()], listed].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::proto::{Approval, Citation, Delivery, Notice, NoticeKind, StepState, Usage};

    #[test]
    fn the_details_say_what_is_pending_what_it_cost_and_who_was_told() {
        let job = Job {
            approval: Some(Approval { approval_id: "0193".to_owned(), ..Approval::default() }),
            usage: Some(Usage { input_tokens: 3, output_tokens: 4, calls: 1, ..Usage::default() }),
            cost_usd: "0.01".to_owned(),
            notices: vec![Notice {
                recipient: "…0100".to_owned(),
                kind: NoticeKind::ApprovalRequested as i32,
                delivery: Delivery::Sent as i32,
                ..Notice::default()
            }],
            output: "line\nline\u{1b}[2J".to_owned(),
            steps: vec![StepState {
                output: "line".to_owned(),
                citations: [
                    ("https://a.example", "A"),
                    ("https://a.example", "A"),
                    ("https://b.example", "B\nb"),
                ]
                .map(|(url, title)| Citation {
                    url: url.to_owned(),
                    title: title.to_owned(),
                    ..Citation::default()
                })
                .into(),
                ..StepState::default()
            }],
            ..Job::default()
        };
        assert_eq!(
            details(&job, 80, Paint::plain()),
            [
                "",
                "approval    0193",
                "tokens      3 → 4",
                "cost        $0.01",
                "submitted   ",
                "notice      approval requested to …0100: sent",
                "",
                "line\nline[2J",
                "",
                "[1] A https://a.example",
                "[2] B b https://b.example",
            ]
        );
    }
}
