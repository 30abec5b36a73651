//! Prompts are templates: `{{ task }}`, `{{ step_1_output }}` and, by a step's name, `{{ draft.output }}`.
//!
//! In comes the text of a prompt, out comes the text with every reference replaced.
//! `{{{{` stands for a literal `{{`; single braces and a `}}` alone are plain text.
//! What is put in is put in as it is: it is never read as a template again.

use std::fmt;

const LONGEST_STEP_NAME: usize = 64;

/// Template is a prompt that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Name is what a reference in a template stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// The job's task.
    Task,
    /// The output of a step by its number, from 1.
    StepOutput(u32),
    /// The output of a step by its name.
    NamedOutput(String),
    /// What an approver wants changed.
    Feedback,
}

/// `TemplateError` says what is wrong with a template, and where; positions count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A reference is opened and not closed.
    #[error(
        "the `{{{{` at character {position} is not closed by `}}}}`; a literal `{{{{` is written `{{{{{{{{`"
    )]
    Unclosed {
        /// Where it is opened.
        position: usize,
    },
    /// A reference names nothing.
    #[error("the reference at character {position} is empty")]
    Empty {
        /// Where it is opened.
        position: usize,
    },
    /// A reference names something that does not exist in any job.
    #[error(
        "the name `{name}` at character {position} is none of `task`, `feedback`, `step_N_output` and `NAME.output`"
    )]
    Unknown {
        /// The name, cut to 64 characters.
        name: String,
        /// Where the reference is opened.
        position: usize,
    },
    /// What is put in makes it too long.
    #[error("it would have more than {bytes_max} bytes once its references are replaced")]
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// Nothing was given for a name when the template was rendered.
    #[error("there is no value for `{name}`")]
    Missing {
        /// The name.
        name: Name,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Reference(Name),
}

impl Template {
    /// Reads a template, or says what is wrong with it.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        while let Some(at) = rest.find("{{") {
            text.push_str(&rest[..at]);
            let opened = &rest[at..];
            if let Some(after) = opened.strip_prefix("{{{{") {
                text.push_str("{{");
                rest = after;
                continue;
            }
            // Counted only for an error: a prompt may hold a hundred thousand references.
            let position = || source[..source.len() - opened.len()].chars().count() + 1;
            let inner = &opened[2..];
            let end =
                inner.find("}}").ok_or_else(|| TemplateError::Unclosed { position: position() })?;
            if inner[..end].contains("{{") {
                return Err(TemplateError::Unclosed { position: position() });
            }
            let name = Name::read(inner[..end].trim(), position)?;
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Reference(name));
            rest = &inner[end + 2..];
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { parts })
    }

    /// The names it refers to, in order, each as often as it occurs.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Reference(name) => Some(name),
        })
    }

    /// The text with every reference replaced by what `lookup` gives for it, if it has at most so many bytes.
    pub fn render<'v>(
        &self,
        bytes_max: usize,
        lookup: impl Fn(&Name) -> Option<&'v str>,
    ) -> Result<String, TemplateError> {
        let mut text = String::new();
        for part in &self.parts {
            let piece = match part {
                Part::Text(plain) => plain,
                Part::Reference(name) => {
                    lookup(name).ok_or_else(|| TemplateError::Missing { name: name.clone() })?
                }
            };
            if text.len() + piece.len() > bytes_max {
                return Err(TemplateError::TooLong { bytes_max });
            }
            text.push_str(piece);
        }
        Ok(text)
    }
}

impl Name {
    fn read(text: &str, position: impl Fn() -> usize) -> Result<Self, TemplateError> {
        if text.is_empty() {
            return Err(TemplateError::Empty { position: position() });
        }
        Self::find(text).ok_or_else(|| TemplateError::Unknown {
            name: text.chars().take(LONGEST_STEP_NAME).collect(),
            position: position(),
        })
    }

    fn find(text: &str) -> Option<Self> {
        if text == "task" {
            return Some(Self::Task);
        }
        if text == "feedback" {
            return Some(Self::Feedback);
        }
        if let Some(name) = text.strip_suffix(".output") {
            return is_step_name(name).then(|| Self::NamedOutput(name.to_owned()));
        }
        let number = text.strip_prefix("step_")?.strip_suffix("_output")?;
        let is_canonical = number.starts_with(|first: char| matches!(first, '1'..='9'))
            && number.chars().all(|each| each.is_ascii_digit());
        if is_canonical { number.parse().ok().map(Self::StepOutput) } else { None }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task => f.write_str("task"),
            Self::Feedback => f.write_str("feedback"),
            Self::StepOutput(step) => write!(f, "step_{step}_output"),
            Self::NamedOutput(name) => write!(f, "{name}.output"),
        }
    }
}

