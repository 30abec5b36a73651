//! Forms: fields with names such as `steps[0][type]`, and texts, become the JSON object that they stand for.
//!
//! A field may be sent in one piece, as JSON text, or in parts, by brackets or dots; never in both ways, and never twice.
//! Every value of a form is text, so what a field holds is known by its name alone.
//! A name that means nothing here stays as it was sent, so that whoever reads the object can refuse it by name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Fault, clip, parse};

/// The deepest name: `steps[0][web_search][user_location][city]` has five parts.
const PARTS_MAX: usize = 8;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Text as it is.
    Text,
    /// A number, true or false.
    Plain,
    /// Fields with names that mean something.
    Object,
    /// Fields with names of the client's own, each of them text.
    Labels,
    /// A list of texts.
    Texts,
    /// A list of numbers.
    Numbers,
    /// A list of objects.
    Objects,
}

const NUMBERS: [&str; 13] = [
    "duration_seconds",
    "escalate_after_seconds",
    "from_step",
    "idle_timeout_seconds",
    "max_attempts",
    "max_revisions",
    "max_tokens",
    "max_uses",
    "priority",
    "quorum",
    "retry_window_seconds",
    "revise_step",
    "timeout_seconds",
];
const SWITCHES: [&str; 4] = ["allow_edit", "include_links", "now", "validate_only"];
const TEXTS: [&str; 7] = [
    "allowed_domains",
    "approvers",
    "blocked_domains",
    "escalate_to",
    "notify",
    "stop_sequences",
    "webhooks",
];

fn what_holds(name: &str) -> Holds {
    match name {
        "steps" => Holds::Objects,
        "settings" | "user_location" | "web_search" => Holds::Object,
        "labels" => Holds::Labels,
        "remind_before_seconds" => Holds::Numbers,
        name if TEXTS.contains(&name) => Holds::Texts,
        name if NUMBERS.contains(&name) || SWITCHES.contains(&name) => Holds::Plain,
        _ => Holds::Text,
    }
}

/// What was sent under a name, or under the parts of one.
enum Node {
    Leaf(String),
    Branch(BTreeMap<String, Node>),
}

/// The object that the fields of a form stand for.
pub(super) fn nest(fields: Vec<(String, String)>) -> Result<Map<String, Value>, Fault> {
    let mut root = BTreeMap::new();
    for (name, text) in fields {
        let parts = parts(&name).unwrap_or_else(|| vec![name.as_str()]);
        if parts.len() > PARTS_MAX {
            return Err(Fault::violation(clip(&name), "has too many parts"));
        }
        if parts[0].is_empty() {
            return Err(Fault::malformed("a field of the form has no name"));
        }
        insert(&mut root, &parts, text).map_err(|wrong| Fault::violation(clip(&name), wrong))?;
    }
    object("", root)
}

/// The parts of a name such as `steps[0][type]` or `steps[0].type`; none, if it is not written so.
fn parts(name: &str) -> Option<Vec<&str>> {
    let end = name.find(['[', '.']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let mut parts = vec![first];
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (part, after) = after.split_once(']')?;
            parts.push(part);
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['[', '.']).unwrap_or(after.len());
            parts.push(&after[..end]);
            rest = &after[end..];
        }
    }
    let is_last_alone = parts.iter().rev().skip(1).all(|part| !part.is_empty());
    is_last_alone.then_some(parts)
}

fn insert(
    branch: &mut BTreeMap<String, Node>,
    parts: &[&str],
    text: String,
) -> Result<(), &'static str> {
    const TWICE: &str = "must not be sent twice";
    let Some((first, rest)) = parts.split_first() else { return Err("has no name") };
    // `approvers[]` is the next of them.
    let first = if first.is_empty() { branch.len().to_string() } else { (*first).to_owned() };
    if rest.is_empty() {
        return match branch.insert(first, Node::Leaf(text)) {
            None => Ok(()),
            Some(_) => Err(TWICE),
        };
    }
    match branch.entry(first).or_insert_with(|| Node::Branch(BTreeMap::new())) {
        Node::Branch(inner) => insert(inner, rest, text),
        Node::Leaf(_) => Err(TWICE),
    }
}

