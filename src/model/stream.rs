//! From the events of one stream to a reply: a pure accumulator.
//!
//! In come the provider's events one by one; out comes the whole [`Reply`], or why there is none.
//! Unknown events, deltas and fields are passed over, unknown blocks are kept as they came.
//! A stream is a success only if it says so: it needs a stop reason, and the end of every block.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::block::Block;
use super::error::ModelError;
use super::reply::{Partial, Reply, push_without_nul, without_nul};
use super::sse::SseEvent;
use super::usage::UsageReport;
use crate::domain::job::{Citation, Reason};
use crate::domain::money::Usage;

#[cfg(test)]
mod tests;

/// Heard says what an event meant for the stream it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing: the provider is only alive.
    Nothing,
    /// The answer has moved on.
    Progress,
    /// The answer is whole.
    End,
}

/// Accumulator puts the answer of one request together.
pub(super) struct Accumulator {
    partial: Partial,
    request_id: Option<String>,
    model: Option<String>,
    report: UsageReport,
    blocks: BTreeMap<u32, Block>,
    stop_reason: Option<String>,
    stop_details: Value,
    is_ended: bool,
}

#[derive(Deserialize)]
struct Start {
    message: StartMessage,
}

#[derive(Deserialize)]
struct StartMessage {
    model: String,
    usage: Option<UsageReport>,
}

#[derive(Deserialize)]
struct BlockStart {
    index: u32,
    content_block: Box<RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta<'d> {
    index: u32,
    #[serde(borrow)]
    delta: &'d RawValue,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u32,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: Stop,
    usage: Option<UsageReport>,
}

#[derive(Deserialize)]
struct Stop {
    stop_reason: Option<String>,
    stop_details: Option<Value>,
}

/// A message that has come in one piece.
#[derive(Deserialize)]
struct Message {
    model: String,
    content: Vec<Box<RawValue>>,
    stop_reason: Option<String>,
    stop_details: Option<Value>,
    usage: Option<UsageReport>,
}

#[derive(Deserialize)]
struct CitedPage {
    url: Option<String>,
    title: Option<String>,
    cited_text: Option<String>,
}

#[derive(Deserialize)]
struct EventKind<'d> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'d, str>,
}

impl Accumulator {
    /// Begins an answer; what comes of it is shown in `partial`.
    pub fn new(partial: Partial, request_id: Option<String>) -> Self {
        Self {
            partial,
            request_id,
            model: None,
            report: UsageReport::default(),
            blocks: BTreeMap::new(),
            stop_reason: None,
            stop_details: Value::Null,
            is_ended: false,
        }
    }

    /// The answer that a message holds which has come in one piece, judged as if it had streamed.
    pub fn read_whole(message: &RawValue, request_id: Option<String>) -> Result<Reply, ModelError> {
        let Message { model, content, stop_reason, stop_details, usage } =
            read("message", message.get())?;
        let mut answer = Self::new(Partial::default(), request_id);
        answer.start(Start { message: StartMessage { model, usage: None } });
        for (index, content_block) in (0..).zip(content) {
            answer.start_block(BlockStart { index, content_block })?;
            open_block(&mut answer.blocks, index)?.close();
        }
        answer.stop(MessageDelta { delta: Stop { stop_reason, stop_details }, usage });
        answer.is_ended = true;
        answer.finish()
    }

