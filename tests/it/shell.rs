//! What shells and manuals get: completions that bash loads and asks, and pages that groff formats without a word.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Output, Stdio};

use tokio::process::Command;

use crate::harness::PATIENCE;
use crate::program::{Folder, Program};

async fn run(args: &[&str]) -> String {
    let output = Program::run(args, &BTreeMap::new(), PATIENCE).await;
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program that the machine may not have.
async fn find(program: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.ok()
}

#[tokio::test]
async fn bash_completes_commands_flags_and_values() {
    let folder = Folder::make();
    let script = folder.0.join("longhaul.bash");
    fs::write(&script, run(&["completions", "bash"]).await).unwrap();
    for (typed, offered) in [
        ("longhaul su", "submit"),
        ("longhaul submit --va", "--validate-only"),
        ("longhaul list -o y", "yaml"),
        ("longhaul key cr", "create"),
        ("longhaul profile us", "use"),
    ] {
        let words: Vec<&str> = typed.split(' ').collect();
        let last = words.len() - 1;
        let ask = format!(
            "set -e; . '{}'; COMP_WORDS=({typed}); COMP_CWORD={last}; \
             _longhaul longhaul '{}' '{}' || true; printf '%s\\n' \"${{COMPREPLY[@]}}\"; \
             compgen -W \"${{COMPREPLY[*]}}\" -- '{}'",
            script.display(),
            words[last],
            words[last - 1],
            words[last],
        );
        let output = find("bash", &["--norc", "-c", &ask]).await.expect("bash is there");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{typed}: {told}");
        assert!(
            told.lines().all(|line| line.starts_with(offered)) && !told.is_empty(),
            "{typed}: {told}"
        );
    }
    for shell in ["zsh", "fish", "powershell", "elvish"] {
        assert!(run(&["completions", shell]).await.contains("request-changes"), "{shell}");
    }
}

#[tokio::test]
async fn the_manual_has_a_page_for_each_command_and_groff_finds_nothing_to_say() {
    let folder = Folder::make();
    let to = folder.0.join("man1");
    let told = run(&["man", "--dir", to.to_str().unwrap()]).await;
    assert!(told.contains("pages are in"), "{told}");
    let main = run(&["man"]).await;
    assert!(main.contains("durable queue") && main.contains("Exit codes"), "{main}");
    for page in ["longhaul", "longhaul-submit", "longhaul-key-create", "longhaul-profile-set"] {
        assert!(to.join(format!("{page}.1")).exists(), "there is no page {page}");
    }
    for page in fs::read_dir(&to).unwrap() {
        let page = page.unwrap().path();
        let args = ["-man", "-ww", "-z", "-Tutf8", "-K", "utf8", page.to_str().unwrap()];
        // Not every machine has groff.
        let Some(output) = find("groff", &args).await else { return };
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{}: {told}", page.display());
    }
}
