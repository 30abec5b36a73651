//! What a file says before its fields have types: values, each with its place in the file.
//!
//! In come the readers of JSON and YAML and `--set`; out go values that take the type of the field they are read for.
//! A value keeps how it was written, so that `no` is a text where a text is due and never a truth.

use serde_path_to_error::{Path, Segment};

/// Where something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line and a column of the file, both from 1.
    At(usize, usize),
    /// A `--set` of the command line.
    Flag,
}

/// How a single value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With quotes, as a block or with a tag: a text and nothing else.
    Text,
    /// Without quotes in YAML: whatever its field takes.
    Plain,
    /// On the command line: whatever its field takes, a list or an object in the form of YAML too.
    Given,
    /// A number, a truth or null of JSON.
    Literal,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub place: Place,
    pub content: Content,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Scalar(String, Style),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// The name of a field and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub place: Place,
    pub text: String,
}

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Field(String),
    Index(usize),
}

impl Node {
    pub fn new(place: Place, content: Content) -> Self {
        Self { place, content }
    }

    /// The field of this name, if this is an object that has one.
    pub fn field(&self, name: &str) -> Option<&(Key, Self)> {
        let Content::Map(fields) = &self.content else { return None };
        fields.iter().find(|(key, _)| key.text == name)
    }

    /// Nothing, as JSON and YAML write it.
    pub fn is_null(&self) -> bool {
        match &self.content {
            Content::Scalar(text, Style::Plain | Style::Literal) => {
                matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Content::Scalar(_, Style::Text | Style::Given) | Content::List(_) | Content::Map(_) => {
                false
            }
        }
    }

    /// Where a path leads, or where it ends on the way; `is_name` asks for the name of the last field, not its value.
    pub fn locate(&self, path: &[Part], is_name: bool) -> Place {
        let (mut node, mut place) = (self, self.place);
        for (at, part) in path.iter().enumerate() {
            let next = match (part, &node.content) {
                (Part::Index(index), Content::List(items)) => items.get(*index),
                (Part::Field(name), Content::Map(_)) => {
                    let found = node.field(name);
                    if let Some((key, _)) = found.filter(|_| is_name && at + 1 == path.len()) {
                        return key.place;
                    }
                    found.map(|(_, value)| value)
                }
                (Part::Index(_) | Part::Field(_), _) => None,
            };
            let Some(next) = next else { return place };
            (node, place) = (next, next.place);
        }
        place
    }

    /// How many values there are in it, and how many bytes of text.
    pub fn size(&self) -> (usize, usize) {
        let sum = |(nodes, bytes): (usize, usize), (more, text): (usize, usize)| {
            (nodes + more, bytes + text)
        };
        match &self.content {
            Content::Scalar(text, _) => (1, text.len()),
            Content::List(items) => items.iter().map(Self::size).fold((1, 0), sum),
            Content::Map(fields) => {
                let sizes =
                    fields.iter().map(|(key, value)| sum(value.size(), (0, key.text.len())));
                sizes.fold((1, 0), sum)
            }
        }
    }
}

/// The path of an error of serde.
pub fn parts_of(path: &Path) -> Vec<Part> {
    let parts = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(Part::Index(*index)),
        Segment::Map { key } => Some(Part::Field(key.clone())),
        Segment::Enum { variant } => Some(Part::Field(variant.clone())),
        Segment::Unknown => None,
    });
    parts.collect()
}

/// Reads a path such as `steps[0].run.prompt`; of a label everything behind `labels.` is its name, with its dots.
pub fn read_path(text: &str) -> Result<Vec<Part>, String> {
    let wrong =
        || format!("`{text}` is no path such as task, steps[0].run.prompt or settings.labels.team");
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let is_label = parts.last() == Some(&Part::Field("labels".to_owned()));
        let end = rest.find(['.', '[']).filter(|_| !is_label).unwrap_or(rest.len());
        let (name, mut more) = rest.split_at(end);
        if name.is_empty() {
            return Err(wrong());
        }
        parts.push(Part::Field(name.to_owned()));
        while let Some(index) = more.strip_prefix('[') {
            let (index, after) = index.split_once(']').ok_or_else(wrong)?;
            parts.push(Part::Index(index.parse().map_err(|_no_number| wrong())?));
            more = after;
        }
        match more.strip_prefix('.') {
            Some(after) => rest = after,
            None if more.is_empty() => return Ok(parts),
            None => return Err(wrong()),
        }
    }
}

/// A path as it is told: `steps[0].run.prompt`.
pub fn told(path: &[Part]) -> String {
    path.iter().fold(String::new(), |told, part| match part {
        Part::Index(index) => format!("{told}[{index}]"),
        Part::Field(name) if told.is_empty() => name.clone(),
        Part::Field(name) => format!("{told}.{name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_and_told_alike_and_nonsense_is_not_read() {
        for path in ["task", "steps[0].run.prompt", "steps[12]", "settings.notify[1]", "a[0][1].b"]
        {
            assert_eq!(told(&read_path(path).unwrap()), path);
        }
        let label = read_path("settings.labels.a.b[0]").unwrap();
        assert_eq!(label.last(), Some(&Part::Field("a.b[0]".to_owned())));
        for wrong in ["", ".", "a.", "a..b", "[0]", "a[", "a[x]", "a[-1]", "a[0]b"] {
            assert!(read_path(wrong).is_err(), "{wrong}");
        }
    }
}
