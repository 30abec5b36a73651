//! The reference pages are what the proto and a server say; `scripts/generate-reference` writes them anew.

mod grpc;
mod http;

use std::path::Path;

use crate::harness::Rig;

/// Asserts that a page of the documentation is as it should be, or writes it.
fn assert_page(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    if std::env::var_os("LONGHAUL_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (written, expected) = (lines(&written), lines(expected));
    for (number, (is, ought)) in written.iter().zip(&expected).enumerate() {
        assert_eq!(is, ought, "line {} of {name}: run scripts/generate-reference", number + 1);
    }
    assert_eq!(written.len(), expected.len(), "{name}: run scripts/generate-reference");
}

#[test]
fn the_page_about_grpc_is_what_the_proto_says() {
    assert_page("reference-grpc.md", &grpc::page());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_http_is_what_a_server_says() {
    let rig = Rig::start().await;
    let answer = rig.http.get(format!("{}/openapi.json", rig.http_url)).send().await.unwrap();
    assert_page("reference-http.md", &http::page(&answer.json().await.unwrap()));
}

/// A comment as Markdown: lines that stand further in are shown as they are.
fn prose(comment: &str) -> String {
    let mut text = String::new();
    let mut was_code = false;
    for line in comment.trim().lines() {
        let is_code = line.starts_with("  ");
        if is_code != was_code && !text.is_empty() && !text.ends_with("\n\n") {
            text.push('\n');
        }
        text.push_str(if is_code { "    " } else { "" });
        text.push_str(line.trim_end().strip_prefix("  ").unwrap_or(line));
        text.push('\n');
        was_code = is_code;
    }
    text
}

#[test]
fn what_stands_further_in_becomes_an_example() {
    let comment = "One thing.\nAnother.\n\n  grpcurl -d '{}'\n    more\nThe end.";
    assert_eq!(
        prose(comment),
        "One thing.\nAnother.\n\n    grpcurl -d '{}'\n      more\n\nThe end.\n"
    );
}
