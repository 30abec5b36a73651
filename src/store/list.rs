//! Lists: pages of jobs, newest first, stable while jobs are added, moved and deleted.
//!
//! In come a selector and the place after which a page begins; out come the places of the jobs that match, or the jobs.
//! A place is a job's time of submission and its id, which never change, so that no job is passed over or met twice.
//! Each status has an index that holds it, or is that of most jobs; which of them serves is planned for what is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;

use super::bulk::Aim;
use super::job::{JobView, Spent};
use super::{Store, StoreError, read_json};
use crate::domain::id::{JobKey, find_job_id_fault};
use crate::domain::job::{JobState, Status};
use crate::domain::money::{Usage, Usd};
use crate::domain::spec::{self, Spec};
use crate::domain::submission::fingerprint;
use crate::domain::word::Word;

/// Which jobs; everything that is set must match.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// Any of these; none means any.
    pub statuses: Vec<Status>,
    /// All of these.
    pub labels: BTreeMap<String, String>,
    /// Submitted at this time or later.
    pub created_from: Option<DateTime<Utc>>,
    /// Submitted before this time.
    pub created_before: Option<DateTime<Utc>>,
}

impl Selector {
    /// Whether nothing is set, so that it means every job there is.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty() && !self.is_narrow()
    }

    /// Whether it asks for more than statuses.
    pub fn is_narrow(&self) -> bool {
        !self.labels.is_empty() || self.created_from.is_some() || self.created_before.is_some()
    }

    /// Equal for two selectors that ask for the same in the same words, in whatever order.
    fn fingerprint(&self) -> String {
        let mut statuses: Vec<String> = self.statuses.iter().map(Word::word).collect();
        statuses.sort_unstable();
        statuses.dedup();
        let micros = |at: Option<DateTime<Utc>>| at.map(|at| at.timestamp_micros());
        let asked = json!({"statuses": statuses, "labels": self.labels,
            "from": micros(self.created_from), "before": micros(self.created_before)});
        URL_SAFE_NO_PAD.encode(&fingerprint(&asked)[..9])
    }
}

/// The place in the list after which a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    created_at: DateTime<Utc>,
    job_id: String,
}

/// A place that was read.
pub struct Listed {
    /// The place.
    pub place: Cursor,
    /// What stands there; nothing, if it is of a newer release and cannot be shown.
    pub job: Option<JobView>,
}

/// Before everything that a token of this release stands for; those of releases before begin with a number.
const MARK: &str = "s";

impl Cursor {
    /// The token that stands for the place in the list of this selector.
    pub fn token(&self, selector: &Selector) -> String {
        let (micros, selector) = (self.created_at.timestamp_micros(), selector.fingerprint());
        URL_SAFE_NO_PAD.encode(format!("{MARK} {selector} {micros} {}", self.job_id))
    }

    /// The place that a token stands for, or what is wrong with it: it is none of ours, or another selector's.
    ///
    /// One of the release before stands for its place in any list.
    pub fn parse(token: &str, selector: &Selector) -> Result<Self, &'static str> {
        let place = Self::read(token).ok_or("must be the next_page_token of the page before")?;
        match place {
            (Some(of), _) if of != selector.fingerprint() => {
                Err("belongs to another selector: send that of the page before, or no token")
            }
            (_, cursor) => Ok(cursor),
        }
    }

    /// The fingerprint of its selector, and the place.
    fn read(token: &str) -> Option<(Option<String>, Self)> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let (first, rest) = text.split_once(' ')?;
        let (selector, micros, job_id) = if first == MARK {
            let (selector, place) = rest.split_once(' ')?;
            let (micros, job_id) = place.split_once(' ')?;
            (Some(selector.to_owned()), micros, job_id)
        } else {
            (None, first, rest)
        };
        let created_at = DateTime::from_timestamp_micros(micros.parse().ok()?)?;
        if find_job_id_fault(job_id).is_some() {
            return None;
        }
        Some((selector, Self { created_at, job_id: job_id.to_owned() }))
    }

    /// The job in this place.
    pub fn key(&self) -> JobKey {
        JobKey::new(&self.job_id)
    }
}

