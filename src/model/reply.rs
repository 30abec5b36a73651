//! What the model answered: the whole of it, and what was seen of it on the way.
//!
//! A reply keeps the content twice: as plain text for people, and as the blocks the provider sent,
//! unknown fields and all, because a paused answer must be handed back unchanged.
//! Answers are private: the `Debug` forms leave them out.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;

use crate::domain::job::Citation;
use crate::domain::money::{ServiceTier, Usage};

/// Reply is a whole answer of the model.
#[derive(Clone)]
pub struct Reply {
    /// The text of the answer; U+0000 is replaced, for Postgres cannot hold it.
    pub text: String,
    /// The content blocks as received: a JSON array.
    pub content: Box<RawValue>,
    /// The web pages it cites, each passage once.
    pub citations: Vec<Citation>,
    /// What it used.
    pub usage: Usage,
    /// How it was served.
    pub tier: ServiceTier,
    /// The model that answered, in the provider's word.
    pub model: String,
    /// Why it ended: `end_turn`, `stop_sequence`, `pause_turn`, or a word of an answer that was cut off.
    pub stop_reason: String,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The stream broke off after all the content had come.
    pub ended_early: bool,
    /// How many requests it took.
    pub calls: u32,
}

impl Reply {
    /// What there is of an answer whose call is over and did not tell its end, as a reply that the rest of it follows.
    ///
    /// Its content is that text as one block, and it took nothing: what its call used is told with that call.
    pub fn begun(text: String, model: &str) -> Self {
        let block = serde_json::json!([{"type": "text", "text": text}]);
        Self {
            content: to_raw_value(&block).expect("a text always serialises"),
            text,
            citations: Vec::new(),
            usage: Usage::default(),
            tier: ServiceTier::default(),
            model: model.to_owned(),
            stop_reason: String::new(),
            request_id: None,
            ended_early: false,
            calls: 0,
        }
    }

    /// Whether the provider wants the answer continued by another call.
    pub fn is_paused(&self) -> bool {
        self.stop_reason == "pause_turn"
    }

    /// Whether the answer was cut off.
    pub fn is_truncated(&self) -> bool {
        self.stop_reason == "max_tokens" || self.is_context_full()
    }

    /// Whether it was cut off because the model's context window was full.
    pub fn is_context_full(&self) -> bool {
        self.stop_reason == "model_context_window_exceeded"
    }

    /// The whole answer so far, where there was the beginning of one before this reply or none.
    #[must_use]
    pub fn after(self, begun: Option<Self>) -> Self {
        match begun {
            Some(begun) => begun.followed_by(self),
            None => self,
        }
    }

    /// The answer that this reply, paused or cut off, and the one that continues it make together.
    ///
    /// Usage is summed, so each of the two must be priced before.
    #[must_use]
    pub fn followed_by(self, next: Self) -> Self {
        let mut citations = self.citations;
        for citation in next.citations {
            if !citations.contains(&citation) {
                citations.push(citation);
            }
        }
        Self {
            text: self.text + &next.text,
            content: concatenated(&self.content, &next.content),
            citations,
            usage: self.usage + next.usage,
            ended_early: self.ended_early || next.ended_early,
            calls: self.calls.saturating_add(next.calls),
            ..next
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("model", &self.model)
            .field("stop_reason", &self.stop_reason)
            .field("usage", &self.usage)
            .field("tier", &self.tier)
            .field("request_id", &self.request_id)
            .field("ended_early", &self.ended_early)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// Partial shares what has been seen of an answer with the one who waits for it.
///
/// Make a new one for each call. It stays readable after the call has failed or was dropped.
#[derive(Clone, Default)]
pub struct Partial {
    seen: Arc<Mutex<Seen>>,
    news: watch::Sender<()>,
    begun_len: usize,
}

/// Seen is what has come of an answer so far.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The text so far, with what there was of the answer before the call.
    pub text: String,
    /// What the provider will bill at least; `None` before it has said anything.
    pub usage: Option<Usage>,
    /// How the call is served.
    pub tier: ServiceTier,
    /// The model that answers, in the provider's word.
    pub model: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
}

impl Partial {
    /// An answer that goes on from a text; whoever listens to the news is told of each change.
    pub fn begun(text: String, news: watch::Sender<()>) -> Self {
        let begun_len = text.len();
        let seen = Seen { text, ..Seen::default() };
        Self { seen: Arc::new(Mutex::new(seen)), news, begun_len }
    }

    /// How many bytes of the text were there before the call.
    pub fn begun_len(&self) -> usize {
        self.begun_len
    }

    /// What has been seen so far.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// How many bytes the text has so far.
    pub fn text_len(&self) -> usize {
        self.lock().text.len()
    }

    /// How many characters the text has so far.
    pub fn char_count(&self) -> usize {
        self.lock().text.chars().count()
    }

    /// The text after so many bytes, up to so many characters of it.
    pub fn text_after(&self, bytes: usize, chars_max: usize) -> String {
        let seen = self.lock();
        let rest = seen.text.get(bytes..).unwrap_or_default();
        let end = rest.char_indices().nth(chars_max).map_or(rest.len(), |(end, _)| end);
        rest[..end].to_owned()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
        self.news.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // What was seen stays true even if another holder of the lock panicked.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen")
            .field("usage", &self.usage)
            .field("tier", &self.tier)
            .field("model", &self.model)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.lock(), f)
    }
}

/// The text without U+0000, which Postgres cannot hold.
pub(super) fn without_nul(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    push_without_nul(&mut whole, text);
    whole
}

/// Adds a text, without U+0000, to the end of another.
pub(super) fn push_without_nul(whole: &mut String, text: &str) {
    for (number, part) in text.split('\0').enumerate() {
        if number > 0 {
            whole.push('\u{fffd}');
        }
        whole.push_str(part);
    }
}

fn concatenated(first: &RawValue, second: &RawValue) -> Box<RawValue> {
    let blocks = |content: &RawValue| {
        serde_json::from_str::<Vec<Box<RawValue>>>(content.get())
            .expect("content is always made as an array of blocks")
    };
    let mut all = blocks(first);
    all.extend(blocks(second));
    to_raw_value(&all).expect("raw JSON always serialises")
}
