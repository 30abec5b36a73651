//! Bounds: the comment of every field of a request tells the bound that the code has, and what saying nothing means.
//!
//! The fields come from the descriptors, with their comments; the numbers of each from the code.
//! A field that is new, or a number that has changed on one side alone, fails here.

use std::collections::{BTreeMap, BTreeSet};

use longhaul::domain::id::JOB_ID_BYTES_MAX;
use longhaul::domain::validate::bound::{
    APPROVAL_SECONDS, APPROVAL_SECONDS_DEFAULT, ATTEMPTS, ATTEMPTS_DEFAULT, BUDGET_USD_MAX,
    BULK_PAGE_SIZE, BULK_PAGE_SIZE_MAX, COMMENT_BYTES_MAX, DAY_SECONDS, DOMAIN_BYTES_MAX,
    DOMAINS_MAX, IDLE_TIMEOUT_SECONDS, IDLE_TIMEOUT_SECONDS_DEFAULT, JSON_BYTES_MAX,
    JSON_DEPTH_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, LANGUAGE_BYTES_MAX,
    MAX_TOKENS, MODEL_BYTES_MAX, PAGE_SIZE, PAGE_SIZE_MAX, PEOPLE_MAX, PLACE_BYTES_MAX, PRIORITY,
    PROMPT_BYTES_MAX, RECIPIENT_BYTES_MAX, REMINDERS_MAX, RETRY_WINDOW_SECONDS,
    RETRY_WINDOW_SECONDS_DEFAULT, REVISIONS, SEARCHES, SEARCHES_DEFAULT, STEP_NAME_BYTES_MAX,
    STEPS_MAX, STOP_SEQUENCE_BYTES_MAX, STOP_SEQUENCES_MAX, TEXT_BYTES_MAX, TIMEOUT_SECONDS,
    TIMEOUT_SECONDS_DEFAULT, USAGE_PAGE_SIZE_MAX, VOTER_BYTES_MAX, WAIT_SECONDS, WEBHOOKS_MAX,
    WORDS_MAX, YEARS,
};
use longhaul::rpc::convert::request::WAIT_SECONDS_MAX;
use longhaul::rpc::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};

/// How numbers of steps, pages and the like begin.
const ONE: i64 = 1;
/// What a field says that says nothing.
const ZERO: i64 = 0;

/// A field, and the numbers in its comment.
type Row = (&'static str, Vec<i64>);

/// Numbers of their own, ranges, and sizes.
fn of(fixed: &[i64], ranges: &[(i32, i32)], sizes: &[usize]) -> Vec<i64> {
    let ranges = ranges.iter().flat_map(|(least, most)| [i64::from(*least), i64::from(*most)]);
    let sizes = sizes.iter().map(|size| i64::try_from(*size).unwrap());
    fixed.iter().copied().chain(ranges).chain(sizes).collect()
}

fn sizes(sizes: &[usize]) -> Vec<i64> {
    of(&[], &[], sizes)
}

fn with_default(range: (i32, i32), default: i32) -> Vec<i64> {
    of(&[ZERO, default.into()], &[range], &[])
}

fn id() -> Vec<i64> {
    of(&[ONE], &[], &[JOB_ID_BYTES_MAX])
}

fn step() -> Vec<i64> {
    of(&[ONE, ZERO], &[], &[STEPS_MAX])
}

fn budget() -> Vec<i64> {
    of(&[ZERO, BUDGET_USD_MAX.into()], &[], &[])
}

fn labels() -> Vec<i64> {
    of(&[ONE], &[], &[LABELS_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX])
}

fn page(default: i32, most: i32) -> Vec<i64> {
    of(&[ZERO, default.into(), most.into()], &[], &[])
}

/// The numbers in the comment of each field that has any; `1` and `0` where counting begins or nothing is said.
///
/// Without numbers are a UUID, which is one or none, a token, which is taken only as it was given, and two letters.
fn numbers() -> BTreeMap<&'static str, Vec<i64>> {
    let all = [of_one_job(), of_many_jobs(), of_steps(), of_settings()];
    all.into_iter().flatten().collect()
}

