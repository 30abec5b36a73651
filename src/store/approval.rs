//! Approvals: every door's decision goes through `decide`, and a link's page is read here.
//!
//! How an approval stands and who has voted is read after the job's row was read or locked, by a statement of its own,
//! so that it sees what was committed before; what is committed later changes the row, and is noticed by that.

mod link;

pub mod outline;

mod revision;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use self::revision::read_shown;
use super::asked::KnownVote;
use super::control::{Request, find_answer};
use super::transition::{Acted, FoundApproval, lock, look_at_vote};
use super::writer::Work;
use super::{Store, StoreError, bounded, check_version, read_json, retried};
use crate::domain::approval::{ApprovalStatus, Door, Token, Verdict};
use crate::domain::decide::meant_approval;
use crate::domain::event::Decision;
use crate::domain::id::{ApprovalId, ExecutorId, JobKey};
use crate::domain::job::{Citation, JobState, Status};
use crate::domain::money::Usd;
use crate::domain::spec::Spec;
use crate::domain::state::{self, Action, Ballot};

/// A decision as it comes in through a door.
#[derive(Clone, Debug)]
pub struct Vote {
    /// The approval that is meant; none means the only one the job has asked.
    pub approval_id: Option<ApprovalId>,
    /// What is decided.
    pub verdict: Verdict,
    /// Who decides.
    pub voter: String,
    /// The door.
    pub door: Door,
    /// What they say.
    pub comment: String,
    /// Through which link (by its hash), or from which number or id.
    pub via: Option<String>,
    /// What they make of what was shown to them, if they edited it.
    pub edited_output: Option<String>,
}

/// What an approval link opens.
#[derive(Clone, Debug)]
pub struct LinkedApproval {
    /// The job.
    pub key: JobKey,
    /// Its row.
    pub state: JobState,
    /// Its specification.
    pub spec: Spec,
    /// The approval.
    pub approval_id: ApprovalId,
    /// The approval step.
    pub step: i32,
    /// How the approval stands.
    pub status: ApprovalStatus,
    /// How many must approve.
    pub quorum: i32,
    /// Who decides through this link.
    pub approver: String,
    /// Which button comes first.
    pub first: Verdict,
    /// The votes so far, oldest first.
    pub decisions: Vec<Decision>,
    /// What is to be decided on: the output of the last run step before the approval.
    pub draft: Option<String>,
    /// What that cites.
    pub citations: Vec<Citation>,
    /// How often the step has been sent back.
    pub revisions: i32,
    /// Whether its approver has edited what was shown, which the pending approval is about.
    pub has_edited: bool,
    /// What the job has cost so far.
    pub cost_usd: Usd,
    /// Whether some of its calls have no known cost.
    pub cost_is_partial: bool,
    /// When the job was submitted.
    pub created_at: DateTime<Utc>,
    /// The time now.
    pub now: DateTime<Utc>,
}

impl Store {
    /// Takes a decision, whichever door it comes through; the job goes on in the hands of the claimer if there is one.
    pub async fn decide(
        &self,
        key: &JobKey,
        vote: &Vote,
        request: Option<&Request>,
        claimer: Option<ExecutorId>,
    ) -> Result<Acted, StoreError> {
        if request.is_none() && !vote.needs_more() {
            if let Some(acted) = self.decide_known(key, vote, claimer).await? {
                return Ok(acted);
            }
            if let Some(acted) = self.decide_unlocked(key, vote, claimer).await? {
                return Ok(acted);
            }
        }
        retried(|| self.decide_once(key, vote, request, claimer)).await
    }

    /// Without a look, if this process had the approval asked and nothing has happened to the job since.
    async fn decide_known(
        &self,
        key: &JobKey,
        vote: &Vote,
        claimer: Option<ExecutorId>,
    ) -> Result<Option<Acted>, StoreError> {
        let Some((job, ballot)) = self.asked.take(key, vote) else { return Ok(None) };
        let known = KnownVote { job: Arc::clone(&job), ballot, claimer };
        let written = self.write_soon(key, Work::Vote(Box::new(known)), Vec::new()).await?;
        Ok(written.map(|moved| {
            let (state, spec) = (moved.transition.state, &job.spec);
            self.asked.note(key, &state, spec, job.traceparent.as_deref());
            Acted::after(key, false, state, Arc::clone(spec), job.traceparent.clone())
        }))
    }

