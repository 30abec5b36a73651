//! A page that looks like a phone: the messages the sandbox accepted, one chat per number.
//! In comes the journal of `WhatsApp` messages; out goes HTML with working links and buttons.
//! Everything from a message is escaped by the template; only http and https become links.
//! Looking at a chat reads it, of which the sender is told where a webhook is set; else it changes nothing.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::{Html, IntoResponse as _, Response},
};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Sandbox,
    envelope::is_web_url,
    journal::{self, Entry},
    status,
    whatsapp::{WhatsappMessage, digits, is_wanted},
};

/// Which chat is open.
#[derive(Deserialize)]
pub struct Choice {
    to: Option<String>,
}

#[derive(Template)]
#[template(path = "sandbox/phone.html")]
struct Phone {
    last_seq: u64,
    chats: Vec<Chat>,
    /// The number whose chat is open; empty if there is none.
    open: String,
    bubbles: Vec<Bubble>,
}

struct Chat {
    to: String,
    /// The number, for a link.
    digits: String,
    /// What stands in the round picture.
    initials: String,
    preview: String,
    at: DateTime<Utc>,
    count: usize,
}

struct Bubble {
    at: DateTime<Utc>,
    /// Whether a new day begins with it.
    is_first_of_day: bool,
    header: String,
    text: Vec<Piece>,
    footer: String,
    buttons: Vec<Button>,
}

/// A piece of text.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    text: String,
    look: Look,
}

/// How a piece looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Plain,
    /// It is an address, and leads there.
    Link,
    Bold,
    /// A line of its own.
    Quote,
}

struct Button {
    label: String,
    url: Option<String>,
}

/// `GET /phone`
pub async fn page(State(sandbox): State<Arc<Sandbox>>, Query(choice): Query<Choice>) -> Response {
    let accepted = |entry: &Entry<WhatsappMessage>| is_wanted(entry, None);
    let entries = sandbox.whatsapp.look(&journal::Look::default(), accepted).await;
    let phone = phone(&entries, choice.to.as_deref());
    status::read_chat(&sandbox, &phone.open);
    match phone.render() {
        Ok(html) => ([("cache-control", "no-store")], Html(html)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn phone(entries: &[Entry<WhatsappMessage>], to: Option<&str>) -> Phone {
    let mut chats: Vec<Chat> = Vec::new();
    for entry in entries.iter().rev() {
        let number = &entry.what.to;
        match chats.iter_mut().find(|chat| chat.to == *number) {
            Some(chat) => chat.count += 1,
            None => chats.push(Chat {
                to: number.clone(),
                digits: digits(number),
                initials: number.chars().skip(number.chars().count().saturating_sub(2)).collect(),
                preview: entry.what.text.chars().take(80).collect(),
                at: entry.received_at,
                count: 1,
            }),
        }
    }
    let asked =
        to.map(digits).filter(|digits| !digits.is_empty()).map(|digits| format!("+{digits}"));
    let open = asked.or_else(|| chats.first().map(|chat| chat.to.clone())).unwrap_or_default();
    let mut bubbles: Vec<Bubble> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.what.to == open) {
        let day = entry.received_at.date_naive();
        let is_first_of_day = bubbles.last().is_none_or(|last| last.at.date_naive() != day);
        bubbles.push(bubble(entry, is_first_of_day));
    }
    Phone { last_seq: entries.last().map_or(0, |entry| entry.seq), chats, open, bubbles }
}

fn bubble(entry: &Entry<WhatsappMessage>, is_first_of_day: bool) -> Bubble {
    let body = &entry.what.body;
    let interactive = &body["interactive"];
    let part = |name: &str| interactive[name]["text"].as_str().unwrap_or("").to_owned();
    let text = if interactive.is_object() { part("body") } else { entry.what.text.clone() };
    Bubble {
        at: entry.received_at,
        is_first_of_day,
        header: part("header"),
        text: pieces(&text),
        footer: part("footer"),
        buttons: buttons(body),
    }
}

fn buttons(body: &Value) -> Vec<Button> {
    let action = &body["interactive"]["action"];
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut buttons = Vec::new();
    if let Some(url) = action["parameters"]["url"].as_str() {
        let label = text(&action["parameters"]["display_text"]);
        buttons.push(Button { label, url: Some(url.to_owned()) });
    }
    for button in action["buttons"].as_array().into_iter().flatten() {
        buttons.push(Button { label: text(&button["reply"]["title"]), url: None });
    }
    for component in body["template"]["components"].as_array().into_iter().flatten() {
        if !component["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("button")) {
            continue;
        }
        // A template's own address and labels live at Meta; a send only carries the end of each.
        let parameter = &component["parameters"][0];
        let label = text(if parameter["type"] == "payload" {
            &parameter["payload"]
        } else {
            &parameter["text"]
        });
        let url = is_web_url(&label).then(|| label.clone());
        buttons.push(Button { label, url });
    }
    buttons
}

/// Splits a text into pieces; of the phone's marks it knows bold lines and quoted ones.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        let bold = bare.strip_prefix('*').and_then(|rest| rest.strip_suffix('*'));
        if let Some(quote) = bare.strip_prefix("> ") {
            pieces.push(Piece { text: quote.to_owned(), look: Look::Quote });
        } else if let Some(bold) = bold.filter(|bold| !bold.is_empty() && !bold.contains('*')) {
            pieces.push(Piece { text: bold.to_owned(), look: Look::Bold });
            pieces.push(Piece { text: line[bare.len()..].to_owned(), look: Look::Plain });
        } else {
            link(line, &mut pieces);
        }
    }
    pieces
}

