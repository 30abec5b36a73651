//! `longhaul import-n8n`: jobs of the published n8n template are taken over, each at the step where it stands.
//!
//! In come the template's table, which is only read, and the database that `DATABASE_URL` names; out go jobs, and a
//! report of what was imported, what was left out and why. Exact compatibility with the template cannot be known:
//! its source is not public, so what does not fit is told, never guessed. A second run imports nothing twice.

mod place;

mod report;

mod row;

mod state;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use secrecy::SecretString;
use serde_json::{Map, Value};

use self::place::Base;
use self::report::{Line, Outcome, Report};
use self::row::{Reading, spelled};
use super::exit::{CliError, Exit};
use super::format::FormatArgs;
use crate::config;
use crate::domain::job::Status;
use crate::domain::word::Word as _;
use crate::store::import::source::{OldRow, Source, SourceError};
use crate::store::import::{Imported, OldJob};
use crate::store::prune::Retention;
use crate::store::{Store, StoreError, StoreSettings};

/// So many rows are read at once; each brings its whole state.
const BATCH: i64 = 100;

/// Import jobs from the table of the published n8n template
///
/// The table is only read. Jobs that had not ended go on at their step; open approvals are asked anew; jobs that had
/// ended are kept as history, and nobody is told of them. Run it with --dry-run first, deactivate n8n's workflow, and
/// run it again: what is there already is left as it is.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The database of the table, such as <postgres://user@host/database> [env: `LONGHAUL_IMPORT_URL`]
    #[arg(long, value_name = "URL", value_parser = secret)]
    from: Option<SecretString>,
    /// The table; may name its schema
    #[arg(long, value_name = "TABLE", default_value = "durable_jobs")]
    table: String,
    /// What was asked, where the state does not say it: JSON, by `job_id` or under `default`, of `task` and `steps`
    #[arg(long, value_name = "FILE")]
    steps: Option<PathBuf>,
    /// Which status each word of the table stands for, where it is not the same: TOML or JSON, word by word
    #[arg(long, value_name = "FILE")]
    statuses: Option<PathBuf>,
    /// What the first step is called in `current_step`; by default each row and the others tell
    #[arg(long, value_name = "0|1", value_parser = base)]
    step_base: Option<Base>,
    /// The file of the configuration, which may name the databases [env: `LONGHAUL_CONFIG`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only show what would be imported
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[expect(clippy::unnecessary_wraps, reason = "clap wants a parser that can fail")]
fn secret(url: &str) -> Result<SecretString, String> {
    Ok(url.to_owned().into())
}

fn base(text: &str) -> Result<Base, String> {
    match text {
        "0" => Ok(Base::Zero),
        "1" => Ok(Base::One),
        other => Err(format!("must be 0 or 1, is {other:?}")),
    }
}

/// Runs the command.
pub async fn run(args: ImportArgs) -> Result<Exit> {
    let configured = config::Source::open(args.config.as_deref());
    let from = match args.from {
        Some(from) => Some(from),
        None => config::import_url(&configured)?,
    };
    let Some(from) = from.filter(StoreSettings::names_a_postgres) else {
        let message = "--from, or LONGHAUL_IMPORT_URL, must name a Postgres, such as postgres://user@host/database";
        return Err(CliError::Usage(message.to_owned()).into());
    };
    let reading = Reading {
        defaults: config::webhook_defaults(&configured)?,
        statuses: statuses(args.statuses.as_deref())?,
        requests: requests(args.steps.as_deref())?,
    };
    let source = Source::open(&from, &args.table).await.map_err(refused)?;
    let store =
        Store::new(&config::database(&configured)?).context("could not open the database")?;
    let kept = config::retention(&configured)?;
    let import = Import { source, store, reading, kept, is_trial: args.dry_run };
    let done = import.run(args.step_base).await;
    import.source.close().await;
    import.store.close().await;
    let report = done?;
    let mut out = io::stdout().lock();
    if !args.format.told(&mut out, || report.in_json())? {
        report.write_text(&mut out)?;
    }
    Ok(if report.is_whole() { Exit::Ok } else { Exit::Unexpected })
}

/// What is wrong with the table is the caller's to mend.
fn refused(error: SourceError) -> anyhow::Error {
    match error {
        SourceError::NoTable { .. } | SourceError::NoColumn { .. } | SourceError::IsOurs { .. } => {
            CliError::Usage(error.to_string()).into()
        }
        SourceError::Store(error) => anyhow::Error::from(error).context("could not read the table"),
    }
}

struct Import {
    source: Source,
    store: Store,
    reading: Reading,
    /// How long servers with this environment keep what ended.
    kept: Retention,
    is_trial: bool,
}

impl Import {
    async fn run(&self, base: Option<Base>) -> Result<Report> {
        let base = match base {
            Some(base) => Some(base),
            None => self.find_base().await?,
        };
        let nameless = self.source.nameless().await.context("could not read the table")?;
        let (mut lines, mut after) = (Vec::new(), None);
        loop {
            let rows = self.rows_after(after.as_deref()).await?;
            for old in &rows {
                lines.push(self.import(old, base).await?);
            }
            let Some(last) = rows.last() else { break };
            after = Some(last.job_id.clone());
            eprintln!("{} rows read", lines.len());
        }
        Ok(Report { is_trial: self.is_trial, lines, nameless })
    }

