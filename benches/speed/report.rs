//! What was measured: figures with every round of theirs, and what they have to show.
//!
//! A figure is the median of its rounds with the lowest and the highest; a demand compares one with a limit.
//! The same goes to the screen as a table and to a file as JSON.

use serde::Serialize;

use crate::machine::Machine;

/// Everything of one run.
#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    pub quick: bool,
    pub parts: Vec<Part>,
}

/// One workload.
#[derive(Default, Serialize)]
pub struct Part {
    pub name: &'static str,
    pub about: String,
    pub figures: Vec<Figure>,
    pub demands: Vec<Demand>,
    /// Why it was not measured to its end.
    pub failure: Option<String>,
}

/// One thing that was measured, in each round.
#[derive(Clone, Serialize)]
pub struct Figure {
    pub what: String,
    pub unit: &'static str,
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
    pub rounds: Vec<f64>,
}

/// What a figure has to show.
#[derive(Serialize)]
pub struct Demand {
    pub what: String,
    pub found: f64,
    pub limit: f64,
    pub is_floor: bool,
    pub holds: bool,
}

impl Report {
    /// Prints what everything had to show; answers whether it did.
    pub fn conclude(&self) -> bool {
        println!("== What it has to show");
        for part in &self.parts {
            part.demands.iter().for_each(|demand| println!("   {demand}"));
            if let Some(failure) = &part.failure {
                println!("   {}, FAILED: {failure}", part.name);
            }
        }
        let holds = |part: &Part| part.demands.iter().all(|demand| demand.holds);
        self.parts.iter().all(|part| holds(part) && part.failure.is_none())
    }
}

impl Part {
    /// Announces a workload.
    pub fn new(name: &'static str, about: impl Into<String>) -> Self {
        let about = about.into();
        println!("== {name}: {about}");
        Self { name, about, ..Self::default() }
    }

    /// What is left of a workload that could not be measured.
    pub fn failed(name: &'static str, error: &anyhow::Error) -> Self {
        let failure = format!("{error:#}");
        println!("   FAILED: {failure}");
        Self { name, failure: Some(failure), ..Self::default() }
    }

    /// Adds a figure, unless there were no rounds; answers its median.
    pub fn figure(&mut self, what: impl Into<String>, unit: &'static str, rounds: &[f64]) -> f64 {
        let figure = Figure::new(what, unit, rounds);
        let median = figure.median;
        println!("   {figure}");
        self.figures.push(figure);
        median
    }

    /// At least so much.
    pub fn at_least(&mut self, what: impl Into<String>, found: f64, limit: f64) {
        self.demand(what.into(), found, limit, true);
    }

    /// At most so much.
    pub fn at_most(&mut self, what: impl Into<String>, found: f64, limit: f64) {
        self.demand(what.into(), found, limit, false);
    }

    fn demand(&mut self, what: String, found: f64, limit: f64, is_floor: bool) {
        let holds = if is_floor { found >= limit } else { found <= limit };
        let demand = Demand { what, found, limit, is_floor, holds };
        println!("   {demand}");
        self.demands.push(demand);
    }
}

impl Figure {
    fn new(what: impl Into<String>, unit: &'static str, rounds: &[f64]) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            what: what.into(),
            unit,
            median: quantile(&sorted, 0.5),
            lowest: quantile(&sorted, 0.0),
            highest: quantile(&sorted, 1.0),
            rounds: rounds.to_vec(),
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, unit, median, lowest, highest, rounds } = self;
        let (median, lowest, highest) = (round(*median), round(*lowest), round(*highest));
        write!(f, "{what:52} {median:>10} {unit:8}")?;
        let count = rounds.len();
        if count > 1 { write!(f, " {lowest:>10} to {highest:>10} of {count}") } else { Ok(()) }
    }
}

impl std::fmt::Display for Demand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.is_floor { "at least" } else { "at most" };
        let (found, limit) = (round(self.found), round(self.limit));
        let verdict = if self.holds { "holds" } else { "DOES NOT HOLD" };
        write!(f, "{:52} {found:>10} {word:8} {limit:>8}: {verdict}", self.what)
    }
}

/// Three digits that say something.
fn round(value: f64) -> String {
    match value.abs() {
        small if small < 1.0 => format!("{value:.3}"),
        small if small < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

/// The value below which such a part of the sorted values lies.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * part).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The median of values in any order.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}
