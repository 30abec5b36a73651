//! Events: a job's history, read in order from any point.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::PgPool;
use sqlx::types::Json;

use super::StoreError;
use super::approval::word;
use super::tombstone::not_found;
use crate::domain::event::{Detail, Event, EventKind};
use crate::domain::id::JobKey;
use crate::domain::job::{Citation, Reason};
use crate::domain::money::{Usage, Usd};
use crate::domain::state::{Checkpoint, Transition};

/// The most characters of an output that an event carries.
pub const OUTPUT_CHARS_MAX: i32 = 16 << 10;
/// The most events of one page.
pub(super) const PAGE: i64 = 200;

/// An event with the result of the step it finished.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// The event.
    pub event: Event,
    /// The result, if it finished a step.
    pub finished: Option<FinishedStep>,
}

/// The result of a finished step, its output cut.
#[derive(Clone, Debug, Default)]
pub struct FinishedStep {
    /// The output, for a run step.
    pub output: Option<String>,
    /// Whether there is more of it.
    pub output_cut: bool,
    /// What it cites.
    pub citations: Vec<Citation>,
    /// What the successful attempt used.
    pub usage: Option<Usage>,
    /// What that cost.
    pub cost_usd: Option<Usd>,
    /// The model.
    pub model: Option<String>,
    /// Why it stopped.
    pub stop_reason: Option<String>,
    /// When the step was begun.
    pub started_at: Option<DateTime<Utc>>,
}

impl StoredEvent {
    /// What a transition tells, as a read would find it.
    pub(super) fn told_by(transition: &Transition) -> Vec<Arc<Self>> {
        let finished = |event: &Event| {
            let is_of = |done: &&Checkpoint| {
                (done.step, done.revision) == (event.step, event.revision)
                    && event.kind == EventKind::StepFinished
            };
            transition.checkpoints.iter().find(is_of).map(FinishedStep::of)
        };
        let told = transition.events.iter();
        told.map(|event| Arc::new(Self { event: event.clone(), finished: finished(event) }))
            .collect()
    }
}

impl FinishedStep {
    fn of(done: &Checkpoint) -> Self {
        let started_at = Some(done.started_at);
        let Some(result) = &done.result else { return Self { started_at, ..Self::default() } };
        let end = result.output.char_indices().nth(OUTPUT_CHARS_MAX as usize);
        let output = end.map_or(result.output.as_str(), |(end, _)| &result.output[..end]);
        Self {
            output: Some(output.to_owned()),
            output_cut: end.is_some(),
            citations: result.citations.clone(),
            usage: Some(result.usage),
            cost_usd: result.cost_usd,
            model: Some(result.model.clone()),
            stop_reason: Some(result.stop_reason.clone()),
            started_at,
        }
    }
}

/// A page of a job's history.
#[derive(Clone, Debug)]
pub struct History {
    /// The events, in order.
    pub events: Vec<Arc<StoredEvent>>,
    /// The sequence of the job's last event, in the same snapshot.
    pub last_sequence: i32,
    /// Whether the job had ended, in the same snapshot.
    pub has_ended: bool,
}

impl History {
    /// What a transition adds to it, as a read would find it.
    pub(super) fn told_by(transition: &Transition) -> Self {
        Self {
            events: StoredEvent::told_by(transition),
            last_sequence: transition.state.last_sequence,
            has_ended: transition.state.finished_at.is_some(),
        }
    }
}

/// Up to so many events after a sequence.
pub(super) async fn read_history(
    pool: &PgPool,
    key: &JobKey,
    after_sequence: i32,
    limit: i64,
) -> Result<History, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"-- history
            select j.last_sequence, j.finished_at is not null as "has_ended!",
              e.sequence as "sequence?", e.occurred_at as "occurred_at?", e.kind as "kind?",
              e.status as "status?", e.reason, e.step as "step?", e.revision as "revision?",
              e.attempt as "attempt?", e.actor as "actor?", e.message as "message?",
              e.detail as "detail: Json<Detail>",
              left(c.output, $5) as output, length(c.output) > $5 as output_cut,
              c.citations as "citations: Json<Vec<Citation>>", c.usage as "usage: Json<Usage>", c.cost_usd,
              c.model, c.stop_reason, c.started_at as "started_at?"
            from longhaul.job j
            left join lateral (
              select e.sequence, e.occurred_at, e.kind, e.status, e.reason, e.step, e.revision, e.attempt,
                e.actor, e.message, e.detail
              from longhaul.event e
              where e.shard = j.shard and e.job_id = j.job_id and e.sequence > $3
              order by e.sequence limit $4
            ) e on true
            left join longhaul.checkpoint c on c.shard = j.shard and c.job_id = j.job_id
              and c.step = e.step and c.revision = e.revision and e.kind = 'step_finished'
            where j.shard = $1 and j.job_id = $2
            order by e.sequence"#,
        key.shard(),
        key.job_id(),
        after_sequence,
        limit,
        OUTPUT_CHARS_MAX,
    )
    .fetch_all(pool)
    .await?;
    let Some(first) = rows.first() else { return Err(not_found(pool, key).await) };
    let (last_sequence, has_ended) = (first.last_sequence, first.has_ended);
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        // A job without further events is one row without an event.
        let Some(event) = row.into_event()? else { break };
        events.push(Arc::new(event));
    }
    Ok(History { events, last_sequence, has_ended })
}

/// A job with one of its events, or with none.
struct Row {
    last_sequence: i32,
    has_ended: bool,
    sequence: Option<i32>,
    occurred_at: Option<DateTime<Utc>>,
    kind: Option<String>,
    status: Option<String>,
    reason: Option<String>,
    step: Option<i32>,
    revision: Option<i32>,
    attempt: Option<i32>,
    actor: Option<String>,
    message: Option<String>,
    detail: Option<Json<Detail>>,
    output: Option<String>,
    output_cut: Option<bool>,
    citations: Option<Json<Vec<Citation>>>,
    usage: Option<Json<Usage>>,
    cost_usd: Option<Decimal>,
    model: Option<String>,
    stop_reason: Option<String>,
    started_at: Option<DateTime<Utc>>,
}

impl Row {
    fn into_event(self) -> Result<Option<StoredEvent>, StoreError> {
        let (Some(sequence), Some(occurred_at), Some(kind), Some(status)) =
            (self.sequence, self.occurred_at, self.kind, self.status)
        else {
            return Ok(None);
        };
        let reason = self.reason.map(|reason| word::<Reason>("event", &reason)).transpose()?;
        let event = Event {
            sequence,
            occurred_at,
            kind: word("event", &kind)?,
            status: word("event", &status)?,
            reason,
            step: self.step.unwrap_or_default(),
            revision: self.revision.unwrap_or_default(),
            attempt: self.attempt.unwrap_or_default(),
            actor: self.actor.unwrap_or_default(),
            message: self.message.unwrap_or_default(),
            detail: self.detail.map(|detail| detail.0),
        };
        let finished = self.started_at.map(|started_at| FinishedStep {
            output: self.output,
            output_cut: self.output_cut.unwrap_or(false),
            citations: self.citations.map(|citations| citations.0).unwrap_or_default(),
            usage: self.usage.map(|usage| usage.0),
            cost_usd: self.cost_usd.map(Usd::from),
            model: self.model,
            stop_reason: self.stop_reason,
            started_at: Some(started_at),
        });
        Ok(Some(StoredEvent { event, finished }))
    }
}
