//! Bounds: what a field of a submission or an action may be, beyond its type.
//!
//! The numbers are those of the checks; tests hold every field here to its check, at the border and beyond.
//! A text is bounded in bytes and a schema counts characters, so what is too long for a schema is too long for a check.

use serde_json::{Value, json};

use crate::domain::validate::bound::{
    APPROVAL_SECONDS, ATTEMPTS, COMMENT_BYTES_MAX, DOMAIN_BYTES_MAX, DOMAINS_MAX,
    IDLE_TIMEOUT_SECONDS, JSON_BYTES_MAX, LANGUAGE_BYTES_MAX, MAX_TOKENS, MODEL_BYTES_MAX,
    PEOPLE_MAX, PLACE_BYTES_MAX, PRIORITY, PROMPT_BYTES_MAX, REMINDERS_MAX, RETRY_WINDOW_SECONDS,
    REVISIONS, SEARCHES, STEPS_MAX, STOP_SEQUENCE_BYTES_MAX, STOP_SEQUENCES_MAX, TEXT_BYTES_MAX,
    TIMEOUT_SECONDS, VOTER_BYTES_MAX, WAIT_SECONDS, WEBHOOKS_MAX,
};

/// The same, with zero for the default.
const fn or_zero((_, most): (i32, i32)) -> (i32, i32) {
    (0, most)
}

/// Shorter than the longest approval.
const WITHIN_APPROVAL: (i32, i32) = (1, APPROVAL_SECONDS.1 - 1);

/// The bounds of whole numbers.
pub(super) const NUMBERS: [(&str, &str, (i32, i32)); 15] = [
    ("RunStep", "max_tokens", or_zero(MAX_TOKENS)),
    ("RunStep", "timeout_seconds", or_zero(TIMEOUT_SECONDS)),
    ("RunStep", "idle_timeout_seconds", or_zero(IDLE_TIMEOUT_SECONDS)),
    ("WebSearch", "max_uses", or_zero(SEARCHES)),
    ("ApprovalStep", "quorum", (0, PEOPLE_MAX as i32)),
    ("ApprovalStep", "timeout_seconds", or_zero(APPROVAL_SECONDS)),
    ("ApprovalStep", "remind_before_seconds", WITHIN_APPROVAL),
    ("ApprovalStep", "escalate_after_seconds", or_zero(WITHIN_APPROVAL)),
    ("ApprovalStep", "max_revisions", REVISIONS),
    ("ApprovalStep", "revise_step", (0, STEPS_MAX as i32)),
    ("WaitStep", "duration_seconds", WAIT_SECONDS),
    ("JobSettings", "max_tokens", or_zero(MAX_TOKENS)),
    ("JobSettings", "max_attempts", ATTEMPTS),
    ("JobSettings", "retry_window_seconds", RETRY_WINDOW_SECONDS),
    ("JobSettings", "priority", PRIORITY),
];

/// The most entries of lists.
pub(super) const LISTS: [(&str, &str, usize); 8] = [
    ("RunStep", "stop_sequences", STOP_SEQUENCES_MAX),
    ("WebSearch", "allowed_domains", DOMAINS_MAX),
    ("WebSearch", "blocked_domains", DOMAINS_MAX),
    ("ApprovalStep", "approvers", PEOPLE_MAX),
    ("ApprovalStep", "remind_before_seconds", REMINDERS_MAX),
    ("ApprovalStep", "escalate_to", PEOPLE_MAX),
    ("JobSettings", "notify", PEOPLE_MAX),
    ("JobSettings", "webhooks", WEBHOOKS_MAX),
];

/// The most bytes of texts, or of each text of a list.
pub(super) const TEXTS: [(&str, &str, usize); 19] = [
    ("Submission", "task", TEXT_BYTES_MAX),
    ("RunStep", "prompt", PROMPT_BYTES_MAX),
    ("RunStep", "system", PROMPT_BYTES_MAX),
    ("RunStep", "model", MODEL_BYTES_MAX),
    ("RunStep", "output_schema_json", JSON_BYTES_MAX),
    ("RunStep", "extra_json", JSON_BYTES_MAX),
    ("RunStep", "stop_sequences", STOP_SEQUENCE_BYTES_MAX),
    ("WebSearch", "allowed_domains", DOMAIN_BYTES_MAX),
    ("WebSearch", "blocked_domains", DOMAIN_BYTES_MAX),
    ("UserLocation", "city", PLACE_BYTES_MAX),
    ("UserLocation", "region", PLACE_BYTES_MAX),
    ("UserLocation", "timezone", PLACE_BYTES_MAX),
    ("ApprovalStep", "note", TEXT_BYTES_MAX),
    ("JobSettings", "model", MODEL_BYTES_MAX),
    ("JobSettings", "system", PROMPT_BYTES_MAX),
    ("JobSettings", "language", LANGUAGE_BYTES_MAX),
    ("Action", "comment", COMMENT_BYTES_MAX),
    ("Action", "on_behalf_of", VOTER_BYTES_MAX),
    ("Action", "edited_output", PROMPT_BYTES_MAX),
];

/// Which texts a field takes.
const PATTERNS: [(&str, &str, &str); 6] = [
    ("RunStep", "name", NAME),
    ("ApprovalStep", "name", NAME),
    ("WaitStep", "name", NAME),
    ("RunStep", "prompt", r"\S"),
    ("RunStep", "model", r"^[^\s\u0000-\u001f\u007f-\u009f]*$"),
    ("JobSettings", "language", "^([A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*)?$"),
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
    if let Some((.., (least, most))) = NUMBERS.iter().find(|(m, f, _)| is_it(m, f)) {
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
