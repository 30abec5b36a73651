//! Control: the actions of people on one job.

use super::transition::Acted;
use super::{Store, StoreError};
use crate::domain::id::JobKey;
use crate::domain::state::Action;

impl Store {
    /// Holds the job where it is; `now` aborts the attempt in hand.
    pub async fn pause(&self, key: &JobKey, now: bool, actor: &str) -> Result<Acted, StoreError> {
        self.act(key, None, &Action::Pause { now }, actor).await
    }

    /// Lets a paused job go on.
    pub async fn resume(&self, key: &JobKey, actor: &str) -> Result<Acted, StoreError> {
        self.act(key, None, &Action::Resume, actor).await
    }

    /// Ends the job.
    pub async fn cancel(
        &self,
        key: &JobKey,
        comment: &str,
        actor: &str,
    ) -> Result<Acted, StoreError> {
        let comment = comment.to_owned();
        self.act(key, None, &Action::Cancel { comment }, actor).await
    }

    /// Begins the job again.
    pub async fn retry(
        &self,
        key: &JobKey,
        from_step: Option<i32>,
        actor: &str,
    ) -> Result<Acted, StoreError> {
        self.act(key, None, &Action::Retry { from_step }, actor).await
    }
}
