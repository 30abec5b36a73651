//! Longhaul is a durable queue for long AI jobs that pause, wait for a human, and survive crashes.
//!
//! The modules stand in the order in which they build on each other: each names only those before it.

#[cfg(all(feature = "without_fencing", not(debug_assertions)))]
compile_error!("`without_fencing` lets stale executors write; it is for the torture tests alone");

/// WHAT a job is: its states and what moves it between them. Pure.
pub mod domain;

/// What the system tells of itself: logs, traces, and how a job's trace travels with it.
pub mod telemetry;

/// WHERE a job is kept: Postgres, and the only SQL.
pub mod store;

/// WHO thinks: the client of the model provider, and what its answers cost.
pub mod model;

/// WHO moves a job: submits, controls, executors, sweepers.
pub mod engine;

/// WHO is told: notices to people, and the channels that carry them.
pub mod notify;

/// WHO may come in: keys, and what stands before both faces.
pub mod door;

/// How PROGRAMS reach it: the gRPC face.
pub mod rpc;

/// How PEOPLE reach it: the webhooks and the approval page.
pub mod web;

/// How to try it ALONE: an embedded Postgres, and a stand-in for the outside services.
pub mod dev;

/// What is configured, from the environment.
pub mod config;

/// The whole server: everything built bottom-up, run, and drained.
pub mod server;

/// The command line.
pub mod cli;
