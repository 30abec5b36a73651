//! What a server stands on: the database and its schema, the other servers, the model provider, and the sending number.
//!
//! In come the settings as a server reads them; out go lines of the checklist.

use std::error::Error;

use chrono::{TimeDelta, Utc};

use super::Report;
use crate::config::Config;
use crate::door::Tls;
use crate::model::{Model, ModelSettings};
use crate::notify::WhatsAppSettings;
use crate::notify::number;
use crate::store::checkup::SchemaDiffers;
use crate::store::{Store, StoreError};

/// How far two clocks may be apart before somebody should know.
const SKEW_MAX: TimeDelta = TimeDelta::seconds(5);

/// Checks everything that is asked of Postgres; answers whether a test link can be left in it.
pub(super) async fn check_database(store: &Store, report: &mut Report) -> bool {
    match store.postgres_version().await {
        Ok(version) => report.ok("database", format!("PostgreSQL {version} answers")),
        Err(error) => {
            let remedy = "check DATABASE_URL, and that Postgres can be reached from here";
            report.fault("database", in_words(&error), remedy);
            return false;
        }
    }
    let is_usable = match store.compare_schema().await {
        Ok(differs) => tell_schema(&differs, report),
        Err(error) => {
            let remedy = "let the login of DATABASE_URL read the schema longhaul";
            report.fault("schema", in_words(&error), remedy);
            false
        }
    };
    if !is_usable {
        return false;
    }
    match store.check_up().await {
        Ok(checkup) => {
            tell_clock(checkup.now - now(), report);
            match checkup.executors {
                0 => report.fault(
                    "servers",
                    "no server is alive on this database",
                    "start one with `longhaul serve`, with the same DATABASE_URL",
                ),
                1 => report.ok("servers", "1 server is alive"),
                alive => report.ok("servers", format!("{alive} servers are alive")),
            }
            true
        }
        Err(error) => {
            report.fault("servers", in_words(&error), "see what Postgres says in its log");
            false
        }
    }
}

/// Tells how the doors stand: who is let in.
pub(super) async fn check_keys(store: &Store, config: &Config, report: &mut Report) {
    const MAKE: &str = "make one with `longhaul key create`, and give it to whoever calls";
    let list = match store.keys(None).await {
        Ok(list) => list,
        Err(error) => {
            let remedy = "let the login of DATABASE_URL read the schema longhaul";
            report.fault("keys", in_words(&error), remedy);
            return;
        }
    };
    let (total, good) = list.map_or((0, 0), |list| {
        (list.keys.len(), list.keys.iter().filter(|one| one.is_good(list.now)).count())
    });
    let knows_clients = config.tls.as_ref().is_some_and(Tls::knows_clients);
    let (may_be_open, proxied) = (config.may_be_open, config.find_proxied_url());
    match (total, good) {
        (_, 0) if knows_clients => report.ok("keys", "no key is good, and certificates let in"),
        (0, _) if may_be_open && proxied.is_some() => {
            let url = proxied.unwrap_or_default();
            let found = format!(
                "no key was ever made, and {url} leads others here, so the server is open to them"
            );
            report.warning("keys", found, MAKE);
        }
        (0, _) if may_be_open => {
            report.ok("keys", "no key was ever made, so the server is open to whoever reaches it");
        }
        (_, 0) if may_be_open => {
            report.warning("keys", format!("none of {total} is good, so nobody is let in"), MAKE);
        }
        (_, 0) => {
            let found = "others can reach the server, and no key is good, so it does not start";
            report.fault("keys", found, MAKE);
        }
        (_, 1) => report.ok("keys", "1 key is good"),
        (_, good) => report.ok("keys", format!("{good} keys are good")),
    }
}

/// Tells how the schema differs; answers whether this program can work with it.
fn tell_schema(differs: &SchemaDiffers, report: &mut Report) -> bool {
    let list = |versions: &[i64]| {
        versions.iter().map(|version| format!("{version:04}")).collect::<Vec<_>>().join(", ")
    };
    let SchemaDiffers { missing, newer, broken } = differs;
    if !broken.is_empty() {
        let found = format!("migrations broke off or were changed: {}", list(broken));
        let remedy = "a server of the release that wrote them has to finish them; see its log";
        report.fault("schema", found, remedy);
        return false;
    }
    if !missing.is_empty() {
        let found = format!("migrations are missing: {}", list(missing));
        report.fault("schema", found, "start a server of this release: it brings the schema up");
        return false;
    }
    if newer.is_empty() {
        report.ok("schema", "it is what this release needs");
    } else {
        let found = format!("a newer release was here: it added {}", list(newer));
        report.warning("schema", found, "bring this program up to that release");
    }
    true
}

