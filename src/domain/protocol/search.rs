//! The search: every world that can be reached, each once, the nearest first, so that a counterexample is a shortest one.
//!
//! A world is stranded if no path of moves that need no fault and no person leads from it to an end;
//! that is decided at last, backwards from all ends.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::world::{Budget, Model, Move, World};

/// What the search has seen.
pub(super) struct Explored {
    pub(super) worlds: usize,
    moves: usize,
    depth: usize,
    pub(super) counterexample: Option<Counterexample>,
}

/// A rule that does not hold, and the shortest way there.
pub(super) struct Counterexample {
    pub(super) rule: &'static str,
    path: Vec<Move>,
}

/// How a world was first reached.
struct Visit {
    from: Option<(usize, Move)>,
    depth: usize,
    is_end: bool,
}

/// Visits everything.
pub(super) fn explore(model: &Model, budget: Budget) -> Explored {
    let first = World::new(model, budget);
    let mut visits = vec![Visit { from: None, depth: 0, is_end: first.is_at_an_end() }];
    let mut known = HashMap::from([(first.clone(), 0)]);
    let mut waiting = VecDeque::from([(0, first)]);
    // For each world those from which a move without fault or person leads to it.
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut moves = 0;
    while let Some((at, world)) = waiting.pop_front() {
        let depth = visits[at].depth + 1;
        for step in world.moves() {
            let next = match world.after(model, step) {
                Ok(Some(next)) => next,
                Ok(None) => continue,
                Err(rule) => {
                    let path = path(&visits, at, Some(step));
                    return explored(&visits, moves, Some(Counterexample { rule, path }));
                }
            };
            moves += 1;
            let is_fair = next.budget == world.budget && !step.is_thaw();
            let to = *known.entry(next).or_insert_with_key(|next| {
                visits.push(Visit { from: Some((at, step)), depth, is_end: next.is_at_an_end() });
                before.push(Vec::new());
                waiting.push_back((visits.len() - 1, next.clone()));
                visits.len() - 1
            });
            if is_fair {
                before[to].push(at);
            }
        }
    }
    let stranded = find_stranded(&visits, &before).map(|at| Counterexample {
        rule: "the job can never reach an end",
        path: path(&visits, at, None),
    });
    explored(&visits, moves, stranded)
}

/// The nearest world from which no end can be reached.
fn find_stranded(visits: &[Visit], before: &[Vec<usize>]) -> Option<usize> {
    let mut can_end: Vec<bool> = visits.iter().map(|visit| visit.is_end).collect();
    let mut waiting: Vec<usize> = (0..visits.len()).filter(|at| can_end[*at]).collect();
    while let Some(at) = waiting.pop() {
        for earlier in &before[at] {
            if !std::mem::replace(&mut can_end[*earlier], true) {
                waiting.push(*earlier);
            }
        }
    }
    can_end.iter().position(|can_end| !can_end)
}

fn path(visits: &[Visit], at: usize, last: Option<Move>) -> Vec<Move> {
    let back = std::iter::successors(visits[at].from, |(at, _)| visits[*at].from);
    let mut path: Vec<Move> = last.into_iter().chain(back.map(|(_, step)| step)).collect();
    path.reverse();
    path
}

fn explored(visits: &[Visit], moves: usize, counterexample: Option<Counterexample>) -> Explored {
    let depth = visits.iter().map(|visit| visit.depth).max().unwrap_or(0);
    Explored { worlds: visits.len(), moves, depth, counterexample }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worlds, moves, depth, .. } = self;
        writeln!(f, "{worlds} worlds, {moves} moves, at most {depth} moves from the first")?;
        let Some(found) = &self.counterexample else { return Ok(()) };
        writeln!(f, "{}:", found.rule)?;
        found.path.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}
