//! `--set path=value`: fields of a submission from the command line.
//!
//! In come a path and a value, which takes the type of its field; what is on the way and is not there is made.
//! A step's field may be named below its kind or beside it, as files write it.

use super::node::{Content, Key, Node, Part, Place, Style, read_path, told};

/// What is beside the kind of a step.
const BESIDE: [&str; 4] = ["name", "run", "approval", "wait"];

/// One `--set`.
#[derive(Clone, Debug)]
pub struct Assignment {
    path: Vec<Part>,
    value: String,
}

/// Reads `path=value`.
pub fn assignment(text: &str) -> Result<Assignment, String> {
    let (path, value) =
        text.split_once('=').ok_or("use PATH=VALUE, such as task=\"Launch copy\"")?;
    Ok(Assignment { path: read_path(path.trim())?, value: value.to_owned() })
}

/// Does it to a submission whose steps are objects below their kinds; an error has the path at which it is wrong.
pub fn set(root: &mut Node, assignment: &Assignment) -> Result<(), (String, String)> {
    let path = below_its_kind(root, &assignment.path);
    let mut node = root;
    for (at, part) in path.iter().enumerate() {
        let here = || told(&path[..=at]);
        node = match part {
            Part::Field(name) => field(node, name).map_err(|why| (here(), why))?,
            Part::Index(index) => item(node, *index).map_err(|why| (here(), why))?,
        };
    }
    *node = Node::new(Place::Flag, Content::Scalar(assignment.value.clone(), Style::Given));
    Ok(())
}

/// `steps[0].prompt` of a run step is `steps[0].run.prompt`.
fn below_its_kind(root: &Node, path: &[Part]) -> Vec<Part> {
    let mut path = path.to_vec();
    let [Part::Field(steps), Part::Index(index), Part::Field(name), ..] = path.as_slice() else {
        return path;
    };
    if steps != "steps" || BESIDE.contains(&name.as_str()) {
        return path;
    }
    let list = root.field("steps").map(|(_, list)| &list.content);
    let Some(Content::List(items)) = list else { return path };
    let Some(step) = items.get(*index) else { return path };
    let mut kinds = BESIDE[1..].iter().filter(|kind| step.field(kind).is_some());
    if let (Some(kind), None) = (kinds.next(), kinds.next()) {
        path.insert(2, Part::Field((*kind).to_owned()));
    }
    path
}

fn field<'n>(node: &'n mut Node, name: &str) -> Result<&'n mut Node, String> {
    if node.is_null() {
        node.content = Content::Map(Vec::new());
    }
    let Content::Map(fields) = &mut node.content else {
        return Err("is below something that has no fields".to_owned());
    };
    if !fields.iter().any(|(key, _)| key.text == name) {
        fields.push((Key { place: Place::Flag, text: name.to_owned() }, nothing()));
    }
    let found = fields.iter_mut().find(|(key, _)| key.text == name);
    found.map(|(_, value)| value).ok_or_else(String::new)
}

fn item(node: &mut Node, index: usize) -> Result<&mut Node, String> {
    if node.is_null() {
        node.content = Content::List(Vec::new());
    }
    let Content::List(items) = &mut node.content else {
        return Err("is of something that is no list".to_owned());
    };
    let count = items.len();
    if index == count {
        items.push(nothing());
    }
    items.get_mut(index).ok_or_else(|| {
        format!("is too far: the list has {count}, and the next that can be set is [{count}]")
    })
}

/// What has just been made and gets its value next.
fn nothing() -> Node {
    Node::new(Place::Flag, Content::Scalar(String::new(), Style::Literal))
}
