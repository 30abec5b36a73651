//! A page that looks like a phone: what was sent and written, one chat per person.
//! In come the journals of messages, and the forms of the page; out goes HTML with working links and buttons.
//! Everything from a message is escaped by the template; only http, https and tel become links.
//! Looking at a chat reads it, of which the sender is told where a webhook is set; else it changes nothing.

use std::sync::Arc;

use askama::Template;
use axum::{
    Form,
    extract::{Query, State},
    http::StatusCode,
    response::{Html, IntoResponse as _, Redirect, Response},
};
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::{
    super::{
        Sandbox,
        journal::{self, Entry, Outcome},
    },
    WhatsappMessage,
    envelope::{Button, Does, is_web_url},
    inbound::{self, Inbound, Writing},
    is_wanted, people,
    refusal::GraphError,
    status::{self, Status},
};

/// Which chat is open.
#[derive(Deserialize)]
pub struct Choice {
    to: Option<String>,
}

#[derive(Template)]
#[template(path = "sandbox/phone.html")]
struct Phone {
    /// What a follower of the page has seen with it.
    changes: u64,
    chats: Vec<Chat>,
    /// The person whose chat is open; empty if there is none.
    open: String,
    bubbles: Vec<Bubble>,
}

struct Chat {
    to: String,
    /// What stands in the round picture.
    initials: String,
    preview: String,
    at: DateTime<Utc>,
    unread: usize,
}

struct Bubble {
    at: DateTime<Utc>,
    /// Whether a new day begins with it.
    is_first_of_day: bool,
    /// Whether the person wrote it.
    is_own: bool,
    /// The message, for the forms of its buttons.
    id: String,
    header: String,
    text: Vec<Piece>,
    footer: String,
    buttons: Vec<Button>,
    tick: Tick,
    /// Why it did not arrive.
    failure: String,
}

/// The mark beside the time of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tick {
    Waits,
    Sent,
    Delivered,
    Read,
    Failed,
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

/// `GET /phone`
pub async fn page(State(sandbox): State<Arc<Sandbox>>, Query(choice): Query<Choice>) -> Response {
    let changes = *sandbox.whatsapp.changes.borrow();
    let look = journal::Look::default();
    let sent = sandbox.whatsapp.sent.look(&look, |entry| is_wanted(entry, None)).await;
    let written = sandbox.whatsapp.received.look(&look, |_| true).await;
    let phone = phone(changes, &sent, &written, choice.to.as_deref());
    if !phone.open.is_empty() {
        status::read_chat(&sandbox, &phone.open).await;
    }
    match phone.render() {
        Ok(html) => ([("cache-control", "no-store")], Html(html)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What the form under a chat holds.
#[derive(Deserialize)]
pub struct Say {
    to: String,
    text: String,
}

/// `POST /phone/say`
pub async fn say(State(sandbox): State<Arc<Sandbox>>, Form(said): Form<Say>) -> Response {
    if said.text.trim().is_empty() {
        return back_to(&said.to);
    }
    let text = Some(said.text.replace("\r\n", "\n"));
    let writing = Writing { from: said.to, text, ..Writing::default() };
    write(&sandbox, writing).await
}

/// What the form of a button holds.
#[derive(Deserialize)]
pub struct Tap {
    to: String,
    message: String,
    button: String,
}

/// `POST /phone/tap`
pub async fn tap(State(sandbox): State<Arc<Sandbox>>, Form(tapped): Form<Tap>) -> Response {
    let (message, tap) = (Some(tapped.message), Some(tapped.button));
    let writing = Writing { from: tapped.to, tap, message, ..Writing::default() };
    write(&sandbox, writing).await
}

/// Sends what a person wrote and goes back to the chat; the webhook may take its time.
async fn write(sandbox: &Arc<Sandbox>, writing: Writing) -> Response {
    match inbound::write(sandbox, &writing).await {
        Ok(_) => back_to(&writing.from),
        Err((status, error)) => (status, error).into_response(),
    }
}

fn back_to(person: &str) -> Response {
    let query = serde_urlencoded::to_string([("to", person)]).unwrap_or_default();
    Redirect::to(&format!("/phone?{query}")).into_response()
}

fn phone(
    changes: u64,
    sent: &[Entry<WhatsappMessage>],
    written: &[Entry<Inbound>],
    to: Option<&str>,
) -> Phone {
    let chats = chats(sent, written);
    // A single chat is what one came for; of several one chooses.
    let only = || if let [chat] = &chats[..] { chat.to.clone() } else { String::new() };
    let open = to.map_or_else(only, people::named);
    let mut bubbles: Vec<Bubble> = Vec::new();
    if !open.is_empty() {
        bubbles.extend(sent.iter().filter(|entry| entry.what.to == open).map(received_bubble));
        bubbles.extend(written.iter().filter(|entry| entry.what.from == open).map(own_bubble));
    }
    bubbles.sort_by_key(|bubble| bubble.at);
    let mut day = None;
    for bubble in &mut bubbles {
        bubble.is_first_of_day =
            day.replace(bubble.at.date_naive()) != Some(bubble.at.date_naive());
    }
    Phone { changes, chats, open, bubbles }
}

/// One chat for each person, the one with the newest message first.
fn chats(sent: &[Entry<WhatsappMessage>], written: &[Entry<Inbound>]) -> Vec<Chat> {
    let sent = sent.iter().map(|entry| {
        let is_unread = entry.what.status == Some(Status::Delivered);
        (&entry.what.to, entry.received_at, &entry.what.text, usize::from(is_unread))
    });
    let written =
        written.iter().map(|entry| (&entry.what.from, entry.received_at, &entry.what.text, 0));
    let mut all: Vec<_> = sent.chain(written).collect();
    all.sort_by_key(|(_, at, ..)| std::cmp::Reverse(*at));
    let mut chats: Vec<Chat> = Vec::new();
    for (person, at, text, unread) in all {
        match chats.iter_mut().find(|chat| chat.to == *person) {
            Some(chat) => chat.unread += unread,
            None => chats.push(Chat {
                to: person.clone(),
                initials: person.chars().skip(person.chars().count().saturating_sub(2)).collect(),
                preview: preview(text),
                at,
                unread,
            }),
        }
    }
    chats
}

/// The beginning of a text, without its marks.
fn preview(text: &str) -> String {
    let beginning: String = text.chars().take(120).collect();
    let pieces = pieces(&beginning).into_iter().map(|piece| piece.text);
    pieces.collect::<Vec<_>>().concat()
}

/// A message that the person got.
fn received_bubble(entry: &Entry<WhatsappMessage>) -> Bubble {
    let message = &entry.what;
    let tick = match message.status {
        None | Some(Status::Accepted) => Tick::Waits,
        Some(Status::Sent) => Tick::Sent,
        Some(Status::Delivered) => Tick::Delivered,
        Some(Status::Read) => Tick::Read,
        Some(Status::Failed) => Tick::Failed,
    };
    let code = message.error_code.filter(|_| tick == Tick::Failed);
    Bubble {
        at: entry.received_at,
        is_first_of_day: false,
        is_own: false,
        id: message.id.clone().unwrap_or_default(),
        header: message.reading.header.clone(),
        text: pieces(&message.reading.body),
        footer: message.reading.footer.clone(),
        buttons: message.buttons.clone(),
        tick,
        failure: code.map(|code| format!("{code} {}", GraphError::title(code))).unwrap_or_default(),
    }
}

/// A message that the person wrote; it has two ticks once the webhook has taken it.
fn own_bubble(entry: &Entry<Inbound>) -> Bubble {
    let tick = match entry.outcome {
        Outcome::Answered => Tick::Delivered,
        Outcome::Pending | Outcome::Held => Tick::Waits,
        Outcome::Failed | Outcome::Disconnected => Tick::Sent,
    };
    Bubble {
        at: entry.received_at,
        is_first_of_day: false,
        is_own: true,
        id: entry.what.id.clone(),
        header: String::new(),
        text: pieces(&entry.what.text),
        footer: String::new(),
        buttons: Vec::new(),
        tick,
        failure: String::new(),
    }
}

/// Every link in a text, as a phone would show it.
pub fn links(text: &str) -> Vec<String> {
    let links = pieces(text).into_iter().filter(|piece| piece.look == Look::Link);
    links.map(|piece| piece.text).collect()
}

/// Splits a text into pieces; of the phone's marks it knows bold words and quoted lines.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(quote) = line.strip_prefix("> ") {
            let quote = quote.trim_end_matches('\n').to_owned();
            pieces.push(Piece { text: quote, look: Look::Quote });
        } else {
            link(line, &mut pieces);
        }
    }
    pieces
}

