//! Patience with watchers: one whose client takes nothing is let go, and what it held is freed.
//!
//! In go the watches that begin; a stream that is never asked again cannot end itself, so that one round a second looks at all.
//! A client that reads again finds out that it lagged; one that does not has its stream reset a little later.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{BoxStream, Stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::convert::status;
use super::proto::WatchJobResponse;
use super::watch::HEARTBEAT;
use crate::door::Leash;

/// How often all watches are looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a client that lagged may take to find it out.
const LAST_WORD: Duration = Duration::from_secs(10);

type Messages = BoxStream<'static, Result<WatchJobResponse, Status>>;

/// All watches of a server.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    watches: Arc<Mutex<Vec<Weak<Watched>>>>,
    most: Duration,
}

/// One watch.
struct Watched {
    state: Mutex<State>,
    leash: Option<Leash>,
}

struct State {
    /// Where the messages come from; nothing, once the watch has ended or was let go.
    messages: Option<Messages>,
    asked_at: Instant,
    /// The last time, there was nothing to send.
    was_idle: bool,
    let_go_at: Option<Instant>,
}

/// The messages of a watch, for as long as they are taken.
pub struct Taken(Arc<Watched>);

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Patience {
    /// Patience of so long with a client that takes nothing.
    pub fn new(most: Duration) -> Self {
        Self { watches: Arc::default(), most }
    }

    /// Watches over a watch.
    pub fn with(&self, messages: Messages, leash: Option<Leash>) -> Taken {
        let messages = Some(messages);
        let state = State { messages, asked_at: Instant::now(), was_idle: false, let_go_at: None };
        let watched = Arc::new(Watched { state: Mutex::new(state), leash });
        self.watches().push(Arc::downgrade(&watched));
        Taken(watched)
    }

    /// Looks until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            self.run_once(Instant::now());
        }
    }

    /// Looks at each of them once; answers how many were let go.
    pub fn run_once(&self, now: Instant) -> usize {
        let mut living = Vec::new();
        self.watches().retain(|watch| {
            let watched = watch.upgrade();
            let is_living = watched.is_some();
            living.extend(watched);
            is_living
        });
        let let_go = living.iter().filter(|watched| watched.judge(self.most, now)).count();
        if let_go > 0 {
            tracing::info!(let_go, "watchers took nothing for too long");
        }
        let_go
    }

    fn watches(&self) -> MutexGuard<'_, Vec<Weak<Watched>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Lets it go, if its client has taken nothing for too long; answers whether that was now.
    fn judge(&self, most: Duration, now: Instant) -> bool {
        let mut state = self.state();
        if let Some(let_go_at) = state.let_go_at {
            if now.saturating_duration_since(let_go_at) > LAST_WORD
                && let Some(leash) = &self.leash
            {
                leash.end();
            }
            return false;
        }
        // Who has nothing to send is asked again at its next heartbeat, if its client takes anything at all.
        let expected_at = state.asked_at + if state.was_idle { HEARTBEAT } else { Duration::ZERO };
        if state.messages.is_none() || now.saturating_duration_since(expected_at) <= most {
            return false;
        }
        state.let_go_at = Some(now);
        let messages = state.messages.take();
        drop(state);
        drop(messages);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream for Taken {
    type Item = Result<WatchJobResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.state();
        let Some(messages) = &mut state.messages else {
            // It is told once that it was let go, and nothing comes after that.
            return Poll::Ready(state.let_go_at.take().map(|_at| Err(status::lagged())));
        };
        let polled = messages.as_mut().poll_next(context);
        (state.asked_at, state.was_idle) = (Instant::now(), polled.is_pending());
        if matches!(polled, Poll::Ready(None)) {
            state.messages = None;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::{self, StreamExt as _};

    use super::*;

    fn endless() -> Messages {
        stream::repeat_with(|| Ok(WatchJobResponse::default())).boxed()
    }

    #[tokio::test]
    async fn who_takes_nothing_is_let_go_and_told_so_once() {
        let patience = Patience::new(Duration::from_secs(60));
        let begin = |messages| patience.with(messages, None);
        let (mut slow, mut idle) = (begin(endless()), begin(stream::pending().boxed()));
        let begun = Instant::now();
        let after = |seconds| patience.run_once(begun + Duration::from_secs(seconds));
        assert!(slow.next().await.unwrap().is_ok());
        assert!(futures::poll!(idle.next()).is_pending());
        assert_eq!(after(59), 0);
        assert_eq!(after(62), 1);
        assert_eq!(after(62), 0, "the second round finds nothing");
        let told = slow.next().await.unwrap().unwrap_err();
        assert_eq!(told.code(), tonic::Code::Unavailable);
        assert!(slow.next().await.is_none());
        assert_eq!(after(74), 0, "a heartbeat may still come");
        assert_eq!(after(77), 1, "not even a heartbeat was taken");
        drop((slow, idle));
        after(78);
        assert!(patience.watches().is_empty());
    }
}
