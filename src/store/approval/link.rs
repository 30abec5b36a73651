//! Fresh links for the approvers of a pending approval, for programs that reach people in their own way.

use super::super::link::{Link, keep_links};
use super::super::{Store, StoreError, bounded};
use crate::domain::approval::{Token, Verdict};
use crate::domain::id::{ApprovalId, JobKey};

impl Store {
    /// One link for everybody who has been asked, with its token in plain text, which nobody can read again.
    ///
    /// No lock is taken: where the approval is decided meanwhile, the links open the page that says so.
    pub async fn mint_links(
        &self,
        key: &JobKey,
        approval_id: ApprovalId,
    ) -> Result<Vec<(String, Token)>, StoreError> {
        bounded(async {
            let mut connection = self.pool.acquire().await?;
            let approvers = sqlx::query_scalar!(
                r#"-- find_asked
                select unnest(coalesce(a.approvers, array(select distinct l.approver from longhaul.approval_link l
                  where l.shard = a.shard and l.job_id = a.job_id and l.approval_id = a.approval_id))) as "approver!"
                from longhaul.approval a where a.shard = $1 and a.job_id = $2 and a.approval_id = $3"#,
                key.shard(),
                key.job_id(),
                approval_id.0,
            )
            .fetch_all(&mut *connection)
            .await?;
            let (mut minted, mut links) = (Vec::new(), Vec::new());
            for approver in approvers {
                let mut rng = rand::rng();
                let (token, link) =
                    Link::mint(key, approval_id, &approver, Verdict::Approve, &mut rng);
                minted.push((approver, token));
                links.push(link);
            }
            keep_links(&mut connection, key, &links).await?;
            Ok::<_, StoreError>(minted)
        })
        .await
    }
}
