//! `WhatsApp`'s webhook, called by the public URL as Meta calls it: the question whether it is ours, and a signed body.
//!
//! In come the secrets that are configured here; out goes a line of the checklist.
//! The body tells of nothing, so nothing is stored.

use reqwest::{Client, Url};
use secrecy::ExposeSecret as _;

use super::service::causes;
use super::{Report, link};
use crate::config::Config;
use crate::domain::probe::random_word;
use crate::notify::signature::sign;
use crate::web::WebhookSettings;

const CHECK: &str = "whatsapp webhook";
/// Escapes as Meta writes them: whoever writes the JSON anew on the way breaks the signature.
const BODY: &str = r#"{"object":"whatsapp_business_account","note":"\u00e9\/","entry":[]}"#;

/// Proves that what Meta tells arrives and is believed.
pub(super) async fn check(config: &Config, report: &mut Report) {
    if config.notify.whatsapp.is_none() {
        return;
    }
    let Some(settings) = &config.web.whatsapp else {
        let found = "LONGHAUL_WHATSAPP_APP_SECRET and LONGHAUL_WHATSAPP_VERIFY_TOKEN are not set: \
                     nobody hears what becomes of messages";
        let remedy = "set both, and enter the address as the app's callback at Meta";
        return report.warning(CHECK, found, remedy);
    };
    let url = format!("{}/webhook/whatsapp", config.web.public_url.trim_end_matches('/'));
    let Ok(url) = Url::parse(&url) else { return };
    match link::client(&url) {
        Ok(client) => Box::pin(call(&client, url, settings, report)).await,
        Err(error) => report.fault(CHECK, causes(&error), "install the machine's ca-certificates"),
    }
}

async fn call(client: &Client, url: Url, settings: &WebhookSettings, report: &mut Report) {
    let challenge = random_word(&mut rand::rng());
    let mut question = url.clone();
    question
        .query_pairs_mut()
        .append_pair("hub.mode", "subscribe")
        .append_pair("hub.challenge", &challenge)
        .append_pair("hub.verify_token", settings.verify_token.expose_secret());
    let answer = match client.get(question).send().await {
        Ok(answer) => answer,
        Err(error) => {
            let found = format!("no answer: {}", causes(&error.without_url()));
            return report.fault(CHECK, found, "see what the checklist says of the public url");
        }
    };
    let status = answer.status().as_u16();
    if answer.text().await.ok().as_deref() != Some(&challenge) {
        let found =
            format!("the verification is answered with status {status} and not as Meta wants it");
        let remedy = match status {
            403 => "the server has another LONGHAUL_WHATSAPP_VERIFY_TOKEN than is set here",
            _ => "have the proxy pass GET and POST of /webhook/whatsapp on, with its query",
        };
        return report.fault(CHECK, found, remedy);
    }
    let secret = settings.app_secrets.first().cloned().unwrap_or_default();
    let request = client
        .post(url)
        .header("content-type", "application/json")
        .header("x-hub-signature-256", sign(&secret, BODY.as_bytes()));
    let (found, remedy) = match request.body(BODY).send().await {
        Ok(answer) if answer.status().is_success() => {
            return report.ok(CHECK, "it is verified, and a signed body arrives");
        }
        Ok(answer) => (
            format!("a signed body is answered with status {}", answer.status().as_u16()),
            match answer.status().as_u16() {
                401 => {
                    "the server has another LONGHAUL_WHATSAPP_APP_SECRET than is set here, or something \
                     on the way changes bodies"
                }
                _ => "have the proxy pass POST of /webhook/whatsapp on, with its headers",
            },
        ),
        Err(error) => (
            format!("a signed body is not answered: {}", causes(&error.without_url())),
            "have the proxy pass POST of /webhook/whatsapp on",
        ),
    };
    report.fault(CHECK, found, remedy);
}
