//! Leniency: what clients of n8n send beside what is asked for, or under another name, is set right and told.
//!
//! In goes the object of a lenient client; what nothing reads is taken out of it, and a name that is known elsewhere,
//! or is spelt in another way, becomes the one that is known here, so that nothing that protects is lost.
//! Out come the warnings, a sentence each; no value is ever changed.

use serde_json::{Map, Value};

use super::body::clip;
use crate::domain::submission::known::{
    OF_A_SUBMISSION, Odd, respell, take_unknown, take_unknown_of_submission,
};

/// Other names for a field, in the order in which they count.
type Alias = (&'static str, &'static str);

const JOB_ID: [Alias; 1] = [("id", "job_id")];
const ACTION: [Alias; 2] = [("command", "action"), ("op", "action")];

/// Sets a submission right; `beside` names what the webhook reads of it itself.
pub(super) fn mend_submission(
    sent: &mut Map<String, Value>,
    beside: &[&'static str],
) -> Vec<String> {
    let known = [&OF_A_SUBMISSION, beside].concat();
    let mut warnings = told(respell("", sent, &known));
    warnings.extend(rename(sent, &JOB_ID));
    let kept: Vec<_> = beside.iter().filter_map(|name| sent.remove_entry(*name)).collect();
    warnings.extend(told(take_unknown_of_submission(sent)));
    sent.extend(kept);
    warnings
}

/// Sets an action right.
pub(super) fn mend_action(sent: &mut Map<String, Value>, known: &[&str]) -> Vec<String> {
    let mut warnings = told(respell("", sent, known));
    warnings.extend(rename(sent, &JOB_ID));
    warnings.extend(rename(sent, &ACTION));
    warnings.extend(told(take_unknown("", sent, known)));
    warnings
}

fn rename(sent: &mut Map<String, Value>, aliases: &[Alias]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (alias, name) in aliases {
        if sent.get(*name).is_some_and(|value| !value.is_null()) {
            continue;
        }
        if let Some(value) = sent.remove(*alias) {
            sent.insert((*name).to_owned(), value);
            warnings.push(format!("`{alias}` was read as `{name}`"));
        }
    }
    warnings
}

fn told(odd: Vec<Odd>) -> Vec<String> {
    let tell = |odd| match odd {
        Odd::Unread(path) => format!("the field `{}` was not read", clip(&path)),
        Odd::Respelt(path, known) => format!("`{}` was read as `{known}`", clip(&path)),
    };
    odd.into_iter().map(tell).collect()
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
    #[test]
    fn nothing_that_protects_is_lost_by_its_spelling() {
        let known = ["job_id", "request_id", "action", "approval_id", "budget_usd"];
        let sent = json!({"job_id": null, "jobId": "a", "requestId": "r", "op": "resume",
            "budgetUsd": 2, "ApprovalID": "x"});
        let mut sent = object(sent);
        let warnings = mend_action(&mut sent, &known);
        let expected = json!({"job_id": "a", "request_id": "r", "action": "resume",
            "budget_usd": 2, "approval_id": "x"});
        assert_eq!(Value::Object(sent), expected);
        assert_eq!(warnings.len(), 5, "{warnings:?}");
        let mut sent = object(json!({"id": "c", "job_id": null, "validateOnly": true}));
        mend_submission(&mut sent, &["validate_only"]);
        assert_eq!(Value::Object(sent), json!({"job_id": "c", "validate_only": true}));
    }
}
