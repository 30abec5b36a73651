//! A watch that outlives its connections.

use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};

use crate::{Error, Update, v1::WatchJobRequest, v1::WatchJobResponse};

/// How long it bears with a server.
pub(crate) struct Patience {
    /// How long a line may be silent.
    pub(crate) silence: Duration,
    /// How long there may be no line at all.
    pub(crate) absence: Duration,
}

/// Watches through lines that `open` opens, one after the other, each from where the one before broke.
pub(crate) fn watch<O, F, L>(
    request: WatchJobRequest,
    patience: Patience,
    open: O,
) -> impl Stream<Item = Result<Update, Error>>
where
    O: Fn(WatchJobRequest) -> F,
    F: Future<Output = Result<L, Status>>,
    L: Stream<Item = Result<WatchJobResponse, Status>> + Unpin,
{
    stream::try_unfold(Watch { request, patience, open, line: None }, Watch::next)
}

struct Watch<O, L> {
    request: WatchJobRequest,
    patience: Patience,
    open: O,
    line: Option<L>,
}

impl<O, F, L> Watch<O, L>
where
    O: Fn(WatchJobRequest) -> F,
    F: Future<Output = Result<L, Status>>,
    L: Stream<Item = Result<WatchJobResponse, Status>> + Unpin,
{
    async fn next(mut self) -> Result<Option<(Update, Self)>, Error> {
        let (mut heard_at, mut failures) = (Instant::now(), 0);
        loop {
            let error = match timeout(self.patience.silence, self.receive()).await {
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(message))) => {
                    if let Some(update) = self.news(message) {
                        return Ok(Some((update, self)));
                    }
                    (heard_at, failures) = (Instant::now(), 0);
                    continue;
                }
                Ok(Err(status)) => Error::from(status),
                Err(_) => Error::new(Code::Unavailable, "the server has fallen silent"),
            };
            self.line = None;
            let pause = error.pause(failures);
            if !error.is_broken_line() || heard_at.elapsed() + pause > self.patience.absence {
                return Err(error);
            }
            sleep(pause).await;
            failures += 1;
        }
    }

    async fn receive(&mut self) -> Result<Option<WatchJobResponse>, Status> {
        let line = match &mut self.line {
            Some(line) => line,
            None => self.line.insert((self.open)(self.request.clone()).await?),
        };
        line.next().await.transpose()
    }

    /// What the caller has not seen; where it goes on is noted.
    fn news(&mut self, message: WatchJobResponse) -> Option<Update> {
        let update = message.content?;
        match &update {
            Update::Heartbeat(_) => return None,
            Update::Event(event) if Some(event.sequence) <= self.request.after_sequence => {
                return None;
            }
            Update::Event(event) => self.request.after_sequence = Some(event.sequence),
            Update::Snapshot(job) => self.request.after_sequence = Some(job.last_sequence),
            Update::OutputDelta(_) | Update::Notice(_) => {}
        }
        Some(update)
    }
}
