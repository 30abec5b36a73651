//! The keyring: every key there is, in memory, as fresh as a second.
//!
//! In go looks at one small row of Postgres; out comes who may come in, without asking Postgres.
//! A server is open only where that was allowed and there has never been a key: the first one closes it for good.
//! While Postgres is away, the keys that were known go on counting.
//! That a key was shown is remembered here and noted in batches; what a process forgets by dying is no loss.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::credential::Shown;
use super::sight::Sight;
use super::{Authority, PeerName, Refusal};
use crate::domain::key::{Key, KeyHash, KeyText, Scope};
use crate::store::key::KeyList;
use crate::store::{Store, StoreError, about};

/// How often it looks, about.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often it is noted that a key is in use.
const NOTE_INTERVAL: Duration = Duration::from_mins(1);

/// Every key there is.
#[derive(Clone)]
pub struct Keyring {
    store: Store,
    known: Arc<RwLock<Option<Known>>>,
    /// Tells that other keys are in force.
    changes: Arc<watch::Sender<()>>,
    may_be_open: bool,
}

/// What was read last.
struct Known {
    version: i64,
    /// What anybody may do who shows nothing, if the server is open.
    open: Option<Authority>,
    living: HashMap<KeyHash, Living>,
}

#[derive(Clone)]
struct Living {
    key: Arc<Key>,
    /// What it gives, made once: each request gets a copy, which allocates nothing.
    authority: Authority,
    until: Option<Instant>,
    /// Whether it was shown since that was last noted.
    is_shown: Arc<AtomicBool>,
}

impl Keyring {
    /// A keyring of this store; without keys the server is open if it may be.
    pub fn new(store: Store, may_be_open: bool) -> Self {
        Self { store, known: Arc::default(), changes: Arc::default(), may_be_open }
    }

