//! What is asked of the model: one request to the provider, before it is put into the provider's words.
//!
//! A call that the provider paused is continued by a new call that carries the paused answer unchanged.
//! Prompts are private: the `Debug` forms show only sizes.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::Reply;

/// How often one answer may be continued after the provider paused it.
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
    /// What the model said before the provider paused it, as received; empty for a fresh call.
    pub paused_contents: Vec<Box<RawValue>>,
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
}

impl Call {
    /// The call that goes on where a reply was paused, or `None` if it was not, or has been too often.
    pub fn continued(&self, reply: &Reply) -> Option<Self> {
        if !reply.is_paused() || self.paused_contents.len() >= MAX_CONTINUATIONS {
            return None;
        }
        let mut next = self.clone();
        next.paused_contents.push(reply.content.clone());
        Some(next)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("model", &self.model)
            .field("max_tokens", &self.max_tokens)
            .field("turns", &self.turns)
            .field("web_search", &self.web_search)
            .field("continuations", &self.paused_contents.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} bytes)", self.role, self.text.len())
    }
}
