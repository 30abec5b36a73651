//! Requests for lists: which jobs, which page, and how many there are.
//!
//! In comes a selector or a page's request, out goes what the store is asked, or every fault with its field.
//! A page's token is good for the list it came from, and for no other.

use super::submission::text;
use super::{moment, timestamp, word};
use crate::domain::validate::bound::{PAGE_SIZE, PAGE_SIZE_MAX, WORDS_MAX};
use crate::domain::validate::{Faults, Violation, check_labels};
use crate::rpc::proto;
use crate::store::count::Counts;
use crate::store::list::{Cursor, Selector};

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// Which jobs.
    pub selector: Selector,
    /// After which place.
    pub after: Option<Cursor>,
    /// How many.
    pub size: usize,
    /// Whether to count them by status.
    pub has_counts: bool,
}

/// Which page a `ListJobs` asks for.
pub fn page(request: proto::ListJobsRequest) -> Result<Page, Vec<Violation>> {
    let mut faults = Faults::default();
    let selector = selector(request.selector.unwrap_or_default(), &mut faults);
    let size = faults.check_page_size(request.page_size, (PAGE_SIZE, PAGE_SIZE_MAX));
    let after = place(request.page_token, &selector, &mut faults);
    if request.include_counts && selector.is_narrow() {
        faults.add("include_counts", "must go with a selector that names statuses alone, or none");
    }
    faults.into_result()?;
    Ok(Page { selector, after, size, has_counts: request.include_counts })
}

/// How many jobs are in each status that the selector names, or in each there is.
pub fn counts(counts: &Counts, selector: &Selector) -> Vec<proto::StatusCount> {
    let all = selector.statuses.is_empty();
    let asked = counts.by_status.iter().filter(|(one, _)| all || selector.statuses.contains(one));
    let count = |&(status, count)| proto::StatusCount {
        status: proto::JobStatus::from(status).into(),
        count,
    };
    asked.map(count).collect()
}

/// Since when deletions may not be in the counts.
pub fn counts_as_of(counts: &Counts) -> prost_types::Timestamp {
    timestamp(counts.as_of)
}

/// The place after which a page begins, in the list of this selector.
pub(super) fn place(token: String, selector: &Selector, faults: &mut Faults) -> Option<Cursor> {
    let parsed = Cursor::parse(&text(token)?, selector);
    parsed.map_err(|why| faults.add("page_token", why)).ok()
}

/// Which jobs are meant.
pub(super) fn selector(sent: proto::JobSelector, faults: &mut Faults) -> Selector {
    let mut statuses = Vec::new();
    let is_short = faults.check_count("selector.statuses", sent.statuses.len(), WORDS_MAX);
    for (at, number) in sent.statuses.into_iter().enumerate().filter(|_| is_short) {
        let field = format!("selector.statuses[{at}]");
        if number == 0 {
            faults.add(&field, "must be a status");
        }
        statuses.extend(word::read::<proto::JobStatus>(&field, number, faults));
    }
    let labels = sent.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    check_labels("selector.labels", labels, faults);
    let created_from = moment("selector.created_from", sent.created_from, faults);
    let created_before = moment("selector.created_before", sent.created_before, faults);
    if created_from.zip(created_before).is_some_and(|(from, before)| from >= before) {
        faults.add("selector.created_before", "must be later than created_from");
    }
    Selector { statuses, labels: sent.labels.into_iter().collect(), created_from, created_before }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn fields(request: proto::ListJobsRequest) -> Vec<String> {
        page(request).unwrap_err().into_iter().map(|fault| fault.field).collect()
    }

    fn by(selector: proto::JobSelector) -> proto::ListJobsRequest {
        proto::ListJobsRequest { selector: Some(selector), ..Default::default() }
    }

    #[test]
    fn a_page_has_a_default_a_limit_and_a_place() {
        let list = |page_size, page_token: &str| {
            let page_token = page_token.to_owned();
            proto::ListJobsRequest { page_size, page_token, ..Default::default() }
        };
        let size = |page_size| page(list(page_size, "")).unwrap().size;
        assert_eq!([size(0), size(7), size(200), size(i32::MAX)], [50, 7, 200, 200]);
        assert_eq!(fields(list(-1, "?")), ["page_size", "page_token"]);
    }

    #[test]
    fn a_selector_names_statuses_that_exist() {
        let statuses = vec![proto::JobStatus::Paused.into(), 0, 99];
        let selector = proto::JobSelector { statuses, ..proto::JobSelector::default() };
        assert_eq!(fields(by(selector)), ["selector.statuses[1]", "selector.statuses[2]"]);
    }

    #[test]
    fn a_span_begins_before_it_ends() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let span = |created_from, created_before| {
            by(proto::JobSelector { created_from, created_before, ..Default::default() })
        };
        assert!(page(span(at(1), at(2))).is_ok() && page(span(None, at(2))).is_ok());
        assert_eq!(fields(span(at(2), at(2))), ["selector.created_before"]);
        assert_eq!(fields(span(at(i64::MAX), None)), ["selector.created_from"]);
    }

    #[test]
    fn only_whole_statuses_are_counted() {
        let counted = |selector| proto::ListJobsRequest { include_counts: true, ..by(selector) };
        let statuses = vec![proto::JobStatus::Failed.into()];
        let of_statuses = proto::JobSelector { statuses, ..proto::JobSelector::default() };
        assert!(page(counted(of_statuses)).unwrap().has_counts);
        let labels = [("team".to_owned(), "a".to_owned())].into();
        let of_labels = proto::JobSelector { labels, ..proto::JobSelector::default() };
        assert_eq!(fields(counted(of_labels)), ["include_counts"]);
    }
}
