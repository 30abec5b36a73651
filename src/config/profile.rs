//! Profiles: which servers there are for the command line, and what it shows them, each under a name.
//!
//! In comes the TOML file of the user, `longhaul/config.toml` in their folder of configuration; out come its profiles,
//! or every mistake in it with its line. No message shows what stands there, since that may be a key.
//! A path in it is seen from the file's own folder; `~` is the user's.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use http::Uri;
use secrecy::{ExposeSecret as _, SecretString};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::book::{line_of, without_quotes};
use super::client::{API_KEY, API_KEY_FILE, CA, CERT, KEY};
use crate::domain::word::nearest;

/// What a profile may say.
const FIELDS: [&str; 6] =
    ["server", "api_key_file", "api_key", "ca_file", "client_cert_file", "client_key_file"];

/// The profiles of a file.
#[derive(Debug, Default)]
pub struct Profiles {
    /// The file.
    pub path: PathBuf,
    /// The one that is used where nobody names one.
    pub default_profile: Option<String>,
    /// All there are.
    pub all: BTreeMap<String, Profile>,
}

/// A server, and what it is shown.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The file it is in.
    pub path: PathBuf,
    /// The server's address.
    pub server: Option<String>,
    /// A key that stands in the file itself.
    pub api_key: Option<SecretString>,
    /// The file with the key.
    pub api_key_file: Option<PathBuf>,
    /// The authorities that are trusted in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate that is shown.
    pub client_cert_file: Option<PathBuf>,
    /// And its key.
    pub client_key_file: Option<PathBuf>,
}

/// The file with the profiles: the one that is named, or the user's; and whether it is named, so that it has to be there.
pub fn profiles_file(named: Option<&Path>) -> Option<(PathBuf, bool)> {
    let named = named.map(Path::to_path_buf).filter(|path| !path.as_os_str().is_empty());
    if let Some(path) = named {
        return Some((path, true));
    }
    // The standard has relative ones ignored.
    let folder = super::variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| Some(home()?.join(".config")))?;
    Some((folder.join("longhaul/config.toml"), false))
}

/// The profile that the environment names.
pub fn chosen_profile() -> Option<String> {
    super::variable("LONGHAUL_PROFILE")
}

fn home() -> Option<PathBuf> {
    super::variable("HOME").map(PathBuf::from)
}

impl Profiles {
    /// Reads the file; one that nobody named need not be there.
    pub fn read(path: &Path, must_exist: bool) -> Result<Self, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => {
                Ok(Self { path: path.to_path_buf(), ..Self::default() })
            }
            Err(error) => {
                Err(ConfigError(vec![format!("{} cannot be read: {error}", path.display())]))
            }
        }
    }

    /// Reads what the file says.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut reader = Reader { path, text, mistakes: Vec::new() };
        for error in errors {
            let told = without_quotes(error.message(), line_of(text, error.span()));
            reader.mistakes.push(format!("{} {told}", path.display()));
        }
        let found = reader.profiles(table.get_ref());
        let mut mistakes = reader.mistakes;
        mistakes.sort_by_key(|mistake| {
            let line = mistake.split_once(" line ").and_then(|(_, rest)| rest.split(':').next());
            line.and_then(|line| line.parse::<usize>().ok())
        });
        if mistakes.is_empty() { Ok(found) } else { Err(ConfigError(mistakes)) }
    }

    /// The one of this name.
    pub fn profile(&self, name: &str) -> Result<&Profile, ConfigError> {
        self.all.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.all.keys().map(String::as_str).collect();
            let hint = match nearest(name, &names) {
                Some(meant) => format!("did you mean {meant}?"),
                None if names.is_empty() => "it has none".to_owned(),
                None => format!("it has {}", names.join(", ")),
            };
            let path = self.path.display();
            ConfigError(vec![format!("there is no profile {name} in {path}; {hint}")])
        })
    }

    /// Whether others on the machine can read the file, though a key stands in it.
    pub fn shows_a_key(&self) -> bool {
        let has_key = self.all.values().any(|one| one.api_key.is_some());
        has_key && is_open(&self.path)
    }
}