fn tell_clock(ahead: TimeDelta, report: &mut Report) {
    if ahead.abs() <= SKEW_MAX {
        return report.ok("clock", "the database's clock and this machine's agree");
    }
    let way = if ahead > TimeDelta::zero() { "ahead of" } else { "behind" };
    let found =
        format!("the database's clock is {} s {way} this machine's", ahead.num_seconds().abs());
    let remedy = "deadlines go by the database's clock: set both by NTP, and keep the setting clock_shift for tests";
    report.warning("clock", found, remedy);
}

#[expect(clippy::disallowed_methods, reason = "the only clock is what is compared with it")]
fn now() -> chrono::DateTime<Utc> {
    Utc::now()
}

/// Checks that the model provider knows the key.
pub(super) async fn check_model(settings: &ModelSettings, report: &mut Report) {
    const CHECK: &str = "model provider";
    if settings.api_key.is_none() {
        return report.skipped(CHECK, "LONGHAUL_MODEL_API_KEY is not set: run steps will fail");
    }
    let model = match Model::new(settings.clone()) {
        Ok(model) => model,
        Err(error) => {
            let remedy = "check the variables that begin with LONGHAUL_MODEL_";
            return report.fault(CHECK, causes(&error), remedy);
        }
    };
    match Box::pin(model.count_listed()).await {
        Ok(0) => report.warning(CHECK, "it answers and lists no model", "check the key's rights"),
        Ok(models) => report.ok(CHECK, format!("it takes the key and lists {models} models")),
        Err(error) => {
            let remedy = match error.status().map(|status| status.as_u16()) {
                Some(401 | 403) => "the key is not valid there: check LONGHAUL_MODEL_API_KEY",
                Some(404) => "check LONGHAUL_MODEL_BASE_URL: it must not end in /v1",
                Some(_) => "the provider is at fault or overloaded: try again in a while",
                None => "check LONGHAUL_MODEL_BASE_URL, and what stands between here and there",
            };
            report.fault(CHECK, causes(&error), remedy);
        }
    }
}

/// Checks that Meta knows the number and lets the token use it.
pub(super) async fn check_whatsapp(settings: Option<&WhatsAppSettings>, report: &mut Report) {
    const CHECK: &str = "whatsapp";
    let Some(settings) = settings else {
        let unset = "LONGHAUL_WHATSAPP_TOKEN is not set: notices stay pending";
        return report.skipped(CHECK, unset);
    };
    let number = match Box::pin(number::look_up(settings)).await {
        Ok(number) => number,
        Err(error) => {
            let remedy = "check LONGHAUL_WHATSAPP_TOKEN, LONGHAUL_WHATSAPP_PHONE_NUMBER_ID and \
                          LONGHAUL_WHATSAPP_GRAPH_VERSION; the token needs whatsapp_business_messaging";
            return report.fault(CHECK, error, remedy);
        }
    };
    let found = format!("it sends from {} as {:?}", number.masked, number.name);
    if !number.status.is_empty() && number.status != "CONNECTED" {
        let found = format!("{found}, but the number is {}", number.status);
        return report.fault(CHECK, found, "see the number's page in WhatsApp Manager");
    }
    if number.quality == "RED" {
        let found = format!("{found}, and people block or report it");
        return report.warning(CHECK, found, "Meta may limit it: see WhatsApp Manager");
    }
    report.ok(CHECK, found);
}

fn in_words(error: &StoreError) -> String {
    causes(error)
}

/// An error and its causes in a line; what a cause repeats is told once.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !words.ends_with(&said) {
            words = format!("{words}: {said}");
        }
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    fn schema(missing: &[i64], newer: &[i64], broken: &[i64]) -> (bool, Outcome, String) {
        let mut report = Report::default();
        let [missing, newer, broken] = [missing, newer, broken].map(<[i64]>::to_vec);
        let is_usable = tell_schema(&SchemaDiffers { missing, newer, broken }, &mut report);
        (is_usable, report.0[0].outcome, report.0[0].found.clone())
    }

    #[test]
    fn a_schema_that_lacks_something_is_told_by_its_migrations() {
        assert_eq!(schema(&[], &[], &[]).1, Outcome::Ok);
        let (is_usable, outcome, found) = schema(&[22, 23], &[], &[]);
        assert!(!is_usable && outcome == Outcome::Fault && found.ends_with("0022, 0023"));
        let (is_usable, outcome, found) = schema(&[], &[24], &[]);
        assert!(is_usable && outcome == Outcome::Warning && found.ends_with("0024"));
        let (is_usable, outcome, _) = schema(&[], &[], &[7]);
        assert!(!is_usable && outcome == Outcome::Fault);
    }

    #[test]
    fn clocks_that_are_far_apart_are_told() {
        for (seconds, outcome) in
            [(0, Outcome::Ok), (-5, Outcome::Ok), (6, Outcome::Warning), (-90, Outcome::Warning)]
        {
            let mut report = Report::default();
            tell_clock(TimeDelta::seconds(seconds), &mut report);
            assert_eq!(report.0[0].outcome, outcome, "{seconds}");
        }
    }
}
