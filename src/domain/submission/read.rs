//! Reading a submission from JSON: an object comes in, a `Submission` goes out, or the one field that does not fit.
//!
//! The steps are read one by one, since what a step may have depends on its type;
//! so a fault is known by its whole path, such as `steps[2].web_search.max_uses`.
//! A field that is not known is a fault, so that a misspelt one is never ignored in silence.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::domain::money::Usd;

use super::{Step, Submission, id_text};

/// A field that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where it is, such as `steps[0].prompt`; empty for the whole.
    pub path: String,
    /// What is wrong with it; may quote what was sent.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    #[serde(default, deserialize_with = "id_text")]
    job_id: Option<String>,
    #[serde(default)]
    task: String,
    #[serde(default)]
    steps: Vec<Map<String, Value>>,
    #[serde(default)]
    settings: Map<String, Value>,
}

impl Submission {
    /// Reads what was sent, as far as its form goes; whether the values may be so is for `validate`.
    pub fn read(sent: Map<String, Value>) -> Result<Self, Misfit> {
        let Sent { job_id, task, steps, settings } = fit("", sent)?;
        let settings = fit("settings", settings)?;
        let steps = steps.into_iter().enumerate().map(|(at, step)| read_step(at, step));
        Ok(Self { job_id, task, steps: steps.collect::<Result<_, _>>()?, settings })
    }
}

fn read_step(at: usize, mut step: Map<String, Value>) -> Result<Step, Misfit> {
    let path = format!("steps[{at}]");
    let kind = step.remove("type");
    match kind.as_ref().and_then(Value::as_str) {
        Some("run") => fit(&path, step).map(Step::Run),
        Some("approval") => fit(&path, step).map(Step::Approval),
        Some("wait") => fit(&path, step).map(Step::Wait),
        Some(_) | None => Err(Misfit {
            path: format!("{path}.type"),
            message: "must be one of run, approval, wait".to_owned(),
        }),
    }
}

/// Reads an object whole; a fault is known by its path from `base` on, which is empty at the top.
pub fn fit<T: DeserializeOwned>(base: &str, object: Map<String, Value>) -> Result<T, Misfit> {
    serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| {
        let inner = error.path().to_string();
        // The parser writes `.` for the whole.
        let path = match (base, inner.as_str()) {
            (base, ".") => base.to_owned(),
            ("", inner) => inner.to_owned(),
            (base, inner) => format!("{base}.{inner}"),
        };
        Misfit { path, message: error.into_inner().to_string() }
    })
}

/// A moment as RFC 3339 has it; chrono's own complaint does not say what it wants.
pub(super) fn moment<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<DateTime<Utc>>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_unread: chrono::ParseError| {
        serde::de::Error::custom("must be a time such as 2026-01-31T09:00:00Z")
    })
}

/// An amount as text such as `2.50`, or as a number, which is read as it is written; empty is the same as absent.
pub fn dollars<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Usd>, D::Error> {
    let text = match Option::<Value>::deserialize(from)? {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.is_empty() => return Ok(None),
        Some(Value::String(text)) => text,
        // A small one is written with an exponent.
        Some(Value::Number(number)) => match Decimal::from_scientific(&number.to_string()) {
            Ok(amount) => amount.to_string(),
            Err(_) => number.to_string(),
        },
        Some(other) => other.to_string(),
    };
    text.parse().map(Some).map_err(|_inexact| {
        serde::de::Error::custom(format!("must be an amount such as \"2.50\", is {text:?}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: Value) -> Result<Submission, Misfit> {
        let Value::Object(sent) = sent else { panic!("the test sends an object") };
        Submission::read(sent)
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_whole_path() {
        let step = |step: Value| json!({"steps": [{"type": "wait", "duration_seconds": 1}, step]});
        for (sent, path, message) in [
            (step(json!({"type": "run", "prompt": 7})), "steps[1].prompt", "expected a string"),
            (
                step(json!({"type": "run", "max_tokens": "many"})),
                "steps[1].max_tokens",
                "expected i32",
            ),
            (
                step(json!({"type": "run", "web_search": {"max_uses": []}})),
                "steps[1].web_search.max_uses",
                "expected i32",
            ),
            (
                step(json!({"type": "run", "web_search": {"allowed_domains": ["a", 1]}})),
                "steps[1].web_search.allowed_domains[1]",
                "expected a string",
            ),
            (
                step(json!({"type": "run", "context": "all"})),
                "steps[1].context",
                "expected `conversation` or `none`",
            ),
            (
                step(json!({"type": "approval", "on_timeout": "shrug"})),
                "steps[1].on_timeout",
                "expected one of `fail`, `approve`, `reject`",
            ),
            (
                step(json!({"type": "wait", "until_at": "tomorrow"})),
                "steps[1].until_at",
                "such as 2026-01-31T09:00:00Z",
            ),
            (
                step(json!({"type": "run", "promt": "p"})),
                "steps[1].promt",
                "unknown field `promt`, expected one of `name`, `prompt`",
            ),
            (step(json!({"type": "run", "note": "n"})), "steps[1].note", "unknown field"),
            (step(json!({"type": "dance"})), "steps[1].type", "one of run, approval, wait"),
            (step(json!({"type": 7})), "steps[1].type", "one of run, approval, wait"),
            (step(json!({"prompt": "p"})), "steps[1].type", "one of run, approval, wait"),
            (step(json!("run")), "steps[1]", "expected a map"),
            (json!({"steps": "run"}), "steps", "expected a sequence"),
            (json!({"settings": {"labels": {"a": 1}}}), "settings.labels.a", "expected a string"),
            (json!({"settings": {"labels": "a"}}), "settings.labels", "expected a map"),
            (json!({"settings": {"run_at": 5}}), "settings.run_at", "expected a string"),
            (json!({"job_id": 1.5}), "job_id", "text or a whole number"),
            (json!({"tusk": "t"}), "tusk", "unknown field `tusk`"),
            (json!({"settings": ["claude"]}), "settings", "expected a map"),
        ] {
            let misfit = read(sent).unwrap_err();
            assert_eq!(misfit.path, path, "{}", misfit.message);
            assert!(misfit.message.contains(message), "{path}: {}", misfit.message);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let sent = json!({"task": "t", "steps": [
            {"type": "run", "name": "draft", "prompt": "p", "web_search": {"max_uses": 3}, "context": "none"},
            {"type": "approval", "note": "n", "approvers": ["+15550100"], "on_timeout": "reject"},
            {"type": "wait", "until_at": "2026-01-31T09:00:00Z"},
        ], "settings": {"labels": {"a": "b"}, "run_at": "2026-01-31T10:00:00+01:00"}});
        let submission = read(sent).unwrap();
        let content = submission.content();
        assert_eq!(content["settings"]["run_at"], "2026-01-31T09:00:00Z");
        assert_eq!(read(content), Ok(submission));
    }
}
