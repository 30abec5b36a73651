//! The approval page: what opens behind the link in a message, for a person with nothing but a phone.
//!
//! GET and HEAD show the request or its outcome and change nothing, since previews and scanners fetch links too.
//! POST decides, once, as the approver to whom the link was sent, and leads back to the same address.
//! Every answer carries the page's headers, and errors are pages as well.
//! The token is a secret: it is never logged, and a token that opens nothing learns nothing.

mod draft;

mod page;

mod source;

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use chrono_tz::Tz;
use serde::Deserialize;

use self::page::Reader;
use super::body;
use super::fault::Fault;
use super::language;
use super::probe;
use crate::domain::approval::{Door, Token, Verdict};
use crate::domain::book::Book;
use crate::domain::reason::Reason;
use crate::domain::state::Refusal;
use crate::domain::validate::{COMMENT_BYTES_MAX, Faults, check_edited};
use crate::domain::word::Word as _;
use crate::engine::Engine;
use crate::store::StoreError;
use crate::store::approval::{LinkedApproval, Vote};

/// The largest form that is read: the longest comment and the longest edit with every byte percent-encoded, and then some.
pub(super) const FORM_BYTES_MAX: usize = (3 << 20) + (32 << 10);

/// The token in a path, if the path is text at all.
type TokenPath = Result<Path<String>, PathRejection>;

/// What is known of the people who open links.
#[derive(Clone)]
pub(super) struct People {
    pub(super) book: Arc<Book>,
    /// Where they are of whom the book does not say it.
    pub(super) time_zone: Tz,
}

/// What the page sends.
#[derive(Deserialize)]
struct Form {
    verdict: String,
    approval_id: String,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    edited_output: Option<String>,
}

/// Shows the request, or what became of it.
pub(super) async fn show(
    State(engine): State<Engine>,
    Extension(people): Extension<People>,
    path: TokenPath,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    if let Some(probe) = probe::find(&path) {
        return probe::show(&engine, &probe).await;
    }
    let link = open(&engine, &token(path)?).await?;
    page::show(&link, people.reader(&link, &headers))
}

/// Answers a link that somebody added to, or cut its token off.
pub(super) async fn mangled() -> Fault {
    unknown()
}

