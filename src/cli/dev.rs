//! `longhaul dev`: a server, its Postgres and the sandbox in one process, with no configuration.
//!
//! In come the addresses and a folder for the data; it runs until it is told to stop.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Args;
use nix::unistd::geteuid;
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::sandbox::check_reach;
use super::serve::{FaceArgs, Ready, Signals, start_unless_told, until_told};
use crate::config::{self, Config, ConfigError, Source};
use crate::dev::postgres::{Postgres, PostgresSettings};
use crate::dev::sandbox;
use crate::telemetry::Telemetry;

/// With what the sandbox signs what it tells, as Meta does with the app's secret.
const APP_SECRET: &str = "sandbox";

/// Run everything with no configuration: a server, its Postgres and a sandbox
#[derive(Args, Clone, Debug)]
pub struct DevArgs {
    #[command(flatten)]
    pub faces: FaceArgs,
    /// Where the sandbox listens [env: `LONGHAUL_SANDBOX_ADDR`] [default: 127.0.0.1:8090]
    #[arg(long, value_name = "HOST:PORT")]
    pub sandbox_addr: Option<SocketAddr>,
    /// The folder of the embedded Postgres [env: `LONGHAUL_DATA_DIR`]
    /// [default: /var/lib/longhaul for root, else longhaul in the user's data folder]
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
}

impl DevArgs {
    /// The folder of the embedded Postgres: the one that was named, else the place for it on this machine.
    fn data_dir(&self, source: &Source) -> Result<PathBuf> {
        if let Some(named) = config::data_dir(self.data_dir.clone(), source) {
            return Ok(named);
        }
        if geteuid().is_root() {
            return Ok(PathBuf::from("/var/lib/longhaul"));
        }
        // The specification of XDG_DATA_HOME has a relative path ignored.
        let data_home = env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        let home = env::home_dir().map(|home| home.join(".local/share"));
        let folder = data_home.filter(|folder| folder.is_absolute()).or(home);
        let folder =
            folder.ok_or_else(|| anyhow::anyhow!("no home folder; name one with --data-dir"))?;
        Ok(folder.join("longhaul"))
    }
}

/// Runs the command.
pub async fn run(args: DevArgs) -> Result<Exit> {
    let source = args.faces.address.source();
    let sandbox_addr = config::sandbox_addr(args.sandbox_addr, &source);
    if let Ok(addr) = &sandbox_addr {
        check_reach("--sandbox-addr", *addr)?;
    }
    let ready_file = config::ready_file(args.faces.ready_file.clone(), &source);
    if let Some(file) = &ready_file {
        Ready::forget(file)?;
    }
    let own = !config::names_a_database(&source);
    // With placeholders for what is not known yet, so that every mistake is told before anything is started.
    let placed = source.clone().with(&given("postgres:///longhaul", "http://127.0.0.1"));
    let checked = Config::read(args.faces.address.flags(Some(false)), &placed);
    let (telemetry, sandbox_addr) = match (checked, config::telemetry(&source), sandbox_addr) {
        (Ok(_), Ok(telemetry), Ok(addr)) => (telemetry, addr),
        (config, telemetry, addr) => {
            let errors = [config.err(), telemetry.err(), addr.err()].into_iter().flatten();
            return Err(ConfigError::of(errors).into());
        }
    };
    let telemetry = Telemetry::start(&telemetry)?;
    let listener = TcpListener::bind(sandbox_addr)
        .await
        .with_context(|| format!("could not listen on {sandbox_addr}"))?;
    let sandbox_url = format!("http://{}", listener.local_addr()?);
    let stop_sandbox = CancellationToken::new();
    let sandbox = tokio::spawn(sandbox::serve(listener, stop_sandbox.clone()));

    let postgres = if own { Some(start_postgres(&args, &source).await?) } else { None };
    let database_url = postgres.as_ref().map(Postgres::url).unwrap_or_default();
    let source = source.with(&given(&database_url, &sandbox_url));
    let config = Config::read(args.faces.address.flags(Some(false)), &source)?;
    let result = Box::pin(serve(config, &sandbox_url, ready_file.as_deref())).await;
    stop_sandbox.cancel();
    sandbox.await??;
    if let Some(postgres) = postgres {
        postgres.stop().await?;
    }
    telemetry.flush().await;
    result.map(|()| Exit::Ok)
}

async fn start_postgres(args: &DevArgs, source: &Source) -> Result<Postgres> {
    let data_dir = args.data_dir(source)?.join("postgres");
    let settings =
        PostgresSettings { data_dir, durable: true, max_connections: 100, options: Vec::new() };
    Ok(Postgres::start(settings).await?)
}

/// Has the sandbox tell the server what becomes of messages.
async fn have_deliveries_told(sandbox_url: &str, http_url: &str) -> Result<()> {
    let settings = json!({
        "webhook_url": format!("{http_url}/webhook/whatsapp"), "app_secret": APP_SECRET,
    });
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build()?;
    let request = client.post(format!("{sandbox_url}/_sandbox/settings")).json(&settings);
    request.send().await?.error_for_status().context("the sandbox refused its settings")?;
    Ok(())
}

/// What this machine offers; whatever is configured goes before it.
fn given(database_url: &str, sandbox_url: &str) -> [(&'static str, String); 12] {
    [
        ("DATABASE_URL", database_url),
        ("LONGHAUL_MODEL_BASE_URL", sandbox_url),
        ("LONGHAUL_MODEL_API_KEY", "sandbox"),
        // The sandbox answers a batch after a second.
        ("LONGHAUL_BATCH_LINGER_MS", "500"),
        ("LONGHAUL_BATCH_POLL_MS", "500"),
        ("LONGHAUL_WHATSAPP_BASE_URL", sandbox_url),
        ("LONGHAUL_WHATSAPP_TOKEN", "sandbox"),
        ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", "1"),
        // Whoever tries it out is one person, and waits.
        ("LONGHAUL_WHATSAPP_SPACING_SECONDS", "0"),
        ("LONGHAUL_WHATSAPP_APP_SECRET", APP_SECRET),
        ("LONGHAUL_WHATSAPP_VERIFY_TOKEN", "sandbox"),
        ("LONGHAUL_NOTIFY", "+15550100"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
}

/// Runs the server until it is told to stop.
async fn serve(config: Config, sandbox_url: &str, ready_file: Option<&Path>) -> Result<()> {
    let database_url = config.store.database_url.expose_secret().to_owned();
    let mut signals = Signals::listen()?;
    let Some(server) = start_unless_told(config, &mut signals).await? else { return Ok(()) };
    let http_url = format!("http://{}", server.http_addr);
    have_deliveries_told(sandbox_url, &http_url).await?;
    let ready = Ready {
        grpc: Some(server.grpc_addr.to_string()),
        http: Some(http_url.clone()),
        sandbox: Some(sandbox_url.to_owned()),
        database_url: Some(database_url),
        pid: std::process::id(),
    };
    if let Some(file) = ready_file {
        ready.write(file)?;
    }
    tracing::info!(
        grpc = %server.grpc_addr,
        http = http_url,
        phone = format!("{sandbox_url}/phone"),
        "serving; Ctrl-C stops"
    );
    until_told(server, &mut signals).await
}
