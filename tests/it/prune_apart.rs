//! Pruning beside others: who keeps jobs longer, who holds their rows, who tries them again, and who submits them anew.

use std::time::{Duration, Instant};

use futures::future::join_all;
use longhaul::engine::prune::Pruned;
use longhaul::store::prune::Retention;

use crate::harness::{Rig, cancel, job, retry, wait};
use crate::prune::{due, pruner, pruner_of};

const MARKS: &str = "select count(*) from longhaul.tombstone where pruned_at is null";
const PRUNED: &str = "select count(*) from longhaul.tombstone where pruned_at is not null";
/// Pruned jobs of which something is left.
const HALVES: &str = "select count(*) from longhaul.tombstone t where t.pruned_at is not null and (
    exists (select from longhaul.job j where j.job_id = t.job_id)
    or exists (select from longhaul.job_spec s where s.job_id = t.job_id)
    or exists (select from longhaul.event e where e.job_id = t.job_id))";

fn pruned(pruned: i64) -> Pruned {
    Pruned { marked: 0, pruned }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_jobs_longer_leaves_the_marks_of_others_alone() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    due(&rig, 3).await;
    let short = pruner(&rig.db).await;
    assert_eq!(short.run_once().await.unwrap().marked, 3);
    rig.db.shift_clock(11).await;
    for completed in [Some(Duration::from_hours(24)), None] {
        let kept = Retention { completed, failed: Some(Duration::from_secs(1)), cancelled: None };
        let long = pruner_of(&rig.db, kept).await;
        assert_eq!(long.run_once().await.unwrap(), Pruned::default());
        assert_eq!(rig.db.number(MARKS).await, 3, "{completed:?}");
    }
    assert_eq!(short.run_once().await.unwrap(), pruned(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_somebody_holds_stays_marked_and_a_retry_by_them_keeps_it_whole() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    for job_id in ["held", "other"] {
        rig.submit(job(job_id, [wait(3600)])).await;
        rig.control(job_id, cancel()).await;
    }
    rig.db.shift_clock(5).await;
    let pruner = pruner(&rig.db).await;
    assert_eq!(pruner.run_once().await.unwrap().marked, 2);
    rig.db.shift_clock(11).await;
    let mut tx = rig.db.pool.begin().await.unwrap();
    let hold = "select from longhaul.job where job_id = 'held' for update";
    sqlx::raw_sql(hold).execute(&mut *tx).await.unwrap();
    assert_eq!(pruner.run_once().await.unwrap(), pruned(1));
    assert_eq!(rig.db.number(MARKS).await, 1);
    tx.rollback().await.unwrap();
    assert!(rig.control("held", retry(0)).await);
    assert_eq!(pruner.run_once().await.unwrap(), Pruned::default());
    assert_eq!((rig.db.number(MARKS).await, rig.db.number(PRUNED).await), (0, 1));
    assert_eq!(rig.job("held").await.steps.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_retry_and_pruning_at_once_one_wins_and_the_job_is_whole_or_gone() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    let job_ids: Vec<String> = (0..40).map(|number| format!("raced-{number}")).collect();
    for job_id in &job_ids {
        rig.submit(job(job_id, [wait(3600)])).await;
        rig.control(job_id, cancel()).await;
    }
    rig.db.shift_clock(5).await;
    let pruner = pruner(&rig.db).await;
    assert_eq!(pruner.run_once().await.unwrap().marked, 40);
    rig.db.shift_clock(11).await;
    let retries = join_all(job_ids.iter().map(|job_id| rig.try_control(job_id, retry(0))));
    let (round, retried) = tokio::join!(pruner.run_once(), retries);
    let retried = retried.into_iter().flatten().count() as i64;
    assert_eq!(round.unwrap().pruned + retried, 40);
    assert_eq!(rig.db.number(HALVES).await, 0);
    let whole = "select count(*) from longhaul.job j join longhaul.job_spec s using (shard, job_id)
      where j.status = 'queued'
        and j.last_sequence = (select count(*) from longhaul.event e where e.job_id = j.job_id)";
    assert_eq!(rig.db.number(whole).await, retried);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_is_born_twice_by_submits_while_it_is_marked_and_pruned() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    let pruner = pruner(&rig.db).await;
    // In real time: that a mark waits until older submits are over is what this is about.
    let begun_at = Instant::now();
    let mut created = 0;
    while rig.db.number(PRUNED).await < 10 {
        assert!(begun_at.elapsed() < Duration::from_mins(1));
        let submits = (0..10).map(|number| rig.submit(job(&format!("again-{number}"), [wait(0)])));
        let (submitted, round) = tokio::join!(join_all(submits), pruner.run_once());
        created += submitted.iter().filter(|submitted| submitted.created).count();
        round.unwrap();
    }
    let submits = (0..10).map(|number| rig.submit(job(&format!("again-{number}"), [wait(0)])));
    assert!(join_all(submits).await.iter().all(|submitted| !submitted.created));
    assert_eq!((created, rig.db.job_count().await, rig.db.number(HALVES).await), (10, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_meets_a_lock_ends_at_once_and_puts_nothing_off() {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    due(&rig, 20).await;
    let pruner = pruner(&rig.db).await;
    assert_eq!(pruner.run_once().await.unwrap().marked, 20);
    rig.db.shift_clock(11).await;
    let mut tx = rig.db.pool.begin().await.unwrap();
    let hold = "select from longhaul.event where job_id = 'due-7' for update";
    sqlx::raw_sql(hold).execute(&mut *tx).await.unwrap();
    let begun_at = Instant::now();
    assert!(pruner.run_once().await.is_err());
    assert!(begun_at.elapsed() < Duration::from_secs(10), "one wait for a lock, not one for each");
    tx.rollback().await.unwrap();
    assert_eq!(pruner.run_once().await.unwrap(), pruned(20));
}
