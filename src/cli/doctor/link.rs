//! The public URL, proven by a test link: left in the database, opened, looked at and posted to as a phone would.
//!
//! In comes the URL from which the links of messages are made; out go lines of the checklist.
//! Whatever stands between a phone and the server is on the way: names, certificates, proxies and what they rewrite.
//! No token is ever told, and the test link is taken away again.

mod answer;

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, LOCATION, ORIGIN};
use reqwest::{Client, Method, Url};

use self::answer::Answer;
use super::Report;
use super::service::causes;
use crate::domain::probe::{ProbeToken, random_word, shown};
use crate::store::Store;

const CHECK: &str = "public url";
const FORM: &str = "form";
const LONGEST_ANSWER: Duration = Duration::from_secs(15);
/// An edited draft may be as long as this and longer; many proxies take no more than 1 MiB unless they are told to.
const LARGE_FORM_BYTES: usize = 2 << 20;

/// A test link that is in the database.
struct Visit<'v> {
    store: &'v Store,
    client: Client,
    base: Url,
    token: ProbeToken,
    proof: String,
}

/// Proves that links which begin with this URL lead to a server on this database, through everything on the way.
pub(super) async fn check(
    store: &Store,
    public_url: &str,
    is_configured: bool,
    report: &mut Report,
) {
    let Ok(base) = Url::parse(public_url) else {
        return report.fault(CHECK, "it is no address", "write LONGHAUL_PUBLIC_URL as https://…");
    };
    tell_address(&base, is_configured, report).await;
    let client = match client(&base) {
        Ok(client) => client,
        Err(error) => {
            let remedy = "install the machine's ca-certificates";
            return report.fault(CHECK, causes(&error), remedy);
        }
    };
    let (token, proof) = (ProbeToken::mint(&mut rand::rng()), random_word(&mut rand::rng()));
    if let Err(error) = store.leave_probe(&token, &proof).await {
        let remedy = "let the login of DATABASE_URL write into longhaul.link_probe";
        return report.fault(CHECK, causes(&error), remedy);
    }
    let visit = Visit { store, client, base, token, proof };
    Box::pin(visit.make(report)).await;
    if let Err(error) = store.remove_probe(&visit.token).await {
        let remedy = "nothing: it opens no job, and ends by itself after ten minutes";
        report.warning(CHECK, format!("the test link is still there: {}", causes(&error)), remedy);
    }
}

/// A client that goes where it is told, and nowhere else.
pub(super) fn client(base: &Url) -> reqwest::Result<Client> {
    let builder = Client::builder()
        .user_agent(concat!("Mozilla/5.0 (Mobile) longhaul-doctor/", env!("CARGO_PKG_VERSION")))
        .timeout(LONGEST_ANSWER)
        .redirect(reqwest::redirect::Policy::none());
    // A proxy of the environment leads out of the machine and would look for itself here.
    let is_local = literal(base).is_some_and(|address| address.is_loopback())
        || base.host_str() == Some("localhost");
    if is_local { builder.no_proxy() } else { builder }.build()
}

/// Warns of an address that a phone cannot open, or that shows its links to others.
async fn tell_address(base: &Url, is_configured: bool, report: &mut Report) {
    const CHECK: &str = "address";
    let shown = base.origin().ascii_serialization();
    let remedy =
        "set LONGHAUL_PUBLIC_URL to the https address under which phones reach the approval page";
    if !is_configured {
        let found = format!("LONGHAUL_PUBLIC_URL is not set, so links begin with {shown}");
        return report.warning(CHECK, found, remedy);
    }
    let addresses = addresses(base).await;
    let all = |is: fn(IpAddr) -> bool| {
        !addresses.is_empty() && addresses.iter().all(|address| is(address.to_canonical()))
    };
    if all(|address| address.is_loopback() || address.is_unspecified()) {
        let found = format!("{shown} leads to this machine, and on a phone to the phone itself");
        report.warning(CHECK, found, remedy);
    } else if all(is_private) {
        let found = format!("{shown} is a private address, which phones elsewhere cannot open");
        report.warning(CHECK, found, remedy);
    } else if base.scheme() == "http" {
        let found = format!("{shown} is not encrypted: whoever sees a link on its way can decide");
        report.warning(CHECK, found, "have the proxy speak https, and write it so");
    } else {
        report.ok(CHECK, format!("links begin with {shown}{}", base.path().trim_end_matches('/')));
    }
}

