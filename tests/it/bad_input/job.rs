//! What can be wrong with a job as a whole and with its settings.

use longhaul::domain::reason::Reason;
use longhaul::rpc::proto::{JobSettings, SubmitJobRequest};
use prost_types::Timestamp;

use super::{Call, Row, long};
use crate::harness::{job, wait, with};

fn settings(change: impl FnOnce(&mut JobSettings)) -> SubmitJobRequest {
    let mut settings = JobSettings::default();
    change(&mut settings);
    with(settings, job("bad", [wait(60)]))
}

fn task(task: String) -> SubmitJobRequest {
    SubmitJobRequest { task, ..job("bad", [wait(60)]) }
}

fn label(key: &str, value: &str) -> SubmitJobRequest {
    settings(|all| drop(all.labels.insert(key.to_owned(), value.to_owned())))
}

fn run_at(seconds: i64, nanos: i32) -> SubmitJobRequest {
    settings(|all| all.run_at = Some(Timestamp { seconds, nanos }))
}

fn budget(text: &str) -> SubmitJobRequest {
    settings(|all| all.budget_usd.push_str(text))
}

fn language(text: &str) -> SubmitJobRequest {
    settings(|all| all.language.push_str(text))
}

fn people(people: &[&str]) -> SubmitJobRequest {
    settings(|all| all.notify = people.iter().map(|&one| one.to_owned()).collect())
}

fn of_the_whole() -> Vec<(SubmitJobRequest, &'static str)> {
    let bare = || [wait(60)];
    vec![
        (job(&long(256), bare()), "job_id"),
        (job(&"记".repeat(86), bare()), "job_id"),
        (job(" spaced", bare()), "job_id"),
        (job("spaced ", bare()), "job_id"),
        (job("\u{3000}spaced", bare()), "job_id"),
        (job("nul\0", bare()), "job_id"),
        (job("line\nbreak", bare()), "job_id"),
        (job("esc\u{1b}[31m", bare()), "job_id"),
        (job("c1\u{85}", bare()), "job_id"),
        (job(" ", bare()), "job_id"),
        (task("nul\0".to_owned()), "task"),
        (task(long(65_537)), "task"),
        (task("记".repeat(21_846)), "task"),
        (job("bad", []), "steps"),
        (job("bad", (0..1001).map(|_| wait(0))), "steps"),
        (job("bad", (0..200_000).map(|_| longhaul::rpc::proto::Step::default())), "steps"),
    ]
}

fn of_numbers_and_people() -> Vec<(SubmitJobRequest, &'static str)> {
    vec![
        (settings(|all| all.model.push_str("a b")), "settings.model"),
        (settings(|all| all.model.push_str("a\tb")), "settings.model"),
        (settings(|all| all.model = long(129)), "settings.model"),
        (settings(|all| all.max_tokens = -1), "settings.max_tokens"),
        (settings(|all| all.max_tokens = 128_001), "settings.max_tokens"),
        (settings(|all| all.max_tokens = i32::MIN), "settings.max_tokens"),
        (settings(|all| all.system.push('\0')), "settings.system"),
        (settings(|all| all.system = long((1 << 20) + 1)), "settings.system"),
        (settings(|all| all.max_attempts = Some(-1)), "settings.max_attempts"),
        (settings(|all| all.max_attempts = Some(101)), "settings.max_attempts"),
        (settings(|all| all.max_attempts = Some(i32::MAX)), "settings.max_attempts"),
        (settings(|all| all.retry_window_seconds = Some(-1)), "settings.retry_window_seconds"),
        (
            settings(|all| all.retry_window_seconds = Some(30 * 86_400 + 1)),
            "settings.retry_window_seconds",
        ),
        (settings(|all| all.priority = 1001), "settings.priority"),
        (settings(|all| all.priority = -1001), "settings.priority"),
        (settings(|all| all.priority = i32::MIN), "settings.priority"),
        (people(&["nobody"]), "settings.notify[0]"),
        (people(&["+15550100", ""]), "settings.notify[1]"),
        (people(&["15550100"]), "settings.notify[0]"),
        (people(&["+155501"]), "settings.notify[0]"),
        (people(&["+1234567890123456"]), "settings.notify[0]"),
        (people(&["+1555 0100"]), "settings.notify[0]"),
        (people(&["+１５５５０１００"]), "settings.notify[0]"),
        (people(&["webhook:ops"]), "settings.notify[0]"),
        (people(&["+15550100", "+15550100"]), "settings.notify[1]"),
        (people(&["nobody"; 65]), "settings.notify"),
        (settings(|all| all.webhooks = vec!["ops".to_owned()]), "settings.webhooks[0]"),
        (
            settings(|all| all.webhooks = vec!["https://example.com/x".to_owned()]),
            "settings.webhooks[0]",
        ),
        (settings(|all| all.webhooks = vec!["ops".to_owned(); 17]), "settings.webhooks"),
    ]
}

