//! Whether what came is what the scenario wants.

use longhaul_client::Error;
use serde_json::{Value, json};

/// Says what is not as it should be in an answer: objects may hold more, and what is false may be left out.
pub fn difference(came: &Value, wanted: &Value, place: &str) -> Option<String> {
    let same = match (came, wanted) {
        (_, Value::Object(wanted)) => {
            let differs =
                |(name, wanted)| difference(&came[name], wanted, &format!("{place}.{name}"));
            return wanted.iter().find_map(differs);
        }
        (Value::Array(came), Value::Array(wanted)) if came.len() == wanted.len() => {
            let mut pairs = came.iter().zip(wanted).enumerate();
            return pairs.find_map(|(n, (came, wanted))| {
                difference(came, wanted, &format!("{place}[{n}]"))
            });
        }
        (Value::Null, Value::Bool(false)) => true,
        _ => came == wanted,
    };
    (!same).then(|| format!("{place}: expected {wanted}, came {came}"))
}

/// Says what is not as it should be in a refusal.
pub fn refusal(error: &Error, wanted: &Value) -> Option<String> {
    let fields: Vec<_> = error.fields().iter().map(|wrong| &wrong.field).collect();
    let code = code_name(error);
    let codes = wanted["codes"].as_array().cloned().unwrap_or_else(|| vec![wanted["code"].clone()]);
    let is_wanted = codes.contains(&json!(code))
        && (wanted["reason"].is_null() || wanted["reason"] == error.reason())
        && (wanted["fields"].is_null() || wanted["fields"] == json!(fields));
    (!is_wanted).then(|| format!("expected {wanted}, came {code} {error} {fields:?}"))
}

/// `NotFound` as `NOT_FOUND`.
fn code_name(error: &Error) -> String {
    let mut name = String::new();
    for letter in format!("{:?}", error.code()).chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}