    async fn rows_after(&self, job_id: Option<&str>) -> Result<Vec<OldRow>> {
        let rows = self.source.rows_after(job_id, BATCH).await;
        let mut rows = rows.context("could not read the table")?;
        // Of rows with one id the first is read, wherever a batch ends; the others are counted.
        rows.dedup_by(|one, before| one.job_id == before.job_id);
        Ok(rows)
    }

    /// How steps are counted, by the rows that make sense one way only; nothing if they do not agree.
    async fn find_base(&self) -> Result<Option<Base>> {
        let (mut zero, mut one) = (0, 0);
        let mut after: Option<String> = None;
        loop {
            let rows = self.rows_after(after.as_deref()).await?;
            for old in &rows {
                match self.reading.read(old).ok().and_then(|row| row.vote()) {
                    Some(Base::Zero) => zero += 1,
                    Some(Base::One) => one += 1,
                    None => {}
                }
            }
            let Some(last) = rows.last() else { break };
            after = Some(last.job_id.clone());
        }
        let found = match (zero, one) {
            (1.., 0) => Some(Base::Zero),
            (0, 1..) => Some(Base::One),
            (_, _) => None,
        };
        match found {
            Some(Base::Zero) => eprintln!("current_step counts from 0, as {zero} rows show"),
            Some(Base::One) => eprintln!("current_step counts from 1, as {one} rows show"),
            None if zero + one > 0 => {
                eprintln!(
                    "current_step counts from 0 in {zero} rows and from 1 in {one}: each row is read by itself"
                );
            }
            None => {}
        }
        Ok(found)
    }

    /// One row, which stops no other; only a database that is away does.
    async fn import(&self, old: &OldRow, base: Option<Base>) -> Result<Line> {
        let job_id = old.job_id.clone();
        let left_out = |why: String| Line {
            job_id: job_id.clone(),
            outcome: Outcome::LeftOut,
            status: String::new(),
            notes: vec![why],
        };
        let read = self.reading.read(old).and_then(|row| row.into_job(base));
        let (job, mut notes): (OldJob, Vec<String>) = match read {
            Ok(read) => read,
            Err(why) => return Ok(left_out(why)),
        };
        let (outcome, status, notes) = match self.store.import_job(&job, self.is_trial).await {
            Ok(Imported::Created(status)) => {
                notes.extend(self.note_of_its_age(status, &job, old));
                (Outcome::Imported, status.word(), notes)
            }
            Ok(Imported::Existed) => (Outcome::ThereAlready, String::new(), Vec::new()),
            Ok(Imported::Pruned) => (Outcome::Pruned, String::new(), Vec::new()),
            Err(error) if error.is_of_the_schema() => {
                let hint = "could not store a job; has a server of this release ever used this database, and may this user write to it?";
                return Err(anyhow::Error::from(error).context(hint));
            }
            Err(error @ StoreError::Unavailable(_)) => {
                return Err(
                    anyhow::Error::from(error).context("could not store a job; run it again")
                );
            }
            Err(error) => return Ok(left_out(error.to_string())),
        };
        Ok(Line { job_id, outcome, status, notes })
    }

    /// What is to be told of history that will not be kept for long.
    fn note_of_its_age(&self, status: Status, job: &OldJob, old: &OldRow) -> Option<String> {
        let (_, kept) = self.kept.periods().into_iter().find(|(ended, _)| *ended == status)?;
        let ended_at = job.ended_at?;
        let age = (old.now - ended_at).to_std().ok()?;
        (age >= kept).then(|| {
            let on = ended_at.format("%Y-%m-%d");
            let name = status.word().to_uppercase();
            format!("it ended on {on}, longer ago than LONGHAUL_KEEP_{name}_DAYS says: servers prune it at once")
        })
    }
}

/// Our own words, and what the file says.
fn statuses(file: Option<&Path>) -> Result<HashMap<String, Status>> {
    let mut known: HashMap<String, Status> =
        Status::ALL.into_iter().map(|status| (status.word(), status)).collect();
    known.insert("canceled".to_owned(), Status::Cancelled);
    let Some(file) = file else { return Ok(known) };
    let text = read(file)?;
    let name = file.display();
    let words: BTreeMap<String, String> = match serde_json::from_str(&text) {
        Ok(words) => words,
        Err(_no_json) => toml::from_str(&text).map_err(|error| {
            CliError::Usage(format!(
                "{name} must be TOML or JSON, a status for each word: {}",
                error.message()
            ))
        })?,
    };
    for (word, status) in words {
        let status = Status::find_by_word(&status).ok_or_else(|| {
            let all = Status::ALL.map(|status| status.word()).join(", ");
            CliError::Usage(format!("{name}: {word} must be one of {all}, is {status:?}"))
        })?;
        known.insert(spelled(&word), status);
    }
    Ok(known)
}

/// What was asked, by job.
fn requests(file: Option<&Path>) -> Result<Map<String, Value>> {
    let Some(file) = file else { return Ok(Map::new()) };
    let name = file.display();
    let requests: Map<String, Value> = serde_json::from_str(&read(file)?)
        .map_err(|error| CliError::Usage(format!("{name} must be a JSON object: {error}")))?;
    if let Some((job_id, _)) = requests.iter().find(|(_, request)| !request.is_object()) {
        let message = format!("{name}: {job_id:?} must be an object with `task` and `steps`");
        return Err(CliError::Usage(message).into());
    }
    Ok(requests)
}

fn read(file: &Path) -> Result<String> {
    let name = file.display();
    let text = std::fs::read_to_string(file);
    Ok(text.map_err(|error| CliError::Usage(format!("could not read {name}: {error}")))?)
}
