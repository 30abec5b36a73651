//! Submits a job of two steps, shows how it goes, and approves what it asks for.
#![expect(clippy::print_stdout, reason = "it shows something")]

use std::io::{Write as _, stdout};
use std::mem;

use futures::TryStreamExt as _;
use longhaul_client::v1::event::Detail;
use longhaul_client::v1::{
    ApprovalStep, ApproveAction, Event, RunStep, SubmitJobRequest, WatchJobRequest,
};
use longhaul_client::{Client, Result, Update};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::from_env()?;
    let job_id = submit(&client).await?;
    println!("submitted {job_id}");
    let mut updates = client.watch(WatchJobRequest {
        after_sequence: Some(0),
        include_output_deltas: true,
        ..(&job_id).into()
    });
    let mut in_text = false;
    while let Some(update) = updates.try_next().await? {
        match update {
            Update::Event(event) => {
                if mem::take(&mut in_text) {
                    println!();
                }
                show(&client, &job_id, event).await?;
            }
            Update::OutputDelta(delta) => {
                // An answer that begins anew is shown anew.
                if in_text && delta.offset == 0 {
                    println!();
                }
                in_text = true;
                print!("{}", delta.text);
                let _best_effort = stdout().flush();
            }
            Update::Snapshot(_) | Update::Notice(_) | Update::Heartbeat(_) => {}
        }
    }
    let job = client.get(&job_id).await?.job.unwrap_or_default();
    println!("{}: {} USD\n{}", job.status().as_str_name(), job.cost_usd, job.output);
    Ok(())
}

/// Without an id of its own the job gets a new one.
async fn submit(client: &Client) -> Result<String> {
    let draft = RunStep { prompt: "Write one line about {{ task }}.".into(), ..Default::default() };
    let approval = ApprovalStep {
        note: "May this go out?".into(),
        approvers: vec!["+15550100".into()],
        ..Default::default()
    };
    let request = SubmitJobRequest {
        task: "a budgeting app".into(),
        steps: vec![draft.into(), approval.into()],
        ..Default::default()
    };
    Ok(client.submit(request).await?.job.unwrap_or_default().job_id)
}

async fn show(client: &Client, job_id: &str, event: Event) -> Result<()> {
    println!("{:>3} {}", event.sequence, event.message);
    match event.detail {
        Some(Detail::StepFinished(step)) => {
            if let Some(usage) = step.usage {
                let (asked, answered) = (usage.input_tokens, usage.output_tokens);
                println!("    {asked} tokens in, {answered} out, {} USD", step.cost_usd);
            }
        }
        Some(Detail::ApprovalRequested(approval)) => {
            let comment = "Looks good.".into();
            let approval_id = approval.approval_id;
            let action = ApproveAction { approval_id, comment, ..Default::default() };
            client.approve(job_id, action).await?;
        }
        Some(Detail::Decision(_) | Detail::Failure(_) | Detail::Notice(_)) | None => {}
    }
    Ok(())
}
