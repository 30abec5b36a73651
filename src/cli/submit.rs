//! `longhaul submit`: sends a job from a file.
//!
//! In comes JSON, from a file or from stdin; out goes the job as the server stored it, and with `--watch` its progress.
//! A submit is safe to repeat: the same file with the same job id is the same job.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;

use super::{
    client::{ClientArgs, call_error},
    exit::Exit,
    json,
    render::one_line,
    submission::parse_submission,
    watch::{self, Form, Until},
    word,
};

/// Submit a job from a JSON file
#[derive(Args, Debug)]
pub struct SubmitArgs {
    /// The file, or `-` for stdin
    file: PathBuf,
    /// The job's id, instead of the file's
    #[arg(long, value_name = "ID")]
    job_id: Option<String>,
    /// Follow the job to its end
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub async fn run(args: SubmitArgs) -> Result<Exit> {
    let mut request = parse_submission(&read(&args.file)?)?;
    if let Some(job_id) = args.job_id {
        request.job_id = job_id;
    }
    let is_check = request.validate_only;
    let mut client = args.client.connect().await?;
    let reply = client.submit_job(request).await.map_err(call_error)?.into_inner();
    for warning in &reply.warnings {
        eprintln!("warning: {}", one_line(warning));
    }
    let job = reply.job.context("the server answered without a job")?;
    if args.client.json {
        let line = json!({
            "job": json::job(&job), "created": reply.created, "warnings": reply.warnings,
        });
        writeln!(io::stdout(), "{line}")?;
    } else {
        let what = match (is_check, reply.created) {
            (true, _) => "is valid and was not stored",
            (false, true) => "was created",
            (false, false) => "was there already",
        };
        let stands = word::job_status(job.status);
        writeln!(io::stdout(), "job {} {what} ({stands})", one_line(&job.job_id))?;
    }
    if !args.watch || is_check {
        return Ok(Exit::Ok);
    }
    let form = Form::for_stdout(args.client.json, None, reply.created);
    let status = watch::show(&mut client, &job.job_id, Until::Ended, form).await?;
    Ok(Exit::of_job(status))
}

fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("reading the submission from stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}
