//! The README, held to its word: its examples run as pasted, and its tables name what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use longhaul::rpc::proto::JobStatus;

use crate::grpcurl::find_grpcurl;
use crate::harness::PATIENCE;
use crate::program::Program;
use crate::walk::{Walk, blocks, read};

/// The lines of all its blocks of shell.
fn shell_lines(readme: &str) -> Vec<String> {
    let blocks = blocks(readme).into_iter().filter(|block| block.info == "sh");
    blocks.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_readme_runs_as_pasted() {
    let grpcurl = find_grpcurl().await;
    let mut walk = Walk::begin(grpcurl.as_deref());
    walk.serve("longhaul dev --ready-file longhaul.json").await;
    walk.let_stand_for("/tmp/longhaul.json", "longhaul.json");
    let client = walk.client();
    let mut counts = BTreeMap::<String, u32>::new();
    for line in shell_lines(&read("README.md")) {
        let command = line.split_whitespace().next().unwrap_or_default();
        *counts.entry(command.to_owned()).or_default() += 1;
        match (command, &grpcurl) {
            ("grpcurl", Some(_)) => {
                let shown = walk.paste(&line).await;
                // One of them shows what a refusal looks like.
                let is_refused = line.contains(r#""prompt":"""#);
                let told = (shown.went_well, shown.text.contains("fieldViolations"));
                assert_eq!(told, (!is_refused, is_refused), "{line}\n{}", shown.text);
            }
            ("curl", _) => {
                let shown = walk.paste(&line).await;
                let is_ok = shown.went_well && shown.text.contains(r#""ok":true"#);
                assert!(is_ok, "{line}\n{}", shown.text);
                // The README asks for a moment's patience here.
                client.settled("demo-job-0001").await;
            }
            ("export", _) if !line.starts_with("export A=") => {}
            ("export" | "psql", _) => {
                let shown = walk.paste(&line).await;
                assert!(shown.went_well, "{line}\n{}", shown.text);
            }
            _ => {}
        }
    }
    let ran = ["grpcurl", "curl", "psql"].map(|command| counts.get(command).copied());
    assert!(ran.iter().all(Option::is_some), "examples are missing: {counts:?}");
    client.settled_as("demo-job-0001", JobStatus::Completed).await;
    if grpcurl.is_some() {
        client.settled_as("hello-1", JobStatus::Completed).await;
    }
    walk.end().await;
}

/// The names of variables of our own in a text; a file that holds one is the same.
fn variables(text: &str) -> BTreeSet<String> {
    let named = text.match_indices("LONGHAUL_").map(|(at, _)| {
        let is_name = |c: char| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit();
        text[at..].chars().take_while(|c| is_name(*c)).collect::<String>()
    });
    let named = named.map(|name| name.strip_suffix("_FILE").unwrap_or(&name).to_owned());
    named.filter(|name| !name.ends_with('_')).collect()
}

#[test]
fn the_example_configuration_names_every_variable_that_is_read_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = String::new();
    for room in ["config.rs", "config", "cli"] {
        for file in walkdir::WalkDir::new(root.join(room)).into_iter().map(Result::unwrap) {
            let is_source = file.path().extension().is_some_and(|kind| kind == "rs");
            // The tests of the configuration name what must not be there, too.
            if is_source && file.file_name() != "tests.rs" {
                sources += &fs::read_to_string(file.path()).unwrap();
            }
        }
    }
    let (known, told) = (variables(&sources), variables(&read(".env.example")));
    assert_eq!(known, told, "what is read, and what is told");
    let strangers: Vec<_> = variables(&read("README.md")).difference(&known).cloned().collect();
    assert_eq!(strangers, Vec::<String>::new(), "the README names what nobody reads");
}

/// The names of metrics that follow this in a text.
fn metrics(text: &str, before: &str) -> BTreeSet<String> {
    let before = format!("{before}longhaul.");
    let named = text.split(before.as_str()).skip(1).map(|rest| {
        let is_name = |c: &char| c.is_ascii_lowercase() || matches!(c, '_' | '.');
        format!("longhaul.{}", rest.chars().take_while(is_name).collect::<String>())
    });
    named.map(|name| name.trim_end_matches('.').to_owned()).collect()
}

#[test]
fn the_readme_lists_every_metric_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = walkdir::WalkDir::new(root.join("src")).into_iter().map(Result::unwrap);
    let sources = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "rs"));
    let sources: String = sources.map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    let told = ["gauge.", "monotonic_counter.", "histogram."].map(|kind| metrics(&sources, kind));
    let told: BTreeSet<String> = told.into_iter().flatten().collect();
    let readme = read("README.md");
    let table = readme.split("## Metrics").nth(1).unwrap().split("\n## ").next().unwrap();
    assert_eq!(metrics(table, "| `"), told, "what the table lists, and what the code tells");
}

#[tokio::test]
async fn the_readme_tells_the_same_exit_codes_and_commands_as_the_help() {
    let readme = read("README.md");
    let help = Program::run(&["--help"], &BTreeMap::new(), PATIENCE).await;
    let help = String::from_utf8(help.stdout).unwrap();
    let codes = help.lines().skip_while(|line| !line.starts_with("Exit codes")).skip(1);
    for line in codes {
        let (code, meaning) = line.trim().split_once("  ").unwrap_or_else(|| panic!("{line}"));
        let row = format!("| {code} | {meaning} |");
        assert!(readme.contains(&row), "the README lacks {row}");
    }
    let commands = help.lines().skip_while(|line| !line.starts_with("Commands")).skip(1);
    for line in commands.take_while(|line| !line.trim().is_empty()) {
        let name = line.split_whitespace().next().unwrap();
        let known = readme.contains(&format!("`longhaul {name}"))
            || readme.contains(&format!("`{name} JOB"));
        assert!(known || name == "help", "the README lacks `longhaul {name}`");
    }
}
