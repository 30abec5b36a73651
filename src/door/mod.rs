//! WHO may come in: what stands before both faces, and is the same for both.
//!
//! In come requests with whatever they show; what passes carries its `Authority`, and the rest is refused at once.
//! Nothing here waits for Postgres: keys are kept in memory and read again when they have changed.
//! While it is not known which keys there are, nobody is let in.

mod credential;

mod gate;

mod keyring;

mod limit;

mod line;

mod serve;

mod sight;

mod socket;

mod stay;

mod tls;

pub mod table;

use std::sync::Arc;

use crate::domain::approval::Door;
use crate::domain::key::{Key, KeyHash, Scope, Scopes};
use crate::engine::{Caller, OPEN_ACTOR};

pub use credential::Shown;
pub use gate::{Face, Gate, GateLayer};
pub use keyring::Keyring;
pub use limit::{LimitLayer, LimitSettings, Limited, Limits, REQUESTS_MAX, Shed};
pub use line::{Leash, LineSettings};
pub use serve::{Answer, Wire, serve};
pub use stay::Stay;
pub use tls::{Acceptor, Port, Tls, TlsFault, TlsFile, TlsFiles};

/// What a caller may do, and who that is.
#[derive(Clone, Debug)]
pub struct Authority {
    scopes: Scopes,
    actor: Arc<str>,
    /// Whether something was shown for it.
    is_proven: bool,
    /// The key that was shown, if one was.
    pub key: Option<Arc<Key>>,
    /// What was shown as a key to a server that ran open and knew of none: it may come into force.
    unread: Option<KeyHash>,
}

/// The certificate that a peer has shown and that was found good, as its name.
#[derive(Clone, Debug)]
pub struct PeerName(pub Arc<str>);

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A key is needed, and none was shown.
    KeyRequired,
    /// What was shown is no key, or one that was revoked or has expired.
    KeyInvalid,
    /// The key is not good for this; one of these scopes is needed.
    ScopeRequired(Vec<Scope>),
    /// It is not yet known which keys there are.
    NotReady,
}

impl Authority {
    /// Of a server that runs open: anybody may do anything.
    pub fn open() -> Self {
        Self {
            scopes: Scopes::all(),
            actor: OPEN_ACTOR.into(),
            is_proven: false,
            key: None,
            unread: None,
        }
    }

    /// Of whoever shows a key.
    pub fn of_key(key: Arc<Key>) -> Self {
        let actor = format!("key:{}", key.name).into();
        Self { scopes: key.scopes, actor, is_proven: true, key: Some(key), unread: None }
    }

    /// Of whoever shows a certificate and no key.
    pub fn of_peer(peer: &PeerName) -> Self {
        let actor = format!("cert:{}", peer.0).into();
        Self { scopes: Scopes::all(), actor, is_proven: true, key: None, unread: None }
    }

    /// Whether people's numbers are shown whole: to whoever has shown that they may do everything.
    ///
    /// On an open server nobody has, so there they are masked.
    pub fn sees_numbers(&self) -> bool {
        self.is_proven && self.allows(Scope::Admin)
    }

    /// Whether it is enough for what needs this scope.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.allow(scope)
    }

    /// Refuses, if it is not enough.
    pub fn require(&self, scope: Scope) -> Result<(), Refusal> {
        if self.allows(scope) { Ok(()) } else { Err(Refusal::ScopeRequired(vec![scope])) }
    }

    /// The caller, as the history of a job names it.
    pub fn caller(&self, door: Door) -> Caller {
        Caller { door, actor: Arc::clone(&self.actor) }
    }

    /// The caller's name.
    pub fn actor(&self) -> &str {
        &self.actor
    }
}