#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o044 != 0)
}

#[cfg(not(unix))]
fn is_open(_path: &Path) -> bool {
    false
}

impl Profile {
    /// What it says, as the environment would.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let files = [
            (API_KEY_FILE, &self.api_key_file),
            (CA, &self.ca_file),
            (CERT, &self.client_cert_file),
            (KEY, &self.client_key_file),
        ];
        let files = files
            .into_iter()
            .filter_map(|(name, path)| Some((name, path.as_ref()?.display().to_string())));
        let key = self.api_key.as_ref().map(|key| (API_KEY, key.expose_secret().to_owned()));
        files.chain(key).collect()
    }

    /// Where a variable is said in the file.
    pub(super) fn place(&self, variable: &str) -> String {
        let field = variable.trim_start_matches("LONGHAUL_").to_ascii_lowercase();
        format!("{field} of profile {} in {}", self.name, self.path.display())
    }
}

struct Reader<'t> {
    path: &'t Path,
    text: &'t str,
    mistakes: Vec<String>,
}

impl Reader<'_> {
    fn mistake(&mut self, span: std::ops::Range<usize>, what: &str) {
        let line = line_of(self.text, Some(span));
        self.mistakes.push(format!("{} line {line}: {what}", self.path.display()));
    }

    fn profiles(&mut self, table: &DeTable<'_>) -> Profiles {
        let mut found = Profiles { path: self.path.to_path_buf(), ..Profiles::default() };
        let mut default_at = 0..0;
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("default_profile", DeValue::String(name)) => {
                    found.default_profile = Some(name.to_string());
                    default_at = value.span();
                }
                ("default_profile", _) => {
                    self.mistake(value.span(), "default_profile must be a text");
                }
                ("profiles", DeValue::Table(profiles)) => {
                    for (name, value) in profiles {
                        let profile = self.profile(name, value);
                        found.all.insert(name.get_ref().to_string(), profile);
                    }
                }
                ("profiles", _) => {
                    self.mistake(value.span(), "profiles must be a table, as in [profiles.prod]");
                }
                (other, _) => {
                    let what = unknown(other, &["default_profile", "profiles"]);
                    self.mistake(key.span(), &what);
                }
            }
        }
        if let Some(name) =
            found.default_profile.as_ref().filter(|name| !found.all.contains_key(*name))
        {
            let names: Vec<&str> = found.all.keys().map(String::as_str).collect();
            let what = match nearest(name, &names) {
                Some(meant) => {
                    format!("default_profile names none of the profiles; did you mean {meant}?")
                }
                None => "default_profile names none of the profiles".to_owned(),
            };
            self.mistake(default_at, &what);
        }
        found
    }

    fn profile(
        &mut self,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Profile {
        let mut found = Profile {
            name: name.get_ref().to_string(),
            path: self.path.to_path_buf(),
            ..Profile::default()
        };
        if let Some(why) = name_fault(name.get_ref()) {
            self.mistake(name.span(), why);
        }
        let DeValue::Table(fields) = value.get_ref() else {
            self.mistake(value.span(), "a profile must be a table, as in [profiles.prod]");
            return found;
        };
        for (key, value) in fields {
            let field = key.get_ref().as_ref();
            if !FIELDS.contains(&field) {
                self.mistake(key.span(), &unknown(field, &FIELDS));
                continue;
            }
            let DeValue::String(text) = value.get_ref() else {
                self.mistake(value.span(), &format!("{field} must be a text"));
                continue;
            };
            if text.is_empty() {
                self.mistake(value.span(), &format!("{field} is empty; leave it out"));
                continue;
            }
            let path = || Some(self.seen_from_here(text));
            match field {
                "server" if is_address(text) => found.server = Some(text.to_string()),
                "server" => {
                    let what = "server must be an address such as https://jobs.example.com:50051";
                    self.mistake(value.span(), what);
                }
                "api_key" => found.api_key = Some(text.to_string().into()),
                "api_key_file" => found.api_key_file = path(),
                "ca_file" => found.ca_file = path(),
                "client_cert_file" => found.client_cert_file = path(),
                _ => found.client_key_file = path(),
            }
        }
        if found.api_key.is_some() && found.api_key_file.is_some() {
            self.mistake(
                name.span(),
                "api_key and api_key_file are one too many: leave api_key out",
            );
        }
        if found.client_cert_file.is_some() != found.client_key_file.is_some() {
            let what = "client_cert_file and client_key_file go together: set both or none";
            self.mistake(name.span(), what);
        }
        found
    }

    fn seen_from_here(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.path.parent().unwrap_or(Path::new("")).join(path),
        }
    }
}

