//! What the gate has to know of the sidecar: which route a request has taken, and how it is refused.

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::{HeaderValue, Request, Response, header};
use axum::response::IntoResponse as _;

use super::fault::Fault;
use crate::domain::word::Word as _;
use crate::door::table::{Need, need_of_route};
use crate::door::{Face, Refusal, Shed};

/// What a browser is told that has shown nothing; the words are those of n8n's own webhooks.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Webhook\"");

/// The sidecar, as the gate sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HttpFace;

impl Face for HttpFace {
    type Body = Body;

    fn need<B>(&self, request: &Request<B>) -> Need {
        let matched = request.extensions().get::<MatchedPath>();
        matched.map_or(Need::Nothing, |matched| need_of_route(matched.as_str()))
    }

    fn refuse(&self, refusal: &Refusal) -> Response<Body> {
        Fault::from(refusal.clone()).into_response()
    }

    fn shed(&self, shed: Shed) -> Response<Body> {
        match shed {
            Shed::RateLimited(wait) => Fault::rate_limited(wait),
            Shed::Overloaded => Fault::overloaded(),
        }
        .into_response()
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::KeyRequired => Self::new(401, "KEY_REQUIRED", "an API key is needed")
                .hint("send it as a bearer token, as x-api-key, or as the password of Basic")
                .challenge(CHALLENGE),
            // As n8n's webhooks answer a credential that is wrong.
            Refusal::KeyInvalid => Self::new(403, "KEY_INVALID", "the API key is not valid")
                .hint("it may have been revoked, or have expired: `longhaul key list` says more")
                .challenge(CHALLENGE),
            Refusal::ScopeRequired(scopes) => {
                let words: Vec<String> = scopes.iter().map(|scope| scope.word()).collect();
                let message = format!("the API key lacks the scope {}", words.join(" or "));
                Self::new(403, "SCOPE_REQUIRED", message)
                    .hint("use a key with that scope: `longhaul key create --scope`")
            }
            Refusal::NotReady => Self::unavailable(),
        }
    }
}

impl Fault {
    fn challenge(self, challenge: HeaderValue) -> Self {
        self.header(header::WWW_AUTHENTICATE, challenge)
    }
}
