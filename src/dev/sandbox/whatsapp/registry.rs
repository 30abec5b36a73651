//! The templates of the account: who has been approved, and who has been stopped.
//! In comes JSON that adds templates or changes what they may; out go the templates as Meta lists them.
//! A change of what a template may is told to the webhook. The first templates are the ones this product asks for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::Sandbox,
    envelope::Reading,
    hook,
    refusal::GraphError,
    template::{Component, Format, Standing, Template, TemplateButton, places},
};

/// What stands for the address of this product in the first templates.
const HOME: &str = "{public_url}";

/// All templates of one sandbox.
pub struct Registry(Mutex<Vec<Template>>);

/// What a script says of templates: a whole one, or only what those of a name may.
enum Change {
    Whole(Template),
    Standing(NewStanding),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewStanding {
    name: String,
    /// All languages, if none is named.
    language: Option<String>,
    status: Standing,
}

impl Default for Registry {
    fn default() -> Self {
        Self(Mutex::new(first()))
    }
}

impl Registry {
    /// What a person reads of a template that is sent, or why it cannot be.
    pub fn fill(
        &self,
        name: &str,
        language: &str,
        components: &[Value],
        public_url: &str,
    ) -> Result<Reading, GraphError> {
        let template = self.find(name, language)?;
        match template.status {
            Standing::Approved => {}
            Standing::Pending | Standing::Rejected => return Err(unknown(name, language)),
            Standing::Paused => {
                return Err(GraphError::new(132_015, "Template is paused due to low quality"));
            }
            Standing::Disabled => {
                return Err(GraphError::new(132_016, "Template is disabled due to low quality"));
            }
        }
        at_home(template, public_url).fill(components)
    }

    fn find(&self, name: &str, language: &str) -> Result<Template, GraphError> {
        let templates = self.lock();
        let fits = |template: &&Template| template.name == name && template.language == language;
        templates.iter().find(fits).cloned().ok_or_else(|| unknown(name, language))
    }

