//! The rig of one test: a database, a sandbox, and servers in this process on free ports.
//!
//! Servers get their configuration as variables, as in production, so that reading it is tested too.
//! Their settings are fast: the sweeper looks twenty times a second, and a stop waits one second.

use std::collections::BTreeMap;
use std::ops::Deref;

use longhaul::config::{Config, Listen};
use longhaul::server::Server;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::{Client, Database, Sandbox};

/// Who is told, if a test says nothing.
pub const PERSON: &str = "+15550100";
/// For a rig whose servers tell nobody by default.
pub const NOBODY: &str = "";

/// A database, a sandbox, and servers.
pub struct Rig {
    /// The database.
    pub db: Database,
    /// The two outside services.
    pub sandbox: Sandbox,
    variables: BTreeMap<String, String>,
    server: Option<Node>,
}

/// A server in this process.
pub struct Node {
    /// Its client.
    pub client: Client,
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Rig {
    /// A rig with one server.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A rig with one server whose configuration differs in these variables.
    pub async fn start_with(variables: &[(&str, &str)]) -> Self {
        let mut rig = Self::without_server(variables).await;
        rig.server = Some(rig.serve().await);
        rig
    }

    /// The rig with one server, which reaches the database at another URL.
    pub async fn start_at(mut self, database_url: &str) -> Self {
        self.variables.insert("DATABASE_URL".to_owned(), database_url.to_owned());
        self.server = Some(self.serve().await);
        self
    }

    /// A rig that serves nothing yet.
    pub async fn without_server(variables: &[(&str, &str)]) -> Self {
        let database_url = Cluster::get().await.make_database().await;
        Self::on(database_url, variables).await
    }

    /// A rig whose first server has to make everything.
    pub async fn on_an_empty_database() -> Self {
        let database_url = Cluster::get().await.make_empty_database().await;
        Self::on(database_url, &[]).await
    }

    /// A rig without a server, on a database of the test's own choice.
    pub async fn on(database_url: String, variables: &[(&str, &str)]) -> Self {
        let db = Database::open(database_url).await;
        let sandbox = Sandbox::start().await;
        let given = [
            ("DATABASE_URL", db.url.as_str()),
            ("LONGHAUL_DATABASE_CONNECTIONS", "10"),
            ("LONGHAUL_MODEL_BASE_URL", &sandbox.url),
            ("LONGHAUL_MODEL_API_KEY", "sandbox"),
            // When a list comes depends on the machine.
            ("LONGHAUL_MODEL_LIST_SECONDS", "0"),
            ("LONGHAUL_WHATSAPP_BASE_URL", &sandbox.url),
            ("LONGHAUL_WHATSAPP_TOKEN", "sandbox"),
            ("LONGHAUL_WHATSAPP_PHONE_NUMBER_ID", "1"),
            // Most tests tell one person several things, and are not about the distance between them.
            ("LONGHAUL_WHATSAPP_SPACING_SECONDS", "0"),
            ("LONGHAUL_NOTIFY", PERSON),
            ("LONGHAUL_LEASE_SECONDS", "30"),
            ("LONGHAUL_SWEEP_MS", "50"),
            ("LONGHAUL_DRAIN_SECONDS", "1"),
            ("LONGHAUL_BATCH_LINGER_MS", "20"),
            ("LONGHAUL_BATCH_POLL_MS", "50"),
        ];
        let all = given.into_iter().chain(variables.iter().copied());
        let variables = all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { db, sandbox, variables, server: None }
    }

    /// The configuration of this rig's servers.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// One more server on the same database.
    pub async fn serve(&self) -> Node {
        let any = "127.0.0.1:0".parse().unwrap();
        let listen = Listen { grpc_addr: any, http_addr: any, insecure: false };
        let find = |name: &str| self.variables.get(name).filter(|text| !text.is_empty()).cloned();
        let server = Server::start(Config::from_variables(listen, find).unwrap()).await.unwrap();
        let http_url = format!("http://{}", server.http_addr);
        let client = Client::new(&server.grpc_addr.to_string(), http_url);
        let stop = server.stopper();
        Node { client, stop, running: tokio::spawn(server.run()) }
    }

    /// The rig's server begins again after it was stopped.
    pub async fn start_server_again(&mut self) {
        self.server = Some(self.serve().await);
    }

    /// Stops the rig's server gracefully; it must say that this went well.
    pub async fn stop_server(&mut self) {
        self.server.take().expect("this rig has a server").stop().await;
    }
}

/// A rig with a server is a client of it.
impl Deref for Rig {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.server.as_ref().expect("this rig has a server").client
    }
}

impl Node {
    /// Stops it gracefully; it must say that this went well.
    pub async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.running).await.unwrap().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.running.abort();
    }
}
