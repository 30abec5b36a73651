//! The page about the gRPC API, made of the descriptors and their comments.

use std::fmt::Write as _;

use longhaul::rpc::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MessageOptions,
};

use super::prose;

const HEAD: &str = "# The gRPC API

Made from [the proto](../proto/longhaul/v1) by `scripts/generate-reference`; do not edit.
A server explains the same to tools by reflection: `grpcurl -plaintext localhost:50051 describe longhaul.v1.JobService`.
In JSON, names are in camelCase or as here, numbers of 64 bits are texts, and what has its default is left out.
";

pub(super) fn page() -> String {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut files: Vec<_> = set.file.iter().filter(|one| one.package() == "longhaul.v1").collect();
    // The service first, then what it speaks of, as a reader meets it.
    files.sort_by_key(|file| match file.name().rsplit('/').next() {
        Some("job_service.proto") => 0,
        Some("submission.proto") => 1,
        Some("job.proto") => 2,
        Some("event.proto") => 3,
        _ => 4,
    });
    let mut page = HEAD.to_owned();
    for file in &files {
        services(file, &mut page);
    }
    page.push_str("\n## Messages\n");
    for file in &files {
        messages(file, &mut page);
    }
    page.push_str("\n## Enums\n");
    for file in &files {
        enums(file, &mut page);
    }
    page
}

/// The comment before a part of a file, with what leads it on each line taken away.
fn says(file: &FileDescriptorProto, path: &[i32]) -> String {
    let places = file.source_code_info.iter().flat_map(|info| &info.location);
    let comment = places.into_iter().find(|place| place.path == path);
    let lines = comment.map_or("", |place| place.leading_comments()).lines();
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The last part of a type's full name, and a link to where it is told.
fn linked(name: &str) -> String {
    match name.strip_prefix(".longhaul.v1.") {
        Some(own) => format!("[{own}](#{})", own.to_lowercase()),
        None => name.trim_start_matches('.').to_owned(),
    }
}

fn services(file: &FileDescriptorProto, page: &mut String) {
    for (at, service) in (0..).zip(&file.service) {
        let _ =
            writeln!(page, "\n## {}\n\n{}", service.name(), prose(&says(file, &[6, at])).trim());
        for (number, method) in (0..).zip(&service.method) {
            let stream = if method.server_streaming() { "a stream of " } else { "" };
            let _ = writeln!(
                page,
                "\n### {}\n\nTakes {}, answers {stream}{}.\n\n{}",
                method.name(),
                linked(method.input_type()),
                linked(method.output_type()),
                prose(&says(file, &[6, at, 2, number])).trim()
            );
        }
    }
}

fn messages(file: &FileDescriptorProto, page: &mut String) {
    for (at, message) in (0..).zip(&file.message_type) {
        let _ =
            writeln!(page, "\n### {}\n\n{}\n", message.name(), prose(&says(file, &[4, at])).trim());
        for (number, field) in (0..).zip(&message.field) {
            let said = prose(&says(file, &[4, at, 2, number]));
            // What belongs to an entry of a list stands as far in as its text.
            let said = said.trim().replace('\n', "\n  ").replace("\n  \n", "\n\n");
            let kind = kind(message, field);
            let _ = writeln!(page, "- `{}` {kind}: {said}", field.name());
        }
    }
}

fn enums(file: &FileDescriptorProto, page: &mut String) {
    for (at, one) in (0..).zip(&file.enum_type) {
        let _ = writeln!(page, "\n### {}\n\n{}\n", one.name(), prose(&says(file, &[5, at])).trim());
        for (number, value) in (0..).zip(&one.value) {
            let said = prose(&says(file, &[5, at, 2, number])).trim().replace('\n', "\n  ");
            let _ = writeln!(page, "- `{}` ({}): {said}", value.name(), value.number());
        }
    }
}

/// What a field holds, in words.
fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let kind = field.r#type();
    let one = if matches!(kind, Type::Message | Type::Enum) {
        linked(field.type_name())
    } else {
        format!("{kind:?}").to_lowercase()
    };
    let entry = message.nested_type.iter().find(|nested| {
        nested.options.as_ref().is_some_and(MessageOptions::map_entry)
            && field.type_name().ends_with(&format!(".{}", nested.name()))
    });
    let held = match entry {
        Some(_) => "map of texts to texts".to_owned(),
        None if field.label() == Label::Repeated => format!("list of {one}"),
        None => one,
    };
    let group = field.oneof_index.filter(|_| !field.proto3_optional());
    match group.and_then(|index| message.oneof_decl.get(index as usize)) {
        Some(oneof) => format!("{held}, one of `{}`", oneof.name()),
        None if field.proto3_optional() => format!("{held}, optional"),
        None => held,
    }
}