/// The calls about one job.
fn of_one_job() -> Vec<Row> {
    vec![
        ("SubmitJobRequest.job_id", id()),
        ("SubmitJobRequest.task", sizes(&[TEXT_BYTES_MAX])),
        ("SubmitJobRequest.steps", of(&[ONE], &[], &[STEPS_MAX])),
        ("GetJobRequest.job_id", id()),
        ("GetJobRequest.step", step()),
        ("GetJobRequest.wait_seconds", of(&[ZERO, WAIT_SECONDS_MAX.into()], &[], &[])),
        ("ControlRequest.job_id", id()),
        ("ControlRequest.request_id", id()),
        ("ResumeAction.budget_usd", budget()),
        ("CancelAction.comment", sizes(&[COMMENT_BYTES_MAX])),
        ("RetryAction.from_step", step()),
        ("ApproveAction.approval_id", Vec::new()),
        ("ApproveAction.comment", sizes(&[COMMENT_BYTES_MAX])),
        ("ApproveAction.on_behalf_of", sizes(&[VOTER_BYTES_MAX])),
        ("ApproveAction.edited_output", sizes(&[PROMPT_BYTES_MAX])),
        ("RequestChangesAction.approval_id", Vec::new()),
        ("RequestChangesAction.comment", sizes(&[COMMENT_BYTES_MAX])),
        ("RequestChangesAction.on_behalf_of", sizes(&[VOTER_BYTES_MAX])),
        ("RejectAction.approval_id", Vec::new()),
        ("RejectAction.comment", sizes(&[COMMENT_BYTES_MAX])),
        ("RejectAction.on_behalf_of", sizes(&[VOTER_BYTES_MAX])),
        ("RevokeLinksRequest.job_id", id()),
        ("RevokeLinksRequest.approver", sizes(&[RECIPIENT_BYTES_MAX])),
        ("WatchJobRequest.job_id", id()),
        ("WatchJobRequest.after_sequence", of(&[ZERO], &[], &[])),
    ]
}

/// The calls about many jobs, their notices and their usage.
fn of_many_jobs() -> Vec<Row> {
    vec![
        ("JobSelector.statuses", sizes(&[WORDS_MAX])),
        ("JobSelector.labels", labels()),
        ("JobSelector.created_from", of(&[], &[YEARS], &[])),
        ("JobSelector.created_before", of(&[YEARS.1.into()], &[], &[])),
        ("ControlJobsRequest.page_size", page(BULK_PAGE_SIZE, BULK_PAGE_SIZE_MAX)),
        ("ControlJobsRequest.page_token", Vec::new()),
        ("ControlJobsRequest.request_id", id()),
        ("ListJobsRequest.page_size", page(PAGE_SIZE, PAGE_SIZE_MAX)),
        ("ListJobsRequest.page_token", Vec::new()),
        ("ListNoticesRequest.job_id", id()),
        ("ListNoticesRequest.deliveries", sizes(&[WORDS_MAX])),
        ("ListNoticesRequest.kinds", sizes(&[WORDS_MAX])),
        ("ListNoticesRequest.recipient", sizes(&[RECIPIENT_BYTES_MAX])),
        ("ListNoticesRequest.page_size", page(PAGE_SIZE, PAGE_SIZE_MAX)),
        ("ListNoticesRequest.page_token", Vec::new()),
        ("ResendNoticeRequest.notice_id", Vec::new()),
        ("GetUsageRequest.from_at", of(&[30 * i64::from(DAY_SECONDS)], &[YEARS], &[])),
        ("GetUsageRequest.before_at", of(&[YEARS.1.into()], &[], &[])),
        ("GetUsageRequest.label_key", sizes(&[LABEL_KEY_BYTES_MAX])),
        ("GetUsageRequest.page_size", page(PAGE_SIZE, USAGE_PAGE_SIZE_MAX)),
        ("GetUsageRequest.page_token", Vec::new()),
    ]
}

