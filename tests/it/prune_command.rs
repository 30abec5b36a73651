//! `longhaul prune`: what would go is told first, and then goes, from the shell.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::rpc::proto::JobStatus;
use serde_json::{Value, json};

use crate::harness::{Rig, cancel, job, wait};
use crate::program::Program;

const WITHIN: Duration = Duration::from_mins(2);

async fn prune(rig: &Rig, args: &[&str]) -> (i32, String, String) {
    let variables = BTreeMap::from([("DATABASE_URL".to_owned(), rig.db.url.clone())]);
    let output = Program::run(&[&["prune"], args].concat(), &variables, WITHIN).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn filled() -> Rig {
    let rig = Rig::start_with(&[("LONGHAUL_NOTIFY", "")]).await;
    for number in 0..3 {
        let job_id = format!("done-{number}");
        rig.submit(job(&job_id, [wait(0)])).await;
        rig.settled_as(&job_id, JobStatus::Completed).await;
    }
    rig.submit(job("cancelled", [wait(3600)])).await;
    rig.control("cancelled", cancel()).await;
    rig.db.shift_clock(60).await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_and_changes_nothing_and_the_other_prunes() {
    let rig = filled().await;
    // Half a minute, in days.
    let days = ["--completed-days", "0.00035"];
    let (code, said, errors) = prune(&rig, &[&days[..], &["--dry-run", "--json"]].concat()).await;
    assert_eq!(code, 0, "{errors}");
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&told["jobs"], &told["due"][0]["status"]),
        (&json!(3), &json!("completed")),
        "{told}"
    );
    assert_eq!(rig.db.number("select count(*) from longhaul.tombstone").await, 0);
    let (_, table, _) = prune(&rig, &[&days[..], &["--dry-run"]].concat()).await;
    assert!(table.contains("WOULD GO") && table.contains("completed"), "{table}");

    let pass_time = async {
        rig.db.wait_until("select count(*) = 3 and $1 <> '' from longhaul.tombstone", "any").await;
        rig.db.shift_clock(11).await;
    };
    let now = [&days[..], &["--json"]].concat();
    let ((code, said, errors), ()) = tokio::join!(prune(&rig, &now), pass_time);
    assert_eq!(code, 0, "{errors}");
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["pruned"], json!({"completed": 3, "failed": 0, "cancelled": 0}), "{told}");
    assert_eq!((&told["left"], rig.db.job_count().await), (&json!(0), 1));
    assert!(errors.contains("3 jobs marked") && errors.contains("3 jobs pruned"), "{errors}");
    let (code, said, _) = prune(&rig, &days).await;
    assert_eq!((code, said.trim()), (0, "0 jobs pruned: 0 completed, 0 failed, 0 cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_time_nothing_is_pruned_and_a_wrong_one_is_named() {
    let rig = filled().await;
    for (args, expected) in [
        (&[][..], "LONGHAUL_KEEP_COMPLETED_DAYS"),
        (&["--failed-days", "0"], "kept for ever"),
        (&["--failed-days", "soon"], "must be a number of days"),
    ] {
        let (code, _, errors) = prune(&rig, args).await;
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
    assert_eq!(rig.db.number("select count(*) from longhaul.tombstone").await, 0);
}
