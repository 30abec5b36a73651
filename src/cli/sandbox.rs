//! `longhaul sandbox`: the stand-in for the two outside services, alone, so that a server can be killed beside it.
//!
//! In comes an address; it runs until it is told to stop.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::exit::{CliError, Exit};
use super::serve::{Ready, Signals};
use crate::config::{self, Source};
use crate::dev::sandbox;
use crate::telemetry::Telemetry;

/// Run the sandbox alone
#[derive(Args, Clone, Debug)]
pub struct SandboxArgs {
    /// Where it listens; port 0 takes a free one
    #[arg(
        long,
        env = "LONGHAUL_SANDBOX_ADDR",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8090"
    )]
    pub addr: SocketAddr,
    /// Write the address into this file, as JSON, once it serves
    #[arg(long, env = "LONGHAUL_READY_FILE", value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

/// Runs the command.
pub async fn run(args: SandboxArgs) -> Result<Exit> {
    check_reach("--addr", args.addr)?;
    if let Some(file) = &args.ready_file {
        Ready::forget(file)?;
    }
    let mut signals = Signals::listen()?;
    let telemetry = Telemetry::start(&config::telemetry(&Source::environment())?)?;
    let listener = TcpListener::bind(args.addr)
        .await
        .with_context(|| format!("could not listen on {}", args.addr))?;
    let address = format!("http://{}", listener.local_addr()?);
    if let Some(file) = &args.ready_file {
        let sandbox = Some(address.clone());
        let pid = std::process::id();
        Ready { grpc: None, http: None, sandbox, database_url: None, pid }.write(file)?;
    }
    tracing::info!(sandbox = address, phone = format!("{address}/phone"), "the sandbox is open");
    let stop = CancellationToken::new();
    let serving = sandbox::serve(listener, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => served?,
        () = signals.next() => {
            stop.cancel();
            serving.await?;
        }
    }
    telemetry.flush().await;
    Ok(Exit::Ok)
}

/// The sandbox shows whatever it was sent, to anybody who can reach it.
pub(super) fn check_reach(option: &str, addr: SocketAddr) -> Result<()> {
    let problem = || format!("{option} must be a loopback address: nothing guards the sandbox");
    anyhow::ensure!(addr.ip().is_loopback(), CliError::Usage(problem()));
    Ok(())
}
