//! The templates of the account, as Meta lists them: whether they may be sent, and where their buttons lead.
//!
//! In come the settings of the channel and a name; out come the languages of that template. Nothing is sent to anybody.

use serde::Deserialize;

use super::WhatsAppSettings;
use super::number::ask;

/// A template in one language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    /// Meta's code of the language.
    pub language: String,
    /// `APPROVED` if it can be sent.
    pub status: String,
    /// Where its buttons lead that open an address.
    pub urls: Vec<String>,
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    language: String,
    status: String,
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Deserialize)]
struct Component {
    #[serde(default)]
    buttons: Vec<Button>,
}

#[derive(Deserialize)]
struct Button {
    url: Option<String>,
}

/// Asks Meta for a template in all its languages; a name that is not there has none.
pub async fn look_up(
    settings: &WhatsAppSettings,
    account_id: &str,
    name: &str,
) -> Result<Vec<Approved>, String> {
    let path = format!("{account_id}/message_templates");
    // There are fewer languages than fit a page.
    let query = [("name", name), ("fields", "name,language,status,components"), ("limit", "200")];
    let page: Page = ask(settings, &path, &query).await?;
    // The names of others may begin alike.
    let listed = page.data.into_iter().filter(|one| one.name == name);
    let approved = listed.map(|one| Approved {
        language: one.language,
        status: one.status,
        urls: one
            .components
            .into_iter()
            .flat_map(|part| part.buttons)
            .filter_map(|b| b.url)
            .collect(),
    });
    Ok(approved.collect())
}
