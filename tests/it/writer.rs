//! The writer: many jobs a commit, and each caller learns its own fate, whatever becomes of the others.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use longhaul::domain::id::{AttemptId, CallId, ExecutorId, JobKey};
use longhaul::domain::job::{JobState, Status, StepResult};
use longhaul::domain::money::Usage;
use longhaul::domain::spec::Defaults;
use longhaul::domain::submission::{ContextMode, RunStep, Step, Submission};
use longhaul::domain::validate::freeze;
use longhaul::store::claim::{ClaimRequest, Claimed};
use longhaul::store::control::By;
use longhaul::store::ledger::{CallEnd, CallOutcome, Settlement};
use longhaul::store::submit::{NewJob, Stored};
use longhaul::store::{Store, StoreError, StoreSettings};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::{Rig, Wire};

/// A store with a running writer and an executor that has a lease, and nothing else.
struct Desk {
    rig: Rig,
    store: Store,
    executor_id: ExecutorId,
    stop: CancellationToken,
}

impl Desk {
    async fn open() -> Self {
        let rig = Rig::without_server(&[]).await;
        let url = rig.db.url.clone();
        Self::at(rig, url).await
    }

    async fn at(rig: Rig, url: String) -> Self {
        let settings =
            StoreSettings { database_url: url.into(), direct_url: None, connections_max: 4 };
        let store = Store::connect(&settings).await.unwrap();
        let executor_id = ExecutorId::new();
        store.register_executor(executor_id, "desk", Duration::from_secs(30)).await.unwrap();
        let stop = CancellationToken::new();
        let (writer, stopping) = (store.clone(), stop.clone());
        tokio::spawn(async move { writer.write_batches(stopping).await });
        Self { rig, store, executor_id, stop }
    }

    /// A job of two run steps.
    fn two_steps(&self, job_id: &str) -> NewJob {
        let step =
            |prompt: &str| Step::Run(RunStep { prompt: prompt.to_owned(), ..RunStep::default() });
        let submission = Submission {
            job_id: Some(job_id.to_owned()),
            task: "t".to_owned(),
            steps: vec![step("one"), step("two")],
            ..Submission::default()
        };
        let defaults = Defaults {
            model: "claude-sonnet-5-5".to_owned(),
            max_tokens: 100,
            notify: Vec::new(),
            language: None,
            context: ContextMode::None,
            book: Arc::default(),
        };
        NewJob {
            key: JobKey::new(job_id),
            content: submission.content(),
            spec: Arc::new(freeze(&submission, &defaults).unwrap()),
            traceparent: None,
            actor: "desk".into(),
            claimer: Some(self.executor_id),
        }
    }

    /// A job in the first of its two steps.
    async fn claimed(&self, job_id: &str) -> Claimed {
        match self.store.submit(self.two_steps(job_id)).await.unwrap() {
            Stored::Created(_, Some(claimed)) => *claimed,
            other @ (Stored::Created(_, None) | Stored::Existed | Stored::Pruned(_)) => {
                panic!("{job_id} is not in hand: {other:?}")
            }
        }
    }

    async fn finish(&self, job: &Claimed, output: &str) -> Result<JobState, StoreError> {
        let next = Some(AttemptId::new());
        self.store.finish(job, result(output), next, answered(job)).await
    }

