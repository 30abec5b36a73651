//! How the command line ends: exit codes, and errors as lines on stderr.
//!
//! In comes whatever a command failed with; out go one line `error: message`, one line for each field that is
//! wrong, and an exit code that a script can tell apart.
//! Every code here is told in `longhaul --help`; they are part of the interface and do not change.

use std::{io, process::ExitCode};

use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::client::in_words;
use crate::config::ConfigError;
use crate::rpc::proto::JobStatus;
use crate::telemetry::TelemetryError;

/// What a command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done as asked.
    Ok = 0,
    /// Something nobody foresaw, what `longhaul doctor` found, or rows that an import left out.
    Unexpected = 1,
    /// The command line itself is wrong.
    Usage = 2,
    /// The watched job failed.
    JobFailed = 3,
    /// The watched job was cancelled.
    JobCancelled = 4,
    /// No such job, step or approval.
    NotFound = 5,
    /// The job's state, or another job of that id, forbids it.
    Refused = 6,
    /// The request has wrong fields.
    Invalid = 7,
    /// No server answers, or it cannot serve now.
    Unreachable = 69,
    /// The server does not let in: it is shown no key, or one that is not good for this.
    NotLetIn = 77,
    /// The configuration is not valid; every mistake is named.
    Configuration = 78,
    /// Left with Ctrl-C, or told to stop.
    Interrupted = 130,
}

/// The exit codes as `longhaul --help` tells them.
pub const EXIT_CODES: &str = "Exit codes:
   0  done; a watched job completed
   1  an unexpected error; doctor found a fault, or an import left rows out
   2  wrong usage of the command line
   3  the watched job failed
   4  the watched job was cancelled
   5  no such job, step or approval
   6  refused: the job's state forbids it, or its id is taken by another submission
   7  the request is invalid; each wrong field is named
  69  no server answers, or it cannot serve now
  77  not let in: no key was shown, or one that is not good for this
  78  the configuration is not valid; every mistake is named
 130  left with Ctrl-C, or told to stop";

/// What helps whoever is not let in.
const HOW_TO_SHOW_A_KEY: &str = "set LONGHAUL_API_KEY, or LONGHAUL_API_KEY_FILE to a file that holds the key; \
    whoever runs the server makes one with `longhaul key create`";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The code for a watch that ended with the job in this status.
    pub fn of_job(status: JobStatus) -> Self {
        match status {
            JobStatus::Failed => Self::JobFailed,
            JobStatus::Cancelled => Self::JobCancelled,
            JobStatus::Completed
            | JobStatus::Unspecified
            | JobStatus::Queued
            | JobStatus::Running
            | JobStatus::AwaitingApproval
            | JobStatus::Paused => Self::Ok,
        }
    }

    fn of_code(code: Code) -> Self {
        match code {
            Code::NotFound => Self::NotFound,
            Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => Self::Refused,
            Code::InvalidArgument | Code::OutOfRange => Self::Invalid,
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded => {
                Self::Unreachable
            }
            Code::Unauthenticated | Code::PermissionDenied => Self::NotLetIn,
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::Unimplemented
            | Code::Internal
            | Code::DataLoss => Self::Unexpected,
        }
    }
}

/// An error that this side finds before a server does.
#[derive(Debug, Error)]
pub enum CliError {
    /// Nothing listens where the server should be.
    #[error(
        "no server answers at {server}: {why}; start one with `longhaul dev`, or name another with --server"
    )]
    Unreachable {
        /// The address that was tried.
        server: String,
        /// What the attempt came to.
        why: String,
    },
    /// The server went away during a call.
    #[error("the server went away: {0}")]
    WentAway(String),
    /// The submission cannot be read, or the server does not take it.
    #[error("{told}")]
    Invalid {
        /// What is wrong, all in all.
        told: String,
        /// What is wrong with each field.
        faults: Vec<Fault>,
    },
    /// The arguments contradict each other or have no meaning.
    #[error("{0}")]
    Usage(String),
    /// There is no such thing in the database.
    #[error("{0}")]
    NotFound(String),
    /// What is there forbids it.
    #[error("{0}")]
    Refused(String),
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it stands, as `FILE:LINE:COLUMN`.
    pub place: Option<String>,
    /// Its path; empty for the whole.
    pub field: String,
    /// What is wrong there.
    pub problem: String,
}

