//! The accumulator over streams built by hand: one for every way in which an answer can go.

use proptest::prelude::*;
use serde_json::json;

use super::super::Retry;
use super::super::reply::Seen;
use super::super::sse::SseDecoder;
use super::*;

fn event(data: &Value) -> SseEvent {
    let name = data["type"].as_str().expect("every event has a type").to_owned();
    SseEvent { name, data: data.to_string() }
}

fn start() -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    json!({"type": "message_start", "message": {"model": "claude-x", "content": [], "usage": usage}})
}

fn begin(index: u32, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(index: u32) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn stop(stop_reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 5}})
}

fn ended() -> Value {
    json!({"type": "message_stop"})
}

fn text(index: u32, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![begin(index, &json!({"type": "text", "text": ""}))];
    events.extend(
        pieces.iter().map(|piece| delta(index, &json!({"type": "text_delta", "text": piece}))),
    );
    events.push(end(index));
    events
}

fn whole(middle: Vec<Value>, stop_reason: &str) -> Vec<Value> {
    [vec![start()], middle, vec![stop(stop_reason), ended()]].concat()
}

/// What a stream of these events comes to, and what was shown of it on the way.
fn heard(events: &[Value]) -> (Result<Reply, ModelError>, Seen) {
    let partial = Partial::default();
    let mut accumulator = Accumulator::new(partial.clone(), Some("req_1".to_owned()));
    let result = events.iter().try_for_each(|data| accumulator.hear(&event(data)).map(|_| ()));
    let result = match result {
        Ok(()) => accumulator.finish(),
        Err(error) => Err(accumulator.explained(error)),
    };
    (result, partial.seen())
}

fn reply(events: &[Value]) -> Reply {
    heard(events).0.expect("the answer is a success")
}

fn error(events: &[Value]) -> ModelError {
    heard(events).0.expect_err("the answer is no success")
}

fn content(reply: &Reply) -> Value {
    serde_json::from_str(reply.content.get()).expect("content is JSON")
}

#[test]
fn an_answer_is_put_together() {
    let events = whole([text(0, &["Hel", "lo"]), text(1, &[", you"])].concat(), "end_turn");
    let (result, seen) = heard(&events);
    let reply = result.unwrap();
    assert_eq!(reply.text, "Hello, you");
    assert_eq!(seen.text, reply.text);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (10, 5));
    assert_eq!(seen.usage, Some(reply.usage));
    assert_eq!((reply.model.as_str(), reply.stop_reason.as_str()), ("claude-x", "end_turn"));
    assert_eq!((reply.request_id.as_deref(), reply.calls), (Some("req_1"), 1));
    assert!(!reply.ended_early);
    let blocks = json!([{"type": "text", "text": "Hello"}, {"type": "text", "text": ", you"}]);
    assert_eq!(content(&reply), blocks);
}

#[test]
fn an_empty_answer_is_a_success() {
    let empty = reply(&whole(vec![], "end_turn"));
    assert_eq!((empty.text.as_str(), empty.content.get()), ("", "[]"));
    assert_eq!(reply(&whole(text(0, &[]), "stop_sequence")).text, "");
}

#[test]
fn every_stop_reason_has_its_own_end() {
    for (stop_reason, reason) in [
        ("tool_use", Reason::ModelStopped),
        ("a_new_reason", Reason::ModelStopped),
        ("refusal", Reason::ModelRefused),
    ] {
        let error = error(&whole(text(0, &["secret"]), stop_reason));
        assert_eq!((error.reason, error.retry), (reason, Retry::Never), "{stop_reason}");
        assert_eq!(error.usage.expect("usage was told").output_tokens, 5);
        assert_eq!(error.request_id.as_deref(), Some("req_1"));
        assert!(!error.message.contains("secret"));
    }
    assert!(reply(&whole(text(0, &["x"]), "pause_turn")).is_paused());
}