    /// Has Postgres do something to each checkpoint that is about to be written.
    async fn before_each_checkpoint(&self, plpgsql: &str) {
        let statements = format!(
            "create sequence public.tried; create function public.strike() returns trigger language plpgsql as
             $$ begin {plpgsql} return new; end $$;
             create trigger strike before insert on longhaul.checkpoint for each row execute function public.strike()"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&self.rig.db.pool).await.unwrap();
    }
}

fn result(output: &str) -> StepResult {
    StepResult {
        output: output.to_owned(),
        content: "[]".to_owned(),
        citations: Vec::new(),
        usage: Usage::default(),
        cost_usd: None,
        model: "claude-sonnet-5-5".to_owned(),
        stop_reason: "end_turn".to_owned(),
    }
}

fn settlement(outcome: CallOutcome) -> Settlement {
    Settlement {
        outcome,
        usage: Some(Usage::default()),
        cost_usd: None,
        provider_request_id: None,
        error: None,
        partial_output: None,
    }
}

fn answered(job: &Claimed) -> CallEnd {
    let call_id = CallId::first_of(job.lease.attempt_id);
    CallEnd::Settled(call_id, settlement(CallOutcome::Answered))
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("job-{number}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_with_room_is_a_claim_and_begins_its_call_in_the_same_commit() {
    let desk = Desk::open().await;
    let job = desk.claimed("job").await;
    assert_eq!((job.state.status, job.lease.epoch), (Status::Running, 1));
    let together = "select count(distinct xmin::text) from (
        select xmin from longhaul.job union all select xmin from longhaul.job_spec
        union all select xmin from longhaul.event union all select xmin from longhaul.model_call) rows";
    assert_eq!(desk.rig.db.number(together).await, 1);
    assert_eq!(desk.rig.db.outcomes("job").await, [(1, "started".to_owned())]);
    assert!(matches!(desk.store.submit(desk.two_steps("job")).await, Ok(Stored::Existed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_together_is_committed_together() {
    let desk = Desk::open().await;
    let jobs = join_all(names(60).iter().map(|name| desk.claimed(name))).await;
    let finished = join_all(jobs.iter().map(|job| desk.finish(job, "done"))).await;
    for state in finished {
        assert_eq!(state.unwrap().current_step, 2);
    }
    let commits =
        desk.rig.db.number("select count(distinct xmin::text) from longhaul.checkpoint").await;
    assert!((1..=20).contains(&commits), "60 checkpoints took {commits} commits");
    // The checkpoint, the end of its call, and the beginning of the next.
    let apart =
        "select count(*) from longhaul.checkpoint k join longhaul.model_call c using (job_id)
        where c.xmin::text <> k.xmin::text";
    assert_eq!(desk.rig.db.number(apart).await, 0);
    assert_eq!(desk.rig.db.number("select count(*) from longhaul.model_call").await, 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_one_job_are_done_one_after_the_other_as_they_came() {
    let desk = Desk::open().await;
    let job = desk.claimed("job").await;
    let first = CallId::first_of(job.lease.attempt_id);
    let (noted, again, finished, late, twice) = tokio::join!(
        desk.store.note_partial(&job.key, first, "half"),
        desk.store.note_partial(&job.key, first, "half an\0 answer"),
        desk.finish(&job, "whole"),
        desk.store.note_partial(&job.key, first, "too late"),
        desk.finish(&job, "whole, from a try whose reply was lost"),
    );
    for written in [noted, again, late] {
        written.unwrap();
    }
    let finished = finished.unwrap();
    assert_eq!(twice.unwrap(), finished, "the first of them has stored the attempt");
    assert_eq!(desk.rig.db.state("job").await["step_1_output"], "whole");
    let left = "select count(*) from longhaul.model_call where partial_output is not null";
    assert_eq!(desk.rig.db.number(left).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_has_locked_waits_and_holds_up_no_other() {
    let desk = Desk::open().await;
    let (held, free) = (desk.claimed("held").await, desk.claimed("free").await);
    let mut other = desk.rig.db.pool.begin().await.unwrap();
    let lock = "select 1 from longhaul.job where job_id = 'held' for update";
    sqlx::query(lock).execute(&mut *other).await.unwrap();
    let waiting = desk.finish(&held, "at last");
    tokio::pin!(waiting);
    let passing = tokio::select! {
        passing = desk.finish(&free, "at once") => passing,
        early = &mut waiting => panic!("the row was locked: {early:?}"),
    };
    assert_eq!(passing.unwrap().current_step, 2);
    other.rollback().await.unwrap();
    assert_eq!(waiting.await.unwrap().current_step, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_postgres_refuses_fails_alone() {
    let desk = Desk::open().await;
    desk.before_each_checkpoint(
        "if new.output = 'poison' then raise exception 'no' using errcode = '22000'; end if;",
    )
    .await;
    let jobs = join_all(names(20).iter().map(|name| desk.claimed(name))).await;
    let finishes = jobs
        .iter()
        .enumerate()
        .map(|(number, job)| desk.finish(job, if number % 7 == 3 { "poison" } else { "good" }));
    let finished = join_all(finishes).await;
    for (number, state) in finished.into_iter().enumerate() {
        if number % 7 == 3 {
            assert!(matches!(state, Err(StoreError::Database(_))), "{number}: {state:?}");
        } else {
            assert_eq!(state.unwrap().current_step, 2, "{number}");
        }
    }
    assert_eq!(desk.rig.db.number("select count(*) from longhaul.checkpoint").await, 17);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_undid_for_the_sake_of_another_is_done_again() {
    for code in ["40001", "40P01"] {
        let desk = Desk::open().await;
        // A sequence is not undone with its transaction.
        let strike = "if nextval('public.tried') <= 2 then
            raise exception 'undone' using errcode = 'CODE'; end if;";
        desk.before_each_checkpoint(&strike.replace("CODE", code)).await;
        let jobs = join_all(names(10).iter().map(|name| desk.claimed(name))).await;
        for state in join_all(jobs.iter().map(|job| desk.finish(job, "good"))).await {
            assert_eq!(state.unwrap().current_step, 2, "{code}");
        }
        assert!(desk.rig.db.number("select last_value from public.tried").await > 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_reply_is_lost_has_happened_once() {
    let rig = Rig::without_server(&[]).await;
    let wire = Wire::to(&rig.db.url).await;
    let url = wire.url.clone();
    let desk = Desk::at(rig, url).await;
    let job = desk.claimed("job").await;
    let next = Some(AttemptId::new());
    let finish = || desk.store.finish(&job, result("paid for"), next, answered(&job));
    wire.lose_commits(1);
    let lost = finish().await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    let state = finish().await.unwrap();
    assert_eq!((state.current_step, state.attempt_id), (2, next), "the same lease goes on");
    assert_eq!(desk.rig.db.number("select count(*) from longhaul.checkpoint").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_holder_moves_nothing_and_its_call_is_settled_all_the_same() {
    let desk = Desk::open().await;
    let job = desk.claimed("job").await;
    desk.store.cancel(&job.key, "", By::actor("somebody")).await.unwrap();
    let stale = desk.finish(&job, "too late").await;
    assert!(matches!(&stale, Err(error) if error.is_lease_lost()), "{stale:?}");
    assert_eq!(desk.rig.db.outcomes("job").await, [(1, "answered".to_owned())]);
    assert_eq!(desk.rig.db.number("select count(*) from longhaul.checkpoint").await, 0);
    let further = desk.store.continue_call(&job, answered(&job), CallId::new(), "m").await;
    assert!(matches!(&further, Err(error) if error.is_lease_lost()), "{further:?}");
    assert_eq!(desk.rig.db.outcomes("job").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_whose_lease_is_over_stores_its_result_and_begins_nothing() {
    let desk = Desk::open().await;
    let (job, other) = (desk.claimed("job").await, desk.claimed("other").await);
    desk.rig.db.sleep_all(3600).await;
    let further = desk.store.continue_call(&other, answered(&other), CallId::new(), "m").await;
    assert!(matches!(&further, Err(error) if error.is_lease_lost()), "{further:?}");
    let state = desk.finish(&job, "paid for").await.unwrap();
    assert_eq!(
        (state.status, state.current_step),
        (Status::Queued, 2),
        "it does not go straight on"
    );
    let late = desk.store.submit(desk.two_steps("late")).await;
    assert!(matches!(late, Ok(Stored::Created(_, None))), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_is_noticed_before_anything_is_written_by_it() {
    let desk = Desk::open().await;
    // The newest of them, in seconds.
    let age =
        "select min(extract(epoch from longhaul.now() - created_at))::bigint from longhaul.job";
    for (job_id, seconds) in [("before", 0), ("later", 3600), ("after", 0)] {
        // Each write tells the time, by which the next is decided.
        desk.rig.db.shift_clock(seconds).await;
        desk.claimed(job_id).await;
        let age = desk.rig.db.number(age).await;
        assert!((0..60).contains(&age), "{job_id} was made {age} s ago");
    }
    desk.rig.db.shift_clock(-7200).await;
    desk.claimed("earlier").await;
    let age = desk.rig.db.number(age).await;
    assert!((-7200..=-7000).contains(&age), "the job of an hour ahead, as seen from {age}");
    let earlier = "select count(*) from longhaul.job
      where job_id = 'earlier' and created_at between longhaul.now() - interval '1 min' and longhaul.now()";
    assert_eq!(desk.rig.db.number(earlier).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_was_declared_dead_gets_no_job_though_it_was_known_to_live() {
    let desk = Desk::open().await;
    desk.claimed("first").await;
    desk.claimed("second").await;
    let bury = "delete from longhaul.executor";
    sqlx::query(bury).execute(&desk.rig.db.pool).await.unwrap();
    let third = desk.store.submit(desk.two_steps("third")).await;
    assert!(matches!(third, Ok(Stored::Created(_, None))), "{third:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_stops_writes_first_what_has_arrived() {
    let desk = Desk::open().await;
    let submits = names(50);
    let submits = submits.iter().map(|name| desk.store.submit(desk.two_steps(name)));
    let stopping = async {
        desk.stop.cancel();
    };
    let (stored, ()) = tokio::join!(join_all(submits), stopping);
    let made = stored.iter().filter(|stored| stored.is_ok()).count();
    assert_eq!(i64::try_from(made).unwrap(), desk.rig.db.job_count().await, "an answer is true");
    assert_eq!(made, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_locked_still_goes_before_what_came_after_it() {
    let desk = Desk::open().await;
    let job = desk.claimed("job").await;
    let first = CallId::first_of(job.lease.attempt_id);
    let mut other = desk.rig.db.pool.begin().await.unwrap();
    let lock = "select 1 from longhaul.job where job_id = 'job' for update";
    sqlx::query(lock).execute(&mut *other).await.unwrap();
    let (finishing, noting) =
        (desk.finish(&job, "whole"), desk.store.note_partial(&job.key, first, "half"));
    let unlocking = async {
        // Others pass meanwhile, so the two have been tried and put off.
        desk.claimed("another").await;
        other.rollback().await.unwrap();
    };
    let (finished, noted, ()) = tokio::join!(finishing, noting, unlocking);
    assert_eq!(finished.unwrap().current_step, 2);
    noted.unwrap();
    let drafts = "select count(*) from longhaul.model_call where partial_output is not null";
    assert_eq!(desk.rig.db.number(drafts).await, 0, "the draft came after the end of its call");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_before_the_row_changed_is_decided_again() {
    let desk = Desk::open().await;
    for (job_id, meets) in [("soon", "-- write%"), ("late", "-- lock_batch\n%")] {
        let job = desk.claimed(job_id).await;
        let mut other = desk.rig.db.pool.begin().await.unwrap();
        let change = "update longhaul.job set epoch = epoch + 1 where job_id = $1";
        sqlx::query(change).bind(job_id).execute(&mut *other).await.unwrap();
        let pausing = desk.store.pause(&job.key, false, By::actor("client"));
        let changing = async {
            // It has been decided, and meets the lock: at first in the write, later where locks are taken.
            let met = "select count(*) > 0 from pg_stat_activity where query like $1";
            desk.rig.db.wait_until(met, meets).await;
            other.commit().await.unwrap();
        };
        let (paused, ()) = tokio::join!(pausing, changing);
        let paused = paused.unwrap();
        assert!(paused.changed && paused.state.pause_requested, "{job_id}");
        assert_eq!(paused.state.epoch, job.lease.epoch + 1, "{job_id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_and_a_submit_of_its_job_at_once_are_each_answered_for_themselves() {
    let desk = Desk::open().await;
    // Those that arrive together share a batch with the claim.
    for name in names(10) {
        let waits = NewJob { claimer: None, ..desk.two_steps(&name) };
        assert!(matches!(desk.store.submit(waits).await, Ok(Stored::Created(_, None))));
        let other = NewJob { content: json!({"task": "another"}), ..desk.two_steps(&name) };
        let executor_id = desk.executor_id;
        let request = ClaimRequest { executor_id, limit: 1, holds_last_attempt: false };
        let (claims, submitted) = tokio::join!(desk.store.claim(request), desk.store.submit(other));
        assert_eq!(claims.unwrap().claimed.len(), 1, "{name}");
        assert!(matches!(submitted, Err(StoreError::JobIdConflict { .. })), "{submitted:?}");
    }
}