fn object(path: &str, branch: BTreeMap<String, Node>) -> Result<Map<String, Value>, Fault> {
    let mut object = Map::new();
    for (name, node) in branch {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(value) = value(&path, what_holds(&name), node)? {
            object.insert(name, value);
        }
    }
    Ok(object)
}

fn value(path: &str, holds: Holds, node: Node) -> Result<Option<Value>, Fault> {
    let value = match node {
        Node::Leaf(text) => return leaf(path, holds, text),
        Node::Branch(parts) => match holds {
            Holds::Texts => list(path, Holds::Text, parts)?,
            Holds::Numbers => list(path, Holds::Plain, parts)?,
            Holds::Objects => list(path, Holds::Object, parts)?,
            Holds::Labels => {
                let labels = parts.into_iter().map(|(name, node)| {
                    let path = format!("{path}.{name}");
                    Ok((name, value(&path, Holds::Text, node)?.unwrap_or_default()))
                });
                Value::Object(labels.collect::<Result<_, Fault>>()?)
            }
            // Of what has no parts, whoever reads the object says so.
            Holds::Object | Holds::Text | Holds::Plain => Value::Object(object(path, parts)?),
        },
    };
    Ok(Some(value))
}

fn leaf(path: &str, holds: Holds, text: String) -> Result<Option<Value>, Fault> {
    // An empty field is one that was left empty.
    if holds != Holds::Text && text.trim().is_empty() {
        return Ok(None);
    }
    match holds {
        Holds::Text => Ok(Some(Value::String(text))),
        Holds::Plain => {
            Ok(Some(parse(path, text.trim().as_bytes()).unwrap_or(Value::String(text))))
        }
        Holds::Object | Holds::Labels | Holds::Texts | Holds::Numbers | Holds::Objects => {
            let value = parse(path, text.as_bytes()).map_err(|fault| fault.field(clip(path)))?;
            Ok(Some(value))
        }
    }
}

