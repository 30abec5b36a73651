//! Pages: what is shown of a linked approval, in words of a language, put into the templates.
//!
//! In comes the approval as the store read it, out goes a whole HTML document.
//! Text of people and models is escaped by the templates and cleaned before; only `draft` makes HTML of it.

use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use sha2::{Digest as _, Sha256};

use super::draft::{self, Draft, plain};
use super::source::{self, Source};
use crate::domain::approval::{ApprovalStatus, Door, Verdict, mask};
use crate::domain::event::Decision;
use crate::domain::language::local;
use crate::domain::spec::Work;
use crate::store::approval::LinkedApproval;
use crate::web::fault::Fault;
use crate::web::language::Language;

const STYLE: &str = include_str!("../../../templates/approval/style.css");

/// The longest comment that the field takes, in UTF-16 units: in any script it stays under the limit in bytes.
const COMMENT_LENGTH_MAX: usize = 1300;

/// Nothing is loaded from anywhere, and the only style is the one inside the page.
pub(super) fn content_security_policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'"
    )
}

/// Who reads a page: in which language, and where.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub(super) say: &'static Language,
    pub(super) time_zone: Tz,
}

impl Reader {
    fn moment(self, at: DateTime<Utc>) -> String {
        local(at, self.time_zone, self.say.tag)
    }
}

/// The request while it is open, and its outcome afterwards.
pub(super) fn show(link: &LinkedApproval, reader: Reader) -> Result<Response, Fault> {
    let standing = standing(link);
    if matches!(standing, Standing::Open) {
        answer(StatusCode::OK, &Ask::new(link, reader))
    } else {
        answer(StatusCode::OK, &Outcome::new(link, reader, standing, false))
    }
}

/// The outcome, to somebody whose decision contradicts it.
pub(super) fn refuse(link: &LinkedApproval, reader: Reader) -> Result<Response, Fault> {
    answer(StatusCode::CONFLICT, &Outcome::new(link, reader, standing(link), true))
}

/// What went wrong, without a word about any job.
pub(super) fn fault(code: StatusCode, say: &'static Language) -> Response {
    let (title, text) = match code.as_u16() {
        403 => (say.foreign_title, say.foreign),
        404 => (say.unknown_title, say.unknown),
        413 => (say.malformed_title, say.too_long),
        429 | 503 => (say.busy_title, say.busy),
        500.. => (say.broken_title, say.broken),
        _ => (say.malformed_title, say.malformed),
    };
    let lines = vec![text.to_owned()];
    let page = Outcome { lines, ..Outcome::empty(say, title, "neutral", "") };
    answer(code, &page).unwrap_or_else(|_unrendered| code.into_response())
}

fn answer(code: StatusCode, page: &impl Template) -> Result<Response, Fault> {
    match page.render() {
        Ok(html) => {
            Ok((code, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response())
        }
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            Err(Fault::internal())
        }
    }
}

/// How an approval stands for the approver of one link.
#[derive(Clone, Copy)]
enum Standing {
    Open,
    Voted,
    Decided(Verdict),
    Expired,
    Withdrawn,
    Superseded,
}

fn standing(link: &LinkedApproval) -> Standing {
    let has_voted = link.decisions.iter().any(|vote| vote.voter == link.approver);
    match link.status {
        ApprovalStatus::Pending if link.is_open() && has_voted => Standing::Voted,
        ApprovalStatus::Pending if link.is_open() => Standing::Open,
        // Its time is over, and the sweeper is about to find that.
        ApprovalStatus::Pending | ApprovalStatus::Expired => Standing::Expired,
        ApprovalStatus::Approved => Standing::Decided(Verdict::Approve),
        ApprovalStatus::Rejected => Standing::Decided(Verdict::Reject),
        ApprovalStatus::ChangesRequested => Standing::Decided(Verdict::RequestChanges),
        ApprovalStatus::Withdrawn => Standing::Withdrawn,
        ApprovalStatus::Superseded if link.has_edited => Standing::Voted,
        ApprovalStatus::Superseded => Standing::Superseded,
    }
}

#[derive(Template)]
#[template(path = "approval/ask.html")]
struct Ask {
    say: &'static Language,
    style: &'static str,
    title: String,
    task: String,
    note: String,
    job_id: String,
    draft: Option<Draft>,
    sources: Vec<Source>,
    facts: Vec<Fact>,
    votes: Vec<VoteLine>,
    is_paused: bool,
    approval_id: String,
    comment_length_max: usize,
    /// What can be edited, if anything.
    editable: Option<String>,
    /// Whether it can be sent back, which needs a comment.
    may_send_back: bool,
    buttons: [Button; 2],
}

/// A line of the small print.
struct Fact {
    label: &'static str,
    value: String,
    more: String,
}

/// A vote.
struct VoteLine {
    class: &'static str,
    verdict: &'static str,
    by: String,
    at: String,
    comment: String,
}

struct Button {
    value: &'static str,
    text: &'static str,
    rank: &'static str,
}

