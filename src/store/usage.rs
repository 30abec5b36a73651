//! Usage: what the calls of a span of time used and cost, added up by day, model, label or job.
//!
//! In come a span, a grouping and a selector; out come a page of rows and the sum over all of them.
//! Every call in the ledger counts, whatever became of it; the ledger outlives its jobs, whose tombstones keep their labels.
//! All pages show what was known at one moment, so that they are stable while calls are added.

use std::str::FromStr as _;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::job::Spent;
use super::list::Selector;
use super::{Store, StoreError};
use crate::domain::money::{Usage, Usd};
use crate::domain::word::Word;

/// What each row of a report stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// A day in UTC.
    Day,
    /// A model that was asked.
    Model,
    /// A value of a label.
    Label,
    /// A job.
    Job,
    /// Everything together.
    None,
}

impl Word for Grouping {}

/// Which calls are added up, and how.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// Begun at this time or later; 30 days before the end, if not said.
    pub from_at: Option<DateTime<Utc>>,
    /// Begun before this time; now, if not said.
    pub before_at: Option<DateTime<Utc>>,
    /// What each row stands for.
    pub group_by: Grouping,
    /// The label, if that is a value of a label.
    pub label_key: String,
    /// Calls of which jobs.
    pub selector: Selector,
    /// After which place.
    pub after: Option<Place>,
    /// How many rows; the report has one more, if there is one.
    pub limit: i64,
}

/// The place in a report after which a page begins, and the moment the report shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    as_of: DateTime<Utc>,
    group_by: Grouping,
    rank: Decimal,
    key: String,
}

/// A page of a report.
#[derive(Clone, Debug)]
pub struct UsageReport {
    /// Its rows.
    pub rows: Vec<UsageLine>,
    /// The sum over the rows of all pages.
    pub total: UsageLine,
    /// Where it begins.
    pub from_at: DateTime<Utc>,
    /// Where it ends.
    pub before_at: DateTime<Utc>,
    as_of: DateTime<Utc>,
    group_by: Grouping,
}

/// What the calls of one group used.
#[derive(Clone, Debug, Default)]
pub struct UsageLine {
    /// The day, model, value or job; empty for a sum.
    pub key: String,
    /// What they used and cost.
    pub spent: Spent,
    /// How many of them had a server that died.
    pub lost_calls: i32,
}

impl Place {
    /// The token that stands for the place.
    pub fn token(&self) -> String {
        let (micros, group) = (self.as_of.timestamp_micros(), self.group_by.word());
        URL_SAFE_NO_PAD.encode(format!("{micros} {group} {} {}", self.rank, self.key))
    }

    /// The place that a token stands for, if it is one of ours and of such a report.
    pub fn parse(token: &str, group_by: Grouping) -> Option<Self> {
        let place = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let mut parts = place.splitn(4, ' ');
        let as_of = DateTime::from_timestamp_micros(parts.next()?.parse().ok()?)?;
        let group = Grouping::find_by_word(parts.next()?).filter(|group| *group == group_by)?;
        let rank = Decimal::from_str(parts.next()?).ok()?;
        let key = parts.next().filter(|key| !key.contains('\0'))?.to_owned();
        Some(Self { as_of, group_by: group, rank, key })
    }
}

impl UsageReport {
    /// The place after a row of this page.
    pub fn place_of(&self, line: &UsageLine) -> Place {
        let rank = match self.group_by {
            Grouping::Day => Decimal::ZERO,
            Grouping::Model | Grouping::Label | Grouping::Job | Grouping::None => {
                Decimal::ZERO - line.spent.cost_usd.as_decimal()
            }
        };
        Place { as_of: self.as_of, group_by: self.group_by, rank, key: line.key.clone() }
    }
}

