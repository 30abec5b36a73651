//! The Messages API: answers and counts, in the provider's wire format.
//! In come requests as a production client sends them; out go answers, as JSON or as a stream.
//! What an answer is made of, a batch gives out too, under the tier that is half the price.

use std::sync::Arc;

use axum::{
    Json,
    body::Bytes,
    extract::{State, rejection::BytesRejection},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::{
    Sandbox,
    cache::CacheUse,
    fault::{Door, ModelFault, Strike},
    new_id,
    receipt::{Arrival, Received},
    refusal::mark,
    reply::{self, Answer},
    request::{self, Asked, Purpose},
    stream,
};

/// `POST /v1/messages`
pub async fn create(
    State(sandbox): State<Arc<Sandbox>>,
    arrival: Arrival,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let mut received = Received::new(&sandbox, arrival, body);
    let body = received.body();
    let asked = match body.and_then(|body| request::check(&received.headers, body, Purpose::Answer))
    {
        Ok(asked) => asked,
        Err(refusal) => return received.refuse(refusal),
    };
    let strike = match received.endure(Door::Message, &reply::last_user_text(&asked.body)).await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let message = answer(&sandbox, &asked, strike.fault.stop_reason.as_deref(), "standard");
    if asked.stream && !strike.fault.lose_reply {
        let (request_id, reply_headers, open) = received.into_parts();
        let body = stream::body(message, strike, open, request_id.clone());
        let headers = [("content-type", "text/event-stream; charset=utf-8")];
        let quiet = [("cache-control", "no-cache")];
        let mut response = (headers, quiet, body).into_response();
        mark(&mut response, "request-id", &request_id);
        for (name, value) in &reply_headers {
            mark(&mut response, name, value);
        }
        return response;
    }
    whole(received, message, strike).await
}

/// Sends an answer in one piece; what would break a stream breaks the whole answer.
async fn whole(received: Received, message: Value, mut strike: Strike<ModelFault>) -> Response {
    if strike.fault.hold_after_events.is_some() {
        received.hold(&mut strike).await;
    }
    let fault = &strike.fault;
    if fault.silent_after_events.is_some() {
        std::future::pending::<()>().await;
    }
    if fault.cut_after_events.or(fault.end_after_events).is_some() || fault.lose_reply {
        return received.lose().await;
    }
    if fault.error_after_events.is_some() {
        return received.refuse(fault.refusal_with(529));
    }
    received.answer(Json(message).into_response())
}

/// `POST /v1/messages/count_tokens`
pub async fn count_tokens(
    State(sandbox): State<Arc<Sandbox>>,
    arrival: Arrival,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let mut received = Received::new(&sandbox, arrival, body);
    let body = received.body();
    let asked = match body.and_then(|body| request::check(&received.headers, body, Purpose::Count))
    {
        Ok(asked) => asked,
        Err(refusal) => return received.refuse(refusal),
    };
    let text = reply::last_user_text(&asked.body);
    match received.endure(Door::CountTokens, &text).await {
        Ok(strike) => {
            let counted = json!({"input_tokens": reply::prompt_tokens(&asked.body)});
            received.finish(Ok(counted), &strike).await
        }
        Err(refusal) => received.refuse(refusal),
    }
}

/// The message that answers a question, stopped for `reason` if one is scripted.
pub fn answer(sandbox: &Sandbox, asked: &Asked, reason: Option<&str>, tier: &str) -> Value {
    let settings = &sandbox.settings;
    let answer = reply::answer(asked, reason);
    let cached = sandbox.cache.touch(asked, settings.time(), settings.now().cache_min_tokens);
    message(asked, &answer, cached, tier)
}

fn message(asked: &Asked, answer: &Answer, cached: CacheUse, tier: &str) -> Value {
    let refused = json!({"type": "refusal", "category": null, "explanation": null});
    let geography = asked.body["inference_geo"].as_str().unwrap_or("global");
    let mut usage = json!({
        "input_tokens": answer.input_tokens - cached.total(),
        "output_tokens": answer.output_tokens,
        "cache_creation_input_tokens": cached.written_5m + cached.written_1h,
        "cache_read_input_tokens": cached.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": cached.written_5m,
            "ephemeral_1h_input_tokens": cached.written_1h,
        },
        "output_tokens_details": {"thinking_tokens": answer.thinking_tokens},
        "server_tool_use": null,
        "service_tier": tier,
        "inference_geo": geography,
        "speed": asked.body["speed"].as_str().unwrap_or("standard"),
    });
    if answer.searches > 0 {
        usage["server_tool_use"] =
            json!({"web_search_requests": answer.searches, "web_fetch_requests": 0});
    }
    json!({
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": asked.model.id,
        "content": answer.content,
        "stop_details": if answer.stop_reason == "refusal" { refused } else { Value::Null },
        "stop_reason": answer.stop_reason,
        "stop_sequence": answer.stop_sequence,
        "container": null,
        "diagnostics": null,
        "usage": usage,
    })
}