impl Fault {
    fn line(&self) -> String {
        match &self.place {
            Some(place) => format!("  {place}:{}", &violation(&self.field, &self.problem)[1..]),
            None => violation(&self.field, &self.problem),
        }
    }
}

/// Tells an error on stderr and says which code it ends with.
pub fn report(error: &anyhow::Error) -> Exit {
    let (exit, lines) = describe(error);
    for line in lines {
        eprintln!("{line}");
    }
    exit
}

/// The code an error ends with, and the lines that tell it.
fn describe(error: &anyhow::Error) -> (Exit, Vec<String>) {
    if let Some(status) = error.downcast_ref::<Status>() {
        return describe_status(status);
    }
    if let Some(error) = error.downcast_ref::<CliError>() {
        let mut lines = vec![format!("error: {error}")];
        let exit = match error {
            CliError::Unreachable { .. } | CliError::WentAway(_) => Exit::Unreachable,
            CliError::Usage(_) => Exit::Usage,
            CliError::NotFound(_) => Exit::NotFound,
            CliError::Refused(_) => Exit::Refused,
            CliError::Invalid { faults, .. } => {
                lines.extend(faults.iter().map(Fault::line));
                Exit::Invalid
            }
        };
        return (exit, lines);
    }
    if let Some(error) = error.downcast_ref::<TelemetryError>() {
        let hint = "check RUST_LOG and the OTEL_ variables";
        return (Exit::Configuration, vec![format!("error: {error}; {hint}")]);
    }
    if error.is::<ConfigError>() {
        return (Exit::Configuration, vec![format!("error: {error}")]);
    }
    if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        // Whoever read our output has seen enough.
        return (Exit::Ok, Vec::new());
    }
    (Exit::Unexpected, vec![format!("error: {}", causes(error))])
}

/// An error and its causes in a line; many repeat their cause in their own words, which is told once.
fn causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |line, cause| {
        match (line.is_empty(), line.ends_with(&cause)) {
            (true, _) => cause,
            (false, true) => line,
            (false, false) => format!("{line}: {cause}"),
        }
    })
}

fn describe_status(status: &Status) -> (Exit, Vec<String>) {
    let mut lines = vec![format!("error: {}", in_words(status))];
    if let Some(bad) = status.get_details_bad_request() {
        lines.extend(bad.field_violations.iter().map(|v| violation(&v.field, &v.description)));
    }
    if status.code() == Code::Unauthenticated {
        lines.push(format!("  {HOW_TO_SHOW_A_KEY}"));
    }
    (Exit::of_code(status.code()), lines)
}

fn violation(field: &str, problem: &str) -> String {
    if field.is_empty() { format!("  {problem}") } else { format!("  {field}: {problem}") }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn an_invalid_request_names_each_field_on_its_own_line() {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("steps[1].run.prompt", "must not be empty");
        details.add_bad_request_violation("job_id", "is too long");
        let status =
            Status::with_error_details(Code::InvalidArgument, "2 fields are wrong", details);
        let (exit, lines) = describe(&status.into());
        assert_eq!(exit, Exit::Invalid);
        assert_eq!(
            lines,
            [
                "error: 2 fields are wrong",
                "  steps[1].run.prompt: must not be empty",
                "  job_id: is too long"
            ]
        );
    }

    #[test]
    fn each_kind_of_refusal_has_its_own_code() {
        let code = |code| describe(&Status::new(code, "no").into()).0;
        assert_eq!(code(Code::NotFound), Exit::NotFound);
        assert_eq!(code(Code::AlreadyExists), Exit::Refused);
        assert_eq!(code(Code::FailedPrecondition), Exit::Refused);
        assert_eq!(code(Code::OutOfRange), Exit::Invalid);
        assert_eq!(code(Code::Unavailable), Exit::Unreachable);
        assert_eq!(code(Code::Unauthenticated), Exit::NotLetIn);
        assert_eq!(code(Code::PermissionDenied), Exit::NotLetIn);
        assert_eq!(code(Code::Internal), Exit::Unexpected);
        assert_eq!(describe(&anyhow::anyhow!("odd")).0, Exit::Unexpected);
    }

    #[test]
    fn a_status_without_words_is_told_by_its_code() {
        let (_, lines) = describe(&Status::new(Code::NotFound, "").into());
        assert_eq!(lines, ["error: Some requested entity was not found"]);
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(describe(&error), (Exit::Ok, Vec::new()));
    }
}
