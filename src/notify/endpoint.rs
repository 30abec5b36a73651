//! Endpoints: addresses from the configuration that are told of jobs by signed requests, beside people or in their place.
//!
//! Each endpoint has its own queue and its own task, so that one that hangs holds up nobody else.
//! A notice keeps its id over all tries, so whoever receives it twice can tell; so what may have arrived is sent again.
//! What is refused for good, or too often, stays in the outbox as failed until somebody has it sent again.
//! Addresses, secrets, links and texts never reach a log, a span or an error: an endpoint goes by its name.

mod client;

mod payload;

mod sign;

mod template;

mod words;

use std::time::Duration;

use futures::future::join_all;
use secrecy::SecretString;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::client::Client;
pub use self::client::{Header, Success, find_url};
use self::payload::Payload;
pub use self::sign::Secret;
pub use self::template::Template;
use super::{NotifySettings, NotifySetupError, link_base};
use crate::domain::word::Word as _;
use crate::store::endpoint::{EndpointNotice, Posted};
use crate::store::{Store, StoreError, about};

/// The most bytes that are sent.
const BODY_BYTES_MAX: usize = 256 << 10;
/// How long a stopping server lets its requests finish.
const DRAIN: Duration = Duration::from_secs(10);
/// How often a result is offered to a database that is away: about 16 s, well within the store's grace time.
const RECORD_TRIES: u32 = 6;
/// The least time between two looks that find nothing: every notice to anybody wakes all.
const BREATH: Duration = Duration::from_millis(25);
/// How often to look for notices to endpoints that nobody knows.
const ORPHANS: Duration = Duration::from_mins(1);

/// `EndpointSettings` says where an endpoint is, and what is sent to it.
#[derive(Clone, Debug)]
pub struct EndpointSettings {
    /// Its name in the address book.
    pub name: String,
    /// Its address, which can hold a secret.
    pub url: SecretString,
    /// What signs the requests, the newest first; each makes one signature.
    pub secrets: Vec<Secret>,
    /// A header that is sent as it is.
    pub header: Option<Header>,
    /// What is sent, if not the payload itself.
    pub body: Option<Template>,
    /// What an answer must hold beside a good status.
    pub success: Option<Success>,
    /// How long one request may take.
    pub timeout: Duration,
}

/// Endpoints are told what the outbox holds for them.
pub struct Endpoints {
    store: Store,
    clients: Vec<Client>,
    public_url: String,
    poll: Duration,
}

impl Endpoints {
    /// Makes a client for each; they open no connection yet.
    ///
    /// The process must have installed its TLS provider before.
    pub fn new(store: Store, settings: &NotifySettings) -> Result<Self, NotifySetupError> {
        Ok(Self {
            store,
            clients: settings.endpoints.iter().map(Client::new).collect::<Result<_, _>>()?,
            public_url: link_base(&settings.public_url).ok_or(NotifySetupError::PublicUrl)?,
            poll: settings.poll,
        })
    }

    /// Tells every endpoint until told to stop; requests that are on their way then are finished and recorded.
    pub async fn run(&self, stop: CancellationToken) {
        let told = self.clients.iter().map(|client| self.tell(client, &stop));
        tokio::join!(join_all(told), self.give_up_orphans(&stop));
    }

    /// Tells one endpoint what there is for it, one notice after the other.
    async fn tell(&self, client: &Client, stop: &CancellationToken) {
        let mut is_failing = false;
        while !stop.is_cancelled() {
            let mut woken = std::pin::pin!(self.store.wake().endpoints.notified());
            woken.as_mut().enable();
            let Some(round) = self.round(client, stop).await else { break };
            match &round {
                Ok(_) => is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(
                            endpoint = client.name(),
                            error = error as &dyn std::error::Error,
                            "could not look for notices"
                        );
                    }
                }
            }
            if round.is_ok_and(|has_told| has_told) {
                tokio::select! { () = stop.cancelled() => {}, () = sleep(client.pause()) => {} }
                continue;
            }
            let jittered = about(self.poll);
            tokio::select! {
                () = stop.cancelled() => {}
                // A database that is away is asked once a poll, however often it wakes us.
                () = woken, if !is_failing => {
                    tokio::select! { () = stop.cancelled() => {}, () = sleep(BREATH) => {} }
                }
                () = sleep(jittered) => {}
            }
        }
    }

    /// One round, which a stop gives some time to finish; `None` if that was not enough.
    async fn round(
        &self,
        client: &Client,
        stop: &CancellationToken,
    ) -> Option<Result<bool, StoreError>> {
        let mut round = std::pin::pin!(self.tell_once(client));
        tokio::select! {
            told = &mut round => return Some(told),
            () = stop.cancelled() => {}
        }
        timeout(DRAIN, round).await.ok()
    }

    /// Takes one notice and sends it; answers whether there was one.
    async fn tell_once(&self, client: &Client) -> Result<bool, StoreError> {
        let Some(notice) = self.store.take_endpoint_notice(client.name()).await? else {
            // Where a sender died, the notice it had holds up the others until its grace time is over.
            return Ok(self.store.judge_lost_endpoint_notices(client.name()).await? > 0);
        };
        self.deliver(client, &notice).await?;
        Ok(true)
    }

    #[tracing::instrument(
        name = "endpoint",
        skip_all,
        fields(endpoint = client.name(), job_id = %notice.key, notice_id = %notice.notice_id, kind = notice.kind.word(), tries = notice.tries)
    )]
    async fn deliver(&self, client: &Client, notice: &EndpointNotice) -> Result<(), StoreError> {
        let posted = match Payload::of(notice, &self.public_url) {
            Some(payload) => client.post(notice, &payload).await,
            None => Posted::GivenUp { error: "the links of this request are gone".to_owned() },
        };
        match &posted {
            Posted::Taken => tracing::debug!("told an endpoint"),
            Posted::Again { after, error, .. } => {
                tracing::debug!(error, after_seconds = after.as_secs(), "will tell it again");
            }
            Posted::GivenUp { error } => tracing::warn!(error, "gave a notice to an endpoint up"),
        }
        self.record(notice, &posted).await
    }

    /// What was taken should be known, or it would be sent again: a database that is away gets some time to come back.
    async fn record(&self, notice: &EndpointNotice, posted: &Posted) -> Result<(), StoreError> {
        let mut pause = Duration::from_millis(500);
        for _ in 1..RECORD_TRIES {
            match self.store.record_endpoint_notice(notice, posted).await {
                Err(StoreError::Unavailable(_)) => sleep(pause).await,
                recorded => return recorded,
            }
            pause *= 2;
        }
        self.store.record_endpoint_notice(notice, posted).await
    }

    async fn give_up_orphans(&self, stop: &CancellationToken) {
        let known: Vec<String> =
            self.clients.iter().map(|client| client.name().to_owned()).collect();
        loop {
            let jittered = about(ORPHANS);
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(jittered) => {}
            }
            match self.store.give_up_orphaned_notices(&known).await {
                Ok(0) | Err(_) => {}
                Ok(count) => tracing::warn!(count, "gave notices up whose endpoints nobody knows"),
            }
        }
    }
}
