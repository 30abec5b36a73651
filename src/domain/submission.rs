//! What a client submits, as it was sent: one type that both doors turn their requests into.
//!
//! Absent means that the server's default holds; zero where the API says "0: the default" is the same as absent.
//! The JSON form is the webhook's; it is also what is stored, compared and fingerprinted.
//! `Submission::read` takes its form; nothing here has been checked yet: `validate` does that, and `spec` freezes the defaults.

pub mod read;

pub mod known;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::money::Usd;
use super::word::Word;

/// A job as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Submission {
    /// The id the client chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// What the job is for.
    pub task: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What holds for the whole job.
    #[serde(skip_serializing_if = "is_default")]
    pub settings: Settings,
}

/// One step as it was sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Step {
    /// Ask a language model.
    Run(RunStep),
    /// Wait for a person.
    Approval(ApprovalStep),
    /// Wait for time.
    Wait(WaitStep),
}

impl Step {
    /// The step's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        let (Self::Run(RunStep { name, .. })
        | Self::Approval(ApprovalStep { name, .. })
        | Self::Wait(WaitStep { name, .. })) = self;
        name.as_deref()
    }
}

/// A run step as it was sent; the proto's comments say what each field means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is documented in submission.proto")]
pub struct RunStep {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub name: Option<String>,
    #[serde(default)]
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub max_tokens: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_search: Option<WebSearch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextMode>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub timeout_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub idle_timeout_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub output_schema_json: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_truncated: Option<TruncationPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub extra_json: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_interrupt: Option<InterruptPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RunMode>,
}

/// What the model may search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is documented in submission.proto")]
pub struct WebSearch {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub max_uses: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_location: Option<UserLocation>,
}

/// Where the one who asks is, roughly; what is empty is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is documented in submission.proto")]
pub struct UserLocation {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub city: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub country: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timezone: String,
}

/// How much a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each value is documented in submission.proto")]
pub enum Effort {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Word for Effort {}

/// What happens to an answer that was cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TruncationPolicy {
    /// The step fails.
    #[default]
    Fail,
    /// What there is of it is the output.
    Accept,
    /// The model is asked to go on.
    Continue,
}

impl Word for TruncationPolicy {}

/// What the next attempt does with what there is of an answer that was broken off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptPolicy {
    /// It asks anew.
    #[default]
    Restart,
    /// The model is asked to go on from it.
    Continue,
}

impl Word for InterruptPolicy {}

/// How a run step's question gets to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// By itself, at once, and its answer streams back.
    #[default]
    Stream,
    /// In a batch, at half the price, and its answer comes within a day.
    Batch,
}

impl Word for RunMode {}

/// What a run step's model sees of the steps before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextMode {
    /// The task and the earlier run steps, as turns.
    Conversation,
    /// The prompt alone.
    None,
}

impl Word for ContextMode {}

/// An approval step as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is documented in submission.proto")]
pub struct ApprovalStep {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub name: Option<String>,
    #[serde(default)]
    pub note: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub quorum: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub timeout_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<TimeoutPolicy>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remind_before_seconds: Vec<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub escalate_after_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate_to: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_edit: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub max_revisions: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub revise_step: Option<i32>,
}

/// What happens to an approval that nobody decided in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutPolicy {
    /// The job fails.
    Fail,
    /// As if approved, if a request is known to have been delivered.
    Approve,
    /// As if rejected.
    Reject,
}

impl Word for TimeoutPolicy {}

/// A wait step as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is documented in submission.proto")]
pub struct WaitStep {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read::moment")]
    pub until_at: Option<DateTime<Utc>>,
}

/// What holds for the whole job, as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is documented in submission.proto")]
pub struct Settings {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub max_tokens: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_window_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub language: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number")]
    pub priority: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read::moment")]
    pub run_at: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read::dollars")]
    pub budget_usd: Option<Usd>,
}

impl Submission {
    /// The content without the id, as JSON: what is stored as sent.
    pub fn content(&self) -> Value {
        let mut content =
            serde_json::to_value(self).expect("a submission is plain data with text keys");
        if let Value::Object(fields) = &mut content {
            fields.remove("job_id");
        }
        content
    }
}

/// A hash of a content, which outlives the content itself.
pub fn fingerprint(content: &Value) -> Vec<u8> {
    Sha256::digest(content.to_string().as_bytes()).to_vec()
}

/// The first field in which two contents differ, such as `steps[1].note`.
pub fn find_difference(left: &Value, right: &Value) -> Option<String> {
    ["task", "steps", "settings"]
        .iter()
        .find_map(|field| difference_at(field, left.get(field), right.get(field)))
}

fn difference_at(path: &str, left: Option<&Value>, right: Option<&Value>) -> Option<String> {
    match (left, right) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let kind_differs = left.get("type") != right.get("type");
            if kind_differs {
                return Some(format!("{path}.type"));
            }
            let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                difference_at(&format!("{path}.{key}"), left.get(key), right.get(key))
            })
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => (0..left.len().max(right.len()))
            .find_map(|at| difference_at(&format!("{path}[{at}]"), left.get(at), right.get(at))),
        (left, right) => (left != right).then(|| path.to_owned()),
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Zero is the same as absent, where zero stands for the default.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<i32>, D::Error> {
    Ok(Option::<i32>::deserialize(from)?.filter(|number| *number != 0))
}

/// Empty text is the same as absent.
fn text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

/// A job id may arrive as a number, as n8n's expressions make them; it is read as text.
pub fn id_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an id must be text or a whole number")]
    enum Id {
        Text(String),
        Whole(i64),
        Large(u64),
        Absent,
    }
    Ok(match Id::deserialize(from)? {
        Id::Text(text) => Some(text).filter(|text| !text.is_empty()),
        Id::Whole(number) => Some(number.to_string()),
        Id::Large(number) => Some(number.to_string()),
        Id::Absent => None,
    })
}

#[cfg(test)]
mod tests;
