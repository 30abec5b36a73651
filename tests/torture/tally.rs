//! What happened, counted by name: of attacks, of answers, and of what was seen.
//!
//! Also the answers that no fault explains, which are violations of their own.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// Counts by name.
#[derive(Default)]
pub struct Tally {
    counts: Mutex<BTreeMap<String, u64>>,
    strange: Mutex<Vec<String>>,
}

impl Tally {
    /// Counts one more.
    pub fn add(&self, name: &str) {
        self.add_many(name, 1);
    }

    /// Counts so many more.
    pub fn add_many(&self, name: &str, more: u64) {
        *self.counts.lock().unwrap().entry(name.to_owned()).or_default() += more;
    }

    /// How many were counted under names that begin so.
    pub fn count_all(&self, prefix: &str) -> u64 {
        let counts = self.counts.lock().unwrap();
        counts.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    /// Writes down an answer that nothing explains.
    pub fn note_strange(&self, what: String) {
        self.strange.lock().unwrap().push(what);
    }

    /// Those answers.
    pub fn strange(&self) -> Vec<String> {
        self.strange.lock().unwrap().clone()
    }

    /// Prints everything, one line each.
    pub fn print(&self) {
        for (name, count) in &*self.counts.lock().unwrap() {
            println!("  {name:<44} {count:>9}");
        }
    }
}
