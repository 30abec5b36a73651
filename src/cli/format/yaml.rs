//! JSON as YAML: what can stand without quotes does, and lines stay lines.
//!
//! In comes a value; out comes a document that every reader of YAML, old or new, takes for the same value.
//! Whatever an old reader could guess wrongly has quotes: `no`, `1e3`, `12:30`, an id that is a number.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Words that a reader could take for something else than a text.
const GUESSED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// A document.
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => object(&mut out, fields, 0, true),
        Value::Array(items) if !items.is_empty() => list(&mut out, items, 0),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            out.push_str(scalar(value, 2).trim_start());
            out.push('\n');
        }
    }
    out
}

/// Fields, a line each; the first goes on in the line of a list's dash.
fn object(out: &mut String, fields: &Map<String, Value>, depth: usize, is_at_margin: bool) {
    for (index, (name, value)) in fields.iter().enumerate() {
        if is_at_margin || index > 0 {
            indent(out, depth);
        }
        let _ = write!(out, "{}:", text_on_a_line(name));
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                out.push('\n');
                object(out, fields, depth + 2, true);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                list(out, items, depth);
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => {
                out.push_str(&scalar(value, depth + 2));
                out.push('\n');
            }
        }
    }
}

fn list(out: &mut String, items: &[Value], depth: usize) {
    for item in items {
        indent(out, depth);
        out.push('-');
        match item {
            Value::Object(fields) if !fields.is_empty() => {
                out.push(' ');
                object(out, fields, depth + 2, false);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                list(out, items, depth + 2);
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => {
                out.push_str(&scalar(item, depth + 2));
                out.push('\n');
            }
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n(' ', depth));
}

/// What stands behind a name or a dash, with the space before it.
fn scalar(value: &Value, depth: usize) -> String {
    match value {
        Value::String(text) if can_be_a_block(text) => block(text, depth),
        Value::String(text) => format!(" {}", text_on_a_line(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!(" {value}"),
        Value::Array(_) => " []".to_owned(),
        Value::Object(_) => " {}".to_owned(),
    }
}

fn text_on_a_line(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/');
    let is_plain = text.starts_with(char::is_alphabetic)
        && text.chars().all(is_word)
        && !text.ends_with(' ')
        && !GUESSED.contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// Between quotes, as JSON has them, with every character that YAML does not print as its number.
fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.chars().fold(String::new(), |mut quoted, c| {
        if is_printed(c) {
            quoted.push(c);
        } else {
            let _ = write!(quoted, "\\u{:04x}", u32::from(c));
        }
        quoted
    })
}

fn is_printed(c: char) -> bool {
    !(c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}'))
}

/// Whether the lines of a text can stand as they are.
fn can_be_a_block(text: &str) -> bool {
    let lines_are_whole = text.chars().all(|c| c == '\n' || is_printed(c));
    lines_are_whole && text.trim_end_matches('\n').contains('\n') && !text.starts_with([' ', '\n'])
}

fn block(text: &str, depth: usize) -> String {
    let ends = text.len() - text.trim_end_matches('\n').len();
    let keep = ["|-", "|", "|+"][ends.min(2)];
    let mut out = format!(" {keep}");
    // The last line's end is that of the document's line.
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(&mut out, depth);
            out.push_str(line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::cli::submission::node::{Content, Node, Style};
    use crate::cli::submission::yaml::read;

    #[test]
    fn it_reads_well_and_nothing_can_be_guessed_wrongly() {
        let value = json!({
            "job_id": "42", "task": "Launch copy", "no": "no", "at": "12:30", "empty": "",
            "output": "First line\n\n  second\n", "labels": {}, "steps": [{"name": "draft", "of": [1, [2]]}, []],
            "cost_usd": "0.10", "done": true, "none": null, "中文": "写一段：好",
        });
        let expected = r#"at: "12:30"
cost_usd: "0.10"
done: true
empty: ""
job_id: "42"
labels: {}
"no": "no"
none: null
output: |
  First line

    second
steps:
- name: draft
  of:
  - 1
  -
    - 2
- []
task: Launch copy
中文: "写一段：好"
"#;
        assert_eq!(document(&value), expected);
    }

    /// What a reader makes of it; all texts have quotes or begin with a letter and are no guessed word.
    fn value(node: &Node) -> Value {
        match &node.content {
            Content::Scalar(text, Style::Text) => json!(text),
            Content::Scalar(text, _) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            Content::List(items) => items.iter().map(value).collect(),
            Content::Map(fields) => {
                fields.iter().map(|(key, one)| (key.text.clone(), value(one))).collect()
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[a-z :#\\-\n|>'\"?{}\\[\\],&*!%@`~=]{0,12}",
            "(a|b| |\n){0,8}"
        ];
        let leaf = prop_oneof![
            text.prop_map(Value::String),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-z0-9 :\n]{0,6}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(written in values()) {
            let document = document(&written);
            let read = read(&document).map_err(|(_, why)| TestCaseError::fail(format!("{why}\n{document}")))?;
            prop_assert_eq!(value(&read), written, "\n{}", document);
        }
    }
}