fn of_words_and_moments() -> Vec<(SubmitJobRequest, &'static str)> {
    let many = (0..65).map(|n| (n.to_string(), String::new()));
    let huge = (0..100_000).map(|n| (n.to_string(), "\0".to_owned()));
    vec![
        (language("not a tag"), "settings.language"),
        (language("-"), "settings.language"),
        (language("pt_BR"), "settings.language"),
        (language("zh-"), "settings.language"),
        (language("1en"), "settings.language"),
        (language("portuguese"), "settings.language"),
        (language("en-aaaaaaaa-bbbbbbbb-cccccccc-dddddddd"), "settings.language"),
        (
            label(&"k".repeat(64), ""),
            "settings.labels[\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\"]",
        ),
        (label("", "v"), "settings.labels[\"\"]"),
        (label("k\n", "v"), "settings.labels[\"k\\n\"]"),
        (label("k", "\0"), "settings.labels[\"k\"]"),
        (label("k", &long(256)), "settings.labels[\"k\"]"),
        (settings(|all| all.labels = many.collect()), "settings.labels"),
        (settings(|all| all.labels = huge.collect()), "settings.labels"),
        (run_at(i64::MIN, 0), "settings.run_at"),
        (run_at(i64::MAX, 0), "settings.run_at"),
        (run_at(253_402_300_800, 0), "settings.run_at"),
        (run_at(-62_135_596_801, 0), "settings.run_at"),
        (run_at(0, -1), "settings.run_at"),
        (run_at(0, 1_000_000_000), "settings.run_at"),
        (budget("2,50"), "settings.budget_usd"),
        (budget("-1"), "settings.budget_usd"),
        (budget("0.0"), "settings.budget_usd"),
        (budget("NaN"), "settings.budget_usd"),
        (budget("Infinity"), "settings.budget_usd"),
        (budget("1e3"), "settings.budget_usd"),
        (budget("1_000"), "settings.budget_usd"),
        (budget("+1"), "settings.budget_usd"),
        (budget(".5"), "settings.budget_usd"),
        (budget("5."), "settings.budget_usd"),
        (budget(" 5"), "settings.budget_usd"),
        (budget("１"), "settings.budget_usd"),
        (budget("1.2.3"), "settings.budget_usd"),
        (budget("1000000.01"), "settings.budget_usd"),
        (budget("0.12345678901234567890123456789"), "settings.budget_usd"),
        (budget("99999999999999999999999999999999"), "settings.budget_usd"),
    ]
}

/// Each is one submit with one fault.
pub(super) fn rows() -> Vec<Row> {
    let all = of_the_whole().into_iter().chain(of_numbers_and_people());
    let all = all.chain(of_words_and_moments());
    all.map(|(job, field)| Row(Call::Submit(Box::new(job)), Reason::InvalidRequest, field))
        .collect()
}
