//! A template, as it was approved, and what a send makes of it.
//! In come the components of a send; out goes what a person reads, with its buttons, or an error.
//! A value can be put only where the template has a place for it, and each place needs one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    envelope::{Button, Does, Reading, is_web_url},
    refusal::GraphError,
};

/// The longest body, once its values stand in it.
const BODY_CHARS_MAX: usize = 1024;

/// A template in one language, in the shape in which Meta takes and lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    pub name: String,
    pub language: String,
    #[serde(default)]
    pub status: Standing,
    #[serde(default)]
    pub category: Category,
    #[serde(default)]
    pub parameter_format: Format,
    pub components: Vec<Component>,
}

/// Whether a template may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Standing {
    #[default]
    Approved,
    Pending,
    Rejected,
    Paused,
    Disabled,
}

/// What a template is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Category {
    #[default]
    Utility,
    Marketing,
}

/// Whether places are numbered or have names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Format {
    #[default]
    Positional,
    Named,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE", deny_unknown_fields)]
pub enum Component {
    Header {
        format: HeaderFormat,
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<Value>,
    },
    Body {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<Value>,
    },
    Footer {
        text: String,
    },
    Buttons {
        buttons: Vec<TemplateButton>,
    },
}

/// The sandbox shows text headers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HeaderFormat {
    Text,
}

/// A button of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub enum TemplateButton {
    Url {
        text: String,
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<Value>,
    },
    QuickReply {
        text: String,
    },
    PhoneNumber {
        text: String,
        phone_number: String,
    },
}

impl Template {
    /// What a person reads of it with these values.
    pub fn fill(&self, components: &[Value]) -> Result<Reading, GraphError> {
        for (n, component) in components.iter().enumerate() {
            let kind = kind(component);
            if !["header", "body", "button"].contains(&kind.as_str()) {
                let path = format!("template['components'][{n}]");
                return Err(GraphError::parameter(format!(
                    "Param {path}['type'] must be one of {{HEADER, BODY, BUTTON}}"
                )));
            }
        }
        let given = |wanted: &str| components.iter().find(|component| kind(component) == wanted);
        let (header, body) = (self.text(Component::header), self.text(Component::body));
        let reading = Reading {
            header: self.localize("header", header, given("header"))?,
            body: self.localize("body", body, given("body"))?,
            footer: self.text(Component::footer).to_owned(),
            buttons: fill_buttons(self.buttons(), components)?,
        };
        if reading.body.chars().count() > BODY_CHARS_MAX {
            let details = format!("body: the text is longer than {BODY_CHARS_MAX} characters");
            return Err(GraphError::new(132_005, details));
        }
        Ok(reading)
    }

    /// The text of its header, body or footer; empty if it has none.
    fn text(&self, part: fn(&Component) -> Option<&str>) -> &str {
        self.components.iter().find_map(part).unwrap_or("")
    }

    pub fn buttons(&self) -> &[TemplateButton] {
        self.components.iter().find_map(Component::buttons).unwrap_or(&[])
    }

    /// A text with the values of a component in its places.
    fn localize(
        &self,
        kind: &str,
        text: &str,
        component: Option<&Value>,
    ) -> Result<String, GraphError> {
        let none = Vec::new();
        let given = component.and_then(|component| component["parameters"].as_array());
        let given = given.unwrap_or(&none);
        let places = places(text);
        if places.len() != given.len() {
            let (given, expected) = (given.len(), places.len());
            return Err(GraphError::new(
                132_000,
                format!(
                    "{kind}: number of localizable_params ({given}) does not match the expected \
                     number of params ({expected})"
                ),
            ));
        }
        let mut values = Vec::new();
        for (n, parameter) in given.iter().enumerate() {
            let place = match self.parameter_format {
                Format::Positional => (n + 1).to_string(),
                Format::Named => named(parameter, &places, kind)?,
            };
            values.push((place, value(parameter, "text", kind)?));
        }
        Ok(put(text, &values))
    }
}

/// A text with values in its places; what a value says makes no place of its own.
fn put(text: &str, values: &[(String, String)]) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, place, after)) = next_place(rest) {
        whole.push_str(before);
        let value = values.iter().find(|(known, _)| known == place);
        whole.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    whole + rest
}

/// What stands before the next place, its name, and what stands behind it.
fn next_place(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (place, after) = rest.split_once("}}")?;
    Some((before, place, after))
}

impl Component {
    pub fn header(&self) -> Option<&str> {
        if let Self::Header { text, .. } = self { Some(text) } else { None }
    }

    pub fn body(&self) -> Option<&str> {
        if let Self::Body { text, .. } = self { Some(text) } else { None }
    }

    pub fn footer(&self) -> Option<&str> {
        if let Self::Footer { text } = self { Some(text) } else { None }
    }

    pub fn buttons(&self) -> Option<&[TemplateButton]> {
        if let Self::Buttons { buttons } = self { Some(buttons) } else { None }
    }
}

