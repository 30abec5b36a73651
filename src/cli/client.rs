//! The connection to a server: every command but the ones that are servers goes through it.
//!
//! In comes an address; out goes a client that reconnects by itself and notices a dead peer.
//! A server that is not there is told as exactly that, before the first call.

use std::{error::Error as _, time::Duration};

use anyhow::Result;
use clap::Args;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::exit::CliError;
use crate::rpc::proto::{GetJobRequest, GetJobResponse, job_service_client::JobServiceClient};

/// A client of the job service.
pub type Client = JobServiceClient<Channel>;

/// A reply is at most 3 MiB by the server's promise; this leaves room for a server that promises more.
const REPLY_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// What every command that calls a server takes.
#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// The server's gRPC address
    #[arg(
        long,
        env = "LONGHAUL_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:50051"
    )]
    pub server: String,
    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,
}

impl ClientArgs {
    /// Connects to the server, or says that nothing listens there.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.server).await
    }
}

/// Connects to a server given as a URL or as `host:port`.
pub async fn connect(server: &str) -> Result<Client> {
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let endpoint = Endpoint::from_shared(url.clone())
        .map_err(|error| CliError::Usage(format!("`{server}` is not a server's address: {error}")))?
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true);
    let channel = endpoint
        .connect()
        .await
        .map_err(|error| CliError::Unreachable { server: url, why: root_cause(&error) })?;
    Ok(Client::new(channel).max_decoding_message_size(REPLY_LIMIT_BYTES))
}

/// Shows a job, with its submission where `include_spec` says so.
pub async fn get_job(
    client: &mut Client,
    job_id: &str,
    include_spec: bool,
) -> Result<GetJobResponse, Status> {
    let request =
        GetJobRequest { job_id: job_id.to_owned(), include_spec, ..GetJobRequest::default() };
    Ok(client.get_job(request).await?.into_inner())
}

/// Whether an error says that the server is away for now, rather than that it refused.
pub fn is_passing(status: &Status) -> bool {
    // Only an error that arose on this side carries a source: the connection broke.
    status.source().is_some()
        || matches!(
            status.code(),
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded
        )
}

/// An error of a call: what the server refused, or that it went away.
pub fn call_error(status: Status) -> anyhow::Error {
    match status.source() {
        Some(source) => CliError::WentAway(root_cause(source)).into(),
        None => status.into(),
    }
}

/// What an error says, without its code.
pub fn in_words(status: &Status) -> String {
    match (status.source(), status.message()) {
        (Some(source), _) => root_cause(source),
        (None, "") => status.code().description().to_owned(),
        (None, message) => message.to_owned(),
    }
}

/// The innermost words of an error: the outer ones only say "transport error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::{Exit, report};

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_as_that() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        drop(listener);
        let error = connect(&address).await.expect_err("nothing listens");
        assert!(error.to_string().starts_with(&format!("no server answers at http://{address}:")));
        assert_eq!(report(&error), Exit::Unreachable);
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_wrong_usage() {
        let error = connect("http://").await.expect_err("no address");
        assert_eq!(report(&error), Exit::Usage);
    }
}
