//! Usage: reports that agree with what each job says of itself, whatever became of its calls, and pages that are stable.

use std::collections::{BTreeMap, HashMap};

use longhaul::rpc::proto::{
    EventKind, GetUsageRequest, GetUsageResponse, JobSelector, JobSettings, JobStatus,
    SubmitJobRequest, UsageGrouping, UsageRow,
};
use prost_types::Timestamp;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::harness::{PATIENCE, Process, Rig, Told, job, run, with};
use crate::program::{Program, SERVE};

async fn try_usage(rig: &Rig, request: GetUsageRequest) -> Result<GetUsageResponse, Status> {
    Ok(rig.grpc.clone().get_usage(request).await?.into_inner())
}

/// A whole report in one page.
async fn usage(rig: &Rig, request: GetUsageRequest) -> GetUsageResponse {
    let report = try_usage(rig, request).await.unwrap();
    assert_eq!(report.next_page_token, "");
    assert_eq!(sum(&report.rows), figures(report.total.as_ref().unwrap()));
    report
}

fn by(grouping: UsageGrouping) -> GetUsageRequest {
    GetUsageRequest { group_by: grouping.into(), ..GetUsageRequest::default() }
}

/// Everything of a row that adds up.
fn figures(row: &UsageRow) -> (Decimal, [i64; 5]) {
    let usage = row.usage.unwrap();
    let (unpriced, lost) = (row.unpriced_calls.into(), row.lost_calls.into());
    let counts = [usage.calls.into(), usage.input_tokens, usage.output_tokens, unpriced, lost];
    (row.cost_usd.parse().unwrap(), counts)
}

fn sum(rows: &[UsageRow]) -> (Decimal, [i64; 5]) {
    rows.iter().map(figures).fold((Decimal::ZERO, [0; 5]), |(cost, counts), (more, others)| {
        (cost + more, std::array::from_fn(|at| counts[at] + others[at]))
    })
}

fn keys(rows: &[UsageRow]) -> Vec<&str> {
    rows.iter().map(|row| row.key.as_str()).collect()
}

/// A job of one step for this model, with this label if there is one.
fn asked(job_id: &str, model: &str, team: Option<&str>) -> SubmitJobRequest {
    let labels = team.map(|team| ("team".to_owned(), team.to_owned())).into_iter().collect();
    let settings = JobSettings { model: model.to_owned(), labels, ..JobSettings::default() };
    with(settings, job(job_id, [run(&format!("Write of {job_id}."))]))
}

const OPUS: &str = "claude-opus-5-5";
const HAIKU: &str = "claude-haiku-5-5";

