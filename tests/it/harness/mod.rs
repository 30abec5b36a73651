//! The harness: everything a test needs to look at the product from outside, on real Postgres, without sleeping.
//!
//! A `Rig` is a database of its own, a sandbox of its own, and as many servers as the test wants.
//! Tests go through the public doors (`Client`), and read the sandbox's journals and the tables to judge.
//! Nothing here knows what is right; it only makes, waits and reads.

mod cluster;

mod database;

mod sandbox;

mod job;

mod client;

mod watch;

mod fault;

mod process;

mod postgres;

mod gate;

mod proxy;

mod raw;

mod rig;

mod wire;

pub use client::{Client, http_client};
pub use database::{Database, NoticeRow};
pub use fault::Told;
pub use gate::Gate;
pub use job::*;
pub use postgres::{Ending, OwnPostgres};
pub use process::Process;
pub use proxy::{Asked, Pass, Proxy};
pub use raw::{Raw, framed};
pub use rig::{NOBODY, Node, PERSON, Rig};
pub use sandbox::{Sandbox, links};
pub use watch::{Close, events_of, events_until_end};
pub use wire::Wire;

/// The longest a test waits for anything; only a test that fails waits this long.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
