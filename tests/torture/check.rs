//! The checker: one function per invariant, each of which says how much it looked at and what it found wrong.

mod history;
mod lease;
mod outside;
mod people;
mod silence;

use super::evidence::Evidence;
use super::world::World;

/// How many violations of one law are shown.
const EXAMPLES: usize = 5;

/// What one law's check came to.
pub struct Check {
    name: &'static str,
    checked: usize,
    violations: usize,
    examples: Vec<String>,
}

impl Check {
    fn of(name: &'static str) -> Self {
        Self { name, checked: 0, violations: 0, examples: Vec::new() }
    }

    /// One more thing that was looked at, and whether it is as it has to be.
    fn demand(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.violations += 1;
            if self.examples.len() < EXAMPLES {
                self.examples.push(what());
            }
        }
    }
}

/// Judges everything and prints it; answers how many violations there are, and how much was looked at.
pub async fn judge(world: &World, evidence: &Evidence) -> (usize, usize) {
    let records = &world.records;
    let checks = [
        history::an_answered_submit_is_never_lost(records, evidence),
        history::an_answered_action_is_in_the_history(records, evidence),
        history::a_job_ends_early_only_by_people(evidence),
        history::a_checkpointed_step_is_never_asked_again(evidence),
        history::a_result_is_stored_before_the_next_step_begins(evidence),
        lease::only_the_holder_moves_a_running_job(evidence),
        lease::each_call_is_begun_by_the_attempt_in_hand(evidence),
        lease::epochs_grow_and_belong_to_one_executor(evidence),
        lease::each_attempt_is_told_once(evidence),
        lease::only_the_dead_and_the_frozen_lose_attempts(&world.fleet.struck, evidence),
        history::a_paused_job_does_not_move(evidence),
        history::no_call_is_begun_after_a_cancellation(evidence),
        history::a_terminal_status_changes_only_by_retry(evidence),
        history::sequences_are_gapless_and_agree_with_the_job(evidence),
        outside::every_watcher_saw_the_history(records, evidence),
        people::an_approval_has_one_outcome(evidence),
        people::nobody_votes_after_the_end_or_the_deadline(evidence),
        people::every_vote_by_link_was_a_button_that_was_pressed(records, evidence),
        people::each_end_is_told_once_to_each_person(evidence),
        people::no_end_is_sent_twice(evidence),
        outside::the_ledger_holds_every_request(evidence),
        outside::nothing_is_left_open(evidence),
        silence::no_log_tells_a_secret(world, evidence).await,
        strange(world),
    ];
    println!("{:<62} {:>9} {:>10}", "what must hold", "checked", "violations");
    for check in &checks {
        println!("{:<62} {:>9} {:>10}", check.name, check.checked, check.violations);
        for example in &check.examples {
            println!("    {example}");
        }
    }
    let violations = checks.iter().map(|check| check.violations).sum();
    (violations, checks.iter().map(|check| check.checked).sum())
}

/// Answers, exits and logs that no fault explains.
fn strange(world: &World) -> Check {
    let mut check = Check::of("no server says or does what no fault explains");
    for what in world.tally.strange() {
        check.demand(false, || what);
    }
    check
}
