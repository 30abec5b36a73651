//! The clock of the server, as a client can know it: ages and what remains are told by it alone.
//!
//! In comes a report of usage, which ends at the moment it was asked for; out goes the time there at any later moment.
//! The clock of this machine is never asked what time it is, only how much has passed: the two may differ.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use prost_types::Timestamp;
use tonic::Status;

use super::client::Client;
use crate::rpc::proto::GetUsageRequest;

/// What the time is where the jobs are.
#[derive(Clone, Copy, Debug)]
pub struct ServerClock {
    at: DateTime<Utc>,
    seen: Instant,
}

impl ServerClock {
    /// Asks the server; what it adds up for that begins with this moment, which is best a late one.
    pub async fn ask(
        client: &mut Client,
        since: Option<Timestamp>,
    ) -> Result<Option<Self>, Status> {
        let request = GetUsageRequest { from_at: since, ..GetUsageRequest::default() };
        let report = client.get_usage(request).await?.into_inner();
        Ok(Self::read(report.before_at.as_ref()))
    }

    /// A clock that shows this now; `None` where it is no time.
    pub fn read(at: Option<&Timestamp>) -> Option<Self> {
        Some(Self { at: moment(at)?, seen: Instant::now() })
    }

    /// What it shows now.
    pub fn now(&self) -> DateTime<Utc> {
        self.at + self.seen.elapsed()
    }
}

/// A moment of a message; `None` where it is not set.
pub fn moment(at: Option<&Timestamp>) -> Option<DateTime<Utc>> {
    let at = at?;
    DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos).ok()?)
}

/// How long ago this was; nothing for what a clock that is a little slow takes to lie ahead.
pub fn since(at: Option<&Timestamp>, now: DateTime<Utc>) -> Option<Duration> {
    Some((now - moment(at)?).to_std().unwrap_or_default())
}

/// How long until this; `None` where it is over.
pub fn until(at: Option<&Timestamp>, now: DateTime<Utc>) -> Option<Duration> {
    (moment(at)? - now).to_std().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_ahead_has_not_been_and_what_is_over_does_not_remain() {
        let now = DateTime::from_timestamp(100, 0).expect("a time");
        let at = |seconds| Timestamp { seconds, nanos: 0 };
        assert_eq!(since(Some(&at(90)), now), Some(Duration::from_secs(10)));
        assert_eq!(since(Some(&at(101)), now), Some(Duration::ZERO));
        assert_eq!(until(Some(&at(110)), now), Some(Duration::from_secs(10)));
        assert_eq!(until(Some(&at(90)), now), None);
        assert_eq!(since(None, now), None);
    }
}
