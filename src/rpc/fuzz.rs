//! What a fuzzer calls of the gRPC face: a message of any request, and the tokens of pages.
//!
//! In come bytes: the first says which message, the rest is its encoding.
//! There in tests and for the fuzzer alone, as `domain::fuzz` says.

use prost::Message;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::convert::{self, bulk, list, notice, request, status, submission, usage};
use super::proto;
use crate::domain::book::Book;
use crate::domain::fuzz::{check_violations, frozen};
use crate::domain::validate::Violation;
use crate::store::list::{Cursor, Selector};
use crate::store::usage::{Grouping, Place};

/// A message is decoded, converted and checked; a good submission is shown as one that freezes to itself.
pub fn message(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 10 {
        0 => submit(rest),
        1 => convert::<proto::ControlRequest, _>(rest, request::command),
        2 => convert::<proto::GetJobRequest, _>(rest, |sent| request::look(&sent)),
        3 => convert::<proto::WatchJobRequest, _>(rest, |sent| request::watch(&sent)),
        4 => convert::<proto::ListJobsRequest, _>(rest, list::page),
        5 => convert::<proto::ListNoticesRequest, _>(rest, |sent| {
            notice::page(sent, &Book::default())
        }),
        6 => convert::<proto::GetUsageRequest, _>(rest, usage::query),
        7 => convert::<proto::RevokeLinksRequest, _>(rest, |sent| {
            request::revocation(&sent, &Book::default())
        }),
        8 => convert::<proto::ResendNoticeRequest, _>(rest, |sent| notice::notice_id(&sent)),
        _ => convert::<proto::ControlJobsRequest, _>(rest, bulk::bulk),
    }
}

/// The tokens of pages: one that is taken stands for a place whose token is taken too.
pub fn page_token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let any = Selector::default();
    if let Ok(place) = Cursor::parse(&text, &any) {
        assert_eq!(Cursor::parse(&place.token(&any), &any), Ok(place));
    }
    let groupings =
        [Grouping::None, Grouping::Day, Grouping::Model, Grouping::Label, Grouping::Job];
    for grouping in groupings {
        if let Some(place) = Place::parse(&text, grouping) {
            assert_eq!(Place::parse(&place.token(), grouping), Some(place));
        }
    }
    let request = proto::ListNoticesRequest {
        page_token: text.into_owned(),
        ..proto::ListNoticesRequest::default()
    };
    if let Err(violations) = notice::page(request, &Book::default()) {
        refused(violations);
    }
}

fn submit(bytes: &[u8]) {
    let Ok(request) = proto::SubmitJobRequest::decode(bytes) else { return };
    let submission = match submission::submission(request) {
        Ok(submission) => submission,
        Err(violations) => return refused(violations),
    };
    let Some(spec) = frozen(&submission) else { return };
    let proto::JobSpec { task, steps, settings } = convert::job_spec(&spec);
    let shown =
        proto::SubmitJobRequest { task, steps, settings, ..proto::SubmitJobRequest::default() };
    let again = submission::submission(shown).expect("what is shown can be sent");
    assert_eq!(frozen(&again), Some(spec));
}

fn convert<M: Message + Default, T>(
    bytes: &[u8],
    convert: impl FnOnce(M) -> Result<T, Vec<Violation>>,
) {
    let Ok(message) = M::decode(bytes) else { return };
    if let Err(violations) = convert(message) {
        refused(violations);
    }
}

fn refused(violations: Vec<Violation>) {
    check_violations(&violations);
    let status: Status = status::invalid(violations);
    assert!(status.get_error_details().error_info().is_some() && !status.message().is_empty());
    assert!(status::size(&status) <= status::STATUS_BYTES_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_messages_and_their_neighbours_break_no_law() {
        crate::domain::fuzz::sown::try_all("message", message);
    }

    #[test]
    fn seeds_of_page_tokens_and_their_neighbours_break_no_law() {
        crate::domain::fuzz::sown::try_all("page_token", page_token);
    }
}
