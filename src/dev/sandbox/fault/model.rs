//! What can go wrong with a request to the Messages API, or with one request of a batch.
//! In comes a fault as it was scripted; out go the error it answers with and the headers of that.
//! A fault strikes the doors it is meant for, which is `POST /v1/messages` unless it names another.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::super::refusal::Refusal;
use super::rate::Rate;

/// Where requests to the Messages API come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// `POST /v1/messages`
    #[default]
    Message,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `GET /v1/models` and `GET /v1/models/{id}`
    Model,
    /// `POST /v1/messages/batches`
    BatchCreate,
    /// `GET /v1/messages/batches/{id}`
    BatchGet,
    /// `GET /v1/messages/batches`
    BatchList,
    /// `GET /v1/messages/batches/{id}/results`
    BatchResults,
    /// `POST /v1/messages/batches/{id}/cancel`
    BatchCancel,
    /// `DELETE /v1/messages/batches/{id}`
    BatchDelete,
    /// One request of a batch: it is struck when the batch is created, and seen in the results.
    BatchRequest,
}

/// Headers of an answer, by name and value.
pub type Headers = Vec<(String, String)>;

/// What goes wrong with a request to the Messages API; everything left out goes well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "they are words of a script, not states")]
pub struct ModelFault {
    /// Which requests it strikes.
    pub on: Door,
    /// Wait this long before the first byte of the answer.
    pub delay_ms: Option<u64>,
    /// Wait before the first byte until the section is changed.
    pub hold: bool,
    /// Answer with this error status.
    pub status: Option<u16>,
    /// The error's type; by default the one that belongs to the status.
    pub error_type: Option<String>,
    /// The error's message; by default the one that belongs to the status.
    pub error_message: Option<String>,
    /// The error's `details.error_code`.
    pub error_code: Option<String>,
    /// The error's `retry-after` header.
    pub retry_after_seconds: Option<u64>,
    /// The error's `retry-after-ms` header.
    pub retry_after_ms: Option<u64>,
    /// The error's `retry-after` header, as the date that is so many seconds away.
    pub retry_after_date_seconds: Option<i64>,
    /// The error's `x-should-retry` header.
    pub should_retry: Option<bool>,
    /// More headers of the answer, be it an error or not.
    pub headers: BTreeMap<String, String>,
    /// How many more requests this strikes; without it, all.
    pub times: Option<u64>,
    /// Strike only what is beyond so many requests let through in a second; 429 if no status is given.
    pub per_second: Option<u32>,
    /// Strike while more requests than this came in the last second, let through or not; 529 if no
    /// status is given.
    pub until_per_second: Option<u32>,
    /// Strike only requests whose last user text has this in it, or whose `custom_id` in a batch, or
    /// which name a batch or model whose id has.
    pub matching: Option<String>,
    /// Do what was asked, but cut the connection instead of answering.
    pub lose_reply: bool,
    /// Wait this long before each event of a stream.
    pub event_delay_ms: Option<u64>,
    /// Wait after this many events until the section is changed.
    pub hold_after_events: Option<usize>,
    /// Cut the connection after this many events.
    pub cut_after_events: Option<usize>,
    /// End the stream in good order, but too early, after this many events.
    pub end_after_events: Option<usize>,
    /// Send an `error` event after this many events, and end.
    pub error_after_events: Option<usize>,
    /// Send nothing more after this many events, and keep the connection open.
    pub silent_after_events: Option<usize>,
    /// Stop for this reason instead of the natural one.
    pub stop_reason: Option<String>,
    /// How long the batch takes to end, once it is created or its cancelling begins.
    pub batch_ms: Option<u64>,
    /// The batch does not end until the section is changed.
    pub batch_hold: bool,
    /// So many of the batch's requests are done early: cancelling comes too late for them.
    pub batch_done: usize,
    /// So many looks at the batch, or at its results, do not find it.
    pub batch_unseen: u32,
    /// This request of a batch expires.
    pub expire: bool,
    #[serde(skip)]
    pub(super) rate: Rate,
}

