//! The exercise pause and resume: a job is held between two steps, for as long as one likes.
//!
//! In come the doors; out go checks: a pause in the middle of a model call waits for its answer and stores it,
//! the job then stays where it is, and a resume goes on behind it without asking the model again.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::{check::Checks, doors::Doors, submission};
use crate::{
    cli::word,
    rpc::proto::{JobStatus, StepStatus},
};

const FIRST: &str = "List the ingredients of a plain pancake.";
const SECOND: &str = "Now write the recipe in four sentences.";
const JOB: &str = "demo-pause";

/// A job of two model calls, paused in the first.
pub async fn pause_and_resume(doors: &Doors, checks: &mut Checks) -> Result<()> {
    checks.exercise(
        "Pause and resume",
        &[
            "The pause comes while the model is answering step 1.",
            "The answer is paid for, so it is kept.",
        ],
    )?;
    doors.script_model(json!({"hold": true, "matching": FIRST})).await?;
    doors.submit(&submission(JOB, &[FIRST, SECOND], false, "+15550104")).await?;
    doors.held(FIRST, 1).await?;
    let answer = doors.control(JOB, "pause").await?;
    let noted = answer.status == 200 && answer.body["changed"] == true;
    checks.expect("the pause is noted while step 1 runs", noted, &answer.told())?;
    doors.script_model(Value::Null).await?;
    let job = doors.settled(JOB).await?;
    let first_done = job.steps.first().is_some_and(|step| step.status() == StepStatus::Done);
    let held = job.status() == JobStatus::Paused && first_done;
    checks.expect("the job is paused behind step 1", held, &word::job_status(job.status))?;
    let again = doors.control(JOB, "pause").await?;
    let unchanged = again.status == 200 && again.body["changed"] == false;
    checks.expect("a second pause changes nothing", unchanged, &again.told())?;
    // Long enough for every loop of the server to have looked at the job.
    let moved = doors.asked(SECOND, 1, Duration::from_millis(2_500)).await?;
    let stays = moved == 0 && doors.job(JOB).await?.status() == JobStatus::Paused;
    checks.expect("it stays paused", stays, &format!("{moved} requests for step 2 in 2.5 s"))?;
    doors.control(JOB, "resume").await?;
    let end = doors.settled(JOB).await?;
    let completed = end.status() == JobStatus::Completed;
    checks.expect("a resume goes on to the end", completed, &word::job_status(end.status))?;
    let now = Duration::ZERO;
    let asked = [doors.asked(FIRST, 0, now).await?, doors.asked(SECOND, 0, now).await?];
    checks.expect("the model was asked once for each step", asked == [1, 1], &format!("{asked:?}"))
}