#[test]
fn a_refusal_names_its_category_and_costs_nothing_before_any_output() {
    let details = json!({"type": "refusal", "category": "bio", "explanation": "no"});
    let refused = json!({"type": "message_delta", "usage": {"output_tokens": 3},
        "delta": {"stop_reason": "refusal", "stop_details": details}});
    let (result, seen) = heard(&[start(), refused.clone(), ended()]);
    let before = result.expect_err("it is refused");
    assert_eq!(before.to_string(), "the model declined to answer (bio): no");
    assert_eq!((before.usage, seen.usage), (Some(Usage::default()), Some(Usage::default())));
    let late = error(&[vec![start()], text(0, &["x"]), vec![refused, ended()]].concat());
    assert_eq!(late.usage.expect("it is billed").output_tokens, 3);
}

#[test]
fn a_stream_that_ends_too_soon_is_no_success() {
    let all = whole(text(0, &["x"]), "end_turn");
    for length in 0..all.len() - 2 {
        let error = error(&all[..length]);
        assert_eq!(error.retry, Retry::Backoff, "cut after {length} events");
        assert_eq!(error.reason, Reason::ProviderUnavailable);
        assert_eq!(error.usage.is_some(), length > 0);
    }
    let open_block = [start(), begin(0, &json!({"type": "text", "text": ""})), stop("end_turn")];
    assert_eq!(error(&open_block).retry, Retry::Backoff);
    let no_reason = [vec![start()], text(0, &["x"]), vec![ended()]].concat();
    assert_eq!(error(&no_reason).retry, Retry::Backoff);
    assert_eq!(error(&[stop("end_turn"), ended()]).retry, Retry::Backoff);
}

#[test]
fn a_stream_cut_after_its_stop_reason_is_whole_and_marked() {
    let mut events = whole(text(0, &["x"]), "end_turn");
    events.pop();
    let reply = reply(&events);
    assert_eq!(reply.text, "x");
    assert!(reply.ended_early);
}

#[test]
fn what_is_unknown_is_passed_over_and_unknown_blocks_are_kept() {
    let unknown =
        json!({"type": "a_new_block", "text": "no text", "list": [1, {"z": null, "a": 0.1}]});
    let middle = vec![
        json!({"type": "ping"}),
        json!({"type": "a_new_event", "index": 9}),
        begin(0, &unknown),
        delta(0, &json!({"type": "a_new_delta", "text": {"words": "x"}})),
        end(0),
        json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": null}),
    ];
    let reply = reply(&whole([middle, text(1, &["y"])].concat(), "end_turn"));
    assert_eq!(reply.text, "y");
    assert_eq!(content(&reply)[0], unknown);
}

#[test]
fn blocks_stay_as_they_came_but_for_what_grew() {
    let started = r#"{ "zeta": 1.10, "type":"thinking","thinking":"", "signature":"", "big":123456789012345678901234567890 }"#;
    let result = r#"{"type":"web_search_tool_result", "z":1e400,"content":[ {"encrypted_content":"a\/b"} ]}"#;
    let start_of = |index: u32, block: &str| SseEvent {
        name: "content_block_start".to_owned(),
        data: format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#
        ),
    };
    let mut accumulator = Accumulator::new(Partial::default(), None);
    let thinking = json!({"type": "thinking_delta", "thinking": "hm"});
    let signature = json!({"type": "signature_delta", "signature": "c2ln"});
    for event in [
        event(&start()),
        start_of(0, started),
        event(&delta(0, &thinking)),
        event(&delta(0, &signature)),
        event(&end(0)),
        start_of(1, result),
        event(&end(1)),
        event(&stop("end_turn")),
        event(&ended()),
    ] {
        accumulator.hear(&event).unwrap();
    }
    let reply = accumulator.finish().unwrap();
    assert_eq!(reply.text, "");
    let grown = r#"{"zeta":1.10,"type":"thinking","thinking":"hm","signature":"c2ln","big":123456789012345678901234567890}"#;
    assert_eq!(reply.content.get(), format!("[{grown},{result}]"));
}

