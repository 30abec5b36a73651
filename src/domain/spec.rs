//! The specification of a job: its submission with every default filled in, frozen at submit for the job's whole life.
//!
//! A server whose defaults change later still runs old jobs as they were submitted.
//! `VERSION` says which shape this is; a server claims only jobs whose version it understands.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::book::{Book, is_phone};
use super::event::NoticeKind;
use super::money::Usd;
use super::submission::{
    ContextMode, Effort, InterruptPolicy, RunMode, TimeoutPolicy, TruncationPolicy, UserLocation,
};
use super::template::{Name, Template};

/// The newest version of the shape below that this server understands.
///
/// 1 is the first; 2 has run steps with effort, an output schema, stop sequences, what to do with a cut answer, further
/// fields and a place to search from, and jobs with a budget; 3 has run steps that are asked in a batch, go on with a
/// broken answer or have a place for feedback, and approvals that can be edited or sent back; 4 has people with a name,
/// endpoints, and approvals of which people are reminded or that escalate.
pub const VERSION: i32 = 4;

/// A job with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What the job is for.
    pub task: String,
    /// The steps, in order; never empty.
    pub steps: Vec<StepSpec>,
    /// The system prompt of run steps that have none of their own.
    pub system: Option<String>,
    /// How many lost attempts one step survives.
    pub max_attempts: i32,
    /// How long a step is tried again after errors that pass by themselves.
    pub retry_window_seconds: i64,
    /// Who is told the end.
    pub notify: Vec<String>,
    /// The language of notices and pages, if one was chosen.
    pub language: Option<String>,
    /// Labels to select by.
    pub labels: BTreeMap<String, String>,
    /// Higher is claimed first.
    pub priority: i32,
    /// Not before this moment.
    pub run_at: Option<DateTime<Utc>>,
    /// What it may cost at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<Usd>,
    /// Which endpoints are told, and of what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<Hook>,
    /// People who are reached at an endpoint alone, and at which.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at_endpoints: BTreeMap<String, String>,
}

/// An endpoint that is told of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Its name in the address book.
    pub name: String,
    /// The events it is told of.
    pub events: Vec<NoticeKind>,
}

/// One step with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSpec {
    /// The name others refer to it by.
    pub name: Option<String>,
    /// What it does.
    #[serde(flatten)]
    pub work: Work,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Work {
    /// Ask a language model.
    Run(RunSpec),
    /// Wait for a person.
    Approval(ApprovalSpec),
    /// Wait for time.
    Wait(WaitSpec),
}

/// A question to a language model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The template of what is asked.
    pub prompt: String,
    /// A system prompt of its own.
    pub system: Option<String>,
    /// The model's exact id.
    pub model: String,
    /// The most tokens the answer may have.
    pub max_tokens: u32,
    /// What it may search, if anything.
    pub web_search: Option<WebSearchSpec>,
    /// What it sees of the steps before.
    pub context: ContextMode,
    /// The longest one call may take.
    pub timeout_seconds: u32,
    /// The longest silence within a call.
    pub idle_timeout_seconds: u32,
    /// What only newer servers understand.
    #[serde(flatten)]
    pub options: RunOptions,
}

/// What a run step may ask for besides; absent in what older servers have frozen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// How much the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The form of the answer, a JSON schema as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema_json: Option<String>,
    /// Where the model stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// What happens to an answer that was cut off.
    #[serde(skip_serializing_if = "is_default")]
    pub on_truncated: TruncationPolicy,
    /// Further fields of the provider's request, a JSON object as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_json: Option<String>,
    /// What becomes of an answer that was broken off.
    #[serde(skip_serializing_if = "is_default")]
    pub on_interrupt: InterruptPolicy,
    /// How the question gets to the model.
    #[serde(skip_serializing_if = "is_default")]
    pub mode: RunMode,
}

/// What a model may search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebSearchSpec {
    /// The most searches in one call.
    pub max_uses: u32,
    /// Search only these domains.
    pub allowed_domains: Vec<String>,
    /// Never search these domains.
    pub blocked_domains: Vec<String>,
    /// Where the one who asks is, roughly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_location: Option<UserLocation>,
}

/// A request for a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalSpec {
    /// What is asked.
    pub note: String,
    /// Who may decide; empty if nobody is told, and the decision comes in through a door.
    pub approvers: Vec<String>,
    /// How many must approve.
    pub quorum: i32,
    /// How long they have.
    pub timeout_seconds: i64,
    /// What happens then.
    pub on_timeout: TimeoutPolicy,
    /// What only newer servers understand.
    #[serde(flatten)]
    pub options: ApprovalOptions,
}

/// What approvers may do besides; absent in what older servers have frozen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalOptions {
    /// They may edit what is shown to them.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_edit: bool,
    /// How often they may have it done again.
    #[serde(skip_serializing_if = "is_default")]
    pub max_revisions: i32,
    /// The run step that is done again then; 0 if none is.
    #[serde(skip_serializing_if = "is_default")]
    pub revise_step: i32,
    /// With how much time left those who have not decided are reminded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remind_before_seconds: Vec<i64>,
    /// After which time more people are asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_after_seconds: Option<i64>,
    /// Those people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escalate_to: Vec<String>,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitSpec {
    /// So many seconds from when the step is reached.
    DurationSeconds(i64),
    /// Until this moment.
    UntilAt(DateTime<Utc>),
}

