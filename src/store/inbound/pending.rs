//! What a message may be about: the notice that it answers, and the approvals that wait for its author.

use chrono::{DateTime, Utc};

use crate::domain::id::{ApprovalId, JobKey};
use crate::store::{Store, StoreError, bounded};

/// The notice that a message answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The job.
    pub key: JobKey,
    /// The approval it asks for, if it asks for one.
    pub approval_id: Option<ApprovalId>,
    /// Whom it was sent to.
    pub recipient: String,
}

/// An approval that waits for somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingApproval {
    /// The job.
    pub key: JobKey,
    /// The approval.
    pub approval_id: ApprovalId,
    /// Which of the names asked for it has and that have not voted: more than one if that is not clear.
    pub approvers: Vec<String>,
    /// What the job is for.
    pub task: String,
    /// The language that was chosen for the job.
    pub language: Option<String>,
    /// Since when its request is known to have been with them.
    pub arrived_at: Option<DateTime<Utc>>,
}

/// What a person had been told when they wrote, and what happened since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedBack {
    /// The approval that the newest message then with them asks for; none if it asks for nothing.
    pub last_asked: Option<ApprovalId>,
    /// Whether something that they were asked was closed after they wrote.
    pub was_closed: bool,
}

impl Store {
    /// Looks back at what somebody of these names was told lately, from the moment in which they wrote.
    ///
    /// That moment is told in whole seconds, so what reached them within its second counts as there before.
    pub async fn look_back(
        &self,
        names: &[String],
        sent_at: DateTime<Utc>,
    ) -> Result<LookedBack, StoreError> {
        let seen = sqlx::query!(
            r#"-- look_back
            -- cross-shard: what a person was told is of jobs of every shard
            with told as materialized (
              select o.shard, o.job_id, o.notice_id, o.approval_id, coalesce(o.arrived_at, o.updated_at) as at
              from unnest($1::text[]) as n (name)
              cross join lateral (
                select o.shard, o.job_id, o.notice_id, o.approval_id, o.arrived_at, o.updated_at
                from longhaul.outbox o where o.recipient = n.name and o.delivery = 'sent'
                order by o.notice_id desc limit 20
              ) o
            )
            select (select t.approval_id from told t where t.at < $2::timestamptz + interval '1 second'
                order by t.at desc, t.notice_id desc limit 1) as last_asked,
              exists (select from told t join longhaul.approval a using (shard, job_id, approval_id)
                where a.closed_at > $2) as "was_closed!""#,
            names,
            sent_at,
        );
        let seen = bounded(seen.fetch_one(&self.pool)).await?;
        Ok(LookedBack { last_asked: seen.last_asked.map(ApprovalId), was_closed: seen.was_closed })
    }

    /// The notice whose message this is, if it is one of ours.
    pub async fn find_answered(&self, message_id: &str) -> Result<Option<Answered>, StoreError> {
        let found = sqlx::query!(
            "-- find_answered
            -- cross-shard: a message knows the id that its notice was given, and no job
            select o.shard, o.job_id, o.approval_id, o.recipient from longhaul.outbox o
            where o.provider_message_id = $1 limit 1",
            message_id,
        );
        let found = bounded(found.fetch_optional(&self.pool)).await?;
        Ok(found.map(|row| Answered {
            key: JobKey::new(&row.job_id),
            approval_id: row.approval_id.map(ApprovalId),
            recipient: row.recipient,
        }))
    }

    /// The approvals that wait for somebody of these names, newest first, up to so many.
    ///
    /// What they decided before is not walked through: the index holds what is pending alone.
    pub async fn pending_approvals(
        &self,
        names: &[String],
        limit: i64,
    ) -> Result<Vec<PendingApproval>, StoreError> {
        let rows = bounded(
            sqlx::query!(
                r#"-- pending_approvals
                -- cross-shard: what waits for a person is in one index
                with asked as materialized (
                  select a.shard, a.job_id, a.approval_id, a.asked_at, a.approvers from longhaul.approval a
                  where a.approvers && $1 and a.status = 'pending'
                )
                select a.job_id, a.approval_id, who.approvers as "approvers!", left(s.spec ->> 'task', 1000) as task,
                  s.spec ->> 'language' as language, arrived.at as arrived_at
                from asked a
                -- By its key: how jobs stand must not tempt into a walk through all that wait.
                cross join lateral (
                  select j.status, j.deadline_at, j.approval_id from longhaul.job j
                  where j.shard = a.shard and j.job_id = a.job_id offset 0
                ) j
                join longhaul.job_spec s on s.shard = a.shard and s.job_id = a.job_id
                cross join lateral (
                  select array_agg(n.name) as approvers from unnest($1::text[]) as n (name)
                  where n.name = any(a.approvers) and not exists (select from longhaul.decision d
                    where d.shard = a.shard and d.job_id = a.job_id and d.approval_id = a.approval_id and d.voter = n.name)
                ) who
                -- A message that was sent and of which nothing was told since counts from then on.
                left join lateral (
                  select min(coalesce(o.arrived_at, case when o.delivery = 'sent' then o.updated_at end)) as at
                  from longhaul.outbox o
                  where o.shard = a.shard and o.job_id = a.job_id and o.approval_id = a.approval_id
                    and o.recipient = any(who.approvers)
                ) arrived on true
                where j.approval_id = a.approval_id and who.approvers is not null
                  and (j.status = 'paused' or (j.status = 'awaiting_approval' and j.deadline_at > longhaul.now()))
                order by a.asked_at desc, a.approval_id limit $2"#,
                names,
                limit,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| PendingApproval {
                key: JobKey::new(&row.job_id),
                approval_id: ApprovalId(row.approval_id),
                approvers: row.approvers,
                task: row.task.unwrap_or_default(),
                language: row.language,
                arrived_at: row.arrived_at,
            })
            .collect())
    }
}
