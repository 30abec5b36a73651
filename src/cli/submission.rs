//! A submission read from YAML or JSON.
//!
//! In comes the text of a file, in the webhook's shape (`{"type":"run","prompt":…}`) or the proto's
//! (`{"run":{"prompt":…}}`), and fields from the command line; out comes the request, or which field is wrong, how, and
//! where it stands.
//! An unknown field is refused, never ignored: a misspelt setting must not be lost in silence.
//! What the values may be is the server's to say.

pub(super) mod node;

mod json;

pub(super) mod yaml;

mod value;

mod set;

mod request;

use anyhow::Result;

use self::node::{Content, Key, Node, Part, Place, Style, parts_of, read_path, told};
use self::request::Submission;
pub use self::set::{Assignment, assignment};
use super::exit::{CliError, Fault};
use crate::domain::word::nearest;
use crate::rpc::proto::{JobSettings, SubmitJobRequest};

/// What may stand under `type` in a step.
const KINDS: [&str; 3] = ["run", "approval", "wait"];

/// Reads a submission; an error is a `CliError::Invalid` that names the field.
pub fn parse_submission(text: &str) -> Result<SubmitJobRequest> {
    Ok(Document::read(text, "the submission")?.request()?)
}

/// A submission as it is written, with the place of each field.
#[derive(Debug)]
pub struct Document {
    root: Node,
    name: String,
}

impl Document {
    /// Reads YAML or JSON; the name is that of the file, which its places are told with.
    pub fn read(text: &str, name: &str) -> Result<Self, CliError> {
        // Some editors begin every file with it.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let read = match json::read(text) {
            Err(why) if is_meant_as_json(text, name) => Err(why),
            Err(_) => yaml::read(text),
            found => found,
        };
        let empty = Node::new(Place::At(1, 1), Content::Map(Vec::new()));
        let mut document = Self { root: empty, name: name.to_owned() };
        document.root = read.map_err(|(place, why)| document.invalid(place, "", why))?;
        document.nest()?;
        Ok(document)
    }

    /// Sets a field from the command line.
    pub fn set(&mut self, assignment: &Assignment) -> Result<(), CliError> {
        set::set(&mut self.root, assignment)
            .map_err(|(path, why)| self.invalid(Some(Place::Flag), &path, why))
    }

    /// The request that it is.
    pub fn request(&self) -> Result<SubmitJobRequest, CliError> {
        let submission: Submission =
            serde_path_to_error::deserialize(self.root.clone()).map_err(|error| {
                let path = parts_of(error.path());
                let wrong = error.into_inner();
                let place = self.root.locate(&path, wrong.is_name);
                self.invalid(Some(place), &told(&path), wrong.to_string())
            })?;
        let steps = submission.steps.into_iter().enumerate();
        Ok(SubmitJobRequest {
            job_id: submission.job_id,
            task: submission.task,
            steps: steps
                .map(|(index, step)| {
                    step.into_step().map_err(|why| {
                        let path = [Part::Field("steps".to_owned()), Part::Index(index)];
                        self.invalid(Some(self.root.locate(&path, false)), &told(&path), why)
                    })
                })
                .collect::<Result<_, _>>()?,
            settings: submission.settings.map(JobSettings::from),
            validate_only: submission.validate_only,
        })
    }

    /// Where a field stands, or what is around it, if its path can be read; a server names fields by such paths.
    pub fn place(&self, field: &str) -> Option<String> {
        let path = read_path(field).ok()?;
        Some(self.shown(self.root.locate(&path, false)))
    }

    fn shown(&self, place: Place) -> String {
        match place {
            Place::At(line, column) => format!("{}:{line}:{column}", self.name),
            Place::Flag => "--set".to_owned(),
        }
    }

    fn invalid(&self, place: Option<Place>, field: &str, problem: impl Into<String>) -> CliError {
        let place = place.map_or_else(|| self.name.clone(), |place| self.shown(place));
        let fault = Fault { place: Some(place), field: field.to_owned(), problem: problem.into() };
        CliError::Invalid { told: "the submission is not valid".to_owned(), faults: vec![fault] }
    }

    /// Turns steps of the webhook's shape into the proto's: what is beside `type` and `name` goes below the kind.
    fn nest(&mut self) -> Result<(), CliError> {
        let mut wrong = None;
        let fields = if let Content::Map(fields) = &mut self.root.content {
            &mut fields[..]
        } else {
            &mut []
        };
        let steps = fields.iter_mut().find(|(key, _)| key.text == "steps");
        if let Some(Content::List(steps)) = steps.map(|(_, steps)| &mut steps.content) {
            let mut nested = steps.iter_mut().enumerate();
            wrong = nested.find_map(|(index, step)| Some((index, nest(step).err()?)));
        }
        match wrong {
            None => Ok(()),
            Some((index, (place, why))) => {
                Err(self.invalid(Some(place), &format!("steps[{index}].type"), why))
            }
        }
    }
}

/// Whether what is no good JSON is still no YAML: by the end of the file's name, else by how its text begins.
fn is_meant_as_json(text: &str, name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "json" => true,
        "yaml" | "yml" => false,
        // YAML's objects can begin alike, but need no quotes around their names.
        _ => text.trim_start().strip_prefix('{').is_some_and(|rest| {
            let rest = rest.trim_start();
            rest.is_empty() || rest.starts_with(['"', '}'])
        }),
    }
}

fn nest(step: &mut Node) -> Result<(), (Place, String)> {
    let Content::Map(fields) = &mut step.content else { return Ok(()) };
    let Some(at) = fields.iter().position(|(key, _)| key.text == "type") else { return Ok(()) };
    let (key, kind) = fields.remove(at);
    let word = match &kind.content {
        Content::Scalar(word, Style::Text | Style::Plain) if KINDS.contains(&word.as_str()) => word,
        Content::Scalar(word, _) => {
            let hint = match nearest(word, &KINDS) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "use run, approval or wait".to_owned(),
            };
            return Err((kind.place, format!("`{word}` is not a type of step; {hint}")));
        }
        Content::List(_) | Content::Map(_) => {
            return Err((kind.place, "must be run, approval or wait".to_owned()));
        }
    };
    let (name, below): (Vec<_>, Vec<_>) =
        std::mem::take(fields).into_iter().partition(|(key, _)| key.text == "name");
    *fields = name;
    let below = Node::new(step.place, Content::Map(below));
    fields.push((Key { place: key.place, text: word.clone() }, below));
    Ok(())
}

#[cfg(test)]
mod tests;
