//! `longhaul serve`: runs a server on a database that is configured.
//!
//! In come the addresses and the environment; it runs until it is told to stop.

use std::fs;
use std::io;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Exit;
use crate::config::{self, Config, ConfigError, Listen};
use crate::server::Server;
use crate::telemetry::Telemetry;

/// The variables that the configuration consists of, with their defaults.
const VARIABLES: &str = include_str!("../../.env.example");

/// Run a server on the configured database
#[derive(Args, Clone, Debug)]
#[command(after_long_help = VARIABLES)]
pub struct ServeArgs {
    #[command(flatten)]
    pub faces: FaceArgs,
    /// Serve on an address that others can reach, though no keys guard it
    #[arg(long, env = "LONGHAUL_INSECURE")]
    pub insecure: bool,
}

/// Where a server listens, and whom it tells
#[derive(Args, Clone, Debug)]
pub struct FaceArgs {
    /// Where the gRPC face listens; port 0 takes a free one
    #[arg(
        long,
        env = "LONGHAUL_GRPC_ADDR",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:50051"
    )]
    pub grpc_addr: SocketAddr,
    /// Where the webhooks and the approval page listen
    #[arg(
        long,
        env = "LONGHAUL_HTTP_ADDR",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub http_addr: SocketAddr,
    /// Write the addresses into this file, as JSON, once it serves
    #[arg(long, env = "LONGHAUL_READY_FILE", value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

/// Runs the command.
pub async fn run(args: ServeArgs) -> Result<Exit> {
    if let Some(file) = &args.faces.ready_file {
        Ready::forget(file)?;
    }
    let listen = Listen {
        grpc_addr: args.faces.grpc_addr,
        http_addr: args.faces.http_addr,
        insecure: args.insecure,
    };
    let (config, telemetry) = match (Config::read(listen, &[]), config::telemetry()) {
        (Ok(config), Ok(telemetry)) => (config, telemetry),
        (config, telemetry) => {
            let mistakes = [config.err(), telemetry.err()].into_iter().flatten();
            return Err(ConfigError(mistakes.flat_map(|error| error.0).collect()).into());
        }
    };
    let telemetry = Telemetry::start(&telemetry)?;
    let mut signals = Signals::listen()?;
    let database_url = config.store.database_url.clone();
    let Some(server) = start_unless_told(config, &mut signals).await? else {
        telemetry.flush().await;
        return Ok(Exit::Ok);
    };
    let ready = Ready {
        grpc: Some(server.grpc_addr.to_string()),
        http: Some(format!("http://{}", server.http_addr)),
        sandbox: None,
        database_url: Some(database_url.expose_secret().to_owned()),
        pid: std::process::id(),
    };
    if let Some(file) = &args.faces.ready_file {
        ready.write(file)?;
    }
    tracing::info!(grpc = %server.grpc_addr, http = %server.http_addr, "serving");
    let result = until_told(server, &mut signals).await;
    telemetry.flush().await;
    result.map(|()| Exit::Ok)
}

/// Starts a server; none if a signal came first, while it waited for its database and had nothing in hand.
pub(super) async fn start_unless_told(
    config: Config,
    signals: &mut Signals,
) -> Result<Option<Server>> {
    tokio::select! {
        server = Box::pin(Server::start(config)) => server.map(Some),
        () = signals.next() => Ok(None),
    }
}

/// Runs a server until a signal says to stop; a second one ends the process at once.
pub(super) async fn until_told(server: Server, signals: &mut Signals) -> Result<()> {
    let stopper = server.stopper();
    let running = server.run();
    tokio::pin!(running);
    tokio::select! {
        result = &mut running => return result,
        () = signals.next() => {}
    }
    tracing::info!("stopping: steps in flight may finish; a second signal ends at once");
    stopper.cancel();
    tokio::select! {
        result = &mut running => result,
        () = signals.next() => {
            anyhow::bail!("ended by a second signal; what was in flight is taken over by others")
        }
    }
}

/// SIGINT and SIGTERM, from now on; none that comes between two looks is lost.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes them from the system, which would end the process.
    pub(super) fn listen() -> Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Returns at the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// What a started process tells whoever started it.
#[derive(Serialize)]
pub(super) struct Ready {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grpc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) http: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sandbox: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) database_url: Option<String>,
    pub(super) pid: u32,
}

impl Ready {
    /// Removes what an earlier process left, which would pass for this one.
    pub(super) fn forget(file: &Path) -> Result<()> {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("could not remove the old {}", file.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes the file whole or not at all: a reader never sees half of it. It may hold a password, so only its owner reads it.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let draft = file.with_extension(format!("{}.draft", self.pid));
        let mut options = fs::OpenOptions::new();
        let mut opened =
            options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        opened.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&draft, file)
            .with_context(|| format!("could not write the ready file {}", file.display()))
    }
}
