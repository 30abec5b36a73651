//! What the environment says about `WhatsApp`: who sends, and how Meta is known when it calls back.
//!
//! What means something only together is set together, or it is a mistake.

use std::time::Duration;

use super::Reader;
use crate::notify::WhatsAppSettings;
use crate::web::WebhookSettings;

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    pub(super) fn whatsapp(&mut self) -> Option<WhatsAppSettings> {
        let token = self.secret("LONGHAUL_WHATSAPP_TOKEN");
        let phone_number_id = self.text("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID");
        let base_url = self.url("LONGHAUL_WHATSAPP_BASE_URL");
        let graph_version = self.text("LONGHAUL_WHATSAPP_GRAPH_VERSION");
        match (token, phone_number_id) {
            (Some(token), Some(phone_number_id)) => Some(WhatsAppSettings {
                base_url: base_url.unwrap_or_else(|| "https://graph.facebook.com".to_owned()),
                graph_version: graph_version.unwrap_or_else(|| "v26.0".to_owned()),
                phone_number_id,
                token,
                timeout: Duration::from_secs(20),
            }),
            (None, None) => {
                for (name, given) in [
                    ("LONGHAUL_WHATSAPP_BASE_URL", base_url),
                    ("LONGHAUL_WHATSAPP_GRAPH_VERSION", graph_version),
                ] {
                    if given.is_some() {
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
