//! What can be wrong with a step.

use longhaul::domain::reason::Reason;
use longhaul::rpc::proto::{
    ApprovalStep, RunStep, Step, SubmitJobRequest, UserLocation, WaitStep, WebSearch, step::Kind,
    wait_step::Wait,
};
use prost_types::Timestamp;

use super::{Call, Row, long};
use crate::harness::{approval, approval_step, job, named, run, run_step, wait};

type Bad = Vec<(SubmitJobRequest, &'static str)>;

fn one(step: Step) -> SubmitJobRequest {
    job("bad", [step])
}

fn asks(change: impl FnOnce(&mut RunStep)) -> SubmitJobRequest {
    let mut run = RunStep { prompt: "Write a line.".to_owned(), ..RunStep::default() };
    change(&mut run);
    one(run_step(run))
}

fn searches(change: impl FnOnce(&mut WebSearch)) -> SubmitJobRequest {
    let mut search = WebSearch::default();
    change(&mut search);
    asks(|run| run.web_search = Some(search))
}

fn located(change: impl FnOnce(&mut UserLocation)) -> SubmitJobRequest {
    let mut place = UserLocation::default();
    change(&mut place);
    searches(|search| search.user_location = Some(place))
}

/// An approval of what a run step before it wrote.
fn decides(change: impl FnOnce(&mut ApprovalStep)) -> SubmitJobRequest {
    let mut approval = ApprovalStep { approvers: texts(&["+15550100"]), ..ApprovalStep::default() };
    change(&mut approval);
    job("bad", [run("Write a line."), approval_step(approval)])
}

fn waits(wait: Option<Wait>) -> SubmitJobRequest {
    one(Step { name: String::new(), kind: Some(Kind::Wait(WaitStep { wait })) })
}

fn until(seconds: i64, nanos: i32) -> SubmitJobRequest {
    waits(Some(Wait::UntilAt(Timestamp { seconds, nanos })))
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn names_and_prompts() -> Bad {
    let prompt = "steps[0].run.prompt";
    let task_of = |text: &str| one(run(text));
    vec![
        (one(Step::default()), "steps[0]"),
        (job("bad", [named("a", wait(0)), named("a", wait(0))]), "steps[1].name"),
        (one(named("1a", wait(0))), "steps[0].name"),
        (one(named("a b", wait(0))), "steps[0].name"),
        (one(named("é", wait(0))), "steps[0].name"),
        (one(named(&"a".repeat(65), wait(0))), "steps[0].name"),
        (task_of(""), prompt),
        (task_of(" \n\u{3000}"), prompt),
        (task_of("nul\0"), prompt),
        (task_of(&long((1 << 20) + 1)), prompt),
        (task_of("{{ nothing }}"), prompt),
        (task_of("{{ task"), prompt),
        (task_of("{{ {{ task }} }}"), prompt),
        (task_of("{{}}"), prompt),
        (task_of("{{ step_0_output }}"), prompt),
        (task_of("{{ step_01_output }}"), prompt),
        (task_of("{{ step_99999999999_output }}"), prompt),
        (task_of("{{ step_1_output }}"), prompt),
        (job("bad", [run("{{ step_2_output }}"), run("x")]), prompt),
        (job("bad", [run("x"), run("{{ later.output }}")]), "steps[1].run.prompt"),
        (job("bad", [approval("?"), run("{{ step_1_output }}")]), "steps[1].run.prompt"),
        (job("bad", [wait(0), run("{{ step_1_output }}")]), "steps[1].run.prompt"),
    ]
}

fn run_options() -> Bad {
    vec![
        (asks(|run| run.system.push('\0')), "steps[0].run.system"),
        (asks(|run| run.system = long((1 << 20) + 1)), "steps[0].run.system"),
        (asks(|run| run.model.push_str("a b")), "steps[0].run.model"),
        (asks(|run| run.model = long(129)), "steps[0].run.model"),
        (asks(|run| run.max_tokens = -1), "steps[0].run.max_tokens"),
        (asks(|run| run.max_tokens = 128_001), "steps[0].run.max_tokens"),
        (asks(|run| run.max_tokens = i32::MIN), "steps[0].run.max_tokens"),
        (asks(|run| run.timeout_seconds = -1), "steps[0].run.timeout_seconds"),
        (asks(|run| run.timeout_seconds = 86_401), "steps[0].run.timeout_seconds"),
        (asks(|run| run.idle_timeout_seconds = i32::MIN), "steps[0].run.idle_timeout_seconds"),
        (asks(|run| run.idle_timeout_seconds = 3601), "steps[0].run.idle_timeout_seconds"),
        (asks(|run| run.context = 99), "steps[0].run.context"),
        (asks(|run| run.effort = 99), "steps[0].run.effort"),
        (asks(|run| run.on_truncated = -1), "steps[0].run.on_truncated"),
        (asks(|run| run.on_interrupt = 3), "steps[0].run.on_interrupt"),
        (asks(|run| run.mode = i32::MAX), "steps[0].run.mode"),
        (
            asks(|run| {
                run.on_interrupt = 2;
                run.mode = 2;
            }),
            "steps[0].run.on_interrupt",
        ),
        (asks(|run| run.stop_sequences = texts(&[""])), "steps[0].run.stop_sequences[0]"),
        (asks(|run| run.stop_sequences = texts(&["a", "\n"])), "steps[0].run.stop_sequences[1]"),
        (asks(|run| run.stop_sequences = texts(&["a\0"])), "steps[0].run.stop_sequences[0]"),
        (asks(|run| run.stop_sequences = vec![long(257)]), "steps[0].run.stop_sequences[0]"),
        (asks(|run| run.stop_sequences = texts(&["x"; 17])), "steps[0].run.stop_sequences"),
        (
            asks(|run| run.stop_sequences = vec![String::new(); 200_000]),
            "steps[0].run.stop_sequences",
        ),
    ]
}

fn free_json() -> Bad {
    let (extra, schema) = ("steps[0].run.extra_json", "steps[0].run.output_schema_json");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(128), "]".repeat(128));
    let of = |text: &str| asks(|run| run.extra_json = text.into());
    let form = |text: &str| asks(|run| run.output_schema_json = text.into());
    vec![
        (of("{"), extra),
        (of("[]"), extra),
        (of("null"), extra),
        (of("{} {}"), extra),
        (of("{\"model\":\"x\"}"), extra),
        (of("{\"a\":1,\"a\":2}"), extra),
        (of("{\"a\":{\"b\":1,\"b\":2}}"), extra),
        (of("{\"a\":\"\\u0000\"}"), extra),
        (of("{\"a\":NaN}"), extra),
        (of("{\"a\":1e999}"), extra),
        (of("{\"a\":\"\\ud800\"}"), extra),
        (of(&deep), extra),
        (of(&format!("{{\"a\":\"{}\"}}", long(64 << 10))), extra),
        (form("["), schema),
        (form("\"text\""), schema),
        (form(&deep), schema),
        (form("{\"type\":\"object\",\"type\":\"string\"}"), schema),
        (form(&format!("{{\"a\":\"{}\"}}", long(64 << 10))), schema),
    ]
}

fn searching() -> Bad {
    let (allowed, blocked) =
        ("steps[0].run.web_search.allowed_domains[0]", "steps[0].run.web_search.blocked_domains");
    let country = "steps[0].run.web_search.user_location.country";
    let both = |search: &mut WebSearch| {
        search.allowed_domains = texts(&["example.com"]);
        search.blocked_domains = texts(&["example.org"]);
    };
    vec![
        (searches(|search| search.max_uses = -1), "steps[0].run.web_search.max_uses"),
        (searches(|search| search.max_uses = 101), "steps[0].run.web_search.max_uses"),
        (searches(both), blocked),
        (searches(|search| search.allowed_domains = texts(&[""])), allowed),
        (searches(|search| search.allowed_domains = texts(&["https://example.com"])), allowed),
        (searches(|search| search.allowed_domains = texts(&["*.example.com"])), allowed),
        (searches(|search| search.allowed_domains = vec![long(256)]), allowed),
        (searches(|search| search.blocked_domains = texts(&["a"; 101])), blocked),
        (located(|place| place.country.push_str("Portugal")), country),
        (located(|place| place.country.push_str("pt")), country),
        (located(|place| place.city.push('\n')), "steps[0].run.web_search.user_location.city"),
        (located(|place| place.region = long(256)), "steps[0].run.web_search.user_location.region"),
        (
            located(|place| place.timezone.push('\0')),
            "steps[0].run.web_search.user_location.timezone",
        ),
    ]
}

fn approvals() -> Bad {
    let (first, second) = ("steps[1].approval.approvers[0]", "steps[1].approval.approvers[1]");
    let people = |people: &[&str]| decides(|all| all.approvers = texts(people));
    let reminded = |seconds: Vec<i32>| decides(|all| all.remind_before_seconds = seconds);
    let timeout = "steps[1].approval.timeout_seconds";
    vec![
        (decides(|all| all.note.push('\0')), "steps[1].approval.note"),
        (decides(|all| all.note = long(65_537)), "steps[1].approval.note"),
        (people(&["15550100"]), first),
        (people(&["+0155501000"]), first),
        (people(&["+15550100", "+15550100"]), second),
        (people(&["+15550100"; 65]), "steps[1].approval.approvers"),
        (decides(|all| all.quorum = 2), "steps[1].approval.quorum"),
        (decides(|all| all.quorum = -1), "steps[1].approval.quorum"),
        (decides(|all| all.timeout_seconds = -5), timeout),
        (decides(|all| all.timeout_seconds = 30 * 86_400 + 1), timeout),
        (
            decides(|all| {
                all.timeout_seconds = i32::MIN;
                all.remind_before_seconds = vec![60];
            }),
            timeout,
        ),
        (decides(|all| all.on_timeout = 99), "steps[1].approval.on_timeout"),
        (reminded(vec![0]), "steps[1].approval.remind_before_seconds[0]"),
        (reminded(vec![-60]), "steps[1].approval.remind_before_seconds[0]"),
        (reminded(vec![86_400]), "steps[1].approval.remind_before_seconds[0]"),
        (reminded(vec![60, 60]), "steps[1].approval.remind_before_seconds[1]"),
        (reminded(vec![60; 11]), "steps[1].approval.remind_before_seconds"),
        (reminded(vec![60; 1_000_000]), "steps[1].approval.remind_before_seconds"),
        (decides(|all| all.escalate_after_seconds = 60), "steps[1].approval.escalate_to"),
        (
            decides(|all| all.escalate_to = texts(&["+15550177"])),
            "steps[1].approval.escalate_after_seconds",
        ),
        (
            decides(|all| {
                all.escalate_after_seconds = 86_400;
                all.escalate_to = texts(&["+15550177"]);
            }),
            "steps[1].approval.escalate_after_seconds",
        ),
        (
            decides(|all| {
                all.escalate_after_seconds = 60;
                all.escalate_to = texts(&["+15550100"]);
            }),
            "steps[1].approval.escalate_to[0]",
        ),
        (decides(|all| all.max_revisions = -1), "steps[1].approval.max_revisions"),
        (decides(|all| all.max_revisions = 21), "steps[1].approval.max_revisions"),
        (decides(|all| all.revise_step = 1), "steps[1].approval.revise_step"),
        (
            decides(|all| {
                all.max_revisions = 1;
                all.revise_step = 2;
            }),
            "steps[1].approval.revise_step",
        ),
        (
            one(approval_step(ApprovalStep { allow_edit: true, ..ApprovalStep::default() })),
            "steps[0].approval.allow_edit",
        ),
        (
            one(approval_step(ApprovalStep { max_revisions: 1, ..ApprovalStep::default() })),
            "steps[0].approval.max_revisions",
        ),
    ]
}

fn waits_of_all_kinds() -> Bad {
    vec![
        (one(wait(-1)), "steps[0].wait.duration_seconds"),
        (one(wait(i32::MIN)), "steps[0].wait.duration_seconds"),
        (one(wait(366 * 86_400 + 1)), "steps[0].wait.duration_seconds"),
        (until(i64::MAX, 0), "steps[0].wait.until_at"),
        (until(253_402_300_800, 0), "steps[0].wait.until_at"),
        (until(0, -1), "steps[0].wait.until_at"),
        (waits(None), "steps[0].wait"),
    ]
}

/// Each is one submit with one fault.
pub(super) fn rows() -> Vec<Row> {
    let all = [
        names_and_prompts(),
        run_options(),
        free_json(),
        searching(),
        approvals(),
        waits_of_all_kinds(),
    ];
    let all = all.into_iter().flatten();
    all.map(|(job, field)| Row(Call::Submit(Box::new(job)), Reason::InvalidRequest, field))
        .collect()
}
