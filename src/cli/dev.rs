//! `longhaul dev`: a server, its Postgres and the sandbox in one process, with no configuration.
//!
//! In come the addresses and a folder for the data; it runs until it is told to stop.

use std::{env, net::SocketAddr, path::PathBuf, time::Duration};

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
use crate::config::{self, Config, Listen};
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
    /// Where the sandbox listens
    #[arg(
        long,
        env = "LONGHAUL_SANDBOX_ADDR",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8090"
    )]
    pub sandbox_addr: SocketAddr,
    /// The folder of the embedded Postgres
    /// [default: /var/lib/longhaul for root, else longhaul in the user's data folder]
    #[arg(long, env = "LONGHAUL_DATA_DIR", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
}

impl DevArgs {
    /// The folder of the embedded Postgres: the one that was named, else the place for it on this machine.
    pub fn data_dir(&self) -> Result<PathBuf> {
        if let Some(named) = &self.data_dir {
            return Ok(named.clone());
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
    check_reach("--sandbox-addr", args.sandbox_addr)?;
    if let Some(file) = &args.faces.ready_file {
        Ready::forget(file)?;
    }
    let telemetry = Telemetry::start(&config::telemetry()?)?;
    let listener = TcpListener::bind(args.sandbox_addr)
        .await
        .with_context(|| format!("could not listen on {}", args.sandbox_addr))?;
    let sandbox_url = format!("http://{}", listener.local_addr()?);
    let stop_sandbox = CancellationToken::new();
    let sandbox = tokio::spawn(sandbox::serve(listener, stop_sandbox.clone()));

    let own = !config::names_a_database();
    let postgres = if own { Some(start_postgres(&args).await?) } else { None };
    let result = serve(&args, &sandbox_url, postgres.as_ref()).await;
    stop_sandbox.cancel();
    sandbox.await??;
    if let Some(postgres) = postgres {
        postgres.stop().await?;
    }
    telemetry.flush().await;
    result.map(|()| Exit::Ok)
}

async fn start_postgres(args: &DevArgs) -> Result<Postgres> {
    let data_dir = args.data_dir()?.join("postgres");
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

/// Runs the server on what this machine offers: the environment still goes before.
async fn serve(args: &DevArgs, sandbox_url: &str, postgres: Option<&Postgres>) -> Result<()> {
    let given = [
        ("DATABASE_URL", postgres.map(Postgres::url).unwrap_or_default()),
        ("LONGHAUL_MODEL_BASE_URL", sandbox_url.to_owned()),
        ("LONGHAUL_MODEL_API_KEY", "sandbox".to_owned()),
        // The sandbox answers a batch after a second.
        ("LONGHAUL_BATCH_LINGER_MS", "500".to_owned()),
        ("LONGHAUL_BATCH_POLL_MS", "500".to_owned()),
        ("LONGHAUL_WHATSAPP_BASE_URL", sandbox_url.to_owned()),
        ("LONGHAUL_WHATSAPP_TOKEN", "sandbox".to_owned()),
        ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", "1".to_owned()),
        // Whoever tries it out is one person, and waits.
        ("LONGHAUL_WHATSAPP_SPACING_SECONDS", "0".to_owned()),
        ("LONGHAUL_WHATSAPP_APP_SECRET", APP_SECRET.to_owned()),
        ("LONGHAUL_WHATSAPP_VERIFY_TOKEN", "sandbox".to_owned()),
        ("LONGHAUL_NOTIFY", "+15550100".to_owned()),
    ];
    let listen = Listen {
        grpc_addr: args.faces.grpc_addr,
        http_addr: args.faces.http_addr,
        insecure: false,
    };
    let config = Config::read(listen, &given)?;
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
    if let Some(file) = &args.faces.ready_file {
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