impl Store {
    /// Up to so many places after one in the list, each with its job, without the outputs of its steps.
    pub async fn list(
        &self,
        selector: &Selector,
        after: Option<&Cursor>,
        limit: i64,
    ) -> Result<Vec<Listed>, StoreError> {
        let mut tx = self.snapshot().await?;
        let places = find(&mut tx, selector, None, after, limit).await?;
        // Both see the same, so that each place has its row.
        let rows = read(&mut tx, &places).await?;
        tx.commit().await?;
        let listed = places.into_iter().zip(rows);
        listed.map(|(place, row)| Ok(Listed { place, job: row.into_view()? })).collect()
    }

    /// The places of up to so many jobs that match, and to which something can be done.
    pub async fn find_jobs(
        &self,
        selector: &Selector,
        aim: Aim,
        after: Option<&Cursor>,
        limit: i64,
    ) -> Result<Vec<Cursor>, StoreError> {
        let mut tx = self.snapshot().await?;
        let places = find(&mut tx, selector, Some(aim), after, limit).await?;
        tx.commit().await?;
        Ok(places)
    }
}

/// The places of the jobs that match, newest first.
async fn find(
    connection: &mut PgConnection,
    selector: &Selector,
    aim: Option<Aim>,
    after: Option<&Cursor>,
    limit: i64,
) -> Result<Vec<Cursor>, StoreError> {
    let wanted = aim.map_or(selector.statuses.clone(), |aim| aim.narrow(&selector.statuses));
    let statuses: Vec<String> = wanted.iter().map(Word::word).collect();
    let labels = serde_json::to_value(&selector.labels).unwrap_or_default();
    // Which index serves best depends on what is asked for, and is judged by what reading costs.
    sqlx::raw_sql(
        "-- plan_a_list
        set local plan_cache_mode = force_custom_plan; set local statement_timeout = '20s';
        set local enable_seqscan = on; set local enable_hashjoin = on; set local enable_mergejoin = on;
        set local seq_page_cost = 1; set local random_page_cost = 1.1;
        set local cpu_index_tuple_cost = 0.005; set local cpu_operator_cost = 0.0025",
    )
    .execute(&mut *connection)
    .await?;
    let found = sqlx::query_as!(
        Cursor,
        r#"-- find_matching
        -- cross-shard: a list shows jobs of every shard
        select j.created_at, j.job_id
        from longhaul.job j join longhaul.job_spec s using (shard, job_id)
        where (
            $1::text[] = '{}'
            -- One by one, so that the planner sees which index holds nothing else. What is queued is in two of them.
            or ('queued' = any($1) and j.status = 'queued' and j.run_at is null)
            or ('queued' = any($1) and j.status = 'queued' and j.run_at is not null)
            or ('running' = any($1) and j.status = 'running')
            or ('awaiting_approval' = any($1) and j.status = 'awaiting_approval')
            or ('paused' = any($1) and j.status = 'paused')
            or ('completed' = any($1) and j.status = 'completed')
            or ('failed' = any($1) and j.status = 'failed')
            or ('cancelled' = any($1) and j.status = 'cancelled')
          )
          and ($2::jsonb = '{}' or s.labels @> $2)
          and ($3::timestamptz is null or j.created_at >= $3)
          and ($4::timestamptz is null or j.created_at < $4)
          and ($5::timestamptz is null or (j.created_at, j.job_id) < ($5, $6))
          -- Where nothing is left to do, nothing matches.
          and case $7::text
            when 'pause' then not j.pause_requested
            when 'resume' then j.status = 'paused' or j.pause_requested
              or ($8::numeric is not null and j.budget_usd::numeric is distinct from $8)
            else true end
        order by j.created_at desc, j.job_id desc
        limit $9"#,
        &statuses,
        labels,
        selector.created_from,
        selector.created_before,
        after.map(|cursor| cursor.created_at),
        after.map(|cursor| cursor.job_id.as_str()),
        aim.map(Aim::condition),
        aim.and_then(Aim::budget),
        limit,
    );
    Ok(found.fetch_all(connection).await?)
}

