//! Validation: a submission goes in, a specification comes out, or every fault it has, each with its field.
//!
//! Both doors come through here, and nothing is checked anywhere else.
//! Fields are named as in the proto's JSON, counted from zero: `steps[1].approval.timeout_seconds`.

pub mod bound;

pub mod json;

mod run;

mod approval;

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Datelike as _, Utc};

use bound::{
    ATTEMPTS, ATTEMPTS_DEFAULT, BUDGET_USD_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX,
    LABELS_MAX, LANGUAGE_BYTES_MAX, MAX_TOKENS, MODEL_BYTES_MAX, PEOPLE_MAX, PRIORITY,
    RETRY_WINDOW_SECONDS, RETRY_WINDOW_SECONDS_DEFAULT, STEP_NAME_BYTES_MAX, WAIT_SECONDS,
    WEBHOOKS_MAX, YEARS,
};
pub use bound::{COMMENT_BYTES_MAX, PROMPT_BYTES_MAX, STEPS_MAX, TEXT_BYTES_MAX};

use super::book::{Book, is_phone};
use super::id::find_job_id_fault;
use super::money::Usd;
use super::spec::{Defaults, Spec, StepSpec, WaitSpec, Work};
use super::submission::{Settings, Step, Submission, WaitStep};

/// The most faults of a request that are told; a short request can have millions.
const FAULTS_MAX: usize = 1000;
/// The longest field or message of a fault, in bytes: both may quote what was sent.
const TOLD_BYTES_MAX: usize = 1024;

/// One fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, such as `steps[1].run.prompt`.
    pub field: String,
    /// What is wrong with it, such as `must not be empty`.
    pub message: String,
}

/// The faults found so far.
#[derive(Debug, Default)]
pub struct Faults(Vec<Violation>);

impl Faults {
    /// Notes a fault, unless there are a thousand already.
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.0.len() == FAULTS_MAX {
            return;
        }
        let [mut field, mut message] = [field.into(), message.into()];
        for text in [&mut field, &mut message] {
            text.truncate(text.floor_char_boundary(TOLD_BYTES_MAX));
        }
        self.0.push(Violation { field, message });
    }

    /// Checks how many entries a list or map has; what has too many is not to be looked through.
    #[must_use]
    pub fn check_count(&mut self, field: &str, count: usize, count_max: usize) -> bool {
        if count > count_max {
            self.add(field, format!("must have at most {count_max} entries, has {count}"));
        }
        count <= count_max
    }

    /// Checks a name: one line, without what nobody sees, and no more than so many bytes.
    pub fn check_line(&mut self, field: &str, text: &str, bytes_max: usize) {
        if text.contains(char::is_control) {
            self.add(field, "must not contain control characters");
        }
        if text.len() > bytes_max {
            self.add(field, format!("must have at most {bytes_max} bytes, has {}", text.len()));
        }
    }

    /// Checks a page's size, and yields how many it has, with its default and its most.
    pub fn check_page_size(&mut self, given: i32, (default, most): (i32, i32)) -> usize {
        if given < 0 {
            self.add("page_size", format!("must not be negative, is {given}"));
        }
        let size = if given == 0 { default } else { given.clamp(1, most) };
        size.unsigned_abs() as usize
    }

    /// Checks the number of a step, of which 0 says nothing.
    pub fn check_step(&mut self, field: &str, given: i32) {
        if given < 0 {
            self.add(field, format!("must not be negative, is {given}"));
        }
    }

    /// Checks a text: no NUL, which Postgres cannot store, and no more than so many bytes.
    pub fn check_text(&mut self, field: &str, text: &str, bytes_max: usize) {
        if text.contains('\0') {
            self.add(field, "must not contain a NUL character");
        }
        if text.len() > bytes_max {
            self.add(field, format!("must have at most {bytes_max} bytes, has {}", text.len()));
        }
    }

    /// Checks a number that was given, and yields it, or the default where it says nothing or is wrong.
    pub fn check_range(
        &mut self,
        field: &str,
        given: Option<i32>,
        range: (i32, i32),
        default: i32,
    ) -> i32 {
        let value = given.unwrap_or(default);
        if value < range.0 || value > range.1 {
            self.add(field, format!("must be from {} to {}, is {value}", range.0, range.1));
            return default;
        }
        value
    }

    /// Ok if nothing was found.
    pub fn into_result(self) -> Result<(), Vec<Violation>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// Checks a submission and freezes the defaults into it.
