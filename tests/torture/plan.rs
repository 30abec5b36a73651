//! What a run is asked to do, read from its arguments, and the chances it takes, all drawn from one seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// How long the short form lasts, which is part of all tests.
const SHORT: Duration = Duration::from_secs(40);

/// What a run is asked to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For how long servers are attacked.
    pub duration: Duration,
    /// Where every chance comes from.
    pub seed: u64,
    /// How many servers run.
    pub servers: usize,
    /// How many jobs a second are submitted.
    pub rate: f64,
    /// The lease in scenarios that measure how soon death is noticed.
    pub lease_seconds: u64,
    /// One scripted scenario instead.
    pub scenario: Option<String>,
    /// Whether this is the short form, with the fencing scenario after it.
    pub is_short: bool,
}

/// What to do with the arguments of the program.
pub enum Asked {
    /// Run this.
    Run(Plan),
    /// Nothing: another test was asked for by name.
    Skip,
    /// They make no sense.
    Wrong(String),
}

impl Plan {
    /// Reads the arguments; what the test runner of cargo would take is understood where it matters.
    pub fn read(arguments: impl Iterator<Item = String>) -> Asked {
        let mut plan = Self {
            duration: SHORT,
            seed: u64::from(rand::random::<u32>()),
            servers: 3,
            rate: 5.0,
            lease_seconds: 120,
            scenario: None,
            is_short: true,
        };
        let mut arguments = arguments;
        let mut others = Vec::new();
        while let Some(name) = arguments.next() {
            let mut number = || arguments.next().and_then(|text| text.parse::<f64>().ok());
            let known = match name.as_str() {
                "--minutes" => number().map(|minutes| {
                    plan.duration = Duration::from_secs_f64(minutes * 60.0);
                    plan.is_short = false;
                }),
                "--seed" => number().map(|seed| plan.seed = seed as u64),
                "--servers" => number().map(|servers| plan.servers = (servers as usize).max(2)),
                "--rate" => number().map(|rate| plan.rate = rate.max(0.1)),
                "--lease" => number().map(|seconds| plan.lease_seconds = (seconds as u64).max(1)),
                "--scenario" => arguments.next().map(|scenario| plan.scenario = Some(scenario)),
                "--list" => return Asked::Skip,
                other => {
                    others.push(other.to_owned());
                    Some(())
                }
            };
            if known.is_none() {
                return Asked::Wrong(format!("{name} needs a value"));
            }
        }
        let is_filter = |text: &&String| !text.starts_with('-');
        let is_other_test =
            others.iter().find(is_filter).is_some_and(|f| !"torture".contains(f.as_str()));
        if is_other_test { Asked::Skip } else { Asked::Run(plan) }
    }

    /// Where every chance comes from; each actor gets a fork, so that none moves what the others do.
    pub fn random(&self) -> StdRng {
        StdRng::seed_from_u64(self.seed)
    }
}

/// A source of its own for somebody who acts beside the owner of this one.
pub fn fork(random: &mut StdRng) -> StdRng {
    StdRng::seed_from_u64(random.random())
}

/// A random time between two, in milliseconds.
pub fn between_ms(random: &mut StdRng, least: u64, most: u64) -> Duration {
    Duration::from_millis(random.random_range(least..=most))
}
