//! The exercise duplicate submit: one job id is one job, however often and however hard it is submitted.
//!
//! In come the doors; out go checks: twenty submits at once make one job, another one later finds it,
//! and other content under the same id is refused with the name of the field.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;

use super::{check::Checks, doors::Doors, submission};

const PHONE: &str = "+15550103";
const PROMPT: &str = "Name three virtues of a household budget.";

/// The same job, twenty-one times.
pub async fn duplicate(doors: &Doors, checks: &mut Checks) -> Result<()> {
    checks.exercise(
        "Duplicate submit",
        &[
            "A client that does not know whether its submit arrived sends it again.",
            "That must be safe.",
        ],
    )?;
    let job = submission("demo-duplicate", &[PROMPT], true, PHONE);
    let answers = try_join_all((0..20).map(|_| doors.submit(&job))).await?;
    let created = answers.iter().filter(|answer| answer.body["created"] == true).count();
    let answered = answers
        .iter()
        .filter(|answer| answer.status == 200 && answer.body["job_id"] == "demo-duplicate");
    let answered = answered.count();
    let seen = format!("{answered} answered, {created} created");
    checks.expect("twenty at once make one job", answered == 20 && created == 1, &seen)?;
    doors.settled("demo-duplicate").await?;
    let again = doors.submit(&job).await?;
    let found = again.status == 200 && again.body["created"] == false;
    checks.expect("one more finds it as it is now", found, &again.told())?;
    let asked = doors.asked(PROMPT, 2, Duration::from_millis(500)).await?;
    checks.expect("the model was asked once", asked == 1, &format!("{asked} request"))?;
    let other = submission("demo-duplicate", &["Something else."], true, PHONE);
    let refused = doors.submit(&other).await?;
    let message = refused.body["message"].as_str().unwrap_or_default();
    let names_field = refused.status == 409 && message.contains("steps[0]");
    let seen = format!("{} {message}", refused.status.as_u16());
    checks.expect("other content is refused, naming the field", names_field, &seen)
}
