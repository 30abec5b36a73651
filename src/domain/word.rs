//! Words: how the closed enums of the domain are spelled at every border.
//!
//! An enum's serde names are its words: short, lower-case, joined by `_`.
//! Postgres, HTTP, TOML and the command line all use them; only protobuf has constants of its own.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// An enum that is written as one word.
pub trait Word: Serialize + DeserializeOwned {
    /// The word, such as `awaiting_approval`.
    fn word(&self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(word)) => word,
            other => unreachable!("a word is a unit variant, not {other:?}"),
        }
    }

    /// The value that a word stands for, if there is one.
    fn find_by_word(word: &str) -> Option<Self> {
        serde_json::from_value(Value::String(word.to_owned())).ok()
    }
}

/// The name that was meant by one that nobody knows, if one of those there are is much like it.
pub fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    /// So much alike that the one may be the other misspelt; 1 is the same.
    const ALIKE: f64 = 0.8;
    let alike = known.iter().map(|one| (strsim::jaro_winkler(name, one), *one));
    let alike = alike.filter(|(alike, _)| *alike >= ALIKE);
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, one)| one)
}