pub fn freeze(submission: &Submission, defaults: &Defaults) -> Result<Spec, Vec<Violation>> {
    let mut faults = Faults::default();
    if let Some(fault) = submission.job_id.as_deref().and_then(find_job_id_fault) {
        faults.add("job_id", fault);
    }
    faults.check_text("task", &submission.task, TEXT_BYTES_MAX);
    let count = submission.steps.len();
    if count == 0 || count > STEPS_MAX {
        faults.add("steps", format!("must have 1 to {STEPS_MAX} steps, has {count}"));
        return Err(faults.0);
    }
    let settings = &submission.settings;
    check_settings(settings, &defaults.book, &mut faults);
    let names = step_names(&submission.steps, &mut faults);
    let known = Known { steps: &submission.steps, names: &names, settings, defaults };
    let steps = submission
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| freeze_step(at, step, &known, &mut faults))
        .collect();
    let spec = Spec {
        task: submission.task.clone(),
        steps,
        system: settings.system.clone(),
        max_attempts: settings.max_attempts.unwrap_or(ATTEMPTS_DEFAULT),
        retry_window_seconds: (settings.retry_window_seconds)
            .unwrap_or(RETRY_WINDOW_SECONDS_DEFAULT)
            .into(),
        notify: people_or_default(&settings.notify, &defaults.notify, &defaults.book),
        language: settings.language.clone().or_else(|| defaults.language.clone()),
        labels: settings.labels.clone(),
        priority: settings.priority.unwrap_or(0),
        run_at: settings.run_at,
        budget_usd: settings.budget_usd,
        webhooks: defaults.book.hooks(&settings.webhooks),
        at_endpoints: BTreeMap::new(),
    };
    let spec = Spec { at_endpoints: defaults.book.at_endpoints(spec.people()), ..spec };
    faults.into_result().map(|()| spec)
}

struct Known<'a> {
    steps: &'a [Step],
    names: &'a HashMap<&'a str, usize>,
    settings: &'a Settings,
    defaults: &'a Defaults,
}

fn check_settings(settings: &Settings, book: &Book, faults: &mut Faults) {
    check_model("settings.model", settings.model.as_deref(), faults);
    faults.check_range("settings.max_tokens", settings.max_tokens, MAX_TOKENS, 1);
    let system = settings.system.as_deref().unwrap_or_default();
    faults.check_text("settings.system", system, PROMPT_BYTES_MAX);
    faults.check_range("settings.max_attempts", settings.max_attempts, ATTEMPTS, ATTEMPTS_DEFAULT);
    let window = settings.retry_window_seconds;
    faults.check_range("settings.retry_window_seconds", window, RETRY_WINDOW_SECONDS, 0);
    faults.check_range("settings.priority", settings.priority, PRIORITY, 0);
    check_people("settings.notify", &settings.notify, book, faults);
    check_webhooks("settings.webhooks", &settings.webhooks, book, faults);
    check_moment("settings.run_at", settings.run_at, faults);
    check_budget("settings.budget_usd", settings.budget_usd, faults);
    if settings.language.as_deref().is_some_and(|tag| !is_language_tag(tag)) {
        faults.add("settings.language", "must be a BCP 47 tag such as `zh` or `pt-BR`");
    }
    let labels = settings.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    check_labels("settings.labels", labels, faults);
}

/// Subtags of one to eight letters and digits each, of which the first has letters alone.
fn is_language_tag(tag: &str) -> bool {
    let mut subtags = tag.split('-');
    let primary = subtags.next().unwrap_or_default();
    let fits = |subtag: &str| {
        (1..=8).contains(&subtag.len()) && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_primary = fits(primary) && primary.bytes().all(|byte| byte.is_ascii_alphabetic());
    tag.len() <= LANGUAGE_BYTES_MAX && is_primary && subtags.all(fits)
}

/// Checks labels, whether a job has them or jobs are picked by them.
pub fn check_labels<'l>(
    field: &str,
    labels: impl ExactSizeIterator<Item = (&'l str, &'l str)>,
    faults: &mut Faults,
) {
    if !faults.check_count(field, labels.len(), LABELS_MAX) {
        return;
    }
    for (key, value) in labels {
        let field = format!("{field}[{key:?}]");
        if key.is_empty() {
            faults.add(&field, "must have a key that is not empty");
        }
        faults.check_line(&field, key, LABEL_KEY_BYTES_MAX);
        faults.check_text(&field, value, LABEL_VALUE_BYTES_MAX);
    }
}

fn step_names<'a>(steps: &'a [Step], faults: &mut Faults) -> HashMap<&'a str, usize> {
    let mut names = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        let Some(name) = step.name() else { continue };
        let field = format!("steps[{at}].name");
        let rest = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts_well || name.len() > STEP_NAME_BYTES_MAX || !name.chars().all(rest) {
            faults.add(&field, "must be a letter, then letters, digits, `_` or `-`, at most 64");
        }
        if let Some(before) = names.insert(name, at) {
            faults.add(&field, format!("must be unique, is also the name of steps[{before}]"));
        }
    }
    names
}

