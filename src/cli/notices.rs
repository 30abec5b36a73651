//! `longhaul notices`: what people and endpoints were told, and having it sent again where it did not arrive.
//!
//! In come filters, or the ids of notices; out goes a table, or one JSON object.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tonic::Code;

use super::{
    client::{Client, ClientArgs, call_error, in_words},
    columns::{Columns, Give},
    exit::Exit,
    json,
    render::{self, Paint, clip, local_time, one_line},
    word,
};
use crate::rpc::proto::{
    Delivery, JobNotice, ListNoticesRequest, Notice, NoticeKind, ResendNoticeRequest,
    ResendNoticeResponse,
};

/// The most notices the server puts on one page.
const PAGE: usize = 200;
const NOT_ARRIVED: [Delivery; 2] = [Delivery::Failed, Delivery::Unconfirmed];

/// List what people and endpoints were told, newest first, or have it sent again
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NoticesArgs {
    #[command(subcommand)]
    action: Option<NoticesAction>,
    #[command(flatten)]
    list: ListNoticesArgs,
}

#[derive(Debug, Subcommand)]
enum NoticesAction {
    /// Have notices sent again that failed or are unconfirmed; a request for a decision gets fresh links
    Resend(ResendArgs),
}

#[derive(Args, Debug)]
struct ListNoticesArgs {
    /// Only what failed, or of which nobody knows whether it arrived
    #[arg(long, conflicts_with = "delivery")]
    failed: bool,
    /// Only notices that have come so far; may be repeated, or be several with commas between
    #[arg(long, value_name = "DELIVERY", value_delimiter = ',', value_parser = delivery)]
    delivery: Vec<Delivery>,
    /// Only notices of this kind; may be repeated, or be several with commas between
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kind: Vec<NoticeKind>,
    /// Only notices of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only notices to this person or endpoint: a number, a name, or `webhook:NAME`
    #[arg(long, value_name = "WHO")]
    to: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Args, Debug)]
