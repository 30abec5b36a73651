//! What is imported keeps the laws: its row, its history, and that nobody is told of an end that was before.

use proptest::prelude::*;

use super::check::{check_history, check_row};
use super::sample::result;
use super::spec::{specs, start};
use crate::domain::import::{Past, Standing, import};
use crate::domain::job::{JobState, Status};
use crate::domain::spec::Work;
use crate::domain::state::{Action, next};

fn standings() -> impl Strategy<Value = Standing> {
    let ended = |status| Standing::Ended { status, reason: None, message: "ended".to_owned() };
    prop_oneof![
        Just(Standing::GoesOn),
        Just(Standing::Held),
        Just(ended(Status::Failed)),
        Just(ended(Status::Cancelled)),
        Just(ended(Status::Completed)),
    ]
}

proptest! {
    #[test]
    fn what_is_imported_keeps_the_laws(spec in specs(), standing in standings(), done in 0_usize..8) {
        let is_completed = matches!(standing, Standing::Ended { status: Status::Completed, .. });
        let done = if is_completed { spec.steps.len() } else { done.min(spec.steps.len()) };
        let results = spec.steps[..done].iter().map(|step| match step.work {
            Work::Run(_) => Some(result()),
            Work::Approval(_) | Work::Wait(_) => None,
        });
        let past = Past { done: results.collect(), standing: standing.clone() };
        let (birth, moved) = import(&spec, past, "import", start());
        let nothing = JobState::new(spec.step_count(), start());
        check_history(&nothing, &birth)?;
        check_row(&birth.state, &spec)?;
        check_history(&birth.state, &moved)?;
        check_row(&moved.state, &spec)?;
        prop_assert!(moved.checkpoints.len() >= done);
        match standing {
            Standing::Ended { status, .. } => {
                prop_assert_eq!((moved.state.status, moved.notices.len()), (status, 0));
                if status != Status::Completed {
                    let again = Action::Retry { from_step: None };
                    let again = next(&moved.state, &spec, again, "client", start());
                    prop_assert!(matches!(again, Ok(Some(_))), "it can be begun again");
                }
            }
            Standing::Held if done < spec.steps.len() => {
                prop_assert_eq!((moved.state.status, moved.notices.len()), (Status::Paused, 0));
                let goes_on = Action::Resume { budget_usd: None };
                let goes_on = next(&moved.state, &spec, goes_on, "client", start());
                prop_assert!(matches!(goes_on, Ok(Some(_))), "it can be let go on");
            }
            Standing::GoesOn | Standing::Held => {
                prop_assert!(moved.state.status != Status::Paused);
            }
        }
    }
}
