//! Where configuration comes from: the environment, over a file, over what the program knows by itself.
//!
//! In goes the file that `--config` or `LONGHAUL_CONFIG` names; out comes each variable, wherever it is written.
//! The file is TOML without sections: its keys are the variables in lower case, without `LONGHAUL_`.
//! Which there are, and of which type, is read from `.env.example`, so that there is one list of them.
//! Every mistake is told with its line and without what stands there, which may be a secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::book::{line_of, without_quotes};

/// Every variable, with its default and its comment.
pub const VARIABLES: &str = include_str!("../../.env.example");

/// Names the file.
const CONFIG: &str = "LONGHAUL_CONFIG";

/// What is asked of the environment alone: it belongs to a command that calls a server, to the exporter or to a terminal.
const OF_THE_ENVIRONMENT: [&str; 10] = [
    CONFIG,
    "LONGHAUL_CLI_CONFIG",
    "LONGHAUL_PROFILE",
    "LONGHAUL_SERVER",
    "LONGHAUL_API_KEY",
    "LONGHAUL_CA_FILE",
    "LONGHAUL_CLIENT_CERT_FILE",
    "LONGHAUL_CLIENT_KEY_FILE",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "NO_COLOR",
];

/// What may be an array as well as one text with commas.
const LISTS: [&str; 5] = [
    "LONGHAUL_CORS_ORIGINS",
    "LONGHAUL_GRPC_WEB_ORIGINS",
    "LONGHAUL_NOTIFY",
    "LONGHAUL_OPERATORS",
    "LONGHAUL_WHATSAPP_TEMPLATE_LANGUAGES",
];

/// Where variables are found.
#[derive(Clone, Debug, Default)]
pub struct Source {
    environment: bool,
    path: PathBuf,
    file: BTreeMap<String, Entry>,
    given: BTreeMap<String, String>,
    mistakes: Vec<String>,
}

/// A variable in the file.
#[derive(Clone)]
struct Entry {
    value: String,
    line: usize,
}

/// What is written there may be a secret.
impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry(line {})", self.line)
    }
}

impl Source {
    /// The environment alone.
    pub fn environment() -> Self {
        Self { environment: true, ..Self::default() }
    }

    /// A file alone.
    pub fn of_file(path: &Path) -> Self {
        let mut source = Self { path: path.to_path_buf(), ..Self::default() };
        source.read_file();
        source
    }

    /// The environment, over the file that is named here or by the environment, if any.
    pub fn open(named: Option<&Path>) -> Self {
        let mut source = Self::environment();
        let named = named.map(Path::to_path_buf);
        if let Some(path) = named.or_else(|| super::variable(CONFIG).map(PathBuf::from)) {
            source.path = path;
            source.read_file();
        }
        source
    }

    /// The same, with what is to hold where nothing is said.
    #[must_use]
    pub fn with(mut self, given: &[(&str, String)]) -> Self {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        self.given.extend(given);
        self
    }

    /// What a variable says; an empty one is the same as none.
    pub fn find(&self, name: &str) -> Option<String> {
        let own = || self.given.get(name).cloned();
        let said = self.said(name).or_else(|| self.find_entry(name).map(|one| one.value.clone()));
        said.or_else(own).filter(|value| !value.is_empty())
    }

    /// What is wrong with the file itself.
    pub(super) fn mistakes(&self) -> &[String] {
        &self.mistakes
    }

    /// Where a mistake is, if it is about something in the file; it begins with the name of what it is about.
    pub(super) fn place(&self, mistake: String) -> String {
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let name = mistake.split(|c| !is_name(c)).next().unwrap_or_default();
        match self.find_entry(name) {
            Some(entry) => format!("{} line {}: {mistake}", self.path.display(), entry.line),
            None => mistake,
        }
    }

    /// What the file says, unless the environment says something else about the same.
    fn find_entry(&self, name: &str) -> Option<&Entry> {
        let entry = self.file.get(name)?;
        // A text in the one goes before a file that the other names, and the reverse.
        let sibling =
            name.strip_suffix("_FILE").map_or_else(|| format!("{name}_FILE"), str::to_owned);
        (self.said(name).is_none() && self.said(&sibling).is_none()).then_some(entry)
    }

    fn said(&self, name: &str) -> Option<String> {
        self.environment.then(|| super::variable(name)).flatten()
    }

