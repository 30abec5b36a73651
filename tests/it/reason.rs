//! Reasons: the proto's comments and the README tell the same closed list that both faces use.

use longhaul::domain::reason::{Faces, Reason};
use longhaul::rpc::convert::status;
use longhaul::web;

const PROTO: &str = include_str!("../../proto/longhaul/v1/job_service.proto");
const README: &str = include_str!("../../README.md");

/// The HTTP statuses of a reason: its own first, then those that say more exactly what is wrong with a request.
fn http_codes(reason: Reason) -> String {
    let own = web::code_of(reason).as_u16();
    if reason == Reason::InvalidRequest { format!("{own}, 413, 415") } else { own.to_string() }
}

/// The gRPC code of a reason as the protocol writes it.
fn grpc_code(reason: Reason) -> String {
    let mut name = String::new();
    for char in format!("{:?}", status::code_of(reason)).chars() {
        if char.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(char.to_ascii_uppercase());
    }
    name
}

#[test]
fn the_proto_tells_each_reason_of_grpc_with_its_code_and_no_other() {
    let (_, list) = PROTO.split_once("The reason of the ErrorInfo is one of:").unwrap();
    let lines = list.lines().map(|line| line.trim_start_matches("//").trim());
    let lines =
        lines.skip_while(|line| line.is_empty()).take_while(|line| !line.contains("service"));
    let told: Vec<(String, String)> = lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let told = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
            assert!(words.next().is_some(), "{line}: what does it mean?");
            told
        })
        .collect();
    let used = Reason::ALL.iter().filter(|reason| reason.faces() != Faces::Http);
    let used: Vec<_> = used.map(|reason| (reason.word().to_owned(), grpc_code(*reason))).collect();
    assert_eq!(told, used);
}

#[test]
fn the_readme_tells_each_reason_with_its_codes_and_no_other() {
    let (_, table) = README.split_once("| reason | gRPC | HTTP | what to do |\n").unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let told: Vec<[String; 3]> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 4, "{row}");
            assert!(!cells[3].is_empty(), "{row}: what is to be done?");
            [cells[0].trim_matches('`'), cells[1], cells[2]].map(str::to_owned)
        })
        .collect();
    let used: Vec<[String; 3]> = Reason::ALL
        .iter()
        .map(|reason| {
            let never = || "–".to_owned();
            let (grpc, http) = match reason.faces() {
                Faces::Both => (grpc_code(*reason), http_codes(*reason)),
                Faces::Grpc => (grpc_code(*reason), never()),
                Faces::Http => (never(), http_codes(*reason)),
            };
            [reason.word().to_owned(), grpc, http]
        })
        .collect();
    assert_eq!(told, used);
}
