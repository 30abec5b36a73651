//! Links: the tokens that let approvers decide, minted for one notice and kept only as hashes.
//!
//! A person's notice has one pair of them; an endpoint's has a pair for each approver, since it tells them all.

use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::write::bytea;
use crate::domain::approval::{Token, Verdict};
use crate::domain::book::find_endpoint;
use crate::domain::id::JobKey;

/// A link as it is stored.
#[derive(Serialize)]
pub(super) struct Link {
    token_hash: String,
    approver: String,
    verdict: Verdict,
}

/// The two links of one approver, in an endpoint's notice.
#[derive(Clone, Deserialize)]
pub struct ApproverLinks {
    /// Who decides through them.
    pub approver: String,
    /// The token of the one whose page puts approve first.
    pub approve: String,
    /// The token of the one whose page puts reject first.
    pub reject: String,
}

impl std::fmt::Debug for ApproverLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApproverLinks(…)")
    }
}

/// Mints the links of a notice that asks for a decision; answers its tokens.
///
/// Where an approval names nobody, an endpoint decides under its own name.
pub(super) fn mint_links(
    key: &JobKey,
    recipient: &str,
    approvers: &[String],
    links: &mut Vec<Link>,
) -> Value {
    let mut rng = rand::rng();
    let mut mint = |approver: &str| {
        let approve = mint_link(key, approver, Verdict::Approve, &mut rng, links);
        (approve, mint_link(key, approver, Verdict::Reject, &mut rng, links))
    };
    if find_endpoint(recipient).is_none() {
        let (approve, reject) = mint(recipient);
        return json!({"approve": approve, "reject": reject});
    }
    let itself = [recipient.to_owned()];
    let approvers = if approvers.is_empty() { &itself } else { approvers };
    let pairs = approvers.iter().map(|approver| {
        let (approve, reject) = mint(approver);
        json!({"approver": approver, "approve": approve, "reject": reject})
    });
    pairs.collect()
}

fn mint_link(
    key: &JobKey,
    approver: &str,
    verdict: Verdict,
    rng: &mut impl Rng,
    links: &mut Vec<Link>,
) -> String {
    let token = Token::mint(key, rng);
    let token_hash = bytea(&token.hash());
    links.push(Link { token_hash, approver: approver.to_owned(), verdict });
    token.reveal().to_owned()
}
