//! What the sandbox's model answers: always the same to the same request, and fit to be read.
//! In comes a checked question; out goes the content, with the tokens it took and why it stopped.
//! The answer is in the language of the last user text, speaks of its matter, and keeps a length
//! that was asked for; a later turn gets another text than the first.
//! It never has more tokens than `max_tokens` allows, by the estimate that is also the usage.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    new_id,
    prose::{self, Topic},
    request::Asked,
    schema,
    turn::{is_web_search, pending_search},
};

/// An answer, before it is put into a message or a stream.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// The content blocks.
    pub content: Vec<Value>,
    /// Tokens of the whole prompt, with what was found by searching.
    pub input_tokens: u64,
    /// Tokens of the content.
    pub output_tokens: u64,
    /// Tokens of it that went into thinking.
    pub thinking_tokens: u64,
    /// Why it stopped.
    pub stop_reason: String,
    /// The stop sequence it ran into.
    pub stop_sequence: Option<String>,
    /// How often it searched the web.
    pub searches: u64,
}

/// The answer to a question, stopped for `reason` if one is scripted.
pub fn answer(asked: &Asked, reason: Option<&str>) -> Answer {
    let mut users = asked.messages().iter().filter(|message| message["role"] == "user");
    let first_text = users.next().map(user_text).unwrap_or_default();
    // An answer that paused and was gone on with is several messages, but one turn.
    let turns = asked.messages().chunk_by(|one, next| one["role"] == next["role"]);
    let earlier = turns.filter(|turn| turn[0]["role"] == "assistant");
    let pending = asked.messages().last().and_then(pending_search);
    let turn = earlier.count() - usize::from(pending.is_some());
    let topic = Topic::after(&first_text, &last_user_text(&asked.body));
    let wanted = &asked.body["output_config"]["format"]["schema"];
    let tools = asked.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    let mut answer = Answer {
        content: Vec::new(),
        input_tokens: prompt_tokens(&asked.body),
        output_tokens: 0,
        thinking_tokens: 0,
        stop_reason: "end_turn".to_owned(),
        stop_sequence: None,
        searches: 0,
    };
    if asked.max_tokens == 0 {
        // Nothing is to be said; the prompt is only to be cached.
        "max_tokens".clone_into(&mut answer.stop_reason);
        return answer;
    }
    let thinking = &asked.body["thinking"];
    // What goes on from a pause has thought already.
    if pending.is_none() && matches!(thinking["type"].as_str(), Some("adaptive" | "enabled")) {
        let text = prose::thought(&topic);
        let signature = encrypted_content(&text);
        let block = json!({"type": "thinking", "thinking": text, "signature": signature});
        answer.content.push(block);
    }
    let search = tools.iter().find(|tool| is_web_search(tool));
    // Only a search can pause; without one there is nothing to go on with.
    let pauses = search.is_some() && reason == Some("pause_turn");
    if let Some(search) = search {
        answer.search(&topic, search, pending, pauses);
    }
    if !pauses {
        let text = if wanted.is_object() {
            // The made value is to be the only text.
            answer.content.retain(|block| block["type"] != "text");
            schema::instance(wanted, &topic).to_string()
        } else {
            prose::write(&topic, turn)
        };
        answer.content.push(json!({"type": "text", "text": text}));
    }
    let budget = match reason {
        // Half of what it would have said.
        Some("max_tokens" | "model_context_window_exceeded") => answer.tokens() / 2,
        _ => asked.max_tokens,
    };
    answer.stop_at_sequence(asked.body["stop_sequences"].as_array());
    answer.cut(budget.max(1));
    if let Some(reason) = reason {
        reason.clone_into(&mut answer.stop_reason);
        if reason == "refusal" {
            answer.content.clear();
        }
    }
    answer.output_tokens = answer.tokens().max(1);
    answer.tell_thoughts(thinking["display"] != "omitted");
    answer
}

impl Answer {
    /// One search with two results and a cited sentence on each.
    fn search(&mut self, topic: &Topic, tool: &Value, pending: Option<&str>, pause: bool) {
        let query = || {
            json!({
                "type": "server_tool_use", "id": new_id("srvtoolu_"), "name": "web_search",
                "input": {"query": topic.matter},
            })
        };
        let id = if let Some(id) = pending {
            id.into()
        } else {
            let query = query();
            let id = query["id"].clone();
            self.content.push(query);
            if pause {
                return;
            }
            id
        };
        let host = tool["allowed_domains"][0].as_str().unwrap_or("example.org");
        let found = prose::findings(topic).map(|finding| {
            let url = format!("https://{}/{}", host.trim_end_matches('/'), finding.slug);
            (url, finding)
        });
        let results: Vec<Value> = found
            .iter()
            .map(|(url, finding)| {
                json!({
                    "type": "web_search_result", "url": url, "title": finding.title,
                    "encrypted_content": encrypted_content(url), "page_age": "November 12, 2026",
                })
            })
            .collect();
        self.input_tokens += tokens(&Value::from(results.clone()).to_string());
        self.content.push(json!({
            "type": "web_search_tool_result", "tool_use_id": id, "content": results,
        }));
        self.searches = 1;
        if pause {
            self.content.push(query());
            return;
        }
        for (url, finding) in found {
            self.content.push(json!({
                "type": "text", "text": finding.sentence,
                "citations": [{
                    "type": "web_search_result_location", "url": url, "title": finding.title,
                    "encrypted_index": encrypted_content(&format!("{url}#0")),
                    "cited_text": finding.sentence.trim(),
                }],
            }));
        }
    }

