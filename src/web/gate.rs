//! What the gate has to know of the sidecar: which route a request has taken, and how it is refused.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::{HeaderValue, Request, Response, header};
use axum::middleware::Next;
use axum::response::IntoResponse as _;

use super::fault::Fault;
use crate::domain::reason::Reason;
use crate::domain::word::Word as _;
use crate::door::table::{Need, need_of_route};
use crate::door::{Face, Refusal, Shed};

/// What a browser is told that has shown nothing; the words are those of n8n's own webhooks.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Webhook\"");

/// What parameters are called that would hold a key; a query is written into logs, histories and proxies.
const KEY_PARAMETERS: [&str; 10] = [
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "key",
    "password",
    "token",
    "x-api-key",
];

/// The sidecar, as the gate sees it.
#[derive(Clone, Debug)]
pub(super) struct HttpFace {
    /// Where n8n had its webhooks, and they are here as well.
    pub(super) webhook_prefix: Arc<str>,
}

impl HttpFace {
    fn need_of(&self, matched: &str) -> Need {
        // Under another prefix, they are the same webhooks.
        let parent =
            matched.rsplit_once('/').map(|(parent, name)| (parent.trim_matches('/'), name));
        match parent {
            Some((parent, name @ ("durable-job" | "durable-job-control")))
                if parent == &*self.webhook_prefix
                    || parent.ends_with(&format!("/{}", self.webhook_prefix)) =>
            {
                need_of_route(&format!("/webhook/{name}"))
            }
            Some(_) | None => need_of_route(matched),
        }
    }
}

/// Refuses a request whose address holds what must be a key, before anything else is looked at.
pub(super) async fn refuse_key_in_address(request: Request<Body>, next: Next) -> Response<Body> {
    let matched = request.extensions().get::<MatchedPath>();
    let is_guarded =
        matched.is_some_and(|matched| need_of_route(matched.as_str()) != Need::Nothing);
    if is_guarded && shows_key(request.uri().query().unwrap_or_default()) {
        return Fault::new(Reason::KeyRequired, "a key is never taken from an address")
            .hint("send it as a header (in n8n: Bearer, Basic or Header Auth, not Query Auth), and revoke it if it was one: addresses are logged")
            .challenge(CHALLENGE)
            .into_response();
    }
    next.run(request).await
}

fn shows_key(query: &str) -> bool {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
    pairs.iter().any(|(name, text)| {
        text.trim_start().starts_with("lh_")
            || KEY_PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(name))
    })
}

impl Face for HttpFace {
    type Body = Body;

    fn need<B>(&self, request: &Request<B>) -> Need {
        let matched = request.extensions().get::<MatchedPath>();
        matched.map_or(Need::Nothing, |matched| self.need_of(matched.as_str()))
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
            Refusal::KeyRequired => Self::new(Reason::KeyRequired, "an API key is needed")
                .hint("send it as a bearer token, as x-api-key, or as the password of Basic")
                .challenge(CHALLENGE),
            Refusal::KeyInvalid => Self::new(Reason::KeyInvalid, "the API key is not valid")
                .hint("it may have been revoked, or have expired: `longhaul key list` says more")
                .challenge(CHALLENGE),
            Refusal::ScopeRequired(scopes) => {
                let words: Vec<String> = scopes.iter().map(|scope| scope.word()).collect();
                let message = format!("the API key lacks the scope {}", words.join(" or "));
                Self::new(Reason::ScopeRequired, message)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_another_prefix_they_need_what_they_need() {
        let face = HttpFace { webhook_prefix: "flows/in".into() };
        for name in ["durable-job", "durable-job-control"] {
            let usual = need_of_route(&format!("/webhook/{name}"));
            assert_ne!(usual, need_of_route("/unknown"));
            for path in ["/webhook", "/flows/in", "/base/flows/in", "/base/webhook"] {
                assert_eq!(face.need_of(&format!("{path}/{name}")), usual, "{path}");
            }
            for path in ["/in", "/other/in", "/overflows/in"] {
                assert_eq!(face.need_of(&format!("{path}/{name}")), need_of_route("/unknown"));
            }
        }
    }

    #[test]
    fn a_key_in_an_address_is_seen() {
        for query in ["key=x", "wait=1&API_KEY=y", "x=lh_abc", "token", "a=%20lh_x", "%74oken=1"] {
            assert!(shows_key(query), "{query}");
        }
        for query in ["", "wait=5", "lenient=1", "hub.verify_token=x"] {
            assert!(!shows_key(query), "{query}");
        }
    }
}
