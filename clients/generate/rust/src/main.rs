//! A protoc plugin: the Rust stubs of a client, made by tonic's generator.
//!
//! In comes a `CodeGeneratorRequest` on stdin, out goes a `CodeGeneratorResponse` on stdout.

use std::error::Error;
use std::fs;
use std::io::{Read as _, Write as _, stdin, stdout};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use prost_types::compiler::code_generator_response::{Feature, File};
use prost_types::compiler::{CodeGeneratorRequest, CodeGeneratorResponse};

fn main() -> Result<(), Box<dyn Error>> {
    let mut asked = Vec::new();
    stdin().read_to_end(&mut asked)?;
    let request = CodeGeneratorRequest::decode(asked.as_slice())?;
    let folder = tempfile::tempdir()?;
    tonic_prost_build::configure()
        .build_server(false)
        .emit_rerun_if_changed(false)
        .out_dir(folder.path())
        .compile_fds(FileDescriptorSet { file: request.proto_file })?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        files.push(File {
            name: Some(entry.file_name().to_string_lossy().into_owned()),
            content: Some(fs::read_to_string(entry.path())?),
            ..File::default()
        });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let supported_features = Some(Feature::Proto3Optional as u64);
    let response = CodeGeneratorResponse {
        file: files,
        supported_features,
        ..CodeGeneratorResponse::default()
    };
    Ok(stdout().write_all(&response.encode_to_vec())?)
}
