//! The program of the README, as it is there.
#![expect(clippy::print_stdout, reason = "a program that answers by printing")]

use futures::TryStreamExt as _;
use longhaul_client::v1::{RunStep, SubmitJobRequest};
use longhaul_client::{Client, Update};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    let prompt = "Write one line about a budgeting app.".into();
    let run = RunStep { prompt, ..Default::default() };
    let request = SubmitJobRequest { steps: vec![run.into()], ..Default::default() };
    let job_id = client.submit(request).await?.job.unwrap_or_default().job_id;
    let mut updates = client.watch(&job_id);
    while let Some(update) = updates.try_next().await? {
        if let Update::Event(event) = update {
            println!("{}", event.message);
        }
    }
    println!("{}", client.wait(&job_id, None).await?.output);
    Ok(())
}
