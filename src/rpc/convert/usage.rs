//! A report on usage: which calls a request asks for, and what they came to.
//!
//! In comes a `GetUsageRequest`, out goes a query, or every fault with its field; then rows become messages.

use super::job::usage;
use super::list::selector;
use super::submission::text;
use super::{moment, timestamp, word};
use crate::domain::validate::bound::{LABEL_KEY_BYTES_MAX, PAGE_SIZE, USAGE_PAGE_SIZE_MAX};
use crate::domain::validate::{Faults, Violation};
use crate::rpc::proto;
use crate::store::usage::{Grouping, Place, UsageLine, UsageQuery, UsageReport};

/// What a `GetUsage` asks for.
pub fn query(request: proto::GetUsageRequest) -> Result<UsageQuery, Vec<Violation>> {
    let mut faults = Faults::default();
    let from_at = moment("from_at", request.from_at, &mut faults);
    let before_at = moment("before_at", request.before_at, &mut faults);
    if from_at.zip(before_at).is_some_and(|(from, before)| from >= before) {
        faults.add("before_at", "must be later than from_at");
    }
    let group_by = word::read::<proto::UsageGrouping>("group_by", request.group_by, &mut faults);
    let group_by = group_by.unwrap_or(Grouping::None);
    match (group_by, request.label_key.is_empty()) {
        (Grouping::Label, true) => faults.add("label_key", "must say which label"),
        (Grouping::Label, false) => {
            faults.check_line("label_key", &request.label_key, LABEL_KEY_BYTES_MAX);
        }
        (Grouping::Day | Grouping::Model | Grouping::Job | Grouping::None, false) => {
            faults.add("label_key", "says nothing without USAGE_GROUPING_LABEL");
        }
        (Grouping::Day | Grouping::Model | Grouping::Job | Grouping::None, true) => {}
    }
    let selector = selector(request.selector.unwrap_or_default(), &mut faults);
    let size = faults.check_page_size(request.page_size, (PAGE_SIZE, USAGE_PAGE_SIZE_MAX));
    let after = text(request.page_token).and_then(|token| {
        let place = Place::parse(&token, group_by);
        if place.is_none() {
            faults.add("page_token", "must be the next_page_token of the page before");
        }
        place
    });
    faults.into_result()?;
    let limit = i64::try_from(size).expect("a page is small");
    let label_key = request.label_key;
    Ok(UsageQuery { from_at, before_at, group_by, label_key, selector, after, limit })
}

/// The page that was asked for; where the report has one row more, there is a next page.
pub fn page(report: &UsageReport, query: &UsageQuery) -> proto::GetUsageResponse {
    let size = usize::try_from(query.limit).expect("a page has at least one row");
    let shown = &report.rows[..report.rows.len().min(size)];
    let last = shown.last().filter(|_| report.rows.len() > size);
    let next_page_token = last.map(|line| report.place_of(line).token()).unwrap_or_default();
    proto::GetUsageResponse {
        rows: shown.iter().map(row).collect(),
        total: Some(row(&report.total)),
        from_at: Some(timestamp(report.from_at)),
        before_at: Some(timestamp(report.before_at)),
        next_page_token,
    }
}

fn row(line: &UsageLine) -> proto::UsageRow {
    proto::UsageRow {
        key: line.key.clone(),
        usage: Some(usage(&line.spent.usage, line.spent.calls)),
        cost_usd: line.spent.cost_usd.to_string(),
        unpriced_calls: line.spent.unpriced_calls,
        lost_calls: line.lost_calls,
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn fields(request: proto::GetUsageRequest) -> Vec<String> {
        query(request).unwrap_err().into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn a_request_that_says_nothing_asks_for_everything_together() {
        let query = query(proto::GetUsageRequest::default()).unwrap();
        assert_eq!((query.group_by, query.limit, query.after), (Grouping::None, 50, None));
        assert_eq!((query.from_at, query.before_at), (None, None));
    }

    #[test]
    fn each_fault_names_its_field() {
        let plain = proto::GetUsageRequest::default();
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let by = |group_by: proto::UsageGrouping| proto::GetUsageRequest {
            group_by: group_by.into(),
            ..plain.clone()
        };
        let (from_at, before_at) = (at(20), at(20));
        let span = proto::GetUsageRequest { from_at, before_at, ..plain.clone() };
        assert_eq!(fields(span), ["before_at"]);
        let never = proto::GetUsageRequest { from_at: at(i64::MAX), ..plain.clone() };
        assert_eq!(fields(never), ["from_at"]);
        assert_eq!(fields(by(proto::UsageGrouping::Label)), ["label_key"]);
        let unused = proto::GetUsageRequest { label_key: "team".to_owned(), ..plain.clone() };
        assert_eq!(fields(unused), ["label_key"]);
        let unknown = proto::GetUsageRequest { group_by: 99, page_size: -1, ..plain.clone() };
        assert_eq!(fields(unknown), ["group_by", "page_size"]);
        let page_token = "not ours".to_owned();
        assert_eq!(fields(proto::GetUsageRequest { page_token, ..plain }), ["page_token"]);
    }
}
