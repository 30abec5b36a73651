//! WHAT a job is: its identity, what is submitted, its states and transitions, its history.
//!
//! Everything here is pure: no I/O, no async, no clock.
//! What the rest of the system may do to a job is decided here, and only here.

pub mod id;

pub mod template;

pub mod language;

pub mod phone;

pub mod book;

pub mod submission;

pub mod validate;

pub mod spec;

pub mod job;

pub mod event;

pub mod state;

mod turn;

mod enter;

mod attempt;

mod control;

pub mod decide;

pub mod import;

pub mod remind;

pub mod approval;

pub mod probe;

pub mod explain;

pub mod reason;

pub mod key;

pub mod money;

pub mod word;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

#[cfg(test)]
mod laws;

#[cfg(test)]
mod protocol;