/// Splits a line into links and what is between them.
fn link(line: &str, pieces: &mut Vec<Piece>) {
    let mut rest = line;
    while let Some(start) = ["https://", "http://"].iter().filter_map(|s| rest.find(s)).min() {
        let is_end = |letter: char| !letter.is_ascii_graphic() || "<>\"`{}|\\^".contains(letter);
        let link = &rest[start..];
        let link = link[..link.find(is_end).unwrap_or(link.len())]
            .trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'', '*', '_']);
        bold(&rest[..start], pieces);
        let look = if is_web_url(link) { Look::Link } else { Look::Plain };
        pieces.push(Piece { text: link.to_owned(), look });
        rest = &rest[start + link.len()..];
    }
    bold(rest, pieces);
}

/// Splits what has no link into bold words and plain ones.
fn bold(text: &str, pieces: &mut Vec<Piece>) {
    let mut rest = text;
    while let Some((start, end)) = next_bold(rest) {
        plain(&rest[..start], pieces);
        pieces.push(Piece { text: rest[start + 1..end].to_owned(), look: Look::Bold });
        rest = &rest[end + 1..];
    }
    plain(rest, pieces);
}

fn plain(text: &str, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece { text: text.to_owned(), look: Look::Plain });
    }
}

/// The two stars of the next bold words: they stand at the borders of words, and hug them.
fn next_bold(text: &str) -> Option<(usize, usize)> {
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let hugs = |letter: Option<char>| letter.is_some_and(|l| !l.is_whitespace() && l != '*');
    let before = |at: usize| text[..at].chars().next_back();
    let behind = |at: usize| text[at + 1..].chars().next();
    let stars = || text.match_indices('*').map(|(at, _)| at);
    let opens = |at: &usize| !is_word(before(*at)) && hugs(behind(*at));
    let closes = |at: &usize| hugs(before(*at)) && !is_word(behind(*at));
    let start = stars().find(opens)?;
    let end = stars().filter(|at| *at > start).find(closes)?;
    Some((start, end))
}

#[cfg(test)]
mod tests;
