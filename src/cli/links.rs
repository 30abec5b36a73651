//! `longhaul links`: taking back the links that let approvers decide.
//!
//! In come a job's id and perhaps an approver; out goes how many links open nothing from now on.

use std::io::{self, Write as _};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    client::{ClientArgs, call_error},
    exit::Exit,
    render::one_line,
};
use crate::rpc::proto::RevokeLinksRequest;

/// Take back the links that let approvers decide
#[derive(Args, Debug)]
pub struct LinksArgs {
    #[command(subcommand)]
    action: LinksAction,
}

#[derive(Debug, Subcommand)]
enum LinksAction {
    /// Have the links of a job open nothing any more; links that are made later are new ones
    Revoke(RevokeArgs),
}

#[derive(Args, Debug)]
struct RevokeArgs {
    /// The job's id
    job: String,
    /// Only the links of this approver: a number, or a name from the address book
    #[arg(long, value_name = "WHO", default_value = "", hide_default_value = true)]
    approver: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub async fn run(args: LinksArgs) -> Result<Exit> {
    let LinksAction::Revoke(RevokeArgs { job, approver, client }) = args.action;
    let request = RevokeLinksRequest { job_id: job.clone(), approver };
    let mut server = client.connect().await?;
    let revoked = server.revoke_links(request).await.map_err(call_error)?.into_inner().revoked;
    let mut out = io::stdout().lock();
    if !client.format.told(&mut out, || json!({"job_id": job, "revoked": revoked}))? {
        writeln!(out, "{}: {}", one_line(&job), in_words(revoked))?;
    }
    Ok(Exit::Ok)
}

fn in_words(revoked: i32) -> String {
    match revoked {
        0 => "no link opened anything".to_owned(),
        1 => "1 link opens nothing any more".to_owned(),
        many => format!("{many} links open nothing any more"),
    }
}
