//! Keys: the secrets by which callers are known, and what each is good for.
//!
//! A key is `lh_` and 32 characters for 192 random bits, in base64url.
//! It is shown once, when it is made; what is kept is its SHA-256, which is enough since nobody can guess it.
//! The first twelve hex digits of that hash name the key wherever people and logs speak of it.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::word::Word;

const PREFIX: &str = "lh_";
const RANDOM_BYTES: usize = 24;
/// How many digits of the hash an id has.
const ID_DIGITS: usize = 12;
/// The longest name of a key, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// What a key is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To submit jobs.
    Submit,
    /// To pause, resume, cancel and retry them.
    Control,
    /// To decide approvals, and to see and revoke the links that do.
    Approve,
    /// To look: get, watch, list, usage.
    Read,
    /// Everything, and to see people's numbers whole.
    Admin,
}

impl Word for Scope {}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Submit, Self::Control, Self::Approve, Self::Read, Self::Admin];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Everything.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether they are enough for what needs this one; those of an admin are enough for anything.
    pub fn allow(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    /// Each of them, in order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

/// A key as the doors know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Names it without telling anything of it.
    pub key_id: String,
    /// What people call it.
    pub name: String,
    /// What it is good for.
    pub scopes: Scopes,
    /// How many requests a second it may make, if not as many as the server says.
    pub requests_per_second: Option<u32>,
    /// How many of its requests may be in hand at once, if not as many as the server says.
    pub requests_max: Option<u32>,
}

/// What is kept of a key.
pub type KeyHash = [u8; 32];

/// The text of a key.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// A new one.
    pub fn mint(random: &mut impl Rng) -> Self {
        let mut bytes = [0; RANDOM_BYTES];
        random.fill_bytes(&mut bytes);
        Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The hash of what a caller shows, if that can be a key at all.
    pub fn find_hash(shown: &str) -> Option<KeyHash> {
        let random = shown.strip_prefix(PREFIX)?;
        let bytes = URL_SAFE_NO_PAD.decode(random).ok()?;
        (bytes.len() == RANDOM_BYTES).then(|| Sha256::digest(shown.as_bytes()).into())
    }

    /// What is kept of it.
    pub fn hash(&self) -> KeyHash {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// What names it.
    pub fn key_id(&self) -> String {
        self.hash()
            .iter()
            .take(ID_DIGITS / 2)
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// The text itself, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(…)")
    }
}

/// What is wrong with a name for a key.
pub fn find_name_fault(name: &str) -> Option<&'static str> {
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_good = begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain);
    if !is_good {
        return Some(
            "must be 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit",
        );
    }
    // Whoever revokes says the one or the other.
    let is_id = name.len() == ID_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some("must not look like the id of a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_hash_and_prints_nothing() {
        let key = KeyText::mint(&mut rand::rng());
        assert_eq!(key.reveal().len(), 35);
        assert_eq!(KeyText::find_hash(key.reveal()), Some(key.hash()));
        assert_eq!(key.key_id().len(), 12);
        assert!(!format!("{key:?}").contains(key.reveal()));
        assert_ne!(KeyText::mint(&mut rand::rng()), key);
    }

    #[test]
    fn what_cannot_be_a_key_has_no_hash() {
        let key = KeyText::mint(&mut rand::rng());
        let cut = &key.reveal()[..34];
        let longer = format!("{}A", key.reveal());
        for text in
            ["", "lh_", "sk-ant-1", cut, longer.as_str(), "lh_äääääääääääääääääääääääääääääääää"]
        {
            assert_eq!(KeyText::find_hash(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_admin_may_do_everything_and_others_what_they_have() {
        let admin = Scopes::from_iter([Scope::Admin]);
        let reader = Scopes::from_iter([Scope::Read]);
        for scope in Scope::ALL {
            assert!(admin.allow(scope));
            assert!(Scopes::all().allow(scope));
            assert_eq!(reader.allow(scope), scope == Scope::Read);
            assert!(!Scopes::default().allow(scope));
        }
        assert_eq!(reader.iter().collect::<Vec<_>>(), [Scope::Read]);
    }

    #[test]
    fn names_are_plain() {
        for good in ["ci", "n8n-prod", "Team.A_2", "0"] {
            assert_eq!(find_name_fault(good), None, "{good}");
        }
        for bad in ["", "-x", "a b", "ü", "a:b", &"x".repeat(65), "0123456789ab"] {
            assert!(find_name_fault(bad).is_some(), "{bad}");
        }
    }
}
