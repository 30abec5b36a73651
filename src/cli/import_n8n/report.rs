//! What became of an import: each row with what is to be told of it, and what is left to do.
//!
//! In come the lines of all rows; out go a text that names what needs a look, or one JSON object with everything.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::render::{one_line, thousands};
use crate::store::import::source::Nameless;

/// So many rows that need a look are named in the text.
const NAMED_MAX: usize = 100;

/// What the old system has and this one cannot take over, and what to do about it.
const LEFT: [&str; 5] = [
    "links that n8n has sent, and executions that wait in it, decide nothing here: open approvals are asked anew",
    "who decided approvals before, and when, is not in the table",
    "attempts and retries are counted anew",
    "deactivate n8n's workflow and its schedule before servers of Longhaul take the jobs up: both would run the same steps",
    "keep the old table until what was left out is settled; it was only read",
];

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It is here now, or would be.
    Imported,
    /// It was here already.
    ThereAlready,
    /// It was here and was pruned since, so that its id stays taken.
    Pruned,
    /// It was left out.
    LeftOut,
}

/// A row.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) job_id: String,
    pub(super) outcome: Outcome,
    /// How it stands here, if it was imported now.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) status: String,
    /// Why it was left out, and what had to be decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

/// All rows.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) is_trial: bool,
    pub(super) lines: Vec<Line>,
    /// Rows that were not read.
    pub(super) nameless: Nameless,
}

impl Report {
    /// Whether nothing was left out.
    pub(super) fn is_whole(&self) -> bool {
        self.count(Outcome::LeftOut) == 0 && self.nameless == Nameless::default()
    }

    /// How many rows ended so.
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.lines.iter().filter(|line| line.outcome == outcome).count()
    }

    /// For machines.
    pub(super) fn in_json(&self) -> Value {
        json!({
            "dry_run": self.is_trial,
            "imported": self.count(Outcome::Imported),
            "there_already": self.count(Outcome::ThereAlready),
            "pruned": self.count(Outcome::Pruned),
            "left_out": self.count(Outcome::LeftOut),
            "without_job_id": self.nameless.without_id,
            "with_job_id_of_another": self.nameless.repeated,
            "jobs": self.lines,
            "not_carried_over": LEFT,
        })
    }

    /// For people.
    pub(super) fn write_text(&self, out: &mut impl Write) -> Result<()> {
        let named: Vec<&Line> = self.lines.iter().filter(|line| !line.notes.is_empty()).collect();
        for line in named.iter().take(NAMED_MAX) {
            let word = match line.outcome {
                Outcome::Imported | Outcome::ThereAlready | Outcome::Pruned => "note",
                Outcome::LeftOut => "left out",
            };
            for note in &line.notes {
                writeln!(out, "{word}: {}: {}", one_line(&line.job_id), one_line(note))?;
            }
        }
        if named.len() > NAMED_MAX {
            writeln!(
                out,
                "and {} more; --json names them all",
                thousands((named.len() - NAMED_MAX) as i64)
            )?;
        }
        let counted = |outcome| thousands(self.count(outcome) as i64);
        let what = if self.is_trial { "would be imported" } else { "imported" };
        let (imported, there) = (counted(Outcome::Imported), counted(Outcome::ThereAlready));
        writeln!(
            out,
            "{imported} {what}, {there} there already, {} left out",
            counted(Outcome::LeftOut)
        )?;
        for (count, what) in [
            (self.count(Outcome::Pruned) as i64, "were here and have been pruned since"),
            (self.nameless.without_id, "more left out: they have no job_id"),
            (self.nameless.repeated, "more left out: their job_id is that of another row"),
        ] {
            if count > 0 {
                writeln!(out, "{} {what}", thousands(count))?;
            }
        }
        for left in LEFT {
            writeln!(out, "- {left}")?;
        }
        Ok(())
    }
}
