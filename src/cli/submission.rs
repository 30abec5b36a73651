//! A submission read from YAML or JSON.
//!
//! In comes the text of a file, in the webhook's shape (`{"type":"run","prompt":…}`) or the proto's
//! (`{"run":{"prompt":…}}`), and fields from the command line; out comes the request, or which field is wrong, how, and
//! where it stands.
//! An unknown field is refused, never ignored: a misspelt setting must not be lost in silence.
//! What the values may be is the server's to say.

pub(super) mod node;

mod json;

pub(super) mod yaml;

mod value;

mod set;

use std::{collections::HashMap, str::FromStr as _};

use anyhow::Result;
use prost_types::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};

use self::node::{Content, Key, Node, Part, Place, Style, parts_of, read_path, told};
pub use self::set::{Assignment, assignment};
use super::{
    exit::{CliError, Fault},
    word,
};
use crate::domain::word::nearest;
use crate::rpc::proto::{
    ApprovalStep, JobSettings, RunStep, Step, SubmitJobRequest, UserLocation, WaitStep, WebSearch,
    step, wait_step,
};

/// What may stand under `type` in a step.
const KINDS: [&str; 3] = ["run", "approval", "wait"];

/// Reads a submission; an error is a `CliError::Invalid` that names the field.
pub fn parse_submission(text: &str) -> Result<SubmitJobRequest> {
    Ok(Document::read(text, "the submission")?.request()?)
}

/// A submission as it is written, with the place of each field.
#[derive(Debug)]
pub struct Document {
    root: Node,
    name: String,
}

impl Document {
    /// Reads YAML or JSON; the name is that of the file, which its places are told with.
    pub fn read(text: &str, name: &str) -> Result<Self, CliError> {
        // Some editors begin every file with it.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let read = match json::read(text) {
            Err(why) if is_meant_as_json(text, name) => Err(why),
            Err(_) => yaml::read(text),
            found => found,
        };
        let empty = Node::new(Place::At(1, 1), Content::Map(Vec::new()));
        let mut document = Self { root: empty, name: name.to_owned() };
        document.root = read.map_err(|(place, why)| document.invalid(place, "", why))?;
        document.nest()?;
        Ok(document)
    }

    /// Sets a field from the command line.
    pub fn set(&mut self, assignment: &Assignment) -> Result<(), CliError> {
        set::set(&mut self.root, assignment)
            .map_err(|(path, why)| self.invalid(Some(Place::Flag), &path, why))
    }

    /// The request that it is.
    pub fn request(&self) -> Result<SubmitJobRequest, CliError> {
        let submission: Submission =
            serde_path_to_error::deserialize(self.root.clone()).map_err(|error| {
                let path = parts_of(error.path());
                let wrong = error.into_inner();
                let place = self.root.locate(&path, wrong.is_name);
                self.invalid(Some(place), &told(&path), wrong.to_string())
            })?;
        let steps = submission.steps.into_iter().enumerate();
        Ok(SubmitJobRequest {
            job_id: submission.job_id,
            task: submission.task,
            steps: steps
                .map(|(index, step)| {
                    step.into_step().map_err(|why| {
                        let path = [Part::Field("steps".to_owned()), Part::Index(index)];
                        self.invalid(Some(self.root.locate(&path, false)), &told(&path), why)
                    })
                })
                .collect::<Result<_, _>>()?,
            settings: submission.settings.map(JobSettings::from),
            validate_only: submission.validate_only,
        })
    }

    /// Where a field stands, or what is around it, if its path can be read; a server names fields by such paths.
    pub fn place(&self, field: &str) -> Option<String> {
        let path = read_path(field).ok()?;
        Some(self.shown(self.root.locate(&path, false)))
    }

    fn shown(&self, place: Place) -> String {
        match place {
            Place::At(line, column) => format!("{}:{line}:{column}", self.name),
            Place::Flag => "--set".to_owned(),
        }
    }

    fn invalid(&self, place: Option<Place>, field: &str, problem: impl Into<String>) -> CliError {
        let place = place.map_or_else(|| self.name.clone(), |place| self.shown(place));
        let fault = Fault { place: Some(place), field: field.to_owned(), problem: problem.into() };
        CliError::Invalid { told: "the submission is not valid".to_owned(), faults: vec![fault] }
    }

    /// Turns steps of the webhook's shape into the proto's: what is beside `type` and `name` goes below the kind.
    fn nest(&mut self) -> Result<(), CliError> {
        let mut wrong = None;
        let fields = if let Content::Map(fields) = &mut self.root.content {
            &mut fields[..]
        } else {
            &mut []
        };
        let steps = fields.iter_mut().find(|(key, _)| key.text == "steps");
        if let Some(Content::List(steps)) = steps.map(|(_, steps)| &mut steps.content) {
            let mut nested = steps.iter_mut().enumerate();
            wrong = nested.find_map(|(index, step)| Some((index, nest(step).err()?)));
        }
        match wrong {
            None => Ok(()),
            Some((index, (place, why))) => {
                Err(self.invalid(Some(place), &format!("steps[{index}].type"), why))
            }
        }
    }
}

