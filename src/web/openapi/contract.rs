//! The contract: the messages and enums of the proto with what their comments say, as the build has written them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The proto, as far as a document needs it.
#[derive(Deserialize)]
pub(super) struct Contract {
    pub(super) messages: BTreeMap<String, Message>,
    pub(super) enums: BTreeMap<String, Enum>,
}

#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) says: String,
    pub(super) fields: Vec<Field>,
}

#[derive(Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    /// `string`, `int32`, `int64`, `bool`, `map`, or the name of a message or an enum.
    pub(super) holds: String,
    pub(super) list: bool,
    pub(super) says: String,
}

#[derive(Deserialize)]
pub(super) struct Enum {
    pub(super) says: String,
    pub(super) words: Vec<Word>,
}

#[derive(Deserialize)]
pub(super) struct Word {
    pub(super) word: String,
    pub(super) says: String,
}

impl Contract {
    /// The proto that this program was built with.
    pub(super) fn read() -> Self {
        let written = include_str!(concat!(env!("OUT_DIR"), "/longhaul.v1.json"));
        serde_json::from_str(written).expect("the build writes what is read here")
    }

    /// A message of that name.
    pub(super) fn message(&self, name: &str) -> &Message {
        self.messages.get(name).expect("only messages of the proto are asked for")
    }
}

impl Enum {
    /// Its words with what each says, a line each.
    pub(super) fn description(&self) -> String {
        let lines = self.words.iter().map(|one| format!("- `{}`: {}", one.word, one.says));
        std::iter::once(format!("{}\n", self.says)).chain(lines).collect::<Vec<_>>().join("\n")
    }
}