#[test]
fn a_search_is_put_together_with_its_citations() {
    let tool =
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let piece = |json: &str| delta(0, &json!({"type": "input_json_delta", "partial_json": json}));
    let cite = |url: &str, passage: &str| {
        let citation = json!({"type": "web_search_result_location", "url": url, "title": null,
            "encrypted_index": "e", "cited_text": passage});
        delta(1, &json!({"type": "citations_delta", "citation": citation}))
    };
    let document = json!({"type": "char_location", "document_index": 0, "cited_text": "d"});
    let middle = vec![
        begin(0, &tool),
        piece(""),
        piece(r#"{"query":"#),
        piece(r#""rust"}"#),
        end(0),
        begin(1, &json!({"type": "text", "text": "", "citations": null})),
        cite("https://a.example", "one"),
        cite("https://a.example", "one"),
        cite("https://a.example", "t\u{0}wo"),
        delta(1, &json!({"type": "citations_delta", "citation": document})),
        delta(1, &json!({"type": "text_delta", "text": "so"})),
        end(1),
    ];
    let usage = json!({"output_tokens": 9, "input_tokens": 70, "server_tool_use": {"web_search_requests": 1}});
    let last =
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let reply = reply(&[vec![start()], middle, vec![last, ended()]].concat());
    assert_eq!(content(&reply)[0]["input"], json!({"query": "rust"}));
    assert_eq!(content(&reply)[1]["citations"].as_array().expect("a list").len(), 4);
    let passages: Vec<&str> = reply.citations.iter().map(|it| it.cited_text.as_str()).collect();
    assert_eq!(passages, ["one", "t\u{fffd}wo"]);
    assert_eq!((reply.usage.input_tokens, reply.usage.web_searches), (70, 1));
}

#[test]
fn a_tool_input_that_is_no_json_is_an_error_of_the_provider() {
    let middle = vec![
        begin(0, &json!({"type": "server_tool_use", "input": {}})),
        delta(0, &json!({"type": "input_json_delta", "partial_json": "{\"query"})),
        end(0),
    ];
    assert_eq!(error(&whole(middle.clone(), "pause_turn")).retry, Retry::Backoff);
    // A cut goes through the last block.
    let cut = reply(&whole(middle, "max_tokens"));
    assert_eq!((cut.content.get(), cut.is_truncated()), ("[]", true));
}

#[test]
fn an_error_in_the_middle_keeps_what_was_seen() {
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}});
    let events = [vec![start()], text(0, &["half"]), vec![overloaded]].concat();
    let (result, seen) = heard(&events);
    let error = result.expect_err("it is an error");
    assert_eq!((error.reason, error.retry), (Reason::ProviderUnavailable, Retry::Backoff));
    assert_eq!(error.usage, seen.usage);
    assert_eq!((seen.text.as_str(), seen.model.as_deref()), ("half", Some("claude-x")));
}

#[test]
fn parts_out_of_order_and_broken_json_are_errors_that_tell_no_text() {
    let piece = delta(0, &json!({"type": "text_delta", "text": "x"}));
    let block = begin(0, &json!({"type": "text", "text": ""}));
    for events in [
        vec![start(), piece.clone()],
        vec![start(), end(0)],
        vec![start(), block.clone(), block.clone()],
        vec![start(), block, end(0), piece],
        vec![start(), begin(0, &json!("private"))],
        vec![json!({"type": "message_start", "message": {"model": {"private": 1}}})],
    ] {
        let error = error(&events);
        assert_eq!(error.retry, Retry::Backoff);
        assert!(!error.message.contains("private"), "{}", error.message);
    }
}

#[test]
fn text_never_holds_a_nul() {
    let (result, seen) = heard(&whole(text(0, &["a\u{0}", "\u{0}b"]), "end_turn"));
    let reply = result.unwrap();
    assert_eq!(reply.text, "a\u{fffd}\u{fffd}b");
    assert_eq!(seen.text, reply.text);
}

#[test]
fn events_without_a_name_are_known_by_their_type() {
    let mut accumulator = Accumulator::new(Partial::default(), None);
    for data in whole(text(0, &["x"]), "end_turn") {
        let unnamed = SseEvent { name: String::new(), data: data.to_string() };
        accumulator.hear(&unnamed).unwrap();
    }
    assert_eq!(accumulator.finish().unwrap().text, "x");
}

