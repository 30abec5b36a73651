//! The lease of an executor: one row for all the jobs it holds, renewed on a connection of its own.
//!
//! A renewal never waits for a step, a claim or a free connection of the pool, and a failed one is tried again soon.
//! Claims and the search for jobs nobody has in hand keep out of each other's way by a gate that renewals do not pass.
//! While it is not known to be alive, nothing new is begun: no claim, no next step. What is in flight goes on,
//! because fencing protects the state and aborting would only pay twice.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::domain::id::ExecutorId;
use crate::store::executor::LeaseLine;
use crate::store::{Store, StoreError};

/// However long the lease, whoever was declared dead is to know it soon, and may go on under a new id.
const PACE_MAX: Duration = Duration::from_secs(5);
/// How soon a renewal that failed is tried again, at the most.
const RETRY: Duration = Duration::from_millis(500);

/// Keeps the lease of this process alive.
#[derive(Clone)]
pub struct LeaseKeeper {
    store: Store,
    lease: Duration,
    host: Arc<str>,
    /// A fresh id per boot, and again after being declared dead.
    executor_id: Arc<Mutex<ExecutorId>>,
    claims: Arc<RwLock<()>>,
    signed_off: CancellationToken,
    /// Until when the lease is certainly alive, by this process's own clock.
    alive_until: Arc<Mutex<Instant>>,
}

impl LeaseKeeper {
    /// A lease that has not been taken yet; `host` is for people.
    pub fn new(store: Store, lease: Duration, host: &str) -> Self {
        Self {
            store,
            lease,
            host: host.into(),
            executor_id: Arc::new(Mutex::new(ExecutorId::new())),
            claims: Arc::default(),
            signed_off: CancellationToken::new(),
            alive_until: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// Makes the executor known, and takes the lease; only then may it claim.
    pub async fn register(&self) -> Result<(), StoreError> {
        let sent_at = Instant::now();
        let executor_id = self.executor_id();
        self.store.register_executor(executor_id, &self.host, self.lease).await?;
        self.note_alive(sent_at);
        Ok(())
    }

    /// Renews at a third of the lease but every 5 s, sooner after a failure, and at once when the sign of life changes.
    pub async fn run(&self, stop: CancellationToken) {
        let mut line = self.store.lease_line();
        let mut presence = self.store.presence().changes();
        let pace = PACE_MAX.min(self.lease / 3);
        let (mut pause, mut is_failing) = (Duration::ZERO, false);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.signed_off.cancelled() => return,
                () = presence.next() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let renewed = tokio::time::timeout(pace, self.renew(&mut line)).await;
            let is_told = std::mem::replace(&mut is_failing, !matches!(renewed, Ok(Ok(()))));
            pause = if is_failing { RETRY.min(pace) } else { pace };
            match renewed {
                Ok(Ok(())) if is_told => tracing::info!("renews the lease again"),
                Ok(Err(error)) if !is_told => {
                    tracing::warn!(error = &error as &dyn Error, "could not renew the lease");
                }
                Ok(_) => {}
                Err(_elapsed) => {
                    if !is_told {
                        tracing::warn!("could not renew the lease: the database does not answer");
                    }
                    line = self.store.lease_line();
                }
            }
        }
    }

    async fn renew(&self, line: &mut LeaseLine) -> Result<(), StoreError> {
        let sent_at = Instant::now();
        let executor_id = self.executor_id();
        if line.renew(executor_id, self.lease).await? {
            self.note_alive(sent_at);
            return Ok(());
        }
        if self.signed_off.is_cancelled() {
            return Ok(());
        }
        // Declared dead: what it held is no longer its own, and the name is used up.
        let fresh = ExecutorId::new();
        tracing::warn!(%executor_id, %fresh, "was declared dead; goes on under a new id");
        self.store.register_executor(fresh, &self.host, self.lease).await?;
        *self.executor_id.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.note_alive(sent_at);
        Ok(())
    }

    /// Whether the lease is certainly alive, counted from when the last renewal was sent.
    pub fn is_alive(&self) -> bool {
        Instant::now() < *self.alive_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id under which jobs are claimed now.
    pub fn executor_id(&self) -> ExecutorId {
        *self.executor_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held by a claim until its jobs are in hand.
    pub async fn while_claiming(&self) -> RwLockReadGuard<'_, ()> {
        self.claims.read().await
    }

    /// Held like `while_claiming`, if that can be had at once.
    pub fn find_claiming(&self) -> Option<OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.claims).try_read_owned().ok()
    }

    /// Held while no claim is on its way.
    pub async fn while_nobody_claims(&self) -> RwLockWriteGuard<'_, ()> {
        self.claims.write().await
    }

    /// Takes the row away; nothing is held any more.
    pub async fn sign_off(&self) {
        // First, so that no renewal takes the missing row for a declaration of death.
        self.signed_off.cancel();
        if let Err(error) = self.store.unregister_executor(self.executor_id()).await {
            let error = &error as &dyn Error;
            tracing::warn!(error, "could not sign off; the lease runs out by itself");
        }
    }

    fn note_alive(&self, sent_at: Instant) {
        let mut alive_until = self.alive_until.lock().unwrap_or_else(PoisonError::into_inner);
        *alive_until = sent_at + self.lease;
    }
}
