//! Storms: many people, faults and losses at many jobs on three servers at once.
//!
//! While it lasts, no answer may be a fault of the server; afterwards everything ends, and the tables are judged
//! by what must always hold.

use longhaul::rpc::proto::{JobSettings, JobStatus, Step, control_request::Action};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use tonic::Code;

use crate::harness::{
    Client, PERSON, Rig, approval, approve, approve_as, approve_that, cancel, job, pause,
    pause_now, reject, resume, retry, run, wait, with,
};

const JOBS: usize = 24;
const PEOPLE: u64 = 6;
const ACTIONS: usize = 50;

/// What must always hold, each as a statement that counts where it does not.
const LAWS: [(&str, &str); 8] = [
    (
        "the history has no gap and agrees with the job",
        "select count(*) from longhaul.job j where last_sequence <> (
           select count(*) from longhaul.event e where e.job_id = j.job_id and e.sequence <= j.last_sequence)
         or (status, reason) is distinct from (
           select (e.status, e.reason) from longhaul.event e
           where e.job_id = j.job_id and e.sequence = j.last_sequence)",
    ),
    (
        "each end is told once to each person, and nothing else is told as an end",
        "select count(*) from longhaul.event e
         full join longhaul.outbox o on o.job_id = e.job_id and o.sequence = e.sequence
         where (coalesce(e.kind, '') in ('job_completed', 'job_failed', 'job_cancelled'))
           is distinct from (coalesce(o.kind, '') in ('completed', 'failed', 'cancelled'))",
    ),
    (
        "a step that was checkpointed is not asked again in its revision",
        "select count(*) from longhaul.model_call c join longhaul.checkpoint k
           on k.job_id = c.job_id and k.step = c.step and k.revision = c.revision
         where c.started_at > k.finished_at",
    ),
    (
        "each checkpoint is told once",
        "select count(*) from longhaul.checkpoint k where 1 <> (
           select count(*) from longhaul.event e where e.job_id = k.job_id and e.kind = 'step_finished'
             and e.step = k.step and e.revision = k.revision)",
    ),
    (
        "no call is begun between an end and a retry",
        "select count(*) from longhaul.model_call c join longhaul.event e
           on e.job_id = c.job_id and e.kind in ('job_completed', 'job_failed', 'job_cancelled')
         where c.revision = e.revision and c.started_at > e.occurred_at + interval '1 second'",
    ),
    ("nothing is left open", "select count(*) from longhaul.model_call where outcome = 'started'"),
    (
        "an approval that is closed was decided, withdrawn or expired once",
        "select count(*) from longhaul.approval a where status = 'pending' or 1 <> (
           select count(*) from longhaul.event e
           where e.job_id = a.job_id and e.kind = 'approval_requested'
             and e.detail -> 'approval_requested' ->> 'approval_id' = a.approval_id::text)",
    ),
    (
        "a job that is over is in nobody's hands",
        "select count(*) from longhaul.job where executor_id is not null or run_at is not null",
    ),
];

/// What must always hold of jobs that have all ended holds of every row.
pub async fn assert_laws(rig: &Rig) {
    for (law, violations) in LAWS {
        assert_eq!(rig.db.number(violations).await, 0, "{law}");
    }
}

fn steps(number: usize) -> Vec<Step> {
    let prompts = ["Write a line.", "Shorten it, storm.", "Translate it."];
    let mut steps: Vec<Step> = prompts.map(run).to_vec();
    match number % 4 {
        0 => steps.insert(1, approval("Good?")),
        1 => steps.insert(2, wait(1)),
        2 => steps.extend([approval("First?"), approval("Second?")]),
        _ => steps.insert(0, wait(0)),
    }
    steps
}

fn any_action(random: &mut StdRng) -> Action {
    match random.random_range(0..20) {
        0..3 => pause(),
        3..5 => pause_now(),
        5..9 => resume(),
        9 => cancel(),
        10..12 => retry(random.random_range(0..3)),
        12..15 => approve(),
        15..18 => approve_as(PERSON),
        _ => reject(),
    }
}

/// One person does things to jobs, some of which make no sense.
async fn act(rig: &Rig, client: &Client, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..ACTIONS {
        let job_id = format!("storm-{}", random.random_range(0..JOBS));
        if random.random_range(0..8) == 0 {
            rig.db.end_lease(&job_id).await;
        } else if let Err(status) = client.try_control(&job_id, any_action(&mut random)).await {
            let expected = [Code::FailedPrecondition, Code::InvalidArgument];
            assert!(expected.contains(&status.code()), "{job_id}, seed {seed}: {status:?}");
        }
    }
}

/// Helps a job along until it ends.
pub async fn end(rig: &Rig, job_id: &str) {
    loop {
        let job = rig.settled(job_id).await;
        match job.status() {
            JobStatus::Paused => drop(rig.try_control(job_id, resume()).await),
            JobStatus::AwaitingApproval => {
                let approval_id = job.approval.unwrap().approval_id;
                drop(rig.try_control(job_id, approve_that(&approval_id)).await);
            }
            JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled => return,
            JobStatus::Queued | JobStatus::Running | JobStatus::Unspecified => {
                unreachable!("a settled job stands still")
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_must_always_hold_holds_after_a_storm() {
    let rig = Rig::start().await;
    let others = [rig.serve().await, rig.serve().await];
    let faults = json!([{"status": 529, "retry_after_seconds": 0, "times": 8, "matching": "storm"},
        {"cut_after_events": 5, "times": 8}, {"delay_ms": 30}]);
    rig.sandbox.break_model(faults).await;
    for number in 0..JOBS {
        let often = JobSettings { max_attempts: Some(20), ..JobSettings::default() };
        rig.submit(with(often, job(&format!("storm-{number}"), steps(number)))).await;
    }
    let seed = rand::random::<u32>();
    println!("the seed is {seed}");
    let people = (0..PEOPLE).map(|person| {
        let servers = [&*rig, &others[0].client, &others[1].client];
        let client = servers[usize::try_from(person).unwrap() % servers.len()];
        act(&rig, client, u64::from(seed) + person)
    });
    futures::future::join_all(people).await;
    rig.sandbox.mend().await;
    rig.db.shift_clock(120).await;
    for number in 0..JOBS {
        end(&rig, &format!("storm-{number}")).await;
    }
    let open =
        "select count(*) = 0 and $1 <> '' from longhaul.model_call where outcome = 'started'";
    rig.db.wait_until(open, "any").await;
    assert_laws(&rig).await;
    let seen = rig.sandbox.requests("").await.len();
    let kept = rig.db.number("select count(*) from longhaul.model_call").await;
    assert!(
        i64::try_from(seen).unwrap() <= kept,
        "the provider saw {seen} requests, {kept} are kept"
    );
}