/// What a step has.
fn of_steps() -> Vec<Row> {
    vec![
        ("Step.name", sizes(&[STEP_NAME_BYTES_MAX])),
        ("RunStep.prompt", sizes(&[PROMPT_BYTES_MAX])),
        ("RunStep.system", sizes(&[PROMPT_BYTES_MAX])),
        ("RunStep.model", sizes(&[MODEL_BYTES_MAX])),
        ("RunStep.max_tokens", of(&[ZERO], &[MAX_TOKENS], &[])),
        ("RunStep.timeout_seconds", with_default(TIMEOUT_SECONDS, TIMEOUT_SECONDS_DEFAULT)),
        (
            "RunStep.idle_timeout_seconds",
            with_default(IDLE_TIMEOUT_SECONDS, IDLE_TIMEOUT_SECONDS_DEFAULT),
        ),
        ("RunStep.output_schema_json", sizes(&[JSON_BYTES_MAX, JSON_DEPTH_MAX])),
        ("RunStep.stop_sequences", sizes(&[STOP_SEQUENCES_MAX, STOP_SEQUENCE_BYTES_MAX])),
        ("RunStep.extra_json", sizes(&[JSON_BYTES_MAX, JSON_DEPTH_MAX])),
        ("WebSearch.max_uses", with_default(SEARCHES, SEARCHES_DEFAULT)),
        ("WebSearch.allowed_domains", sizes(&[DOMAINS_MAX, DOMAIN_BYTES_MAX])),
        ("WebSearch.blocked_domains", sizes(&[DOMAINS_MAX, DOMAIN_BYTES_MAX])),
        ("UserLocation.city", sizes(&[PLACE_BYTES_MAX])),
        ("UserLocation.region", sizes(&[PLACE_BYTES_MAX])),
        ("UserLocation.country", Vec::new()),
        ("UserLocation.timezone", sizes(&[PLACE_BYTES_MAX])),
        ("ApprovalStep.note", sizes(&[TEXT_BYTES_MAX])),
        ("ApprovalStep.approvers", sizes(&[PEOPLE_MAX])),
        ("ApprovalStep.quorum", of(&[ONE, ZERO], &[], &[PEOPLE_MAX])),
        ("ApprovalStep.timeout_seconds", with_default(APPROVAL_SECONDS, APPROVAL_SECONDS_DEFAULT)),
        ("ApprovalStep.remind_before_seconds", of(&[ONE], &[], &[REMINDERS_MAX])),
        ("ApprovalStep.escalate_after_seconds", of(&[ONE, ZERO], &[], &[])),
        ("ApprovalStep.escalate_to", sizes(&[PEOPLE_MAX])),
        ("ApprovalStep.max_revisions", of(&[ZERO], &[REVISIONS], &[])),
        ("ApprovalStep.revise_step", step()),
        ("WaitStep.duration_seconds", of(&[ZERO], &[WAIT_SECONDS], &[])),
        ("WaitStep.until_at", of(&[], &[YEARS], &[])),
    ]
}

/// What holds for a whole job.
fn of_settings() -> Vec<Row> {
    vec![
        ("JobSettings.model", sizes(&[MODEL_BYTES_MAX])),
        ("JobSettings.max_tokens", of(&[ZERO], &[MAX_TOKENS], &[])),
        ("JobSettings.system", sizes(&[PROMPT_BYTES_MAX])),
        ("JobSettings.max_attempts", of(&[ATTEMPTS_DEFAULT.into()], &[ATTEMPTS], &[])),
        (
            "JobSettings.retry_window_seconds",
            of(&[RETRY_WINDOW_SECONDS_DEFAULT.into()], &[RETRY_WINDOW_SECONDS], &[]),
        ),
        ("JobSettings.notify", sizes(&[PEOPLE_MAX])),
        ("JobSettings.language", sizes(&[LANGUAGE_BYTES_MAX])),
        ("JobSettings.labels", labels()),
        ("JobSettings.priority", of(&[ZERO], &[PRIORITY], &[])),
        ("JobSettings.run_at", of(&[], &[YEARS], &[])),
        ("JobSettings.budget_usd", budget()),
        ("JobSettings.webhooks", sizes(&[WEBHOOKS_MAX])),
    ]
}

/// A field of a request, or of what is inside one.
struct Field {
    name: String,
    comment: String,
    kind: Type,
    is_map_or_list: bool,
    /// The message it holds.
    holds: Option<String>,
}

/// The fields of every message of these descriptors, by the message's name.
fn fields() -> BTreeMap<String, Vec<Field>> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut fields = BTreeMap::new();
    for file in set.file.iter().filter(|file| file.package() == "longhaul.v1") {
        let locations = file.source_code_info.as_ref().unwrap().location.iter();
        let comments: BTreeMap<&[i32], &str> = locations
            .filter_map(|at| Some((at.path.as_slice(), at.leading_comments.as_deref()?)))
            .collect();
        for (at, message) in file.message_type.iter().enumerate() {
            let told = |field: usize| {
                // In a file the messages are field 4, and in a message the fields are field 2.
                let path = [4, i32::try_from(at).unwrap(), 2, i32::try_from(field).unwrap()];
                comments.get(path.as_slice()).map(|text| (*text).to_owned()).unwrap_or_default()
            };
            fields.insert(format!(".longhaul.v1.{}", message.name()), fields_of(message, told));
        }
    }
    fields
}

