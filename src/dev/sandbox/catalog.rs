//! The models the sandbox serves, and what each of them takes.
//! In comes a model id or alias; out goes its entry, also as the Models API shows it.
//! The ids are the real ones, so that a client's prices and limits apply to the answers.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use serde_json::{Value, json};

use super::{
    Sandbox,
    fault::Door,
    page::{Page, page},
    receipt::{Arrival, Received},
    refusal::Refusal,
};

/// One model of the provider.
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// The exact id, as answers name it.
    pub id: &'static str,
    /// The short id of a model whose exact id carries a date.
    pub alias: Option<&'static str>,
    line: &'static str,
    /// Major and minor version, which decide what requests may hold.
    pub version: (u8, u8),
    created_at: &'static str,
    max_input_tokens: u64,
    /// The most tokens one answer may have.
    pub max_tokens: u64,
    retires_at: Option<&'static str>,
}

const fn model(
    id: &'static str,
    line: &'static str,
    version: (u8, u8),
    created_at: &'static str,
) -> Model {
    let (alias, retires_at) = (None, None);
    let (max_input_tokens, max_tokens) = (1_000_000, 128_000);
    Model { id, alias, line, version, created_at, max_input_tokens, max_tokens, retires_at }
}

const fn dated(mut older: Model, alias: &'static str, retires_at: Option<&'static str>) -> Model {
    older.alias = Some(alias);
    older.retires_at = retires_at;
    older.max_input_tokens = 200_000;
    older.max_tokens = 64_000;
    older
}

/// Every model, newest first.
pub const MODELS: &[Model] = &[
    model("claude-fable-5-2", "fable", (5, 2), "2026-11-09T00:00:00Z"),
    model("claude-mythos-5-2", "mythos", (5, 2), "2026-11-09T00:00:00Z"),
    model("claude-haiku-5-5", "haiku", (5, 5), "2026-10-07T00:00:00Z"),
    model("claude-sonnet-5-5", "sonnet", (5, 5), "2026-09-28T00:00:00Z"),
    model("claude-opus-5-5", "opus", (5, 5), "2026-09-15T00:00:00Z"),
    model("claude-fable-5-1", "fable", (5, 1), "2026-09-01T00:00:00Z"),
    model("claude-mythos-5-1", "mythos", (5, 1), "2026-09-01T00:00:00Z"),
    model("claude-opus-5", "opus", (5, 0), "2026-07-24T00:00:00Z"),
    model("claude-fable-5", "fable", (5, 0), "2026-06-09T00:00:00Z"),
    model("claude-mythos-5", "mythos", (5, 0), "2026-06-09T00:00:00Z"),
    model("claude-sonnet-5", "sonnet", (5, 0), "2026-06-01T00:00:00Z"),
    model("claude-opus-4-8", "opus", (4, 8), "2026-05-01T00:00:00Z"),
    model("claude-opus-4-7", "opus", (4, 7), "2026-04-01T00:00:00Z"),
    model("claude-sonnet-4-6", "sonnet", (4, 6), "2026-02-17T00:00:00Z"),
    model("claude-opus-4-6", "opus", (4, 6), "2026-02-05T00:00:00Z"),
    dated(
        model("claude-opus-4-5-20251101", "opus", (4, 5), "2025-11-01T00:00:00Z"),
        "claude-opus-4-5",
        Some("2027-01-22T00:00:00Z"),
    ),
    dated(
        model("claude-haiku-4-5-20251001", "haiku", (4, 5), "2025-10-01T00:00:00Z"),
        "claude-haiku-4-5",
        None,
    ),
    dated(
        model("claude-sonnet-4-5-20250929", "sonnet", (4, 5), "2025-09-29T00:00:00Z"),
        "claude-sonnet-4-5",
        Some("2026-11-30T00:00:00Z"),
    ),
];

/// The model with this id or alias.
pub fn find_model(id: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.id == id || model.alias == Some(id))
}

impl Model {
    /// Whether sampling may still be steered with temperature, `top_p` and `top_k`.
    pub fn takes_sampling(&self) -> bool {
        self.version <= (4, 6)
    }

    /// Whether the last message may be the beginning of the answer.
    pub fn takes_prefill(&self) -> bool {
        self.version <= (4, 5)
    }