/// Takes the decision of the link's approver; what is sent to an address that opens nothing is not read.
pub(super) async fn decide(
    State(engine): State<Engine>,
    Extension(people): Extension<People>,
    path: TokenPath,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Fault> {
    if let Some(probe) = probe::find(&path) {
        return probe::take(&engine, &probe, request).await;
    }
    let token = token(path)?;
    let link = open(&engine, &token).await?;
    let body = body::receive_raw(request).await?;
    let vote = read_vote(&body, &token, &link)?;
    match engine.decide(&link.key, vote).await {
        // The same decision again is as good as the first.
        Ok(()) => Ok(lead_back(&token)),
        Err(StoreError::Refused(
            Refusal::ApprovalClosed { .. }
            | Refusal::AlreadyVoted { .. }
            | Refusal::ChangesNotAllowed { .. }
            | Refusal::EditNotAllowed
            | Refusal::Conflict { .. },
        )) => {
            let link = open(&engine, &token).await?;
            page::refuse(&link, people.reader(&link, &headers))
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts the page's headers on whatever is answered, and makes a page of a fault.
pub(super) async fn dress(request: Request, next: Next) -> Response {
    let say = language::choose(None, find_accepted(request.headers()));
    let answered = next.run(request).await;
    let mut response = match answered.extensions().get::<Fault>() {
        Some(fault) => {
            let mut response = page::fault(fault.code, say);
            for name in [header::ALLOW, header::RETRY_AFTER] {
                if let Some(value) = answered.headers().get(&name) {
                    response.headers_mut().insert(name, value.clone());
                }
            }
            response
        }
        None => answered,
    };
    response.headers_mut().extend(headers());
    response
}

/// The headers of every answer of the page, whatever it is.
pub fn headers() -> [(HeaderName, HeaderValue); 6] {
    let policy = HeaderValue::from_str(&page::content_security_policy());
    let policy = policy.expect("a policy is made of base64 and plain words");
    let plain = HeaderValue::from_static;
    [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, plain("no-store")),
        // Under `no-referrer` the form itself would come from nowhere.
        (header::REFERRER_POLICY, plain("same-origin")),
        (HeaderName::from_static("x-robots-tag"), plain("noindex, nofollow")),
        (header::X_CONTENT_TYPE_OPTIONS, plain("nosniff")),
        (header::X_FRAME_OPTIONS, plain("DENY")),
    ]
}

fn token(path: TokenPath) -> Result<Token, Fault> {
    path.ok().and_then(|Path(token)| Token::parse(&token)).ok_or_else(unknown)
}

async fn open(engine: &Engine, token: &Token) -> Result<LinkedApproval, Fault> {
    match engine.store().find_linked_approval(token).await {
        Ok(found) => found.ok_or_else(unknown),
        // While an installation is brought up to date, the next try may well meet a server of the newer release.
        Err(StoreError::SpecVersionUnknown { .. }) => Err(Fault::unavailable()),
        Err(error) => Err(error.into()),
    }
}

fn unknown() -> Fault {
    Fault::new(Reason::NotFound, "this link opens nothing")
}

fn read_vote(body: &Bytes, token: &Token, link: &LinkedApproval) -> Result<Vote, Fault> {
    let form: Form = serde_urlencoded::from_bytes(body)
        .map_err(|_unread| Fault::malformed("the form could not be read"))?;
    let verdict = Verdict::find_by_word(&form.verdict)
        .ok_or_else(|| Fault::malformed("the form has no verdict that is known"))?;
    if form.approval_id != link.approval_id.to_string() {
        return Err(Fault::malformed("the form belongs to another approval"));
    }
    // Browsers send line ends as two characters.
    let comment = form.comment.replace("\r\n", "\n").trim().to_owned();
    if comment.contains('\0') {
        return Err(Fault::malformed("the comment has a NUL character"));
    }
    if comment.len() > COMMENT_BYTES_MAX {
        let fault = Fault::malformed("the comment is too long");
        return Err(fault.code(StatusCode::PAYLOAD_TOO_LARGE));
    }
    if verdict == Verdict::RequestChanges && comment.is_empty() {
        return Err(Fault::malformed("the form does not say what is to be changed"));
    }
    let edited_output =
        form.edited_output.filter(|_| verdict == Verdict::Approve).and_then(|edited| {
            let edited = edited.replace("\r\n", "\n");
            // What was only looked at is no edit.
            let shown = link.draft.as_deref().map(draft::editable).unwrap_or_default();
            (edited.trim() != shown.trim()).then_some(edited)
        });
    let mut faults = Faults::default();
    if let Some(edited) = &edited_output {
        check_edited("edited_output", edited, &mut faults);
    }
    faults.into_result().map_err(Fault::invalid)?;
    let (approval_id, voter) = (Some(link.approval_id), link.approver.clone());
    let via = Some(token.fingerprint());
    Ok(Vote { approval_id, verdict, voter, door: Door::Link, comment, via, edited_output })
}

/// Leads to the address that was posted to; a relative one is right behind any proxy.
fn lead_back(token: &Token) -> Response {
    let mut address = HeaderValue::from_str(&format!("./{}", token.reveal()))
        .expect("a token is made of letters, digits, `-` and `_`");
    address.set_sensitive(true);
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}

impl People {
    /// What is known of whoever opens a link.
    fn reader(&self, link: &LinkedApproval, headers: &HeaderMap) -> Reader {
        let person = self.book.find(&link.approver).map(|(_, person)| person);
        let of_person = person.and_then(|person| person.language.as_deref());
        let known = of_person.into_iter().chain(link.spec.language.as_deref());
        Reader {
            say: language::choose(known, find_accepted(headers)),
            time_zone: person.and_then(|person| person.time_zone).unwrap_or(self.time_zone),
        }
    }
}

fn find_accepted(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok())
}
