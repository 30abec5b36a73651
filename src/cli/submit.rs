//! `longhaul submit`: sends a job from a file.
//!
//! In comes YAML or JSON, from a file or from stdin, and fields from flags; out goes the job as the server stored it,
//! and with `--watch` its progress.
//! A submit is safe to repeat: the same file with the same job id is the same job.

use std::{
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    client::{ClientArgs, call_error},
    exit::{CliError, Exit, Fault},
    json,
    render::one_line,
    submission::{Assignment, Document, assignment},
    watch::{self, Form, Until},
    word,
};

/// Submit a job from a YAML or JSON file
#[derive(Args, Debug)]
pub struct SubmitArgs {
    /// The file, or `-` for stdin
    file: PathBuf,
    /// The job's id, instead of the file's
    #[arg(long, value_name = "ID")]
    job_id: Option<String>,
    /// A field instead of the file's, such as task="Launch copy", steps[0].run.prompt=Write. or
    /// settings.labels.team=growth; a list is [a, b]; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    assignments: Vec<Assignment>,
    /// Only have the server say whether it would take the job
    #[arg(long, conflicts_with = "watch")]
    validate_only: bool,
    /// Follow the job to its end, and end as it does
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub async fn run(args: SubmitArgs) -> Result<Exit> {
    let (text, name) = read(&args.file)?;
    let mut document = Document::read(&text, &name)?;
    for assignment in &args.assignments {
        document.set(assignment)?;
    }
    let mut request = document.request()?;
    if let Some(job_id) = args.job_id {
        request.job_id = job_id;
    }
    request.validate_only |= args.validate_only;
    let is_check = request.validate_only;
    // Before anything is sent.
    let (format, is_watched) = (args.client.format, args.watch && !is_check);
    let is_line = is_watched && format.is_a_line()?;
    let mut client = args.client.connect().await?;
    let reply = client.submit_job(request).await.map_err(|status| refused(status, &document))?;
    let reply = reply.into_inner();
    for warning in &reply.warnings {
        eprintln!("warning: {}", one_line(warning));
    }
    let job = reply.job.context("the server answered without a job")?;
    let for_machines =
        || json!({"job": json::job(&job), "created": reply.created, "warnings": reply.warnings});
    if is_line {
        writeln!(io::stdout(), "{}", for_machines())?;
    } else if !format.told(&mut io::stdout(), for_machines)? {
        let what = match (is_check, reply.created) {
            (true, _) => "is valid and was not stored",
            (false, true) => "was created",
            (false, false) => "was there already",
        };
        let stands = word::job_status(job.status);
        writeln!(io::stdout(), "job {} {what} ({stands})", one_line(&job.job_id))?;
    }
    if !is_watched {
        return Ok(Exit::Ok);
    }
    let form = Form::for_stdout(is_line, None, reply.created);
    let status = watch::show(&mut client, &job.job_id, Until::Ended, form).await?;
    Ok(Exit::of_job(status))
}

/// What the server does not take, each field with its place in the file.
fn refused(status: Status, document: &Document) -> anyhow::Error {
    let bad = status.get_details_bad_request().filter(|_| status.code() == Code::InvalidArgument);
    let Some(bad) = bad else { return call_error(status) };
    let faults = bad.field_violations.into_iter().map(|violation| Fault {
        place: document.place(&violation.field),
        field: violation.field,
        problem: violation.description,
    });
    let told = "the submission is not valid".to_owned();
    CliError::Invalid { told, faults: faults.collect() }.into()
}

/// The text of a submission, and what it is called in messages.
fn read(file: &Path) -> Result<(String, String)> {
    if file == Path::new("-") {
        if io::stdin().is_terminal() {
            eprintln!("reading the submission from here; end it with Ctrl-D");
        }
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("reading the submission from stdin")?;
        return Ok((text, "stdin".to_owned()));
    }
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| CliError::Usage(format!("{name} cannot be read: {error}")))?;
    Ok((text, name))
}