/// A key that has no place here may be a secret that was pasted there.
fn unknown(name: &str, known: &[&str]) -> String {
    let is_plain = name.len() <= 32 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let shown = if is_plain { name } else { "…" };
    match nearest(name, known) {
        Some(meant) => format!("there is no field {shown}; did you mean {meant}?"),
        None => format!("there is no field {shown}; there are {}", known.join(", ")),
    }
}

/// What is wrong with a profile's name.
pub fn name_fault(name: &str) -> Option<&'static str> {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let is_good = (1..=64).contains(&name.len()) && name.bytes().all(is_name);
    (!is_good).then_some("the name of a profile is 1 to 64 letters, digits, dots, - and _")
}

fn is_address(server: &str) -> bool {
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    url.parse::<Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.host().is_some_and(|host| !host.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        Profiles::parse(Path::new("/etc/p.toml"), text).expect_err("it is wrong").0
    }

    #[test]
    fn every_mistake_is_told_at_once_with_its_line_and_without_what_stands_there() {
        let told = mistakes(
            "default_profile = \"prd\"\nproflies = 1\n[profiles.prod]\nserver = \"ftp://s3cret\"\nsrever = \"x\"\n\
             api_key = \"s3cret\"\napi_key_file = \"k\"\nclient_cert_file = \"c\"\n[profiles.\"a b\"]\nserver = 7\n\
             [profiles.empty]\nca_file = \"\"\nLH_S3CRET = \"x\"\n",
        );
        let expected = [
            "/etc/p.toml line 1: default_profile names none of the profiles; did you mean prod?",
            "/etc/p.toml line 2: there is no field proflies; did you mean profiles?",
            "/etc/p.toml line 3: api_key and api_key_file are one too many: leave api_key out",
            "/etc/p.toml line 3: client_cert_file and client_key_file go together: set both or none",
            "/etc/p.toml line 4: server must be an address such as https://jobs.example.com:50051",
            "/etc/p.toml line 5: there is no field srever; did you mean server?",
            "/etc/p.toml line 9: the name of a profile is 1 to 64 letters, digits, dots, - and _",
            "/etc/p.toml line 10: server must be a text",
            "/etc/p.toml line 12: ca_file is empty; leave it out",
            "/etc/p.toml line 13: there is no field …; there are server, api_key_file, api_key, ca_file, client_cert_file, client_key_file",
        ];
        assert_eq!(told, expected);
        assert!(mistakes("a = \"s3cret\nb = 1").iter().all(|one| !one.contains("s3cret")));
    }

    #[test]
    fn a_path_is_seen_from_the_file() {
        let text =
            "[profiles.a]\nserver = \"jobs:1\"\napi_key_file = \"a.key\"\nca_file = \"/ca.pem\"\n";
        let found = Profiles::parse(Path::new("/etc/p.toml"), text).expect("it is right");
        let one = found.profile("a").expect("it is there");
        assert_eq!(one.api_key_file.as_deref(), Some(Path::new("/etc/a.key")));
        assert_eq!(one.ca_file.as_deref(), Some(Path::new("/ca.pem")));
        let missing = found.profile("b").expect_err("it is not there").0;
        assert_eq!(missing, ["there is no profile b in /etc/p.toml; it has a"]);
    }
}
