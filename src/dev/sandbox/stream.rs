//! The streamed form of an answer: server-sent events in the provider's order.
//! In comes a finished message; out goes a body that sends it event by event.
//! Events that are due at once leave in one piece, as they would arrive from a provider in a hurry;
//! a fault can slow, hold, break or silence the answer after any number of events.
//! The journal has the request as answered only when the last event has been sent.

use std::{future::pending, io, iter, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::{task::yield_now, time::sleep};

use super::{
    fault::{ModelFault, Strike},
    journal::{Open, Outcome},
    receipt::{ModelRequest, hold},
};

/// How many letters one delta carries.
const PIECE: usize = 12;

struct Play {
    events: Events,
    sent: usize,
    strike: Strike<ModelFault>,
    open: Open<ModelRequest>,
    request_id: String,
    is_over: bool,
}

/// The events of a message as they are sent, and where each of them ends.
#[derive(Default)]
struct Events {
    text: Vec<u8>,
    ends: Vec<usize>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event<'m> {
    MessageStart { message: &'m Value },
    ContentBlockStart { index: usize, content_block: &'m Value },
    Ping,
    ContentBlockDelta { index: usize, delta: Delta<'m> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: &'m Value, usage: &'m Value },
    MessageStop,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'m> {
    #[serde(rename = "text_delta")]
    Text { text: &'m str },
    #[serde(rename = "citations_delta")]
    Citation { citation: &'m Value },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'m str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'m str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'m str },
}

/// The body that streams a message.
pub fn body(
    message: Value,
    strike: Strike<ModelFault>,
    open: Open<ModelRequest>,
    request_id: String,
) -> Body {
    let events = Events::of(message);
    let play = Play { events, sent: 0, strike, open, request_id, is_over: false };
    Body::from_stream(stream::unfold(play, next))
}

async fn next(mut play: Play) -> Option<(io::Result<Bytes>, Play)> {
    if play.is_over {
        return None;
    }
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
        // Lets the server flush what was sent before, so that the cut comes after it and not instead.
        yield_now().await;
        play.fail();
        return Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), play));
    }
    if fault.end_after_events == sent {
        play.fail();
        return None;
    }
    if fault.error_after_events == sent {
        play.fail();
        let refusal = fault.refusal_with(529);
        let error = format!("event: error\ndata: {}\n\n", refusal.body(&play.request_id));
        return Some((Ok(Bytes::from(error)), play));
    }
    let due = due(&fault, play.sent).min(play.events.ends.len());
    let chunk = play.events.chunk(play.sent, due);
    play.sent = due;
    if due == play.events.ends.len() {
        play.is_over = true;
        play.open.settle(Outcome::Answered, |request| request.status = Some(200));
    }
    Some((Ok(chunk), play))
}

/// How many events are to have been sent before something else happens than sending one.
fn due(fault: &ModelFault, sent: usize) -> usize {
    if fault.event_delay_ms.is_some() {
        return sent + 1;
    }
    let stops = [
        fault.hold_after_events,
        fault.silent_after_events,
        fault.cut_after_events,
        fault.end_after_events,
        fault.error_after_events,
    ];
    stops.into_iter().flatten().filter(|&stop| stop > sent).min().unwrap_or(usize::MAX)
}

impl Play {
    fn fail(&mut self) {
        self.is_over = true;
        self.open.settle(Outcome::Failed, |request| request.status = Some(200));
    }
}

impl Events {
    /// The events of a message, each named by its own type.
    fn of(mut message: Value) -> Self {
        let content = message["content"].take();
        let usage = message["usage"].clone();
        let fields = ["stop_reason", "stop_sequence", "stop_details", "container"];
        let mut delta = Map::new();
        for field in fields {
            delta.insert(field.to_owned(), message[field].take());
        }
        message["content"] = json!([]);
        message["usage"]["output_tokens"] = json!(1);
        message["usage"]["server_tool_use"] = Value::Null;
        let mut events = Self::default();
        events.push("message_start", &Event::MessageStart { message: &message });
        for (index, block) in content.as_array().into_iter().flatten().enumerate() {
            events.push_block(index, block);
        }
        let (delta, usage) = (Value::Object(delta), total(usage));
        events.push("message_delta", &Event::MessageDelta { delta: &delta, usage: &usage });
        events.push("message_stop", &Event::MessageStop);
        events
    }

    fn push(&mut self, name: &str, event: &Event<'_>) {
        self.text.extend_from_slice(b"event: ");
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\ndata: ");
        serde_json::to_writer(&mut self.text, event).expect("texts and JSON always serialise");
        self.text.extend_from_slice(b"\n\n");
        self.ends.push(self.text.len());
    }

    /// How a block begins, and the deltas that make it whole.
    fn push_block(&mut self, index: usize, block: &Value) {
        let mut opening = block.clone();
        let input = match block["type"].as_str() {
            Some("text") => {
                opening["text"] = json!("");
                if block["citations"].is_array() {
                    opening["citations"] = json!([]);
                }
                None
            }
            Some("thinking") => {
                opening["thinking"] = json!("");
                opening["signature"] = json!("");
                None
            }
            Some("server_tool_use") => {
                opening["input"] = json!({});
                Some(block["input"].to_string())
            }
            _ => None,
        };
        let content_block = &opening;
        self.push("content_block_start", &Event::ContentBlockStart { index, content_block });
        if index == 0 {
            self.push("ping", &Event::Ping);
        }
        let mut push = |delta| {
            self.push("content_block_delta", &Event::ContentBlockDelta { index, delta });
        };
        if block["type"] == "text" {
            let text = block["text"].as_str().unwrap_or("");
            pieces(text).for_each(|text| push(Delta::Text { text }));
            let citations = block["citations"].as_array().into_iter().flatten();
            citations.for_each(|citation| push(Delta::Citation { citation }));
        }
        if block["type"] == "thinking" {
            let text = |name: &str| block[name].as_str().unwrap_or("");
            pieces(text("thinking")).for_each(|thinking| push(Delta::Thinking { thinking }));
            push(Delta::Signature { signature: text("signature") });
        }
        if let Some(input) = input {
            let input = iter::once("").chain(pieces(&input));
            input.for_each(|partial_json| push(Delta::InputJson { partial_json }));
        }
        self.push("content_block_stop", &Event::ContentBlockStop { index });
    }

    /// What is sent between two numbers of events.
    fn chunk(&mut self, from: usize, to: usize) -> Bytes {
        let place = |events: usize| events.checked_sub(1).map_or(0, |last| self.ends[last]);
        let (from, to) = (place(from), place(to));
        if from == 0 && to == self.text.len() {
            return std::mem::take(&mut self.text).into();
        }
        Bytes::copy_from_slice(&self.text[from..to])
    }
}

/// The usage that the end of a stream tells.
fn total(mut usage: Value) -> Value {
    let mut total = Map::new();
    for field in [
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
        "output_tokens_details",
    ] {
        total.insert(field.to_owned(), usage[field].take());
    }
    if !usage["server_tool_use"].is_null() {
        total.insert("server_tool_use".to_owned(), usage["server_tool_use"].take());
    }
    Value::Object(total)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut left = text;
    iter::from_fn(move || {
        let end = left.char_indices().nth(PIECE).map_or(left.len(), |(end, _)| end);
        let (piece, rest) = left.split_at(end);
        left = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::StreamExt as _;

    use super::super::{
        fault::{Door, Faults},
        journal::Journal,
    };
    use super::*;

    fn message() -> Value {
        let page = json!({"type": "web_search_result_location", "url": "https://example.org/"});
        json!({
            "content": [
                {"type": "thinking", "thinking": "What is a picnic?", "signature": "c2ln"},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
                    "input": {"query": "picnics in May"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "text", "text": "A text of several pieces, 也有中文。", "citations": [page]},
            ],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 9},
        })
    }

    fn data(text: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(text).unwrap();
        let event = |block: &str| {
            let (name, data) = block.split_once("\ndata: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        };
        text.split_terminator("\n\n").map(event).collect()
    }

    /// The chunks in which the message is sent, as numbers of events; a break is none.
    async fn chunks(fault: Value) -> Vec<Option<usize>> {
        let faults = Faults::default();
        faults.replace(json!({"model": fault})).unwrap();
        let strike = faults.strike_model(Door::Message, "", chrono::DateTime::UNIX_EPOCH);
        let open = Arc::new(Journal::keeping(1)).open(ModelRequest::default());
        let body = body(message(), strike, open, "req_1".to_owned());
        let chunks = body.into_data_stream().map(|chunk| Some(data(&chunk.ok()?).len()));
        chunks.collect().await
    }

    #[test]
    fn the_events_add_up_to_the_message() {
        let events = data(&Events::of(message()).text);
        let joined = |field: &str| {
            events.iter().filter_map(|event| event["delta"][field].as_str()).collect::<String>()
        };
        assert_eq!(joined("thinking"), message()["content"][0]["thinking"]);
        assert_eq!(joined("signature"), message()["content"][0]["signature"]);
        assert_eq!(joined("text"), message()["content"][3]["text"]);
        assert_eq!(joined("partial_json"), message()["content"][1]["input"].to_string());
        let cited = events.iter().find(|event| event["delta"]["type"] == "citations_delta");
        assert_eq!(cited.unwrap()["delta"]["citation"], message()["content"][3]["citations"][0]);
        let last = &events[events.len() - 2];
        assert_eq!(last["usage"]["output_tokens"], 9);
        assert_eq!(last["delta"]["stop_reason"], "end_turn");
        assert_eq!(events[0]["message"]["stop_reason"], Value::Null);
        assert_eq!(events[0]["message"]["usage"]["output_tokens"], 1);
    }

    #[tokio::test]
    async fn what_is_due_at_once_leaves_in_one_piece_and_what_is_slowed_drips() {
        let all = Events::of(message()).ends.len();
        assert_eq!(chunks(json!({})).await, [Some(all)]);
        assert_eq!(chunks(json!({"event_delay_ms": 0})).await, vec![Some(1); all]);
        assert_eq!(chunks(json!({"cut_after_events": 4})).await, [Some(4), None]);
        assert_eq!(chunks(json!({"end_after_events": 4})).await, [Some(4)]);
        assert_eq!(chunks(json!({"error_after_events": 4})).await, [Some(4), Some(1)]);
        let two = json!({"error_after_events": 7, "cut_after_events": 9});
        assert_eq!(chunks(two).await, [Some(7), Some(1)]);
    }
}