    /// Looks until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        let (mut noted_at, mut sight) = (HashMap::new(), Sight::new(Instant::now()));
        loop {
            let pause = about(INTERVAL);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            match self.run_once().await {
                Ok(_changed) => {
                    if sight.is_good_again(Instant::now()) {
                        tracing::warn!("the keys can be read again");
                    }
                }
                Err(error) => {
                    tracing::debug!(error = &error as &dyn Error, "could not look at the keys");
                    if sight.is_newly_lost(Instant::now()) {
                        tracing::warn!(
                            error = &error as &dyn Error,
                            "the keys cannot be read; until they can, those that were known count, and what is made or revoked does not"
                        );
                    }
                }
            }
            self.note_uses(&mut noted_at).await;
        }
    }

    /// Notes which keys were shown, each at most once a minute.
    async fn note_uses(&self, noted_at: &mut HashMap<String, Instant>) {
        let now = Instant::now();
        noted_at.retain(|_, at| now < *at + NOTE_INTERVAL);
        let shown: Vec<String> = self
            .read()
            .iter()
            .flat_map(|known| known.living.values())
            .filter(|living| !noted_at.contains_key(&living.key.key_id))
            .filter(|living| living.is_shown.swap(false, Ordering::Relaxed))
            .map(|living| living.key.key_id.clone())
            .collect();
        if shown.is_empty() {
            return;
        }
        match self.store.note_key_use(&shown).await {
            Ok(()) => noted_at.extend(shown.into_iter().map(|key_id| (key_id, now))),
            // Whoever goes on using them is noted then.
            Err(error) => {
                tracing::debug!(error = &error as &dyn Error, "could not note the use of keys");
            }
        }
    }

    /// Looks once; answers whether anything has changed.
    pub async fn run_once(&self) -> Result<bool, StoreError> {
        let version = self.read().as_ref().map(|known| known.version);
        let Some(list) = self.store.keys(version).await? else { return Ok(false) };
        let mut known = Known::new(list, self.may_be_open);
        let (count, is_open) = (known.living.len(), known.open.is_some());
        let mut guard = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = guard.as_ref() {
            known.take_over(before);
        }
        *guard = Some(known);
        drop(guard);
        self.changes.send_replace(());
        tracing::info!(count, is_open, "keys are in force");
        Ok(true)
    }

    /// Whether anybody is let in without a key.
    pub fn is_open(&self) -> bool {
        self.read().as_ref().is_some_and(|known| known.open.is_some())
    }

    /// Whether there is a key that is good now.
    pub fn lets_anybody_in(&self) -> bool {
        self.read().as_ref().is_some_and(|known| known.living.values().any(Living::is_good))
    }

    /// Who it is that shows this, if anybody.
    pub fn judge(&self, shown: &Shown, peer: Option<&PeerName>) -> Result<Authority, Refusal> {
        let guard = self.read();
        let Some(known) = guard.as_ref() else { return Err(Refusal::NotReady) };
        match shown {
            // A key that is shown is looked at even where none is needed: it says who calls.
            Shown::Text(text) => {
                let hash = KeyText::find_hash(text);
                let found = hash.and_then(|hash| known.living.get(&hash));
                match found.filter(|living| living.is_good()) {
                    Some(living) => {
                        living.is_shown.store(true, Ordering::Relaxed);
                        Ok(living.authority.clone())
                    }
                    None => match &known.open {
                        Some(open) => Ok(Authority { unread: hash, ..open.clone() }),
                        None => Err(Refusal::KeyInvalid),
                    },
                }
            }
            Shown::Unreadable => known.open.clone().ok_or(Refusal::KeyInvalid),
            Shown::Nothing => {
                let proven = || peer.map(Authority::of_peer);
                known.open.clone().or_else(proven).ok_or(Refusal::KeyRequired)
            }
        }
    }

    /// How long whoever was let in is good for, as far as is known; refuses who is no longer.
    ///
    /// Whoever showed a key before the server knew it, while it still ran open, goes on by that key.
    pub(super) fn standing(&self, authority: &Authority) -> Result<Option<Instant>, Refusal> {
        let guard = self.read();
        let Some(known) = guard.as_ref() else { return Err(Refusal::NotReady) };
        match &authority.key {
            Some(key) => {
                let mut living = known.living.values();
                let found = living.find(|living| living.key.key_id == key.key_id);
                let found = found.filter(|living| living.is_good());
                found.map(|living| living.until).ok_or(Refusal::KeyInvalid)
            }
            // A certificate is good for as long as its connection.
            None if authority.is_proven || known.open.is_some() => Ok(None),
            None => {
                let hash = authority.unread.ok_or(Refusal::KeyRequired)?;
                let found = known.living.get(&hash).filter(|living| living.is_good());
                let living = found.ok_or(Refusal::KeyInvalid)?;
                living.authority.require(Scope::Read)?;
                Ok(living.until)
            }
        }
    }

    /// What tells that other keys are in force.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Option<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Living {
    fn is_good(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

impl Known {
    fn new(list: KeyList, may_be_open: bool) -> Self {
        let open = (may_be_open && list.keys.is_empty()).then(Authority::open);
        let read_at = Instant::now();
        let living = list.keys.into_iter().filter(|stored| stored.revoked_at.is_none());
        let living = living.map(|stored| {
            let left = stored.expires_at.map(|at| (at - list.now).to_std().unwrap_or_default());
            // Too far away to be told apart from never.
            let until = left.and_then(|left| read_at.checked_add(left));
            let key = Arc::new(stored.key);
            let authority = Authority::of_key(Arc::clone(&key));
            (stored.hash, Living { key, authority, until, is_shown: Arc::default() })
        });
        Self { version: list.version, open, living: living.collect() }
    }

    /// Takes over what is not yet noted of the keys that there were before.
    fn take_over(&mut self, before: &Self) {
        for (hash, living) in &mut self.living {
            if let Some(same) = before.living.get(hash) {
                living.is_shown = Arc::clone(&same.is_shown);
            }
        }
    }
}
