//! What is asked of the model: one request to the provider, before it is put into the provider's words.
//!
//! A call that the provider paused is continued by a new call that carries the paused answer unchanged;
//! one whose answer was cut off goes on by a new turn of the user that asks for the rest.
//! Prompts are private: the `Debug` forms show only sizes.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{ModelError, Reply};
use crate::domain::job::Reason;
use crate::domain::money::ServiceTier;
use crate::domain::submission::{Effort, TruncationPolicy, UserLocation};

/// How often one answer may be continued after it was paused or cut off.
pub const MAX_CONTINUATIONS: usize = 8;

/// Call is one request to the model.
#[derive(Clone)]
pub struct Call {
    /// The model's exact id.
    pub model: String,
    /// The most tokens the answer may have.
    pub max_tokens: u32,
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation; it ends with a turn of the user.
    pub turns: Vec<Turn>,
    /// Lets the model search the web.
    pub web_search: Option<WebSearch>,
    /// How long the whole answer may take.
    pub timeout: Duration,
    /// How long the answer may stand still.
    pub idle_timeout: Duration,
    /// How much the model thinks, if that is not left to the provider.
    pub effort: Option<Effort>,
    /// The form of the answer, a JSON schema.
    pub output_schema: Option<Box<RawValue>>,
    /// Where the model stops.
    pub stop_sequences: Vec<String>,
    /// What happens to an answer that is cut off.
    pub on_truncated: TruncationPolicy,
    /// Further fields of the request, as they were sent.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// Whether the provider is to keep the prompt for a call that is likely to follow soon.
    pub is_cached: bool,
    /// What there is of an answer that was cut off, which is to be gone on with.
    pub begun: Option<String>,
    /// What the model said before the provider paused it, as received; empty for a fresh call.
    pub paused_contents: Vec<Box<RawValue>>,
    /// How often the answer has been continued.
    pub continuations: usize,
    /// Whether it is asked in a batch.
    pub is_batched: bool,
}

/// What follows an answer.
#[derive(Debug)]
pub enum Then {
    /// Nothing: it is whole, or counts as such.
    Done,
    /// A call for the rest of it.
    GoOn(Box<Call>),
    /// It is no success.
    Fail(ModelError),
}

/// Turn is one message of the conversation.
#[derive(Clone)]
pub struct Turn {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub text: String,
}

/// Role is the author of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

/// `WebSearch` lets the model search the web; only one of the two lists may be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSearch {
    /// The most searches in this call.
    pub max_uses: u32,
    /// Search only these domains.
    pub allowed_domains: Vec<String>,
    /// Never search these domains.
    pub blocked_domains: Vec<String>,
    /// Where the one who asks is, roughly.
    pub user_location: Option<UserLocation>,
}

impl Call {
    /// What follows the reply to this call, with the text of the answer before it.
    pub fn then(&self, before: &str, reply: &Reply) -> Then {
        if reply.is_paused() {
            let message = "the provider paused the answer too often";
            return self.go_on(Reason::ModelStopped, message, |next| {
                next.paused_contents.push(reply.content.clone());
            });
        }
        if !reply.is_truncated() || self.on_truncated == TruncationPolicy::Accept {
            return Then::Done;
        }
        if reply.is_context_full() {
            let message = "the answer hit the model's context window";
            return Then::Fail(ModelError::stopped(Reason::ContextOverflow, message));
        }
        let is_to_go_on = self.on_truncated == TruncationPolicy::Continue;
        if !is_to_go_on || reply.text.trim().is_empty() {
            let message = "the answer hit max_tokens";
            return Then::Fail(ModelError::stopped(Reason::ModelTruncated, message));
        }
        let message = "the answer hit max_tokens too often";
        self.go_on(Reason::ModelTruncated, message, |next| {
            next.paused_contents.clear();
            next.begun = Some(format!("{before}{}", reply.text));
        })
    }

    /// How it is to be served, as far as its free fields say it.
    pub(super) fn tier(&self) -> ServiceTier {
        let says = |name: &str, value: &str| {
            self.extra.iter().any(|(other, raw)| other == name && raw.get() == value)
        };
        ServiceTier {
            batch: self.is_batched,
            fast: says("speed", "\"fast\""),
            us_geo: says("inference_geo", "\"us\""),
        }
    }

    fn go_on(&self, reason: Reason, too_often: &str, change: impl FnOnce(&mut Self)) -> Then {
        if self.continuations >= MAX_CONTINUATIONS {
            return Then::Fail(ModelError::stopped(reason, too_often));
        }
        let mut next = self.clone();
        next.continuations += 1;
        change(&mut next);
        Then::GoOn(Box::new(next))
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("model", &self.model)
            .field("max_tokens", &self.max_tokens)
            .field("turns", &self.turns)
            .field("web_search", &self.web_search)
            .field("continuations", &self.continuations)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} bytes)", self.role, self.text.len())
    }
}
