//! The jobs that are submitted: mixed shapes, each of which can be sent through either door.
//!
//! Every prompt and note carries a marker, `<job id>/<step>;`, so that whatever arrives anywhere can be told apart.

use longhaul::rpc::proto::{
    ApprovalStep, JobSettings, RunStep, Step, SubmitJobRequest, TimeoutPolicy, WebSearch,
};
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::harness::{approval_step, job, run_step, wait, with};

/// Who can be asked and told.
pub const PEOPLE: [&str; 4] = ["+15550101", "+15550102", "+15550103", "+15550104"];
/// In prompts of steps that search, for faults that strike only them.
pub const SEARCHES: &str = "Search the web";
/// What the texts of all jobs have in them: the task, the prompts and the notes.
pub const TEXTS: [&str; 4] = ["Copy for ", "about a harbour", "Write a line, ", "May it go on"];

/// A job to submit.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its id.
    pub job_id: String,
    /// Its task, which tells variants of one id apart.
    pub task: String,
    steps: Vec<Part>,
    notify: Vec<String>,
    priority: i32,
}

#[derive(Clone, Debug)]
enum Part {
    Run { prompt: String, searches: bool, idle_timeout_seconds: i32 },
    Wait(i32),
    Ask { note: String, approvers: Vec<String>, quorum: i32, timeout_seconds: i32, policy: Policy },
}

#[derive(Clone, Copy, Debug)]
enum Policy {
    Fail,
    Reject,
    Approve,
}

/// The marker of a step.
fn marker(job_id: &str, step: usize) -> String {
    format!("{job_id}/{step};")
}

impl Shape {
    /// A job of one to six steps of any kind.
    pub fn any(job_id: &str, random: &mut StdRng) -> Self {
        let count = random.random_range(1..=6);
        let steps = (1..=count).map(|step| Part::any(job_id, step, random)).collect();
        let notify = some_people(random, 0);
        let priority = random.random_range(-2..=2);
        Self { job_id: job_id.to_owned(), task: task(job_id, 1), steps, notify, priority }
    }

    /// A job of so many run steps, which tells nobody.
    pub fn of_runs(job_id: &str, count: usize) -> Self {
        Self::of(job_id, (1..=count).map(|step| Part::patient_run(job_id, step)).collect())
    }

    /// A job that waits so long and then runs one step.
    pub fn waiting(job_id: &str, seconds: i32) -> Self {
        Self::of(job_id, vec![Part::Wait(seconds), Part::patient_run(job_id, 2)])
    }

    fn of(job_id: &str, steps: Vec<Part>) -> Self {
        let (task, notify) = (task(job_id, 1), Vec::new());
        Self { job_id: job_id.to_owned(), task, steps, notify, priority: 0 }
    }

    /// The same id with another content.
    pub fn conflicting(&self) -> Self {
        Self { task: task(&self.job_id, 2), ..self.clone() }
    }

    /// As a gRPC client sends it.
    pub fn request(&self) -> SubmitJobRequest {
        let steps: Vec<Step> = self.steps.iter().map(Part::step).collect();
        let settings = JobSettings {
            max_attempts: Some(100),
            notify: self.notify.clone(),
            priority: self.priority,
            ..JobSettings::default()
        };
        with(settings, SubmitJobRequest { task: self.task.clone(), ..job(&self.job_id, steps) })
    }

    /// As the webhook takes it.
    pub fn body(&self) -> Value {
        let steps: Vec<Value> = self.steps.iter().map(Part::body).collect();
        let mut settings = json!({"max_attempts": 100});
        if !self.notify.is_empty() {
            settings["notify"] = json!(self.notify);
        }
        if self.priority != 0 {
            settings["priority"] = json!(self.priority);
        }
        json!({"job_id": self.job_id, "task": self.task, "steps": steps, "settings": settings})
    }
}

impl Part {
    fn any(job_id: &str, step: usize, random: &mut StdRng) -> Self {
        let marker = marker(job_id, step);
        match random.random_range(0..20) {
            0..13 => {
                let searches = random.random_range(0..8) == 0;
                let task = if searches { SEARCHES } else { "Write two lines" };
                let prompt = format!("{task} about a harbour, {marker}");
                Self::Run { prompt, searches, idle_timeout_seconds: random.random_range(1..=3) }
            }
            13..16 => Self::Wait(random.random_range(0..=2)),
            _ => {
                let approvers = some_people(random, 1);
                let quorum = random.random_range(1..=approvers.len().cast_signed() as i32);
                let is_short = random.random_range(0..4) == 0;
                let timeout_seconds = if is_short { random.random_range(1..=4) } else { 3600 };
                let policy = match random.random_range(0..4) {
                    0 => Policy::Reject,
                    1 => Policy::Approve,
                    _ => Policy::Fail,
                };
                let note = format!("May it go on, {marker}");
                Self::Ask { note, approvers, quorum, timeout_seconds, policy }
            }
        }
    }

    /// A run step that waits for a provider that is held.
    fn patient_run(job_id: &str, step: usize) -> Self {
        let prompt = format!("Write a line, {}", marker(job_id, step));
        Self::Run { prompt, searches: false, idle_timeout_seconds: 600 }
    }

    fn step(&self) -> Step {
        match self {
            Self::Run { prompt, searches, idle_timeout_seconds } => run_step(RunStep {
                prompt: prompt.clone(),
                web_search: searches.then(WebSearch::default),
                timeout_seconds: 900,
                idle_timeout_seconds: *idle_timeout_seconds,
                ..RunStep::default()
            }),
            Self::Wait(seconds) => wait(*seconds),
            Self::Ask { note, approvers, quorum, timeout_seconds, policy } => {
                approval_step(ApprovalStep {
                    note: note.clone(),
                    approvers: approvers.clone(),
                    quorum: *quorum,
                    timeout_seconds: *timeout_seconds,
                    on_timeout: policy.proto().into(),
                    ..ApprovalStep::default()
                })
            }
        }
    }

    fn body(&self) -> Value {
        match self {
            Self::Run { prompt, searches, idle_timeout_seconds } => {
                let mut step = json!({"type": "run", "prompt": prompt, "timeout_seconds": 900,
                    "idle_timeout_seconds": idle_timeout_seconds});
                if *searches {
                    step["web_search"] = json!({});
                }
                step
            }
            Self::Wait(seconds) => json!({"type": "wait", "duration_seconds": seconds}),
            Self::Ask { note, approvers, quorum, timeout_seconds, policy } => {
                json!({"type": "approval", "note": note, "approvers": approvers,
                    "quorum": quorum, "timeout_seconds": timeout_seconds,
                    "on_timeout": policy.word()})
            }
        }
    }
}

impl Policy {
    fn proto(self) -> TimeoutPolicy {
        match self {
            Self::Fail => TimeoutPolicy::Fail,
            Self::Reject => TimeoutPolicy::Reject,
            Self::Approve => TimeoutPolicy::Approve,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Reject => "reject",
            Self::Approve => "approve",
        }
    }
}

fn task(job_id: &str, variant: u32) -> String {
    format!("Copy for {job_id}, variant {variant}")
}

fn some_people(random: &mut StdRng, least: usize) -> Vec<String> {
    let count = random.random_range(least..=2.max(least));
    let first = random.random_range(0..PEOPLE.len());
    (0..count).map(|more| PEOPLE[(first + more) % PEOPLE.len()].to_owned()).collect()
}
