//! The measured thing: `longhaul serve` of the release build, as a process of its own, and the sandbox as another.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use longhaul::rpc::proto::job_service_client::JobServiceClient;
use serde::Deserialize;
use tokio::process::{Child, Command};
use tonic::transport::{Channel, Endpoint};

/// A client of the job service.
pub type Client = JobServiceClient<Channel>;

/// A process of ours that serves.
pub struct Served {
    child: Child,
    ready: Ready,
}

#[derive(Deserialize)]
struct Ready {
    grpc: Option<String>,
    sandbox: Option<String>,
    pid: u32,
}

impl Served {
    /// Starts a server on a database.
    pub async fn server(folder: &Path, database_url: &str, more: &[(&str, &str)]) -> Result<Self> {
        let free = ["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"];
        let database = [("DATABASE_URL", database_url), ("RUST_LOG", "warn")];
        let all = database.iter().chain(more);
        Self::start(folder, &free, all.copied()).await
    }

    /// Starts a sandbox.
    pub async fn sandbox(folder: &Path) -> Result<Self> {
        let variables = [("RUST_LOG", "warn")];
        Self::start(folder, &["sandbox", "--addr", "127.0.0.1:0"], variables).await
    }

    async fn start<'a>(
        folder: &Path,
        arguments: &[&str],
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self> {
        let number: u64 = rand::random();
        let (ready_file, log) =
            (folder.join(format!("{number:x}.json")), folder.join(format!("{number:x}.log")));
        let output = std::fs::File::create(&log)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        // What the machine's user has configured is not for measurements.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("LONGHAUL_") || name.starts_with("OTEL_") {
                command.env_remove(name);
            }
        }
        command.args(arguments).arg("--ready-file").arg(&ready_file).envs(variables);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut child = command.kill_on_drop(true).spawn()?;
        let give_up_at = std::time::Instant::now() + Duration::from_mins(1);
        while !ready_file.exists() {
            if child.try_wait()?.is_some() || std::time::Instant::now() > give_up_at {
                bail!("{arguments:?} did not start: {}", std::fs::read_to_string(&log)?);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let ready = serde_json::from_slice(&std::fs::read(&ready_file)?)?;
        Ok(Self { child, ready })
    }

    /// A client with a connection of its own.
    pub async fn client(&self) -> Result<Client> {
        let address = self.ready.grpc.as_ref().context("it is a server")?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        Ok(JobServiceClient::new(endpoint.connect().await?))
    }

    /// Where the sandbox is.
    pub fn url(&self) -> Result<&str> {
        self.ready.sandbox.as_deref().context("it is a sandbox")
    }

    /// What it has in memory now, in MiB.
    pub fn memory_mib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.ready.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.context("it runs")? / 1024.0)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// Ends it.
    pub async fn stop(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// What a server needs to ask the sandbox; everything else is as it comes.
pub fn with_sandbox(url: &str) -> [(&str, &str); 2] {
    [("LONGHAUL_MODEL_BASE_URL", url), ("LONGHAUL_MODEL_API_KEY", "sandbox")]
}

/// The same, with as many slots as submits in flight need.
pub fn with_slots(url: &str) -> [(&str, &str); 3] {
    let [base_url, api_key] = with_sandbox(url);
    [base_url, api_key, ("LONGHAUL_SLOTS", "1024")]
}