    /// Without the lock, if nothing else happens to the job meanwhile: each vote changes its row.
    async fn decide_unlocked(
        &self,
        key: &JobKey,
        vote: &Vote,
        claimer: Option<ExecutorId>,
    ) -> Result<Option<Acted>, StoreError> {
        let (seen, ballot) = bounded(async {
            let mut connection = self.pool.acquire().await?;
            let (seen, found) =
                look_at_vote(&mut connection, key, vote.approval_id, claimer).await?;
            let meant = meant_approval(&seen.state, vote.approval_id)?;
            Ok::<_, StoreError>((seen, ballot(key, meant, found, vote)?))
        })
        .await?;
        let action = Action::Vote(ballot);
        let decided = state::next(&seen.state, &seen.spec, action, &vote.voter, seen.now);
        self.commit_unlocked(key, seen, decided).await
    }

    async fn decide_once(
        &self,
        key: &JobKey,
        vote: &Vote,
        request: Option<&Request>,
        claimer: Option<ExecutorId>,
    ) -> Result<Acted, StoreError> {
        let mut tx = self.pool.begin().await?;
        let locked = lock(&mut tx, key, claimer).await?;
        if let Some(changed) = find_answer(&mut tx, key, request).await? {
            return Ok(Acted::before(locked.state, changed));
        }
        let meant = match meant_approval(&locked.state, vote.approval_id) {
            Ok(meant) => meant,
            Err(refusal) => {
                return self.commit(tx, key, locked, Err(refusal), request).await;
            }
        };
        let mut ballot = read_ballot(&mut tx, key, meant, vote).await?;
        if vote.needs_more() {
            read_shown(&mut tx, key, &locked, &mut ballot).await?;
        }
        let action = Action::Vote(ballot);
        let decided = state::next(&locked.state, &locked.spec, action, &vote.voter, locked.now);
        self.commit(tx, key, locked, decided, request).await
    }

    /// The approval behind a link, if the token opens one.
    pub async fn find_linked_approval(
        &self,
        token: &Token,
    ) -> Result<Option<LinkedApproval>, StoreError> {
        let mut tx = self.snapshot().await?;
        let Some(row) = sqlx::query!(
            r#"-- find_linked_approval
            select j.job_id, to_jsonb(j) as "state!", s.spec, j.spec_version,
              a.approval_id, a.step, a.status, a.quorum, l.approver, l.verdict, j.created_at,
              d.output as "draft?", d.citations as "citations?",
              (select count(*)::integer from longhaul.approval b
               where b.shard = a.shard and b.job_id = a.job_id and b.step = a.step
                 and b.status = 'changes_requested') as "revisions!",
              exists (select from longhaul.decision e
                where e.shard = j.shard and e.job_id = j.job_id and e.approval_id = j.approval_id
                  and e.voter = l.approver and e.edited) as "has_edited!",
              (select coalesce(sum(m.cost_usd), 0) from longhaul.model_call m
               where m.shard = j.shard and m.job_id = j.job_id) as "cost_usd!",
              exists (select from longhaul.model_call m where m.shard = j.shard and m.job_id = j.job_id
                and m.cost_usd is null and m.outcome not in ('started', 'batched')) as "cost_is_partial!",
              longhaul.now() as "now!"
            from longhaul.approval_link l
            join longhaul.approval a using (shard, job_id, approval_id)
            join longhaul.job j using (shard, job_id)
            join longhaul.job_spec s using (shard, job_id)
            -- What is decided on: the last output before the approval, as it is now.
            left join lateral (
              select c.output, c.citations from longhaul.checkpoint c
              where c.shard = j.shard and c.job_id = j.job_id and c.step < a.step
                and c.revision <= a.revision and c.output is not null
              order by c.step desc, c.revision desc limit 1
            ) d on true
            where l.shard = $1 and l.token_hash = $2 and l.revoked_at is null"#,
            token.shard(),
            token.hash(),
        )
        .fetch_optional(&mut *tx)
        .await?
        else {
            return Ok(None);
        };
        let key = JobKey::new(&row.job_id);
        check_version(&key, row.spec_version)?;
        let approval_id = ApprovalId(row.approval_id);
        let decisions = read_decisions(&mut tx, &key, approval_id).await?;
        Ok(Some(LinkedApproval {
            key,
            state: read_json("job", row.state)?,
            spec: read_json("job_spec", row.spec)?,
            approval_id,
            step: row.step,
            status: word("approval", &row.status)?,
            quorum: row.quorum,
            approver: row.approver,
            first: word("approval_link", &row.verdict)?,
            decisions,
            draft: row.draft,
            citations: read_json("checkpoint", row.citations.unwrap_or_else(|| json!([])))?,
            revisions: row.revisions,
            has_edited: row.has_edited,
            cost_usd: Usd::from(row.cost_usd),
            cost_is_partial: row.cost_is_partial,
            created_at: row.created_at,
            now: row.now,
        }))
    }
}

