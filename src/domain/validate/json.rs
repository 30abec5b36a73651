//! Free JSON in a submission: it stays the text that was sent, so that the order of fields and every digit survive.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Faults;
use super::bound::JSON_BYTES_MAX;

/// The fields of a JSON object in their order, each value as it was written.
#[derive(Debug)]
pub struct Object(pub Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }

        from.deserialize_map(Fields)
    }
}

/// Checks that a text is a JSON object without repeated fields, and without those that are said elsewhere.
pub(super) fn check_object(field: &str, text: &str, said_elsewhere: &[&str], faults: &mut Faults) {
    faults.check_text(field, text, JSON_BYTES_MAX);
    if text.len() > JSON_BYTES_MAX {
        return;
    }
    let object: Object = match serde_json::from_str(text) {
        Ok(object) => object,
        Err(error) => return faults.add(field, format!("must be a JSON object: {error}")),
    };
    let (mut seen, mut is_sound) = (HashSet::new(), true);
    for (name, _) in &object.0 {
        if !seen.insert(name.as_str()) {
            faults.add(field, format!("must not repeat `{name}`"));
            is_sound = false;
        }
        if said_elsewhere.contains(&name.as_str()) {
            faults.add(field, format!("must not hold `{name}`, which the step's other fields say"));
        }
    }
    if let Some(error) = serde_json::from_str::<Sound>(text).err().filter(|_| is_sound) {
        faults.add(field, error.to_string());
    }
}

/// JSON all through: no object says a field twice, nothing holds a NUL, and no number is out of reach.
///
/// Nothing that reads it later would agree about the first, and Postgres does not keep the second.
/// How deep it may be nested is the parser's own limit.
struct Sound;

impl<'de> Deserialize<'de> for Sound {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Self)
    }
}

fn check_nul<E: Error>(text: &str) -> Result<Sound, E> {
    // An escaped NUL is one too, wherever it hides.
    if text.contains('\0') {
        return Err(E::custom("must not contain a NUL character"));
    }
    Ok(Sound)
}

impl<'de> Visitor<'de> for Sound {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self, E> {
        check_nul(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            check_nul::<A::Error>(&name)?;
            map.next_value::<Self>()?;
            if let Some(name) = seen.replace(name) {
                return Err(A::Error::custom(format_args!("must not repeat `{name}`")));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bound::JSON_DEPTH_MAX;
    use super::*;

    fn faults(text: &str, said_elsewhere: &[&str]) -> Vec<String> {
        let mut faults = Faults::default();
        check_object("f", text, said_elsewhere, &mut faults);
        let faults = faults.into_result().err().unwrap_or_default();
        faults.into_iter().map(|fault| fault.message).collect()
    }

    #[test]
    fn order_and_digits_survive() {
        let object: Object =
            serde_json::from_str(r#"{"z":1e400,"a":12345678901234567890}"#).unwrap();
        let fields: Vec<_> =
            object.0.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        assert_eq!(fields, [("z", "1e400"), ("a", "12345678901234567890")]);
    }

    #[test]
    fn only_an_object_of_its_own_fields_is_taken() {
        for sound in
            [r#"{"a":[1,{"b":null}]}"#, r#"{"a":"\\u0000"}"#, r#"{"a":{"b":1},"b":{"b":1}}"#]
        {
            assert_eq!(faults(sound, &["model"]), [""; 0], "{sound}");
        }
        for (text, said) in [
            ("", "must be a JSON object"),
            ("[]", "must be a JSON object"),
            ("{\"a\":}", "must be a JSON object"),
            ("{} {}", "must be a JSON object"),
            (r#"{"a":1,"a":2}"#, "must not repeat `a`"),
            (r#"{"model":"x"}"#, "must not hold `model`"),
            ("{\"a\":\"\\u0000\"}", "must not contain a NUL"),
            (r#"{"a":[{"b":{"\u0000":1}}]}"#, "must not contain a NUL"),
            (r#"{"a":[{"b":1,"c":2,"b":3}]}"#, "must not repeat `b`"),
            (r#"{"a":1e400}"#, "number out of range"),
            (r#"{"a":NaN}"#, "must be a JSON object"),
            (r#"{"a":"\ud800"}"#, "unexpected end of hex escape"),
        ] {
            let found = faults(text, &["model"]);
            assert!(found.len() == 1 && found[0].starts_with(said), "{text}: {found:?}");
        }
    }

    #[test]
    fn it_may_be_nested_as_deep_as_is_said_and_no_deeper() {
        // The object around it is the first level.
        let nested =
            |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert_eq!(faults(&nested(JSON_DEPTH_MAX), &[]), [""; 0]);
        for depth in [JSON_DEPTH_MAX + 1, 30_000] {
            let found = faults(&nested(depth), &[]);
            assert!(found.len() == 1 && found[0].contains("recursion limit"), "{found:?}");
        }
    }

    #[test]
    fn many_fields_are_looked_through_in_no_time() {
        let fields: Vec<String> = (0..6_000).map(|at| format!("\"{at}\":1")).collect();
        let text = format!("{{{}}}", fields.join(","));
        assert!(text.len() > JSON_BYTES_MAX / 2, "{}", text.len());
        let begun = std::time::Instant::now();
        for _ in 0..100 {
            assert_eq!(faults(&text, &[])[..], [""; 0]);
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