fn fields_of(message: &DescriptorProto, comment: impl Fn(usize) -> String) -> Vec<Field> {
    let field = |(at, field): (usize, &prost_types::FieldDescriptorProto)| Field {
        name: format!("{}.{}", message.name(), field.name()),
        comment: comment(at),
        kind: field.r#type(),
        is_map_or_list: field.label() == Label::Repeated,
        holds: field.type_name.clone(),
    };
    message.field.iter().enumerate().map(field).collect()
}

/// Every field that a client may send.
fn request_fields() -> Vec<Field> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let services = set.file.iter().flat_map(|file| &file.service);
    let methods = services.flat_map(|service| &service.method);
    let mut open: Vec<String> = methods.map(|method| method.input_type().to_owned()).collect();
    let (mut known, mut found) = (fields(), Vec::new());
    while let Some(message) = open.pop() {
        // One that is not ours, or has been seen.
        let Some(fields) = known.remove(&message) else { continue };
        open.extend(fields.iter().filter_map(|field| field.holds.clone()));
        found.extend(fields);
    }
    found
}

/// The numbers of a comment, in bytes or seconds where it says in what; examples in backticks are none.
fn numbers_in(comment: &str) -> BTreeSet<i64> {
    let prose: String = comment.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words: Vec<&str> = prose.split_whitespace().collect();
    let mut numbers = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let digits = word.trim_end_matches(['.', ',', ';', ':']).replace(',', "");
        // A number that is a name.
        let is_name = at > 0 && words[at - 1] == "BCP";
        let Some(number) = digits.parse::<i64>().ok().filter(|_| !is_name) else { continue };
        let unit = words.get(at + 1).map_or("", |unit| unit.trim_end_matches(['.', ',', ';', ':']));
        numbers.insert(match unit {
            "KiB" => number << 10,
            "MiB" => number << 20,
            "day" | "days" => number * i64::from(DAY_SECONDS),
            _ => number,
        });
    }
    numbers
}

#[test]
fn the_comment_of_every_field_of_a_request_tells_its_bound_as_the_code_has_it() {
    let mut numbers = numbers();
    let mut faults = Vec::new();
    let fields = request_fields();
    assert!(fields.len() > 90, "{}", fields.len());
    for Field { name, comment, kind, is_map_or_list, holds } in fields {
        if comment.trim().is_empty() {
            faults.push(format!("{name} has no comment"));
        }
        let is_moment = holds.as_deref() == Some(".google.protobuf.Timestamp");
        let is_closed = matches!(kind, Type::Bool | Type::Enum | Type::Message);
        if is_closed && !is_map_or_list && !is_moment {
            // A flag, a word of an enum, or a message whose own fields are looked at.
            continue;
        }
        let Some(expected) = numbers.remove(name.as_str()) else {
            faults.push(format!("{name} has no row in the table of this test"));
            continue;
        };
        let (told, expected) = (numbers_in(&comment), BTreeSet::from_iter(expected));
        if told != expected {
            faults.push(format!("{name} tells {told:?}, and the code has {expected:?}"));
        }
        let says_nothing = [
            "Empty:",
            "Unset:",
            "Required",
            "0:",
            "may be empty",
            "with 0",
            "From 1 to",
            // Of a oneof, which says it for all its fields.
            "does not wait",
        ];
        if !says_nothing.iter().any(|words| comment.contains(words)) {
            faults.push(format!("{name} does not tell what it means to say nothing"));
        }
    }
    faults.extend(numbers.keys().map(|name| format!("{name} is no field of a request")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn numbers_are_read_as_a_person_reads_them() {
    let comment =
        "At most 64 KiB, 1 to 255 bytes, `0.50`, from -3 to 30 days; 1,000. BCP 47: 0: none.";
    let expected = [64 << 10, 1, 255, -3, 30 * i64::from(DAY_SECONDS), 1000, 0];
    assert_eq!(numbers_in(comment), BTreeSet::from(expected));
}
