//! Feeds: the jobs that somebody in this process waits for, and who is woken when one of them changes.
//!
//! In go wake-ups by a job's number, what commits of this process wrote, and what reads and looks find; out come wake-ups of those who follow that job,
//! and pages of its history that they share. A change of a job that nobody follows finds nothing here and costs nothing.
//! Nobody misses a change between a look and a wait: who follows hears of everything from that moment on.
//! The last who leaves takes the feed along.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::Shared;
use sqlx::PgPool;
use tokio::sync::{oneshot, watch};

use super::event::{History, PAGE, read_history};
use super::page::{Page, Recent};
use super::{Store, StoreError, bounded};
use crate::domain::id::JobKey;

/// How many reads are shared before a follower reads alone: the first may be one that began too early.
const SHARED_READS: usize = 3;

/// The jobs that are followed in this process, by their wake numbers, which two jobs may share.
#[derive(Debug, Default)]
pub struct Feeds {
    followed: Mutex<HashMap<u64, Vec<Followed>>>,
}

#[derive(Debug)]
struct Followed {
    feed: Arc<Feed>,
    followers: usize,
}

/// One job that is followed, for all who follow it.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) key: JobKey,
    news: watch::Sender<News>,
    kept: Mutex<Kept>,
}

/// How often a job that is followed was said to have changed, up to some moment.
pub(super) struct Heard {
    feed: Arc<Feed>,
    wakes: u64,
}

/// What is known of a job without having read it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// How often it was said to have changed.
    pub(super) wakes: u64,
    /// The last sequence that any look has found.
    pub(super) last_sequence: i32,
}

#[derive(Debug, Default)]
struct Kept {
    recent: Option<Recent>,
    reading: Option<Reading>,
}

/// A read that is on its way, for all who wait for it.
type Reading = Shared<oneshot::Receiver<Result<Arc<Page>, Arc<StoreError>>>>;

/// Where the next page comes from.
enum Source {
    Here(Page),
    Reading(Reading),
    Alone,
}

impl Feeds {
    fn follow(&self, key: &JobKey) -> Arc<Feed> {
        let mut followed = self.lock();
        let feeds = followed.entry(key.wake_number()).or_default();
        if let Some(known) = feeds.iter_mut().find(|followed| followed.feed.key == *key) {
            known.followers += 1;
            return Arc::clone(&known.feed);
        }
        let feed = Arc::new(Feed::new(key.clone()));
        feeds.push(Followed { feed: Arc::clone(&feed), followers: 1 });
        feed
    }

    fn leave(&self, feed: &Arc<Feed>) {
        let number = feed.key.wake_number();
        let mut followed = self.lock();
        let Some(feeds) = followed.get_mut(&number) else { return };
        for known in feeds.iter_mut().filter(|known| Arc::ptr_eq(&known.feed, feed)) {
            known.followers -= 1;
        }
        feeds.retain(|known| known.followers > 0);
        if feeds.is_empty() {
            followed.remove(&number);
        }
    }

    /// What is known of a job that is followed.
    pub(super) fn heard(&self, key: &JobKey) -> Option<Heard> {
        let feed = self.find(key)?;
        let wakes = feed.news.borrow().wakes;
        Some(Heard { feed, wakes })
    }

    /// Gives what a commit of this process wrote to who follows the job, without a read.
    ///
    /// `heard` is from before the commit: where more was heard since, somebody else may have written as well,
    /// and who follows is only woken.
    pub(super) fn tell(&self, heard: &Heard, after: i32, history: History) {
        let Some(feed) = self.find(&heard.feed.key) else { return };
        if !Arc::ptr_eq(&feed, &heard.feed) {
            return self.wake(feed.key.wake_number());
        }
        let page = Page { after, as_of: heard.wakes + 1, history };
        let mut kept = feed.lock_kept();
        feed.news.send_modify(|news| {
            news.wakes += 1;
            if news.wakes == page.as_of {
                news.last_sequence = news.last_sequence.max(page.history.last_sequence);
                match &mut kept.recent {
                    Some(recent) => recent.add(&page),
                    none => *none = Some(Recent::of(&page)),
                }
            }
        });
    }

    fn find(&self, key: &JobKey) -> Option<Arc<Feed>> {
        let followed = self.lock();
        let feeds = followed.get(&key.wake_number())?;
        feeds.iter().find(|known| known.feed.key == *key).map(|known| Arc::clone(&known.feed))
    }

    /// Wakes who follows the job with this number.
    pub(super) fn wake(&self, number: u64) {
        let feeds = |followed: &Vec<Followed>| {
            followed.iter().map(|known| Arc::clone(&known.feed)).collect::<Vec<_>>()
        };
        // One job can have very many followers, and others must not wait until all of them are woken.
        let feeds = self.lock().get(&number).map(feeds);
        for feed in feeds.into_iter().flatten() {
            feed.news.send_modify(|news| news.wakes += 1);
        }
    }

