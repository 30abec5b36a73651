//! `longhaul usage`: what model calls used and cost, by day, model, label or job.
//!
//! In come a span of time, a grouping and which jobs; out goes a table with its sum, or one JSON object.
//! What is not known is said: a cost is `≥` where calls have no known price, never less than it is.

use std::io::{self, Write as _};

use anyhow::Result;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use clap::Args;
use prost_types::Timestamp;
use serde_json::{Value, json};

use super::{
    client::{ClientArgs, call_error},
    columns::{Columns, Give},
    exit::Exit,
    json, list,
    render::{self, Paint, clip, money, one_line, thousands},
};
use crate::rpc::proto::{
    GetUsageRequest, GetUsageResponse, JobSelector, JobStatus, UsageGrouping, UsageRow,
};

/// The most rows the server puts on one page.
const PAGE: usize = 1000;

/// Show what model calls used and cost
#[derive(Args, Debug)]
pub struct UsageArgs {
    /// Only calls begun on this day or later: 2026-11-01, in UTC, a time such as 2026-11-01T08:00:00Z, or 7d ago;
    /// by default 30 days before the end
    #[arg(long, visible_alias = "since", value_name = "WHEN", value_parser = moment)]
    from: Option<DateTime<Utc>>,
    /// Only calls begun before this day or time; by default all until now
    #[arg(long, visible_alias = "until", value_name = "WHEN", value_parser = moment)]
    before: Option<DateTime<Utc>>,
    /// What each line stands for: `day`, `model`, `job`, `label:KEY`, or `none` for everything together
    #[arg(long, value_name = "WHAT", default_value = "day", value_parser = grouping)]
    by: Grouping,
    /// Only calls of jobs in this status; may be repeated, or be several with commas between
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = list::status)]
    status: Vec<JobStatus>,
    /// Only calls of jobs with this label; may be repeated, and then all must match
    #[arg(long, value_name = "KEY=VALUE", value_parser = list::label)]
    label: Vec<(String, String)>,
    /// How many lines at most; the sum is over all of them in any case
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    client: ClientArgs,
}

/// What each line stands for, and the label if that is a label's value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grouping {
    by: UsageGrouping,
    label_key: String,
}

/// Runs the command.
pub async fn run(args: UsageArgs) -> Result<Exit> {
    let limit = args.limit as usize;
    let request = GetUsageRequest {
        from_at: args.from.map(timestamp),
        before_at: args.before.map(timestamp),
        group_by: args.by.by.into(),
        label_key: args.by.label_key.clone(),
        selector: Some(JobSelector {
            statuses: args.status.iter().map(|status| *status as i32).collect(),
            labels: args.label.into_iter().collect(),
            ..JobSelector::default()
        }),
        ..GetUsageRequest::default()
    };
    let report = fetch(&args.client, request, limit).await?;
    let mut out = io::stdout().lock();
    if args.client.format.told(&mut out, || in_json(&report))? {
        return Ok(Exit::Ok);
    }
    // A pipe gets whole lines.
    let wide = render::terminal_size().map_or(usize::MAX, |(wide, _)| wide);
    for line in lines(&report, &args.by, wide, Paint::for_stdout()) {
        writeln!(out, "{line}")?;
    }
    if !report.next_page_token.is_empty() {
        eprintln!("there are more lines; see them with --limit");
    }
    Ok(Exit::Ok)
}

/// Page after page, up to so many rows; the token of the next page is left where there are more.
async fn fetch(
    args: &ClientArgs,
    mut request: GetUsageRequest,
    limit: usize,
) -> Result<GetUsageResponse> {
    let mut client = args.connect().await?;
    let mut rows: Vec<UsageRow> = Vec::new();
    loop {
        request.page_size = (limit - rows.len()).min(PAGE) as i32;
        let page = client.get_usage(request.clone()).await.map_err(call_error)?.into_inner();
        rows.extend(page.rows);
        if page.next_page_token.is_empty() || rows.len() >= limit {
            return Ok(GetUsageResponse { rows, ..page });
        }
        request.page_token = page.next_page_token;
    }
}

fn in_json(report: &GetUsageResponse) -> Value {
    json!({
        "from_at": json::time(report.from_at.as_ref()),
        "before_at": json::time(report.before_at.as_ref()),
        "rows": report.rows.iter().map(row_in_json).collect::<Vec<_>>(),
        "total": report.total.as_ref().map(row_in_json),
        "has_more": !report.next_page_token.is_empty(),
    })
}

fn row_in_json(row: &UsageRow) -> Value {
    json!({
        "key": row.key,
        "usage": row.usage.as_ref().map(json::usage),
        "cost_usd": row.cost_usd,
        "unpriced_calls": row.unpriced_calls,
        "lost_calls": row.lost_calls,
    })
}

