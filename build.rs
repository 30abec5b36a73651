//! Compiles the proto with protox, so that no machine needs protoc, and keeps the descriptors for reflection.
//!
//! The messages, with what their comments say, are also written as JSON: the `OpenAPI` document is made of them.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;
use prost_types::field_descriptor_proto::Label;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, MessageOptions,
};
use serde_json::{Map, Value, json};

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script its folder this way")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed=migrations");
    let descriptors = protox::compile(["longhaul/v1/job_service.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("longhaul.v1.bin"), descriptors.encode_to_vec())?;
    let (mut messages, mut enums) = (Map::new(), Map::new());
    for file in descriptors.file.iter().filter(|file| file.package() == "longhaul.v1") {
        for (at, message) in (0..).zip(&file.message_type) {
            messages.insert(message.name().to_owned(), describe_message(file, &[4, at], message));
        }
        for (at, one) in (0..).zip(&file.enum_type) {
            enums.insert(one.name().to_owned(), describe_enum(file, &[5, at], one));
        }
    }
    let contract = json!({"messages": messages, "enums": enums});
    fs::write(out.join("longhaul.v1.json"), contract.to_string())?;
    // Two bytes of a request can be a step: what they become is kept small until steps are counted.
    tonic_prost_build::configure()
        .generate_default_stubs(false)
        .boxed(".longhaul.v1.Step.kind.run")
        .boxed(".longhaul.v1.Step.kind.approval")
        .compile_fds(descriptors)?;
    Ok(())
}

/// What the comment before a part of a file says.
fn says(file: &FileDescriptorProto, path: &[i32]) -> String {
    let places = file.source_code_info.iter().flat_map(|info| &info.location);
    let place = places.into_iter().find(|place| place.path == path);
    let lines = place.map_or("", |place| place.leading_comments()).lines();
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n").trim().to_owned()
}

fn describe_message(file: &FileDescriptorProto, path: &[i32], message: &DescriptorProto) -> Value {
    let fields = (0..).zip(&message.field).map(|(at, field)| {
        let is_list = field.label() == Label::Repeated;
        let holds = holds(message, field);
        let is_map = holds == "map";
        let says = says(file, &[path, &[2, at]].concat());
        json!({"name": field.name(), "holds": holds, "list": is_list && !is_map, "says": says})
    });
    json!({"says": says(file, path), "fields": fields.collect::<Vec<_>>()})
}

/// The kind of a field, or the name of its message or enum.
fn holds(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let name = field.type_name().rsplit('.').next().unwrap_or_default();
    let is_map = message.nested_type.iter().any(|nested| {
        nested.name() == name && nested.options.as_ref().is_some_and(MessageOptions::map_entry)
    });
    match (is_map, name) {
        (true, _) => "map".to_owned(),
        (false, "") => format!("{:?}", field.r#type()).to_ascii_lowercase(),
        (false, name) => name.to_owned(),
    }
}

/// The words of an enum, as every face but gRPC has them.
fn describe_enum(file: &FileDescriptorProto, path: &[i32], one: &EnumDescriptorProto) -> Value {
    let mut prefix = String::new();
    for letter in one.name().chars() {
        if letter.is_ascii_uppercase() && !prefix.is_empty() {
            prefix.push('_');
        }
        prefix.push(letter.to_ascii_uppercase());
    }
    prefix.push('_');
    let words = (0..).zip(&one.value).filter(|(_, value)| value.number() != 0);
    let words = words.map(|(at, value)| {
        let word = value.name().strip_prefix(&prefix).unwrap_or(value.name());
        let says = says(file, &[path, &[2, at]].concat());
        json!({"word": word.to_ascii_lowercase(), "says": says})
    });
    json!({"says": says(file, path), "words": words.collect::<Vec<_>>()})
}