impl Spec {
    /// The oldest version that can say all of it: a server of the release before runs what it understands.
    pub fn version(&self) -> i32 {
        let of_steps = self.steps.iter().map(|step| match &step.work {
            Work::Run(run) => run.version(),
            Work::Approval(approval) => approval.version(),
            Work::Wait(_) => 1,
        });
        let of_budget = if self.budget_usd.is_some() { 2 } else { 1 };
        // The release before would take an endpoint for a phone.
        let of_hooks = if self.webhooks.is_empty() { 1 } else { 4 };
        of_steps.max().unwrap_or(1).max(of_budget).max(of_hooks).max(version_of(&self.notify))
    }

    /// Everybody who is told or asked.
    pub fn people(&self) -> impl Iterator<Item = &str> {
        let asked = self.steps.iter().flat_map(|step| match &step.work {
            Work::Approval(approval) => [&approval.approvers[..], &approval.options.escalate_to],
            Work::Run(_) | Work::Wait(_) => [&[][..], &[]],
        });
        self.notify.iter().chain(asked.flatten()).map(String::as_str)
    }

    /// The step of this number, counted from 1.
    pub fn find_step(&self, step: i32) -> Option<&StepSpec> {
        usize::try_from(step).ok()?.checked_sub(1).and_then(|at| self.steps.get(at))
    }

    /// The run step whose output an approval shows: the nearest one before; 0 if there is none.
    pub fn shown_at(&self, approval_step: i32) -> i32 {
        let before = (1..approval_step).rev();
        let is_run = |step: &i32| {
            self.find_step(*step).is_some_and(|found| matches!(found.work, Work::Run(_)))
        };
        before.into_iter().find(is_run).unwrap_or(0)
    }

    /// The approval steps that can have a run step done again.
    pub fn revised_by(&self, step: i32) -> Vec<i32> {
        let numbered = (1..).zip(&self.steps);
        let may = numbered.filter(|(_, found)| match &found.work {
            Work::Approval(approval) => {
                approval.options.max_revisions > 0 && approval.options.revise_step == step
            }
            Work::Run(_) | Work::Wait(_) => false,
        });
        may.map(|(number, _)| number).collect()
    }

    /// About how many bytes of text it holds.
    pub fn text_bytes(&self) -> usize {
        let of_option = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let steps = self.steps.iter().map(|step| match &step.work {
            Work::Run(run) => run.prompt.len() + of_option(&run.system),
            Work::Approval(approval) => approval.note.len(),
            Work::Wait(_) => 0,
        });
        // A step has some bytes without any text, too.
        self.task.len() + of_option(&self.system) + steps.map(|bytes| bytes + 256).sum::<usize>()
    }

    /// How many steps there are.
    pub fn step_count(&self) -> i32 {
        i32::try_from(self.steps.len()).expect("a validated job has at most 1,000 steps")
    }
}

impl ApprovalSpec {
    /// The oldest version that can say all of it.
    fn version(&self) -> i32 {
        let ApprovalOptions { remind_before_seconds, escalate_after_seconds, .. } = &self.options;
        let of_options = if !remind_before_seconds.is_empty() || escalate_after_seconds.is_some() {
            4
        } else if self.options != ApprovalOptions::default() {
            3
        } else {
            1
        };
        version_of(&self.approvers).max(of_options)
    }
}

/// The release before takes everybody for a number.
fn version_of(people: &[String]) -> i32 {
    if people.iter().all(|person| is_phone(person)) { 1 } else { 4 }
}

impl RunSpec {
    /// Whether its prompt says where what is wanted changed goes.
    pub fn has_place_for_feedback(&self) -> bool {
        // Most do not, and need not be read for that.
        self.prompt.contains("feedback")
            && Template::parse(&self.prompt)
                .is_ok_and(|template| template.names().any(|name| *name == Name::Feedback))
    }

    /// The oldest version that can say all of it.
    fn version(&self) -> i32 {
        let location = self.web_search.as_ref().and_then(|search| search.user_location.as_ref());
        let RunOptions { on_interrupt, mode, .. } = &self.options;
        let is_new = *on_interrupt != InterruptPolicy::default() || *mode != RunMode::default();
        if is_new || self.has_place_for_feedback() {
            3
        } else if self.options != RunOptions::default() || location.is_some() {
            2
        } else {
            1
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What the server fills in where a submission says nothing.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// The model's exact id.
    pub model: String,
    /// The most tokens an answer may have.
    pub max_tokens: u32,
    /// Who is told and asked.
    pub notify: Vec<String>,
    /// The language of notices and pages.
    pub language: Option<String>,
    /// What a model sees of the steps before; differs by door.
    pub context: ContextMode,
    /// Who has a name here.
    pub book: Arc<Book>,
}
