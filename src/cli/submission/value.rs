//! Values that take the type of the field they are read for: serde's side of a node.
//!
//! In comes a node; out comes whatever a field's type asks for, or what is wrong in words for whoever wrote it.
//! A misspelt field is told with the name that was meant.

use std::fmt::{self, Display};

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer as _, MapAccess, SeqAccess,
    VariantAccess, Visitor, value::StringDeserializer,
};
use serde::forward_to_deserialize_any;

use super::node::{Content, Key, Node, Place, Style};
use super::yaml;
use crate::domain::word::nearest;

/// What is wrong with a value.
#[derive(Debug)]
pub struct Wrong {
    told: String,
    /// It is the name that is wrong, not the value.
    pub is_name: bool,
}

impl Wrong {
    fn new(told: impl Into<String>) -> Self {
        Self { told: told.into(), is_name: false }
    }

    /// A name that nobody knows, with the one that was meant, or with all there are.
    fn unknown(what: &str, name: &str, known: &[&str]) -> Self {
        let hint = match nearest(name, known) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None if known.is_empty() => String::new(),
            None => format!("; there are {}", known.join(", ")),
        };
        Self { told: format!("unknown {what} `{name}`{hint}"), is_name: true }
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: Display>(told: T) -> Self {
        Self::new(told.to_string())
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::unknown("field", name, known)
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        Self::unknown("field", name, known)
    }
}

impl Node {
    /// A list or an object of the command line, which is written as YAML; else the node itself.
    fn opened(self) -> Result<Self, Wrong> {
        match &self.content {
            Content::Scalar(text, Style::Given) if text.starts_with(['[', '{']) => {
                let mut node = yaml::read(text).map_err(|(_, why)| Wrong::new(why))?;
                node.content.give();
                Ok(Self::new(self.place, node.content))
            }
            Content::Scalar(..) | Content::List(_) | Content::Map(_) => Ok(self),
        }
    }

    fn what(&self) -> &'static str {
        match &self.content {
            _ if self.is_null() => "nothing",
            Content::List(_) => "a list",
            Content::Map(_) => "an object",
            Content::Scalar(_, Style::Text) => "a text",
            Content::Scalar(text, Style::Literal) if matches!(text.as_str(), "true" | "false") => {
                "a truth"
            }
            Content::Scalar(_, Style::Literal) => "a number",
            Content::Scalar(_, Style::Plain | Style::Given) => "a word",
        }
    }

    /// What it should be, and what it is.
    fn must_be(&self, wanted: &str) -> Wrong {
        let shown = match &self.content {
            Content::Scalar(text, _) if !self.is_null() && text.chars().count() <= 40 => {
                format!(" `{text}`")
            }
            Content::Scalar(..) | Content::List(_) | Content::Map(_) => String::new(),
        };
        Wrong::new(format!("must be {wanted}, and is {}{shown}", self.what()))
    }

    fn text(self) -> Result<String, Wrong> {
        if self.is_null() {
            let why = "has no value; leave the field out, or put the text between quotes";
            return Err(Wrong::new(why));
        }
        match self.content {
            Content::Scalar(text, Style::Text | Style::Plain | Style::Given) => Ok(text),
            Content::Scalar(_, Style::Literal) | Content::List(_) | Content::Map(_) => {
                Err(self.must_be("a text between quotes"))
            }
        }
    }

    fn number(&self) -> Result<i64, Wrong> {
        let wrong = || self.must_be("a whole number");
        let Content::Scalar(text, Style::Plain | Style::Given | Style::Literal) = &self.content
        else {
            return Err(wrong());
        };
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit())
        {
            let why =
                format!("`{text}` begins with a 0, which some read as base 8; leave the 0 out");
            return Err(Wrong::new(why));
        }
        text.parse().map_err(|_no_number| wrong())
    }

    fn truth(&self) -> Result<bool, Wrong> {
        match &self.content {
            Content::Scalar(text, Style::Plain | Style::Given | Style::Literal) => {
                match text.as_str() {
                    "true" => Ok(true),
                    "false" => Ok(false),
                    _ => Err(self.must_be("true or false")),
                }
            }
            Content::Scalar(_, Style::Text) | Content::List(_) | Content::Map(_) => {
                Err(self.must_be("true or false"))
            }
        }
    }
}

impl Content {
    /// What stood on the command line stays what its field takes.
    fn give(&mut self) {
        match self {
            Self::Scalar(_, style) => {
                if *style == Style::Plain {
                    *style = Style::Given;
                }
            }
            Self::List(items) => items.iter_mut().for_each(Node::hand),
            Self::Map(fields) => fields.iter_mut().for_each(|(_, value)| value.hand()),
        }
    }
}

impl Node {
    fn hand(&mut self) {
        self.place = Place::Flag;
        self.content.give();
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            let number = self.number()?;
            // That it does not fit is the one thing left that can be wrong with it.
            visitor.visit_i64(number).map_err(|_too_large: Wrong| Wrong::new(format!("`{number}` is too large")))
        })*
    };
}

impl<'de> Deserializer<'de> for Node {
    type Error = Wrong;

    /// Whatever it looks like; only what is ignored asks for it.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match &self.content {
            Content::List(_) => self.deserialize_seq(visitor),
            Content::Map(_) => self.deserialize_map(visitor),
            Content::Scalar(..) if self.is_null() => visitor.visit_unit(),
            Content::Scalar(text, _) => visitor.visit_str(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_bool(self.truth()?)
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let node = self.opened()?;
        match node.content {
            Content::List(items) => visitor.visit_seq(Items(items.into_iter())),
            Content::Scalar(..) | Content::Map(_) => Err(node.must_be("a list, such as [a, b]")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let node = self.opened()?;
        match node.content {
            Content::Map(fields) => {
                visitor.visit_map(Fields { rest: fields.into_iter(), value: None })
            }
            Content::Scalar(..) | Content::List(_) => Err(node.must_be("an object with fields")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let node = self.opened()?;
        let wanted = format!("an object with one of {}", known.join(" and "));
        match node.content {
            Content::Map(mut fields) if fields.len() == 1 => {
                let (key, value) = fields.remove(0);
                visitor.visit_enum(Variant(key, value))
            }
            Content::Map(fields) => {
                let stranger = fields.iter().find(|(key, _)| !known.contains(&key.text.as_str()));
                Err(stranger.map_or_else(
                    || Wrong::new(format!("must be {wanted}")),
                    |(key, _)| Wrong::unknown("field", &key.text, known),
                ))
            }
            Content::Scalar(..) | Content::List(_) => Err(node.must_be(&wanted)),
        }
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple tuple_struct identifier ignored_any
    }
}

struct Items(std::vec::IntoIter<Node>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Wrong> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }
}

struct Fields {
    rest: std::vec::IntoIter<(Key, Node)>,
    value: Option<Node>,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let key: StringDeserializer<Wrong> = key.text.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        seed.deserialize(self.value.take().expect("serde asks for a key first"))
    }
}

/// An object with one field, whose name says which it is.
struct Variant(Key, Node);

impl<'de> EnumAccess<'de> for Variant {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        let name: StringDeserializer<Wrong> = self.0.text.clone().into_deserializer();
        seed.deserialize(name).map(|variant| (variant, self))
    }
}

impl<'de> VariantAccess<'de> for Variant {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self.1)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.1.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.1.deserialize_map(visitor)
    }
}
