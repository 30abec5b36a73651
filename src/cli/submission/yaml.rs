//! YAML with the place of each value, and without its traps.
//!
//! In comes a text; out comes one document. Nothing is a number or a truth before a field asks for one.
//! Aliases are copied, within a bound that no real submission comes near; a key that is there twice, a document behind
//! the first, and tags of other programs are refused.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::json::Wrong;
use super::node::{Content, Key, Node, Place, Style};

/// The most values of a document with all its aliases written out, and the most bytes of their text.
const NODES_MAX: usize = 100_000;
const BYTES_MAX: usize = 16 << 20;
/// How deep values may lie within each other.
const DEPTH_MAX: usize = 64;

/// Reads YAML.
pub fn read(text: &str) -> Result<Node, Wrong> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error: ScanError| {
            (Some(place(*error.marker())), format!("not YAML: {}", error.info()))
        })?;
        reader.take(event, span).map_err(|why| (Some(place(span.start)), why))?;
    }
    reader.document.ok_or_else(|| (None, "it is empty".to_owned()))
}

fn place(at: saphyr_parser::Marker) -> Place {
    Place::At(at.line(), at.col() + 1)
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    document: Option<Node>,
    nodes: usize,
    bytes: usize,
}

/// A list or an object that has not ended.
struct Open {
    place: Place,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map { fields: Vec<(Key, Node)>, seen: HashSet<String>, key: Option<Key> },
}

impl Reader {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        let place = place(span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let style = style_of(style, tag.as_deref())?;
                self.count(1, text.len())?;
                let content = Content::Scalar(text.into_owned(), style);
                self.keep(anchor, Node::new(place, content))
            }
            Event::Alias(anchor) => {
                let found = self.anchors.get(&anchor);
                let found = found.ok_or("an anchor cannot stand within itself")?;
                let (nodes, bytes) = found.size();
                let copy = Node::new(place, found.content.clone());
                self.count(nodes, bytes)?;
                self.keep(0, copy)
            }
            Event::SequenceStart(anchor, tag) => {
                accept(tag.as_deref())?;
                self.begin(place, anchor, Kind::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                accept(tag.as_deref())?;
                let map = Kind::Map { fields: Vec::new(), seen: HashSet::new(), key: None };
                self.begin(place, anchor, map)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { place, anchor, kind }) = self.open.pop() else { return Ok(()) };
                let content = match kind {
                    Kind::List(items) => Content::List(items),
                    Kind::Map { fields, .. } => Content::Map(merged(fields)?),
                };
                self.keep(anchor, Node::new(place, content))
            }
            Event::DocumentStart(_) if self.document.is_some() => {
                Err("there is a second document; submit one job a file".to_owned())
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(&mut self, place: Place, anchor: usize, kind: Kind) -> Result<(), String> {
        let is_key = |open: &Open| matches!(&open.kind, Kind::Map { key: None, .. });
        if self.open.last().is_some_and(is_key) {
            return Err("a list or an object cannot be the name of a field".to_owned());
        }
        if self.open.len() == DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} deep"));
        }
        self.open.push(Open { place, anchor, kind });
        self.count(1, 0)
    }

    fn count(&mut self, nodes: usize, bytes: usize) -> Result<(), String> {
        (self.nodes, self.bytes) = (self.nodes + nodes, self.bytes + bytes);
        if self.nodes > NODES_MAX || self.bytes > BYTES_MAX {
            return Err("with its aliases written out it is larger than any job".to_owned());
        }
        Ok(())
    }

    /// Puts a whole value where it belongs.
    fn keep(&mut self, anchor: usize, node: Node) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.document = Some(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map { fields, seen, key }) => match key.take() {
                Some(key) => fields.push((key, node)),
                None => *key = Some(name(node, seen)?),
            },
        }
        Ok(())
    }
}

/// The name of a field, which is there once.
fn name(node: Node, seen: &mut HashSet<String>) -> Result<Key, String> {
    let Content::Scalar(text, _) = node.content else {
        return Err("a list or an object cannot be the name of a field".to_owned());
    };
    if !seen.insert(text.clone()) {
        return Err(format!("the field `{text}` is there twice"));
    }
    Ok(Key { place: node.place, text })
}

/// The fields with those of `<<`, which stand behind an object's own.
fn merged(fields: Vec<(Key, Node)>) -> Result<Vec<(Key, Node)>, String> {
    let (merges, mut own): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(key, _)| key.text == "<<");
    for (_, node) in merges {
        let sources = match node.content {
            Content::List(items) => items,
            Content::Map(_) | Content::Scalar(..) => vec![node],
        };
        for source in sources {
            let Content::Map(more) = source.content else {
                return Err("`<<` takes an object, or a list of them".to_owned());
            };
            for (key, value) in more {
                if !own.iter().any(|(known, _)| known.text == key.text) {
                    own.push((key, value));
                }
            }
        }
    }
    Ok(own)
}

