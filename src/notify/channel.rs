//! The channel as this process knows it: whether messages can be sent at all, and since when not.
//!
//! In comes what each answer showed; out goes whether to send, to probe with one message, or to wait.
//! A trouble of the whole channel is told to the operators once, and not once per message.
//! What one server has learned holds up no other: it may have a better token, or a better way out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::Level;

use super::refusal::back_off;
use crate::telemetry::METRIC;

/// How often a channel at fault is tried: whoever mends a setting should not wait long, nor Meta be asked all the time.
const PROBE: Duration = Duration::from_mins(1);

/// What keeps a channel from taking messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The account, the number or the token is at fault: a person has to mend it.
    Fault,
    /// It takes no more for a while.
    Rate,
    /// Nobody answers at its address.
    Away,
}

/// Whether messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// As many as there are.
    Open,
    /// One, to see whether the trouble is over.
    Probe,
    /// None.
    Shut,
}

/// A channel, which is open until something shows otherwise.
#[derive(Debug, Default)]
pub(super) struct Channel {
    stopped: Mutex<Option<Stop>>,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    trouble: Trouble,
    until: DateTime<Utc>,
    /// What `until` was before the probe that is on its way.
    due: DateTime<Utc>,
    /// Whether a message is on its way to see whether the trouble is over.
    is_probed: bool,
    /// How many have met the same.
    times: i32,
}

impl Channel {
    /// What stops it, if something does.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.lock().map(|stop| stop.trouble)
    }

    /// Whether to send at this time; a probe is given a minute before there is another.
    pub(super) fn gate(&self, now: DateTime<Utc>) -> Gate {
        match &mut *self.lock() {
            None => Gate::Open,
            Some(stop) if now < stop.until => Gate::Shut,
            Some(stop) => {
                stop.due = stop.until;
                (stop.until, stop.is_probed) = (later(now, PROBE), true);
                Gate::Probe
            }
        }
    }

    /// There was nothing to probe it with, so the next message that is due does it.
    pub(super) fn was_not_probed(&self) {
        if let Some(stop) = &mut *self.lock()
            && stop.is_probed
        {
            (stop.until, stop.is_probed) = (stop.due, false);
        }
    }

    /// Something that stopped it was changed, so that it is worth a probe at once.
    pub(super) fn was_mended(&self) {
        if let Some(stop) = &mut *self.lock() {
            stop.until = DateTime::UNIX_EPOCH;
        }
    }

    /// A message could not be sent for a reason that holds for every other; answers for how long to wait,
    /// and whether that is news.
    pub(super) fn stop(
        &self,
        trouble: Trouble,
        asked: Option<Duration>,
        now: DateTime<Utc>,
    ) -> (Duration, bool) {
        let mut stopped = self.lock();
        let before = stopped.filter(|stop| stop.trouble == trouble);
        // What was on its way together with the first is no probe.
        let beside = before.filter(|stop| now < stop.until && !stop.is_probed);
        let times = match (before, beside) {
            (_, Some(stop)) => stop.times,
            (Some(stop), None) => stop.times.saturating_add(1),
            (None, None) => 1,
        };
        let wait = match trouble {
            Trouble::Fault => PROBE,
            Trouble::Rate => back_off(times),
            Trouble::Away => back_off(times).min(PROBE),
        };
        let wait = wait.max(asked.unwrap_or_default());
        let until = later(now, wait);
        let until = beside.map_or(until, |stop| stop.until.max(until));
        *stopped = Some(Stop { trouble, until, due: until, is_probed: false, times });
        tell_stopped(1);
        (wait, before.is_none())
    }

    /// A message was taken or judged by itself, so the channel works.
    pub(super) fn works(&self) {
        if self.lock().take().is_some() {
            tracing::info!("whatsapp takes messages again");
            tell_stopped(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stop>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell_stopped(stopped: u64) {
    tracing::event!(target: METRIC, Level::TRACE, gauge.longhaul.channel.stopped = stopped);
}

fn later(now: DateTime<Utc>, wait: Duration) -> DateTime<Utc> {
    now + TimeDelta::from_std(wait).unwrap_or(TimeDelta::days(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).expect("a time")
    }

    #[test]
    fn a_fault_lets_one_message_through_a_minute() {
        let channel = Channel::default();
        assert_eq!(channel.gate(at(0)), Gate::Open);
        assert_eq!(channel.stop(Trouble::Fault, None, at(0)), (PROBE, true));
        // What was on its way with it meets the same.
        assert_eq!(channel.stop(Trouble::Fault, None, at(1)), (PROBE, false));
        assert_eq!(channel.gate(at(60)), Gate::Shut);
        assert_eq!(channel.gate(at(61)), Gate::Probe);
        assert_eq!(channel.gate(at(62)), Gate::Shut);
        assert_eq!(channel.gate(at(121)), Gate::Probe);
        channel.works();
        assert_eq!((channel.gate(at(122)), channel.trouble()), (Gate::Open, None));
    }

    #[test]
    fn a_mended_channel_is_probed_at_once() {
        let channel = Channel::default();
        channel.was_mended();
        assert_eq!(channel.gate(at(0)), Gate::Open);
        channel.stop(Trouble::Fault, Some(Duration::from_hours(1)), at(0));
        assert_eq!(channel.gate(at(3599)), Gate::Shut);
        channel.was_mended();
        assert_eq!(channel.gate(at(5)), Gate::Probe);
        assert_eq!(channel.gate(at(5)), Gate::Shut);
    }

    #[test]
    fn a_probe_that_had_nothing_to_send_leaves_the_next_message_to_go_at_once() {
        let channel = Channel::default();
        channel.was_not_probed();
        channel.stop(Trouble::Rate, None, at(0));
        channel.was_not_probed();
        assert_eq!(channel.gate(at(0)), Gate::Shut);
        assert_eq!(channel.gate(at(1)), Gate::Probe);
        channel.was_not_probed();
        assert_eq!(channel.gate(at(2)), Gate::Probe);
        assert_eq!(channel.gate(at(3)), Gate::Shut);
        // It met the same as its predecessor, so the wait is the second.
        assert_eq!(channel.stop(Trouble::Rate, None, at(3)), (Duration::from_secs(4), false));
    }

    #[test]
    fn a_limit_is_waited_for_longer_and_longer_and_nobody_there_at_most_a_minute() {
        let waits = |trouble| {
            let channel = Channel::default();
            let mut now = 0;
            [(); 5].map(|()| {
                let seconds = channel.stop(trouble, None, at(now)).0.as_secs();
                now += i64::try_from(seconds).expect("a wait");
                assert_eq!(channel.gate(at(now)), Gate::Probe);
                seconds
            })
        };
        assert_eq!(waits(Trouble::Rate), [1, 4, 16, 64, 256]);
        assert_eq!(waits(Trouble::Away), [1, 4, 16, 60, 60]);
    }
}
