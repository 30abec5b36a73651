//! Longhaul is a durable queue for long AI jobs that pause, wait for a human, and survive crashes.
//!
//! The modules stand in the order in which they build on each other: each names only those before it.

/// How PROGRAMS reach it: the gRPC face.
pub mod rpc;
