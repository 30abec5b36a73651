//! One content block of an answer, put together from its start and its deltas.
//!
//! In come the block as it was started and the deltas that follow; out comes the whole block as JSON.
//! Only the fields that grew are rewritten: all others, known or not, stay byte for byte as received,
//! because the provider refuses a thinking block or a search result that comes back changed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// Block is a content block in the making.
pub(super) struct Block {
    started: Box<RawValue>,
    is_text: bool,
    is_open: bool,
    text: Grown,
    thinking: Grown,
    signature: Grown,
    input_json: Grown,
    citations: Vec<Box<RawValue>>,
    has_new_citations: bool,
}

/// What a delta of a known kind adds; which field is filled depends on the kind.
#[derive(Deserialize)]
struct Addition<'d> {
    #[serde(borrow)]
    text: Option<Piece<'d>>,
    #[serde(borrow)]
    thinking: Option<Piece<'d>>,
    #[serde(borrow)]
    signature: Option<Piece<'d>>,
    #[serde(borrow)]
    partial_json: Option<Piece<'d>>,
    citation: Option<Box<RawValue>>,
}

/// A text that stays where it was received, unless it has escapes.
#[derive(Deserialize)]
struct Piece<'d>(#[serde(borrow)] Cow<'d, str>);

#[derive(Default)]
struct Grown {
    value: String,
    has_grown: bool,
}

#[derive(Deserialize)]
struct Kind<'d> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'d, str>,
}

#[derive(Default, Deserialize)]
struct Begun {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    citations: Option<Vec<Box<RawValue>>>,
}

impl Block {
    /// The block as it was started; fails if that is not a JSON object with a type.
    pub fn start(started: Box<RawValue>) -> Result<Self, serde_json::Error> {
        let Kind { kind } = serde_json::from_str(started.get())?;
        // Blocks of other kinds can use the same words for something else.
        let begun = match &*kind {
            "text" | "thinking" => serde_json::from_str(started.get())?,
            _ => Begun::default(),
        };
        let is_text = kind == "text";
        Ok(Self {
            started,
            is_text,
            is_open: true,
            text: Grown::from(begun.text),
            thinking: Grown::from(begun.thinking),
            signature: Grown::from(begun.signature),
            input_json: Grown::default(),
            citations: begun.citations.unwrap_or_default(),
            has_new_citations: false,
        })
    }

    /// Takes in a delta; one of an unknown kind changes nothing.
    pub fn grow(&mut self, delta: &RawValue) -> Result<(), serde_json::Error> {
        let Kind { kind } = serde_json::from_str(delta.get())?;
        let read = || serde_json::from_str::<Addition<'_>>(delta.get());
        match &*kind {
            "text_delta" => self.text.push(read()?.text),
            "thinking_delta" => self.thinking.push(read()?.thinking),
            "signature_delta" => self.signature.push(read()?.signature),
            "input_json_delta" => self.input_json.push(read()?.partial_json),
            "citations_delta" => {
                let citation = read()?.citation;
                self.has_new_citations |= citation.is_some();
                self.citations.extend(citation);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes note that no more deltas follow.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether more deltas can follow.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// What it says to people; empty for everything but text.
    pub fn text(&self) -> &str {
        if self.is_text { &self.text.value } else { "" }
    }

    /// What it cites, as received.
    pub fn citations(&self) -> &[Box<RawValue>] {
        &self.citations
    }

    /// The whole block; fails if the input of a tool did not add up to JSON.
    pub fn to_raw(&self) -> Result<Box<RawValue>, serde_json::Error> {
        let mut changes = Vec::new();
        for (name, grown) in
            [("text", &self.text), ("thinking", &self.thinking), ("signature", &self.signature)]
        {
            if grown.has_grown {
                changes.push((name, to_raw_value(&grown.value)?));
            }
        }
        if !self.input_json.value.is_empty() {
            changes.push(("input", RawValue::from_string(self.input_json.value.clone())?));
        }
        if self.has_new_citations {
            changes.push(("citations", to_raw_value(&self.citations)?));
        }
        if changes.is_empty() {
            return Ok(self.started.clone());
        }
        let Fields(mut fields) = serde_json::from_str(self.started.get())?;
        for (name, value) in changes {
            match fields.iter_mut().find(|(field, _)| field == name) {
                Some(field) => field.1 = value,
                None => fields.push((name.to_owned(), value)),
            }
        }
        to_raw_value(&Fields(fields))
    }
}

impl Grown {
    fn push(&mut self, addition: Option<Piece<'_>>) {
        if let Some(Piece(addition)) = addition {
            self.value.push_str(&addition);
            self.has_grown = true;
        }
    }
}

impl From<Option<String>> for Grown {
    fn from(begun: Option<String>) -> Self {
        Self { value: begun.unwrap_or_default(), has_grown: false }
    }
}

/// The fields of a JSON object in the order in which they came, with their values untouched.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
