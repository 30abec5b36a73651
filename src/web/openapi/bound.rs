//! Bounds: what a field of a submission or an action may be, beyond its type.
//!
//! The checks themselves are in the domain, in Rust; tests hold every number here to them, at its border and beyond.
//! A text is bounded in bytes and a schema counts characters, so what is too long for a schema is too long for a check.

use serde_json::{Value, json};

use crate::domain::validate::{COMMENT_BYTES_MAX, PROMPT_BYTES_MAX, STEPS_MAX, TEXT_BYTES_MAX};

const DAY: i32 = 86_400;

/// The bounds of whole numbers, with zero where that stands for the default.
pub(super) const NUMBERS: [(&str, &str, i32, i32); 15] = [
    ("RunStep", "max_tokens", 0, 128_000),
    ("RunStep", "timeout_seconds", 0, DAY),
    ("RunStep", "idle_timeout_seconds", 0, 3600),
    ("WebSearch", "max_uses", 0, 100),
    ("ApprovalStep", "quorum", 0, 64),
    ("ApprovalStep", "timeout_seconds", 0, 30 * DAY),
    ("ApprovalStep", "remind_before_seconds", 1, 30 * DAY - 1),
    ("ApprovalStep", "escalate_after_seconds", 0, 30 * DAY - 1),
    ("ApprovalStep", "max_revisions", 0, 20),
    ("ApprovalStep", "revise_step", 0, 1000),
    ("WaitStep", "duration_seconds", 0, 366 * DAY),
    ("JobSettings", "max_tokens", 0, 128_000),
    ("JobSettings", "max_attempts", 0, 100),
    ("JobSettings", "retry_window_seconds", 0, 30 * DAY),
    ("JobSettings", "priority", -1000, 1000),
];

/// The most entries of lists.
pub(super) const LISTS: [(&str, &str, usize); 6] = [
    ("RunStep", "stop_sequences", 16),
    ("ApprovalStep", "approvers", 64),
    ("ApprovalStep", "remind_before_seconds", 10),
    ("ApprovalStep", "escalate_to", 64),
    ("JobSettings", "notify", 64),
    ("JobSettings", "webhooks", 16),
];

/// The most bytes of texts, or of each text of a list.
pub(super) const TEXTS: [(&str, &str, usize); 17] = [
    ("Submission", "task", TEXT_BYTES_MAX),
    ("RunStep", "prompt", PROMPT_BYTES_MAX),
    ("RunStep", "system", PROMPT_BYTES_MAX),
    ("RunStep", "model", 128),
    ("RunStep", "output_schema_json", 64 << 10),
    ("RunStep", "extra_json", 64 << 10),
    ("RunStep", "stop_sequences", 256),
    ("UserLocation", "city", 255),
    ("UserLocation", "region", 255),
    ("UserLocation", "timezone", 255),
    ("ApprovalStep", "note", TEXT_BYTES_MAX),
    ("JobSettings", "model", 128),
    ("JobSettings", "system", PROMPT_BYTES_MAX),
    ("JobSettings", "language", 35),
    ("Action", "comment", COMMENT_BYTES_MAX),
    ("Action", "on_behalf_of", 255),
    ("Action", "edited_output", PROMPT_BYTES_MAX),
];

/// Which texts a field takes.
const PATTERNS: [(&str, &str, &str); 6] = [
    ("RunStep", "name", NAME),
    ("ApprovalStep", "name", NAME),
    ("WaitStep", "name", NAME),
    ("RunStep", "prompt", r"\S"),
    ("RunStep", "model", r"^[^\s\u0000-\u001f\u007f-\u009f]*$"),
    ("JobSettings", "language", "^[A-Za-z0-9-]*$"),
];
const NAME: &str = "^([A-Za-z][A-Za-z0-9_-]{0,63})?$";
/// Printable text without spaces at its ends.
pub(super) const ID: &str = r"^(?!\s)[^\u0000-\u001f\u007f-\u009f]*(?<!\s)$";
/// The most steps of a job.
pub(super) const STEPS: usize = STEPS_MAX;

/// Writes the bounds of a field into its schema, which is that of a list or of one value.
pub(super) fn bind(schema: &mut Value, message: &str, field: &str, is_list: bool) {
    let is_it = |m: &str, f: &str| m == message && f == field;
    if let Some((.., most)) = LISTS.iter().find(|(m, f, _)| is_it(m, f)) {
        schema["maxItems"] = json!(most);
    }
    let one = if is_list { &mut schema["items"] } else { schema };
    if let Some((.., least, most)) = NUMBERS.iter().find(|(m, f, ..)| is_it(m, f)) {
        one["minimum"] = json!(least);
        one["maximum"] = json!(most);
    }
    if let Some((.., most)) = TEXTS.iter().find(|(m, f, _)| is_it(m, f)) {
        one["maxLength"] = json!(most);
    }
    if let Some((.., pattern)) = PATTERNS.iter().find(|(m, f, _)| is_it(m, f)) {
        one["pattern"] = json!(pattern);
    }
}
