//! The demo as anybody starts it: its walk through every exercise has to hold.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::program::Program;

/// It takes a quarter of a minute on an idle machine.
const WITHIN: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_walks_through_everything_by_itself_and_all_of_it_holds() {
    let output = Program::run(&["demo", "--auto"], &BTreeMap::new(), WITHIN).await;
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}\n{errors}");
}