/// Whether what is no good JSON is still no YAML: by the end of the file's name, else by how its text begins.
fn is_meant_as_json(text: &str, name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "json" => true,
        "yaml" | "yml" => false,
        // YAML's objects can begin alike, but need no quotes around their names.
        _ => text.trim_start().strip_prefix('{').is_some_and(|rest| {
            let rest = rest.trim_start();
            rest.is_empty() || rest.starts_with(['"', '}'])
        }),
    }
}

fn nest(step: &mut Node) -> Result<(), (Place, String)> {
    let Content::Map(fields) = &mut step.content else { return Ok(()) };
    let Some(at) = fields.iter().position(|(key, _)| key.text == "type") else { return Ok(()) };
    let (key, kind) = fields.remove(at);
    let word = match &kind.content {
        Content::Scalar(word, Style::Text | Style::Plain) if KINDS.contains(&word.as_str()) => word,
        Content::Scalar(word, _) => {
            let hint = match nearest(word, &KINDS) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "use run, approval or wait".to_owned(),
            };
            return Err((kind.place, format!("`{word}` is not a type of step; {hint}")));
        }
        Content::List(_) | Content::Map(_) => {
            return Err((kind.place, "must be run, approval or wait".to_owned()));
        }
    };
    let (name, below): (Vec<_>, Vec<_>) =
        std::mem::take(fields).into_iter().partition(|(key, _)| key.text == "name");
    *fields = name;
    let below = Node::new(step.place, Content::Map(below));
    fields.push((Key { place: key.place, text: word.clone() }, below));
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Submission {
    #[serde(default)]
    job_id: String,
    #[serde(default)]
    task: String,
    #[serde(default)]
    steps: Vec<StepBody>,
    settings: Option<Settings>,
    #[serde(default)]
    validate_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody {
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

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wait {
    DurationSeconds(i32),
    #[serde(deserialize_with = "moment")]
    UntilAt(Timestamp),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
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
    fn into_step(self) -> Result<Step, &'static str> {
        let kind = match (self.run, self.approval, self.wait) {
            (Some(run), None, None) => Some(step::Kind::Run(run.into())),
            (None, Some(approval), None) => Some(step::Kind::Approval(approval.into())),
            (None, None, Some(wait)) => Some(step::Kind::Wait(wait.into())),
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

impl From<Wait> for WaitStep {
    fn from(wait: Wait) -> Self {
        Self {
            wait: Some(match wait {
                Wait::DurationSeconds(seconds) => wait_step::Wait::DurationSeconds(seconds),
                Wait::UntilAt(at) => wait_step::Wait::UntilAt(at),
            }),
        }
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

#[cfg(test)]
mod tests;