    /// Adds and changes templates, or none of them if any cannot be read; answers whose standing changed.
    fn change(&self, script: Value) -> Result<Vec<Template>, String> {
        let changes = match script {
            Value::Array(changes) => changes,
            one @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)) => vec![one],
        };
        let mut templates = self.lock();
        let mut next = templates.clone();
        for (n, change) in changes.into_iter().enumerate() {
            let at = |error: String| format!("template {n}: {error}");
            match read(change).map_err(at)? {
                Change::Whole(template) => {
                    check(&template).map_err(at)?;
                    next.retain(|kept| {
                        (&kept.name, &kept.language) != (&template.name, &template.language)
                    });
                    next.push(template);
                }
                Change::Standing(new) => {
                    let fits = |kept: &&mut Template| {
                        let in_language = new.language.as_ref().is_none_or(|l| *l == kept.language);
                        kept.name == new.name && in_language
                    };
                    let mut found = next.iter_mut().filter(fits).peekable();
                    if found.peek().is_none() {
                        return Err(at(format!("there is no template {}", new.name)));
                    }
                    found.for_each(|template| template.status = new.status);
                }
            }
        }
        let is_new = |template: &&Template| {
            let before = templates
                .iter()
                .find(|old| (&old.name, &old.language) == (&template.name, &template.language));
            before.is_some_and(|before| before.status != template.status)
        };
        let changed = next.iter().filter(is_new).cloned().collect();
        *templates = next;
        Ok(changed)
    }

    fn reset(&self) {
        *self.lock() = first();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Template>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(name: &str, language: &str) -> GraphError {
    GraphError::new(132_001, format!("template name ({name}) does not exist in {language}"))
}

fn read(change: Value) -> Result<Change, String> {
    if change.get("components").is_some() {
        serde_path_to_error::deserialize(change).map(Change::Whole).map_err(|e| e.to_string())
    } else {
        serde_path_to_error::deserialize(change).map(Change::Standing).map_err(|e| e.to_string())
    }
}

/// What Meta's review would refuse.
fn check(template: &Template) -> Result<(), String> {
    let plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
    if !(1..=512).contains(&template.name.len()) || !template.name.chars().all(plain) {
        return Err("name: only small letters, digits and _, at most 512".to_owned());
    }
    let bodies: Vec<&str> = template.components.iter().filter_map(Component::body).collect();
    let [body] = bodies[..] else { return Err("components: there must be one BODY".to_owned()) };
    if body.trim().is_empty() || body.chars().count() > 1024 {
        return Err("BODY: text must have 1 to 1024 characters".to_owned());
    }
    if body.trim().starts_with("{{") || body.trim().ends_with("}}") {
        return Err("BODY: text must not begin or end with a parameter".to_owned());
    }
    check_places(template.parameter_format, body)?;
    for header in template.components.iter().filter_map(Component::header) {
        if header.chars().count() > 60 || places(header).len() > 1 {
            return Err("HEADER: at most 60 characters and one parameter".to_owned());
        }
    }
    for footer in template.components.iter().filter_map(Component::footer) {
        if footer.chars().count() > 60 || !places(footer).is_empty() {
            return Err("FOOTER: at most 60 characters and no parameter".to_owned());
        }
    }
    check_buttons(template.buttons())
}

fn check_places(format: Format, body: &str) -> Result<(), String> {
    let places = places(body);
    let is_name = |place: &String| {
        !place.is_empty() && place.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'))
    };
    let fits = match format {
        Format::Positional => {
            let mut numbers: Vec<Option<usize>> = places.iter().map(|p| p.parse().ok()).collect();
            numbers.sort_unstable();
            numbers.iter().enumerate().all(|(n, number)| *number == Some(n + 1))
        }
        Format::Named => places.iter().all(is_name),
    };
    if fits { Ok(()) } else { Err("BODY: parameters must be {{1}}, {{2}} … or names".to_owned()) }
}

fn check_buttons(buttons: &[TemplateButton]) -> Result<(), String> {
    let mut urls = 0;
    for (n, button) in buttons.iter().enumerate() {
        if !(1..=25).contains(&button.label().chars().count()) {
            return Err(format!("button {n}: text must have 1 to 25 characters"));
        }
        if let TemplateButton::Url { url, .. } = button {
            urls += 1;
            let places = places(url);
            let is_at_end = places.is_empty() || (places == ["1"] && url.ends_with("{{1}}"));
            if !is_at_end || url.chars().count() > 2000 {
                return Err(format!("button {n}: url may have {{{{1}}}}, at its end"));
            }
        }
    }
    let are_few = buttons.len() <= 10 && urls <= 2;
    if are_few { Ok(()) } else { Err("BUTTONS: at most 10, two of them of type URL".to_owned()) }
}

/// A template whose links lead to where this product is.
fn at_home(mut template: Template, public_url: &str) -> Template {
    for component in &mut template.components {
        if let Component::Buttons { buttons } = component {
            for button in buttons {
                if let TemplateButton::Url { url, .. } = button {
                    *url = url.replace(HOME, public_url);
                }
            }
        }
    }
    template
}

/// The templates that this product asks for, in its languages.
fn first() -> Vec<Template> {
    serde_json::from_str(include_str!("template/first.json"))
        .expect("the file is checked by a test")
}

fn listed(template: &Template) -> Value {
    let mut listed = serde_json::to_value(template).unwrap_or_default();
    listed["id"] = id(template).to_string().into();
    listed
}

/// A number that stays the same, as Meta gives each template one.
fn id(template: &Template) -> u64 {
    let letters = template.name.bytes().chain(template.language.bytes());
    let sum = letters.fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    sum % 1_000_000_000_000_000
}

/// `GET /_sandbox/whatsapp/templates`
pub async fn show(State(sandbox): State<Arc<Sandbox>>) -> Json<Value> {
    Json(json!({"templates": *sandbox.whatsapp.templates.lock()}))
}

/// `POST /_sandbox/whatsapp/templates`
pub async fn change(State(sandbox): State<Arc<Sandbox>>, body: String) -> Response {
    let script = serde_json::from_str(&body).map_err(|error| format!("not JSON: {error}"));
    let changed = match script.and_then(|script| sandbox.whatsapp.templates.change(script)) {
        Ok(changed) => changed,
        Err(error) => {
            return (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response();
        }
    };
    for template in changed {
        let value = json!({
            "event": template.status, "message_template_id": id(&template),
            "message_template_name": template.name,
            "message_template_language": template.language,
            "message_template_category": template.category, "reason": "NONE",
        });
        hook::tell(&sandbox, "message_template_status_update", &value).await;
    }
    show(State(sandbox)).await.into_response()
}

/// `DELETE /_sandbox/whatsapp/templates`: the first ones are there again, and no others.
pub async fn reset(State(sandbox): State<Arc<Sandbox>>) -> Json<Value> {
    sandbox.whatsapp.templates.reset();
    show(State(sandbox)).await
}

/// Which templates a client asks for.
#[derive(Deserialize)]
pub struct Wanted {
    name: Option<String>,
    language: Option<String>,
    status: Option<Standing>,
}

/// `GET /v{N}.{M}/{account id}/message_templates`
pub async fn list(
    State(sandbox): State<Arc<Sandbox>>,
    Path((version, account)): Path<(String, String)>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Response {
    if !super::is_version(&version) {
        return GraphError::unknown_path(&format!("/{version}/{account}/message_templates"))
            .into_response();
    }
    let setting = sandbox.settings.now();
    if let Err(error) = super::authorize(&headers, &setting) {
        return error.into_response();
    }
    let public_url = setting.public_url();
    let templates = sandbox.whatsapp.templates.lock().clone();
    let fits = |template: &Template| {
        wanted.name.as_ref().is_none_or(|name| template.name.contains(name))
            && wanted.language.as_ref().is_none_or(|language| template.language == *language)
            && wanted.status.is_none_or(|status| template.status == status)
    };
    let found = templates.into_iter().filter(fits);
    let data: Vec<Value> = found.map(|template| listed(&at_home(template, &public_url))).collect();
    Json(json!({"data": data, "paging": {"cursors": {"before": "MAZDZD", "after": "MjQZD"}}}))
        .into_response()
}

#[cfg(test)]
mod tests;