struct ResendArgs {
    /// The ids of the notices
    #[arg(value_name = "NOTICE", required_unless_present = "failed")]
    notices: Vec<String>,
    /// All that failed or are unconfirmed, but for those that were overtaken
    #[arg(long, conflicts_with = "notices")]
    failed: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub async fn run(args: NoticesArgs) -> Result<Exit> {
    match args.action {
        Some(NoticesAction::Resend(args)) => resend(args).await,
        None => list(args.list).await,
    }
}

async fn list(args: ListNoticesArgs) -> Result<Exit> {
    let mut client = args.client.connect().await?;
    let deliveries = if args.failed { NOT_ARRIVED.to_vec() } else { args.delivery };
    let request = ListNoticesRequest {
        job_id: args.job.unwrap_or_default(),
        deliveries: deliveries.iter().map(|one| *one as i32).collect(),
        kinds: args.kind.iter().map(|one| *one as i32).collect(),
        recipient: args.to.unwrap_or_default(),
        ..ListNoticesRequest::default()
    };
    let (notices, has_more) = fetch(&mut client, request, args.limit as usize).await?;
    let mut out = io::stdout().lock();
    let for_machines = || {
        let notices: Vec<_> = notices.iter().map(in_json).collect();
        json!({"notices": notices, "has_more": has_more})
    };
    if args.client.format.told(&mut out, for_machines)? {
        return Ok(Exit::Ok);
    }
    // A pipe gets whole lines.
    let wide = render::terminal_size().map_or(usize::MAX, |(wide, _)| wide);
    for line in lines(&notices, wide, Paint::for_stdout()) {
        writeln!(out, "{line}")?;
    }
    if has_more {
        eprintln!("there are more; see them with --limit");
    }
    Ok(Exit::Ok)
}

/// Page after page, up to so many; and whether there are more.
async fn fetch(
    client: &mut Client,
    mut request: ListNoticesRequest,
    limit: usize,
) -> Result<(Vec<JobNotice>, bool)> {
    let mut notices: Vec<JobNotice> = Vec::new();
    loop {
        request.page_size = (limit - notices.len()).min(PAGE) as i32;
        let page = client.list_notices(request.clone()).await.map_err(call_error)?.into_inner();
        notices.extend(page.notices);
        if page.next_page_token.is_empty() || notices.len() >= limit {
            return Ok((notices, !page.next_page_token.is_empty()));
        }
        request.page_token = page.next_page_token;
    }
}

async fn resend(args: ResendArgs) -> Result<Exit> {
    let mut client = args.client.connect().await?;
    let ids = if args.failed {
        let deliveries = NOT_ARRIVED.map(|one| one as i32).into();
        let request = ListNoticesRequest { deliveries, ..ListNoticesRequest::default() };
        let (notices, _) = fetch(&mut client, request, usize::MAX).await?;
        notices.into_iter().filter_map(|one| one.notice).map(|one| one.notice_id).collect()
    } else {
        args.notices
    };
    let mut out = io::stdout().lock();
    let mut resent = Vec::new();
    for notice_id in ids {
        let request = ResendNoticeRequest { notice_id: notice_id.clone() };
        let reply = match client.resend_notice(request).await {
            Ok(reply) => reply.into_inner(),
            // Of all there are, some were overtaken, which is no reason to leave the others.
            Err(status) if args.failed && status.code() == Code::FailedPrecondition => {
                eprintln!("{notice_id}: {}", in_words(&status));
                continue;
            }
            Err(status) => return Err(call_error(status)),
        };
        if args.client.format.is_for_people() {
            writeln!(out, "{}", told(&reply)?)?;
        }
        resent.push(reply);
    }
    let for_machines = || {
        let resent = resent.iter().map(
            |reply| json!({"notice": reply.notice.as_ref().map(in_json), "changed": reply.changed}),
        );
        json!({"resent": resent.collect::<Vec<_>>()})
    };
    if !args.client.format.told(&mut out, for_machines)? && resent.is_empty() {
        writeln!(out, "nothing to send again")?;
    }
    Ok(Exit::Ok)
}

fn told(reply: &ResendNoticeResponse) -> Result<String> {
    let listed = reply.notice.as_ref().context("the server answered without a notice")?;
    let notice = listed.notice.as_ref().context("the server answered without a notice")?;
    let kind = word::notice_kind(notice.kind).replace('_', " ");
    let what = if reply.changed { "will be sent again" } else { "waits to be sent already" };
    let job = one_line(&listed.job_id);
    Ok(format!("{} {kind} to {} of {job}: {what}", notice.notice_id, notice.recipient))
}

/// What has become of a notice, as a line among those of a job's history.
pub fn line(notice: &Notice) -> String {
    let time = local_time(notice.updated_at.as_ref());
    let kind = word::notice_kind(notice.kind).replace('_', " ");
    let what =
        format!("{kind} to {}: {}", one_line(&notice.recipient), word::delivery(notice.delivery));
    let why = one_line(&clip(&notice.error, 200));
    let why = if why.is_empty() { why } else { format!(", {why}") };
    format!("{time}  notice  {what}{why}")
}

fn in_json(listed: &JobNotice) -> Value {
    json!({"job_id": listed.job_id, "notice": listed.notice.as_ref().map(json::notice)})
}

fn lines(notices: &[JobNotice], wide: usize, paint: Paint) -> Vec<String> {
    if notices.is_empty() {
        return vec!["no notices".to_owned()];
    }
    let rows: Vec<Vec<String>> = notices.iter().map(row).collect();
    let header = ["NOTICE", "JOB", "KIND", "TO", "DELIVERY", ">TRIES", "WRITTEN", "ERROR"];
    // The id is what `resend` takes, so it is the last to be cut.
    let gives = [
        Give::Shrink("ERROR", 16),
        Give::Shrink("WRITTEN", 16),
        Give::Drop("TRIES"),
        Give::Drop("WRITTEN"),
        Give::Shrink("JOB", 12),
        Give::Drop("ERROR"),
        Give::Shrink("KIND", 8),
        Give::Shrink("TO", 8),
    ];
    let dress = |title: &str, cell: &str| match (title, cell) {
        ("DELIVERY", "failed") => paint.red(cell),
        ("DELIVERY", "unconfirmed") => paint.yellow(cell),
        _ => cell.to_owned(),
    };
    Columns::new(header.to_vec(), rows).lines(wide, &gives, dress, paint)
}

fn row(listed: &JobNotice) -> Vec<String> {
    let notice = listed.notice.clone().unwrap_or_default();
    vec![
        notice.notice_id,
        clip(&one_line(&listed.job_id), 40),
        word::notice_kind(notice.kind),
        one_line(&notice.recipient),
        word::delivery(notice.delivery),
        notice.tries.to_string(),
        local_time(notice.created_at.as_ref()),
        one_line(&clip(&notice.error, 200)),
    ]
}

fn delivery(text: &str) -> Result<Delivery, String> {
    word::find_delivery(text).ok_or_else(|| {
        "use pending, sending, sent, delivered, read, failed, superseded or unconfirmed".to_owned()
    })
}

fn kind(text: &str) -> Result<NoticeKind, String> {
    word::find_notice_kind(text).ok_or_else(|| {
        "use approval_requested, completed, failed, cancelled or another kind of notice".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_did_not_arrive_and_why() {
        let notice = Notice {
            recipient: "webhook:ops".to_owned(),
            kind: NoticeKind::Failed as i32,
            delivery: Delivery::Failed as i32,
            error: "it answered 410".to_owned(),
            notice_id: "0193".to_owned(),
            tries: 2,
            ..Notice::default()
        };
        let listed = JobNotice { job_id: "a".to_owned(), notice: Some(notice) };
        assert_eq!(
            lines(std::slice::from_ref(&listed), 200, Paint::plain()),
            [
                "NOTICE  JOB  KIND    TO           DELIVERY  TRIES  WRITTEN  ERROR",
                "0193    a    failed  webhook:ops  failed        2           it answered 410",
            ]
        );
        let line = line(listed.notice.as_ref().unwrap());
        assert!(
            line.ends_with("  notice  failed to webhook:ops: failed, it answered 410"),
            "{line}"
        );
        assert_eq!(lines(&[], 80, Paint::plain()), ["no notices"]);
    }

    #[test]
    fn a_wrong_word_says_which_are_right() {
        assert_eq!(delivery("failed"), Ok(Delivery::Failed));
        assert!(delivery("lost").unwrap_err().contains("unconfirmed"));
        assert!(kind("done").unwrap_err().contains("completed"));
    }
}