    /// Whether `inference_geo` may be chosen.
    pub fn takes_geography(&self) -> bool {
        self.version >= (4, 6)
    }

    /// Whether it has a fast mode.
    pub fn takes_speed(&self) -> bool {
        (self.line == "opus" && self.version >= (4, 8)) || self.version == (5, 2)
    }

    /// Whether `thinking` may be of this type.
    pub fn takes_thinking(&self, kind: &str) -> bool {
        let always_thinks =
            self.is_fable_or_mythos_5() || (self.version == (5, 5) && self.line != "haiku");
        match kind {
            "adaptive" => self.version >= (4, 6),
            "enabled" => self.version <= (4, 6),
            "disabled" => !always_thinks,
            "between_tools" => self.id == "claude-sonnet-5-5",
            _ => false,
        }
    }

    /// Whether it can be told how hard to try.
    pub fn takes_effort(&self) -> bool {
        self.version >= (4, 6)
    }

    /// Whether `tool_choice` may force a tool.
    pub fn takes_forced_tools(&self) -> bool {
        let is_newest = self.version == (5, 5) && self.line != "haiku";
        !(is_newest || self.is_fable_or_mythos_5() && self.version >= (5, 1))
    }

    fn is_fable_or_mythos_5(&self) -> bool {
        matches!(self.line, "fable" | "mythos") && self.version >= (5, 0)
    }

    fn display_name(&self) -> String {
        let (first, rest) = self.line.split_at(1);
        let line = first.to_uppercase() + rest;
        match self.version {
            (major, 0) => format!("Claude {line} {major}"),
            (major, minor) => format!("Claude {line} {major}.{minor}"),
        }
    }

    /// The model as the Models API shows it.
    pub fn shown(&self) -> Value {
        let can = |supported: bool| json!({"supported": supported});
        let types = ["adaptive", "enabled", "disabled", "between_tools"]
            .map(|kind| (kind.to_owned(), can(self.takes_thinking(kind))));
        let steps_up = self.takes_effort();
        json!({
            "type": "model",
            "id": self.id,
            "display_name": self.display_name(),
            "created_at": self.created_at,
            "lifecycle": if self.retires_at.is_some() { "deprecated" } else { "active" },
            "deprecated_at": self.retires_at.map(|_| "2026-11-23T00:00:00Z"),
            "retires_at": self.retires_at,
            "line": self.line,
            "max_input_tokens": self.max_input_tokens,
            "max_tokens": self.max_tokens,
            "capabilities": {
                "batch": can(true),
                "citations": can(false),
                "code_execution": can(false),
                "context_management": can(false),
                "effort": {
                    "supported": steps_up, "low": can(steps_up), "medium": can(steps_up),
                    "high": can(steps_up), "xhigh": can(steps_up), "max": can(steps_up),
                },
                "image_input": can(true),
                "pdf_input": can(true),
                "server_tools": {
                    "supported": true, "web_search": can(true), "code_execution": can(false),
                },
                "structured_outputs": can(true),
                "thinking": {
                    "supported": true,
                    "types": types.into_iter().collect::<serde_json::Map<_, _>>(),
                },
            },
        })
    }
}

/// `GET /v1/models`
pub async fn list(
    State(sandbox): State<Arc<Sandbox>>,
    arrival: Arrival,
    Query(query): Query<Page>,
) -> Response {
    let mut received = Received::bare(&sandbox, arrival);
    let strike = match received.enter(Door::Model, "").await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let shown = MODELS.iter().map(Model::shown);
    let wanted =
        |model: &Value| query.get("lifecycle").is_none_or(|one| model["lifecycle"] == *one);
    let page = page(shown.filter(wanted).collect(), &query);
    received.finish(page, &strike).await
}

/// `GET /v1/models/{id}`
pub async fn get(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    arrival: Arrival,
) -> Response {
    let mut received = Received::bare(&sandbox, arrival);
    let strike = match received.enter(Door::Model, &id).await {
        Ok(strike) => strike,
        Err(refusal) => return received.refuse(refusal),
    };
    let model = find_model(&id).ok_or_else(|| Refusal::not_found(format!("model: {id}")));
    received.finish(model.map(Model::shown), &strike).await
}
