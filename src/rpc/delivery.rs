//! Deliveries as a watch tells them: the notices of a job, each as it is at first and again when it has changed.
//!
//! What becomes of notices is no event of the job, so nobody is woken by it: who wants to know looks once a second.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::convert::job::{notice, reveal};
use super::proto;
use crate::domain::id::JobKey;
use crate::store::Store;

const PACE: Duration = Duration::from_secs(1);

/// What a client has been told of a job's notices.
pub struct Deliveries {
    store: Store,
    key: JobKey,
    /// Whether the number of whom one is for is shown whole.
    is_whole: bool,
    /// The last that was told of each, by its id.
    told: HashMap<String, proto::Notice>,
    ready: VecDeque<proto::Notice>,
    pace: Interval,
}

impl Deliveries {
    /// Nothing has been told yet.
    pub fn new(store: Store, key: JobKey, is_whole: bool) -> Self {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { store, key, is_whole, told: HashMap::new(), ready: VecDeque::new(), pace }
    }

    /// The next notice that is new or has changed. It may be dropped while it waits.
    pub async fn next(&mut self) -> proto::Notice {
        loop {
            if let Some(notice) = self.ready.pop_front() {
                return notice;
            }
            self.pace.tick().await;
            self.look().await;
        }
    }

    /// What has changed since the last look, when there will be no other.
    pub async fn last(&mut self) -> Vec<proto::Notice> {
        self.look().await;
        self.ready.drain(..).collect()
    }

    async fn look(&mut self) {
        match self.store.notices_of(&self.key).await {
            Ok(notices) => {
                let mut told: Vec<proto::Notice> = notices.iter().map(notice).collect();
                if self.is_whole {
                    reveal(&mut told, &notices);
                }
                for notice in told {
                    if self.told.get(&notice.notice_id) != Some(&notice) {
                        self.told.insert(notice.notice_id.clone(), notice.clone());
                        self.ready.push_back(notice);
                    }
                }
            }
            // What it would have found is found by the next look.
            Err(error) => tracing::debug!(%error, "a watch could not read notices"),
        }
    }
}
