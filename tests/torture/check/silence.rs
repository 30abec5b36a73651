//! What servers wrote into their logs, however bad it was for them.

use std::collections::BTreeSet;

use super::Check;
use crate::torture::evidence::Evidence;
use crate::torture::fleet::SECRETS;
use crate::torture::shape::{PEOPLE, TEXTS};
use crate::torture::world::World;

/// How many outputs are searched for; the sandbox repeats itself.
const OUTPUTS: &str = "select distinct left(output, 40) from longhaul.checkpoint
  where length(output) > 20 limit 100";

/// No line of any log holds a key, a token of a link, a prompt, an output or a number.
pub async fn no_log_tells_a_secret(world: &World, evidence: &Evidence) -> Check {
    let mut check = Check::of("no log tells a secret, a prompt, an output or a number");
    let outputs = sqlx::query_scalar::<_, String>(OUTPUTS).fetch_all(&world.db.pool).await.unwrap();
    let numbers = PEOPLE.iter().map(|number| number.trim_start_matches('+').to_owned());
    let fixed = SECRETS.iter().chain(&TEXTS).map(|text| (*text).to_owned());
    let texts: Vec<String> = fixed.chain(numbers).chain(outputs).collect();
    let tokens = tokens(evidence);
    for (number, log) in world.fleet.logs() {
        for line in log.lines() {
            let told = texts.iter().find(|text| line.contains(text.as_str()));
            let token = words(line).find(|word| tokens.contains(word));
            let holds = told.is_none() && token.is_none();
            check.demand(holds, || format!("server {number} tells {told:?}{token:?}: {line}"));
        }
    }
    check
}

/// The tokens of every link that was sent.
fn tokens(evidence: &Evidence) -> BTreeSet<&str> {
    let texts = evidence.messages.iter().filter_map(|message| message["text"].as_str());
    let links = texts.flat_map(|text| text.split("/approvals/").skip(1));
    links.filter_map(|rest| words(rest).next()).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_')))
}
