//! The state of a job in the template: what its steps came to, under whichever key it stands.
//!
//! In comes the column `state`; out come outputs, tokens and costs by step. The keys are those of our own read model
//! (`step_1_output`, `step_1_tokens`, `step_1_cost_usd`), and what others have made of them: without the underscore,
//! nested under `step_1`, in lists under `steps`, `outputs` or `results`, and counted from 0.

use rust_decimal::Decimal;
use serde_json::{Map, Value};

use crate::domain::import::result;
use crate::domain::job::StepResult;
use crate::domain::money::{Usage, Usd};

/// Names of what a step made.
pub(super) const OUTPUT: [&str; 5] = ["output", "result", "answer", "response", "text"];
pub(super) const TOKENS: [&str; 2] = ["tokens", "usage"];
pub(super) const COST: [&str; 2] = ["cost_usd", "cost"];
pub(super) const DECISION: [&str; 3] = ["decision", "verdict", "approved"];
/// Where the request may be, beside the top.
const WITHIN: [&str; 4] = ["request", "input", "body", "job"];

/// The state of one job.
#[derive(Debug)]
pub(super) struct State<'a> {
    fields: &'a Map<String, Value>,
    counts_from_zero: bool,
}

impl<'a> State<'a> {
    pub(super) fn new(fields: &'a Map<String, Value>) -> Self {
        let is_zero = |key: &String| {
            let rest = key.strip_prefix("step_").or_else(|| key.strip_prefix("step"));
            rest.is_some_and(|rest| rest == "0" || rest.starts_with("0_"))
        };
        Self { fields, counts_from_zero: fields.keys().any(is_zero) }
    }

    /// A part of the request, such as `task`.
    pub(super) fn requested(&self, name: &str) -> Option<&'a Value> {
        let within = WITHIN.iter().filter_map(|place| self.fields.get(*place)?.get(name));
        self.fields.get(name).into_iter().chain(within).find(|value| !value.is_null())
    }

    /// What a run step came to, if there is an output.
    pub(super) fn result(&self, step: usize) -> Option<StepResult> {
        let output = self.find(step, &OUTPUT).and_then(as_text)?;
        let usage = self.find(step, &TOKENS).and_then(usage).unwrap_or_default();
        let cost_usd = self.find(step, &COST).and_then(dollars);
        let model = self.find(step, &["model"]).and_then(Value::as_str).unwrap_or("imported");
        Some(result(output, usage, cost_usd, model.to_owned()))
    }

    /// What is told of a step's tokens and money in a way that cannot be read.
    pub(super) fn unread(&self, step: usize) -> impl Iterator<Item = String> + use<> {
        let tokens = self.find(step, &TOKENS).filter(|tokens| usage(tokens).is_none());
        let cost = self.find(step, &COST).filter(|cost| dollars(cost).is_none());
        let told = [("tokens", tokens), ("costs", cost)].map(|(what, found)| {
            let text: String = found?.to_string().chars().take(60).collect();
            Some(format!("its {what} cannot be read ({text})"))
        });
        told.into_iter().flatten()
    }

    /// Whether an approval step is known to have been approved.
    pub(super) fn is_approved(&self, step: usize) -> bool {
        self.find(step, &DECISION).is_some_and(|decision| match decision {
            Value::Bool(is_approved) => *is_approved,
            Value::String(word) => word.to_ascii_lowercase().starts_with("approve"),
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
        })
    }

    /// What it says went wrong, in a line.
    pub(super) fn error(&self, step: usize) -> Option<String> {
        let of_step = self.find(step, &["error"]);
        let of_all = ["error", "last_error", "error_message"].map(|name| self.fields.get(name));
        let found = of_step.into_iter().chain(of_all.into_iter().flatten()).find_map(as_text)?;
        let line = found.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(line.chars().take(500).collect())
    }

    /// The first of these names under which there is something of a step.
    fn find(&self, step: usize, names: &[&str]) -> Option<&'a Value> {
        let number = if self.counts_from_zero { step - 1 } else { step };
        names
            .iter()
            .find_map(|name| self.find_one(step, number, name))
            .filter(|value| !value.is_null())
    }

    fn find_one(&self, step: usize, number: usize, name: &str) -> Option<&'a Value> {
        let flat = [format!("step_{number}_{name}"), format!("step{number}_{name}")];
        let flat = flat.iter().find_map(|key| self.fields.get(key));
        let nested = || {
            let of_step = [format!("step_{number}"), format!("step{number}")];
            let of_step = of_step.iter().find_map(|key| self.fields.get(key))?;
            named(of_step, name)
        };
        let listed = || {
            let lists = ["steps", "outputs", "results", "checkpoints"];
            lists.iter().find_map(|list| named(self.fields.get(*list)?.get(step - 1)?, name))
        };
        flat.or_else(nested).or_else(listed)
    }
}