fn lines(report: &GetUsageResponse, by: &Grouping, wide: usize, paint: Paint) -> Vec<String> {
    let (from, before) = (utc(report.from_at.as_ref()), utc(report.before_at.as_ref()));
    let span = format!("calls begun from {from} to {before} UTC");
    let total = report.total.clone().unwrap_or_default();
    if total.usage.is_none_or(|usage| usage.calls == 0) {
        return vec![format!("no {span}")];
    }
    let what = match by.by {
        UsageGrouping::Day => "DAY",
        UsageGrouping::Model => "MODEL",
        UsageGrouping::Label => "LABEL",
        UsageGrouping::Job => "JOB",
        UsageGrouping::None | UsageGrouping::Unspecified => "",
    };
    let header =
        [what, ">CALLS", ">INPUT", ">CACHE WRITE", ">CACHE READ", ">OUTPUT", ">SEARCHES", ">COST"];
    let places = places_of(report.rows.iter().chain([&total]));
    let rows = report
        .rows
        .iter()
        .filter(|_| !what.is_empty())
        .map(|row| cells(&name(row, by), row, places));
    let rows: Vec<Vec<String>> = rows.chain([cells("total", &total, places)]).collect();
    let gives = [
        Give::Shrink(what, 20),
        Give::Drop("SEARCHES"),
        Give::Drop("CACHE WRITE"),
        Give::Drop("CACHE READ"),
        Give::Shrink(what, 12),
    ];
    let as_is = |_: &str, cell: &str| cell.to_owned();
    let table = Columns::new(header.to_vec(), rows).lines(wide, &gives, as_is, Paint::plain());
    let last = table.len() - 1;
    let painted = table.iter().enumerate().map(|(index, line)| match index {
        0 => paint.dim(line),
        _ if index == last => paint.bold(line),
        _ => line.clone(),
    });
    let notes = notes(&total).into_iter().map(|note| paint.yellow(&note));
    std::iter::once(paint.dim(&clip(&span, wide))).chain(painted).chain(notes).collect()
}

fn cells(name: &str, row: &UsageRow, places: usize) -> Vec<String> {
    let usage = row.usage.unwrap_or_default();
    vec![
        name.to_owned(),
        thousands(usage.calls.into()),
        thousands(usage.input_tokens),
        thousands(usage.cache_write_5m_tokens + usage.cache_write_1h_tokens),
        thousands(usage.cache_read_tokens),
        thousands(usage.output_tokens),
        thousands(usage.web_searches.into()),
        cost(row, places),
    ]
}

/// As many places as the finest of the costs needs, so that their points stand below each other.
fn places_of<'a>(rows: impl Iterator<Item = &'a UsageRow>) -> usize {
    let places =
        rows.map(|row| money(&row.cost_usd, 0).split_once('.').map_or(0, |(_, cents)| cents.len()));
    places.max().unwrap_or_default()
}

fn cost(row: &UsageRow, places: usize) -> String {
    let cost = money(&row.cost_usd, row.unpriced_calls);
    let (dollars, cents) = cost.split_once('.').unwrap_or((&cost, ""));
    if cents.is_empty() { cost } else { format!("{dollars}.{cents:0<places$}") }
}

fn name(row: &UsageRow, by: &Grouping) -> String {
    if by.by == UsageGrouping::Label {
        let value = if row.key.is_empty() { "(none)" } else { &row.key };
        return clip(&one_line(&format!("{}={value}", by.label_key)), 40);
    }
    clip(&one_line(&row.key), 40)
}

/// What the costs leave out.
fn notes(total: &UsageRow) -> Vec<String> {
    let mut notes = Vec::new();
    if total.unpriced_calls > 0 {
        let unpriced = thousands(total.unpriced_calls.into());
        notes.push(format!(
            "calls without a known cost: {unpriced}; a cost with ≥ is at least that much"
        ));
    }
    if total.lost_calls > 0 {
        let lost = thousands(total.lost_calls.into());
        notes.push(format!("calls whose server died before their end was known: {lost}"));
    }
    notes
}

fn utc(at: Option<&Timestamp>) -> String {
    at.and_then(|at| DateTime::from_timestamp(at.seconds, 0))
        .map_or_else(String::new, |at| at.format("%Y-%m-%d %H:%M").to_string())
}

/// The moment as it is sent.
pub(super) fn timestamp(at: DateTime<Utc>) -> Timestamp {
    Timestamp { seconds: at.timestamp(), nanos: at.timestamp_subsec_nanos() as i32 }
}

