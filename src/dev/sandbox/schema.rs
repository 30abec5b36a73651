//! The schemas that an answer can be told to fit: what they may say, and a value that fits one.
//! In comes the JSON schema of a question; out goes a [`Refusal`] if the provider does not take it,
//! and later a value with everything the schema names, about the topic of the question.

use serde_json::{Map, Value, json};

use super::{
    prose::{self, Topic},
    refusal::Refusal,
};

/// What schemas may not ask for, since it cannot be kept while the tokens are chosen.
const UNSUPPORTED: [&str; 9] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
];
/// The most properties that may be left out, in all objects together.
const OPTIONAL_MAX: usize = 24;
/// No sane schema is nested deeper; one that refers to itself is.
const DEPTH_MAX: usize = 32;

/// Whether a schema is one that the provider takes.
pub fn check(schema: &Value) -> Result<(), Refusal> {
    let mut optional = 0;
    check_part(schema, schema, 0, &mut optional)?;
    if optional > OPTIONAL_MAX {
        return Err(refuse(&format!(
            "{optional} optional properties are too many; {OPTIONAL_MAX} are allowed"
        )));
    }
    Ok(())
}

fn check_part(
    whole: &Value,
    part: &Value,
    depth: usize,
    optional: &mut usize,
) -> Result<(), Refusal> {
    if depth > DEPTH_MAX {
        return Err(refuse("a schema may not be recursive"));
    }
    if let Some(target) = part["$ref"].as_str() {
        let target = find_target(whole, target)
            .ok_or_else(|| refuse(&format!("$ref: there is no \"{target}\"")))?;
        return check_part(whole, target, depth + 1, optional);
    }
    if let Some(name) = UNSUPPORTED.iter().find(|name| !part[**name].is_null()) {
        return Err(refuse(&format!("property '{name}' is not supported")));
    }
    if part["minItems"].as_u64().is_some_and(|least| least > 1) {
        return Err(refuse("property 'minItems' may only be 0 or 1"));
    }
    if part["type"] == "object" {
        if part["additionalProperties"] != false {
            return Err(refuse(
                "For 'object' type, 'additionalProperties' must be explicitly set to false",
            ));
        }
        let required = part["required"].as_array().map_or(&[][..], Vec::as_slice);
        let names = part["properties"].as_object().into_iter().flat_map(Map::keys);
        *optional += names.filter(|name| !required.iter().any(|one| one == *name)).count();
    }
    parts(part).try_for_each(|inner| check_part(whole, inner, depth + 1, optional))
}

/// The schemas right within a schema.
fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    let choices = ["anyOf", "allOf"].into_iter().filter_map(|name| schema[name].as_array());
    let properties = schema["properties"].as_object().into_iter().flat_map(Map::values);
    properties.chain(choices.flatten()).chain(schema.get("items"))
}

fn find_target<'s>(whole: &'s Value, target: &str) -> Option<&'s Value> {
    let target = target.strip_prefix('#')?;
    whole
        .pointer(target)
        .filter(|_| target.starts_with("/$defs/") || target.starts_with("/definitions/"))
}

fn refuse(what: &str) -> Refusal {
    Refusal::invalid(format!("output_config.format.schema: {what}"))
}

/// A value that fits a schema, about the topic.
pub fn instance(schema: &Value, topic: &Topic) -> Value {
    made(schema, schema, topic, 0)
}

fn made(whole: &Value, part: &Value, topic: &Topic, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    let inner = |part: &Value| made(whole, part, topic, depth + 1);
    if let Some(target) = part["$ref"].as_str().and_then(|target| find_target(whole, target)) {
        return inner(target);
    }
    if let Some(value) = part.get("const") {
        return value.clone();
    }
    if let Some(value) = part["enum"].as_array().and_then(|values| values.first()) {
        return value.clone();
    }
    let choice = ["anyOf", "allOf"].into_iter().find_map(|name| part[name].as_array()?.first());
    if let Some(choice) = choice {
        return inner(choice);
    }
    match part["type"].as_str().or_else(|| part["type"][0].as_str()) {
        Some("string") => text(part["format"].as_str(), topic, depth).into(),
        Some("integer") => json!(topic.number()),
        Some("number") => json!(0.5),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some("array") => json!([inner(&part["items"])]),
        _ => {
            let fields = part["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(name, field)| (name.clone(), inner(field))).collect())
        }
    }
}

/// A text in the format that was asked for.
fn text(format: Option<&str>, topic: &Topic, turn: usize) -> String {
    let fixed = match format {
        Some("date-time") => "2026-11-12T09:30:00Z",
        Some("date") => "2026-11-12",
        Some("time") => "09:30:00Z",
        Some("duration") => "PT90M",
        Some("email") => "someone@example.org",
        Some("hostname") => "example.org",
        Some("uri") => "https://example.org/guide",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("uuid") => "6f1c9e0a-5d0b-4c2e-9a54-3f2b1c7d8e90",
        _ => return prose::write(topic, turn),
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(properties: &Value, required: &[&str]) -> Value {
        json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false})
    }

    #[test]
    fn an_instance_has_the_fields_of_its_schema() {
        let mut schema = object(
            &json!({
                "verdict": {"enum": ["good", "bad"]},
                "points": {"type": "array", "items": {"type": "string"}},
                "score": {"type": ["integer", "null"]},
                "day": {"type": "string", "format": "date"},
                "place": {"$ref": "#/$defs/place"},
                "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            }),
            &["verdict", "points", "score", "day", "place"],
        );
        schema["$defs"] =
            json!({"place": object(&json!({"open": {"type": "boolean"}}), &["open"])});
        check(&schema).unwrap();
        let made = instance(&schema, &Topic::of("Judge the draft"));
        assert_eq!(made["verdict"], "good");
        assert!(made["points"][0].is_string() && made["score"].is_u64());
        assert_eq!((&made["day"], &made["note"]), (&json!("2026-11-12"), &Value::Null));
        assert_eq!(made["place"], json!({"open": true}));
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let within = |part: Value| object(&json!({"a": part}), &["a"]);
        let mut recursive = within(json!({"$ref": "#/$defs/node"}));
        recursive["$defs"] = json!({"node": within(json!({"$ref": "#/$defs/node"}))});
        let many: Map<String, Value> =
            (0..25).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
        for (schema, word) in [
            (json!({"type": "object", "properties": {}}), "additionalProperties"),
            (within(json!({"type": "object"})), "additionalProperties"),
            (within(json!({"type": "integer", "minimum": 1})), "minimum"),
            (
                within(json!({"type": "array", "items": {"type": "string"}, "minItems": 2})),
                "minItems",
            ),
            (within(json!({"$ref": "#/$defs/none"})), "none"),
            (object(&many.into(), &[]), "25 optional"),
            (recursive, "recursive"),
        ] {
            let refusal = check(&schema).unwrap_err().body("");
            let message = refusal["error"]["message"].as_str().unwrap();
            assert!(message.contains(word), "{message}");
        }
    }
}
