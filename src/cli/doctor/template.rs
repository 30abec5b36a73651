//! The templates that are configured, held to those that Meta has approved.
//!
//! In comes the configuration; out go lines of the checklist. A language counts as used if the server speaks it by
//! itself or somebody in the address book does; the others are worth a warning.

use super::Report;
use crate::config::Config;
use crate::domain::language::is_same;
use crate::notify::approved::{self, Approved};
use crate::notify::{TemplateButtons, WhatsAppSettings};

const CHECK: &str = "whatsapp templates";
const REMEDY: &str =
    "make it in WhatsApp Manager as docs/whatsapp.md says, in every language your people read";

/// Checks that each template can be sent, and that its buttons lead to the approval page.
pub(super) async fn check(config: &Config, report: &mut Report) {
    let Some(settings) = &config.notify.whatsapp else { return };
    let forms = &settings.forms;
    let opens_page = forms.template_buttons == TemplateButtons::Urls;
    let configured = [
        (&forms.request_template, opens_page),
        (&forms.request_template_backup, opens_page),
        (&forms.notice_template, false),
    ];
    let configured =
        configured.into_iter().filter_map(|(name, has_url)| Some((name.as_deref()?, has_url)));
    let configured: Vec<(&str, bool)> = configured.collect();
    if configured.is_empty() {
        let found = "none is configured: who has not written within a day gets no message";
        return report.skipped(CHECK, found);
    }
    let Some(account_id) = &settings.account_id else {
        let found = "not checked: set LONGHAUL_WHATSAPP_ACCOUNT_ID to the id of the WhatsApp Business Account";
        return report.skipped(CHECK, found);
    };
    let languages = languages(config, settings);
    let page = format!("{}/approvals/", config.notify.public_url.trim_end_matches('/'));
    for (name, has_url) in configured {
        match Box::pin(approved::look_up(settings, account_id, name)).await {
            Ok(found) => judge(name, &found, &languages, has_url.then_some(&page), report),
            Err(error) => {
                let remedy = "check LONGHAUL_WHATSAPP_ACCOUNT_ID; the token needs whatsapp_business_management";
                return report.fault(CHECK, error, remedy);
            }
        }
    }
}

/// Meta's code of each language that may be wanted, and whether it is used.
fn languages<'c>(config: &'c Config, settings: &'c WhatsAppSettings) -> Vec<(&'c str, bool)> {
    let people = config.notify.book.people();
    let spoken = people.filter_map(|(_, person)| person.language.as_deref());
    let own = config.notify.language.as_deref().unwrap_or("en");
    let spoken: Vec<&str> = spoken.chain([own]).collect();
    let known = settings.forms.template_languages.iter();
    known.map(|(ours, code)| (code.as_str(), spoken.iter().any(|one| is_same(one, ours)))).collect()
}

fn judge(
    name: &str,
    found: &[Approved],
    languages: &[(&str, bool)],
    page: Option<&String>,
    report: &mut Report,
) {
    let mut sent_in = Vec::new();
    for &(code, is_used) in languages {
        let template = found.iter().find(|one| one.language == code);
        let Some(template) = template.filter(|one| one.status == "APPROVED") else {
            let status = template.map_or("not there", |one| one.status.as_str());
            let found = format!("{name} is {status} in {code}");
            if is_used {
                report.fault(CHECK, found, REMEDY);
            } else {
                report.warning(CHECK, found, REMEDY);
            }
            continue;
        };
        let Some(page) = page else {
            sent_in.push(code);
            continue;
        };
        if template.urls.is_empty() || !template.urls.iter().all(|url| url.starts_with(page)) {
            let found = format!("the buttons of {name} in {code} do not open {page}…");
            let remedy = "give both the address {LONGHAUL_PUBLIC_URL}/approvals/{{1}}, or set \
                          LONGHAUL_WHATSAPP_TEMPLATE_BUTTONS to what they are";
            report.fault(CHECK, found, remedy);
        } else {
            sent_in.push(code);
        }
    }
    if !sent_in.is_empty() {
        report.ok(CHECK, format!("{name} can be sent in {}", sent_in.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    fn told(found: &[(&str, &str, &str)], page: Option<&str>) -> Vec<(Outcome, String)> {
        let found = found.iter().map(|&(language, status, url)| Approved {
            language: language.to_owned(),
            status: status.to_owned(),
            urls: Vec::from_iter((!url.is_empty()).then(|| url.to_owned())),
        });
        let mut report = Report::default();
        let found: Vec<Approved> = found.collect();
        let page = page.map(str::to_owned);
        judge("ask", &found, &[("en_US", true), ("zh_CN", false)], page.as_ref(), &mut report);
        report.0.into_iter().map(|check| (check.outcome, check.found)).collect()
    }

    #[test]
    fn a_template_is_approved_in_the_languages_that_are_used() {
        let good = ("en_US", "APPROVED", "");
        let only = told(&[good], None);
        assert_eq!(only[0], (Outcome::Warning, "ask is not there in zh_CN".to_owned()));
        assert_eq!(only[1], (Outcome::Ok, "ask can be sent in en_US".to_owned()));
        let paused = told(&[("en_US", "PAUSED", ""), ("zh_CN", "APPROVED", "")], None);
        assert_eq!(paused[0], (Outcome::Fault, "ask is PAUSED in en_US".to_owned()));
        assert_eq!(told(&[], None)[0].0, Outcome::Fault);
    }

    #[test]
    fn its_buttons_open_the_page() {
        let page = Some("https://jobs.example/approvals/");
        for (url, outcome) in [
            ("https://jobs.example/approvals/{{1}}", Outcome::Ok),
            ("https://old.example/approvals/{{1}}", Outcome::Fault),
            ("", Outcome::Fault),
        ] {
            let both = [("en_US", "APPROVED", url), ("zh_CN", "APPROVED", url)];
            assert_eq!(told(&both, page)[0].0, outcome, "{url}");
        }
    }
}
