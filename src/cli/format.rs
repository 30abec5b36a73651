//! What commands print for machines: `-o json`, `-o yaml`, and `--json` from before there was `-o`.
//!
//! In comes what a command has found out, as JSON; out goes one line of JSON, or one document of YAML, on stdout.
//! Every command that has anything to tell takes these flags, and all take them alike.

mod yaml;

use std::io::Write;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::exit::CliError;

/// How a command prints what it has found out.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct FormatArgs {
    /// How to print: as a table or text for people, as json, or as yaml
    #[arg(
        short = 'o',
        long = "format",
        value_name = "table|json|yaml",
        value_enum,
        hide_possible_values = true
    )]
    format: Option<Format>,
    /// The same as -o json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// A form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    // For people, as where nothing is said.
    Table,
    // One line.
    Json,
    // One document.
    Yaml,
}

impl FormatArgs {
    fn format(self) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(Format::Table) }
    }

    /// Whether a person is to read it.
    pub fn is_for_people(self) -> bool {
        self.format() == Format::Table
    }

    /// Whether each message is a line of JSON, for commands that tell one after the other.
    pub fn is_a_line(self) -> Result<bool, CliError> {
        match self.format() {
            Format::Table => Ok(false),
            Format::Json => Ok(true),
            Format::Yaml => {
                let why = "a watch tells one message after the other: use -o json for a line each";
                Err(CliError::Usage(why.to_owned()))
            }
        }
    }

    /// Prints it if that is for machines; else it is left to tell it to people.
    pub fn told(self, out: &mut impl Write, value: impl FnOnce() -> Value) -> Result<bool> {
        match self.format() {
            Format::Table => return Ok(false),
            Format::Json => writeln!(out, "{}", value())?,
            Format::Yaml => write!(out, "{}", yaml::document(&value()))?,
        }
        Ok(true)
    }
}
