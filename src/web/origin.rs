//! Origins: whether a request that acts was sent by our own page, as far as the browser tells.
//!
//! Programs tell nothing and are let in, since a key or a token is what gives them the right.
//! What a browser tells about the page of another site is refused, so that no site a person happens to visit
//! can decide, or move the jobs of a server that runs open on their own machine.
//! Such a site may have its own name lead to this machine, so where only this machine is served, a name is
//! believed to be ours only if it is known to be.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::fault::Fault;
use crate::domain::reason::Reason;

/// The host and port of a page; its scheme is left out, since a proxy may end TLS before us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin(String);

impl Origin {
    /// The origin of an absolute address.
    pub(super) fn of_url(url: &Uri) -> Option<Self> {
        url.authority().map(|authority| Self::of_host(authority.as_str()))
    }

    fn of_host(host: &str) -> Self {
        let host = host.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
        let bare = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80"));
        Self(bare.unwrap_or(&host).to_owned())
    }
}

/// Whether an absolute address leads to the machine it is opened on, and so no other machine here.
pub fn is_loopback_url(url: &str) -> bool {
    let url = url.trim().parse::<Uri>().ok();
    url.as_ref().and_then(Origin::of_url).is_some_and(|origin| origin.is_loopback())
}

impl Origin {
    /// Whether only this machine can have served the page.
    fn is_loopback(&self) -> bool {
        let host = match self.0.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            Some(_) | None => &self.0,
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_local = bare == "localhost" || bare.ends_with(".localhost");
        is_local || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

/// Where our own page is served from.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    /// The origin of the public URL.
    pub(super) public: Option<Origin>,
    /// Whether the sidecar listens to this machine alone.
    pub(super) is_on_loopback: bool,
    /// Whose pages may send as if they were ours, as browsers write an origin.
    pub(super) shared: Arc<[HeaderValue]>,
}

/// Refuses what the page of another site sends, unless it only looks.
pub(super) async fn refuse_others(
    State(ours): State<Arc<Ours>>,
    request: Request,
    next: Next,
) -> Response {
    let only_looks = matches!(*request.method(), Method::GET | Method::HEAD);
    if only_looks || is_ours(request.headers(), request.uri(), &ours) {
        return next.run(request).await;
    }
    Fault::new(Reason::Forbidden, "the request was sent by the page of another website")
        .into_response()
}

/// Whether the request may be taken for one of our own page.
fn is_ours(headers: &HeaderMap, uri: &Uri, ours: &Ours) -> bool {
    if headers.get(header::ORIGIN).is_some_and(|sent| ours.shared.contains(sent)) {
        return true;
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let sent = text(header::ORIGIN);
    let page =
        sent.and_then(|sent| sent.parse::<Uri>().ok()).filter(|page| page.scheme().is_some());
    if let Some(page) = page.as_ref().and_then(Origin::of_url) {
        let asked = text(header::HOST).map(Origin::of_host).or_else(|| Origin::of_url(uri));
        let is_known = !ours.is_on_loopback || page.is_loopback();
        if ours.public.as_ref() == Some(&page) || (is_known && asked.as_ref() == Some(&page)) {
            return true;
        }
    }
    match text(HeaderName::from_static("sec-fetch-site")) {
        // The browser compared the addresses itself, and sees through any proxy.
        Some(site) => site == "same-origin" || site == "none",
        None => sent.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(lines: &[(&'static str, &'static str)]) -> bool {
        judge_on(false, lines)
    }

    fn judge_on(is_on_loopback: bool, lines: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, value.parse().unwrap());
        }
        let public = Origin::of_url(&"https://Jobs.example:443/longhaul".parse().unwrap());
        let shared = [HeaderValue::from_static("https://app.example")].into();
        let ours = Ours { public, is_on_loopback, shared };
        is_ours(&headers, &"/approvals/x".parse().unwrap(), &ours)
    }

    #[test]
    fn on_a_loopback_address_a_name_that_leads_here_is_not_ours_for_that() {
        for lines in [
            &[("host", "rebound.example:8080")][..],
            &[("origin", "http://localhost:8080"), ("host", "localhost:8080")],
            &[("origin", "http://127.0.0.1:8080"), ("host", "127.0.0.1:8080")],
            &[("origin", "http://[::1]:8080"), ("host", "[::1]:8080")],
            &[("origin", "http://[::1]"), ("host", "[::1]")],
            &[("origin", "https://jobs.example"), ("host", "127.0.0.1:8080")],
            &[("origin", "https://own.example"), ("host", "x"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(judge_on(true, lines), "{lines:?}");
        }
        for lines in [
            &[("origin", "http://rebound.example:8080"), ("host", "rebound.example:8080")],
            &[("origin", "http://127.0.0.1.example"), ("host", "127.0.0.1.example")],
            &[("origin", "http://localhost:3000"), ("host", "localhost:8080")],
        ] {
            assert!(!judge_on(true, lines), "{lines:?}");
        }
    }

    #[test]
    fn our_own_page_may_post() {
        for lines in [
            &[][..],
            &[("host", "10.0.0.1:8080")],
            &[("origin", "https://jobs.example")],
            &[("origin", "http://10.0.0.1:8080"), ("host", "10.0.0.1:8080")],
            &[("origin", "https://a.example"), ("host", "A.example:443")],
            &[("origin", "null"), ("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://proxied.example"), ("sec-fetch-site", "same-origin")],
            &[("origin", "https://app.example"), ("sec-fetch-site", "cross-site")],
        ] {
            assert!(judge(lines), "{lines:?}");
        }
    }

    #[test]
    fn the_page_of_another_site_may_not() {
        for lines in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "http://app.example")],
            &[("origin", "https://app.example:8443")],
            &[("origin", "https://evil.example"), ("host", "jobs.example")],
            &[("origin", "null")],
            &[("origin", "null"), ("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site"), ("origin", "https://x.jobs.example")],
            &[("origin", "https://jobs.example.evil.example")],
            &[("origin", "jobs.example")],
            &[("origin", "https://evil.example:443@jobs.evil")],
        ] {
            assert!(!judge(lines), "{lines:?}");
        }
    }
}