/// The parts of a list, which are numbered from 0 without a gap.
fn list(path: &str, item: Holds, parts: BTreeMap<String, Node>) -> Result<Value, Fault> {
    let mut numbered = BTreeMap::new();
    for (part, node) in parts {
        let number = part.parse::<u32>().ok().filter(|number| number.to_string() == part);
        let number = number.ok_or_else(|| {
            let field = clip(&format!("{path}[{part}]"));
            Fault::violation(field, "must have a number from 0 between its brackets")
        })?;
        numbered.insert(number, node);
    }
    let mut values = Vec::with_capacity(numbered.len());
    for (expected, (number, node)) in (0..).zip(numbered) {
        if number != expected {
            let message = format!("is sent, and {path}[{expected}] before it is not");
            return Err(Fault::violation(format!("{path}[{number}]"), message));
        }
        values.push(value(&format!("{path}[{number}]"), item, node)?.unwrap_or_default());
    }
    Ok(values.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::submission::known::fields_of;
    use crate::domain::submission::{ApprovalStep, RunStep, Settings, WaitStep, WebSearch};

    fn nested(fields: &[(&str, &str)]) -> Result<Value, String> {
        let fields = fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        nest(fields.collect()).map(Value::Object).map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn parts_become_what_they_stand_for() {
        let expected = json!({"job_id": "42", "task": "t[0]", "steps": [
            {"type": "run", "prompt": "[not JSON", "max_tokens": 50, "web_search": {"max_uses": 2, "allowed_domains": ["a.example"]}},
            {"type": "approval", "note": "ok?", "approvers": ["+15550100", "+15550101"], "allow_edit": true, "remind_before_seconds": [60, 30]},
        ], "settings": {"labels": {"max_tokens": "5", "0": "x", "a.b": "c"}, "budget_usd": "2.50", "priority": -1}});
        let in_brackets = [
            ("job_id", "42"),
            ("task", "t[0]"),
            ("steps[1][type]", "approval"),
            ("steps[0][type]", "run"),
            ("steps[0][prompt]", "[not JSON"),
            ("steps[0][max_tokens]", " 50 "),
            ("steps[0][web_search][max_uses]", "2"),
            ("steps[0][web_search][allowed_domains][0]", "a.example"),
            ("steps[1][note]", "ok?"),
            ("steps[1][approvers][]", "+15550100"),
            ("steps[1][approvers][]", "+15550101"),
            ("steps[1][allow_edit]", "true"),
            ("steps[1][remind_before_seconds]", "[60,30]"),
            ("settings[labels][max_tokens]", "5"),
            ("settings[labels][0]", "x"),
            ("settings[labels][a.b]", "c"),
            ("settings[budget_usd]", "2.50"),
            ("settings[priority]", "-1"),
            ("settings[max_attempts]", ""),
        ];
        assert_eq!(nested(&in_brackets).unwrap(), expected);
        let with_json = [
            ("steps", &*expected["steps"].to_string()),
            ("settings.labels", &expected["settings"]["labels"].to_string()),
            ("settings.budget_usd", "2.50"),
            ("settings.priority", "-1"),
            ("job_id", "42"),
            ("task", "t[0]"),
        ];
        assert_eq!(nested(&with_json).unwrap(), expected);
        let one_by_one = nested(&[("steps[0]", r#"{"type":"run"}"#), ("steps[1].type", "wait")]);
        assert_eq!(one_by_one.unwrap(), json!({"steps": [{"type": "run"}, {"type": "wait"}]}));
    }

    #[test]
    fn eleven_steps_are_in_their_order() {
        let names: Vec<String> = (0..11).map(|at| format!("steps[{at}][name]")).collect();
        let fields: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
        assert_eq!(nested(&fields).unwrap()["steps"][10]["name"], "steps[10][name]");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (fields, expected) in [
            (&[("task", "a"), ("task", "b")][..], "\"task\", message: \"must not be sent twice"),
            (
                &[("steps", "[]"), ("steps[0][type]", "run")],
                "\"steps[0][type]\", message: \"must not",
            ),
            (&[("steps[1][type]", "run")], "\"steps[1]\", message: \"is sent, and steps[0]"),
            (&[("steps[x][type]", "run")], "\"steps[x]\", message: \"must have a number"),
            (&[("steps[01][type]", "run")], "\"steps[01]\", message: \"must have a number"),
            (&[("steps", "nope")], "steps is not JSON"),
            (&[("steps[0][web_search]", "{")], "steps[0].web_search is not JSON"),
            (&[("a[b][c][d][e][f][g][h][i]", "x")], "too many parts"),
        ] {
            let fault = nested(fields).unwrap_err();
            assert!(fault.contains(expected), "{fields:?}: {fault}");
        }
        // A name that is not written as parts are is one name.
        let odd = nested(&[("steps[0", "x"), ("steps[][type]", "x"), ("max_tokens", "many")]);
        let expected = json!({"steps[0": "x", "steps[][type]": "x", "max_tokens": "many"});
        assert_eq!(odd.unwrap(), expected);
    }

    #[test]
    fn every_name_is_one_of_a_field() {
        let of_submissions = [
            fields_of::<RunStep>(),
            fields_of::<ApprovalStep>(),
            fields_of::<WaitStep>(),
            fields_of::<Settings>(),
            fields_of::<WebSearch>(),
        ]
        .concat();
        let of_control = ["from_step", "include_links", "now", "validate_only"];
        for name in NUMBERS.iter().chain(&SWITCHES).chain(&TEXTS) {
            assert!(of_submissions.contains(name) || of_control.contains(name), "{name}");
        }
    }
}
