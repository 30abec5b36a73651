//! Leniency: what clients of n8n send beside what is asked for, or under another name, is set right and told.
//!
//! In goes the object of a lenient client; what nothing reads is taken out of it, and a name that is known elsewhere
//! becomes the one that is known here. Out come the warnings, a sentence each; no value is ever changed.

use serde_json::{Map, Value};

use super::body::clip;
use crate::domain::submission::known::{take_unknown, take_unknown_of_submission};

/// Other names for a field, in the order in which they count.
type Alias = (&'static str, &'static str);

const JOB_ID: [Alias; 2] = [("jobId", "job_id"), ("id", "job_id")];
const ACTION: [Alias; 2] = [("command", "action"), ("op", "action")];

/// Sets a submission right; `beside` names what the webhook reads of it itself.
pub(super) fn mend_submission(
    sent: &mut Map<String, Value>,
    beside: &[&'static str],
) -> Vec<String> {
    let mut warnings = rename(sent, &JOB_ID);
    let kept: Vec<_> = beside.iter().filter_map(|name| sent.remove_entry(*name)).collect();
    warnings.extend(unread(take_unknown_of_submission(sent)));
    sent.extend(kept);
    warnings
}

/// Sets an action right.
pub(super) fn mend_action(sent: &mut Map<String, Value>, known: &[&str]) -> Vec<String> {
    let mut warnings = rename(sent, &JOB_ID);
    warnings.extend(rename(sent, &ACTION));
    warnings.extend(unread(take_unknown("", sent, known)));
    warnings
}

fn rename(sent: &mut Map<String, Value>, aliases: &[Alias]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (alias, name) in aliases {
        if sent.contains_key(*name) {
            continue;
        }
        if let Some(value) = sent.remove(*alias) {
            sent.insert((*name).to_owned(), value);
            warnings.push(format!("`{alias}` was read as `{name}`"));
        }
    }
    warnings
}

fn unread(paths: Vec<String>) -> impl Iterator<Item = String> {
    paths.into_iter().map(|path| format!("the field `{}` was not read", clip(&path)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else { panic!("the test sends an object") };
        object
    }

    #[test]
    fn an_action_is_read_by_its_other_names() {
        let known = ["job_id", "action"];
        let mut sent = object(json!({"id": 7, "op": "pause", "executionId": 9}));
        let warnings = mend_action(&mut sent, &known);
        assert_eq!(Value::Object(sent), json!({"job_id": 7, "action": "pause"}));
        assert_eq!(
            warnings,
            [
                "`id` was read as `job_id`",
                "`op` was read as `action`",
                "the field `executionId` was not read",
            ]
        );
    }

    #[test]
    fn the_right_name_goes_before_every_other() {
        let mut sent = object(json!({"job_id": "a", "jobId": "b", "id": "c", "steps": []}));
        let warnings = mend_submission(&mut sent, &[]);
        assert_eq!(sent["job_id"], "a");
        assert_eq!(warnings, ["the field `id` was not read", "the field `jobId` was not read"]);
        let mut sent = object(json!({"jobId": "b", "id": "c", "validate_only": true}));
        assert_eq!(mend_submission(&mut sent, &["validate_only"]).len(), 2);
        assert_eq!(Value::Object(sent), json!({"job_id": "b", "validate_only": true}));
    }
}
