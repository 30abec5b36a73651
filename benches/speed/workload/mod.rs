//! The workloads, in the order of the issue that asked for them.

pub mod two_step;
