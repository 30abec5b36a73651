//! Requests for a decision that could not be delivered: each is told in the history of its job, once, and whoever can be
//! asked instead is asked in the same transaction.

use std::error::Error;

use super::super::approval::word;
use super::super::transition::{lock, woken};
use super::super::write::{Written, write_locked};
use super::super::{Store, StoreError, bounded};
use crate::domain::book::Book;
use crate::domain::event::Undelivered;
use crate::domain::id::JobKey;
use crate::domain::spec;
use crate::domain::state::{self, Action};

/// The most notices of one round.
const ROUND_MAX: i64 = 50;

/// A request that failed.
struct Lost {
    job_id: String,
    notice_id: uuid::Uuid,
}

impl Store {
    /// Has told what could not be delivered; answers of how many requests. What fails is tried again by the next round.
    pub async fn sweep_undelivered(&self, book: &Book) -> Result<usize, StoreError> {
        let lost = bounded(
            sqlx::query_as!(
                Lost,
                "-- find_undelivered
                -- cross-shard: what failed is in one index for all shards
                select o.job_id, o.notice_id from longhaul.outbox o
                join longhaul.job j on j.shard = o.shard and j.job_id = o.job_id and j.spec_version <= $2
                where o.delivery = 'failed' and o.approval_id is not null and not o.is_told
                  -- While its job is held nobody is asked anything.
                  and not (j.status = 'paused' and j.approval_id = o.approval_id)
                order by o.updated_at limit $1",
                ROUND_MAX,
                spec::VERSION,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        let mut told = 0;
        for one in lost {
            let key = JobKey::new(&one.job_id);
            match bounded(self.tell_undelivered(&key, one.notice_id, book)).await {
                Ok(is_told) => told += usize::from(is_told),
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                Err(error) => {
                    let (job_id, error) = (key.job_id(), &error as &dyn Error);
                    tracing::error!(job_id, error, "could not tell that a request failed");
                }
            }
        }
        Ok(told)
    }

    async fn tell_undelivered(
        &self,
        key: &JobKey,
        notice_id: uuid::Uuid,
        book: &Book,
    ) -> Result<bool, StoreError> {
        let mut tx = self.pool.begin().await?;
        let locked = lock(&mut tx, key, None).await?;
        let Some(row) = sqlx::query!(
            r#"-- mark_undelivered
            update longhaul.outbox o set is_told = true
            where o.shard = $1 and o.job_id = $2 and o.notice_id = $3 and o.delivery = 'failed' and not o.is_told
            returning o.recipient, o.kind, o.approval_id, coalesce(o.error, '') as "error!",
              array(select distinct l.approver from longhaul.approval_link l
                where l.shard = o.shard and l.job_id = o.job_id and l.approval_id = o.approval_id) as "asked!""#,
            key.shard(),
            key.job_id(),
            notice_id,
        )
        .fetch_optional(&mut *tx)
        .await?
        else {
            return Ok(false);
        };
        let is_open = row.approval_id == locked.state.approval_id.map(|open| open.0);
        let person = book.find(&row.recipient).and_then(|(_, person)| person.endpoint.clone());
        let lost = Undelivered {
            recipient: row.recipient,
            kind: word("outbox", &row.kind)?,
            error: row.error,
            instead: person,
        };
        let action = Action::Undelivered { lost, asked: row.asked };
        let next = state::next(&locked.state, &locked.spec, action, "sweeper", locked.now)?;
        if let Some(transition) = next.filter(|_| is_open) {
            write_locked(&mut tx, &[Written::new(key, &locked.state, &transition)]).await?;
            // The release before cannot read such a history.
            sqlx::query!(
                "-- raise_spec_version
                update longhaul.job set spec_version = greatest(spec_version, 4) where shard = $1 and job_id = $2",
                key.shard(),
                key.job_id(),
            )
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
            self.wake.job_changed(key, woken(&transition));
            return Ok(true);
        }
        tx.commit().await?;
        Ok(false)
    }
}