fn style_of(style: ScalarStyle, tag: Option<&Tag>) -> Result<Style, String> {
    let is_text = accept(tag)?;
    Ok(if style == ScalarStyle::Plain && !is_text { Style::Plain } else { Style::Text })
}

/// Whether a tag makes a text of what it stands before; only YAML's own are known.
fn accept(tag: Option<&Tag>) -> Result<bool, String> {
    let Some(tag) = tag else { return Ok(false) };
    let is_core = tag.is_yaml_core_schema();
    match (is_core, tag.suffix.as_str()) {
        (true, "str") => Ok(true),
        (true, "int" | "bool" | "null" | "float" | "map" | "seq") => Ok(false),
        (_, suffix) => Err(format!("the tag `{}{suffix}` has no meaning here", tag.handle)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn why(text: &str) -> String {
        read(text).map_or_else(|(_, why)| why, |node| panic!("{text}: {node:?}"))
    }

    #[test]
    fn what_yaml_would_guess_is_kept_as_it_is_written() {
        let node = read("a: no\nb: 0042\nc: '7'\nd: 2026-01-31\non: !!str 5\n").unwrap();
        let scalar = |name: &str| match &node.field(name).unwrap().1.content {
            Content::Scalar(text, style) => (text.clone(), *style),
            Content::List(_) | Content::Map(_) => panic!("{name} is no scalar"),
        };
        assert_eq!(scalar("a"), ("no".to_owned(), Style::Plain));
        assert_eq!(scalar("b"), ("0042".to_owned(), Style::Plain));
        assert_eq!(scalar("c"), ("7".to_owned(), Style::Text));
        assert_eq!(scalar("d"), ("2026-01-31".to_owned(), Style::Plain));
        assert_eq!(scalar("on"), ("5".to_owned(), Style::Text), "a name is what is written too");
    }

    #[test]
    fn places_are_lines_and_columns_from_one() {
        let node = read("# a comment\nsteps:\n  - name: 一\n").unwrap();
        let (key, steps) = node.field("steps").unwrap();
        assert_eq!(key.place, Place::At(2, 1));
        let Content::List(items) = &steps.content else { panic!("a list") };
        assert_eq!(items[0].field("name").unwrap().1.place, Place::At(3, 11));
    }

    #[test]
    fn aliases_are_copied_merged_and_bounded() {
        let node = read("a: &a {x: 1, y: 2}\nb: *a\nc:\n  <<: *a\n  y: 3\n").unwrap();
        let of = |map: &str, name: &str| {
            node.field(map).unwrap().1.field(name).unwrap().1.content.clone()
        };
        assert_eq!(of("b", "x"), of("a", "x"));
        assert_eq!(of("c", "x"), of("a", "x"));
        assert_eq!(of("c", "y"), Content::Scalar("3".to_owned(), Style::Plain));
        let levels = (1..12).map(|level| {
            let names = vec![format!("*a{}", level - 1); 9].join(",");
            format!("a{level}: &a{level} [{names}]\n")
        });
        let bomb: Vec<String> = levels.collect();
        let bomb = format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{}", bomb.concat());
        assert!(why(&bomb).contains("larger than any job"));
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 20].join(","));
        assert!(why(&long).contains("larger than any job"));
        assert!(why("a: &a [*a]").contains("within itself"));
    }

    #[test]
    fn what_means_two_things_is_refused() {
        assert_eq!(why("a: 1\na: 2\n"), "the field `a` is there twice");
        assert_eq!(why("a: 1\n---\nb: 2\n"), "there is a second document; submit one job a file");
        assert!(why("a: !ruby/object x").contains("has no meaning here"));
        assert!(why("? [a]\n: b").contains("name of a field"));
        assert!(why(&"[".repeat(100)).contains("deep"));
        assert!(why("a: [").starts_with("not YAML: "));
        assert!(why("a: b: c").starts_with("not YAML: "));
        assert_eq!(why("# nothing\n"), "it is empty");
    }

    proptest! {
        #[test]
        fn no_text_ends_the_program(text in "[a-b0 \n\t:\\-#|>'\"?{}\\[\\],&*!%@`~=<.]{0,40}", any in any::<String>()) {
            let _ = (read(&text), read(&any));
        }
    }
}
