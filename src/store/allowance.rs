//! The allowance: what is left of a day's budget, which all servers draw in lots from one row per day in UTC.
//!
//! A draw is one guarded statement, so that never more is drawn than the budget. What a server gives back is there for
//! all again; what a dead one had drawn stays drawn until the day is over.
//! A job whose call is not covered is parked until the next day; the first of a day has the operators told, in the
//! transaction that parks it. Where money comes free, or the budget is raised, parked jobs are let go on before that.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, Utc};
use rust_decimal::Decimal;

use super::claim::Claimed;
use super::ledger::{CallEnd, Line};
use super::transition::lock;
use super::write::write;
use super::{Store, StoreError, bounded, retried};
use crate::domain::job::{Failure, JobState};
use crate::domain::money::Usd;
use crate::domain::spec;
use crate::domain::state::{self, Action};

/// The jobs that were put off go on within so long after midnight: not all at once.
const SPREAD: TimeDelta = TimeDelta::minutes(1);
/// How often jobs that were put off are let go on, at the most: those before are to have drawn what they need.
const TURN_SECONDS: f64 = 2.0;
/// The most jobs that one look finds.
pub const LOOK_MAX: i64 = 500;

/// What became of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// So much of this day's budget is in the hands of this server.
    Lot { day: NaiveDate, usd: Usd },
    /// What is left of this day's budget is not enough.
    Refused(Refusal),
}

/// What is left of a day's budget does not cover a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The day.
    pub day: NaiveDate,
    /// Whether the operators know.
    pub is_told: bool,
}

/// How today's budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Today {
    /// Which day it is.
    pub day: NaiveDate,
    /// What servers have drawn and not given back.
    pub drawn_usd: Usd,
    /// Whether a call was refused.
    pub is_short: bool,
}

/// What became of a look for jobs that were put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetGo {
    /// How many were found.
    pub found: i64,
    /// How many of them go on.
    pub gone: i64,
    /// When the last of those that were found would be due.
    pub last_run_at: Option<DateTime<Utc>>,
}

/// Whom to tell that the day's budget is used up, and what it was.
#[derive(Clone, Copy, Debug)]
pub struct Operators<'a> {
    /// Their numbers.
    pub people: &'a [String],
    /// The budget.
    pub budget: Usd,
}

