//! Proves this client beside the others: `scenario` goes through the scenario of all clients, which
//! `LONGHAUL_CONFORMANCE` hands out, and prints what fails; `follow JOB_ID` prints the sequence of each event of a job.
#![expect(
    clippy::print_stdout,
    reason = "its reports are read by people and by clients/conformance/run.py"
)]

mod judge;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::TryStreamExt as _;
use judge::{difference, refusal};
use longhaul_client::v1::event::Detail;
use longhaul_client::v1::{GetJobRequest, ListJobsRequest, StepKind, Usage, WatchJobRequest};
use longhaul_client::{Client, Result, Update};
use prost::Message as _;
use serde_json::{Value, json};
use world::{World, connect};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let went_well = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["scenario"] => scenario().await,
        ["follow", job_id] => follow(job_id).await.inspect_err(|why| eprintln!("{why:?}")).is_ok(),
        _ => panic!("usage: conformance scenario | follow JOB_ID"),
    };
    if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn follow(job_id: &str) -> Result<()> {
    let request = WatchJobRequest { after_sequence: Some(0), ..job_id.into() };
    let mut updates = Client::from_env()?.watch(request);
    while let Some(update) = updates.try_next().await? {
        // Each line is flushed by its end.
        if let Update::Event(event) = update {
            println!("{}", event.sequence);
        }
    }
    Ok(())
}

async fn scenario() -> bool {
    let mut run = Run { world: World::new(), went_well: true };
    let scenario = run.world.scenario().await;
    for step in scenario["steps"].as_array().expect("a scenario has steps") {
        run.step(step).await;
    }
    run.went_well
}

struct Run {
    world: World,
    went_well: bool,
}

impl Run {
    async fn step(&mut self, step: &Value) {
        let refused = &step["refused"];
        let fault = match self.call(step).await {
            Ok(answer) if refused.is_null() => {
                step.get("expect").and_then(|wanted| difference(&answer, wanted, "answer"))
            }
            Ok(answer) => Some(format!("expected {refused}, came {answer}")),
            Err(error) => refusal(&error, refused),
        };
        if let Some(fault) = fault {
            self.went_well = false;
            println!("{} {:?}: {fault}", text(step, "do"), text(step, "name"));
        }
    }

    async fn call(&mut self, step: &Value) -> Result<Value> {
        let (client, job_id, with) = (connect(step)?, text(step, "job_id"), &step["with"]);
        let world = &self.world;
        let moved = match text(step, "do") {
            "submit" => {
                let request = world.message("SubmitJobRequest", &step["request"]);
                return Ok(world.json("SubmitJobResponse", &client.submit(request).await?));
            }
            "get" => {
                let request: GetJobRequest = world.message("GetJobRequest", &step["request"]);
                return Ok(world.json("GetJobResponse", &client.get(request).await?));
            }
            "wait" => {
                let job = client.wait(job_id, Duration::from_secs(60)).await?;
                return Ok(world.json("Job", &job));
            }
            "list" => return self.list(&client, step).await,
            "watch" => return self.watch(&client, step).await,
            "vectors" => return Ok(self.vectors(step)),
            "pause" => client.pause(job_id, world.message("PauseAction", with)).await?,
            "resume" => client.resume(job_id, world.message("ResumeAction", with)).await?,
            "cancel" => client.cancel(job_id, world.message("CancelAction", with)).await?,
            "retry" => client.retry(job_id, world.message("RetryAction", with)).await?,
            "approve" => client.approve(job_id, world.message("ApproveAction", with)).await?,
            "reject" => client.reject(job_id, world.message("RejectAction", with)).await?,
            "request_changes" => {
                client.request_changes(job_id, world.message("RequestChangesAction", with)).await?
            }
            unknown => panic!("the scenario wants to {unknown}"),
        };
        Ok(world.json("ControlResponse", &moved))
    }

    async fn list(&self, client: &Client, step: &Value) -> Result<Value> {
        let request = json!({"selector": step["selector"], "pageSize": step["page_size"]});
        let request: ListJobsRequest = self.world.message("ListJobsRequest", &request);
        let jobs: Vec<_> = client.list(request).map_ok(|job| job.job_id).try_collect().await?;
        Ok(json!({"job_ids": jobs}))
    }

    async fn watch(&mut self, client: &Client, step: &Value) -> Result<Value> {
        let mut updates = client.watch(WatchJobRequest {
            after_sequence: step["after_sequence"].as_i64().map(|sequence| sequence as i32),
            include_output_deltas: step["deltas"] == true,
            ..text(step, "job_id").into()
        });
        let (mut snapshot, mut sequences, mut kinds) = (Value::Null, Vec::new(), Vec::new());
        let (mut streamed, mut deltas_are_output, mut came) = (String::new(), false, 0);
        while let Some(update) = updates.try_next().await? {
            match update {
                Update::Snapshot(job) => snapshot = self.world.json("Job", &job),
                Update::OutputDelta(delta) => {
                    streamed = streamed.chars().take(delta.offset as usize).collect();
                    streamed += &delta.text;
                }
                Update::Event(event) => {
                    sequences.push(event.sequence);
                    kinds.push(event.kind().as_str_name());
                    if let Some(Detail::StepFinished(finished)) = &event.detail
                        && finished.kind() == StepKind::Run
                    {
                        deltas_are_output = !streamed.is_empty() && finished.output == streamed;
                    }
                    let then = &step["on"][event.sequence.to_string()];
                    for what in then.as_array().into_iter().flatten() {
                        match what.as_str() {
                            Some(what) => self.world.suffer(what).await,
                            None => Box::pin(self.step(what)).await,
                        }
                    }
                }
                Update::Notice(_) | Update::Heartbeat(_) => {}
            }
            came += 1;
            if step["leave_after"] == came {
                break;
            }
        }
        Ok(json!({
            "snapshot": snapshot, "sequences": sequences, "kinds": kinds,
            "deltas_are_output": deltas_are_output,
        }))
    }

    /// Turns each into the other form.
    fn vectors(&self, step: &Value) -> Value {
        let vectors = step["vectors"].as_array().expect("a step of vectors has some");
        let turned = vectors.iter().map(|vector| {
            let wire = BASE64_STANDARD.decode(text(vector, "wire")).expect("it is base64");
            let usage = Usage::decode(&*wire).expect("it is a Usage");
            let back: Usage = self.world.message("Usage", &vector["json"]);
            json!({
                "wire": BASE64_STANDARD.encode(back.encode_to_vec()),
                "json": self.world.json("Usage", &usage),
            })
        });
        let turned: Value = turned.collect();
        assert_eq!(turned, step["vectors"], "they turn into each other");
        json!({})
    }
}

fn text<'a>(step: &'a Value, name: &str) -> &'a str {
    step[name].as_str().unwrap_or_default()
}
