//! `longhaul doctor`: proves a deployment, and says of each fault what to do about it.
//!
//! In comes the environment of the server; out goes a checklist, and an exit code that tells whether all is well.
//! It needs the database and the addresses in the configuration; the server may run elsewhere.
//! It changes nothing but a test link, which it takes away again.

mod link;

mod service;

mod template;

mod webhook;

use std::io;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::format::FormatArgs;
use super::render::Paint;
use super::serve::AddressArgs;
use crate::config::{self, Config, ConfigError};
use crate::store::Store;

/// Prove an installation, down to a test link that is opened by the public URL
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    #[command(flatten)]
    address: AddressArgs,
    /// The server serves on an address that others can reach, though no keys guard it [env: `LONGHAUL_INSECURE`]
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    /// It works, and somebody should know something about it.
    Warning,
    Fault,
    /// Not configured, or not possible after another fault.
    Skipped,
}

/// A line of the checklist.
#[derive(Clone, Debug, Serialize)]
struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    outcome: Outcome,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

/// The checklist.
#[derive(Default)]
struct Report(Vec<Check>);

impl Report {
    fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Outcome::Ok, found.into(), String::new());
    }

    fn warning(&mut self, check: &'static str, found: impl Into<String>, remedy: &str) {
        self.add(check, Outcome::Warning, found.into(), remedy.to_owned());
    }

    fn fault(&mut self, check: &'static str, found: impl Into<String>, remedy: &str) {
        self.add(check, Outcome::Fault, found.into(), remedy.to_owned());
    }

    fn skipped(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Outcome::Skipped, found.into(), String::new());
    }

    fn add(&mut self, name: &'static str, outcome: Outcome, found: String, remedy: String) {
        self.0.push(Check { name, outcome, found, remedy });
    }

    fn has_fault(&self) -> bool {
        self.0.iter().any(|one| one.outcome == Outcome::Fault)
    }

    fn print(&self, out: &mut impl io::Write, paint: Paint) -> io::Result<()> {
        let width = self.0.iter().map(|one| one.name.len()).max().unwrap_or(0);
        for Check { name, outcome, found, remedy } in &self.0 {
            let mark = match outcome {
                Outcome::Ok => paint.green("✓"),
                Outcome::Warning => paint.yellow("!"),
                Outcome::Fault => paint.red("✗"),
                Outcome::Skipped => paint.dim("–"),
            };
            writeln!(out, "{mark} {name:width$}  {found}")?;
            if !remedy.is_empty() {
                writeln!(out, "  {:width$}  → {remedy}", "")?;
            }
        }
        Ok(())
    }
}

/// Runs the command.
pub async fn run(args: DoctorArgs) -> Result<Exit> {
    // Once per process; that it is there already is no fault.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let mut report = Report::default();
    Box::pin(examine(&args, &mut report)).await?;
    let has_fault = report.has_fault();
    let mut out = io::stdout().lock();
    let told = || serde_json::json!({"ok": !has_fault, "checks": report.0});
    if !args.format.told(&mut out, told).context("printing the checklist")? {
        report.print(&mut out, Paint::for_stdout())?;
    }
    Ok(if has_fault { Exit::Unexpected } else { Exit::Ok })
}

/// Makes every check that can be made.
async fn examine(args: &DoctorArgs, report: &mut Report) -> Result<()> {
    let source = args.address.source();
    let read = Config::read(args.address.flags(args.insecure.then_some(true)), &source);
    let telemetry = config::telemetry(&source).err();
    let ConfigError(mistakes) =
        ConfigError::of(read.as_ref().err().cloned().into_iter().chain(telemetry));
    for mistake in &mistakes {
        report.fault("configuration", mistake, "`longhaul serve --help` tells what it may be");
    }
    if mistakes.is_empty() {
        report.ok("configuration", "every variable can be read");
    }
    let Ok(config) = read else {
        // What does not depend on the mistakes is worth knowing all the same.
        if let Ok(settings) = config::database(&source) {
            let store = Store::new(&settings).context("could not open the database")?;
            service::check_database(&store, report).await;
            store.close().await;
        }
        for check in ["model provider", "whatsapp", "public url"] {
            report.skipped(check, "not checked: the configuration has mistakes");
        }
        return Ok(());
    };
    let store = Store::new(&config.store).context("could not open the database")?;
    let is_usable = service::check_database(&store, report).await;
    service::check_model(&config.model, report).await;
    service::check_whatsapp(config.notify.whatsapp.as_ref(), report).await;
    template::check(&config, report).await;
    if is_usable {
        service::check_keys(&store, &config, report).await;
        link::check(&store, &config.web.public_url, config::has_public_url(&source), report).await;
        webhook::check(&config, report).await;
    } else {
        report.skipped("keys", "not checked: they are in the database");
        report.skipped("public url", "not checked: a test link needs the database");
    }
    store.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checklist_has_a_line_for_each_check_and_one_for_each_remedy() {
        let mut report = Report::default();
        report.ok("database", "PostgreSQL 17 answers");
        report.skipped("whatsapp", "not configured");
        assert!(!report.has_fault());
        report.warning("clock", "it is ahead", "set it");
        assert!(!report.has_fault());
        report.fault("public url", "nothing answers", "start it");
        assert!(report.has_fault());
        let mut out = Vec::new();
        report.print(&mut out, Paint::plain()).unwrap();
        let lines = [
            "✓ database    PostgreSQL 17 answers",
            "– whatsapp    not configured",
            "! clock       it is ahead",
            "              → set it",
            "✗ public url  nothing answers",
            "              → start it",
            "",
        ];
        assert_eq!(String::from_utf8(out).unwrap(), lines.join("\n"));
        let json = serde_json::to_value(&report.0[0]).unwrap();
        let expected = serde_json::json!({"check": "database", "outcome": "ok", "found": "PostgreSQL 17 answers"});
        assert_eq!(json, expected);
    }
}