impl ModelFault {
    /// What is wrong with the fault itself.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, value) in &self.headers {
            HeaderName::try_from(name).map_err(|error| format!("header {name}: {error}"))?;
            HeaderValue::from_str(value).map_err(|error| format!("header {name}: {error}"))?;
        }
        let doors: &[(bool, &str, &[Door])] = &[
            (self.breaks_stream(), "what happens after events", &[Door::Message]),
            (self.stop_reason.is_some(), "stop_reason", &[Door::Message, Door::BatchRequest]),
            (
                self.batch_ms.is_some() || self.batch_hold,
                "batch_ms and batch_hold",
                &[Door::BatchCreate, Door::BatchCancel],
            ),
            (
                self.batch_done > 0 || self.batch_unseen > 0,
                "batch_done and batch_unseen",
                &[Door::BatchCreate],
            ),
            (self.expire, "expire", &[Door::BatchRequest]),
        ];
        let astray = doors.iter().find(|(used, _, doors)| *used && !doors.contains(&self.on));
        if let Some((_, what, doors)) = astray {
            let doors = serde_json::to_string(doors).unwrap_or_default();
            return Err(format!("{what}: set \"on\" to one of {doors}"));
        }
        let waits = self.hold || self.delay_ms.is_some() || self.lose_reply;
        if self.on == Door::BatchRequest && waits {
            return Err("a batch_request has no answer of its own to delay or lose".to_owned());
        }
        Ok(())
    }

    fn breaks_stream(&self) -> bool {
        let counts = [
            self.hold_after_events,
            self.cut_after_events,
            self.end_after_events,
            self.error_after_events,
            self.silent_after_events,
        ];
        self.event_delay_ms.is_some() || counts.iter().any(Option::is_some)
    }

    /// The error it answers with, if it does.
    pub fn refusal(&self) -> Option<Refusal> {
        self.status.map(|status| self.refusal_with(status))
    }

    /// The error it answers with, under this status.
    pub fn refusal_with(&self, status: u16) -> Refusal {
        let Self { error_type, error_message, error_code, .. } = self.clone();
        Refusal::scripted(status, error_type, error_message, error_code)
    }

    /// The headers of its answer; `now` is what a date is counted from.
    pub fn reply_headers(&self, now: DateTime<Utc>) -> Headers {
        let date = |seconds| {
            let date = now + TimeDelta::seconds(seconds);
            date.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
        };
        let wait = self.retry_after_date_seconds.map(date);
        let wait = wait.or_else(|| self.retry_after_seconds.map(|seconds| seconds.to_string()));
        let own = [
            ("retry-after", wait),
            ("retry-after-ms", self.retry_after_ms.map(|ms| ms.to_string())),
            ("x-should-retry", self.should_retry.map(|retry| retry.to_string())),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        own.filter(|_| self.status.is_some()).chain(self.headers.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(fault: serde_json::Value) -> ModelFault {
        serde_json::from_value(fault).unwrap()
    }

    #[test]
    fn the_headers_of_an_error_say_when_to_come_back() {
        let now = DateTime::parse_from_rfc3339("2026-11-30T08:00:00Z").unwrap().to_utc();
        let headers = |script| fault(script).reply_headers(now);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let script = json!({"status": 429, "retry_after_date_seconds": 90, "retry_after_ms": 5,
            "should_retry": false, "headers": {"anthropic-ratelimit-tokens-remaining": "0"}});
        assert_eq!(
            headers(script),
            [
                pair("retry-after", "Mon, 30 Nov 2026 08:01:30 GMT"),
                pair("retry-after-ms", "5"),
                pair("x-should-retry", "false"),
                pair("anthropic-ratelimit-tokens-remaining", "0"),
            ]
        );
        assert_eq!(headers(json!({"headers": {"a": "b"}, "retry_after_ms": 5})), [pair("a", "b")]);
    }

    #[test]
    fn what_belongs_to_another_door_is_refused() {
        for script in [
            json!({"batch_ms": 5}),
            json!({"batch_hold": true, "on": "batch_get"}),
            json!({"batch_done": 1, "on": "batch_cancel"}),
            json!({"expire": true, "on": "batch_create"}),
            json!({"headers": {"a b": "c"}}),
            json!({"cut_after_events": 1, "on": "batch_get"}),
            json!({"stop_reason": "refusal", "on": "model"}),
            json!({"hold": true, "on": "batch_request"}),
        ] {
            assert!(fault(script.clone()).check().is_err(), "{script}");
        }
        fault(json!({"batch_ms": 5, "batch_unseen": 2, "on": "batch_create"})).check().unwrap();
    }
}