fn named(parameter: &Value, places: &[String], kind: &str) -> Result<String, GraphError> {
    let Some(name) = parameter["parameter_name"].as_str().filter(|name| !name.is_empty()) else {
        return Err(GraphError::parameter("Invalid parameter: Parameter name is missing or empty"));
    };
    if places.iter().any(|place| place == name) {
        return Ok(name.to_owned());
    }
    Err(GraphError::new(132_012, format!("{kind}: the template has no parameter named {name}")))
}

/// The buttons with the values that were given to them.
fn fill_buttons(
    buttons: &[TemplateButton],
    components: &[Value],
) -> Result<Vec<Button>, GraphError> {
    let mut given = Vec::new();
    for component in components.iter().filter(|component| kind(component) == "button") {
        let index = &component["index"];
        let index = index.as_u64().or_else(|| index.as_str()?.parse().ok());
        let Some(index @ 0..=9) = index else {
            return Err(GraphError::parameter(
                "Param template['components']['index'] must be 0 to 9",
            ));
        };
        let Some(button) = buttons.get(index as usize) else {
            let details = format!("buttons: the template has no button at index {index}");
            return Err(GraphError::new(132_012, details));
        };
        button.check_kind(index, component["sub_type"].as_str().unwrap_or(""))?;
        given.push((index as usize, component));
    }
    let find = |n: usize| given.iter().find(|(index, _)| *index == n).map(|(_, given)| *given);
    buttons.iter().enumerate().map(|(n, button)| button.fill(n, find(n))).collect()
}

impl TemplateButton {
    pub fn label(&self) -> &str {
        match self {
            Self::Url { text, .. } | Self::QuickReply { text } | Self::PhoneNumber { text, .. } => {
                text
            }
        }
    }

    /// Meta's word for it in a send, and in errors.
    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::Url { .. } => ("url", "Url"),
            Self::QuickReply { .. } => ("quick_reply", "QuickReply"),
            Self::PhoneNumber { .. } => ("phone_number", "Call"),
        }
    }

    /// Whether it is what the send takes it for, and takes values at all.
    fn check_kind(&self, index: u64, sub_type: &str) -> Result<(), GraphError> {
        let (kind, shown) = self.kind();
        let is_fixed = match self {
            Self::Url { url, .. } => places(url).is_empty(),
            Self::QuickReply { .. } => false,
            Self::PhoneNumber { .. } => true,
        };
        if is_fixed {
            return Err(GraphError::parameter(format!(
                "buttons: Button at index {index} is of type {shown} and does not support parameters"
            )));
        }
        if sub_type.eq_ignore_ascii_case(kind) {
            return Ok(());
        }
        let details = format!("buttons: Button at index {index} is of type {shown}");
        Err(GraphError::new(132_012, details))
    }

    fn fill(&self, n: usize, given: Option<&Value>) -> Result<Button, GraphError> {
        let label = self.label().to_owned();
        let given =
            given.map(|given| given["parameters"].as_array().map_or(&[][..], Vec::as_slice));
        let needs_one = || {
            let shown = self.kind().1;
            let details =
                format!("buttons: Button at index {n} of type {shown} requires a parameter");
            GraphError::new(131_008, details)
        };
        let does = match self {
            Self::Url { url, .. } if places(url).is_empty() => Does::Url(url.clone()),
            Self::Url { url, .. } => {
                let [parameter] = given.unwrap_or_default() else { return Err(needs_one()) };
                let url = url.replace("{{1}}", &value(parameter, "text", "buttons")?);
                if !is_web_url(&url) || url.chars().count() > 2000 {
                    let details = format!("buttons: Button at index {n} leads to no valid URL");
                    return Err(GraphError::new(131_009, details));
                }
                Does::Url(url)
            }
            Self::QuickReply { .. } => match given {
                None => Does::Payload(label.clone()),
                Some([parameter]) => Does::Payload(value(parameter, "payload", "buttons")?),
                Some(_) => return Err(needs_one()),
            },
            Self::PhoneNumber { phone_number, .. } => Does::Url(format!("tel:{phone_number}")),
        };
        Ok(Button { label, does })
    }
}

/// The type of a component of a send, in lower case.
fn kind(component: &Value) -> String {
    component["type"].as_str().unwrap_or("").to_ascii_lowercase()
}

/// The value of a parameter of this type.
fn value(parameter: &Value, wanted: &str, at: &str) -> Result<String, GraphError> {
    if parameter["type"] != wanted {
        let details = format!("{at}: a parameter is not of type {wanted}");
        return Err(GraphError::new(132_012, details));
    }
    let Some(value) = parameter[wanted].as_str().filter(|value| !value.trim().is_empty()) else {
        let details = format!("{at}: Parameter of type {wanted} is missing {wanted} value");
        return Err(GraphError::new(131_008, details));
    };
    if value.contains(['\n', '\r', '\t']) || value.contains("     ") {
        return Err(GraphError::new(
            132_018,
            "Param text cannot have new-line/tab characters or more than 4 consecutive spaces",
        ));
    }
    Ok(value.to_owned())
}

/// The names of the places in a text, each once, in the order of their first use.
pub fn places(text: &str) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((_, place, after)) = next_place(rest) {
        if !places.iter().any(|known| known == place) {
            places.push(place.to_owned());
        }
        rest = after;
    }
    places
}

#[cfg(test)]
mod tests;
