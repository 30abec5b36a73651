//! Compiles the proto with protox, so that no machine needs protoc, and keeps the descriptors for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script its folder this way")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=migrations");
    let descriptors = protox::compile(["longhaul/v1/job_service.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("longhaul.v1.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().generate_default_stubs(false).compile_fds(descriptors)?;
    Ok(())
}
