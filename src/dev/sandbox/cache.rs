//! The prompt cache: which prefix of a question was seen before, and for how long it is kept.
//! In comes a checked question; out go the tokens that were read from the cache and written to it.
//! A prefix is the bytes of tools, system and messages up to a block, and belongs to one model.
//! Whether a block is marked does not change the prefix, so marks may move on from turn to turn.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{refusal::Refusal, reply::value_tokens, request::Asked};

/// How many blocks a question may mark.
const MARKS_MAX: usize = 4;
/// How many blocks are looked at from a mark backwards, the marked one included.
const LOOK_BACK: usize = 20;
/// How many prefixes are kept; beyond that all are forgotten.
const KEPT_MAX: usize = 100_000;

/// The prefixes seen so far.
#[derive(Default)]
pub struct Cache(Mutex<HashMap<Key, Kept>>);

type Key = [u8; 32];

struct Kept {
    ttl: Ttl,
    fresh_until: DateTime<Utc>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ttl {
    FiveMinutes,
    OneHour,
}

/// The tokens of a question that have to do with the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Read from it.
    pub read: u64,
    /// Written for five minutes.
    pub written_5m: u64,
    /// Written for an hour.
    pub written_1h: u64,
}

impl CacheUse {
    /// All of them; the rest of the prompt is plain input.
    pub fn total(&self) -> u64 {
        self.read + self.written_5m + self.written_1h
    }
}

/// A block of the prompt: its prefix, the tokens up to its end, and its mark.
struct Block {
    key: Key,
    tokens: u64,
    mark: Option<Ttl>,
}

impl Ttl {
    fn length(self) -> TimeDelta {
        match self {
            Self::FiveMinutes => TimeDelta::minutes(5),
            Self::OneHour => TimeDelta::hours(1),
        }
    }
}

