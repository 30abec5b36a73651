//! The exercises approve and reject: a person decides, on the page behind the link in the message.
//!
//! In come the doors; out go checks: the draft is stored before anyone is asked, opening a link changes nothing,
//! the button of the page does, once, and the end is told to each recipient once.

use anyhow::{Context as _, Result, ensure};

use super::{DEFAULT_PHONE, SEED, SEED_JOB, check::Checks, doors::Doors, page, submission};
use crate::{
    cli::{
        render::{money, tokens},
        word,
    },
    rpc::proto::{Job, JobStatus},
};

/// Who is asked in the exercise reject.
const SECOND_PHONE: &str = "+15550102";

/// A job of two steps, approved.
pub async fn approve(doors: &Doors, checks: &mut Checks) -> Result<()> {
    checks.exercise(
        "Approve",
        &[
            "A job writes a draft and asks a person.",
            "The link opens a page; the page's button decides.",
        ],
    )?;
    let example = serde_json::from_str(SEED).context("reading the example")?;
    let answer = doors.submit(&example).await?;
    let created = answer.status == 200 && answer.body["created"] == true;
    checks.expect("the webhook takes the job", created, &answer.told())?;
    let job = awaiting(doors, SEED_JOB, checks).await?;
    let (link, html) = opened(doors, DEFAULT_PHONE, false).await?;
    // Without the marks of Markdown, which a page shows in its own way.
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let draft = letters(&job.output);
    let shows_draft = !draft.is_empty() && letters(&page::text(&html)).contains(&draft);
    let begins: String = draft.chars().take(12).collect();
    let seen = format!("{begins}…, {} letters", draft.chars().count());
    checks.expect("the page shows the whole draft", shows_draft, &seen)?;
    doors.open_page(&link).await?;
    let after = doors.job(&job.job_id).await?;
    let is_same = after.last_sequence == job.last_sequence && after.status == job.status;
    let seen = format!("{}, {} events", word::job_status(after.status), after.last_sequence);
    checks.expect("opening the link, twice, changes nothing", is_same, &seen)?;
    doors.press(&link, &html, "approve").await?;
    let end = doors.settled(&job.job_id).await?;
    let completed = end.status() == JobStatus::Completed;
    checks.expect("the page's button approves it", completed, &word::job_status(end.status))?;
    told_once(doors, DEFAULT_PHONE, checks).await
}

/// The same, rejected.
pub async fn reject(doors: &Doors, checks: &mut Checks) -> Result<()> {
    checks.exercise("Reject", &["The same job; the person says no, and that ends it."])?;
    let job_id = "demo-reject";
    let prompt = "Write one calm sentence about an app for household budgets.";
    let answer = doors.submit(&submission(job_id, &[prompt], true, SECOND_PHONE)).await?;
    checks.expect("the webhook takes the job", answer.status == 200, &answer.told())?;
    awaiting(doors, job_id, checks).await?;
    let (link, html) = opened(doors, SECOND_PHONE, true).await?;
    doors.press(&link, &html, "reject").await?;
    let end = doors.settled(job_id).await?;
    let seen = format!("{}, {}", word::job_status(end.status), end.reason);
    let cancelled = end.status() == JobStatus::Cancelled && end.reason == "REJECTED";
    checks.expect("the page's other button cancels it", cancelled, &seen)?;
    told_once(doors, SECOND_PHONE, checks).await
}

/// Checks again at the very end that nobody was told anything twice.
pub async fn nothing_came_later(doors: &Doors, checks: &mut Checks) -> Result<()> {
    let mut counts = Vec::new();
    for phone in [DEFAULT_PHONE, SECOND_PHONE] {
        counts.push(doors.messages(phone, 0).await?.len());
    }
    let held = counts == [2, 2];
    checks.expect("no phone has got a message too many since", held, &format!("{counts:?}"))
}

/// Waits until the job asks, and checks that the draft is stored by then.
async fn awaiting(doors: &Doors, job_id: &str, checks: &mut Checks) -> Result<Job> {
    let job = doors.settled(job_id).await?;
    let asks = job.status() == JobStatus::AwaitingApproval;
    ensure!(asks, "the job is {}: {}", word::job_status(job.status), job.status_message);
    let step = job.steps.first().context("the job has no steps")?;
    let usage = step.usage.unwrap_or_default();
    let stored = !step.output.is_empty() && usage.input_tokens > 0 && usage.output_tokens > 0;
    let seen = format!("{} tokens, {}", tokens(Some(&usage)), money(&step.cost_usd, 0));
    checks.expect("when it asks, step 1 is stored", stored, &seen)?;
    Ok(job)
}

/// The link in the message that asks, and the page it opens.
async fn opened(doors: &Doors, phone: &str, last: bool) -> Result<(String, String)> {
    let messages = doors.messages(phone, 1).await?;
    let asks = messages.iter().find(|message| !message.links().is_empty());
    let links = asks.context("no message with a link came")?.links();
    let link = if last { links.last() } else { links.first() };
    let link = link.context("the message has no link")?.to_string();
    let html = doors.open_page(&link).await?;
    Ok((link, html))
}

/// The phone gets two messages: the one that asks, and the one that tells the end.
async fn told_once(doors: &Doors, phone: &str, checks: &mut Checks) -> Result<()> {
    let messages = doors.messages(phone, 2).await?;
    let ends = messages.iter().filter(|message| message.links().is_empty()).count();
    let seen = format!("{} messages in all", messages.len());
    checks.expect("its end is told once", ends == 1 && messages.len() == 2, &seen)
}
