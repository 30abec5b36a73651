//! Stay: whether whoever was let in may stay, for what goes on long after the gate.
//!
//! In goes an authority, out comes a refusal as soon as its key was revoked or has expired, or the server is no longer open.
//! It costs a look at one counter and one clock while no key has changed.

use tokio::sync::watch;
use tokio::time::Instant;

use super::keyring::Keyring;
use super::{Authority, Refusal};

/// The right to go on, for as long as it holds.
#[derive(Clone)]
pub struct Stay {
    keyring: Keyring,
    authority: Authority,
    changes: watch::Receiver<()>,
    /// When the key expires, if it does.
    until: Option<Instant>,
}

impl Stay {
    /// Of whoever was just let in.
    pub(super) fn new(keyring: &Keyring, authority: &Authority) -> Self {
        let mut changes = keyring.changes();
        // Looked at before the first step, since what has changed meanwhile is not told again.
        changes.mark_changed();
        Self { keyring: keyring.clone(), authority: authority.clone(), changes, until: None }
    }

    /// Refuses, if it holds no longer.
    pub fn check(&mut self) -> Result<(), Refusal> {
        // The other end is in the keyring, which is held here.
        if self.changes.has_changed().unwrap_or(true) {
            self.changes.mark_unchanged();
            self.until = self.keyring.standing(&self.authority)?;
        }
        let is_over = self.until.is_some_and(|until| Instant::now() >= until);
        if is_over { Err(Refusal::KeyInvalid) } else { Ok(()) }
    }

    /// Returns when there is something to check.
    pub async fn wait(&mut self) {
        let until = self.until;
        let expires = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // It is marked as seen by that, and still has to be looked at.
            _told = self.changes.changed() => self.changes.mark_changed(),
            () = expires => {}
        }
    }
}
