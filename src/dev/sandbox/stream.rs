//! The streamed form of an answer: server-sent events in the provider's order.
//! In comes a finished message; out goes a body that sends it event by event.
//! A fault can slow, hold, break or silence it after any number of events.
//! The journal has the request as answered only when the last event has been sent.

use std::{collections::VecDeque, future::pending, io, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use tokio::{task::yield_now, time::sleep};

use super::{
    fault::{ModelFault, Strike},
    journal::{Open, Outcome},
    message::{ModelRequest, hold},
    request::Refusal,
};

/// How many letters one delta carries.
const PIECE: usize = 12;

struct Play {
    left: VecDeque<Value>,
    sent: usize,
    strike: Strike<ModelFault>,
    open: Open<ModelRequest>,
    request_id: String,
}

/// The body that streams a message.
pub fn body(
    message: &Value,
    strike: Strike<ModelFault>,
    open: Open<ModelRequest>,
    request_id: String,
) -> Body {
    let left = VecDeque::from(events(message));
    let play = Play { left, sent: 0, strike, open, request_id };
    Body::from_stream(stream::unfold(play, next))
}

async fn next(mut play: Play) -> Option<(io::Result<Bytes>, Play)> {
    if play.left.is_empty() {
        return None;
    }
    // Lets the server flush what was sent before, so that a cut comes after it and not instead.
    yield_now().await;
    let fault = play.strike.fault.clone();
    let sent = Some(play.sent);
    if let Some(delay) = fault.event_delay_ms {
        sleep(Duration::from_millis(delay)).await;
    }
    if fault.hold_after_events == sent {
        hold(&play.open, &mut play.strike).await;
    }
    if fault.silent_after_events == sent {
        pending::<()>().await;
    }
    if fault.cut_after_events == sent {
        play.fail();
        return Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), play));
    }
    if fault.end_after_events == sent {
        play.fail();
        return None;
    }
    if fault.error_after_events == sent {
        play.fail();
        let refusal = Refusal::scripted(529, fault.error_type, fault.error_code, None);
        return Some((Ok(written(&refusal.body(&play.request_id))), play));
    }
    let event = play.left.pop_front()?;
    play.sent += 1;
    if play.left.is_empty() {
        play.open.settle(Outcome::Answered, |request| request.status = Some(200));
    }
    Some((Ok(written(&event)), play))
}

impl Play {
    fn fail(&mut self) {
        self.left.clear();
        self.open.settle(Outcome::Failed, |request| request.status = Some(200));
    }
}

fn written(event: &Value) -> Bytes {
    let name = event["type"].as_str().unwrap_or("message");
    Bytes::from(format!("event: {name}\ndata: {event}\n\n"))
}

/// The events of a message, each named by its own type.
fn events(message: &Value) -> Vec<Value> {
    let mut start = message.clone();
    start["content"] = json!([]);
    for field in ["stop_reason", "stop_sequence", "stop_details"] {
        start[field] = Value::Null;
    }
    start["usage"]["output_tokens"] = json!(1);
    start["usage"]["server_tool_use"] = Value::Null;
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let (opening, deltas) = taken_apart(block);
        events
            .push(json!({"type": "content_block_start", "index": index, "content_block": opening}));
        if index == 0 {
            events.push(json!({"type": "ping"}));
        }
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let usage = &message["usage"];
    let mut total = json!({});
    for field in [
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "output_tokens_details",
    ] {
        total[field] = usage[field].clone();
    }
    if !usage["server_tool_use"].is_null() {
        total["server_tool_use"] = usage["server_tool_use"].clone();
    }
    let mut delta = json!({});
    for field in ["stop_reason", "stop_sequence", "stop_details", "container"] {
        delta[field] = message[field].clone();
    }
    events.push(json!({"type": "message_delta", "delta": delta, "usage": total}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// How a block begins, and the deltas that make it whole.
fn taken_apart(block: &Value) -> (Value, Vec<Value>) {
    let mut opening = block.clone();
    match block["type"].as_str() {
        Some("text") => {
            opening["text"] = json!("");
            let text = block["text"].as_str().unwrap_or("");
            let mut deltas: Vec<Value> = pieces(text)
                .into_iter()
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect();
            if let Some(citations) = block["citations"].as_array() {
                opening["citations"] = json!([]);
                deltas.extend(
                    citations
                        .iter()
                        .map(|citation| json!({"type": "citations_delta", "citation": citation})),
                );
            }
            (opening, deltas)
        }
        Some("server_tool_use") => {
            opening["input"] = json!({});
            let input = block["input"].to_string();
            let deltas = std::iter::once(String::new())
                .chain(pieces(&input))
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
            (opening, deltas.collect())
        }
        _ => (opening, Vec::new()),
    }
}

fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_add_up_to_the_message() {
        let text = "A text of several pieces, 也有中文。";
        let message = json!({
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 9},
        });
        let events = events(&message);
        let joined: String =
            events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
        assert_eq!(joined, text);
        let last = &events[events.len() - 2];
        assert_eq!(last["usage"]["output_tokens"], 9);
        assert_eq!(last["delta"]["stop_reason"], "end_turn");
        assert_eq!(events[0]["message"]["stop_reason"], Value::Null);
    }
}