    /// Ends before the first of the caller's stop sequences, looked for in each text.
    fn stop_at_sequence(&mut self, sequences: Option<&Vec<Value>>) {
        let sequences: Vec<&str> =
            sequences.into_iter().flatten().filter_map(Value::as_str).collect();
        for n in 0..self.content.len() {
            let Some(text) = self.content[n]["text"].as_str() else { continue };
            let first = sequences.iter().filter_map(|one| Some((text.find(one)?, *one))).min();
            let Some((at, sequence)) = first else { continue };
            let kept = text[..at].to_owned();
            self.stop_sequence = Some(sequence.to_owned());
            "stop_sequence".clone_into(&mut self.stop_reason);
            self.content.truncate(n + 1);
            self.content[n]["text"] = kept.into();
            return;
        }
    }

    /// Keeps what fits into this many tokens.
    fn cut(&mut self, budget: u64) {
        if self.tokens() <= budget {
            return;
        }
        let mut left = budget;
        let mut kept = Vec::new();
        for mut block in std::mem::take(&mut self.content) {
            let needed = block_tokens(&block);
            if needed <= left {
                left -= needed;
                kept.push(block);
                continue;
            }
            if let Some(text) = block["text"].as_str().map(|text| prefix(text, left)) {
                let text = text.to_owned();
                if !text.is_empty() {
                    block["text"] = text.into();
                    kept.push(block);
                }
            }
            break;
        }
        self.content = kept;
        self.stop_sequence = None;
        "max_tokens".clone_into(&mut self.stop_reason);
    }

    /// Counts the thinking, and shows it only to who wants to see it.
    fn tell_thoughts(&mut self, shown: bool) {
        let thoughts = self.content.iter_mut().filter(|block| block["type"] == "thinking");
        for thought in thoughts {
            self.thinking_tokens += block_tokens(thought);
            if !shown {
                thought["thinking"] = json!("");
            }
        }
    }

    fn tokens(&self) -> u64 {
        self.content.iter().map(block_tokens).sum()
    }
}

/// The text of the last user turn, its blocks joined.
pub fn last_user_text(body: &Value) -> String {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    messages.iter().rfind(|message| message["role"] == "user").map(user_text).unwrap_or_default()
}

/// What a request is about: its last user text, or those of all requests in a batch, each behind
/// its id.
pub fn text_asked(body: &Value) -> String {
    let Some(requests) = body["requests"].as_array() else { return last_user_text(body) };
    requests.iter().map(batched_text).collect::<Vec<_>>().join("\n")
}

/// The same of one request of a batch.
pub fn batched_text(request: &Value) -> String {
    let id = request["custom_id"].as_str().unwrap_or("");
    format!("{id}\n{}", last_user_text(&request["params"]))
}

fn user_text(message: &Value) -> String {
    let content = &message["content"];
    let blocks = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    content.as_str().map_or_else(|| texts.join("\n"), str::to_owned)
}

/// An estimate of the tokens of the whole prompt.
pub fn prompt_tokens(body: &Value) -> u64 {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let turns = messages.iter().map(|message| 4 + value_tokens(&message["content"]));
    4 + turns.sum::<u64>() + value_tokens(&body["system"]) + value_tokens(&body["tools"])
}

/// An estimate of the tokens of some content.
pub fn value_tokens(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::String(text) => tokens(text),
        Value::Array(blocks) => blocks.iter().map(block_tokens).sum(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => tokens(&value.to_string()),
    }
}

/// What stands for the text of a page; clients send it back as it is.
pub fn encrypted_content(url: &str) -> String {
    STANDARD.encode(Sha256::digest(url))
}

/// A found page costs output only where the model says something about it.
fn block_tokens(block: &Value) -> u64 {
    match block["type"].as_str() {
        Some("text") => tokens(block["text"].as_str().unwrap_or("")),
        Some("thinking") => tokens(block["thinking"].as_str().unwrap_or("")),
        Some("web_search_tool_result") => 0,
        // A mark for the cache is nothing that the model reads.
        _ if block["cache_control"].is_object() => {
            let mut plain = block.clone();
            plain.as_object_mut().and_then(|fields| fields.remove("cache_control"));
            tokens(&plain.to_string())
        }
        _ => tokens(&block.to_string()),
    }
}