impl Ask {
    fn new(link: &LinkedApproval, reader: Reader) -> Self {
        let say = reader.say;
        let (note, options) = match link.spec.find_step(link.step).map(|step| &step.work) {
            Some(Work::Approval(approval)) => {
                (plain(approval.note.trim()), approval.options.clone())
            }
            Some(Work::Run(_) | Work::Wait(_)) | None => Default::default(),
        };
        let approve = |rank| Button { value: "approve", text: say.approve, rank };
        let reject = |rank| Button { value: "reject", text: say.reject, rank };
        let buttons = match link.first {
            Verdict::Reject => [reject("first"), approve("second")],
            Verdict::Approve | Verdict::RequestChanges => [approve("first"), reject("second")],
        };
        let draft = link.draft.as_deref().filter(|draft| !draft.trim().is_empty());
        Self {
            say,
            style: STYLE,
            title: say.page_title.to_owned(),
            task: plain(link.spec.task.trim()),
            note,
            job_id: plain(link.key.job_id()),
            draft: draft.map(draft::render),
            sources: source::list(&link.citations),
            facts: facts(link, reader),
            votes: if link.quorum > 1 { vote_lines(&link.decisions, reader) } else { Vec::new() },
            is_paused: link.is_paused(),
            approval_id: link.approval_id.to_string(),
            comment_length_max: COMMENT_LENGTH_MAX,
            editable: draft.filter(|_| options.allow_edit).map(draft::editable),
            may_send_back: link.revisions < options.max_revisions,
            buttons,
        }
    }
}

fn facts(link: &LinkedApproval, reader: Reader) -> Vec<Fact> {
    let say = reader.say;
    let fact = |label, value: String, more: String| Fact { label, value, more };
    let deadline = match link.state.deadline_at {
        Some(deadline_at) => {
            let left = (say.time_left)(deadline_at - link.now);
            fact(say.deadline, left, reader.moment(deadline_at))
        }
        None => fact(say.deadline, say.deadline_stands_still.to_owned(), String::new()),
    };
    let cost = (say.usd)(&link.cost_usd.to_string());
    let cost = if link.cost_is_partial { (say.at_least)(&cost) } else { cost };
    let step = (say.step_of)(link.step, link.state.step_count);
    let mut facts = vec![
        deadline,
        fact(say.you_decide_as, plain(&mask(&link.approver)), String::new()),
        fact(say.progress, step, String::new()),
        fact(say.cost, cost, String::new()),
    ];
    if link.quorum > 1 {
        let votes = (say.votes_of)(link.state.votes, link.quorum);
        facts.push(fact(say.votes, votes, String::new()));
    }
    facts
}

fn vote_lines(decisions: &[Decision], reader: Reader) -> Vec<VoteLine> {
    let say = reader.say;
    let votes = decisions.iter().map(|vote| {
        let (class, verdict) = match vote.verdict {
            Verdict::Approve if vote.edited => ("approved", say.edited),
            Verdict::Approve => ("approved", say.approved),
            Verdict::Reject => ("rejected", say.rejected),
            Verdict::RequestChanges => ("sent-back", say.sent_back),
        };
        let by = match vote.door {
            Door::Timeout => say.by_deadline.to_owned(),
            Door::Link | Door::Button | Door::Reply | Door::Grpc | Door::Webhook => {
                (say.by)(&plain(&mask(&vote.voter)))
            }
        };
        let at = reader.moment(vote.decided_at);
        VoteLine { class, verdict, by, at, comment: plain(&vote.comment) }
    });
    votes.collect()
}

#[derive(Template)]
#[template(path = "approval/outcome.html")]
struct Outcome {
    say: &'static Language,
    style: &'static str,
    title: String,
    class: &'static str,
    mark: &'static str,
    warning: &'static str,
    lines: Vec<String>,
    votes: Vec<VoteLine>,
    task: String,
    job_id: String,
}

impl Outcome {
    fn new(link: &LinkedApproval, reader: Reader, standing: Standing, contradicts: bool) -> Self {
        let say = reader.say;
        let missing = link.quorum - link.state.votes;
        let (title, class, mark, text) = match standing {
            Standing::Decided(Verdict::Approve) => (say.approved, "approved", "✓", String::new()),
            Standing::Decided(Verdict::Reject) => (say.rejected, "rejected", "✕", String::new()),
            Standing::Decided(Verdict::RequestChanges) => {
                (say.sent_back, "neutral", "↺", say.is_done_again.to_owned())
            }
            Standing::Superseded => {
                (say.superseded_title, "neutral", "", say.superseded.to_owned())
            }
            Standing::Voted => (say.voted_title, "approved", "✓", (say.waiting)(missing)),
            Standing::Expired => (say.expired_title, "neutral", "", say.expired.to_owned()),
            Standing::Withdrawn => (say.withdrawn_title, "neutral", "", say.withdrawn.to_owned()),
            // Reached only by a decision that was refused and then became possible.
            Standing::Open => (say.page_title, "neutral", "", say.malformed.to_owned()),
        };
        let is_kept = link.state.kept_verdict.is_some() && link.step == link.state.current_step;
        let mut lines: Vec<String> = Vec::new();
        lines.extend(Some(text).filter(|text| !text.is_empty()));
        lines.extend(is_kept.then(|| say.paused_decided.to_owned()));
        lines.push(say.safe_to_close.to_owned());
        Self {
            warning: if contradicts { say.contradicted } else { "" },
            lines,
            votes: vote_lines(&link.decisions, reader),
            task: plain(link.spec.task.trim()),
            job_id: plain(link.key.job_id()),
            ..Self::empty(say, title, class, mark)
        }
    }

    fn empty(
        say: &'static Language,
        title: &'static str,
        class: &'static str,
        mark: &'static str,
    ) -> Self {
        Self {
            say,
            style: STYLE,
            title: title.to_owned(),
            class,
            mark,
            warning: "",
            lines: Vec::new(),
            votes: Vec::new(),
            task: String::new(),
            job_id: String::new(),
        }
    }
}
