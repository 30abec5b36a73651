//! The forms in which a notice can be sent, and which of them come into question, in order.
//!
//! While a person's window is open they are written to freely; else with a template that Meta has approved.
//! What is refused in one form is sent in the next, so that no rule about forms keeps a notice from its person.

use crate::domain::language::{SPOKEN, is_same};
use crate::store::outbox::{Needs, Outgoing, Window};

/// The forms in which people are written to.
#[derive(Clone, Debug)]
pub struct FormSettings {
    /// How a request looks while the window is open.
    pub request_form: RequestForm,
    /// The templates for requests, the second for when the first cannot be used.
    pub request_template: Option<String>,
    pub request_template_backup: Option<String>,
    /// The template for everything else.
    pub notice_template: Option<String>,
    /// What the buttons of the templates for requests do.
    pub template_buttons: TemplateButtons,
    /// Meta's code for each of our languages.
    pub template_languages: Vec<(String, String)>,
}

/// How a request looks while the window is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestForm {
    /// A text with both links.
    #[default]
    Text,
    /// A text with a button that opens the page.
    Link,
    /// A text with buttons that decide.
    Buttons,
}

/// What the buttons of a template do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TemplateButtons {
    /// They open the page.
    #[default]
    Urls,
    /// They decide.
    Replies,
}

/// A form of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Those for an open window.
    Text,
    Link,
    Buttons,
    /// Those for any time.
    Template,
    Backup,
}

impl Default for FormSettings {
    fn default() -> Self {
        let languages = [("en", "en_US"), ("zh", "zh_CN"), ("pt-BR", "pt_BR")];
        Self {
            request_form: RequestForm::default(),
            request_template: None,
            request_template_backup: None,
            notice_template: None,
            template_buttons: TemplateButtons::default(),
            template_languages: languages
                .map(|(ours, code)| (ours.to_owned(), code.to_owned()))
                .to_vec(),
        }
    }
}

impl FormSettings {
    /// The template of a form, if there is one for this notice.
    pub(super) fn template(&self, form: Form, asks: bool) -> Option<&str> {
        let name = match (form, asks) {
            (Form::Template, true) => &self.request_template,
            (Form::Backup, true) => &self.request_template_backup,
            (Form::Template, false) => &self.notice_template,
            (Form::Backup, false) | (Form::Text | Form::Link | Form::Buttons, _) => return None,
        };
        name.as_deref()
    }

    /// Meta's code of one of our languages.
    pub(super) fn language_code(&self, language: &str) -> &str {
        let find = |language: &str| {
            let known = self.template_languages.iter().find(|(ours, _)| is_same(ours, language));
            known.map(|(_, code)| code.as_str())
        };
        find(language).or_else(|| find(SPOKEN[0])).unwrap_or("en_US")
    }

    /// The forms that come into question for a notice, the best first; none if only a template would do and there is none.
    pub(super) fn plan(&self, notice: &Outgoing) -> Vec<Form> {
        let asks = notice.kind.asks();
        let mut templates = vec![Form::Template, Form::Backup];
        templates.retain(|form| self.template(*form, asks).is_some());
        let mut free = match self.request_form {
            RequestForm::Link if asks => vec![Form::Link],
            RequestForm::Buttons if asks => vec![Form::Buttons],
            RequestForm::Text | RequestForm::Link | RequestForm::Buttons => vec![],
        };
        free.push(Form::Text);
        match (notice.needs, notice.window) {
            (Some(needs), window) => {
                // Without the other one, the first is tried again: it may have been approved, or resumed.
                if needs == Needs::Backup && templates.contains(&Form::Backup) {
                    templates.retain(|form| *form == Form::Backup);
                }
                if window == Window::Open && !templates.is_empty() {
                    templates.push(Form::Text);
                }
                templates
            }
            (None, Window::Open) => [free, templates].concat(),
            // Without a template nothing is lost by trying.
            (None, Window::Unknown) if templates.is_empty() => free,
            (None, Window::Unknown | Window::Closed) => templates,
        }
    }
}

impl Form {
    /// Whether it is for an open window alone.
    pub(super) fn is_free(self) -> bool {
        match self {
            Self::Text | Self::Link | Self::Buttons => true,
            Self::Template | Self::Backup => false,
        }
    }

    /// What tells it in the word of a message; what is sent freely needs no mark.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Text | Self::Link | Self::Buttons => "",
            Self::Template => "t",
            Self::Backup => "b",
        }
    }

    /// The form that a mark tells.
    pub(super) fn find(mark: &str) -> Option<Self> {
        [Self::Text, Self::Template, Self::Backup].into_iter().find(|form| form.mark() == mark)
    }
}
