//! Free JSON in a submission: it stays the text that was sent, so that the order of fields and every digit survive.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Faults;

/// The longest text of free JSON, in bytes.
const JSON_BYTES_MAX: usize = 64 << 10;

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
    let object: Object = match serde_json::from_str(text) {
        Ok(object) => object,
        Err(error) => return faults.add(field, format!("must be a JSON object: {error}")),
    };
    for (at, (name, value)) in object.0.iter().enumerate() {
        if object.0[..at].iter().any(|(other, _)| other == name) {
            faults.add(field, format!("must not repeat `{name}`"));
        }
        if said_elsewhere.contains(&name.as_str()) {
            faults.add(field, format!("must not hold `{name}`, which the step's other fields say"));
        }
        // An escaped NUL is one too, wherever it hides.
        if name.contains('\0') || value.get().contains("\\u0000") {
            faults.add(field, "must not contain a NUL character");
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(faults(r#"{"a":[1,{"b":null}]}"#, &["model"]), [""; 0]);
        for (text, said) in [
            ("", "must be a JSON object"),
            ("[]", "must be a JSON object"),
            ("{\"a\":}", "must be a JSON object"),
            ("{} {}", "must be a JSON object"),
            (r#"{"a":1,"a":2}"#, "must not repeat `a`"),
            (r#"{"model":"x"}"#, "must not hold `model`"),
            ("{\"a\":\"\\u0000\"}", "must not contain a NUL"),
        ] {
            let found = faults(text, &["model"]);
            assert!(found.len() == 1 && found[0].starts_with(said), "{text}: {found:?}");
        }
    }
}
