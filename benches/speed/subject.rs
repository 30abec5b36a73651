//! What a workload is measured on: a database of its own, servers on it, and connections to them.
//!
//! It goes when its workload is over, so that nothing of it is left to be vacuumed beside the next one.

use std::time::Duration;

use anyhow::Result;
use longhaul::rpc::proto::SubmitJobRequest;
use sqlx::postgres::PgPool;

use crate::load::{self, Load};
use crate::machine::Ground;
use crate::server::{Client, Served};

/// So many connections carry the load, however many servers there are.
const CONNECTIONS: usize = 4;
/// So many submits are under way at once.
const IN_FLIGHT: usize = 64;

/// A database and its servers.
pub struct Subject {
    database: String,
    pub servers: Vec<Served>,
    pub clients: Vec<Client>,
    pub pool: PgPool,
}

impl Subject {
    /// Makes an empty database and starts so many servers on it.
    pub async fn make(
        ground: &Ground,
        database: &str,
        servers: usize,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        ground.database(database).await?;
        Self::serve(ground, database, servers, variables).await
    }

    /// Starts so many servers on a database that is there.
    pub async fn serve(
        ground: &Ground,
        database: &str,
        count: usize,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let url = ground.url(database);
        let pool = Ground::pool(&url).await?;
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(Served::server(ground.folder(), &url, variables).await?);
        }
        let mut clients = Vec::new();
        for server in servers.iter().cycle().take(CONNECTIONS.max(count)) {
            clients.push(server.client().await?);
        }
        Ok(Self { database: database.to_owned(), servers, clients, pool })
    }

    /// Submits for so long, with 64 in flight.
    pub async fn saturate(&self, span: Duration, make: fn() -> SubmitJobRequest) -> Result<Load> {
        load::saturate(&self.clients, IN_FLIGHT, span, make).await
    }

    /// The same, until the jobs have completed.
    pub async fn complete(&self, span: Duration, make: fn() -> SubmitJobRequest) -> Result<Load> {
        load::saturate_and_complete(&self.clients, IN_FLIGHT, span, make).await
    }

    /// Ends the servers and drops the database.
    pub async fn end(self, ground: &Ground) -> Result<()> {
        for server in self.servers {
            server.stop().await?;
        }
        self.pool.close().await;
        ground.drop_database(&self.database).await
    }
}

/// The order in which two are measured changes from round to round, so that neither always goes first.
pub fn in_turn<T>(round: usize, first: T, second: T) -> [T; 2] {
    if round.is_multiple_of(2) { [first, second] } else { [second, first] }
}
