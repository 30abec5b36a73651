//! What the demo tells as it goes, and what it holds the system to.
//!
//! In come claims and whether each held; out go lines that a person reads along, and at the end a verdict.
//! A claim that did not hold is told with what was seen instead, and is never forgotten.

use std::{
    io::{self, Write as _},
    time::Instant,
};

use anyhow::Result;

use crate::cli::render::{Paint, pad, width};

/// The column in which details begin.
const DETAILS: usize = 58;

/// The demo's voice and memory.
#[derive(Debug)]
pub struct Checks {
    paint: Paint,
    began: Instant,
    exercises: usize,
    held: usize,
    failed: usize,
}

impl Checks {
    /// Begins to count.
    pub fn begin() -> Self {
        let paint = Paint::for_stdout();
        Self { paint, began: Instant::now(), exercises: 0, held: 0, failed: 0 }
    }

    /// Opens the next exercise: its name, and what it shows in a line or two.
    pub fn exercise(&mut self, name: &str, shows: &[&str]) -> Result<()> {
        self.exercises += 1;
        let mut out = io::stdout().lock();
        writeln!(out, "\n{}", self.paint.bold(&format!("{}. {name}", self.exercises)))?;
        for line in shows {
            writeln!(out, "   {}", self.paint.dim(line))?;
        }
        Ok(())
    }

    /// Tells a claim, whether it held, and what was seen.
    pub fn expect(&mut self, claim: &str, held: bool, seen: &str) -> Result<()> {
        if held {
            self.held += 1;
        } else {
            self.failed += 1;
        }
        writeln!(io::stdout(), "{}", line(claim, held, seen, self.paint))?;
        Ok(())
    }

    /// Tells that an exercise broke off.
    pub fn broke_off(&mut self, error: &anyhow::Error) -> Result<()> {
        self.expect("the exercise runs to its end", false, &format!("{error:#}"))
    }

    /// Tells the verdict and says whether everything held.
    pub fn end(&self) -> Result<bool> {
        let seconds = self.began.elapsed().as_secs_f64();
        let total = self.held + self.failed;
        let verdict = if self.failed == 0 {
            let exercises = self.exercises;
            self.paint.green(&format!(
                "All {exercises} exercises held: {total} checks in {seconds:.1} s."
            ))
        } else {
            self.paint.red(&format!("{} of {total} checks did not hold.", self.failed))
        };
        writeln!(io::stdout(), "\n{verdict}")?;
        Ok(self.failed == 0)
    }
}

fn line(claim: &str, held: bool, seen: &str, paint: Paint) -> String {
    let mark = if held { paint.green("✓") } else { paint.red("✗") };
    let gap = if width(claim) < DETAILS { pad(claim, DETAILS) } else { format!("{claim}  ") };
    match (held, seen) {
        (_, "") => format!("   {mark} {claim}"),
        (true, seen) => format!("   {mark} {gap}{}", paint.dim(seen)),
        (false, seen) => format!("   {mark} {gap}{}", paint.red(&format!("saw: {seen}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_line_up_and_a_broken_claim_says_what_was_seen() {
        let told = |claim, held, seen| line(claim, held, seen, Paint::plain());
        assert_eq!(told("it holds", true, ""), "   ✓ it holds");
        let good = told("记账 holds", true, "yes");
        let bad = told("it holds", false, "no");
        assert_eq!(width(good.strip_suffix("yes").expect("the end")), DETAILS + 5);
        assert!(bad.contains('✗') && bad.ends_with("saw: no"));
    }
}