impl Vote {
    /// Whether it takes more than the approval to judge it.
    fn needs_more(&self) -> bool {
        self.verdict == Verdict::RequestChanges || self.edited_output.is_some()
    }
}

impl LinkedApproval {
    /// Whether a decision can still be made.
    pub fn is_open(&self) -> bool {
        let is_pending = self.state.approval_id == Some(self.approval_id);
        is_pending && !self.state.is_past_deadline(self.now)
    }

    /// Whether the job is held, so that a decision is kept until it goes on.
    pub fn is_paused(&self) -> bool {
        self.state.status == Status::Paused
    }
}

async fn read_ballot(
    tx: &mut PgConnection,
    key: &JobKey,
    meant: Option<ApprovalId>,
    vote: &Vote,
) -> Result<Ballot, StoreError> {
    let row = sqlx::query!(
        r#"-- read_ballot
        select a.approval_id, a.status,
          (select coalesce(jsonb_agg(jsonb_build_array(d.voter, d.verdict)), '[]') from longhaul.decision d
           where d.shard = a.shard and d.job_id = a.job_id and d.approval_id = a.approval_id) as "votes!: Json<Vec<(String, Verdict)>>"
        from longhaul.approval a
        where a.shard = $1 and a.job_id = $2 and ($3::uuid is null or a.approval_id = $3)
        limit 1"#,
        key.shard(),
        key.job_id(),
        meant.map(|approval_id| approval_id.0),
    )
    .fetch_optional(tx)
    .await?;
    ballot(key, meant, row.map(|row| (row.approval_id, row.status, row.votes)), vote)
}

fn ballot(
    key: &JobKey,
    meant: Option<ApprovalId>,
    found: Option<FoundApproval>,
    vote: &Vote,
) -> Result<Ballot, StoreError> {
    let (approval_id, status, votes) = found.ok_or_else(|| {
        let approval_id = meant.unwrap_or(ApprovalId(Uuid::nil()));
        StoreError::ApprovalNotFound { key: key.clone(), approval_id }
    })?;
    Ok(Ballot {
        approval_id: ApprovalId(approval_id),
        status: word("approval", &status)?,
        votes: votes.0,
        verdict: vote.verdict,
        voter: vote.voter.clone(),
        door: vote.door,
        comment: vote.comment.clone(),
        via: vote.via.clone(),
        edited_output: vote.edited_output.clone(),
        shown: None,
        revisions: 0,
        has_edited: false,
    })
}

/// The votes of an approval, oldest first.
pub(super) async fn read_decisions(
    connection: &mut PgConnection,
    key: &JobKey,
    approval_id: ApprovalId,
) -> Result<Vec<Decision>, StoreError> {
    let rows = sqlx::query!(
        r#"-- read_decisions
        select voter, verdict, coalesce(came_by, door) as "door!", comment, edited, decided_at from longhaul.decision
        where shard = $1 and job_id = $2 and approval_id = $3
        order by decided_at, voter"#,
        key.shard(),
        key.job_id(),
        approval_id.0,
    )
    .fetch_all(connection)
    .await?;
    let decisions = rows.into_iter().map(|row| {
        Ok(Decision {
            verdict: word("decision", &row.verdict)?,
            voter: row.voter,
            door: word("decision", &row.door)?,
            comment: row.comment,
            edited: row.edited,
            via: None,
            decided_at: row.decided_at,
        })
    });
    decisions.collect()
}

/// Reads a word of a closed list.
pub(super) fn word<T: crate::domain::word::Word>(
    table: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    let what = || StoreError::Corrupt { table, what: format!("unknown word {text:?}") };
    T::find_by_word(text).ok_or_else(what)
}