    /// Every job that is followed.
    pub(super) fn all(&self) -> Vec<Arc<Feed>> {
        let followed = self.lock();
        followed.values().flatten().map(|known| Arc::clone(&known.feed)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Followed>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    fn new(key: JobKey) -> Self {
        Self { key, news: watch::Sender::default(), kept: Mutex::default() }
    }

    /// The last sequence that is known here.
    pub(super) fn last_sequence(&self) -> i32 {
        self.news.borrow().last_sequence
    }

    /// Tells that the job is gone, which whoever follows it finds by a look.
    pub(super) fn is_gone(&self) {
        self.news.send_modify(|news| news.wakes += 1);
    }

    /// Tells that the job's history is at least so long, which wakes whoever did not know.
    pub(super) fn reaches(&self, last_sequence: i32) {
        self.news.send_if_modified(|news| {
            let is_news = last_sequence > news.last_sequence;
            news.last_sequence = news.last_sequence.max(last_sequence);
            is_news
        });
    }

    /// Where to find what follows after a sequence; a read that is needed is begun here.
    fn find_source(self: &Arc<Self>, pool: &PgPool, after: i32, heard: News) -> Source {
        let mut kept = self.lock_kept();
        let mut from = after;
        if let Some(recent) = &kept.recent {
            if let Some(page) = recent.find_page(after, heard) {
                return Source::Here(page);
            }
            if after < recent.after() {
                return Source::Alone;
            }
            from = recent.end();
        }
        let reading = kept.reading.get_or_insert_with(|| self.read(pool.clone(), from));
        Source::Reading(reading.clone())
    }

    /// Reads in a task of its own, since whoever wants to know first may leave first.
    fn read(self: &Arc<Self>, pool: PgPool, after: i32) -> Reading {
        let as_of = self.news.borrow().wakes;
        let (tell, told) = oneshot::channel();
        let feed = Arc::clone(self);
        tokio::spawn(async move {
            let read = bounded(read_history(&pool, &feed.key, after, PAGE)).await;
            let read = read.map(|history| Arc::new(Page { after, as_of, history }));
            // Everybody may have left.
            let _ = tell.send(feed.take_in(read.map_err(Arc::new)));
        });
        told.shared()
    }

    fn take_in(
        &self,
        read: Result<Arc<Page>, Arc<StoreError>>,
    ) -> Result<Arc<Page>, Arc<StoreError>> {
        let mut kept = self.lock_kept();
        kept.reading = None;
        let page = read?;
        match &mut kept.recent {
            Some(recent) => recent.add(&page),
            none => *none = Some(Recent::of(&page)),
        }
        drop(kept);
        self.reaches(page.history.last_sequence);
        Ok(page)
    }

    fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who follows a job, until it is dropped.
#[derive(Debug)]
pub struct Following {
    pool: PgPool,
    feeds: Arc<Feeds>,
    feed: Arc<Feed>,
    news: watch::Receiver<News>,
    heard: News,
}

impl Store {
    /// Follows a job from now on.
    pub fn follow(&self, key: &JobKey) -> Following {
        Following::new(self.pool.clone(), Arc::clone(self.wake.feeds()), key)
    }
}

impl Following {
    fn new(pool: PgPool, feeds: Arc<Feeds>, key: &JobKey) -> Self {
        let feed = feeds.follow(key);
        let mut news = feed.news.subscribe();
        let heard = *news.borrow_and_update();
        Self { pool, feeds, feed, news, heard }
    }

    /// Waits for news of the job, as somebody who has read up to a sequence; sometimes there is none.
    pub async fn news(&mut self, read: i32) {
        loop {
            // The feed lives as long as its followers.
            let _ = self.news.changed().await;
            let before = std::mem::replace(&mut self.heard, *self.news.borrow_and_update());
            if self.heard.wakes != before.wakes || self.heard.last_sequence > read {
                return;
            }
        }
    }

    /// A page after a sequence, no older than the last news; one read does for all who follow the job.
    ///
    /// An error of that read is everybody's who waited for it.
    pub async fn page(&self, after: i32) -> Result<History, StoreError> {
        for _ in 0..SHARED_READS {
            let reading = match self.feed.find_source(&self.pool, after, self.heard) {
                Source::Here(page) => return Ok(page.history),
                Source::Reading(reading) => reading,
                Source::Alone => break,
            };
            let page = match reading.await {
                Ok(read) => read.map_err(|error| everybodys(&error))?,
                Err(_died) => {
                    self.feed.lock_kept().reading = None;
                    break;
                }
            };
            if let Some(page) = page.find_page(after, self.heard) {
                return Ok(page.history);
            }
        }
        self.page_alone(after).await
    }

    /// A page after a sequence as it is now, read for this follower alone.
    pub async fn page_alone(&self, after: i32) -> Result<History, StoreError> {
        bounded(read_history(&self.pool, &self.feed.key, after, PAGE)).await
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.feeds.leave(&self.feed);
    }
}

/// The error of a read as each of those gets it who waited for that read.
fn everybodys(error: &Arc<StoreError>) -> StoreError {
    let source = || sqlx::Error::Io(std::io::Error::other(Arc::clone(error)));
    match &**error {
        StoreError::JobNotFound { key } => StoreError::JobNotFound { key: key.clone() },
        StoreError::JobPruned { key, status, finished_at } => {
            StoreError::JobPruned { key: key.clone(), status: *status, finished_at: *finished_at }
        }
        StoreError::Corrupt { table, what } => StoreError::Corrupt { table, what: what.clone() },
        StoreError::Unavailable(_) => StoreError::Unavailable(source()),
        StoreError::ApprovalNotFound { .. }
        | StoreError::StepNotFound { .. }
        | StoreError::JobIdConflict { .. }
        | StoreError::SpecVersionUnknown { .. }
        | StoreError::RequestIdConflict { .. }
        | StoreError::NoticeNotFound { .. }
        | StoreError::NoticeKept { .. }
        | StoreError::Refused(_)
        | StoreError::Database(_)
        | StoreError::Migrate(_) => StoreError::Database(source()),
    }
}

#[cfg(test)]
mod tests;
