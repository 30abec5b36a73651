//! `longhaul serve`: runs a server on a database that is configured.
//!
//! In come flags, the environment and a file below it; it runs until it is told to stop.

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
use crate::config::{self, Config, ConfigError, Flags, Source, VARIABLES};
use crate::server::Server;
use crate::telemetry::Telemetry;

/// Run a server on the configured database
#[derive(Args, Clone, Debug)]
#[command(after_long_help = VARIABLES)]
pub struct ServeArgs {
    #[command(flatten)]
    pub faces: FaceArgs,
    /// Serve on an address that others can reach, though there is no key to let them in by [env: `LONGHAUL_INSECURE`]
    #[arg(long)]
    pub insecure: bool,
}

/// Where a server listens, and what else it is told
#[derive(Args, Clone, Debug)]
pub struct AddressArgs {
    /// Where the gRPC face listens; port 0 takes a free one [env: `LONGHAUL_GRPC_ADDR`] [default: 127.0.0.1:50051]
    #[arg(long, value_name = "HOST:PORT")]
    pub grpc_addr: Option<SocketAddr>,
    /// Where the webhooks and the approval page listen [env: `LONGHAUL_HTTP_ADDR`] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub http_addr: Option<SocketAddr>,
    /// A TOML file with the variables in lower case and without `LONGHAUL_`, below the environment [env: `LONGHAUL_CONFIG`]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl AddressArgs {
    /// The flags that are variables as well.
    pub(super) fn flags(&self, insecure: Option<bool>) -> Flags {
        Flags { grpc_addr: self.grpc_addr, http_addr: self.http_addr, insecure }
    }

    /// Where all variables are found.
    pub(super) fn source(&self) -> Source {
        Source::open(self.config.as_deref())
    }
}

/// Where a server listens, and whom it tells
#[derive(Args, Clone, Debug)]
pub struct FaceArgs {
    #[command(flatten)]
    pub address: AddressArgs,
    /// Write the addresses into this file, as JSON, once it serves [env: `LONGHAUL_READY_FILE`]
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

/// Runs the command.
pub async fn run(args: ServeArgs) -> Result<Exit> {
    let source = args.faces.address.source();
    let ready_file = config::ready_file(args.faces.ready_file.clone(), &source);
    if let Some(file) = &ready_file {
        Ready::forget(file)?;
    }
    let flags = args.faces.address.flags(args.insecure.then_some(true));
    let (config, telemetry) = match (Config::read(flags, &source), config::telemetry(&source)) {
        (Ok(config), Ok(telemetry)) => (config, telemetry),
        (config, telemetry) => {
            let errors = [config.err(), telemetry.err()].into_iter().flatten();
            return Err(ConfigError::of(errors).into());
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
        http: Some(server.http_url.clone()),
        sandbox: None,
        database_url: Some(database_url.expose_secret().to_owned()),
        pid: std::process::id(),
    };
    if let Some(file) = &ready_file {
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
