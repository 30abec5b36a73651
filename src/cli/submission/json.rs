//! JSON with the place of each value.
//!
//! In comes a text; `serde_json` says whether it is JSON, and a walk over what it has found good finds the places.
//! A field that is there twice is refused, as everywhere else.

use std::collections::HashSet;

use serde_json::Value;

use super::node::{Content, Key, Node, Place, Style};

/// What is wrong, and where.
pub type Wrong = (Option<Place>, String);

/// Reads JSON.
pub fn read(text: &str) -> Result<Node, Wrong> {
    serde_json::from_str::<Value>(text).map_err(|error| {
        let place = Place::At(error.line(), error.column().max(1));
        let (told, told_of_place) =
            (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
        (Some(place), format!("not JSON: {}", told.strip_suffix(&told_of_place).unwrap_or(&told)))
    })?;
    Walk { text, at: 0, line: 1, line_begins: 0 }.value()
}

/// A walk over good JSON, no deeper than `serde_json` has gone.
struct Walk<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    line_begins: usize,
}

impl Walk<'_> {
    fn value(&mut self) -> Result<Node, Wrong> {
        self.skip();
        let place = self.place();
        let content = match self.peek() {
            b'{' => self.object()?,
            b'[' => self.list()?,
            b'"' => Content::Scalar(self.string(), Style::Text),
            _ => {
                let rest = &self.text[self.at..];
                let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | ']' | '}');
                let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
                self.at += word.len();
                Content::Scalar(word.to_owned(), Style::Literal)
            }
        };
        Ok(Node::new(place, content))
    }

    fn object(&mut self) -> Result<Content, Wrong> {
        let (mut fields, mut seen) = (Vec::new(), HashSet::new());
        while self.goes_on(b'}') {
            let place = self.place();
            let text = self.string();
            if !seen.insert(text.clone()) {
                return Err((Some(place), format!("the field `{text}` is there twice")));
            }
            self.skip();
            self.at += 1;
            fields.push((Key { place, text }, self.value()?));
        }
        Ok(Content::Map(fields))
    }

    fn list(&mut self) -> Result<Content, Wrong> {
        let mut items = Vec::new();
        while self.goes_on(b']') {
            items.push(self.value()?);
        }
        Ok(Content::List(items))
    }

    /// Goes over what opens or separates; at the end, over what closes.
    fn goes_on(&mut self, end: u8) -> bool {
        self.skip();
        if self.peek() != end {
            self.at += usize::from(matches!(self.peek(), b'{' | b'[' | b','));
            self.skip();
        }
        let ends = self.peek() == end;
        self.at += usize::from(ends);
        !ends
    }

    fn string(&mut self) -> String {
        let begin = self.at;
        self.at += 1;
        while self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        serde_json::from_str(&self.text[begin..self.at]).expect("it has been read before")
    }

    fn skip(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
            if self.text.as_bytes()[self.at - 1] == b'\n' {
                (self.line, self.line_begins) = (self.line + 1, self.at);
            }
        }
    }

    /// The next byte; a closing one at the end, where good JSON has nothing more to say.
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'"')
    }

    fn place(&self) -> Place {
        Place::At(self.line, self.text[self.line_begins..self.at].chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(node: &Node) -> Value {
        match &node.content {
            Content::Scalar(text, Style::Text) => json!(text),
            Content::Scalar(text, _) => serde_json::from_str(text).unwrap(),
            Content::List(items) => items.iter().map(value).collect(),
            Content::Map(fields) => {
                fields.iter().map(|(key, one)| (key.text.clone(), value(one))).collect()
            }
        }
    }

    #[test]
    fn what_is_found_is_what_is_there() {
        for text in [
            r#"{"a":[1,-2.5e3,true,null,"x\"\\\u00e9\ud83d\ude00"],"b":{},"c":[],"":{"d":[[],{}]}}"#,
            " [ { \"一\" : \"二\" } , [ 1 , 2 ] ]\n",
            "7",
            "\"\"",
            "[]",
        ] {
            let found = read(text).unwrap();
            assert_eq!(value(&found), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn each_value_has_its_place_and_no_field_is_there_twice() {
        let found = read("{\n  \"一\": [1,\n 2]}").unwrap();
        let (key, list) = found.field("一").unwrap();
        assert_eq!((key.place, list.place), (Place::At(2, 3), Place::At(2, 8)));
        let Content::List(items) = &list.content else { panic!("a list") };
        assert_eq!(items[1].place, Place::At(3, 2));
        let (place, why) = read("{\"a\":1,\n\"a\":2}").unwrap_err();
        assert_eq!((place, why.as_str()), (Some(Place::At(2, 1)), "the field `a` is there twice"));
        let (place, why) = read("{\"a\":\n 1,}").unwrap_err();
        assert!(
            place == Some(Place::At(2, 4)) && why.starts_with("not JSON: trailing comma"),
            "{why}"
        );
    }
}
