//! Body templates: JSON in whose texts `{{ name }}` stands for what a notice tells, for chats that take a form of their own.
//!
//! The template is read as JSON before anything is filled in, and only texts in it are filled,
//! so that what is sent is JSON whatever a job or a model wrote. A name that means nothing is a mistake at start.

use serde_json::Value;

/// The names that mean something, beside those of links.
pub(super) const NAMES: [&str; 20] = [
    "title",
    "text",
    "type",
    "timestamp",
    "job_id",
    "task",
    "status",
    "step",
    "step_count",
    "approval_id",
    "note",
    "draft",
    "output",
    "deadline_at",
    "verdict",
    "by",
    "comment",
    "reason",
    "error",
    "cost_usd",
];
const OF_A_LINK: [&str; 3] = ["approver", "approve_url", "reject_url"];

/// What stands behind a name whose meaning must hold no mark of a chat.
const PLAIN: &str = "| plain";

/// A body with places to fill.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Value);

impl Template {
    /// Reads a template, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            format!("must be JSON, with every `{{{{ name }}}}` inside a text: {error}")
        })?;
        check(&value)?;
        Ok(Self(value))
    }

    /// The body, filled with what the names mean; what means nothing here is empty.
    pub(super) fn fill(&self, meaning: impl Fn(&str) -> String) -> Value {
        filled(&self.0, &meaning)
    }
}

fn filled(value: &Value, meaning: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => {
            let mut full = String::new();
            for part in parts(text).unwrap_or_default() {
                match part {
                    Part::Text(text) => full.push_str(text),
                    Part::Name(name) => match name.strip_suffix(PLAIN) {
                        Some(name) => full.push_str(&plain(&meaning(name.trim_end()))),
                        None => full.push_str(&meaning(name)),
                    },
                }
            }
            Value::String(full)
        }
        Value::Array(items) => items.iter().map(|item| filled(item, meaning)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), filled(value, meaning)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn check(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => {
            for part in parts(text)? {
                match part {
                    Part::Name(name)
                        if !is_known(name.strip_suffix(PLAIN).map_or(name, str::trim_end)) =>
                    {
                        let names = NAMES.join(", ");
                        return Err(format!(
                            "names `{name}`, which is none of {names}, and links.N.approver, .approve_url or .reject_url"
                        ));
                    }
                    Part::Name(_) | Part::Text(_) => {}
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(fields) => fields.values().try_for_each(check),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The link that a name means, by its number from 0, and what of it.
pub(super) fn find_link(name: &str) -> Option<(usize, &str)> {
    let (number, of_it) = name.strip_prefix("links.")?.split_once('.')?;
    let number = number.parse().ok().filter(|number| *number < 64)?;
    OF_A_LINK.contains(&of_it).then_some((number, of_it))
}

/// Chats read what stands between these, such as `<!channel>`, and each escapes them in another way.
fn plain(text: &str) -> String {
    text.replace('<', "‹").replace('>', "›")
}

fn is_known(name: &str) -> bool {
    NAMES.contains(&name) || find_link(name).is_some()
}

enum Part<'t> {
    Text(&'t str),
    Name(&'t str),
}

fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else {
            return Err("has a `{{` that is not closed by `}}`".to_owned());
        };
        parts.extend([Part::Text(before), Part::Name(name.trim())]);
        rest = after;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_filled_in_can_break_out_of_no_text() {
        let text = r#"{"text": "{{title}}: {{ text }}", "n": 1, "a": [true, null, "{{ links.1.approve_url }}"]}"#;
        let template = Template::parse(text).unwrap();
        let body = template.fill(|name| format!("<{name}>\"}}, {{{{ title }}}}\n"));
        let again = |name: &str| format!("<{name}>\"}}, {{{{ title }}}}\n");
        let expected = json!({"text": format!("{}: {}", again("title"), again("text")), "n": 1,
            "a": [true, null, again("links.1.approve_url")]});
        assert_eq!(body, expected);
        assert_eq!(serde_json::from_str::<Value>(&body.to_string()).unwrap(), expected);
    }

    #[test]
    fn what_is_filled_in_plainly_holds_no_mark_of_a_chat() {
        let template =
            Template::parse(r#"["{{ note | plain }} {{note| plain}} {{ note }}"]"#).unwrap();
        let body = template.fill(|name| format!("{name} <!channel>"));
        assert_eq!(body, json!(["note ‹!channel› note ‹!channel› note <!channel>"]));
        for text in
            [r#"["{{ note | slack }}"]"#, r#"["{{ | plain }}"]"#, r#"["{{ titel | plain }}"]"#]
        {
            assert!(Template::parse(text).unwrap_err().contains("none of title"), "{text}");
        }
    }

    #[test]
    fn a_template_that_can_never_work_says_why() {
        for (text, expected) in [
            ("", "must be JSON"),
            (r#"{"cost": {{ cost_usd }}}"#, "must be JSON"),
            (r#"{"text": "{{ titel }}"}"#, "names `titel`, which is none of title, text"),
            (r#"["{{ links.0.url }}"]"#, "names `links.0.url`"),
            (r#"["{{ links.64.approver }}"]"#, "names `links.64.approver`"),
            (r#"["{{ title"]"#, "not closed"),
        ] {
            let told = Template::parse(text).unwrap_err();
            assert!(told.contains(expected), "{told}");
        }
    }
}
