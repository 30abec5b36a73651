//! Links: the tokens that let approvers decide, minted for one notice and kept only as hashes.
//!
//! A person's notice has one pair of them; an endpoint's has a pair for each approver, since it tells them all.

use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::tombstone::not_found;
use super::write::{bytea, encode};
use super::{Store, StoreError, bounded};
use crate::domain::approval::{Token, Verdict};
use crate::domain::book::find_endpoint;
use crate::domain::id::{ApprovalId, JobKey};

/// A link as it is stored.
#[derive(Serialize)]
pub(super) struct Link {
    approval_id: ApprovalId,
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

impl Link {
    /// A fresh link of an approver, and its token.
    pub(super) fn mint(
        key: &JobKey,
        approval_id: ApprovalId,
        approver: &str,
        verdict: Verdict,
        rng: &mut impl Rng,
    ) -> (Token, Self) {
        let token = Token::mint(key, rng);
        let token_hash = bytea(&token.hash());
        (token, Self { approval_id, token_hash, approver: approver.to_owned(), verdict })
    }
}

/// Mints the links of a notice that asks for a decision; answers its tokens.
///
/// Where an approval names nobody, an endpoint decides under its own name.
pub(super) fn mint_links(
    key: &JobKey,
    approval_id: ApprovalId,
    recipient: &str,
    approvers: &[String],
    links: &mut Vec<Link>,
) -> Value {
    let mut rng = rand::rng();
    let mut mint = |approver: &str| {
        let [approve, reject] = [Verdict::Approve, Verdict::Reject].map(|verdict| {
            let (token, link) = Link::mint(key, approval_id, approver, verdict, &mut rng);
            links.push(link);
            token.reveal().to_owned()
        });
        (approve, reject)
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

impl Store {
    /// Takes back what links of a job still open, of these approvers or, where none is named, of everybody.
    ///
    /// Whoever had opened one may still be reading its page; what they send from it finds the link revoked.
    pub async fn revoke_links(
        &self,
        key: &JobKey,
        approvers: &[String],
    ) -> Result<i32, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- revoke_links
                with revoked as (
                  update longhaul.approval_link l set revoked_at = longhaul.now()
                  where l.shard = $1 and l.job_id = $2 and l.revoked_at is null
                    and ($3::text[] = '{}' or l.approver = any($3))
                  returning 1
                )
                select (select count(*)::integer from revoked) as "revoked!",
                  exists (select from longhaul.job j where j.shard = $1 and j.job_id = $2) as "is_there!""#,
                key.shard(),
                key.job_id(),
                approvers,
            )
            .fetch_one(&self.pool),
        )
        .await?;
        if row.is_there { Ok(row.revoked) } else { Err(not_found(&self.pool, key).await) }
    }
}

/// Keeps links of a job that were minted for a notice of before, or for a program.
pub(super) async fn keep_links(
    connection: &mut PgConnection,
    key: &JobKey,
    links: &[Link],
) -> Result<(), StoreError> {
    sqlx::query!(
        "-- keep_links
        insert into longhaul.approval_link (shard, job_id, token_hash, approval_id, approver, verdict, created_at)
        select $1, $2, l.token_hash, l.approval_id, l.approver, l.verdict, longhaul.now()
        from jsonb_to_recordset($3) as l(approval_id uuid, token_hash bytea, approver text, verdict text)",
        key.shard(),
        key.job_id(),
        encode(links)? as _,
    )
    .execute(connection)
    .await?;
    Ok(())
}
