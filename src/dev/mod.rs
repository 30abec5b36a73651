//! How to try Longhaul ALONE: an embedded Postgres, and a stand-in for the two outside services.

pub mod postgres;

pub mod sandbox;
