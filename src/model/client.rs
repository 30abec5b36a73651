//! The HTTP clients of the provider: how they connect, and how a connection that has died is noticed.
//!
//! In come the settings; out comes either a client that takes whatever HTTP the other side speaks, or one that speaks
//! HTTP/2 alone and therefore never has more than one connection that takes calls.
//! None of them retries or follows redirects, or the provider would see requests that no ledger knows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

/// A connection on which nothing has come for so long is asked whether it lives.
const ASK_AFTER: Duration = Duration::from_secs(30);
/// And is given up, with all its calls, if it does not answer within this.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How much of one answer may be under way: far more than a model writes in a round trip.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// What all clients are made from.
pub(super) struct Maker {
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How many calls a connection carries.
    pub streams: usize,
    /// Whether the provider is on this machine.
    pub is_local: bool,
    /// What is different for a test.
    pub adapt: fn(ClientBuilder) -> ClientBuilder,
}

impl Maker {
    /// One that takes whatever HTTP the other side speaks.
    pub fn any(&self) -> reqwest::Result<Client> {
        self.builder().build()
    }

    /// One that speaks HTTP/2 alone, and opens one connection for all its calls.
    pub fn http2(&self) -> reqwest::Result<Client> {
        self.builder().http2_prior_knowledge().build()
    }

    /// Whether a client with so many calls has room for another.
    pub fn has_room(&self, calls: &AtomicUsize) -> bool {
        calls.load(Ordering::Relaxed) < self.streams
    }

    fn builder(&self) -> ClientBuilder {
        let streams = u32::try_from(self.streams).unwrap_or(u32::MAX);
        let builder = Client::builder()
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect_timeout)
            .tcp_keepalive(Duration::from_mins(1))
            // Of HTTP/1.1, where each call has a connection, a crowd that has gone leaves no more than this behind.
            .pool_max_idle_per_host(self.streams)
            .http2_keep_alive_interval(ASK_AFTER)
            .http2_keep_alive_timeout(ANSWER_WITHIN)
            .http2_keep_alive_while_idle(true)
            .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
            // As wide as all streams together, so that one that is read late takes nothing from the others.
            .http2_initial_connection_window_size(STREAM_WINDOW_BYTES.saturating_mul(streams))
            .redirect(Policy::none())
            // The step owns all retries: a layer below it would send requests that no ledger knows.
            .retry(reqwest::retry::never());
        // A proxy of the environment leads out of the machine and would look for itself here.
        (self.adapt)(if self.is_local { builder.no_proxy() } else { builder })
    }
}
