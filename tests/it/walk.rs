//! A walk through a document: its blocks of shell run as pasted, in order, in one folder, as by a person with terminals.
//!
//! In come a document and what its addresses stand for here; out comes what a terminal would have shown, with the
//! document's addresses in it again. Servers get free ports, whatever the document says, and end with the walk.
//! What one block sets, the next ones have; a block that serves has a terminal of its own, and has nothing of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::harness::{Client, PATIENCE};
use crate::program::{Folder, START, apart};

/// The faces of a server: in its ready file, as a variable, and where documents find them.
const FACES: [(&str, &str, &str); 3] = [
    ("grpc", "LONGHAUL_GRPC_ADDR", "127.0.0.1:50051"),
    ("http", "LONGHAUL_HTTP_ADDR", "127.0.0.1:8080"),
    ("sandbox", "LONGHAUL_SANDBOX_ADDR", "127.0.0.1:8090"),
];
const ANY: &str = "127.0.0.1:0";
/// Stands for whatever differs from run to run: within a line, or as a line of its own for any lines.
const ANYTHING: char = '…';

/// A fenced block of a document.
#[derive(Debug)]
pub struct Block {
    /// Where it begins.
    pub line: usize,
    /// What stands behind its fence: `sh`, `sh serves`, `text`.
    pub info: String,
    pub text: String,
    /// Whether nothing but empty lines lies between the block before and this one.
    pub follows: bool,
}

/// A person's folder and terminals.
pub struct Walk {
    folder: Folder,
    /// The folder of a Postgres, which belongs to another user here: not below that one.
    data: Folder,
    stand_ins: BTreeMap<String, String>,
    servers: Vec<Server>,
}

struct Server {
    shell: Child,
    pid: Pid,
}

/// What a terminal shows of a block.
#[derive(Debug)]
pub struct Shown {
    pub went_well: bool,
    pub text: String,
}

/// A document of this repository.
pub fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The fenced blocks of a document.
pub fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::<Block>::new();
    let (mut is_open, mut is_near) = (false, false);
    for (at, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), is_open) {
            (Some(info), false) => {
                let info = info.to_owned();
                found.push(Block { line: at + 1, info, text: String::new(), follows: is_near });
                is_open = true;
            }
            (Some(_), true) => (is_open, is_near) = (false, true),
            (None, true) => {
                let text = &mut found.last_mut().expect("one is open").text;
                text.push_str(line);
                text.push('\n');
            }
            (None, false) => is_near &= line.is_empty(),
        }
    }
    found
}

impl Walk {
    /// Begins one, with the program and, if there is one, grpcurl on its path.
    pub fn begin(grpcurl: Option<&str>) -> Self {
        let (folder, data) = (Folder::make(), Folder::make());
        let bin = folder.0.join(".bin");
        fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_longhaul"), bin.join("longhaul")).unwrap();
        if let Some(grpcurl) = grpcurl.filter(|path| path.contains('/')) {
            symlink(fs::canonicalize(grpcurl).unwrap(), bin.join("grpcurl")).unwrap();
        }
        Self { folder, data, stand_ins: BTreeMap::new(), servers: Vec::new() }
    }

    /// What a document names is something else here.
    pub fn let_stand_for(&mut self, named: &str, here: &str) {
        self.stand_ins.insert(named.to_owned(), here.to_owned());
    }

    /// Runs what serves in a terminal of its own, until the end of the walk.
    pub async fn serve(&mut self, script: &str) {
        let mut words = script.split_whitespace();
        words.find(|word| *word == "--ready-file").expect("it says when it serves");
        let ready_file = self.folder.0.join(words.next().unwrap().trim_matches('"'));
        let (mut own, mut addresses) = (self.here(script), String::new());
        for (_, variable, _) in FACES {
            addresses.extend(["export ", variable, "=", ANY, "; "]);
            if let Some(named) = find_named(script, variable) {
                own = own.replace(named, ANY);
            }
        }
        let number = self.servers.len();
        let log = self.folder.0.join(format!(".log-{number}"));
        let output = File::create(&log).unwrap();
        let mut shell = self.shell(&format!("{addresses}{own}"));
        shell.env("LONGHAUL_DATA_DIR", &self.data.0);
        shell.stdout(output.try_clone().unwrap()).stderr(output);
        let mut shell = shell.spawn().unwrap();
        let wait = async {
            // A file wakes nobody.
            let mut look = tokio::time::interval(Duration::from_millis(5));
            while !ready_file.exists() && shell.try_wait().unwrap().is_none() {
                look.tick().await;
            }
        };
        let _ = tokio::time::timeout(START, wait).await;
        let ready = fs::read(&ready_file).unwrap_or_else(|_| {
            panic!("{script} did not start: {}", fs::read_to_string(&log).unwrap_or_default())
        });
        let ready: Value = serde_json::from_slice(&ready).unwrap();
        let pid = i32::try_from(ready["pid"].as_i64().unwrap()).unwrap();
        self.servers.push(Server { shell, pid: Pid::from_raw(pid) });
        for (face, variable, default) in FACES {
            if let Some(here) = ready[face].as_str() {
                let host = here.rsplit('/').next().unwrap();
                self.let_stand_for(find_named(script, variable).unwrap_or(default), host);
            }
        }
    }

