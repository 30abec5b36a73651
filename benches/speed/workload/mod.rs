//! The workloads, each a part of the report; the letters are those of the table in the report.

pub mod two_step;

pub mod idle;

pub mod backlog;

mod pile;

pub mod long;

pub mod watchers;

pub mod servers;

pub mod streams;

pub mod snapshot;