/// Four letters are about a token, and so is each Chinese character.
fn tokens(text: &str) -> u64 {
    text.chars().map(quarters).sum::<u64>().div_ceil(4)
}

fn quarters(letter: char) -> u64 {
    if prose::is_wide(letter) { 4 } else { 1 }
}

fn prefix(text: &str, tokens: u64) -> &str {
    let mut left = tokens * 4;
    for (at, letter) in text.char_indices() {
        let Some(rest) = left.checked_sub(quarters(letter)) else { return &text[..at] };
        left = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::sandbox::catalog::find_model;

    fn asked(mut body: Value, max_tokens: u64) -> Asked {
        if body["messages"].is_null() {
            body["messages"] =
                json!([{"role": "user", "content": "Plan a picnic for ten people."}]);
        }
        let model = find_model("claude-opus-5-5").unwrap();
        Asked { model, max_tokens, stream: false, body: body.into() }
    }

    #[test]
    fn the_same_request_gets_the_same_answer_and_a_later_turn_another_one() {
        let first = answer(&asked(json!({}), 1000), None);
        assert_eq!(first, answer(&asked(json!({}), 1000), None));
        let prompt = json!({"role": "user", "content": "Plan a picnic for ten people."});
        let said = json!({"role": "assistant", "content": first.content});
        let later = json!({"messages": [prompt, said, prompt]});
        assert_ne!(first.content, answer(&asked(later, 1000), None).content);
        assert!(first.content[0]["text"].as_str().unwrap().contains("picnic for ten people"));
    }

    #[test]
    fn an_answer_never_has_more_tokens_than_were_allowed() {
        let whole = answer(&asked(json!({}), 1000), None);
        for most in 1..whole.output_tokens {
            let cut = answer(&asked(json!({}), most), None);
            assert!(cut.output_tokens <= most);
            assert_eq!(cut.stop_reason, "max_tokens");
        }
        assert_eq!(answer(&asked(json!({}), whole.output_tokens), None).stop_reason, "end_turn");
    }

    #[test]
    fn a_stop_sequence_ends_the_answer_before_it() {
        let stopped = answer(&asked(json!({"stop_sequences": ["picnic"]}), 1000), None);
        assert_eq!(stopped.stop_sequence.as_deref(), Some("picnic"));
        assert!(!stopped.content[0]["text"].as_str().unwrap().contains("picnic"));
    }

    #[test]
    fn thinking_comes_first_is_counted_and_can_be_hidden() {
        let think = |display| {
            let thinking = json!({"type": "adaptive", "display": display});
            answer(&asked(json!({"thinking": thinking}), 1000), None)
        };
        let (shown, hidden) = (think("summarized"), think("omitted"));
        let plain = answer(&asked(json!({}), 1000), None);
        assert!(shown.content[0]["thinking"].as_str().unwrap().contains("picnic"));
        assert_eq!(hidden.content[0]["thinking"], "");
        assert_eq!(hidden.content[0]["signature"], shown.content[0]["signature"]);
        assert_eq!(shown.content[1..], plain.content);
        for thought in [shown, hidden] {
            assert!(thought.thinking_tokens > 0);
            assert_eq!(thought.output_tokens, plain.output_tokens + thought.thinking_tokens);
        }
    }

    #[test]
    fn a_scripted_reason_can_be_any_word() {
        let stopped = |reason| answer(&asked(json!({}), 1000), Some(reason));
        let whole = answer(&asked(json!({}), 1000), None);
        assert_eq!(stopped("brand_new_reason").stop_reason, "brand_new_reason");
        assert_eq!(stopped("brand_new_reason").content, whole.content);
        let full = stopped("model_context_window_exceeded");
        assert_eq!(full.stop_reason, "model_context_window_exceeded");
        assert!(full.output_tokens <= whole.output_tokens / 2);
    }

    #[test]
    fn a_paused_search_is_gone_on_with_under_its_own_id() {
        let tools = json!([{"type": "web_search_20250305", "name": "web_search"}]);
        let paused = answer(&asked(json!({"tools": tools}), 1000), Some("pause_turn"));
        assert_eq!((paused.content.len(), paused.searches), (1, 0));
        let prompt = json!({"role": "user", "content": "Plan a picnic for ten people."});
        let said = json!({"role": "assistant", "content": paused.content});
        let mut turns = vec![prompt, said];
        let again = json!({"tools": tools, "messages": turns});
        let again = answer(&asked(again, 1000), Some("pause_turn"));
        assert_eq!(again.content[0]["tool_use_id"], paused.content[0]["id"]);
        turns.push(json!({"role": "assistant", "content": again.content}));
        let on = answer(&asked(json!({"tools": tools, "messages": turns}), 1000), None);
        assert_eq!(on.content[0]["tool_use_id"], again.content[1]["id"]);
        assert_eq!((on.searches, on.stop_reason.as_str()), (1, "end_turn"));
    }
}
