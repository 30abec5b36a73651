//! Watching: how a door notices that a job changed, at once when it was woken and soon when it was not.
//!
//! What it waits for comes from the store, which wakes by job and looks once a second for all who wait.

use super::Engine;
use super::answer::Listening;
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
    /// Returns when what happened after a sequence has brought the job to where it stands still.
    ///
    /// What is written in this process tells it, so that the job itself need not be read at each change.
    pub async fn until_it_stands_still(&mut self, after: i32) -> Result<(), StoreError> {
        let mut read = after;
        let mut is_behind = false;
        loop {
            if !is_behind {
                self.next_after(read).await;
            }
            let page = self.page(read).await?;
            let last = page.events.last().map(|last| &last.event);
            read = last.map_or(read, |last| last.sequence);
            is_behind = read < page.last_sequence;
            if last.is_some_and(|last| !is_behind && last.status.stands_still()) {
                return Ok(());
            }
        }
    }

    /// Returns when the job may have changed for somebody who has read the events up to a sequence; sometimes it has not.
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

    /// The answers of a job from now on, as they arrive.
    pub fn listen(&self, key: &JobKey) -> Listening {
        self.executor.answers().listen(key)
    }
}
