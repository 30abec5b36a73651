//! Requests for a decision that could not be delivered: each is told in the history of its job, once, and whoever can be
//! asked instead is asked in the same transaction.

use std::error::Error;

use sqlx::PgConnection;
use uuid::Uuid;

use super::super::approval::word;
use super::super::transition::{lock, woken};
use super::super::write::{Written, write_locked};
use super::super::{Store, StoreError, bounded};
use crate::domain::book::{Book, find_endpoint};
use crate::domain::event::Undelivered;
use crate::domain::id::JobKey;
use crate::domain::job::Status;
use crate::domain::spec;
use crate::domain::state::{self, Action};

/// The most notices of one round.
const ROUND_MAX: i64 = 50;

/// A request that failed.
struct Lost {
    job_id: String,
    notice_id: Uuid,
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
                    tracing::error!(
                        job_id = key.job_id(),
                        error = &error as &dyn Error,
                        "a request failed, and that could not be told"
                    );
                    bounded(self.give_up_telling(&key, one.notice_id)).await?;
                }
            }
        }
        Ok(told)
    }

    /// Leaves a request alone of which nothing can be told, so that it is in nobody's way.
    async fn give_up_telling(&self, key: &JobKey, notice_id: Uuid) -> Result<(), StoreError> {
        sqlx::query!(
            "-- give_up_telling
            update longhaul.outbox set is_told = true where shard = $1 and job_id = $2 and notice_id = $3",
            key.shard(),
            key.job_id(),
            notice_id,
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    async fn tell_undelivered(
        &self,
        key: &JobKey,
        notice_id: Uuid,
        book: &Book,
    ) -> Result<bool, StoreError> {
        let mut tx = self.pool.begin().await?;
        let locked = lock(&mut tx, key, None).await?;
        let Some(row) = sqlx::query!(
            r#"-- mark_undelivered
            update longhaul.outbox o set is_told = true
            where o.shard = $1 and o.job_id = $2 and o.notice_id = $3 and o.delivery = 'failed' and not o.is_told
            returning o.recipient, o.kind, o.approval_id, coalesce(o.error, '') as "error!",
              o.approvers is not null as "is_in_place!",
              -- A server of the release before could not record what it is sending, if the job were hidden from it now.
              exists (select from longhaul.outbox s
                where s.shard = o.shard and s.job_id = o.job_id and s.delivery = 'sending') as "is_sending!",
              (select coalesce(a.approvers, array(select distinct l.approver from longhaul.approval_link l
                  where l.shard = a.shard and l.job_id = a.job_id and l.approval_id = a.approval_id))
                from longhaul.approval a
                where a.shard = o.shard and a.job_id = o.job_id and a.approval_id = o.approval_id) as "asked!""#,
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
        // While it is held nobody is asked, and what is being sent is soon known: the next round sees to it.
        let has_to_wait = is_open && (locked.state.status == Status::Paused || row.is_sending);
        if has_to_wait {
            return Ok(false);
        }
        let endpoint = book.find(&row.recipient).and_then(|(_, person)| person.endpoint.clone());
        // An endpoint that is told beside people keeps nobody from deciding.
        let is_person = find_endpoint(&row.recipient).is_none();
        let is_missed = is_person || row.is_in_place || row.asked.is_empty();
        let lost = Undelivered {
            recipient: row.recipient,
            kind: word("outbox", &row.kind)?,
            error: row.error,
            instead: endpoint,
        };
        let action = Action::Undelivered { lost, asked: row.asked, is_missed };
        let next = state::next(&locked.state, &locked.spec, action, "sweeper", locked.now)?;
        let Some(transition) = next.filter(|_| is_open) else {
            tx.commit().await?;
            return Ok(false);
        };
        write_locked(&mut tx, &[Written::new(key, &locked.state, &transition)]).await?;
        raise_version(&mut tx, key).await?;
        tx.commit().await?;
        self.wake.job_changed(key, woken(&transition));
        Ok(true)
    }
}

/// Hides a job from the release before, which cannot read what is in its history now.
async fn raise_version(tx: &mut PgConnection, key: &JobKey) -> Result<(), StoreError> {
    sqlx::query!(
        "-- raise_spec_version
        update longhaul.job set spec_version = greatest(spec_version, $3) where shard = $1 and job_id = $2",
        key.shard(),
        key.job_id(),
        spec::VERSION,
    )
    .execute(tx)
    .await?;
    Ok(())
}
