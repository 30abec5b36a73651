//! Probes: test links, by which it is proven that the links of messages lead here.
//!
//! A probe opens at the same address as the link of an approval, and has another form, so that neither passes for the other.
//! Only its hash is stored, beside a word that nobody can tell who does not read this database.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::Rng;
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "probe-";
const RANDOM_CHARS: usize = 22;

/// The secret in a test link.
#[derive(Clone, PartialEq, Eq)]
pub struct ProbeToken(String);

impl ProbeToken {
    /// A fresh one.
    pub fn mint(rng: &mut impl Rng) -> Self {
        Self(format!("{PREFIX}{}", random_word(rng)))
    }

    /// The token in a path, if it has the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let random = text.strip_prefix(PREFIX)?;
        let is_word =
            random.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (random.len() == RANDOM_CHARS && is_word).then(|| Self(text.to_owned()))
    }

    /// What is stored in its place.
    pub fn hash(&self) -> Vec<u8> {
        Sha256::digest(self.0.as_bytes()).to_vec()
    }

    /// The token itself, for the link and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProbeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeToken(…)")
    }
}

/// A word that nobody guesses.
pub fn random_word(rng: &mut impl Rng) -> String {
    let mut random = [0_u8; 16];
    rng.fill_bytes(&mut random);
    URL_SAFE_NO_PAD.encode(random)
}

/// What the page of a test link shows while it is only looked at, and after its form has arrived.
pub fn shown(proof: &str, has_arrived: bool) -> String {
    let state = if has_arrived { "arrived" } else { "open" };
    format!("longhaul-{state}-{proof}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::approval::Token;
    use crate::domain::id::JobKey;

    #[test]
    fn a_probe_parses_again_and_passes_for_no_link_and_no_link_for_it() {
        let rng = &mut rand::rng();
        let probe = ProbeToken::mint(rng);
        assert_eq!(ProbeToken::parse(probe.reveal()), Some(probe.clone()));
        assert_eq!(Token::parse(probe.reveal()), None);
        let link = Token::mint(&JobKey::new("a"), rng);
        assert_eq!(ProbeToken::parse(link.reveal()), None);
        for wrong in ["", "probe-", "probe-short", &format!("{}A", probe.reveal())] {
            assert_eq!(ProbeToken::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_probe_does_not_print_itself() {
        let probe = ProbeToken::mint(&mut rand::rng());
        assert!(!format!("{probe:?}").contains(&probe.reveal()[PREFIX.len()..]));
    }
}
