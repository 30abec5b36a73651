//! What the environment says about `WhatsApp`: who sends and in which forms, and how Meta is known when it calls back.
//!
//! What means something only together is set together, or it is a mistake.

use std::path::PathBuf;
use std::time::Duration;

use super::Reader;
use crate::domain::language::{SPOKEN, is_same};
use crate::notify::{FormSettings, RequestForm, TemplateButtons, WhatsAppSettings};
use crate::web::WebhookSettings;

/// What says nothing where nobody sends.
const OF_A_SENDER: [&str; 9] = [
    ACCOUNT,
    "LONGHAUL_WHATSAPP_BASE_URL",
    "LONGHAUL_WHATSAPP_GRAPH_VERSION",
    "LONGHAUL_WHATSAPP_REQUEST_FORM",
    "LONGHAUL_WHATSAPP_REQUEST_TEMPLATE",
    BACKUP,
    "LONGHAUL_WHATSAPP_NOTICE_TEMPLATE",
    "LONGHAUL_WHATSAPP_TEMPLATE_BUTTONS",
    LANGUAGES,
];
const ACCOUNT: &str = "LONGHAUL_WHATSAPP_ACCOUNT_ID";
const BACKUP: &str = "LONGHAUL_WHATSAPP_REQUEST_TEMPLATE_BACKUP";
const LANGUAGES: &str = "LONGHAUL_WHATSAPP_TEMPLATE_LANGUAGES";
const SPACING: &str = "LONGHAUL_WHATSAPP_SPACING_SECONDS";

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    pub(super) fn whatsapp(&mut self) -> Option<WhatsAppSettings> {
        let token = self.secret("LONGHAUL_WHATSAPP_TOKEN");
        let phone_number_id = self.text("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID");
        match (token, phone_number_id) {
            (Some(token), Some(phone_number_id)) => {
                let mut settings = WhatsAppSettings::new(phone_number_id, token);
                if let Some(base_url) = self.url("LONGHAUL_WHATSAPP_BASE_URL") {
                    settings.base_url = base_url;
                }
                if let Some(version) = self.text("LONGHAUL_WHATSAPP_GRAPH_VERSION") {
                    settings.graph_version = version;
                }
                settings.token_file = self.text("LONGHAUL_WHATSAPP_TOKEN_FILE").map(PathBuf::from);
                settings.spacing = Duration::from_secs(self.number(SPACING, 6, 0, 60));
                settings.account_id = self.account_id();
                settings.forms = self.forms();
                Some(settings)
            }
            (None, None) => {
                for name in OF_A_SENDER {
                    if self.text(name).is_some() {
                        self.mistake(&format!(
                            "{name} says nothing without LONGHAUL_WHATSAPP_TOKEN"
                        ));
                    }
                }
                None
            }
            (Some(_), None) | (None, Some(_)) => {
                self.mistake(
                    "LONGHAUL_WHATSAPP_TOKEN and LONGHAUL_WHATSAPP_PHONE_NUMBER_ID go together: set both or none",
                );
                None
            }
        }
    }

    /// It becomes part of an address.
    fn account_id(&mut self) -> Option<String> {
        let account_id = self.text(ACCOUNT)?;
        if !account_id.bytes().all(|b| b.is_ascii_digit()) {
            self.mistake(&format!("{ACCOUNT} must be a number, is {account_id:?}"));
        }
        Some(account_id)
    }

    fn forms(&mut self) -> FormSettings {
        let request_form = self.choice(
            "LONGHAUL_WHATSAPP_REQUEST_FORM",
            &[
                ("text", RequestForm::Text),
                ("link", RequestForm::Link),
                ("buttons", RequestForm::Buttons),
            ],
        );
        let template_buttons = self.choice(
            "LONGHAUL_WHATSAPP_TEMPLATE_BUTTONS",
            &[("urls", TemplateButtons::Urls), ("replies", TemplateButtons::Replies)],
        );
        let forms = FormSettings {
            request_form,
            request_template: self.template("LONGHAUL_WHATSAPP_REQUEST_TEMPLATE"),
            request_template_backup: self.template(BACKUP),
            notice_template: self.template("LONGHAUL_WHATSAPP_NOTICE_TEMPLATE"),
            template_buttons,
            template_languages: self.template_languages(),
        };
        if forms.request_template_backup.is_some() && forms.request_template.is_none() {
            self.mistake(&format!(
                "{BACKUP} says nothing without LONGHAUL_WHATSAPP_REQUEST_TEMPLATE"
            ));
        }
        forms
    }

    /// One of these words; the first counts where nothing is said.
    fn choice<C: Copy>(&mut self, name: &str, choices: &[(&str, C)]) -> C {
        let text = self.text(name);
        let text = text.as_deref().unwrap_or(choices[0].0);
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.mistake(&format!("{name} must be one of {}, is {text:?}", words.join(", ")));
        }
        chosen.unwrap_or(&choices[0]).1
    }

    fn template(&mut self, name: &str) -> Option<String> {
        let template = self.text(name)?;
        let is_of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if template.len() > 512 || !template.bytes().all(is_of_name) {
            self.mistake(&format!(
                "{name} must be the name of a template, of small letters, digits and `_`, is {template:?}"
            ));
        }
        Some(template)
    }

    /// Ours and Meta's, such as `en=en_GB,zh=zh_HK`; what is not said stays as it is.
    fn template_languages(&mut self) -> Vec<(String, String)> {
        let mut known = FormSettings::default().template_languages;
        let text = self.text(LANGUAGES).unwrap_or_default();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let is_of_code = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            let found = pair.split_once('=').and_then(|(ours, code)| {
                let known = known.iter_mut().find(|(tag, _)| is_same(tag, ours.trim()))?;
                let code = code.trim();
                (!code.is_empty() && code.bytes().all(is_of_code)).then(|| (known, code.to_owned()))
            });
            match found {
                Some((known, code)) => known.1 = code,
                None => self.mistake(&format!(
                    "{LANGUAGES} must be pairs such as `en=en_GB` of {} and a code of Meta's, is {text:?}",
                    SPOKEN.join(", ")
                )),
            }
        }
        known
    }

    pub(super) fn whatsapp_webhook(&mut self) -> Option<WebhookSettings> {
        let verify_token = self.secret("LONGHAUL_WHATSAPP_VERIFY_TOKEN");
        let app_secret = self.secret("LONGHAUL_WHATSAPP_APP_SECRET");
        let old = self.secret("LONGHAUL_WHATSAPP_APP_SECRET_OLD");
        match (verify_token, app_secret) {
            (Some(verify_token), Some(app_secret)) => Some(WebhookSettings {
                verify_token,
                app_secrets: [Some(app_secret), old].into_iter().flatten().collect(),
            }),
            (None, None) => {
                if old.is_some() {
                    self.mistake(
                        "LONGHAUL_WHATSAPP_APP_SECRET_OLD says nothing without LONGHAUL_WHATSAPP_APP_SECRET",
                    );
                }
                None
            }
            (Some(_), None) | (None, Some(_)) => {
                self.mistake(
                    "LONGHAUL_WHATSAPP_APP_SECRET and LONGHAUL_WHATSAPP_VERIFY_TOKEN go together: set both or none",
                );
                None
            }
        }
    }
}
