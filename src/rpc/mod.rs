//! How PROGRAMS reach it: the gRPC face.

pub mod proto;
