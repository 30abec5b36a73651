//! Killers: they end, freeze and stop servers, restart Postgres, kill its backends and use up its connections.
//!
//! Each plays a shuffled deck of attacks, so that even a short run sees every kind.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::plan::between_ms;
use super::postgres::Stop;
use super::world::World;

#[derive(Clone, Copy)]
enum AtServers {
    Kill,
    KillTwo,
    FreezeLong,
    FreezeShort,
    Terminate,
}

#[derive(Clone, Copy)]
enum AtPostgres {
    Restart(Stop),
    KillBackends,
    Exhaust,
}

/// Attacks servers until told to stop; all it took out is back in the fleet then, or replaced.
pub async fn at_servers(world: Arc<World>, mut random: StdRng, stop: CancellationToken) {
    use AtServers::{FreezeLong, FreezeShort, Kill, KillTwo, Terminate};
    let full = [Kill, FreezeLong, Terminate, Kill, FreezeShort, KillTwo, Kill, Terminate];
    let mut deck = Vec::new();
    while !stop.is_cancelled() {
        sleep(between_ms(&mut random, 300, 2500)).await;
        if deck.is_empty() {
            deck = full.to_vec();
            deck.shuffle(&mut random);
        }
        let Some(attack) = deck.pop() else { continue };
        attack_servers(&world, attack, &mut random).await;
    }
}

/// A lease for a server of the storm.
pub fn any_lease_seconds(random: &mut StdRng) -> u64 {
    random.random_range(2..=5)
}

async fn attack_servers(world: &World, attack: AtServers, random: &mut StdRng) {
    let (fleet, tally) = (&world.fleet, &world.tally);
    let Some(server) = fleet.take_out(random) else { return };
    match attack {
        AtServers::Kill => {
            server.kill9().await;
            tally.add("attacks: kill -9");
        }
        AtServers::KillTwo => {
            let other = fleet.take_out(random);
            server.kill9().await;
            tally.add("attacks: kill -9");
            let Some(other) = other else { return fleet.start(any_lease_seconds(random)).await };
            other.kill9().await;
            tally.add("attacks: kill -9");
            sleep(between_ms(random, 0, 2000)).await;
            fleet.start(any_lease_seconds(random)).await;
        }
        AtServers::FreezeLong => {
            let beyond = between_ms(random, 500, 3000);
            server.freeze();
            sleep(server.lease + beyond).await;
            server.thaw();
            tally.add("attacks: freeze beyond the lease");
            return fleet.take_in(server);
        }
        AtServers::FreezeShort => {
            server.freeze();
            sleep(server.lease.mul_f64(random.random_range(0.2..0.9))).await;
            server.thaw();
            tally.add("attacks: freeze within the lease");
            return fleet.take_in(server);
        }
        AtServers::Terminate => {
            fleet.terminate(server).await;
            tally.add("attacks: graceful stop");
        }
    }
    sleep(between_ms(random, 0, 1000)).await;
    fleet.start(any_lease_seconds(random)).await;
}

/// Attacks Postgres until told to stop; it runs then.
pub async fn at_postgres(world: Arc<World>, mut random: StdRng, stop: CancellationToken) {
    use AtPostgres::{Exhaust, KillBackends, Restart};
    let full = [
        Restart(Stop::Fast),
        KillBackends,
        Exhaust,
        Restart(Stop::Immediate),
        KillBackends,
        KillBackends,
    ];
    let mut deck = Vec::new();
    while !stop.is_cancelled() {
        sleep(between_ms(&mut random, 1500, 6000)).await;
        if deck.is_empty() {
            deck = full.to_vec();
            deck.shuffle(&mut random);
        }
        match deck.pop() {
            Some(Restart(stop)) => {
                let away = between_ms(&mut random, 0, 2000);
                world.db.restart(stop, away).await;
                world.tally.add(match stop {
                    Stop::Fast => "attacks: Postgres restarted, fast",
                    Stop::Immediate => "attacks: Postgres restarted, immediate",
                });
            }
            Some(KillBackends) => {
                let killed = world.db.kill_backends(random.random_range(1..=12)).await;
                world.tally.add_many("attacks: backends killed", killed);
            }
            Some(Exhaust) => {
                let how_long = Duration::from_millis(random.random_range(1000..=4000));
                let taken = world.db.exhaust(how_long).await;
                world.tally.add_many("connections taken", taken);
                world.tally.add("attacks: connections exhausted");
            }
            None => {}
        }
    }
}
