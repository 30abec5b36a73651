//! Lists: pages of jobs, newest first, stable while jobs are added.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use sqlx::types::Json;

use super::job::{JobView, Spent};
use super::{Store, StoreError};
use crate::domain::id::{JobKey, find_job_id_fault};
use crate::domain::job::{JobState, Status};
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::Spec;
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
        let rows = sqlx::query!(
            r#"-- list
            -- cross-shard: a list shows jobs of every shard
            select j.job_id, to_jsonb(j) as "state!: Json<JobState>", (s.spec - 'steps') || '{"steps": []}' as "spec!: Json<Spec>",
              j.created_at, coalesce(j.lease_expires_at, e.lease_expires_at) as lease_expires_at,
              c.calls as "calls!", c.cost_usd as "cost_usd!", c.unpriced_calls as "unpriced_calls!",
              c.usage as "usage!: Json<Usage>"
            from longhaul.job j
            join longhaul.job_spec s using (shard, job_id)
            left join longhaul.executor e on e.executor_id = j.executor_id
            cross join lateral (
              -- What its calls used, in all.
              select count(*)::integer as calls, coalesce(sum(m.cost_usd), 0) as cost_usd,
                (count(*) filter (where m.cost_usd is null and m.outcome <> 'started'))::integer as unpriced_calls,
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
        )
        .fetch_all(&self.pool)
        .await?;
        let views = rows.into_iter().map(|row| {
            let spent = Spent {
                usage: row.usage.0,
                calls: row.calls,
                cost_usd: Usd::from(row.cost_usd),
                unpriced_calls: row.unpriced_calls,
            };
            JobView {
                key: JobKey::new(&row.job_id),
                state: row.state.0,
                spec: row.spec.0,
                lease_expires_at: row.lease_expires_at,
                created_at: row.created_at,
                done: BTreeMap::new(),
                spent: BTreeMap::from([(0, spent)]),
                decisions: BTreeMap::new(),
                approval: None,
                notices: Vec::new(),
            }
        });
        Ok(views.collect())
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
