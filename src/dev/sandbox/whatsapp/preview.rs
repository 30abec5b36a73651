//! Link previews: machines that open the links of a message before a person does.
//! In come the links of a message; each is asked for by HEAD and by GET, under the names that previews go by.
//! What each was answered is written beside the message, for tests to read.

use reqwest::{Method, header::USER_AGENT};
use serde::Serialize;

use super::super::Sandbox;

/// The names that previews go by.
const AGENTS: [&str; 2] = ["WhatsApp/2.22.20.72 A", "facebookexternalhit/1.1"];

/// One link that a preview asked for.
#[derive(Clone, Serialize)]
pub struct Preview {
    /// The link.
    pub url: String,
    /// `HEAD` or `GET`.
    pub method: String,
    /// By which name it was asked for.
    pub user_agent: &'static str,
    /// What was answered; none if nobody answered.
    pub status: Option<u16>,
}

/// Asks for all links of a message.
pub async fn fetch(sandbox: &Sandbox, seq: u64, links: &[String]) {
    let mut previews = Vec::new();
    for url in links {
        for user_agent in AGENTS {
            for method in [Method::HEAD, Method::GET] {
                let status = ask(sandbox, method.clone(), url, user_agent).await;
                let (url, method) = (url.clone(), method.to_string());
                previews.push(Preview { url, method, user_agent, status });
            }
        }
    }
    if !previews.is_empty() {
        sandbox.whatsapp.change(seq, |message| message.previews = previews);
    }
}

async fn ask(sandbox: &Sandbox, method: Method, url: &str, user_agent: &str) -> Option<u16> {
    let request = sandbox.http.request(method, url).header(USER_AGENT, user_agent);
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    // Read to its end, as whoever looks for a picture and a title does.
    let _ = answer.bytes().await;
    Some(status)
}