/// A part of what stands for a step; a text that stands for it is its output.
fn named<'a>(of_step: &'a Value, name: &str) -> Option<&'a Value> {
    if of_step.is_string() {
        return Some(of_step).filter(|_| name == "output");
    }
    of_step.get(name)
}

/// A text, or what holds one; anything else as JSON.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Object(fields) => {
            let inner =
                ["text", "output", "message"].iter().find_map(|name| fields.get(*name)?.as_str());
            Some(inner.map_or_else(|| value.to_string(), str::to_owned))
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => Some(value.to_string()),
    }
}

/// Tokens in and out; nothing if neither can be read.
fn usage(tokens: &Value) -> Option<Usage> {
    let count = |names: [&str; 3]| {
        let found = names.iter().find_map(|name| tokens.get(*name)?.as_i64());
        found.filter(|count| *count >= 0)
    };
    let input_tokens = count(["input", "input_tokens", "prompt_tokens"]);
    let output_tokens = count(["output", "output_tokens", "completion_tokens"]);
    input_tokens.or(output_tokens)?;
    let (input_tokens, output_tokens) =
        (input_tokens.unwrap_or_default(), output_tokens.unwrap_or_default());
    Some(Usage { input_tokens, output_tokens, ..Usage::default() })
}

fn dollars(cost: &Value) -> Option<Usd> {
    let text = match cost {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().trim_start_matches('$').to_owned(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let amount: Decimal = text.parse().or_else(|_plain| Decimal::from_scientific(&text)).ok()?;
    Some(Usd::from(amount)).filter(|cost| *cost >= Usd::ZERO)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(state: &Value, step: usize) -> Option<(String, i64, i64, Option<String>)> {
        let state = State::new(state.as_object().expect("an object"));
        let found = state.result(step)?;
        let cost = found.cost_usd.map(|cost| cost.to_string());
        Some((found.output, found.usage.input_tokens, found.usage.output_tokens, cost))
    }

    #[test]
    fn a_result_is_found_under_every_key_that_it_may_have() {
        let expected = Some(("A line.".to_owned(), 12, 5, Some("0.0031".to_owned())));
        let tokens = json!({"input": 12, "output": 5});
        for state in [
            json!({"step_1_output": "A line.", "step_1_tokens": tokens, "step_1_cost_usd": 0.0031}),
            json!({"step_0_output": "A line.", "step_0_tokens": tokens, "step_0_cost_usd": "0.0031"}),
            json!({"step1_output": "A line.", "step1_usage": {"input_tokens": 12, "output_tokens": 5}, "step1_cost": "$0.0031"}),
            json!({"step_1": {"output": {"text": "A line."}, "tokens": tokens, "cost_usd": 3.1e-3}}),
            json!({"steps": [{"type": "run", "output": "A line.", "tokens": tokens, "cost_usd": 0.0031}]}),
            json!({"results": [{"text": "A line.", "usage": tokens, "cost": 0.0031}]}),
        ] {
            assert_eq!(read(&state, 1), expected, "{state}");
        }
        assert_eq!(
            read(&json!({"outputs": ["A line."]}), 1),
            Some(("A line.".to_owned(), 0, 0, None))
        );
        for nothing in [json!({}), json!({"step_1_output": null}), json!({"step_2_output": "x"})] {
            assert_eq!(read(&nothing, 1), None, "{nothing}");
        }
    }

    #[test]
    fn tokens_and_costs_that_cannot_be_read_are_told() {
        let state = json!({
            "step_1_output": "x", "step_1_tokens": "many", "step_1_cost_usd": "a dollar",
            "step_2_output": "x", "step_2_tokens": {"input": 3}, "step_2_cost_usd": -1,
            "step_3_output": "x", "step_3_tokens": null,
        });
        let state = State::new(state.as_object().expect("an object"));
        let told = |step| state.unread(step).collect::<Vec<_>>();
        let [tokens, costs] =
            ["its tokens cannot be read (\"many\")", "its costs cannot be read (\"a dollar\")"];
        assert_eq!(told(1), [tokens, costs]);
        assert_eq!(told(2), ["its costs cannot be read (-1)"]);
        assert_eq!(told(3), Vec::<String>::new());
    }

    #[test]
    fn the_request_is_found_at_the_top_and_within() {
        for state in [
            json!({"task": "T"}),
            json!({"input": {"task": "T"}}),
            json!({"task": null, "body": {"task": "T"}}),
        ] {
            let state = State::new(state.as_object().expect("an object"));
            assert_eq!(state.requested("task"), Some(&json!("T")));
        }
    }
}
