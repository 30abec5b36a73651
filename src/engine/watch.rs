//! Watching: how a door notices that a job changed, at once when it was woken and soon when it was not.

use std::time::Duration;

use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::Engine;
use crate::domain::id::JobKey;

/// Wake-ups can be lost between processes; a watcher looks this often without one.
const POLL: Duration = Duration::from_secs(1);

/// The changes of one job from now on.
///
/// Make it before the first look, so that no change falls between the look and the wait.
#[derive(Debug)]
pub struct Changes {
    number: u64,
    jobs: Receiver<u64>,
}

impl Changes {
    /// Returns when the job may have changed; sometimes it has not.
    pub async fn next(&mut self) {
        let spread = POLL.mul_f64(0.75 + rand::random::<f64>() / 2.0);
        let changed = async {
            loop {
                match self.jobs.recv().await {
                    Ok(number) if number != self.number => {}
                    // Lagging: among what was missed may be this job.
                    Ok(_) | Err(RecvError::Lagged(_) | RecvError::Closed) => return,
                }
            }
        };
        // Time over: look without having been woken.
        let _ = tokio::time::timeout(spread, changed).await;
    }
}

impl Engine {
    /// The changes of a job from now on.
    pub fn changes(&self, key: &JobKey) -> Changes {
        Changes { number: key.wake_number(), jobs: self.store.wake().watch_jobs() }
    }
}
