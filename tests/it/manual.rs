//! docs/cli.md, held to its word: its commands run as pasted, say what it shows, and end with the codes of its table.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::process::Command;

use crate::harness::{PATIENCE, Rig};
use crate::program::{Folder, Program, SERVE};

fn manual() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md")).unwrap()
}

/// The blocks of a page with their languages.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("\n```").skip(1);
    let mut blocks = Vec::new();
    while let (Some(block), Some(_prose)) = (parts.next(), parts.next()) {
        blocks.push(block.split_once('\n').unwrap());
    }
    blocks
}

/// A user's shell beside a server.
struct Desk {
    _rig: Rig,
    server: Program,
    folder: Folder,
}

impl Desk {
    async fn open() -> Self {
        let rig = Rig::without_server(&[]).await;
        let server = Program::start(&SERVE, rig.variables()).await;
        Self { _rig: rig, server, folder: Folder::make() }
    }

    async fn paste(&self, line: &str) -> Output {
        let here = self.server.address("grpc");
        let line = line.replace("127.0.0.1:50051", here);
        let home = self.folder.0.to_str().unwrap();
        let bin = Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap().to_str().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let path = format!("{bin}:{}", path.to_str().unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-euc", &line]).current_dir(home).env_clear();
        shell.envs([("HOME", home), ("PATH", &path), ("LONGHAUL_SERVER", here)]);
        shell.envs([("NO_PROXY", "127.0.0.1"), ("LC_ALL", "C.UTF-8")]);
        shell.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, shell.output()).await;
        output.unwrap_or_else(|_| panic!("{line} does not end")).unwrap()
    }

    /// Runs what stands behind a prompt, and finds what stands below it.
    async fn converse(&self, block: &str) {
        for turn in block.split("$ ").filter(|turn| !turn.is_empty()) {
            let (line, told) = turn.split_once('\n').unwrap();
            let output = self.paste(&format!("{line} 2>&1")).await;
            assert_eq!(
                String::from_utf8(output.stdout).unwrap().trim_end(),
                told.trim_end(),
                "{line}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_manual_runs_as_pasted_and_says_what_is_shown() {
    let (page, desk) = (manual(), Desk::open().await);
    let mut count = 0;
    for (language, block) in blocks(&page) {
        match language {
            "yaml" => {
                let (name, _) = block.strip_prefix("# ").unwrap().split_once('\n').unwrap();
                fs::write(desk.folder.0.join(name), block).unwrap();
            }
            "sh" => {
                for line in block.lines() {
                    let output = desk.paste(line).await;
                    let told = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{line}\n{told}");
                    count += 1;
                }
            }
            "console" => desk.converse(block).await,
            "toml" => {
                let file = desk.folder.0.join("as-shown.toml");
                fs::write(&file, block).unwrap();
                let listed = desk.paste("longhaul profile list --profiles as-shown.toml").await;
                assert!(listed.status.success(), "{listed:?}");
            }
            "text" => {}
            other => panic!("nothing is known of a block of {other}"),
        }
    }
    assert!(count >= 20, "there are only {count} commands");
    desk.server.stop().await;
}

#[tokio::test]
async fn the_manual_tells_the_same_exit_codes_as_the_help() {
    let help = Program::run(&["--help"], &BTreeMap::new(), PATIENCE).await;
    let help = String::from_utf8(help.stdout).unwrap();
    let codes = help.lines().skip_while(|line| !line.starts_with("Exit codes")).skip(1);
    let codes: Vec<String> = codes
        .map(|line| line.trim().split_once("  ").unwrap())
        .map(|(code, meaning)| format!("| {code} | {meaning} |"))
        .collect();
    let page = manual();
    let section = page.split("\n## Exit codes\n").nth(1).unwrap();
    let table = section.split("|---|---|\n").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows, codes);
}