    /// Takes in the next event; fails if it is an error or breaks the rules of the stream.
    pub fn hear(&mut self, event: &SseEvent) -> Result<Heard, ModelError> {
        // The data repeats the name, and some proxies drop the line that holds it.
        let unnamed = if matches!(event.name.as_str(), "" | "message") {
            // Some proxies end every stream with this.
            if event.data.trim() == "[DONE]" {
                return Ok(Heard::Nothing);
            }
            // What cannot be read at all may have held a piece of the answer.
            Some(read::<EventKind<'_>>("nameless", &event.data)?.kind)
        } else {
            None
        };
        let name = unnamed.as_deref().unwrap_or(&event.name);
        match name {
            "message_start" => self.start(read(name, &event.data)?),
            "content_block_start" => self.start_block(read(name, &event.data)?)?,
            "content_block_delta" => self.grow_block(read(name, &event.data)?)?,
            "content_block_stop" => {
                let BlockStop { index } = read(name, &event.data)?;
                open_block(&mut self.blocks, index)?.close();
            }
            "message_delta" => self.stop(read(name, &event.data)?),
            "message_stop" => {
                self.is_ended = true;
                return Ok(Heard::End);
            }
            "error" => return Err(ModelError::mid_stream(&event.data)),
            _ => return Ok(Heard::Nothing),
        }
        Ok(Heard::Progress)
    }

    /// Whether all of the answer has come, though its stream may not have ended yet.
    pub fn is_complete(&self) -> bool {
        self.stop_reason.is_some()
            && self.model.is_some()
            && self.blocks.values().all(|block| !block.is_open())
    }

    /// The error, with what is known of the request that it ended.
    pub fn explained(&self, mut error: ModelError) -> ModelError {
        let seen = self.partial.seen();
        error.usage = error.usage.or(seen.usage);
        error.request_id = self.request_id.clone().or(error.request_id);
        error
    }

    /// Ends the answer: the reply if it is a success, else the reason why it is none.
    pub fn finish(self) -> Result<Reply, ModelError> {
        let reply = self.make_reply();
        reply.map_err(|error| self.explained(error))
    }

    fn start(&mut self, start: Start) {
        let model = without_nul(&start.message.model);
        self.model = Some(model.clone());
        self.partial.update(|seen| seen.model = Some(model));
        self.merge_usage(start.message.usage);
    }

    fn start_block(&mut self, start: BlockStart) -> Result<(), ModelError> {
        let block = Block::start(start.content_block)
            .map_err(|error| unreadable("content_block_start", &error))?;
        let begun = without_nul(block.text());
        if self.blocks.insert(start.index, block).is_some() {
            return Err(out_of_order(start.index));
        }
        self.partial.update(|seen| seen.text.push_str(&begun));
        Ok(())
    }

    fn grow_block(
        &mut self,
        BlockDelta { index, delta }: BlockDelta<'_>,
    ) -> Result<(), ModelError> {
        let block = open_block(&mut self.blocks, index)?;
        let before = block.text().len();
        block.grow(delta).map_err(|error| unreadable("content_block_delta", &error))?;
        self.partial.update(|seen| push_without_nul(&mut seen.text, &block.text()[before..]));
        Ok(())
    }

    fn stop(&mut self, MessageDelta { delta, usage }: MessageDelta) {
        if let Some(stop_reason) = delta.stop_reason {
            self.stop_reason = Some(without_nul(&stop_reason));
        }
        if let Some(stop_details) = delta.stop_details {
            self.stop_details = stop_details;
        }
        self.merge_usage(usage);
    }

    fn merge_usage(&mut self, later: Option<UsageReport>) {
        if let Some(later) = later {
            self.report.merge(later);
            let (usage, tier) = (self.billed_usage(), self.report.tier());
            self.partial.update(|seen| {
                seen.usage = Some(usage);
                seen.tier = tier;
            });
        }
    }

    /// A refusal before any output is not billed, though its usage shows tokens.
    fn billed_usage(&self) -> Usage {
        if self.stop_reason.as_deref() == Some("refusal") && self.blocks.is_empty() {
            Usage::default()
        } else {
            self.report.usage()
        }
    }

    fn make_reply(&self) -> Result<Reply, ModelError> {
        if !self.is_ended && !self.is_complete() {
            return Err(ModelError::unavailable("the stream ended before the answer did"));
        }
        let (Some(model), Some(stop_reason)) = (&self.model, &self.stop_reason) else {
            return Err(ModelError::unavailable("the stream ended without a stop reason"));
        };
        self.judge(stop_reason)?;
        let mut content = Vec::new();
        for (at, block) in self.blocks.values().enumerate() {
            match block.to_raw() {
                Ok(raw) => content.push(raw),
                // A cut goes through the last block, also through its JSON.
                Err(_) if at + 1 == self.blocks.len() && is_cut(stop_reason) => {}
                Err(error) => return Err(unreadable("content_block_delta", &error)),
            }
        }
        let content =
            to_raw_value(&content).map_err(|error| unreadable("content_block_delta", &error))?;
        Ok(Reply {
            text: self.blocks.values().map(|block| without_nul(block.text())).collect(),
            content,
            citations: self.citations(),
            usage: self.report.usage(),
            tier: self.report.tier(),
            model: model.clone(),
            stop_reason: stop_reason.clone(),
            request_id: self.request_id.clone(),
            ended_early: !self.is_ended,
            calls: 1,
        })
    }

    fn judge(&self, stop_reason: &str) -> Result<(), ModelError> {
        let (reason, message) = match stop_reason {
            "end_turn" | "stop_sequence" | "pause_turn" => return Ok(()),
            // The step says what becomes of it.
            cut if is_cut(cut) => return Ok(()),
            "refusal" => (Reason::ModelRefused, self.refusal_message()),
            other => (Reason::ModelStopped, format!("the model stopped with `{other}`")),
        };
        Err(ModelError::stopped(reason, &message))
    }

    fn refusal_message(&self) -> String {
        let detail = |name: &str| self.stop_details.get(name).and_then(Value::as_str);
        let mut message = "the model declined to answer".to_owned();
        if let Some(category) = detail("category") {
            message = format!("{message} ({category})");
        }
        if let Some(explanation) = detail("explanation") {
            message = format!("{message}: {explanation}");
        }
        message
    }

    fn citations(&self) -> Vec<Citation> {
        let mut citations: Vec<Citation> = Vec::new();
        for raw in self.blocks.values().flat_map(Block::citations) {
            let Ok(page) = serde_json::from_str::<CitedPage>(raw.get()) else { continue };
            // Only web pages have an address; citations of documents are kept in the raw content.
            let Some(url) = page.url else { continue };
            let citation = Citation {
                url: without_nul(&url),
                title: without_nul(&page.title.unwrap_or_default()),
                cited_text: without_nul(&page.cited_text.unwrap_or_default()),
            };
            let is_same = |other: &Citation| {
                other.url == citation.url && other.cited_text == citation.cited_text
            };
            if !citations.iter().any(is_same) {
                citations.push(citation);
            }
        }
        citations
    }
}

fn is_cut(stop_reason: &str) -> bool {
    matches!(stop_reason, "max_tokens" | "model_context_window_exceeded")
}

fn open_block(blocks: &mut BTreeMap<u32, Block>, index: u32) -> Result<&mut Block, ModelError> {
    blocks.get_mut(&index).filter(|block| block.is_open()).ok_or_else(|| out_of_order(index))
}

fn read<'d, T: Deserialize<'d>>(name: &str, data: &'d str) -> Result<T, ModelError> {
    serde_json::from_str(data).map_err(|error| unreadable(name, &error))
}

/// Only the place is told, for the words of the error can hold a piece of the answer.
fn unreadable(name: &str, error: &serde_json::Error) -> ModelError {
    let (line, column) = (error.line(), error.column());
    ModelError::unavailable(&format!(
        "the model provider sent a {name} event that cannot be read at line {line} column {column}"
    ))
}

fn out_of_order(index: u32) -> ModelError {
    ModelError::unavailable(&format!(
        "the model provider sent the parts of content block {index} out of order"
    ))
}
