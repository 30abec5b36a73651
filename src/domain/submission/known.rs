//! Known fields: what a submission has that its types know, and what they do not.
//!
//! In goes a JSON object of a client that sends more than is asked for; the rest is taken out and named, but what only
//! spells a known name in another way, which is taken for it where the known one says nothing.
//! The names are asked of the types themselves, so that a new field of theirs is known here too.

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::{ApprovalStep, RunStep, Settings, UserLocation, WaitStep, WebSearch};

/// The names of the fields that a type reads from an object; none, if it reads no object.
pub fn fields_of<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut names = Names(&[]);
    // It always fails, behind the moment at which the type has told what it wants.
    let _told = T::deserialize(&mut names);
    names.0
}

struct Names(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Names {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("there is nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// What became of a field that has no known name, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Odd {
    /// Nothing reads it, so it was taken out.
    Unread(String),
    /// It spells the known field that is named second in another way, and was taken for it.
    Respelt(String, String),
}

/// Gives what spells a known field in another way, such as `requestId`, its known name, where that says nothing.
pub fn respell(base: &str, object: &mut Map<String, Value>, known: &[&str]) -> Vec<Odd> {
    let mut odd = Vec::new();
    for name in known.iter().copied() {
        if object.get(name).is_some_and(|value| !value.is_null()) {
            continue;
        }
        let plain = without_style(name);
        let is_it = |(other, value): &(&String, &Value)| {
            !known.contains(&other.as_str()) && !value.is_null() && without_style(other) == plain
        };
        let found = object.iter().find(is_it).map(|(other, _)| other.clone());
        let Some((other, value)) = found.and_then(|other| object.remove_entry(&other)) else {
            continue;
        };
        object.insert(name.to_owned(), value);
        odd.push(Odd::Respelt(path(base, &other), path(base, name)));
    }
    odd
}

/// A name without what tells one way to spell names from another.
fn without_style(name: &str) -> String {
    let bare = name.chars().filter(|c| !"_- .".contains(*c));
    bare.map(|c| c.to_ascii_lowercase()).collect()
}

fn path(base: &str, name: &str) -> String {
    if base.is_empty() { name.to_owned() } else { format!("{base}.{name}") }
}

/// Takes out of an object what spells none of these names; answers with what became of it.
pub fn take_unknown(base: &str, object: &mut Map<String, Value>, known: &[&str]) -> Vec<Odd> {
    let mut odd = respell(base, object, known);
    object.retain(|name, _| {
        let is_known = known.contains(&name.as_str());
        if !is_known {
            odd.push(Odd::Unread(path(base, name)));
        }
        is_known
    });
    odd
}

/// What a submission itself holds.
pub const OF_A_SUBMISSION: [&str; 4] = ["job_id", "task", "steps", "settings"];

/// Takes out of a submission what nothing reads, however deep it is; a step of no known type is left as it is.
pub fn take_unknown_of_submission(sent: &mut Map<String, Value>) -> Vec<Odd> {
    let mut taken = take_unknown("", sent, &OF_A_SUBMISSION);
    if let Some(Value::Object(settings)) = sent.get_mut("settings") {
        taken.extend(take_unknown("settings", settings, fields_of::<Settings>()));
    }
    let Some(Value::Array(steps)) = sent.get_mut("steps") else { return taken };
    for (at, step) in steps.iter_mut().enumerate() {
        let Value::Object(step) = step else { continue };
        let known = match step.get("type").and_then(Value::as_str) {
            Some("run") => fields_of::<RunStep>(),
            Some("approval") => fields_of::<ApprovalStep>(),
            Some("wait") => fields_of::<WaitStep>(),
            Some(_) | None => continue,
        };
        let base = format!("steps[{at}]");
        let known: Vec<&str> = known.iter().copied().chain(["type"]).collect();
        taken.extend(take_unknown(&base, step, &known));
        let Some(Value::Object(search)) = step.get_mut("web_search") else { continue };
        let base = format!("{base}.web_search");
        taken.extend(take_unknown(&base, search, fields_of::<WebSearch>()));
        if let Some(Value::Object(place)) = search.get_mut("user_location") {
            let base = format!("{base}.user_location");
            taken.extend(take_unknown(&base, place, fields_of::<UserLocation>()));
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::submission::Submission;

    #[test]
    fn the_types_tell_their_own_fields() {
        assert_eq!(fields_of::<WaitStep>(), ["name", "duration_seconds", "until_at"]);
        assert!(fields_of::<RunStep>().contains(&"prompt"));
        assert_eq!(fields_of::<String>(), [""; 0]);
    }

    #[test]
    fn what_is_spelt_in_another_way_counts_where_the_known_name_says_nothing() {
        let sent = json!({
            "settings": {"budgetUSD": "2", "run-at": null, "priority": 1, "Priority": 2},
            "Steps": [{"type": "run", "prompt": "p", "max_tokens": null, "maxTokens": 5}],
        });
        let Value::Object(mut sent) = sent else { panic!("the test sends an object") };
        let odd = take_unknown_of_submission(&mut sent);
        let respelt = |from: &str, to: &str| Odd::Respelt(from.to_owned(), to.to_owned());
        let unread = |path: &str| Odd::Unread(path.to_owned());
        let expected = [
            respelt("Steps", "steps"),
            respelt("settings.budgetUSD", "settings.budget_usd"),
            unread("settings.Priority"),
            unread("settings.run-at"),
            respelt("steps[0].maxTokens", "steps[0].max_tokens"),
        ];
        assert_eq!(odd, expected);
        let expected = json!({
            "settings": {"budget_usd": "2", "priority": 1},
            "steps": [{"type": "run", "prompt": "p", "max_tokens": 5}],
        });
        assert_eq!(Value::Object(sent), expected);
    }

    #[test]
    fn what_nothing_reads_is_taken_out_and_named() {
        let sent = json!({
            "job_id": "a", "title": 1, "settings": {"priority": 1, "retries": 2, "labels": {"any": "x"}},
            "steps": [
                {"type": "run", "prompt": "p", "promt": "q", "web_search": {"depth": 1, "user_location": {"zip": 1}}},
                {"type": "wait", "duration_seconds": 1, "note": "n"},
                {"type": "dance", "steps": 3},
            ],
        });
        let Value::Object(mut sent) = sent else { panic!("the test sends an object") };
        let taken = take_unknown_of_submission(&mut sent);
        let expected = [
            "title",
            "settings.retries",
            "steps[0].promt",
            "steps[0].web_search.depth",
            "steps[0].web_search.user_location.zip",
            "steps[1].note",
        ];
        assert_eq!(taken, expected.map(|path| Odd::Unread(path.to_owned())));
        let Err(misfit) = Submission::read(sent.clone()) else { panic!("a step has no type") };
        assert_eq!(misfit.path, "steps[2].type");
        sent["steps"].as_array_mut().expect("the test sends steps").pop();
        assert_eq!(take_unknown_of_submission(&mut sent), []);
        assert!(Submission::read(sent).is_ok());
    }
}