    fn read_file(&mut self) {
        let shown = self.path.display().to_string();
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) => {
                return self.mistakes.push(format!("{shown} cannot be read: {error}"));
            }
        };
        let (table, errors) = DeTable::parse_recoverable(&text);
        for error in errors {
            let told = without_quotes(error.message(), line_of(&text, error.span()));
            self.mistakes.push(format!("{shown} {told}"));
        }
        let known = Known::all();
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let line = line_of(&text, Some(key.span()));
            match Known::text_of(&known, key.get_ref(), value) {
                Ok((name, value)) => {
                    self.file.insert(name, Entry { value, line });
                }
                Err(what) => self.mistakes.push(format!("{shown} line {line}: {what}")),
            }
        }
    }
}

/// Reads all of a thing, or tells everything that is wrong.
pub(super) fn all_or_mistakes<T>(
    source: &Source,
    found: T,
    mistakes: Vec<String>,
) -> Result<T, ConfigError> {
    let placed = mistakes.into_iter().map(|mistake| source.place(mistake));
    let all: Vec<String> = source.mistakes().iter().cloned().chain(placed).collect();
    if all.is_empty() { Ok(found) } else { Err(ConfigError(all)) }
}

/// A variable that there is.
struct Known {
    /// As the environment has it.
    name: String,
    /// As the file has it.
    key: String,
    kind: Kind,
}

/// What a value in the file has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Truth,
    Text,
    /// A text, or an array of them.
    List,
    /// Whatever can be one text, such as an id that is a number.
    Plain,
}

impl Known {
    /// All that there are, also by the names of files that hold them.
    fn all() -> Vec<Self> {
        let (mut known, mut comment, mut is_secret) = (Vec::<Self>::new(), false, false);
        for line in VARIABLES.lines() {
            let named = line.trim_start_matches('#').split_once('=');
            let is_name = |name: &str| {
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            };
            let Some((name, example)) = named.filter(|(name, _)| is_name(name)) else {
                // A comment is about what follows it, which may be several.
                is_secret = line.contains("(or _FILE)") || comment && is_secret;
                comment = line.starts_with('#');
                continue;
            };
            comment = false;
            let kind =
                if LISTS.contains(&name) { Kind::List } else { Kind::of(example, is_secret) };
            known.push(Self::new(name, kind));
            if is_secret {
                known.push(Self::new(&format!("{name}_FILE"), Kind::Text));
            }
        }
        known
    }

    fn new(name: &str, kind: Kind) -> Self {
        let key = name.strip_prefix("LONGHAUL_").unwrap_or(name).to_ascii_lowercase();
        Self { name: name.to_owned(), key, kind }
    }

    /// Which variable a key means, and what that says.
    fn text_of(
        known: &[Self],
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(String, String), String> {
        // A key that has no place here may be a secret that was pasted there.
        let is_plain =
            key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let shown = if is_plain && key.len() <= 64 { key } else { "…" };
        let Some(found) = known.iter().find(|one| one.key == key) else {
            return Err(format!("there is no variable {shown}"));
        };
        let base = found.name.strip_suffix("_FILE").unwrap_or_default();
        if OF_THE_ENVIRONMENT.iter().any(|name| [found.name.as_str(), base].contains(name)) {
            return Err(format!("{shown} can only be said by the environment, as {}", found.name));
        }
        let text = found.kind.text(value.get_ref());
        let text = text.ok_or_else(|| format!("{shown} must be {}", found.kind.wanted()))?;
        Ok((found.name.clone(), text))
    }
}

impl Kind {
    fn of(example: &str, is_secret: bool) -> Self {
        match example {
            "true" | "false" => Self::Truth,
            "" if !is_secret => Self::Plain,
            number if number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() => {
                Self::Number
            }
            _ => Self::Text,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Truth => "true or false",
            Self::Text => "a text in quotes",
            Self::List => "a text in quotes, or an array of them",
            Self::Plain => "a text in quotes, or a number",
        }
    }

    fn text(self, value: &DeValue<'_>) -> Option<String> {
        match (self, value) {
            (Self::Text | Self::List | Self::Plain, DeValue::String(text)) => {
                Some(text.to_string())
            }
            (Self::Number | Self::Plain, DeValue::Integer(number)) => {
                Some(number.to_string()).filter(|_| number.radix() == 10)
            }
            (Self::Plain, DeValue::Float(number)) => Some(number.to_string()),
            (Self::Truth, DeValue::Boolean(truth)) => Some(truth.to_string()),
            (Self::List, DeValue::Array(texts)) => {
                let texts = texts.iter().map(|text| text.get_ref().as_str().map(str::to_owned));
                let texts: Option<Vec<String>> = texts.collect();
                // One that holds a comma would become two.
                texts
                    .filter(|texts| texts.iter().all(|text| !text.contains(',')))
                    .map(|texts| texts.join(","))
            }
            (
                _,
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Array(_)
                | DeValue::Datetime(_)
                | DeValue::Table(_),
            ) => None,
        }
    }
}