/// The jobs in these places, in the same order.
async fn read(connection: &mut PgConnection, places: &[Cursor]) -> Result<Vec<Row>, StoreError> {
    let keys: Vec<JobKey> = places.iter().map(Cursor::key).collect();
    let shards: Vec<i16> = keys.iter().map(JobKey::shard).collect();
    let job_ids: Vec<String> = keys.iter().map(|key| key.job_id().to_owned()).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"-- list
        select j.job_id, to_jsonb(j) as "state!", j.spec_version, s.labels, j.created_at,
          case when j.spec_version <= $3 then (s.spec - 'steps') || '{"steps": []}'
            else s.spec -> 'task' end as spec,
          coalesce(j.lease_expires_at, e.lease_expires_at) as lease_expires_at,
          c.calls as "calls!", c.cost_usd as "cost_usd!", c.unpriced_calls as "unpriced_calls!",
          c.usage as "usage!: Json<Usage>",
          (select count(*)::integer from longhaul.outbox o
           where o.shard = j.shard and o.job_id = j.job_id
             and coalesce(o.receipt, o.delivery) in ('failed', 'unconfirmed')) as "undelivered_notices!"
        from unnest($1::smallint[], $2::text[]) with ordinality p (shard, job_id, place)
        join longhaul.job j on j.shard = p.shard and j.job_id = p.job_id
        join longhaul.job_spec s on s.shard = p.shard and s.job_id = p.job_id
        left join longhaul.executor e on e.executor_id = j.executor_id
        cross join lateral (
          -- What its calls used, in all.
          select count(*)::integer as calls, coalesce(sum(m.cost_usd), 0) as cost_usd,
            (count(*) filter (where m.cost_usd is null and m.outcome not in ('started', 'batched')))::integer as unpriced_calls,
            longhaul.sum_usage(m.usage) as usage
          from longhaul.model_call m where m.shard = j.shard and m.job_id = j.job_id
        ) c
        order by p.place"#,
        &shards,
        &job_ids,
        spec::VERSION,
    );
    Ok(rows.fetch_all(connection).await?)
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

    fn cursor() -> Cursor {
        let created_at = DateTime::from_timestamp_micros(1_764_439_000_123_456).expect("a time");
        Cursor { created_at, job_id: "记账 1".to_owned() }
    }

    #[test]
    fn a_page_token_stands_for_its_place_in_its_own_list() {
        let of =
            |statuses: &[Status]| Selector { statuses: statuses.to_vec(), ..Selector::default() };
        let mine = of(&[Status::Failed, Status::Cancelled]);
        let token = cursor().token(&mine);
        assert_eq!(Cursor::parse(&token, &mine), Ok(cursor()));
        // The same in another order is the same.
        let twice = of(&[Status::Cancelled, Status::Failed, Status::Failed]);
        assert_eq!(Cursor::parse(&token, &twice), Ok(cursor()));
        let created_from = Some(cursor().created_at);
        for other in [of(&[]), of(&[Status::Failed]), Selector { created_from, ..mine.clone() }] {
            let why = Cursor::parse(&token, &other).expect_err("another list's");
            assert!(why.contains("another selector"), "{why}");
        }
        for bad in ["", "!", "bm90IGEgcGxhY2U", "MTIz", "cyBh", "cyBhIDEy"] {
            assert!(Cursor::parse(bad, &mine).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_token_of_the_release_before_goes_on_in_any_list() {
        let token = URL_SAFE_NO_PAD.encode("1764439000123456 记账 1");
        assert_eq!(Cursor::parse(&token, &Selector::default()), Ok(cursor()));
    }
}