fn freeze_step(at: usize, step: &Step, known: &Known<'_>, faults: &mut Faults) -> StepSpec {
    let work = match step {
        Step::Run(run) => Work::Run(run::freeze_run(at, run, known, faults)),
        Step::Approval(approval) => {
            Work::Approval(approval::freeze_approval(at, approval, known, faults))
        }
        Step::Wait(wait) => Work::Wait(freeze_wait(at, wait, faults)),
    };
    StepSpec { name: step.name().map(str::to_owned), work }
}

fn freeze_wait(at: usize, step: &WaitStep, faults: &mut Faults) -> WaitSpec {
    match (step.duration_seconds, step.until_at) {
        (Some(_), None) => {
            let field = format!("steps[{at}].wait.duration_seconds");
            let seconds = faults.check_range(&field, step.duration_seconds, WAIT_SECONDS, 0);
            WaitSpec::DurationSeconds(seconds.into())
        }
        (None, Some(until_at)) => {
            check_moment(&format!("steps[{at}].wait.until_at"), Some(until_at), faults);
            WaitSpec::UntilAt(until_at)
        }
        (Some(_), Some(_)) | (None, None) => {
            faults
                .add(format!("steps[{at}].wait"), "must have either duration_seconds or until_at");
            WaitSpec::DurationSeconds(0)
        }
    }
}

fn check_moment(field: &str, moment: Option<DateTime<Utc>>, faults: &mut Faults) {
    if moment.is_some_and(|moment| !(YEARS.0..=YEARS.1).contains(&moment.year())) {
        faults.add(field, "must be a time from the year 1 to the year 9999");
    }
}

/// Checks what a person makes of an output.
pub fn check_edited(field: &str, edited: &str, faults: &mut Faults) {
    if edited.trim().is_empty() {
        faults.add(field, "must not be empty");
    }
    faults.check_text(field, edited, PROMPT_BYTES_MAX);
}

/// Checks in whose name somebody decides: two ways to write one name would be two people.
pub fn check_voter(field: &str, voter: &str, faults: &mut Faults) {
    if voter.trim() != voter {
        faults.add(field, "must not begin or end with a space");
    }
    faults.check_line(field, voter, bound::VOTER_BYTES_MAX);
}

/// Checks what a job may cost, if that is limited.
pub fn check_budget(field: &str, budget_usd: Option<Usd>, faults: &mut Faults) {
    let most = Usd::from(rust_decimal::Decimal::from(BUDGET_USD_MAX));
    if budget_usd.is_some_and(|budget| budget <= Usd::ZERO || budget > most) {
        faults.add(field, "must be more than 0 and at most 1000000");
    }
}

/// Checks the id of a model, if there is one.
pub fn check_model(field: &str, model: Option<&str>, faults: &mut Faults) {
    let bad = |c: char| c.is_whitespace() || c.is_control();
    if model.is_some_and(|model| model.len() > MODEL_BYTES_MAX || model.contains(bad)) {
        faults.add(field, "must be a model's id, at most 128 bytes without spaces");
    }
}

/// Checks a list of people: phone numbers, and names that the address book knows.
pub fn check_people(field: &str, people: &[String], book: &Book, faults: &mut Faults) {
    if !faults.check_count(field, people.len(), PEOPLE_MAX) {
        return;
    }
    let mut seen = HashSet::new();
    for (at, person) in people.iter().enumerate() {
        if book.find(person).is_none() && !is_phone(person) {
            faults.add(
                format!("{field}[{at}]"),
                "must be a phone number such as `+15550100` or a name from the address book",
            );
        }
        if !seen.insert(book.known_as(person)) {
            faults.add(format!("{field}[{at}]"), "must not repeat a person");
        }
    }
}

/// Checks names of endpoints: a job names what is configured, and never an address.
fn check_webhooks(field: &str, names: &[String], book: &Book, faults: &mut Faults) {
    if !faults.check_count(field, names.len(), WEBHOOKS_MAX) {
        return;
    }
    for (at, name) in names.iter().enumerate() {
        if !book.has_endpoint(name) {
            faults.add(
                format!("{field}[{at}]"),
                "must be the name of an endpoint from the address book",
            );
        }
        if names[..at].contains(name) {
            faults.add(format!("{field}[{at}]"), "must not repeat an endpoint");
        }
    }
}

fn people_or_default(given: &[String], default: &[String], book: &Book) -> Vec<String> {
    let people = if given.is_empty() { default } else { given };
    // One that has more has been found to be wrong.
    people.iter().take(PEOPLE_MAX).map(|person| book.known_as(person).to_owned()).collect()
}
