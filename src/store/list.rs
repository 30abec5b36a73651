//! Lists: pages of jobs, newest first, stable while jobs are added.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::Deserialize as _;
use serde_json::Value;
use sqlx::types::Json;

use super::job::{JobView, Spent};
use super::{Store, StoreError, read_json};
use crate::domain::id::{JobKey, find_job_id_fault};
use crate::domain::job::{JobState, Status};
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::{self, Spec};
use crate::domain::word::Word;

/// Which jobs; everything that is set must match.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// Any of these; none means any.
    pub statuses: Vec<Status>,
    /// All of these.
    pub labels: BTreeMap<String, String>,
}

/// The place in the list after which a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    created_at: DateTime<Utc>,
    job_id: String,
}

impl Cursor {
    /// The token that stands for the place.
    pub fn token(&self) -> String {
        let place = format!("{} {}", self.created_at.timestamp_micros(), self.job_id);
        URL_SAFE_NO_PAD.encode(place)
    }

    /// The place that a token stands for, if it is one of ours.
    pub fn parse(token: &str) -> Option<Self> {
        let place = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let (micros, job_id) = place.split_once(' ')?;
        let created_at = DateTime::from_timestamp_micros(micros.parse().ok()?)?;
        if find_job_id_fault(job_id).is_some() {
            return None;
        }
        Some(Self { created_at, job_id: job_id.to_owned() })
    }

    /// The place of a job.
    pub fn of(view: &JobView) -> Self {
        Self { created_at: view.created_at, job_id: view.key.job_id().to_owned() }
    }
}

impl Store {
    /// Up to so many jobs after a place in the list, without the outputs of their steps.
    pub async fn list(
        &self,
        selector: &Selector,
        after: Option<&Cursor>,
        limit: i64,
    ) -> Result<Vec<JobView>, StoreError> {
        let statuses: Vec<String> = selector.statuses.iter().map(Word::word).collect();
        let labels = serde_json::to_value(&selector.labels).unwrap_or_default();
        let mut tx = self.pool.begin().await?;
        // Which index serves best depends on what is asked for.
        sqlx::query!("-- plan_for_these_values\nset local plan_cache_mode = force_custom_plan")
            .execute(&mut *tx)
            .await?;
        let rows = sqlx::query_as!(
            Row,
            r#"-- list
            -- cross-shard: a list shows jobs of every shard
            select j.job_id, to_jsonb(j) as "state!", j.spec_version, s.labels, j.created_at,
              case when j.spec_version <= $6 then (s.spec - 'steps') || '{"steps": []}'
                else s.spec -> 'task' end as spec,
              coalesce(j.lease_expires_at, e.lease_expires_at) as lease_expires_at,
              c.calls as "calls!", c.cost_usd as "cost_usd!", c.unpriced_calls as "unpriced_calls!",
              c.usage as "usage!: Json<Usage>",
              (select count(*)::integer from longhaul.outbox o
               where o.shard = j.shard and o.job_id = j.job_id
                 and coalesce(o.receipt, o.delivery) in ('failed', 'unconfirmed')) as "undelivered_notices!"
            from longhaul.job j
            join longhaul.job_spec s using (shard, job_id)
            left join longhaul.executor e on e.executor_id = j.executor_id
            cross join lateral (
              -- What its calls used, in all.
              select count(*)::integer as calls, coalesce(sum(m.cost_usd), 0) as cost_usd,
                (count(*) filter (where m.cost_usd is null and m.outcome not in ('started', 'batched')))::integer as unpriced_calls,
                longhaul.sum_usage(m.usage) as usage
              from longhaul.model_call m where m.shard = j.shard and m.job_id = j.job_id
            ) c
            where ($1::text[] = '{}' or j.status = any($1))
              and ($2::jsonb = '{}' or s.labels @> $2)
              and ($3::timestamptz is null or (j.created_at, j.job_id) < ($3, $4))
            order by j.created_at desc, j.job_id desc
            limit $5"#,
            &statuses,
            labels,
            after.map(|cursor| cursor.created_at),
            after.map(|cursor| cursor.job_id.as_str()),
            limit,
            spec::VERSION,
        )
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        rows.into_iter().filter_map(|row| row.into_view().transpose()).collect()
    }
}

/// A job as it is listed.
struct Row {
    job_id: String,
    state: Value,
    spec_version: i32,
    /// Of a newer release's job only the task.
    spec: Option<Value>,
    labels: Value,
    created_at: DateTime<Utc>,
    lease_expires_at: Option<DateTime<Utc>>,
    calls: i32,
    cost_usd: Decimal,
    unpriced_calls: i32,
    usage: Json<Usage>,
    undelivered_notices: i32,
}

impl Row {
    /// The job, if it can be shown.
    fn into_view(self) -> Result<Option<JobView>, StoreError> {
        let key = JobKey::new(&self.job_id);
        let (state, spec) = if self.spec_version <= spec::VERSION {
            let spec = read_json("job_spec", self.spec.unwrap_or_default())?;
            (read_json("job", self.state)?, spec)
        } else if let Some(outline) = find_outline(self.state, self.spec.as_ref(), self.labels) {
            outline
        } else {
            tracing::warn!(job_id = key.job_id(), "a job of a newer release cannot be listed");
            return Ok(None);
        };
        let spent = Spent {
            usage: self.usage.0,
            calls: self.calls,
            cost_usd: Usd::from(self.cost_usd),
            unpriced_calls: self.unpriced_calls,
        };
        Ok(Some(JobView {
            key,
            state,
            spec: Arc::new(spec),
            lease_expires_at: self.lease_expires_at,
            created_at: self.created_at,
            done: BTreeMap::new(),
            spent: BTreeMap::from([(0, spent)]),
            decisions: BTreeMap::new(),
            approval: None,
            notices: Vec::new(),
            undelivered_notices: self.undelivered_notices,
            partial_output: None,
        }))
    }
}

/// What can be shown of a job of a newer release: where it stands, its task and its labels.
fn find_outline(mut state: Value, task: Option<&Value>, labels: Value) -> Option<(JobState, Spec)> {
    if JobState::deserialize(&state).is_err() {
        // The lists of these words may be longer there.
        for name in ["reason", "last_error", "paused_from", "kept_verdict"] {
            state[name] = Value::Null;
        }
    }
    let task = task.and_then(Value::as_str).unwrap_or_default().to_owned();
    let spec = outline(task, serde_json::from_value(labels).unwrap_or_default());
    Some((serde_json::from_value(state).ok()?, spec))
}

/// The specification of a job of which only so much is known.
pub(super) fn outline(task: String, labels: BTreeMap<String, String>) -> Spec {
    Spec {
        task,
        steps: Vec::new(),
        system: None,
        max_attempts: 0,
        retry_window_seconds: 0,
        notify: Vec::new(),
        language: None,
        labels,
        priority: 0,
        run_at: None,
        budget_usd: None,
        webhooks: Vec::new(),
        at_endpoints: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_token_stands_for_its_place() {
        let created_at = DateTime::from_timestamp_micros(1_764_439_000_123_456).expect("a time");
        let cursor = Cursor { created_at, job_id: "记账 1".to_owned() };
        assert_eq!(Cursor::parse(&cursor.token()), Some(cursor));
        for bad in ["", "!", "bm90IGEgcGxhY2U", "MTIz"] {
            assert_eq!(Cursor::parse(bad), None, "{bad:?}");
        }
    }
}
