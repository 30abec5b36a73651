//! Watching: how a door notices that a job changed, at once when it was woken and soon when it was not.
//!
//! What it waits for comes from the store, which wakes by job and looks once a second for all who wait.

use super::Engine;
use crate::domain::id::JobKey;
use crate::store::StoreError;
use crate::store::event::History;
use crate::store::feed::Following;

/// The changes of one job from now on.
///
/// Make it before the first look, so that no change falls between the look and the wait.
#[derive(Debug)]
pub struct Changes(Following);

impl Changes {
    /// Returns when the job may have changed; sometimes it has not.
    pub async fn next(&mut self) {
        self.next_after(0).await;
    }

    /// The same for somebody who has read the events up to a sequence.
    pub async fn next_after(&mut self, read: i32) {
        self.0.news(read).await;
    }

    /// A page after a sequence, no older than the last change; it is read once for all who watch the job.
    pub async fn page(&self, after: i32) -> Result<History, StoreError> {
        self.0.page(after).await
    }

    /// A page after a sequence as it is now.
    pub async fn page_now(&self, after: i32) -> Result<History, StoreError> {
        self.0.page_alone(after).await
    }
}

impl Engine {
    /// The changes of a job from now on.
    pub fn changes(&self, key: &JobKey) -> Changes {
        Changes(self.store.follow(key))
    }
}
