//! WHO moves a job: submits and controls from the doors, executors that run steps, sweepers that mend what time broke.
//!
//! `Engine` is what both doors hold; the loops run beside it and meet it only in Postgres.

pub mod submit;

pub mod control;

pub mod bulk;

pub mod lease;

pub mod executor;

mod place;

mod step;

mod call;

mod batch;

pub mod allowance;

pub mod batcher;

mod interrupt;

pub mod answer;

pub mod sweeper;

pub mod prune;

pub mod gauge;

pub mod count;

pub mod price;

pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use self::executor::Executor;
use crate::domain::approval::Door;
use crate::domain::book::Book;
use crate::domain::money::Usd;
use crate::domain::spec::Defaults;
use crate::domain::submission::ContextMode;
use crate::domain::validate::Violation;
use crate::model::Model;
use crate::store::prune::Retention;
use crate::store::{Store, StoreError};

/// How jobs are run here.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// What a submission that says nothing gets.
    pub defaults: Defaults,
    /// The address of the sidecar as people see it, for links.
    pub public_url: String,
    /// Whether notices can be sent at all; without, a submit that needs them is warned.
    pub can_notify: bool,
    /// Whether it is heard what became of what was sent; without, a submit that needs that is warned.
    pub hears_deliveries: bool,
    /// What all servers together may spend on a day, if that is limited.
    pub daily_budget_usd: Option<Usd>,
    /// Who is told when that is used up.
    pub operators: Vec<String>,
    /// How many steps this process works on at once.
    pub slots: usize,
    /// How long a dead process keeps its jobs.
    pub lease: Duration,
    /// How long a stopping process lets its steps finish.
    pub drain: Duration,
    /// How often the executor looks for work that nobody woke it for.
    pub poll: Duration,
    /// How often the sweeper looks.
    pub sweep: Duration,
    /// How long jobs are kept after they ended.
    pub retention: Retention,
    /// How questions are asked in batches.
    pub batch: BatchSettings,
}

/// How questions are asked in batches.
#[derive(Clone, Copy, Debug)]
pub struct BatchSettings {
    /// How long a question waits for others to leave with it.
    pub linger: Duration,
    /// How often a batch is looked at.
    pub poll: Duration,
}

/// What the doors do with jobs.
#[derive(Clone)]
pub struct Engine {
    store: Store,
    model: Model,
    executor: Executor,
    settings: EngineSettings,
}

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request has faults; each names its field.
    #[error("the request is not valid")]
    Invalid(Vec<Violation>),
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EngineError {
    /// One fault of one field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation { field: field.into(), message: message.into() }])
    }
}

/// The name of every caller of a server that is open to all.
pub const OPEN_ACTOR: &str = "client";

/// Which door a request came through, and with it who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The door.
    pub door: Door,
    /// The caller's name, as the history of a job has it.
    pub actor: Arc<str>,
}

impl Caller {
    /// The caller's name, if it is known and decides in the name of somebody else.
    fn stands_for(&self, voter: &str) -> Option<String> {
        let is_known = &*self.actor != OPEN_ACTOR && voter != &*self.actor;
        is_known.then(|| self.actor.to_string())
    }

    /// What a model sees of the steps before, where a submission does not say: the template showed it nothing.
    fn default_context(&self) -> ContextMode {
        match self.door {
            Door::Webhook => ContextMode::None,
            Door::Grpc | Door::Link | Door::Button | Door::Reply | Door::Timeout => {
                ContextMode::Conversation
            }
        }
    }
}

/// Does something to its end also when whoever asked for it has gone.
async fn to_its_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    // In a box: a task is moved several times, and what is done here is large.
    match tokio::spawn(Box::pin(work)).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

impl Engine {
    /// An engine over a store and a model; what is submitted to it goes straight to this executor while that has room.
    pub fn new(store: Store, model: Model, executor: Executor, settings: EngineSettings) -> Self {
        Self { store, model, executor, settings }
    }

    /// Who has a name here.
    pub fn book(&self) -> &Book {
        &self.settings.defaults.book
    }

    /// The store, for what is only read.
    pub fn store(&self) -> &Store {
        &self.store
    }
}
