//! The fields of a submission and their types, as files name them, and the request that they make.
//!
//! In comes what serde reads; out goes the proto's message. What is not there is what the proto means by nothing.
//! Words stand for the constants of the proto, and a word that stands for none is told with those that do.

use std::{collections::HashMap, str::FromStr as _};

use prost_types::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};

use super::super::word;
use crate::rpc::proto::{
    ApprovalStep, JobSettings, RunStep, Step, UserLocation, WaitStep, WebSearch, step, wait_step,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    #[serde(default)]
    pub job_id: String,
    #[serde(default)]
    pub task: String,
    #[serde(default)]
    pub steps: Vec<StepBody>,
    pub settings: Option<Settings>,
    #[serde(default)]
    pub validate_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepBody {
    #[serde(default)]
    name: String,
    run: Option<Run>,
    approval: Option<Approval>,
    wait: Option<Wait>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Run {
    prompt: String,
    system: String,
    model: String,
    max_tokens: i32,
    web_search: Option<Search>,
    #[serde(deserialize_with = "context")]
    context: i32,
    timeout_seconds: i32,
    idle_timeout_seconds: i32,
    #[serde(deserialize_with = "effort")]
    effort: i32,
    output_schema_json: String,
    stop_sequences: Vec<String>,
    #[serde(deserialize_with = "on_truncated")]
    on_truncated: i32,
    extra_json: String,
    #[serde(deserialize_with = "on_interrupt")]
    on_interrupt: i32,
    #[serde(deserialize_with = "mode")]
    mode: i32,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Search {
    max_uses: i32,
    allowed_domains: Vec<String>,
    blocked_domains: Vec<String>,
    user_location: Option<Location>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Location {
    city: String,
    region: String,
    country: String,
    timezone: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Approval {
    note: String,
    approvers: Vec<String>,
    quorum: i32,
    timeout_seconds: i32,
    #[serde(deserialize_with = "on_timeout")]
    on_timeout: i32,
    remind_before_seconds: Vec<i32>,
    escalate_after_seconds: i32,
    escalate_to: Vec<String>,
    allow_edit: bool,
    max_revisions: i32,
    revise_step: i32,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wait {
    duration_seconds: Option<i32>,
    #[serde(deserialize_with = "some_moment")]
    until_at: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    model: String,
    max_tokens: i32,
    system: String,
    max_attempts: Option<i32>,
    retry_window_seconds: Option<i32>,
    notify: Vec<String>,
    webhooks: Vec<String>,
    language: String,
    labels: HashMap<String, String>,
    priority: i32,
    #[serde(deserialize_with = "some_moment")]
    run_at: Option<Timestamp>,
    budget_usd: String,
}

fn context<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let word = String::deserialize(from)?;
    word::find_context_mode(&word).map(|mode| mode as i32).ok_or_else(|| {
        D::Error::custom(format!("`{word}` is not a context; use conversation or none"))
    })
}

fn on_timeout<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let word = String::deserialize(from)?;
    word::find_timeout_policy(&word).map(|policy| policy as i32).ok_or_else(|| {
        D::Error::custom(format!("`{word}` is not a policy; use fail, approve or reject"))
    })
}

fn effort<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let word = String::deserialize(from)?;
    word::find_effort(&word).map(|effort| effort as i32).ok_or_else(|| {
        D::Error::custom(format!("`{word}` is not an effort; use low, medium, high, xhigh or max"))
    })
}

fn on_truncated<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let word = String::deserialize(from)?;
    word::find_truncation_policy(&word).map(|policy| policy as i32).ok_or_else(|| {
        D::Error::custom(format!("`{word}` is not a policy; use fail, accept or continue"))
    })
}

fn on_interrupt<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let word = String::deserialize(from)?;
    word::find_interrupt_policy(&word).map(|policy| policy as i32).ok_or_else(|| {
        D::Error::custom(format!("`{word}` is not a policy; use restart or continue"))
    })
}

fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let word = String::deserialize(from)?;
    word::find_run_mode(&word)
        .map(|mode| mode as i32)
        .ok_or_else(|| D::Error::custom(format!("`{word}` is not a mode; use stream or batch")))
}

fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(from)?;
    Timestamp::from_str(&text).map_err(|error| {
        D::Error::custom(format!("`{text}` is not a time such as 2026-01-31T09:00:00Z: {error}"))
    })
}

fn some_moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    moment(from).map(Some)
}

impl StepBody {
    pub fn into_step(self) -> Result<Step, &'static str> {
        let kind = match (self.run, self.approval, self.wait) {
            (Some(run), None, None) => Some(step::Kind::Run(Box::new(run.into()))),
            (None, Some(approval), None) => Some(step::Kind::Approval(Box::new(approval.into()))),
            (None, None, Some(wait)) => Some(step::Kind::Wait(wait.into_step()?)),
            (None, None, None) => None,
            // The proto has room for one, so this cannot be left to the server.
            _ => return Err("has more than one of run, approval and wait"),
        };
        Ok(Step { name: self.name, kind })
    }
}

impl From<Run> for RunStep {
    fn from(run: Run) -> Self {
        Self {
            prompt: run.prompt,
            system: run.system,
            model: run.model,
            max_tokens: run.max_tokens,
            web_search: run.web_search.map(|search| WebSearch {
                max_uses: search.max_uses,
                allowed_domains: search.allowed_domains,
                blocked_domains: search.blocked_domains,
                user_location: search.user_location.map(|location| UserLocation {
                    city: location.city,
                    region: location.region,
                    country: location.country,
                    timezone: location.timezone,
                }),
            }),
            context: run.context,
            timeout_seconds: run.timeout_seconds,
            idle_timeout_seconds: run.idle_timeout_seconds,
            effort: run.effort,
            output_schema_json: run.output_schema_json,
            stop_sequences: run.stop_sequences,
            on_truncated: run.on_truncated,
            extra_json: run.extra_json,
            on_interrupt: run.on_interrupt,
            mode: run.mode,
        }
    }
}

impl From<Approval> for ApprovalStep {
    fn from(approval: Approval) -> Self {
        Self {
            note: approval.note,
            approvers: approval.approvers,
            quorum: approval.quorum,
            timeout_seconds: approval.timeout_seconds,
            on_timeout: approval.on_timeout,
            remind_before_seconds: approval.remind_before_seconds,
            escalate_after_seconds: approval.escalate_after_seconds,
            escalate_to: approval.escalate_to,
            allow_edit: approval.allow_edit,
            max_revisions: approval.max_revisions,
            revise_step: approval.revise_step,
        }
    }
}

impl Wait {
    fn into_step(self) -> Result<WaitStep, &'static str> {
        let wait = match (self.duration_seconds, self.until_at) {
            (Some(seconds), None) => Some(wait_step::Wait::DurationSeconds(seconds)),
            (None, Some(at)) => Some(wait_step::Wait::UntilAt(at)),
            (None, None) => None,
            (Some(_), Some(_)) => return Err("has both of duration_seconds and until_at"),
        };
        Ok(WaitStep { wait })
    }
}

impl From<Settings> for JobSettings {
    fn from(settings: Settings) -> Self {
        Self {
            model: settings.model,
            max_tokens: settings.max_tokens,
            system: settings.system,
            max_attempts: settings.max_attempts,
            retry_window_seconds: settings.retry_window_seconds,
            notify: settings.notify,
            webhooks: settings.webhooks,
            language: settings.language,
            labels: settings.labels,
            priority: settings.priority,
            run_at: settings.run_at,
            budget_usd: settings.budget_usd,
        }
    }
}
