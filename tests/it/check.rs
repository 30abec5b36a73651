//! The table's CHECKs: what the state machine can never make, Postgres refuses to store.

use longhaul::domain::event::{Delivery, NoticeKind};
use longhaul::domain::job::{Stand, Status};
use longhaul::domain::word::Word as _;
use longhaul::rpc::proto::JobStatus;
use sqlx::AssertSqlSafe;

use crate::harness::{Rig, approval, cancel, job, pause, run, wait};

/// One job in each status, named for it.
async fn one_of_each() -> Rig {
    let rig = Rig::start().await;
    rig.sandbox.hold("Hold").await;
    for (job_id, step) in [
        ("queued", wait(3600)),
        ("running", run("Hold it.")),
        ("awaiting_approval", approval("Good?")),
        ("paused", approval("Good?")),
        ("completed", wait(0)),
        ("cancelled", wait(3600)),
    ] {
        rig.submit(job(job_id, [step])).await;
    }
    rig.control("paused", pause()).await;
    rig.try_control_once("cancelled", "once", cancel()).await.unwrap();
    rig.sandbox.wait_for("Hold", "held", 1).await;
    assert_eq!(rig.job("running").await.status(), JobStatus::Running);
    rig
}

async fn set(rig: &Rig, table: &str, assignment: &str, job_id: &str) -> Result<u64, String> {
    let statement = format!("update longhaul.{table} set {assignment} where job_id = '{job_id}'");
    // Undone at once, so that the rows stay as the product made them.
    let mut tx = rig.db.pool.begin().await.unwrap();
    match sqlx::query(AssertSqlSafe(statement)).execute(&mut *tx).await {
        Ok(done) => Ok(done.rows_affected()),
        Err(error) => {
            let error = error.into_database_error().unwrap();
            Err(error.constraint().unwrap_or_else(|| error.message()).to_owned())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_a_job_that_the_laws_forbid_is_refused() {
    let rig = one_of_each().await;
    for (job_id, assignment, constraint) in [
        ("queued", "status = 'running', run_at = null", "job_running_is_held"),
        ("queued", "executor_id = gen_random_uuid()", "job_running_is_held"),
        ("queued", "attempt_id = gen_random_uuid()", "job_running_is_held"),
        ("queued", "status = 'paused'", "job_paused_stood_somewhere"),
        ("queued", "paused_from = 'queued'", "job_paused_stood_somewhere"),
        ("queued", "pause_requested = true", "job_only_running_is_asked_to_pause"),
        ("queued", "deadline_at = now()", "job_deadline_runs_while_awaiting"),
        ("queued", "kept_verdict = 'approve'", "job_verdict_is_kept_while_paused"),
        ("queued", "finished_at = now()", "job_terminal_has_finished"),
        ("queued", "lease_expires_at = now()", "job_override_while_running"),
        ("queued", "status = 'sleeping', run_at = null", "job_status_check"),
        ("queued", "shard = 64", "job_shard_check"),
        ("queued", "job_id = ''", "job_job_id_check"),
        ("queued", "current_step = 0", "job_check"),
        ("queued", "current_step = step_count + 1", "job_check"),
        ("running", "executor_id = null", "job_running_is_held"),
        ("running", "attempt_id = null", "job_running_is_held"),
        ("running", "status = 'queued'", "job_running_is_held"),
        ("running", "run_at = now()", "job_run_at_has_a_use"),
        ("running", "finished_at = now()", "job_terminal_has_finished"),
        ("awaiting_approval", "approval_id = null", "job_awaiting_has_approval"),
        ("awaiting_approval", "deadline_at = null", "job_awaiting_has_approval"),
        ("awaiting_approval", "status = 'queued'", "job_deadline_runs_while_awaiting"),
        ("paused", "paused_from = null", "job_paused_stood_somewhere"),
        ("paused", "paused_from = 'nowhere'", "job_paused_from_check"),
        ("paused", "kept_verdict = 'maybe'", "job_kept_verdict_check"),
        ("paused", "deadline_at = now()", "job_deadline_runs_while_awaiting"),
        ("completed", "finished_at = null", "job_terminal_has_finished"),
        ("completed", "run_at = now()", "job_run_at_has_a_use"),
        ("cancelled", "status = 'queued'", "job_terminal_has_finished"),
        ("cancelled", "pause_requested = true", "job_only_running_is_asked_to_pause"),
    ] {
        let refused = set(&rig, "job", assignment, job_id).await;
        assert_eq!(refused, Err(constraint.to_owned()), "{job_id}: {assignment}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_about_people_or_money_that_the_laws_forbid_is_refused() {
    let rig = one_of_each().await;
    for (table, job_id, assignment, constraint) in [
        ("model_call", "running", "outcome = 'forgotten'", "model_call_outcome_check"),
        ("approval", "paused", "status = 'maybe', closed_at = now()", "approval_status_check"),
        ("approval", "paused", "status = 'approved'", "approval_closed_has_time"),
        ("approval", "paused", "closed_at = now()", "approval_closed_has_time"),
        ("approval_link", "paused", "verdict = 'maybe'", "approval_link_verdict_check"),
        ("control_request", "cancelled", "changed = null", "control_request_has_one_answer"),
        ("outbox", "completed", "kind = 'gossip'", "outbox_kind_check"),
        ("outbox", "completed", "delivery = 'lost'", "outbox_delivery_check"),
        ("outbox", "completed", "delivery = 'sent', tokens = '{}'", "outbox_tokens_until_sent"),
        ("outbox", "completed", "delivery = 'sent', receipt = 'seen'", "outbox_receipt_check"),
        (
            "outbox",
            "completed",
            "delivery = 'failed', receipt = 'read'",
            "outbox_receipt_is_of_what_was_sent",
        ),
    ] {
        let refused = set(&rig, table, assignment, job_id).await;
        assert_eq!(refused, Err(constraint.to_owned()), "{table}: {assignment}");
    }
    let twice = "insert into longhaul.outbox
        (shard, job_id, notice_id, sequence, kind, recipient, due_at, created_at, updated_at)
      select shard, job_id, gen_random_uuid(), sequence, kind, recipient, due_at, created_at, updated_at
      from longhaul.outbox";
    let error = sqlx::query(twice).execute(&rig.db.pool).await.unwrap_err();
    let constraint = error.into_database_error().unwrap().constraint().map(str::to_owned);
    assert_eq!(constraint.as_deref(), Some("outbox_one_per_event"), "each event is told once");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_word_of_the_state_machine_can_be_stored() {
    let rig = one_of_each().await;
    let stands = [
        Stand::Entering,
        Stand::Queued,
        Stand::Scheduled,
        Stand::Waiting,
        Stand::ProviderUnavailable,
        Stand::AttemptLost,
        Stand::DailyBudget,
        Stand::AwaitingApproval,
    ];
    for stand in stands {
        let assignment = format!("paused_from = '{}'", stand.word());
        assert_eq!(set(&rig, "job", &assignment, "paused").await, Ok(1), "{stand:?}");
    }
    for status in Status::ALL {
        let assignment = format!("status = '{}', run_at = null", status.word());
        let refused = set(&rig, "job", &assignment, "queued").await;
        assert_ne!(refused, Err("job_status_check".to_owned()), "{status:?}");
    }
    let kinds = [
        NoticeKind::ApprovalRequested,
        NoticeKind::ApprovalReminder,
        NoticeKind::ApprovalEscalated,
        NoticeKind::Completed,
        NoticeKind::Failed,
        NoticeKind::Cancelled,
        NoticeKind::OutOfBudget,
        NoticeKind::DailyBudget,
    ];
    for kind in kinds {
        let assignment = format!("kind = '{}'", kind.word());
        assert_eq!(set(&rig, "outbox", &assignment, "completed").await, Ok(1), "{kind:?}");
    }
    let deliveries = [
        Delivery::Pending,
        Delivery::Sending,
        Delivery::Sent,
        Delivery::Failed,
        Delivery::Superseded,
        Delivery::Unconfirmed,
    ];
    for delivery in deliveries {
        let assignment = format!("delivery = '{}'", delivery.word());
        assert_eq!(set(&rig, "outbox", &assignment, "completed").await, Ok(1), "{delivery:?}");
    }
    // What a channel says besides, of what it took.
    for receipt in [Delivery::Delivered, Delivery::Read] {
        let assignment = format!("delivery = 'sent', receipt = '{}'", receipt.word());
        assert_eq!(set(&rig, "outbox", &assignment, "completed").await, Ok(1), "{receipt:?}");
    }
}
