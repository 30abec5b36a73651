//! The provider's list of models: what a model does not take is refused before anything is stored.

use longhaul::rpc::proto::{Effort, RunStep, Step, SubmitJobRequest};
use serde_json::json;

use crate::harness::{Rig, job, run_step};

fn asks(model: &str, change: impl FnOnce(&mut RunStep)) -> Step {
    let (prompt, model) = ("Write a line.".to_owned(), model.to_owned());
    let mut run = RunStep { prompt, model, ..RunStep::default() };
    change(&mut run);
    run_step(run)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_does_not_take_is_refused_at_submit_once_the_list_has_come() {
    let rig = Rig::start_with(&[("LONGHAUL_MODEL_LIST_SECONDS", "3600")]).await;
    let bad = [
        asks("claude-of-tomorrow", |_| {}),
        asks("claude-haiku-4-5", |run| run.max_tokens = 64_001),
        asks("claude-haiku-4-5", |run| run.effort = Effort::High.into()),
        asks("claude-opus-5-5", |run| {
            run.extra_json = json!({"thinking": {"type": "disabled"}}).to_string();
        }),
    ];
    let fields = ["model", "max_tokens", "effort", "extra_json"];
    // The list comes by itself a moment after the start.
    let only_checked = || SubmitJobRequest { validate_only: true, ..job("bad", bad.clone()) };
    let refused = loop {
        if let Err(status) = rig.try_submit(only_checked()).await {
            break format!("{status:?}");
        }
    };
    for (at, field) in fields.into_iter().enumerate() {
        let field = format!("steps[{at}].run.{field}");
        assert!(refused.contains(&field), "{field} in {refused}");
    }
    assert_eq!(rig.db.job_count().await, 0);
    // An id without its date, and everything a model takes, is taken.
    rig.submit(job("good", [asks("claude-haiku-4-5", |run| run.max_tokens = 64_000)])).await;
}
