//! Answers to a test link: what they say of whoever gave them, and what to do about it.
//!
//! In comes an answer, or none; out go words for an operator, in which no token stands.

use reqwest::header::{CONTENT_SECURITY_POLICY, HeaderMap, LOCATION};
use reqwest::{Response, Url};

use super::super::Report;
use super::super::service::causes;
use crate::web::page_headers;

/// A page of ours is far smaller.
const BODY_BYTES_MAX: usize = 256 << 10;
/// What our sidecar says of a path that it does not know.
const UNKNOWN_PATH: &str = "there is nothing at this path";

/// An answer, as much of it as matters.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Answer {
    pub(super) async fn read(mut response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while body.len() < BODY_BYTES_MAX {
            // One that breaks off leaves what was read to judge by.
            let Ok(Some(chunk)) = response.chunk().await else { break };
            body.extend_from_slice(&chunk);
        }
        Self { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    /// Tells whether the headers of the page have come through.
    pub(super) fn tell_headers(&self, report: &mut Report) {
        let lost: Vec<String> = page_headers()
            .iter()
            .filter_map(|(name, value)| {
                let mut found = self.headers.get_all(name).iter().peekable();
                let what = if found.peek().is_some() { "was changed" } else { "is gone" };
                (!found.any(|one| one == value)).then(|| format!("{name} {what}"))
            })
            .collect();
        if lost.is_empty() {
            return report.ok("headers", "the page's security headers come through");
        }
        let remedy = "have the proxy leave the headers of what is under /approvals/ as they are";
        report.fault("headers", lost.join(", "), remedy);
    }

    /// Whether the approval face of a Longhaul gave it.
    fn is_our_page(&self) -> bool {
        let own = page_headers();
        let policy = own.iter().find(|(name, _)| name == CONTENT_SECURITY_POLICY);
        policy.is_some_and(|(name, value)| self.headers.get_all(name).iter().any(|v| v == value))
    }

    /// What it means that this came instead of the page of the test link.
    pub(super) fn explain(&self, link: &Url) -> (String, &'static str) {
        let status = self.status;
        if (300..400).contains(&status) {
            return self.explain_redirect(link);
        }
        if status == 404 && self.body.contains(UNKNOWN_PATH) {
            let found =
                "a Longhaul answers, and the link came to it under a path that it does not know";
            let remedy = "have the proxy pass the path on whole, or without the path of LONGHAUL_PUBLIC_URL, \
                          and set that to the same for the server as here";
            return (found.to_owned(), remedy);
        }
        if self.is_our_page() {
            return match status {
                404 => (
                    "a Longhaul answers, and does not know the test link".to_owned(),
                    "it uses another database or is an older release: start it with this DATABASE_URL, \
                     or correct LONGHAUL_PUBLIC_URL",
                ),
                429 | 503 => (
                    format!(
                        "a Longhaul answers with status {status}: it is busy, or its database does not answer"
                    ),
                    "see the server's log",
                ),
                _ => (format!("a Longhaul answers with status {status}"), "see the server's log"),
            };
        }
        let found = format!("something else answers there, with status {status}");
        let remedy = match status {
            401 | 403 | 407 => {
                "no login or filter may stand before /approvals/: approvers have nothing but the link"
            }
            502..=504 => {
                "the proxy does not reach the server: check where it passes requests on to"
            }
            _ => {
                "check LONGHAUL_PUBLIC_URL, and that the proxy passes /approvals/ on to the HTTP face of a server"
            }
        };
        (found, remedy)
    }

    fn explain_redirect(&self, link: &Url) -> (String, &'static str) {
        let leads = self.headers.get(LOCATION).and_then(|leads| leads.to_str().ok());
        let Some(leads) = leads.and_then(|leads| link.join(leads).ok()) else {
            let found = format!("the link is answered with status {}", self.status);
            return (found, "have the proxy pass /approvals/ on to the HTTP face of a server");
        };
        let is_upgrade = link.scheme() == "http"
            && leads.scheme() == "https"
            && leads.host_str() == link.host_str();
        let found = format!("the link leads away to {}", leads.origin().ascii_serialization());
        let remedy = if is_upgrade {
            "begin LONGHAUL_PUBLIC_URL with https://, so that no link goes over the wire unencrypted"
        } else {
            "set LONGHAUL_PUBLIC_URL to where it leads, or have the proxy pass /approvals/ on; \
             no login may stand before it"
        };
        (found, remedy)
    }

    /// What it means that this came, and the form did not arrive.
    pub(super) fn explain_form(&self) -> (String, &'static str) {
        let found = format!("the form does not arrive: it is answered with status {}", self.status);
        let remedy = if self.status == 403 && self.is_our_page() {
            "the server takes its page for another website's: set its LONGHAUL_PUBLIC_URL to the same as here"
        } else {
            "have the proxy pass POST under /approvals/ on, with its body and without a login"
        };
        (found, remedy)
    }
}

/// What it means that nothing came.
pub(super) fn none(error: reqwest::Error) -> (String, &'static str) {
    let is_silent = error.is_timeout();
    let words = causes(&error.without_url());
    let remedy = if words.contains("certificate") || words.contains("Certificate") {
        "the certificate must be valid for this name, known to phones, and sent with its whole chain"
    } else if words.contains("dns") || words.contains("lookup") {
        "the name does not lead anywhere: check LONGHAUL_PUBLIC_URL and the DNS"
    } else if is_silent {
        "a firewall or the proxy swallows requests: check that the port is open"
    } else {
        "nothing listens there: check LONGHAUL_PUBLIC_URL, and that the proxy and the server run"
    };
    (format!("no answer: {words}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Answer { status, headers: headers.collect(), body: body.to_owned() }
    }

    #[test]
    fn each_stranger_at_the_door_is_told_apart() {
        let policy = page_headers()[0].1.to_str().unwrap().to_owned();
        let ours = [("content-security-policy", policy.as_str())];
        let elsewhere = [("location", "https://login.example/?next=/approvals/probe-SECRET")];
        let upgrade = [("location", "https://jobs.example/approvals/probe-SECRET")];
        let link: Url = "http://jobs.example/approvals/probe-SECRET".parse().unwrap();
        for (answer, words) in [
            (answer(404, &ours, ""), "another database"),
            (answer(503, &ours, ""), "log"),
            (answer(404, &[], r#"{"message":"there is nothing at this path"}"#), "path on whole"),
            (answer(302, &elsewhere, ""), "https://login.example "),
            (answer(301, &upgrade, ""), "begin LONGHAUL_PUBLIC_URL with https://"),
            (answer(308, &[], ""), "pass /approvals/ on"),
            (answer(401, &[], ""), "no login"),
            (answer(502, &[], ""), "does not reach the server"),
            (answer(200, &[], "<html>It works!"), "something else answers"),
        ] {
            let (found, remedy) = answer.explain(&link);
            let told = format!("{found} → {remedy}");
            assert!(told.contains(words), "{words}: {told}");
            assert!(!told.contains("SECRET"), "{told}");
        }
        assert!(answer(403, &ours, "").explain_form().1.contains("another website"));
        assert!(answer(403, &[], "").explain_form().1.contains("pass POST"));
    }

    #[test]
    fn a_header_that_is_gone_or_changed_is_named() {
        let mut report = Report::default();
        let own = page_headers();
        let mut headers: HeaderMap = own.iter().cloned().collect();
        answer_with(headers.clone()).tell_headers(&mut report);
        headers.remove("x-robots-tag");
        headers.insert("cache-control", "public, max-age=60".parse().unwrap());
        answer_with(headers).tell_headers(&mut report);
        assert_eq!(report.0[0].outcome, super::super::super::Outcome::Ok);
        assert_eq!(report.0[1].found, "cache-control was changed, x-robots-tag is gone");
    }

    fn answer_with(headers: HeaderMap) -> Answer {
        Answer { status: 200, headers, body: String::new() }
    }
}