impl Store {
    /// Draws a lot of today's budget, or what is left of it if that covers the need.
    pub async fn draw_allowance(
        &self,
        need: Usd,
        lot: Usd,
        budget: Usd,
    ) -> Result<Drawn, StoreError> {
        let drawn = bounded(
            sqlx::query!(
                "-- draw_allowance
                insert into longhaul.allowance as a (day, drawn_usd, lot_usd)
                select (longhaul.now() at time zone 'utc')::date, least($2::numeric, $3), least($2, $3)
                where $1::numeric <= $3::numeric
                on conflict (day) do update set
                  drawn_usd = a.drawn_usd + least($2, $3 - a.drawn_usd), lot_usd = least($2, $3 - a.drawn_usd)
                  where a.drawn_usd + $1 <= $3
                returning a.day, a.lot_usd",
                need.as_decimal(),
                lot.as_decimal(),
                budget.as_decimal(),
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        match drawn {
            Some(row) => Ok(Drawn::Lot { day: row.day, usd: Usd::from(row.lot_usd) }),
            None => self.note_refusal().await.map(Drawn::Refused),
        }
    }

    /// Has every server know that money is short, so that each gives back what it need not have.
    async fn note_refusal(&self) -> Result<Refusal, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- note_refusal
                insert into longhaul.allowance as a (day, refused_at)
                values ((longhaul.now() at time zone 'utc')::date, longhaul.now())
                on conflict (day) do update set refused_at = excluded.refused_at
                returning a.day, a.told_at is not null as "is_told!""#
            )
            .fetch_one(&self.pool),
        )
        .await?;
        Ok(Refusal { day: row.day, is_told: row.is_told })
    }

    /// Gives back what was drawn on a day and is not needed.
    pub async fn give_back_allowance(&self, day: NaiveDate, usd: Usd) -> Result<(), StoreError> {
        bounded(
            sqlx::query!(
                "-- give_back_allowance
                update longhaul.allowance set drawn_usd = drawn_usd - $2 where day = $1",
                day,
                usd.as_decimal(),
            )
            .execute(&self.pool),
        )
        .await?;
        Ok(())
    }

    /// How today's budget stands.
    pub async fn allowance(&self) -> Result<Today, StoreError> {
        let row = bounded(
            sqlx::query!(
                r#"-- look_at_allowance
                select d.day as "day!", coalesce(a.drawn_usd, 0) as "drawn_usd!",
                  a.refused_at is not null as "is_short!"
                from (select (longhaul.now() at time zone 'utc')::date as day) d
                left join longhaul.allowance a on a.day = d.day"#
            )
            .fetch_one(&self.pool),
        )
        .await?;
        Ok(Today { day: row.day, drawn_usd: Usd::from(row.drawn_usd), is_short: row.is_short })
    }

    /// Parks the job until the next day; the first that is parked on a day has the operators told.
    pub async fn put_off(
        &self,
        job: &Claimed,
        failure: Failure,
        refusal: Refusal,
        operators: Operators<'_>,
        call: CallEnd,
    ) -> Result<JobState, StoreError> {
        let until = next_day(refusal.day)
            + TimeDelta::milliseconds(rand::random_range(0..SPREAD.num_milliseconds()));
        let put_off =
            |tell| Action::PutOff { lease: job.lease, failure: failure.clone(), until, tell };
        if !refusal.is_told && !operators.people.is_empty() {
            let tell = put_off(operators.people.to_vec());
            let parked = retried(|| {
                Box::pin(self.put_off_and_tell(job, &tell, refusal.day, operators.budget, &call))
            });
            if let Some(state) = parked.await? {
                return Ok(state);
            }
        }
        self.move_held(job, put_off(Vec::new()), Some(call)).await
    }

    /// Nothing if others were first, or if the lease is lost.
    async fn put_off_and_tell(
        &self,
        job: &Claimed,
        action: &Action,
        day: NaiveDate,
        budget: Usd,
        call: &CallEnd,
    ) -> Result<Option<JobState>, StoreError> {
        let mut tx = self.pool.begin().await?;
        let first = sqlx::query!(
            "-- tell_operators
            update longhaul.allowance set told_at = longhaul.now(), budget_usd = $2
            where day = $1 and told_at is null",
            day,
            budget.as_decimal(),
        );
        if first.execute(&mut *tx).await?.rows_affected() == 0 {
            return Ok(None);
        }
        let locked = lock(&mut tx, &job.key, None).await?;
        let now = locked.now;
        let decided = state::next(&locked.state, &locked.spec, action.clone(), "executor", now);
        if decided.is_err() {
            return Ok(None);
        }
        let line = Line::ended(&job.key, call.clone());
        let lines: Vec<&Line> = line.iter().collect();
        write(&mut tx, &[], &lines, None).await?;
        let acted = self.commit(tx, &job.key, locked, decided, None).await?;
        Ok(Some(acted.state))
    }

    /// What is free of a day's budget for jobs that were put off, if it is the turn of this server to let them go on.
    pub async fn find_room(&self, day: NaiveDate, budget: Usd) -> Result<Option<Usd>, StoreError> {
        let room = bounded(
            sqlx::query_scalar!(
                r#"-- find_room
                update longhaul.allowance set let_go_at = longhaul.now()
                where day = $1 and refused_at is not null and drawn_usd < $2
                  and (let_go_at is null or let_go_at <= longhaul.now() - make_interval(secs => $3))
                returning $2 - drawn_usd as "room!""#,
                day,
                budget.as_decimal(),
                TURN_SECONDS,
            )
            .fetch_optional(&self.pool),
        )
        .await?;
        Ok(room.map(Usd::from))
    }

    /// Makes jobs due that were put off on a day: as many as there is room for, in the order in which they would be due,
    /// from those that would be due after a moment.
    pub async fn let_go_on(
        &self,
        day: NaiveDate,
        after: Option<DateTime<Utc>>,
        room: Option<Usd>,
    ) -> Result<LetGo, StoreError> {
        let midnight = next_day(day);
        let row = bounded(
            sqlx::query!(
                r#"-- let_go_on
                -- cross-shard: due times of all shards are in one index
                with put_off as (
                  select j.shard, j.job_id, j.run_at,
                    coalesce((j.last_error ->> 'needs_usd')::numeric, 0) as needs_usd
                  from longhaul.job j
                  where j.status = 'queued' and j.reason = 'DAILY_BUDGET' and j.spec_version <= $1
                    and j.run_at >= $2 and j.run_at <= $3 and ($4::timestamptz is null or j.run_at > $4)
                  order by j.run_at limit $5
                  for update skip locked
                ),
                -- Those that fit beside those before them.
                fitting as (
                  select f.shard, f.job_id from (
                    select p.shard, p.job_id, sum(p.needs_usd) over (order by p.run_at, p.job_id) as sum_usd
                    from put_off p where $6::numeric is null or p.needs_usd <= $6
                  ) f
                  where $6::numeric is null or f.sum_usd <= $6
                ),
                gone as (
                  update longhaul.job j set run_at = longhaul.now() from fitting f
                  where j.shard = f.shard and j.job_id = f.job_id
                  returning j.job_id
                )
                select (select count(*) from put_off) as "found!", (select count(*) from gone) as "gone!",
                  (select max(run_at) from put_off) as last_run_at"#,
                spec::VERSION,
                midnight,
                midnight + SPREAD,
                after,
                LOOK_MAX,
                room.map(Usd::as_decimal) as Option<Decimal>,
            )
            .fetch_one(&self.pool),
        )
        .await?;
        Ok(LetGo { found: row.found, gone: row.gone, last_run_at: row.last_run_at })
    }
}

/// When the day is over.
fn next_day(day: NaiveDate) -> DateTime<Utc> {
    (day + Days::new(1)).and_time(NaiveTime::MIN).and_utc()
}