#[test]
fn an_event_without_a_name_that_cannot_be_read_may_have_held_a_piece_of_the_answer() {
    let mut accumulator = Accumulator::new(Partial::default(), None);
    let mut hear = |data: &str| {
        let heard = accumulator.hear(&SseEvent { name: String::new(), data: data.to_owned() });
        heard.map_err(|error| error.retry)
    };
    assert_eq!(hear("{\"type\":\"content_block_del"), Err(Retry::Backoff));
    for harmless in ["{}", "{\"type\":\"a_new_one\"}", "[DONE]"] {
        assert_eq!(hear(harmless), Ok(Heard::Nothing), "{harmless}");
    }
}

#[test]
fn only_events_of_the_answer_are_progress() {
    let mut accumulator = Accumulator::new(Partial::default(), None);
    let mut hear = |data: Value| accumulator.hear(&event(&data)).unwrap();
    assert_eq!(hear(start()), Heard::Progress);
    assert_eq!(hear(json!({"type": "ping"})), Heard::Nothing);
    assert_eq!(hear(json!({"type": "a_new_event"})), Heard::Nothing);
    assert_eq!(hear(stop("end_turn")), Heard::Progress);
    assert_eq!(hear(ended()), Heard::End);
}

#[test]
fn a_continued_answer_is_one_answer() {
    let first = reply(&whole(text(0, &["one, "]), "pause_turn"));
    let second = reply(&whole(text(0, &["two"]), "end_turn"));
    let both = first.followed_by(second);
    assert_eq!((both.text.as_str(), both.calls), ("one, two", 2));
    assert_eq!((both.usage.input_tokens, both.usage.output_tokens), (20, 10));
    assert_eq!(both.stop_reason, "end_turn");
    assert_eq!(content(&both).as_array().expect("a list").len(), 2);
}

#[test]
fn debug_forms_hold_no_answer() {
    let (result, seen) = heard(&whole(text(0, &["private"]), "end_turn"));
    assert!(!format!("{:?} {seen:?}", result.unwrap()).contains("private"));
}

proptest! {
    #[test]
    fn any_chunking_of_the_bytes_gives_the_same_reply(
        pieces in prop::collection::vec("[a-zé日\u{1f600}\n\r\"\\\\]{0,8}", 0..6),
        sizes in prop::collection::vec(1_usize..40, 1..20),
    ) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let events = whole(text(0, &pieces), "end_turn");
        let named = |data: &Value| format!("event: {}\r\ndata: {data}\r\n\r\n", event(data).name);
        let bytes = events.iter().map(named).collect::<String>().into_bytes();
        let mut decoder = SseDecoder::default();
        let mut accumulator = Accumulator::new(Partial::default(), None);
        let (mut rest, mut sizes) = (bytes.as_slice(), sizes.iter().cycle());
        while !rest.is_empty() {
            let size = (*sizes.next().expect("a cycle has no end")).min(rest.len());
            decoder.push(&rest[..size]).expect("it is short");
            while let Some(event) = decoder.take() {
                accumulator.hear(event).expect("every event is right");
            }
            rest = &rest[size..];
        }
        let chunked = accumulator.finish().expect("it is a success");
        let direct = reply(&events);
        prop_assert_eq!(&chunked.text, &pieces.concat());
        prop_assert_eq!(chunked.content.get(), direct.content.get());
        prop_assert_eq!(chunked.usage, direct.usage);
    }
}

#[test]
fn a_partial_answer_goes_on_from_what_there_was_and_tells_where_it_is_asked_from() {
    let sender = tokio::sync::watch::Sender::default();
    let news = sender.subscribe();
    let partial = Partial::begun("Übers ".to_owned(), sender);
    partial.update(|seen| seen.text.push_str("Meer 海"));
    assert!(news.has_changed().expect("it lasts as long as the answer"));
    assert_eq!((partial.begun_len(), partial.char_count()), (7, 12));
    assert_eq!(partial.text_after(7, 4), "Meer");
    assert_eq!(partial.text_after(12, 9), "海");
    // Neither beyond the end nor within a character is there any.
    assert_eq!(
        (partial.text_after(99, 1), partial.text_after(1, 1)),
        (String::new(), String::new())
    );
}
