//! Submit: check, freeze the defaults, store; and warn of what the job needs that this server does not have.

use std::sync::Arc;

use super::place::{self, Place};
use super::{Caller, Engine, EngineError, to_its_end};
use crate::domain::book::Person;
use crate::domain::event::NoticeKind;
use crate::domain::id::{JobKey, new_job_id};
use crate::domain::language::is_spoken;
use crate::domain::spec::{Defaults, Spec, Work};
use crate::domain::submission::{Submission, TimeoutPolicy};
use crate::domain::validate::{Faults, freeze};
use crate::store::StoreError;
use crate::store::job::JobView;
use crate::store::submit::{NewJob, Stored};
use crate::store::tombstone::Tombstone;

/// What became of a submit.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The job: as the submit left it, or as it is now if it was there already.
    pub job: JobView,
    /// Whether it was made now.
    pub created: bool,
    /// What it needs that is not configured, a sentence each.
    pub warnings: Vec<String>,
}

/// What the store made of it, once its claim is in the executor's hands.
enum Kept {
    Created(Box<JobView>),
    Existed,
    Pruned(Box<Tombstone>),
}

impl Submitted {
    /// What is known of a job that was pruned; what a job would need matters no more.
    fn pruned(found: &Tombstone) -> Self {
        Self { job: found.view(), created: false, warnings: vec![found.warning()] }
    }
}

impl Engine {
    /// Stores a job; with `validate_only` it only checks, and nothing is stored.
    pub async fn submit(
        &self,
        submission: &Submission,
        caller: Caller,
        traceparent: Option<&str>,
        validate_only: bool,
    ) -> Result<Submitted, EngineError> {
        let defaults =
            Defaults { context: caller.default_context(), ..self.settings.defaults.clone() };
        let spec = Arc::new(freeze(submission, &defaults).map_err(EngineError::Invalid)?);
        self.check_models(&spec).await?;
        let job_id = submission.job_id.clone().unwrap_or_else(new_job_id);
        let key = JobKey::new(&job_id);
        let warnings = self.warnings(&spec);
        let job = NewJob {
            key: key.clone(),
            content: submission.content(),
            spec: Arc::clone(&spec),
            traceparent: traceparent.map(str::to_owned),
            actor: caller.actor,
            claimer: None,
        };
        if validate_only {
            let job = JobView::as_if_stored(key, spec);
            return Ok(Submitted { job, created: false, warnings });
        }
        match self.store_job(job).await? {
            Kept::Created(job) => Ok(Submitted { job: *job, created: true, warnings }),
            Kept::Existed => self.found(&key, warnings).await,
            Kept::Pruned(found) => Ok(Submitted::pruned(&found)),
        }
    }

    /// The job that was there already; it may be pruned in this very moment.
    async fn found(&self, key: &JobKey, warnings: Vec<String>) -> Result<Submitted, EngineError> {
        match self.store.job(key, None).await {
            Ok(job) => Ok(Submitted { job, created: false, warnings }),
            Err(error @ StoreError::JobPruned { .. }) => {
                let found = self.store.find_tombstone(key).await?;
                found.as_ref().map(Submitted::pruned).ok_or(EngineError::Store(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What a model is known not to take is refused, and one without a price where the job has a budget.
    async fn check_models(&self, spec: &Spec) -> Result<(), EngineError> {
        let mut faults = Faults::default();
        for (at, step) in spec.steps.iter().enumerate() {
            let Work::Run(run) = &step.work else { continue };
            for (field, message) in self.model.check(run).await {
                faults.add(format!("steps[{at}].run.{field}"), message);
            }
            let whose = match (spec.budget_usd, self.settings.daily_budget_usd) {
                (Some(_), _) => "the job",
                (None, Some(_)) => "the day",
                (None, None) => continue,
            };
            if !self.model.has_price(&run.model) {
                let model = &run.model;
                let message =
                    format!("is {model}, which has no known price, and {whose} has a budget");
                faults.add(format!("steps[{at}].run.model"), message);
            }
        }
        faults.into_result().map_err(EngineError::Invalid)
    }

    /// Stores the job, and where there is room takes it in hand at once.
    async fn store_job(&self, job: NewJob) -> Result<Kept, StoreError> {
        let (store, place) = (self.store.clone(), self.executor.find_place());
        let claimer = place.as_ref().map(Place::executor_id);
        // To its end also when the client has gone: what was claimed for a place must come into it.
        to_its_end(async move {
            match store.submit(NewJob { claimer, ..job }).await? {
                Stored::Created(view, claimed) => {
                    place::take(place, claimed);
                    Ok(Kept::Created(view))
                }
                Stored::Existed => Ok(Kept::Existed),
                Stored::Pruned(found) => Ok(Kept::Pruned(found)),
            }
        })
        .await
    }

    fn warnings(&self, spec: &Spec) -> Vec<String> {
        let runs = spec.steps.iter().any(|step| matches!(step.work, Work::Run(_)));
        let approvals = spec.steps.iter().filter_map(|step| match &step.work {
            Work::Approval(approval) => Some(approval),
            Work::Run(_) | Work::Wait(_) => None,
        });
        // Where an approval names nobody, endpoints decide it.
        let asks_endpoint =
            spec.webhooks.iter().any(|hook| hook.events.contains(&NoticeKind::ApprovalRequested));
        let asks_nobody =
            !asks_endpoint && approvals.clone().any(|approval| approval.approvers.is_empty());
        let asked = approvals.clone().flat_map(|approval| &approval.approvers);
        let told: Vec<Option<&Person>> = asked
            .chain(&spec.notify)
            .map(|name| self.book().find(name).map(|(_, person)| person))
            .collect();
        let tells_phone = told.iter().any(|person| person.is_none_or(Person::has_phone));
        let tells_endpoint = !spec.webhooks.is_empty()
            || told.iter().flatten().any(|person| person.endpoint.is_some());
        let approves_by_timeout =
            approvals.clone().any(|approval| approval.on_timeout == TimeoutPolicy::Approve);
        let warnings = [
            (
                runs && !self.model.is_configured(),
                "no key for the model provider is configured: run steps will fail",
            ),
            (
                tells_phone && !self.settings.can_notify && !tells_endpoint,
                "WhatsApp is not configured: nobody will be told",
            ),
            (
                tells_phone && !self.settings.can_notify && tells_endpoint,
                "WhatsApp is not configured: only endpoints will be told",
            ),
            (asks_nobody, "an approval names nobody to ask: it has to be decided through Control"),
            (
                // Of an endpoint it is always heard whether it took a request.
                approves_by_timeout
                    && !self.settings.hears_deliveries
                    && !asks_endpoint
                    && spec.at_endpoints.is_empty(),
                "WhatsApp's webhook is not configured, so no delivery is confirmed: on_timeout `approve` will fail the job",
            ),
        ];
        let foreign = spec.language.as_deref().filter(|language| !is_spoken(language));
        let foreign = foreign.map(|language| {
            format!("language `{language}` is not spoken here yet: people are addressed in English")
        });
        let warnings = warnings.into_iter().filter(|(holds, _)| *holds);
        warnings.map(|(_, text)| text.to_owned()).chain(foreign).collect()
    }
}
