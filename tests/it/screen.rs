//! The program in a terminal of its own, as a person has it before them: keys go in, and what stands on it comes out.
//!
//! The terminal is a pseudo-terminal, so the program finds everything that it looks for; what it writes is read by an
//! emulator. It dies with its test.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

use crate::harness::PATIENCE;
use crate::program::foreign_variables;

/// A terminal and what runs in it.
pub struct Screen {
    child: Child,
    keys: OwnedWritePty,
    written: OwnedReadPty,
    emulator: vt100::Parser,
}

impl Screen {
    /// Starts the program in a terminal of 24 rows and 80 columns.
    pub fn start(args: &[&str], variables: &BTreeMap<String, String>) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        for name in foreign_variables() {
            command = command.env_remove(name);
        }
        command = command.args(args).envs(variables).env("TERM", "xterm-256color");
        let child = command.kill_on_drop(true).spawn(pts).unwrap();
        let (written, keys) = pty.into_split();
        Self { child, keys, written, emulator: vt100::Parser::new(cells(24), cells(80), 0) }
    }

    /// What stands on it.
    pub fn text(&self) -> String {
        self.emulator.screen().contents()
    }

    /// What the emulator knows of it.
    pub fn shown(&self) -> &vt100::Screen {
        self.emulator.screen()
    }

    /// Presses these keys.
    pub async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Makes it another size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.emulator.screen_mut().set_size(cells(rows), cells(columns));
        self.keys.resize(Size::new(rows, columns)).unwrap();
    }

    /// Tells the program to stop.
    pub fn terminate(&self) {
        let pid = self.child.id().expect("it runs");
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM).unwrap();
    }

    /// Waits until what stands on it is like this.
    pub async fn until(&mut self, is_like: impl Fn(&str) -> bool) {
        // What is drawn again and again says nothing new, so the time for all of it is bounded.
        let deadline = Instant::now() + PATIENCE;
        while !is_like(&self.text()) {
            assert!(Instant::now() < deadline, "it goes on with\n{}", self.text());
            assert!(self.read().await, "it ends with\n{}", self.text());
        }
    }

    /// Waits until this stands on it.
    pub async fn until_text(&mut self, text: &str) {
        self.until(|shown| shown.contains(text)).await;
    }

    /// Waits for the end of the program, and answers its exit code.
    pub async fn end(&mut self) -> i32 {
        while self.read().await {}
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("it ends").unwrap().code().expect("no signal ends it")
    }

    /// Takes in what it writes; false once nobody has the terminal any more.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, self.written.read(&mut bytes)).await;
        let Ok(read) = read else { panic!("it says nothing more than\n{}", self.text()) };
        // Linux says EIO where the last process has closed it.
        let count = read.unwrap_or(0);
        self.emulator.process(&bytes[..count]);
        count > 0
    }
}

fn cells(count: u16) -> NonZeroU16 {
    count.try_into().unwrap()
}
