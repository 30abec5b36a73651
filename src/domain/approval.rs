//! Approvals: verdicts, doors, and the tokens in approval links.
//!
//! A token is one character for the shard and 22 for 128 random bits, all base64url.
//! Only its hash is stored, so a copy of the database opens no page; it says nothing and expires never:
//! whether it still counts is decided by the job's row.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::id::JobKey;
use super::word::Word;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const TOKEN_CHARS: usize = 23;

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Go on.
    Approve,
    /// End the job.
    Reject,
    /// Have an earlier step done again, with what the approver says.
    RequestChanges,
}

impl Word for Verdict {}

/// The way a decision comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// The approval page behind a link.
    Link,
    /// A tap on a button of the message.
    Button,
    /// A typed answer to the message.
    Reply,
    /// A Control call.
    Grpc,
    /// The control webhook.
    Webhook,
    /// Nobody: the deadline passed.
    Timeout,
}

impl Word for Door {}

/// How an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Open for votes.
    Pending,
    /// Enough approvals.
    Approved,
    /// A rejection.
    Rejected,
    /// Nobody decided in time.
    Expired,
    /// The job was ended while it was pending.
    Withdrawn,
    /// An approver wants what was shown to be done again.
    ChangesRequested,
    /// What was shown was edited, and the edit is asked about anew.
    Superseded,
}

impl Word for ApprovalStatus {}

/// The secret in an approval link.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A fresh token for a link of this job.
    pub fn mint(key: &JobKey, rng: &mut impl Rng) -> Self {
        let mut random = [0_u8; 16];
        rng.fill_bytes(&mut random);
        let shard = usize::try_from(key.shard()).expect("a shard is from 0 to 63");
        let shard = char::from(ALPHABET[shard]);
        Self(format!("{shard}{}", URL_SAFE_NO_PAD.encode(random)))
    }

    /// The token in a path, if it has the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == TOKEN_CHARS && text.bytes().all(|b| ALPHABET.contains(&b));
        fits.then(|| Self(text.to_owned()))
    }

    /// The shard its job lives in.
    pub fn shard(&self) -> i16 {
        let first = self.0.as_bytes().first();
        let at = ALPHABET.iter().position(|c| Some(c) == first);
        at.and_then(|at| i16::try_from(at).ok()).expect("a token begins with its shard")
    }

    /// What is stored in its place.
    pub fn hash(&self) -> Vec<u8> {
        Sha256::digest(self.0.as_bytes()).to_vec()
    }

    /// What is stored in its place, as text: it says which link was used, and opens nothing.
    pub fn fingerprint(&self) -> String {
        self.hash().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// The token itself, for a link or the outbox and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A phone number as strangers may see it: its last four digits.
pub fn mask(person: &str) -> String {
    if !person.starts_with('+') {
        return person.to_owned();
    }
    let tail: Vec<char> = person.chars().rev().take(4).collect();
    tail.into_iter().rev().fold("…".to_owned(), |masked, digit| masked + &digit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_carries_its_shard_and_parses_again() {
        for job_id in ["a", "b", "demo-job-0001", "记账"] {
            let key = JobKey::new(job_id);
            let token = Token::mint(&key, &mut rand::rng());
            assert_eq!(token.shard(), key.shard());
            assert_eq!(Token::parse(token.reveal()), Some(token));
        }
    }

    #[test]
    fn what_has_not_the_form_of_a_token_is_none() {
        for text in ["", "short", &"a".repeat(24), "aaaaaaaaaaaaaaaaaaaaaa/", "记账记账记账记账"]
        {
            assert_eq!(Token::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_token_does_not_print_itself() {
        let token = Token::mint(&JobKey::new("a"), &mut rand::rng());
        assert!(!format!("{token:?}").contains(token.reveal()));
    }

    #[test]
    fn a_masked_number_shows_four_digits() {
        assert_eq!(mask("+15550100"), "…0100");
        assert_eq!(mask("client"), "client");
    }
}
