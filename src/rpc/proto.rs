//! The types that the proto generates; `convert` is the only place that turns them into the domain's and back.

#![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated code")]

tonic::include_proto!("longhaul.v1");

/// The descriptors of `longhaul.v1`, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("longhaul.v1");