impl Cache {
    /// Reads and writes what a question marks; a prefix under `min_tokens` is not worth it.
    pub fn touch(&self, asked: &Asked, now: DateTime<Utc>, min_tokens: u64) -> CacheUse {
        let mut used = CacheUse::default();
        if !holders(&asked.body).any(|(_, holder)| is_marked(holder)) {
            return used;
        }
        let blocks = blocks(asked);
        let marks: Vec<usize> = (0..blocks.len()).filter(|&n| blocks[n].mark.is_some()).collect();
        let mut kept = self.lock();
        let fresh =
            |n: &usize| kept.get(&blocks[*n].key).is_some_and(|prefix| prefix.fresh_until > now);
        let near = |mark: usize| (mark.saturating_sub(LOOK_BACK - 1)..=mark).rev();
        let found = marks.iter().rev().find_map(|&mark| near(mark).find(fresh));
        if let Some(found) = found {
            used.read = blocks[found].tokens;
            let read_again = marks.iter().copied().filter(|&mark| mark < found).chain([found]);
            for n in read_again {
                if let Some(prefix) = kept.get_mut(&blocks[n].key) {
                    prefix.fresh_until = now + prefix.ttl.length();
                }
            }
        }
        for mark in marks {
            let Block { key, tokens, mark: Some(ttl) } = blocks[mark] else { continue };
            if found.is_some_and(|found| mark <= found) || tokens < min_tokens {
                continue;
            }
            let written = tokens - used.total();
            match ttl {
                Ttl::FiveMinutes => used.written_5m += written,
                Ttl::OneHour => used.written_1h += written,
            }
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(key, Kept { ttl, fresh_until: now + ttl.length() });
        }
        used
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks every mark of a question: its form, how many there are, and that the long-lived come
/// first.
pub fn check(body: &Value) -> Result<(), Refusal> {
    let mut marks = Vec::new();
    for (place, holder) in holders(body).filter(|(_, holder)| is_marked(holder)) {
        let path = place.path();
        if holder["type"] == "thinking" {
            let message = format!("{path}cache_control: Extra inputs are not permitted");
            return Err(Refusal::invalid(message));
        }
        marks.push(ttl(&holder["cache_control"], &format!("{path}cache_control"))?);
    }
    if marks.len() > MARKS_MAX {
        return Err(Refusal::invalid(format!(
            "A maximum of {MARKS_MAX} blocks with cache_control may be provided. Found {}.",
            marks.len()
        )));
    }
    let short = marks.iter().position(|ttl| *ttl == Ttl::FiveMinutes);
    if short.is_some_and(|short| marks[short..].contains(&Ttl::OneHour)) {
        let message = "a ttl='1h' cache_control block must not come after a ttl='5m' \
                       cache_control block";
        return Err(Refusal::invalid(message));
    }
    Ok(())
}

/// Where a mark can stand.
#[derive(Clone, Copy)]
enum Place {
    Tool(usize),
    System(usize),
    Content(usize, usize),
    Whole,
}

impl Place {
    /// How errors call it, up to the name of the field.
    fn path(self) -> String {
        match self {
            Self::Tool(n) => format!("tools.{n}."),
            Self::System(n) => format!("system.{n}."),
            Self::Content(n, m) => format!("messages.{n}.content.{m}."),
            Self::Whole => String::new(),
        }
    }
}

/// Everything that can be marked, in the order in which the model reads it.
fn holders(body: &Value) -> impl Iterator<Item = (Place, &Value)> {
    let tools = list(&body["tools"]).map(|(n, tool)| (Place::Tool(n), tool));
    let system = list(&body["system"]).map(|(n, block)| (Place::System(n), block));
    let content = list(&body["messages"]).flat_map(move |(n, message)| {
        list(&message["content"]).map(move |(m, block)| (Place::Content(n, m), block))
    });
    tools.chain(system).chain(content).chain([(Place::Whole, body)])
}

fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate()
}

fn is_marked(holder: &Value) -> bool {
    !holder["cache_control"].is_null()
}

fn ttl(mark: &Value, path: &str) -> Result<Ttl, Refusal> {
    let Some(fields) = mark.as_object() else {
        return Err(Refusal::invalid(format!("{path}: Input should be an object")));
    };
    if let Some(name) = fields.keys().find(|name| !["type", "ttl"].contains(&name.as_str())) {
        return Err(Refusal::invalid(format!("{path}.{name}: Extra inputs are not permitted")));
    }
    if mark["type"] != "ephemeral" {
        return Err(Refusal::invalid(format!("{path}.type: Input should be 'ephemeral'")));
    }
    match fields.get("ttl").map(Value::as_str) {
        None | Some(Some("5m")) => Ok(Ttl::FiveMinutes),
        Some(Some("1h")) => Ok(Ttl::OneHour),
        Some(_) => Err(Refusal::invalid(format!("{path}.ttl: Input should be '5m' or '1h'"))),
    }
}

/// The blocks of the prompt in the order in which the model reads them.
fn blocks(asked: &Asked) -> Vec<Block> {
    let body = &asked.body;
    let speed = body["speed"].as_str().unwrap_or("standard");
    let mut key = digest(&[asked.model.id.as_bytes(), speed.as_bytes()]);
    let mut tokens = 0;
    let mut blocks = Vec::new();
    let mut add = |place: &str, content: &Value, extra: u64| {
        let mut extra = extra;
        for mut block in as_blocks(content) {
            let mark = block.as_object_mut().and_then(|fields| fields.remove("cache_control"));
            let mark = mark.and_then(|mark| ttl(&mark, "").ok());
            tokens += std::mem::take(&mut extra) + value_tokens(&json!([block]));
            key = digest(&[&key, place.as_bytes(), block.to_string().as_bytes()]);
            blocks.push(Block { key, tokens, mark });
        }
    };
    add("tools", &body["tools"], 0);
    add("system", &body["system"], 0);
    for message in asked.messages() {
        // What a message takes beside its content.
        add(message["role"].as_str().unwrap_or(""), &message["content"], 4);
    }
    // The mark of the question as a whole stands on its last block.
    if let Some(last) = blocks.last_mut()
        && let Ok(ttl) = ttl(&body["cache_control"], "")
    {
        last.mark = Some(last.mark.unwrap_or(ttl));
    }
    blocks
}

fn as_blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

fn digest(parts: &[&[u8]]) -> Key {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::sandbox::{catalog::find_model, reply::prompt_tokens};

    fn asked(body: Value) -> Asked {
        let model = find_model("claude-opus-5-5").unwrap();
        Asked { model, max_tokens: 100, stream: false, body: body.into() }
    }

    fn question(ttl: &str, turns: usize) -> Asked {
        let mark = json!({"type": "ephemeral", "ttl": ttl});
        let system = json!([{"type": "text", "text": "rule ".repeat(800), "cache_control": mark}]);
        let turn = |n| json!({"role": "user", "content": format!("turn {n}")});
        asked(json!({"system": system, "messages": (0..turns).map(turn).collect::<Vec<_>>()}))
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    #[test]
    fn a_prefix_is_written_once_and_read_for_as_long_as_it_is_used() {
        let cache = Cache::default();
        let written = cache.touch(&question("5m", 1), at(0), 512);
        assert_eq!(written, CacheUse { written_5m: 1000, ..CacheUse::default() });
        let read = CacheUse { read: 1000, ..CacheUse::default() };
        assert_eq!(cache.touch(&question("5m", 3), at(299), 512), read);
        assert_eq!(cache.touch(&question("5m", 2), at(598), 512), read);
        assert_eq!(cache.touch(&question("1h", 2), at(898), 512).written_1h, 1000);
        assert_eq!(cache.touch(&question("1h", 2), at(898 + 3599), 512), read);
    }

    #[test]
    fn another_model_and_a_short_prefix_share_nothing() {
        let cache = Cache::default();
        cache.touch(&question("5m", 1), at(0), 512);
        let mut other = question("5m", 1);
        other.model = find_model("claude-haiku-5-5").unwrap();
        assert_eq!(cache.touch(&other, at(1), 512).read, 0);
        assert_eq!(cache.touch(&question("1h", 9), at(999), 1001), CacheUse::default());
    }

    #[test]
    fn the_mark_of_the_whole_question_moves_on_with_the_conversation() {
        let cache = Cache::default();
        let long = "word ".repeat(600);
        let turn = |text: &str| json!({"role": "user", "content": text});
        let ask = |turns: Value| {
            asked(json!({"cache_control": {"type": "ephemeral"}, "messages": turns}))
        };
        let first = ask(json!([turn(&long)]));
        let written = cache.touch(&first, at(0), 512).written_5m;
        assert_eq!(written, prompt_tokens(&first.body) - 4);
        let second = ask(json!([turn(&long), turn("and then?")]));
        let used = cache.touch(&second, at(1), 512);
        assert_eq!((used.read, used.total()), (written, prompt_tokens(&second.body) - 4));
        let many = (0..LOOK_BACK).map(|n| turn(&n.to_string()));
        let far = ask([turn(&long), turn("and then?")].into_iter().chain(many).collect());
        assert_eq!(cache.touch(&far, at(2), 512).read, 0);
    }

    #[test]
    fn each_part_is_written_for_as_long_as_its_mark_says() {
        let text = |ttl: &str, letters: usize| {
            json!({"type": "text", "text": "x".repeat(letters),
                "cache_control": {"type": "ephemeral", "ttl": ttl}})
        };
        let body = json!({"system": [text("1h", 4000), text("5m", 400)],
            "messages": [{"role": "user", "content": "hi"}]});
        let used = Cache::default().touch(&asked(body), at(0), 512);
        assert_eq!(used, CacheUse { read: 0, written_5m: 100, written_1h: 1000 });
    }

    #[test]
    fn a_fifth_mark_a_strange_one_and_a_long_one_after_a_short_one_are_refused() {
        let mark = |ttl: &str| json!({"type": "ephemeral", "ttl": ttl});
        let system = |marks: &[Value]| {
            let blocks = marks
                .iter()
                .map(|mark| json!({"type": "text", "text": "x", "cache_control": mark}));
            json!({"system": blocks.collect::<Vec<_>>(), "cache_control": mark("5m")})
        };
        let refused = |body: Value| {
            check(&body).unwrap_err().body("")["error"]["message"].as_str().unwrap().to_owned()
        };
        assert!(
            refused(system(&[mark("5m"), mark("5m"), mark("5m"), mark("5m")])).contains("Found 5")
        );
        assert!(refused(system(&[mark("5m"), mark("1h")])).contains("must not come after"));
        assert!(refused(system(&[mark("2h")])).starts_with("system.0.cache_control.ttl"));
        assert!(refused(json!({"cache_control": {"type": "x"}})).starts_with("cache_control.type"));
        check(&system(&[mark("1h"), mark("1h"), mark("5m")])).unwrap();
    }
}
