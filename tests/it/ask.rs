//! Asking: jobs that wait for a person, and what that person has in hand: the links in their message.

use longhaul::rpc::proto::{JobStatus, SubmitJobRequest};
use serde_json::Value;

use crate::harness::{Client, PERSON, Rig, Sandbox, approval, job, run};

/// The note of the jobs that `asking` makes.
pub const NOTE: &str = "May this go out to all customers?";

/// The two links of a message, as addresses.
#[derive(Clone, Debug)]
pub struct Links {
    pub approve: String,
    pub reject: String,
}

/// A job that drafts something and asks whether it may go out.
pub fn asking(job_id: &str) -> SubmitJobRequest {
    job(job_id, [run("Write one line about a budgeting app."), approval(NOTE)])
}

/// Submits a job and answers with the links that its person got in the last request, once the server knows that they did.
pub async fn ask(rig: &Rig, job: SubmitJobRequest) -> Links {
    let job_id = job.job_id.clone();
    rig.submit(job).await;
    rig.settled_as(&job_id, JobStatus::AwaitingApproval).await;
    let sent = "select bool_and(delivery = 'sent') from longhaul.outbox where job_id = $1";
    rig.db.wait_until(sent, &job_id).await;
    let messages = rig.sandbox.messages(PERSON, 1).await;
    let is_asking = |message: &&Value| message["text"].as_str().unwrap().contains("/approvals/");
    links_in(messages.iter().rev().find(is_asking).expect("the request was sent"))
}

/// The links in the message of this number, counted from 1, to a person.
pub async fn links(sandbox: &Sandbox, person: &str, number: usize) -> Links {
    let messages = sandbox.messages(person, number).await;
    links_in(&messages[number - 1])
}

fn links_in(message: &Value) -> Links {
    let text = message["text"].as_str().unwrap();
    let mut found = text.split_whitespace().filter(|word| word.contains("/approvals/"));
    let mut next = || found.next().unwrap_or_else(|| panic!("no link in {text}")).to_owned();
    Links { approve: next(), reject: next() }
}

/// What pressing a button of the page sends.
pub async fn form(client: &Client, job_id: &str, verdict: &str, comment: &str) -> String {
    let asked = client.job(job_id).await.approval.expect("the job asks");
    let fields =
        [("approval_id", asked.approval_id.as_str()), ("verdict", verdict), ("comment", comment)];
    serde_urlencoded::to_string(fields).unwrap()
}