fn is_step_name(name: &str) -> bool {
    name.len() <= LONGEST_STEP_NAME
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '_' | '-'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rendered(source: &str) -> String {
        let template = Template::parse(source).expect("the template is right");
        template
            .render(usize::MAX, |name| match name {
                Name::Task => Some("the task"),
                Name::Feedback => Some("shorter"),
                Name::StepOutput(1) => Some("{{ task }}"),
                Name::StepOutput(_) => None,
                Name::NamedOutput(name) => (name == "draft-2").then_some("a draft"),
            })
            .expect("every name has a value")
    }

    #[test]
    fn references_are_replaced_whatever_the_space_inside() {
        assert_eq!(rendered("{{task}}, {{\n task\t}}: {{ draft-2.output }}! {{feedback}}"), {
            "the task, the task: a draft! shorter"
        });
    }

    #[test]
    fn what_is_put_in_is_not_read_again() {
        assert_eq!(rendered("<{{ step_1_output }}>"), "<{{ task }}>");
    }

    #[test]
    fn braces_that_open_nothing_are_plain_text() {
        for plain in ["{", "}", "}}", r#"{"a":{"b":1}}"#, "{ {task} }"] {
            assert_eq!(rendered(plain), plain);
        }
        assert_eq!(rendered("{{{{ task }} {{{{{ {{{{{{ task }}"), "{{ task }} {{{ {{the task");
    }

    #[test]
    fn names_come_in_order() {
        let template = Template::parse("{{ b.output }}{{ task }}{{ step_12_output }}").unwrap();
        let names: Vec<String> = template.names().map(Name::to_string).collect();
        assert_eq!(names, ["b.output", "task", "step_12_output"]);
    }

    #[test]
    fn an_error_says_the_place_in_characters_and_the_name() {
        let error = |source: &str| Template::parse(source).expect_err("it is wrong");
        assert_eq!(error("añ {{ task"), TemplateError::Unclosed { position: 4 });
        assert_eq!(error("{{ a {{ task }}"), TemplateError::Unclosed { position: 1 });
        assert_eq!(error("é{{ }}"), TemplateError::Empty { position: 2 });
        let unknown = TemplateError::Unknown { name: "taks".to_owned(), position: 4 };
        assert_eq!(error("日本 {{ taks }}"), unknown);
        assert!(unknown.to_string().contains("the name `taks` at character 4"));
        assert!(error("{{").to_string().contains("the `{{` at character 1"));
    }

    #[test]
    fn names_that_no_step_can_have_are_unknown() {
        for name in [
            "Task",
            "step_0_output",
            "step_01_output",
            "step_-1_output",
            "step_99999999999_output",
            "step__output",
            "1st.output",
            ".output",
            "a b.output",
            "draft.outputs",
            "{ task",
        ] {
            let source = format!("{{{{ {name} }}}}");
            let error = Template::parse(&source).expect_err(name);
            assert_eq!(error, TemplateError::Unknown { name: name.to_owned(), position: 1 });
        }
        let long = format!("{{{{ {}.output }}}}", "n".repeat(65));
        assert!(matches!(Template::parse(&long), Err(TemplateError::Unknown { .. })));
    }

    #[test]
    fn a_name_without_a_value_is_an_error() {
        let template = Template::parse("{{ step_2_output }}").unwrap();
        let missing = TemplateError::Missing { name: Name::StepOutput(2) };
        assert_eq!(template.render(usize::MAX, |_| None), Err(missing));
    }

    proptest! {
        #[test]
        fn text_that_opens_nothing_renders_to_itself(text in ".*") {
            prop_assume!(!text.contains("{{"));
            prop_assert_eq!(rendered(&text), text);
        }

        #[test]
        fn escaped_text_renders_to_the_text(text in "([{}]|[a-zé ]){0,40}") {
            prop_assert_eq!(rendered(&text.replace("{{", "{{{{")), text);
        }

        #[test]
        fn reading_never_panics(text in "([{}]|task|\\.output|[a-zé ]){0,40}") {
            let _ = Template::parse(&text);
        }
    }
}