/// Splits a line into plain pieces and links.
fn link(line: &str, pieces: &mut Vec<Piece>) {
    let mut rest = line;
    while let Some(start) = ["https://", "http://"].iter().filter_map(|s| rest.find(s)).min() {
        let is_end = |letter: char| !letter.is_ascii_graphic() || "<>\"`{}|\\^".contains(letter);
        let link = &rest[start..];
        let link = link[..link.find(is_end).unwrap_or(link.len())]
            .trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'', '*', '_']);
        if start > 0 {
            pieces.push(Piece { text: rest[..start].to_owned(), look: Look::Plain });
        }
        let look = if is_web_url(link) { Look::Link } else { Look::Plain };
        pieces.push(Piece { text: link.to_owned(), look });
        rest = &rest[start + link.len()..];
    }
    if !rest.is_empty() {
        pieces.push(Piece { text: rest.to_owned(), look: Look::Plain });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_end_where_a_reader_would_say_they_end() {
        let found: Vec<String> = pieces(
            "批准：http://127.0.0.1:8080/approvals/a_b-C，或 (see https://x.org/y?a=1&b=2). http:// no",
        )
        .into_iter()
        .filter(|piece| piece.look == Look::Link)
        .map(|piece| piece.text)
        .collect();
        assert_eq!(found, ["http://127.0.0.1:8080/approvals/a_b-C", "https://x.org/y?a=1&b=2"]);
    }

    #[test]
    fn bold_and_quoted_lines_lose_their_marks() {
        let looks: Vec<(String, Look)> = pieces("*Done*\n> a * b\n*no\n2*3*4\n**")
            .into_iter()
            .map(|piece| (piece.text, piece.look))
            .collect();
        let expected = [
            ("Done", Look::Bold),
            ("\n", Look::Plain),
            ("a * b", Look::Quote),
            ("*no\n", Look::Plain),
            ("2*3*4\n", Look::Plain),
            ("**", Look::Plain),
        ];
        assert_eq!(looks, expected.map(|(text, look)| (text.to_owned(), look)));
    }

    #[test]
    fn what_a_message_says_is_escaped() {
        let message = WhatsappMessage {
            to: "+15550001".to_owned(),
            text: "<script>x</script> http://a.b/?q=<i>".to_owned(),
            ..WhatsappMessage::default()
        };
        let entry = Entry {
            seq: 1,
            received_at: DateTime::UNIX_EPOCH,
            outcome: super::super::journal::Outcome::Answered,
            what: message,
        };
        let html = phone(&[entry], Some(" 15550001")).render().unwrap();
        assert!(!html.contains("<script>x") && !html.contains("<i>"), "{html}");
        assert!(html.contains("href=\"http://a.b/?q=\""), "{html}");
    }
}