/// One job whose first call lost its server, three that were answered, and one whose call failed.
async fn filled() -> Rig {
    let rig = Rig::without_server(&[("LONGHAUL_LEASE_SECONDS", "2")]).await;
    let server = Process::serve(&rig, &[]).await;
    rig.sandbox.hold("lost").await;
    server.client.submit(asked("lost", HAIKU, Some("b"))).await;
    rig.sandbox.wait_for("lost", "held", 1).await;
    server.kill9().await;
    let url = rig.db.url.clone();
    let rig = rig.start_at(&url).await;
    rig.event("lost", EventKind::AttemptLost).await;
    rig.sandbox.mend().await;
    rig.settled_as("lost", JobStatus::Completed).await;
    for (job_id, model, team) in
        [("opus-a", OPUS, Some("a")), ("haiku-a", HAIKU, Some("a")), ("haiku-b", HAIKU, Some("b"))]
    {
        rig.submit(asked(job_id, model, team)).await;
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    rig.sandbox.break_model(json!({"status": 400, "matching": "refused"})).await;
    rig.submit(asked("refused", HAIKU, None)).await;
    rig.settled_as("refused", JobStatus::Failed).await;
    rig.sandbox.mend().await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn every_grouping_adds_up_the_same_calls() {
    let rig = filled().await;
    let jobs = usage(&rig, by(UsageGrouping::Job)).await;
    assert_eq!(jobs.rows.len(), 5);
    for row in &jobs.rows {
        let job = rig.job(&row.key).await;
        assert_eq!((&row.cost_usd, row.unpriced_calls), (&job.cost_usd, job.unpriced_calls));
        assert_eq!(row.usage, job.usage, "{}", row.key);
    }
    let costs: Vec<Decimal> = jobs.rows.iter().map(|row| row.cost_usd.parse().unwrap()).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
    assert_eq!(jobs.rows[0].key, "opus-a");
    let find = |key: &str| jobs.rows.iter().find(|row| row.key == key).unwrap();
    assert_eq!((find("refused").unpriced_calls, find("refused").cost_usd.as_str()), (1, "0"));
    assert_eq!((find("lost").lost_calls, find("lost").usage.unwrap().calls), (1, 2));
    let total = figures(jobs.total.as_ref().unwrap());
    assert_eq!(total.1[0], 6);
    assert_eq!(total.1[4], 1);

    let models = usage(&rig, by(UsageGrouping::Model)).await;
    assert_eq!(models.rows.len(), 2);
    let opus = models.rows.iter().find(|row| row.key == OPUS).unwrap();
    assert_eq!(opus.cost_usd, find("opus-a").cost_usd);
    let label_key = "team".to_owned();
    let labels = GetUsageRequest { label_key, ..by(UsageGrouping::Label) };
    let labels = usage(&rig, labels).await;
    let calls: BTreeMap<_, _> =
        labels.rows.iter().map(|row| (row.key.as_str(), row.usage.unwrap().calls)).collect();
    assert_eq!(calls, BTreeMap::from([("", 1), ("a", 2), ("b", 3)]));
    let whole = usage(&rig, by(UsageGrouping::None)).await;
    assert_eq!(keys(&whole.rows), [""]);
    for report in [&models, &labels, &whole] {
        assert_eq!(figures(report.total.as_ref().unwrap()), total);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_of_its_span_and_its_jobs_and_outlives_them() {
    let rig = filled().await;
    rig.db.shift_clock(3 * 86_400).await;
    rig.submit(asked("later", OPUS, Some("a"))).await;
    rig.settled_as("later", JobStatus::Completed).await;
    let days = usage(&rig, by(UsageGrouping::Day)).await;
    let calls: Vec<i32> = days.rows.iter().map(|row| row.usage.unwrap().calls).collect();
    // Midnight may have come between two of the first.
    assert_eq!((calls.iter().sum::<i32>(), calls.last()), (7, Some(&1)), "{calls:?}");
    assert!(keys(&days.rows).is_sorted() && keys(&days.rows)[0].len() == 10, "{days:?}");

    let last = days.rows.last().unwrap().key.clone();
    let midnight = format!("{last}T00:00:00Z").parse::<Timestamp>().unwrap();
    let since = GetUsageRequest { from_at: Some(midnight), ..by(UsageGrouping::Job) };
    assert_eq!(keys(&usage(&rig, since).await.rows), ["later"]);
    let until = GetUsageRequest { before_at: Some(midnight), ..by(UsageGrouping::Job) };
    let until = usage(&rig, until).await;
    assert_eq!((until.rows.len(), until.before_at), (5, Some(midnight)));
    let length = midnight.seconds - until.from_at.unwrap().seconds;
    assert_eq!(length, 30 * 86_400, "unless it says otherwise, a report is of 30 days");
    let before = Timestamp { seconds: midnight.seconds - 40 * 86_400, nanos: 0 };
    let nothing =
        usage(&rig, GetUsageRequest { before_at: Some(before), ..by(UsageGrouping::Day) });
    let nothing = nothing.await;
    assert_eq!((nothing.rows.len(), nothing.total.unwrap().cost_usd.as_str()), (0, "0"));

    let of = |statuses: &[JobStatus], labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let statuses = statuses.iter().map(|status| i32::from(*status)).collect();
        let labels = labels.collect::<HashMap<_, _>>();
        let selector = JobSelector { statuses, labels, ..JobSelector::default() };
        GetUsageRequest { selector: Some(selector), ..by(UsageGrouping::Job) }
    };
    let failed = usage(&rig, of(&[JobStatus::Failed], &[])).await;
    assert_eq!(keys(&failed.rows), ["refused"]);
    let team = usage(&rig, of(&[JobStatus::Completed], &[("team", "b")])).await;
    let mut names = keys(&team.rows);
    names.sort_unstable();
    assert_eq!(names, ["haiku-b", "lost"]);

    // The ledger outlives its jobs.
    sqlx::raw_sql(
        "delete from longhaul.job_spec where job_id = 'later'; delete from longhaul.job where job_id = 'later'",
    )
    .execute(&rig.db.pool)
    .await
    .unwrap();
    assert_eq!(usage(&rig, by(UsageGrouping::Job)).await.rows.len(), 6);
    let label_key = "team".to_owned();
    let labels = GetUsageRequest { label_key, ..by(UsageGrouping::Label) };
    let labels = usage(&rig, labels).await;
    let unknown = labels.rows.iter().find(|row| row.key.is_empty()).unwrap();
    assert_eq!(unknown.usage.unwrap().calls, 2);
    assert_eq!(usage(&rig, of(&[], &[("team", "a")])).await.rows.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_stable_while_calls_are_added_and_settled() {
    let rig = Rig::start().await;
    let mut expected: Vec<String> = (0..6).map(|number| format!("job-{number}")).collect();
    for (job_id, model) in expected.iter().zip([HAIKU, OPUS].iter().cycle()) {
        rig.submit(asked(job_id, model, None)).await;
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    rig.sandbox.hold("held").await;
    rig.submit(asked("held", OPUS, None)).await;
    rig.sandbox.wait_for("held", "held", 1).await;
    // Half a second of doubt between a server's clock and Postgres's is long over.
    rig.db.shift_clock(60).await;
    expected.push("held".to_owned());
    let (mut rows, mut totals, mut token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let request = GetUsageRequest { page_size: 2, page_token: token, ..by(UsageGrouping::Job) };
        let page = try_usage(&rig, request).await.unwrap();
        assert!(page.rows.len() <= 2);
        rows.extend(page.rows);
        totals.push(page.total.unwrap());
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
        rig.db.shift_clock(60).await;
        rig.submit(asked(&format!("new-{}", rows.len()), OPUS, None)).await;
        rig.settled(&format!("new-{}", rows.len())).await;
        rig.sandbox.mend().await;
        rig.settled_as("held", JobStatus::Completed).await;
    }
    let mut listed: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert!(totals.iter().all(|total| *total == totals[0]), "{totals:?}");
    assert_eq!(sum(&rows), figures(&totals[0]));
    assert_eq!(rows.last().unwrap().key, "held", "what it cost was not known then");
    let now = usage(&rig, by(UsageGrouping::Job)).await;
    assert_eq!(now.rows.len(), 10);
    // A page may end anywhere, also between two that cost the same, or nothing.
    rig.sandbox.break_model(json!({"status": 400})).await;
    for job_id in ["free-1", "free-2", "free-3"] {
        rig.submit(asked(job_id, OPUS, None)).await;
        rig.settled_as(job_id, JobStatus::Failed).await;
    }
    rig.db.shift_clock(60).await;
    let now = usage(&rig, by(UsageGrouping::Job)).await;
    assert_eq!(keys(&now.rows[10..]), ["free-1", "free-2", "free-3"]);
    let mut request = GetUsageRequest { page_size: 1, ..by(UsageGrouping::Job) };
    for row in &now.rows {
        let page = try_usage(&rig, request.clone()).await.unwrap();
        assert_eq!(page.rows, std::slice::from_ref(row));
        request.page_token = page.next_page_token;
    }
    assert_eq!(request.page_token, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_report_is_refused_and_says_why() {
    let rig = Rig::start().await;
    let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let plain = GetUsageRequest::default();
    let selector = JobSelector { statuses: vec![99], ..JobSelector::default() };
    for (request, fields) in [
        (GetUsageRequest { page_size: -1, ..plain.clone() }, vec!["page_size"]),
        (
            GetUsageRequest { page_token: "not ours".to_owned(), ..plain.clone() },
            vec!["page_token"],
        ),
        (
            GetUsageRequest { from_at: at(20), before_at: at(10), ..plain.clone() },
            vec!["before_at"],
        ),
        (by(UsageGrouping::Label), vec!["label_key"]),
        (GetUsageRequest { label_key: "team".to_owned(), ..plain.clone() }, vec!["label_key"]),
        (GetUsageRequest { group_by: 99, ..plain.clone() }, vec!["group_by"]),
        (GetUsageRequest { selector: Some(selector), ..plain }, vec!["selector.statuses[0]"]),
    ] {
        let told = Told::by(try_usage(&rig, request).await);
        assert_eq!((told.code, told.reason.as_str()), (Code::InvalidArgument, "INVALID_REQUEST"));
        assert_eq!(told.fields, fields);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_shows_a_report_for_people_and_for_machines() {
    let rig = Rig::without_server(&[]).await;
    let server = Program::start(&SERVE, rig.variables()).await;
    let address = format!("http://{}", server.address("grpc"));
    let variables = BTreeMap::from([("LONGHAUL_SERVER".to_owned(), address)]);
    let shell = async |args: &[&str]| {
        let output = Program::run(args, &variables, PATIENCE).await;
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), said, String::from_utf8(output.stderr).unwrap())
    };
    let (code, said, _) = shell(&["usage"]).await;
    assert!(code == 0 && said.starts_with("no calls begun from "), "{said}");
    let client = server.client();
    for (job_id, team) in [("one", Some("a")), ("two", None)] {
        client.submit(asked(job_id, OPUS, team)).await;
        client.settled_as(job_id, JobStatus::Completed).await;
    }
    let (code, said, errors) = shell(&["usage", "--by", "label:team"]).await;
    assert_eq!((code, errors.as_str()), (0, ""));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[1].starts_with("LABEL") && lines[4].starts_with("total "), "{said}");
    assert!(lines.iter().any(|line| line.starts_with("team=a ")), "{said}");
    assert!(!said.contains('≥') && lines[4].contains('$'), "{said}");
    let (_, said, errors) = shell(&["usage", "--by", "job", "--limit", "1", "--json"]).await;
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 1, "{errors}");
    assert_eq!(
        (&report["has_more"], &report["total"]["usage"]["calls"]),
        (&json!(true), &json!(2))
    );
    let (_, said, _) = shell(&["usage", "--before", "2020-01-01", "--json"]).await;
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["before_at"], "2020-01-01T00:00:00Z");
    assert_eq!(shell(&["usage", "--by", "week"]).await.0, 2);
    let (code, _, errors) =
        shell(&["usage", "--from", "2026-01-02", "--before", "2026-01-01"]).await;
    assert!(code == 7 && errors.contains("before_at: must be later"), "{errors}");
    server.stop().await;
}