fn literal(base: &Url) -> Option<IpAddr> {
    base.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Where a name leads, as far as this machine can tell.
async fn addresses(base: &Url) -> Vec<IpAddr> {
    if let Some(address) = literal(base) {
        return vec![address];
    }
    let (Some(host), Some(port)) = (base.host_str(), base.port_or_known_default()) else {
        return Vec::new();
    };
    let found = tokio::net::lookup_host((host, port)).await;
    found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            // The last is what carriers share among their customers.
            v4.is_private() || v4.is_link_local() || first == 100 && (64..128).contains(&second)
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

impl Visit<'_> {
    async fn make(&self, report: &mut Report) {
        let looked = self.send(Method::GET, &self.link(), None).await;
        match looked {
            Ok(answer) if self.shows(&answer, false) => {
                report.ok(CHECK, "a test link opens its page");
                answer.tell_headers(report);
            }
            Ok(answer) => return self.tell_stranger(&answer, report).await,
            Err(error) => {
                let (found, remedy) = answer::none(error);
                return report.fault(CHECK, found, remedy);
            }
        }
        match self.send(Method::HEAD, &self.link(), None).await {
            Ok(answer) if answer.status == 200 => {}
            Ok(answer) => {
                let found = format!("HEAD is answered with status {}", answer.status);
                report.warning(CHECK, found, "have the proxy pass HEAD on, as previews send it");
            }
            Err(error) => {
                report.warning(CHECK, answer::none(error).0, "have the proxy pass HEAD on");
            }
        }
        if self.post(report).await {
            self.post_much(report).await;
        }
    }

    fn link(&self) -> Url {
        self.link_under(self.base.path())
    }

    fn link_under(&self, path: &str) -> Url {
        let mut link = self.base.clone();
        link.set_path(&format!("{}/approvals/{}", path.trim_end_matches('/'), self.token.reveal()));
        link
    }

    fn shows(&self, answer: &Answer, has_arrived: bool) -> bool {
        answer.status == 200 && answer.body.contains(&shown(&self.proof, has_arrived))
    }

    async fn send(
        &self,
        method: Method,
        link: &Url,
        form: Option<String>,
    ) -> reqwest::Result<Answer> {
        let mut request = self.client.request(method, link.clone());
        if let Some(form) = form {
            // As the browser of an approver sends it.
            request = request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .header(ORIGIN, self.base.origin().ascii_serialization())
                .body(form);
        }
        let answer = request.send().await.map_err(reqwest::Error::without_url)?;
        Ok(Answer::read(answer).await)
    }

    /// Says what answers in the place of the page.
    async fn tell_stranger(&self, answer: &Answer, report: &mut Report) {
        let path = self.base.path().trim_end_matches('/');
        if answer.status == 404 && !path.is_empty() {
            let bare = self.send(Method::GET, &self.link_under(""), None).await;
            if bare.is_ok_and(|bare| self.shows(&bare, false)) {
                let found =
                    format!("the page is not under {path} but at the root of the same address");
                let remedy = format!(
                    "have the proxy pass on what is under {path}, or take {path} out of LONGHAUL_PUBLIC_URL"
                );
                return report.fault(CHECK, found, &remedy);
            }
        }
        let (found, remedy) = answer.explain(&self.link());
        report.fault(CHECK, found, remedy);
    }

    /// Sends the form of the page; answers whether it went as it has to.
    async fn post(&self, report: &mut Report) -> bool {
        let form = format!("proof={}", self.proof);
        let answer = match self.send(Method::POST, &self.link(), Some(form)).await {
            Ok(answer) => answer,
            Err(error) => {
                let (found, remedy) = answer::none(error);
                report.fault(FORM, found, remedy);
                return false;
            }
        };
        let stored = self.store.find_probe(&self.token).await;
        if !stored.is_ok_and(|probe| probe.is_some_and(|probe| probe.has_arrived)) {
            let (found, remedy) = answer.explain_form();
            report.fault(FORM, found, remedy);
            return false;
        }
        let leads = answer.headers.get(LOCATION).and_then(|leads| leads.to_str().ok());
        let leads = leads.and_then(|leads| self.link().join(leads).ok());
        if answer.status != 303 || leads.as_ref() != Some(&self.link()) {
            let found = match &leads {
                Some(leads) if leads.origin() != self.base.origin() => {
                    let origin = leads.origin().ascii_serialization();
                    format!("the form arrives, and its answer leads away to {origin}")
                }
                Some(_) => {
                    "the form arrives, and its answer leads to another path of the same address"
                        .to_owned()
                }
                None => format!("the form arrives, and is answered with status {}", answer.status),
            };
            let remedy = "have the proxy leave redirects and the Location header as they are";
            report.fault(FORM, found, remedy);
            return false;
        }
        let again = self.send(Method::GET, &self.link(), None).await;
        if !again.is_ok_and(|again| self.shows(&again, true)) {
            let found = "the form arrives, and the page is shown as it was before";
            report.fault(FORM, found, "no cache may keep what is under /approvals/");
            return false;
        }
        report.ok(FORM, "a test form arrives and leads back to its page");
        true
    }

    /// Sends as much as the edit of a long draft takes.
    async fn post_much(&self, report: &mut Report) {
        let form = format!("proof={}&padding={}", self.proof, "x".repeat(LARGE_FORM_BYTES));
        let found = match self.send(Method::POST, &self.link(), Some(form)).await {
            Ok(answer) if answer.status == 303 => return,
            Ok(answer) => format!("a form of 2 MiB is answered with status {}", answer.status),
            Err(error) => format!("a form of 2 MiB is not answered: {}", causes(&error)),
        };
        let remedy =
            "have the proxy take bodies of up to 4 MiB under /approvals/, for edits of long drafts";
        report.warning(FORM, found, remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[tokio::test]
    async fn an_address_that_phones_cannot_open_is_warned_of() {
        for (url, is_configured, outcome, words) in [
            ("http://127.0.0.1:8080", false, Outcome::Warning, "is not set"),
            ("http://127.0.0.1:8080", true, Outcome::Warning, "the phone itself"),
            ("https://[::1]:8080", true, Outcome::Warning, "the phone itself"),
            ("https://[::ffff:127.0.0.1]", true, Outcome::Warning, "the phone itself"),
            ("https://192.168.1.7/jobs", true, Outcome::Warning, "private"),
            ("https://100.64.0.1", true, Outcome::Warning, "private"),
            ("https://[fd00::1]", true, Outcome::Warning, "private"),
            ("http://203.0.113.7", true, Outcome::Warning, "not encrypted"),
            ("https://203.0.113.7/jobs/", true, Outcome::Ok, "https://203.0.113.7/jobs"),
        ] {
            let mut report = Report::default();
            tell_address(&Url::parse(url).unwrap(), is_configured, &mut report).await;
            let line = &report.0[0];
            assert_eq!(line.outcome, outcome, "{url}: {line:?}");
            assert!(line.found.contains(words), "{url}: {line:?}");
        }
    }
}
