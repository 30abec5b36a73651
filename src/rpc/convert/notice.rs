//! Requests about notices, and notices with their jobs.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Uuid;

use super::job;
use super::submission::text;
use super::word;
use crate::domain::book::Book;
use crate::domain::id::{NoticeId, find_job_id_fault};
use crate::domain::validate::bound::{PAGE_SIZE, PAGE_SIZE_MAX, RECIPIENT_BYTES_MAX, WORDS_MAX};
use crate::domain::validate::{Faults, Violation};
use crate::rpc::proto;
use crate::store::dead::{ListedNotice, NoticeSelector};

/// One page of notices.
#[derive(Debug)]
pub struct Page {
    /// Which notices.
    pub selector: NoticeSelector,
    /// Before which one.
    pub before: Option<NoticeId>,
    /// How many.
    pub size: usize,
}

/// Which page a `ListNotices` asks for.
pub fn page(request: proto::ListNoticesRequest, book: &Book) -> Result<Page, Vec<Violation>> {
    let mut faults = Faults::default();
    let job_id = text(request.job_id);
    if let Some(fault) = job_id.as_deref().and_then(find_job_id_fault) {
        faults.add("job_id", fault);
    }
    faults.check_line("recipient", &request.recipient, RECIPIENT_BYTES_MAX);
    let (mut deliveries, mut kinds) = (Vec::new(), Vec::new());
    let is_short = faults.check_count("deliveries", request.deliveries.len(), WORDS_MAX);
    for (at, number) in request.deliveries.into_iter().enumerate().filter(|_| is_short) {
        let field = format!("deliveries[{at}]");
        let delivery = known(
            &field,
            word::read::<proto::Delivery>(&field, number, &mut faults),
            number,
            &mut faults,
        );
        deliveries.extend(delivery);
    }
    let (has_kinds, is_short) =
        (!request.kinds.is_empty(), faults.check_count("kinds", request.kinds.len(), WORDS_MAX));
    for (at, number) in request.kinds.into_iter().enumerate().filter(|_| is_short) {
        let field = format!("kinds[{at}]");
        let kind = known(
            &field,
            word::read::<proto::NoticeKind>(&field, number, &mut faults),
            number,
            &mut faults,
        );
        kinds.extend(kind);
    }
    // A kind alone would be looked for among everything that was ever told.
    if has_kinds && deliveries.is_empty() && job_id.is_none() && request.recipient.is_empty() {
        faults.add("kinds", "must go with a job_id, a recipient or deliveries");
    }
    let size = faults.check_page_size(request.page_size, (PAGE_SIZE, PAGE_SIZE_MAX));
    let before = text(request.page_token).and_then(|token| {
        let place = place_of(&token);
        if place.is_none() {
            faults.add("page_token", "must be the next_page_token of the page before");
        }
        place
    });
    faults.into_result()?;
    // Whoever is in the address book is kept under their name.
    let recipient = text(request.recipient).map(|given| book.known_as(&given).to_owned());
    let selector = NoticeSelector { job_id, deliveries, kinds, recipient };
    Ok(Page { selector, before, size })
}

/// Unspecified picks nothing.
fn known<W>(field: &str, found: Option<W>, number: i32, faults: &mut Faults) -> Option<W> {
    if number == 0 {
        faults.add(field, "must not be unspecified");
    }
    found
}

/// Which notice a `ResendNotice` means.
pub fn notice_id(request: &proto::ResendNoticeRequest) -> Result<NoticeId, Vec<Violation>> {
    let mut faults = Faults::default();
    let parsed = Uuid::try_parse(&request.notice_id).ok();
    if parsed.is_none() {
        faults.add("notice_id", "must be a UUID");
    }
    faults.into_result()?;
    Ok(NoticeId(parsed.unwrap_or_default()))
}

/// A notice and its job; `is_whole` shows the number of whom it is for.
pub fn listed(listed: &ListedNotice, is_whole: bool) -> proto::JobNotice {
    let job_id = listed.key.job_id().to_owned();
    let mut notice = job::notice(&listed.notice);
    if is_whole {
        notice.recipient.clone_from(&listed.notice.recipient);
    }
    proto::JobNotice { job_id, notice: Some(notice) }
}

/// The token of the page that follows this notice.
pub fn token_after(listed: &ListedNotice) -> String {
    listed.notice.notice_id.map(|id| URL_SAFE_NO_PAD.encode(id.0)).unwrap_or_default()
}

fn place_of(token: &str) -> Option<NoticeId> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    Uuid::from_slice(&bytes).ok().map(NoticeId)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(request: proto::ListNoticesRequest) -> Vec<String> {
        let faults = page(request, &Book::default()).unwrap_err();
        faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn every_fault_of_a_page_is_named() {
        let request = proto::ListNoticesRequest {
            job_id: " a".to_owned(),
            deliveries: vec![1, 0, 99],
            kinds: vec![77],
            recipient: "a\0".to_owned(),
            page_size: -1,
            page_token: "x".to_owned(),
        };
        let expected = [
            "job_id",
            "recipient",
            "deliveries[1]",
            "deliveries[2]",
            "kinds[0]",
            "page_size",
            "page_token",
        ];
        assert_eq!(fields(request), expected);
        let request = proto::ResendNoticeRequest { notice_id: "7".to_owned() };
        assert_eq!(notice_id(&request).unwrap_err()[0].field, "notice_id");
    }

    #[test]
    fn kinds_are_looked_for_among_bounded_notices_only() {
        let kinds = vec![proto::NoticeKind::Failed.into()];
        let alone = proto::ListNoticesRequest { kinds, ..Default::default() };
        assert_eq!(fields(alone.clone()), ["kinds"]);
        let deliveries = vec![proto::Delivery::Failed.into()];
        for with in [
            proto::ListNoticesRequest { job_id: "a".to_owned(), ..alone.clone() },
            proto::ListNoticesRequest { recipient: "ana".to_owned(), ..alone.clone() },
            proto::ListNoticesRequest { deliveries, ..alone },
        ] {
            assert!(page(with, &Book::default()).is_ok());
        }
    }

    #[test]
    fn a_page_token_stands_for_its_place() {
        let before = NoticeId::new();
        let page_token = URL_SAFE_NO_PAD.encode(before.0);
        let request = proto::ListNoticesRequest { page_token, ..Default::default() };
        let page = page(request, &Book::default()).unwrap();
        assert_eq!((page.before, page.size), (Some(before), 50));
    }
}
