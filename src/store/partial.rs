//! Partial answers: what is kept of answers that are not whole, for whoever shows them or goes on with them.
//!
//! Their text was put into the ledger by whoever heard it, every few seconds and when its call ended.
//! It is only read here, by those who cannot hear it themselves: other servers while it is on its way, and the next
//! attempt once it was broken off.

use super::{Store, StoreError, bounded};
use crate::domain::id::{CallId, JobKey};

/// What somebody knows of the answer of a running job.
#[derive(Clone, Debug)]
pub struct KnownPartial {
    /// The job.
    pub key: JobKey,
    /// The revision, step and attempt of which something is known.
    pub place: (i32, i32, i32),
    /// How many characters.
    pub chars: i32,
}

/// What is kept of the answer of a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPartial {
    /// The revision, step and attempt at hand.
    pub place: (i32, i32, i32),
    /// What is not known of its text; all of it, if that is of another attempt.
    pub text: String,
}

/// What was broken off in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The text, with what it had been gone on from.
    pub text: String,
    /// How often the step's answer was broken off with some text.
    pub times: i64,
}

impl Store {
    /// What is kept of the answers of these jobs, in their order; nothing of a job that is not running.
    pub async fn partial_answers(
        &self,
        known: &[KnownPartial],
    ) -> Result<Vec<Option<KeptPartial>>, StoreError> {
        let shards: Vec<i16> = known.iter().map(|known| known.key.shard()).collect();
        let job_ids: Vec<String> = known.iter().map(|k| k.key.job_id().to_owned()).collect();
        let revisions: Vec<i32> = known.iter().map(|known| known.place.0).collect();
        let steps: Vec<i32> = known.iter().map(|known| known.place.1).collect();
        let attempts: Vec<i32> = known.iter().map(|known| known.place.2).collect();
        let chars: Vec<i32> = known.iter().map(|known| known.chars).collect();
        let rows = bounded(
            sqlx::query!(
                r#"-- partial_answers
                select f.number as "number!", j.revision, j.current_step, j.attempt, m.text as "text?"
                from unnest($1::smallint[], $2::text[], $3::integer[], $4::integer[], $5::integer[], $6::integer[])
                  with ordinality as f (shard, job_id, revision, step, attempt, chars, number)
                join longhaul.job j on j.shard = f.shard and j.job_id = f.job_id and j.status = 'running'
                left join lateral (
                  select substr(m.partial_output, 1 + case
                    when (j.revision, j.current_step, j.attempt) = (f.revision, f.step, f.attempt) then f.chars
                    else 0 end) as text
                  from longhaul.model_call m
                  where m.shard = j.shard and m.job_id = j.job_id and m.attempt_id = j.attempt_id
                    and m.partial_output is not null
                  order by m.started_at desc, m.call_id desc limit 1) m on true"#,
                &shards,
                &job_ids,
                &revisions,
                &steps,
                &attempts,
                &chars,
            )
            .fetch_all(&self.pool),
        )
        .await?;
        let mut kept = vec![None; known.len()];
        for row in rows {
            let at = usize::try_from(row.number).ok().and_then(|number| number.checked_sub(1));
            if let Some(kept) = at.and_then(|at| kept.get_mut(at)) {
                let place = (row.revision, row.current_step, row.attempt);
                *kept = Some(KeptPartial { place, text: row.text.unwrap_or_default() });
            }
        }
        Ok(kept)
    }

    /// What earlier attempts at a step left of an answer, if they left any text; the call at hand is none of them.
    pub async fn find_interrupted(
        &self,
        key: &JobKey,
        step: i32,
        revision: i32,
        call_id: CallId,
    ) -> Result<Option<Interrupted>, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- interrupted_answer
                select m.partial_output as "text!",
                  -- A call that was answered was gone on with at once.
                  count(*) filter (where m.outcome <> 'answered') over () as "times!"
                from longhaul.model_call m
                where m.shard = $1 and m.job_id = $2 and m.step = $3 and m.revision = $4 and m.call_id <> $5
                  and btrim(m.partial_output, e' \n\r\t') <> ''
                order by m.started_at desc, m.call_id desc limit 1"#,
                key.shard(),
                key.job_id(),
                step,
                revision,
                call_id.0,
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        Ok(row.map(|row| Interrupted { text: row.text, times: row.times }))
    }
}
