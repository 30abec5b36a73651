//! Health over HTTP: whether this server takes requests and the database answers it.
//!
//! In comes anybody's request, out goes `ok` or a fault.
//! One look a second is shared by all who ask, so that no flood of them takes the connections of the engine.
//! Nothing that sheds load stands before it: a busy server is healthy.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fault::Fault;
use crate::engine::Engine;

/// For how long what was found is told.
const FRESH: Duration = Duration::from_secs(1);

/// What was found last, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse(Arc<Mutex<Option<(Instant, bool)>>>);

impl Pulse {
    /// What was found within this time, else what is found now; who comes meanwhile waits for that.
    async fn take(&self, fresh: Duration, look: impl Future<Output = bool>) -> bool {
        let mut last = self.0.lock().await;
        if let Some((at, is_well)) = *last
            && at.elapsed() < fresh
        {
            return is_well;
        }
        let is_well = look.await;
        *last = Some((Instant::now(), is_well));
        is_well
    }
}

/// Answers how it is.
pub(super) async fn show(
    State(engine): State<Engine>,
    Extension(pulse): Extension<Pulse>,
) -> Result<&'static str, Fault> {
    let store = engine.store();
    let look = async {
        let answered = store.ping().await;
        if let Err(error) = &answered {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "the database does not answer");
        }
        answered.is_ok()
    };
    if store.opened().initialized() && pulse.take(FRESH, look).await {
        Ok("ok")
    } else {
        Err(Fault::unavailable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_ask_within_a_time_share_one_look() {
        let (pulse, long) = (Pulse::default(), Duration::from_hours(1));
        assert!(pulse.take(long, async { true }).await);
        assert!(pulse.take(long, async { panic!("it was looked at already") }).await);
        assert!(!pulse.take(Duration::ZERO, async { false }).await);
        assert!(!pulse.take(long, async { panic!("it was looked at already") }).await);
        // One that is given up is not waited for by the next.
        let mut given_up = Box::pin(pulse.take(Duration::ZERO, std::future::pending()));
        assert!(futures::poll!(&mut given_up).is_pending());
        let mut next = Box::pin(pulse.take(Duration::ZERO, async { true }));
        assert!(futures::poll!(&mut next).is_pending());
        drop(given_up);
        assert!(next.await);
    }
}