impl Store {
    /// A page of a report, with the sum over all of it.
    pub async fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        let mut tx = self.snapshot().await?;
        // It reads much at once, which is planned otherwise than looks by key, and may take longer than they.
        sqlx::raw_sql(
            "-- plan_a_report
            set local plan_cache_mode = force_custom_plan; set local statement_timeout = '20s';
            set local enable_seqscan = on; set local enable_hashjoin = on; set local enable_mergejoin = on;
            set local seq_page_cost = 1; set local random_page_cost = 1.1",
        )
        .execute(&mut *tx)
        .await?;
        let rows = read(&mut tx, query).await?;
        tx.commit().await?;
        report(rows, query.group_by)
    }
}

/// A line of the statement; the sum comes first and has no key.
struct Row {
    key: Option<String>,
    calls: i64,
    cost_usd: Decimal,
    unpriced_calls: i64,
    lost_calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    cache_write_5m_tokens: i64,
    cache_write_1h_tokens: i64,
    cache_read_tokens: i64,
    web_searches: i64,
    as_of: DateTime<Utc>,
    from_at: DateTime<Utc>,
    before_at: DateTime<Utc>,
}

async fn read(connection: &mut PgConnection, query: &UsageQuery) -> Result<Vec<Row>, StoreError> {
    let statuses: Vec<String> = query.selector.statuses.iter().map(Word::word).collect();
    let labels = serde_json::to_value(&query.selector.labels).unwrap_or_default();
    let after = query.after.as_ref();
    let rows = sqlx::query_as!(
        Row,
        r#"-- usage
        -- cross-shard: a report adds up the calls of every shard
        with moment as (select coalesce($1, longhaul.now()) as as_of),
        span as (
          select as_of, least(coalesce($3, as_of), as_of) as before_at,
            coalesce($2, least(coalesce($3, as_of), as_of) - interval '30 days') as from_at
          from moment
        ),
        call as (
          -- How a call ended that was settled later was not known at that moment.
          select case $4::text when 'day' then to_char(m.started_at at time zone 'UTC', 'YYYY-MM-DD')
              when 'model' then m.model when 'label' then coalesce(coalesce(s.labels, d.labels) ->> $5, '')
              when 'job' then m.job_id else '' end collate "C" as key,
            case when m.settled_at > (select as_of from span) then 'started' else m.outcome end as outcome,
            case when m.settled_at > (select as_of from span) then null else m.cost_usd end as cost_usd,
            case when m.settled_at > (select as_of from span) then null else m.usage end as usage
          from longhaul.model_call m
          left join longhaul.job j on j.shard = m.shard and j.job_id = m.job_id
          left join longhaul.job_spec s on s.shard = m.shard and s.job_id = m.job_id
          left join longhaul.tombstone d on d.shard = m.shard and d.job_id = m.job_id and j.job_id is null
          where m.started_at >= (select from_at from span) and m.started_at < (select before_at from span)
            and ($6::text[] = '{}' or coalesce(j.status, d.status) = any($6))
            and ($7::jsonb = '{}' or coalesce(s.labels, d.labels) @> $7)
            and ($11::timestamptz is null or coalesce(j.created_at, d.created_at) >= $11)
            and ($12::timestamptz is null or coalesce(j.created_at, d.created_at) < $12)
        ),
        line as (
          -- The sum over everything is a group as well, and is there also where nothing else is.
          select key, grouping(key) as is_total, count(*) as calls, coalesce(sum(cost_usd), 0) as cost_usd,
            case $4 when 'day' then 0 else -coalesce(sum(cost_usd), 0) end as rank,
            count(*) filter (where cost_usd is null and outcome not in ('started', 'batched')) as unpriced_calls,
            count(*) filter (where outcome = 'lost') as lost_calls,
            coalesce(sum((usage ->> 'input_tokens')::bigint), 0) as input_tokens,
            coalesce(sum((usage ->> 'output_tokens')::bigint), 0) as output_tokens,
            coalesce(sum((usage ->> 'cache_write_5m_tokens')::bigint), 0) as cache_write_5m_tokens,
            coalesce(sum((usage ->> 'cache_write_1h_tokens')::bigint), 0) as cache_write_1h_tokens,
            coalesce(sum((usage ->> 'cache_read_tokens')::bigint), 0) as cache_read_tokens,
            coalesce(sum((usage ->> 'web_searches')::bigint), 0) as web_searches
          from call group by grouping sets ((key), ())
        )
        select l.key, l.calls as "calls!", l.cost_usd as "cost_usd!", l.unpriced_calls as "unpriced_calls!",
          l.lost_calls as "lost_calls!", l.input_tokens::bigint as "input_tokens!",
          l.output_tokens::bigint as "output_tokens!", l.cache_write_5m_tokens::bigint as "cache_write_5m_tokens!",
          l.cache_write_1h_tokens::bigint as "cache_write_1h_tokens!",
          l.cache_read_tokens::bigint as "cache_read_tokens!", l.web_searches::bigint as "web_searches!",
          span.as_of as "as_of!", span.from_at as "from_at!", span.before_at as "before_at!"
        from line l cross join span
        where l.is_total = 1 or $8::numeric is null or (l.rank, l.key) > ($8, $9::text collate "C")
        -- The sum is one more row, and one beyond the page tells whether there is a next one.
        order by l.is_total desc, l.rank, l.key
        limit $10::bigint + 2"#,
        after.map(|place| place.as_of),
        query.from_at,
        query.before_at,
        query.group_by.word(),
        query.label_key,
        &statuses,
        labels,
        after.map(|place| place.rank),
        after.map(|place| place.key.as_str()),
        query.limit,
        query.selector.created_from,
        query.selector.created_before,
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

fn report(rows: Vec<Row>, group_by: Grouping) -> Result<UsageReport, StoreError> {
    let mut rows = rows.into_iter();
    let total = rows.next().filter(|first| first.key.is_none()).ok_or_else(|| {
        StoreError::Corrupt { table: "model_call", what: "its sum is missing".to_owned() }
    })?;
    let (as_of, from_at, before_at) = (total.as_of, total.from_at, total.before_at);
    let (rows, total) = (rows.map(UsageLine::from).collect(), total.into());
    Ok(UsageReport { rows, total, from_at, before_at, as_of, group_by })
}

impl From<Row> for UsageLine {
    fn from(row: Row) -> Self {
        let usage = Usage {
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cache_write_5m_tokens: row.cache_write_5m_tokens,
            cache_write_1h_tokens: row.cache_write_1h_tokens,
            cache_read_tokens: row.cache_read_tokens,
            web_searches: count(row.web_searches),
        };
        let spent = Spent {
            usage,
            calls: count(row.calls),
            cost_usd: Usd::from(row.cost_usd),
            unpriced_calls: count(row.unpriced_calls),
        };
        Self { key: row.key.unwrap_or_default(), spent, lost_calls: count(row.lost_calls) }
    }
}

/// A count as the messages carry it; two thousand million are as good as more.
fn count(of: i64) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_token_stands_for_its_place_in_its_own_report() {
        let as_of = DateTime::from_timestamp_micros(1_764_439_000_123_456).expect("a time");
        for (key, group_by) in [("记账 1", Grouping::Label), ("", Grouping::None)] {
            let rank = Decimal::new(-1_230_456, 7);
            let place = Place { as_of, group_by, rank, key: key.to_owned() };
            assert_eq!(Place::parse(&place.token(), group_by), Some(place.clone()));
            assert_eq!(Place::parse(&place.token(), Grouping::Day), None);
        }
        assert_eq!((Decimal::ZERO - Decimal::ZERO).to_string(), "0", "not -0, which is no number");
        for bad in ["", "!", "bm90IGEgcGxhY2U", "MTIz"] {
            assert_eq!(Place::parse(bad, Grouping::Day), None, "{bad:?}");
        }
    }
}
