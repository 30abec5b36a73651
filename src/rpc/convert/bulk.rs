//! Bulk control: what is asked of many jobs, and what became of it.
//!
//! In comes a `ControlJobsRequest`, out goes what the engine is asked, or every fault with its field; then the answer.

use super::list::{place, selector};
use super::request::{resume, retry};
use super::submission::text;
use crate::domain::id::JobKey;
use crate::domain::validate::bound::{BULK_PAGE_SIZE, BULK_PAGE_SIZE_MAX};
use crate::domain::validate::{Faults, Violation};
use crate::engine::bulk::{Bulk, Bulked};
use crate::engine::control::Command;
use crate::rpc::proto::{self, control_jobs_request::Action};
use crate::store::list::Selector;

/// What a `ControlJobs` asks for.
pub fn bulk(request: proto::ControlJobsRequest) -> Result<Bulk, Vec<Violation>> {
    let mut faults = Faults::default();
    let selector = selector(request.selector.unwrap_or_default(), &mut faults);
    let command = match request.action {
        Some(Action::Pause(pause)) => Command::Pause { now: pause.now },
        Some(Action::Resume(sent)) => resume(&sent, &mut faults),
        Some(Action::Cancel(cancel)) => Command::Cancel { comment: cancel.comment },
        Some(Action::Retry(sent)) => retry(sent, &mut faults),
        None => {
            faults.add("action", "must be one of pause, resume, cancel, retry");
            Command::Status
        }
    };
    let sizes = (BULK_PAGE_SIZE, BULK_PAGE_SIZE_MAX);
    let size = faults.check_page_size(request.page_size, sizes);
    let after = place(request.page_token, &selector, &mut faults);
    faults.into_result()?;
    Ok(Bulk {
        selector,
        command,
        is_dry_run: request.dry_run,
        is_silent: request.silent,
        after,
        size,
        request_id: text(request.request_id),
    })
}

/// What became of it, for who asked with this selector.
pub fn bulked(bulked: &Bulked, selector: &Selector) -> proto::ControlJobsResponse {
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let named = bulked.refused_jobs.iter().map(JobKey::job_id);
    proto::ControlJobsResponse {
        matched: count(bulked.matched),
        changed: count(bulked.changed),
        refused: count(bulked.refused),
        refused_job_ids: named.map(str::to_owned).collect(),
        more: bulked.has_more,
        next_page_token: bulked.next.as_ref().map(|next| next.token(selector)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(request: proto::ControlJobsRequest) -> Vec<String> {
        bulk(request).unwrap_err().into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn exactly_one_action_is_required_and_each_fault_is_named() {
        assert_eq!(fields(proto::ControlJobsRequest::default()), ["action"]);
        let request = proto::ControlJobsRequest {
            selector: Some(proto::JobSelector { statuses: vec![99], ..Default::default() }),
            page_size: -1,
            page_token: "?".to_owned(),
            action: Some(Action::Retry(proto::RetryAction { from_step: -1 })),
            ..Default::default()
        };
        let expected = ["selector.statuses[0]", "retry.from_step", "page_size", "page_token"];
        assert_eq!(fields(request), expected);
    }

    #[test]
    fn a_call_tries_so_many_jobs_and_no_more() {
        let size = |page_size| {
            let action = Some(Action::Cancel(proto::CancelAction::default()));
            let request = proto::ControlJobsRequest { page_size, action, ..Default::default() };
            bulk(request).unwrap().size
        };
        assert_eq!([size(0), size(7), size(1000), size(i32::MAX)], [500, 7, 1000, 1000]);
    }
}
