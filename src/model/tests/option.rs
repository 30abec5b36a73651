//! What a step may ask for besides its prompt, as it is sent, and what becomes of answers that were cut off.

use super::*;
use crate::domain::submission::{Effort, UserLocation};

#[tokio::test]
async fn what_becomes_of_a_cut_answer_is_the_steps_to_say() {
    for (stop_reason, policy, reason) in [
        ("max_tokens", TruncationPolicy::Fail, Some(Reason::ModelTruncated)),
        ("max_tokens", TruncationPolicy::Accept, None),
        ("model_context_window_exceeded", TruncationPolicy::Fail, Some(Reason::ContextOverflow)),
        ("model_context_window_exceeded", TruncationPolicy::Accept, None),
        (
            "model_context_window_exceeded",
            TruncationPolicy::Continue,
            Some(Reason::ContextOverflow),
        ),
    ] {
        let server = serve(move || streamed(Body::from(whole(stop_reason)))).await;
        let call = Call { on_truncated: policy, ..call() };
        let reply =
            model(server.address).ask(&call, &Partial::default()).await.expect("it is answered");
        assert_eq!((reply.text.as_str(), reply.stop_reason.as_str()), ("Hello", stop_reason));
        let found = match call.then("", &reply) {
            Then::Done => None,
            Then::Fail(error) => Some(error.reason),
            Then::GoOn(_) => panic!("nobody asked to go on"),
        };
        assert_eq!(found, reason, "{stop_reason} {policy:?}");
    }
}

#[tokio::test]
async fn a_cut_answer_goes_on_by_a_new_turn_of_the_user() {
    let mut server = serve(|| streamed(Body::from(whole("max_tokens")))).await;
    let model = model(server.address);
    let mut call = Call { on_truncated: TruncationPolicy::Continue, ..call() };
    let mut answer = None::<Reply>;
    for continuation in 0..=MAX_CONTINUATIONS {
        let reply = model.ask(&call, &Partial::default()).await.expect("it is answered");
        let sent = server.received.recv().await.expect("a request").body["messages"].clone();
        let texts: Vec<&str> = sent
            .as_array()
            .expect("a list")
            .iter()
            .map(|turn| turn["content"].as_str().expect("a text"))
            .collect();
        if continuation == 0 {
            assert_eq!(texts, ["Hi"]);
        } else {
            assert_eq!(texts[..2], ["Hi", &"Hello".repeat(continuation)]);
            assert!(texts[2].contains("Continue exactly where it ended"), "{}", texts[2]);
        }
        let before = answer.as_ref().map_or("", |begun| &begun.text);
        let then = call.then(before, &reply);
        let whole = match answer.take() {
            Some(begun) => begun.followed_by(reply.clone()),
            None => reply.clone(),
        };
        match then {
            Then::GoOn(next) => (call, answer) = (*next, Some(whole)),
            Then::Fail(error) => {
                assert_eq!(
                    (continuation, error.reason),
                    (MAX_CONTINUATIONS, Reason::ModelTruncated)
                );
            }
            Then::Done => panic!("it was cut"),
        }
    }
}

#[tokio::test]
async fn every_option_is_sent_in_the_providers_words() {
    let mut server = serve(|| streamed(Body::from(whole("end_turn")))).await;
    let raw =
        |text: &str| serde_json::value::RawValue::from_string(text.to_owned()).expect("it is JSON");
    let location = UserLocation { country: "PT".to_owned(), ..UserLocation::default() };
    let call = Call {
        effort: Some(Effort::Xhigh),
        output_schema: Some(raw(r#"{"type":"object","b":1,"a":12345678901234567890123}"#)),
        stop_sequences: vec!["END".to_owned()],
        extra: vec![("thinking".to_owned(), raw(r#"{"type":"adaptive"}"#))],
        is_cached: true,
        web_search: Some(WebSearch {
            max_uses: 1,
            allowed_domains: vec![],
            blocked_domains: vec![],
            user_location: Some(location),
        }),
        ..call()
    };
    model(server.address).ask(&call, &Partial::default()).await.expect("it is answered");
    let request = server.received.recv().await.expect("a request");
    let body = &request.body;
    assert_eq!(body["output_config"]["effort"], "xhigh");
    assert_eq!(body["output_config"]["format"]["type"], "json_schema");
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(body["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["tools"][0]["user_location"], json!({"type": "approximate", "country": "PT"}));
    let own = raw(r#"{"type":"ephemeral","ttl":"1h"}"#);
    let call = Call { extra: vec![("cache_control".to_owned(), own)], ..call };
    model(server.address).ask(&call, &Partial::default()).await.expect("it is answered");
    let body = server.received.recv().await.expect("a request").body;
    assert_eq!(body["cache_control"]["ttl"], "1h", "whoever says it knows better");
}
