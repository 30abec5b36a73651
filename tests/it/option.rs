//! What a run step may ask for besides its prompt, through a server: how it reaches the model, and what becomes of cut answers.

use longhaul::rpc::proto::{
    Effort, GetJobRequest, JobStatus, RunStep, TruncationPolicy, UserLocation, WebSearch,
    step::Kind,
};
use serde_json::json;

use crate::harness::{Rig, job, run, run_step};

fn cut(on_truncated: TruncationPolicy) -> RunStep {
    RunStep {
        prompt: "Write a long text.".to_owned(),
        max_tokens: 3,
        on_truncated: on_truncated.into(),
        ..RunStep::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_option_reaches_the_model_and_is_shown_as_it_was_sent() {
    let rig = Rig::start().await;
    let step = RunStep {
        prompt: "Where am I?".to_owned(),
        effort: Effort::Low.into(),
        output_schema_json: r#"{"type":"object","properties":{"city":{"type":"string"}},
          "required":["city"],"additionalProperties":false}"#
            .to_owned(),
        stop_sequences: vec!["STOP HERE".to_owned()],
        extra_json: r#"{"metadata":{"user_id":"u-1"}}"#.to_owned(),
        web_search: Some(WebSearch {
            user_location: Some(UserLocation {
                city: "Lisbon".to_owned(),
                country: "PT".to_owned(),
                ..UserLocation::default()
            }),
            ..WebSearch::default()
        }),
        ..RunStep::default()
    };
    rig.submit(job("options", [run_step(step.clone())])).await;
    rig.submit(job("plain", [run("Write a line.")])).await;
    for job_id in ["options", "plain"] {
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    let body = &rig.sandbox.requests("Where am I?").await[0]["body"];
    assert_eq!(body["output_config"]["effort"], "low");
    assert_eq!(body["output_config"]["format"]["schema"]["required"], json!(["city"]));
    assert_eq!(body["stop_sequences"], json!(["STOP HERE"]));
    assert_eq!(body["metadata"], json!({"user_id": "u-1"}));
    let place = json!({"type": "approximate", "city": "Lisbon", "country": "PT"});
    assert_eq!(body["tools"][0]["user_location"], place);

    let request = GetJobRequest {
        job_id: "options".to_owned(),
        include_spec: true,
        ..GetJobRequest::default()
    };
    let shown = rig.grpc.clone().get_job(request).await.unwrap().into_inner().spec.unwrap();
    let Some(Kind::Run(frozen)) = &shown.steps[0].kind else { panic!("a run step") };
    assert_eq!(frozen.output_schema_json, step.output_schema_json, "not a letter is changed");
    assert_eq!((frozen.effort, &frozen.extra_json), (step.effort, &step.extra_json));
    // A server of the release before takes only what it understands.
    let versions = "select sum(case job_id when 'options' then 10 else 1 end * spec_version) from longhaul.job";
    assert_eq!(rig.db.number(versions).await, 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_is_kept_by_the_provider_where_the_next_step_follows_at_once() {
    let rig = Rig::start().await;
    let alone = RunStep { prompt: "Alone.".to_owned(), context: 2, ..RunStep::default() };
    rig.submit(job("talk", [run("First."), run("Second."), run_step(alone)])).await;
    rig.submit(job("single", [run("Single.")])).await;
    for job_id in ["talk", "single"] {
        rig.settled_as(job_id, JobStatus::Completed).await;
    }
    for (prompt, is_kept) in
        [("First.", true), ("Second.", true), ("Alone.", false), ("Single.", false)]
    {
        let body = &rig.sandbox.requests(prompt).await[0]["body"];
        assert_eq!(body["cache_control"].is_object(), is_kept, "{prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_fails_its_step_unless_that_says_otherwise() {
    let rig = Rig::start().await;
    rig.submit(job("fails", [run_step(cut(TruncationPolicy::Fail)), run("Not reached.")])).await;
    rig.submit(job("takes", [run_step(cut(TruncationPolicy::Accept)), run("Go on.")])).await;
    let failed = rig.settled_as("fails", JobStatus::Failed).await;
    assert_eq!((failed.reason.as_str(), failed.unpriced_calls), ("MODEL_TRUNCATED", 0));
    assert_eq!(failed.usage.unwrap().calls, 1);
    assert!(!failed.steps[0].partial_output.is_empty());
    // It was paid for: the ledger has what there was of it.
    let kept = "select count(*) from longhaul.model_call
      where job_id = 'fails' and outcome = 'answered' and length(partial_output) > 0";
    assert_eq!(rig.db.number(kept).await, 1);
    let taken = rig.settled_as("takes", JobStatus::Completed).await;
    assert_eq!(taken.steps[0].stop_reason, "max_tokens");
    assert!(!taken.steps[0].output.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_is_gone_on_with_until_it_is_whole() {
    let rig = Rig::start().await;
    rig.submit(job("never", [run_step(cut(TruncationPolicy::Continue))])).await;
    let failed = rig.settled_as("never", JobStatus::Failed).await;
    assert_eq!(failed.reason, "MODEL_TRUNCATED", "each part is cut too");
    assert_eq!(failed.usage.unwrap().calls, 9);

    rig.sandbox
        .break_model(json!({"matching": "Write a long", "times": 1, "stop_reason": "max_tokens"}))
        .await;
    let whole = RunStep { max_tokens: 0, ..cut(TruncationPolicy::Continue) };
    rig.submit(job("whole", [run_step(whole)])).await;
    let done = rig.settled_as("whole", JobStatus::Completed).await;
    assert_eq!((done.steps[0].stop_reason.as_str(), done.usage.unwrap().calls), ("end_turn", 2));
    let requests = rig.sandbox.requests("Continue exactly").await;
    let turns = requests.last().unwrap()["body"]["messages"].as_array().unwrap();
    let begun = turns[1]["content"].as_str().unwrap();
    assert!(done.output.starts_with(begun) && done.output.len() > begun.len());
}