    /// Pastes a block, and returns when it has ended.
    pub async fn paste(&self, script: &str) -> Shown {
        let mut before = String::new();
        let address = |named: &str| self.stand_ins.get(named).map(String::as_str);
        if let Some(grpc) = address(FACES[0].2) {
            before.extend(["export LONGHAUL_SERVER=http://", grpc, "\n"]);
        }
        before += "[ ! -e .state ] || . ./.state\n";
        for (_, variable, named) in FACES {
            if let Some(here) = address(named) {
                before.extend(["export ", variable, "=", here, "\n"]);
            }
        }
        let script = format!("exec 2>&1\n{before}{}\nexport -p > .state\n", self.here(script));
        let mut shell = self.shell(&script);
        shell.stdout(Stdio::piped());
        let output = tokio::time::timeout(PATIENCE * 3, shell.output()).await;
        let output = output.unwrap_or_else(|_| panic!("it does not end: {script}")).unwrap();
        let mut text = String::from_utf8(output.stdout).unwrap();
        for (named, here) in &self.stand_ins {
            text = text.replace(here, named);
        }
        Shown { went_well: output.status.success(), text }
    }

    /// A client of the server that the documents have at the usual place.
    pub fn client(&self) -> Client {
        // Only the first of a process counts; the others find theirs installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let [grpc, http, _] = FACES.map(|(_, _, named)| self.stand_ins[named].as_str());
        Client::new(grpc, format!("http://{http}"))
    }

    /// Stops what serves, and waits for it.
    pub async fn end(mut self) {
        for mut server in std::mem::take(&mut self.servers) {
            if server.shell.try_wait().unwrap().is_none() {
                kill(server.pid, Signal::SIGTERM).unwrap();
                let ended = tokio::time::timeout(START, server.shell.wait()).await;
                assert!(ended.expect("a server stops in time").unwrap().success());
            }
        }
    }

    fn here(&self, text: &str) -> String {
        self.stand_ins.iter().fold(text.to_owned(), |text, (named, here)| text.replace(named, here))
    }

    fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        let script = format!("set -eua\nPATH=\"$PWD/.bin:$PATH\"\n{script}");
        shell.args(["-c", &script]).current_dir(&self.folder.0).process_group(0);
        apart(&mut shell);
        shell
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        for server in &self.servers {
            if let Some(group) = server.shell.id() {
                let _ = killpg(Pid::from_raw(group.cast_signed()), Signal::SIGKILL);
            }
        }
    }
}

/// What a script sets a variable to.
fn find_named<'a>(script: &'a str, variable: &str) -> Option<&'a str> {
    let (_, behind) = script.split_once(&format!("{variable}="))?;
    behind.split_whitespace().next()
}

/// Whether a terminal shows what a document says it does.
pub fn fits(told: &str, shown: &str) -> bool {
    let lines = |text: &'_ str| text.lines().map(|line| line.trim_end().to_owned()).collect();
    let (told, shown): (Vec<String>, Vec<String>) = (lines(told), lines(shown));
    lines_fit(&told, &shown)
}

fn lines_fit(told: &[String], shown: &[String]) -> bool {
    let Some((line, rest)) = told.split_first() else { return shown.is_empty() };
    if line.chars().eq([ANYTHING]) {
        return (0..=shown.len()).any(|passed| lines_fit(rest, &shown[passed..]));
    }
    let Some((first, others)) = shown.split_first() else { return false };
    line_fits(line, first) && lines_fit(rest, others)
}

fn line_fits(told: &str, shown: &str) -> bool {
    let Some((before, told)) = told.split_once(ANYTHING) else { return told == shown };
    let Some(mut shown) = shown.strip_prefix(before) else { return false };
    let (between, last) = told.rsplit_once(ANYTHING).unwrap_or(("", told));
    for part in between.split(ANYTHING) {
        let Some((_, rest)) = shown.split_once(part) else { return false };
        shown = rest;
    }
    shown.ends_with(last)
}

#[test]
fn what_differs_from_run_to_run_fits_and_nothing_else() {
    for (told, shown) in [
        ("", ""),
        ("job a (…)\n", "job a (queued)"),
        ("… → … $…", "  1 → 2  $0.1"),
        ("a\n…\nb", "a\nb"),
        ("…\nb\n…", "1\n2\nb  \n3"),
    ] {
        assert!(fits(told, shown), "{told:?} {shown:?}");
    }
    for (told, shown) in [
        ("", "a"),
        ("a", "a\nb"),
        ("job … was", "job a is"),
        ("a…b…b", "ab"),
        ("a\n…", "b\na"),
        ("…a", "ab"),
    ] {
        assert!(!fits(told, shown), "{told:?} {shown:?}");
    }
}