/// Reads a day in UTC, a time, or how long ago it was.
pub(super) fn moment(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(ago) = humantime::parse_duration(text.trim()) {
        let at =
            chrono::TimeDelta::from_std(ago).ok().and_then(|ago| now().checked_sub_signed(ago));
        return at.ok_or_else(|| "that is too long ago".to_owned());
    }
    if let Ok(day) = text.parse::<NaiveDate>() {
        return Ok(day.and_time(NaiveTime::MIN).and_utc());
    }
    let at = DateTime::parse_from_rfc3339(text).map(|at| at.to_utc());
    let told = "use a day such as 2026-11-01, a time such as 2026-11-01T08:00:00Z, or 2h or 7d ago";
    at.map_err(|_not_a_time| told.to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever says `2h` means two hours by their own clock"
)]
fn now() -> DateTime<Utc> {
    Utc::now()
}

fn grouping(text: &str) -> Result<Grouping, String> {
    let (by, label_key) = match (text, text.strip_prefix("label:")) {
        ("day", _) => (UsageGrouping::Day, ""),
        ("model", _) => (UsageGrouping::Model, ""),
        ("job", _) => (UsageGrouping::Job, ""),
        ("none", _) => (UsageGrouping::None, ""),
        (_, Some(key)) if !key.is_empty() => (UsageGrouping::Label, key),
        (_, _) => return Err("use day, model, job, label:KEY or none".to_owned()),
    };
    Ok(Grouping { by, label_key: label_key.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::proto::Usage;

    fn row(key: &str, calls: i32, cost_usd: &str, unpriced_calls: i32) -> UsageRow {
        let usage = Usage {
            calls,
            input_tokens: 1_200,
            output_tokens: 34,
            cache_read_tokens: 5,
            ..Usage::default()
        };
        let cost_usd = cost_usd.to_owned();
        UsageRow {
            key: key.to_owned(),
            usage: Some(usage),
            cost_usd,
            unpriced_calls,
            lost_calls: 0,
        }
    }

    fn report(rows: Vec<UsageRow>, total: UsageRow) -> GetUsageResponse {
        GetUsageResponse {
            rows,
            total: Some(total),
            from_at: Some(Timestamp { seconds: 1_795_910_400, nanos: 0 }),
            before_at: Some(Timestamp { seconds: 1_796_083_200, nanos: 0 }),
            next_page_token: String::new(),
        }
    }

    #[test]
    fn a_report_lines_up_ends_with_its_sum_and_says_what_is_not_known() {
        let rows = vec![row("claude-sonnet-5-5", 12, "0.2304", 0), row("其他", 1, "0", 1)];
        let total = UsageRow { lost_calls: 1, ..row("", 13, "0.2304", 1) };
        let by = grouping("model").unwrap();
        assert_eq!(
            lines(&report(rows, total), &by, 200, Paint::plain()),
            [
                "calls begun from 2026-11-29 00:00 to 2026-12-01 00:00 UTC",
                "MODEL              CALLS  INPUT  CACHE WRITE  CACHE READ  OUTPUT  SEARCHES       COST",
                "claude-sonnet-5-5     12  1,200            0           5      34         0    $0.2304",
                "其他                   1  1,200            0           5      34         0  ≥ $0.0000",
                "total                 13  1,200            0           5      34         0  ≥ $0.2304",
                "calls without a known cost: 1; a cost with ≥ is at least that much",
                "calls whose server died before their end was known: 1",
            ]
        );
    }

    #[test]
    fn a_report_without_calls_is_one_line_and_one_of_everything_has_only_its_sum() {
        let none = grouping("none").unwrap();
        let empty = UsageRow { usage: Some(Usage::default()), ..row("", 0, "0", 0) };
        let told = lines(&report(Vec::new(), empty), &none, 200, Paint::plain());
        assert_eq!(told, ["no calls begun from 2026-11-29 00:00 to 2026-12-01 00:00 UTC"]);
        let whole = report(vec![row("", 2, "1", 0)], row("", 2, "1", 0));
        assert_eq!(lines(&whole, &none, 200, Paint::plain()).len(), 3);
        assert!(
            lines(&whole, &none, 40, Paint::plain()).iter().all(|line| render::width(line) <= 40)
        );
    }

    #[test]
    fn a_label_is_told_with_its_name() {
        let by = grouping("label:team").unwrap();
        assert_eq!(name(&row("a", 1, "0", 0), &by), "team=a");
        assert_eq!(name(&row("", 1, "0", 0), &by), "team=(none)");
        assert!(grouping("label:").is_err() && grouping("week").is_err());
    }

    #[test]
    fn a_day_begins_at_midnight_in_utc() {
        let at = |text| moment(text).map(|at| at.timestamp());
        assert_eq!(at("2026-11-29"), Ok(1_795_910_400));
        assert_eq!(at("2026-11-29T02:00:00+02:00"), Ok(1_795_910_400));
        assert!(at("yesterday").is_err() && at("900000y").is_err());
        let (before, ago) = (now(), moment("2h 30m").unwrap());
        let span = chrono::TimeDelta::minutes(150);
        assert!(before <= ago + span && ago + span <= now(), "by the clock of whoever asks");
    }
}
