//! The README, held to its word: its examples run as pasted, and its tables name what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use longhaul::rpc::proto::JobStatus;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::process::Command;

use crate::grpcurl::find_grpcurl;
use crate::harness::PATIENCE;
use crate::program::{Folder, Program};

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The lines of all its blocks of shell.
fn shell_lines(readme: &str) -> Vec<&str> {
    let blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).collect()
}

/// `longhaul dev` as the README starts it, on free ports and in a folder of its own.
struct Dev {
    program: Program,
    /// Lines that later lines need.
    exports: String,
    _data: Folder,
}

impl Dev {
    async fn start() -> Self {
        // Not below the folder that holds the ready file: Postgres belongs to another user here.
        let data = Folder::make();
        let folder = data.0.to_str().unwrap();
        let any = "127.0.0.1:0";
        let args = ["dev", "--grpc-addr", any, "--http-addr", any, "--sandbox-addr", any];
        let args = [&args[..], &["--data-dir", folder]].concat();
        let program = Program::start(&args, &BTreeMap::new()).await;
        Self { program, exports: String::new(), _data: data }
    }

    /// The line with the addresses that this one has.
    fn here(&self, line: &str) -> String {
        let host = |face| self.program.address(face).trim_start_matches("http://").to_owned();
        line.replace("127.0.0.1:50051", &host("grpc")).replace("127.0.0.1:8080", &host("http"))
    }

    async fn paste(&self, line: &str) -> Output {
        let script = format!("{}{}", self.exports, self.here(line));
        let mut shell = Command::new("sh");
        shell.args(["-euc", &script]).stdin(Stdio::null()).kill_on_drop(true);
        tokio::time::timeout(PATIENCE, shell.output()).await.expect("an example ends").unwrap()
    }

    /// Runs the statement of a psql example.
    async fn query(&self, line: &str) -> u64 {
        let (_, statement) = line.split_once("-c \"").unwrap();
        let statement = statement.strip_suffix('"').unwrap().to_owned();
        let mut connection =
            PgConnection::connect(self.program.address("database_url")).await.unwrap();
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        done.rows_affected()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_readme_runs_as_pasted() {
    let readme = read("README.md");
    let has_grpcurl = find_grpcurl().await;
    let mut dev = Dev::start().await;
    let client = dev.program.client();
    let mut counts = BTreeMap::<&str, u32>::new();
    for line in shell_lines(&readme) {
        let command = line.split_whitespace().next().unwrap_or_default();
        *counts.entry(command).or_default() += 1;
        match (command, &has_grpcurl) {
            ("export", _) if line.starts_with("export A=") => {
                dev.exports = dev.here(line) + "\n";
            }
            ("grpcurl", Some(grpcurl)) => {
                let output = dev.paste(&line.replacen("grpcurl", grpcurl, 1)).await;
                let errors = String::from_utf8_lossy(&output.stderr);
                // One of them shows what a refusal looks like.
                let is_refused = line.contains(r#""prompt":"""#);
                assert_eq!(output.status.success(), !is_refused, "{line}\n{errors}");
                assert_eq!(errors.contains("fieldViolations"), is_refused, "{line}\n{errors}");
            }
            ("curl", _) => {
                let output = dev.paste(line).await;
                let told = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success() && told.contains(r#""ok":true"#), "{line}\n{told}");
                // The README asks for a moment's patience here.
                client.settled("demo-job-0001").await;
            }
            ("psql", _) => {
                dev.query(line).await;
            }
            _ => {}
        }
    }
    let ran = ["grpcurl", "curl", "psql"].map(|command| counts.get(command).copied());
    assert!(ran.iter().all(Option::is_some), "examples are missing: {counts:?}");
    client.settled_as("demo-job-0001", JobStatus::Completed).await;
    if has_grpcurl.is_some() {
        client.settled_as("hello-1", JobStatus::Completed).await;
    }
    dev.program.stop().await;
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
