//! The command line: every way a person starts, feeds and moves Longhaul from a shell.
//!
//! In come arguments and the environment; out go text or JSON on stdout, errors on stderr, and an exit code.
//! The commands that call a server do so through its public gRPC face alone, as any other client would.

pub mod exit;

pub mod serve;

pub mod dev;

pub mod sandbox;

pub mod demo;

pub mod client;

pub mod submission;

pub mod submit;

pub mod watch;

pub mod live;

pub mod top;

pub mod follow;

pub mod answer;

pub mod progress;

pub mod screen;

pub mod status;

pub mod clock;

pub mod get;

pub mod list;

pub mod notices;

pub mod links;

pub mod usage;

pub mod prices;

pub mod prune;

pub mod import_n8n;

pub mod key;

pub mod doctor;

pub mod profile;

pub mod shell;

pub mod control;

pub mod bulk;

pub mod json;

pub mod format;

pub mod render;

pub mod columns;

pub mod word;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use self::exit::{EXIT_CODES, Exit};

/// A durable queue for long AI jobs that pause, wait for a human, and survive crashes.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Dev(dev::DevArgs),
    Sandbox(sandbox::SandboxArgs),
    Demo(demo::DemoArgs),
    Submit(submit::SubmitArgs),
    Watch(watch::WatchArgs),
    Top(top::TopArgs),
    Get(get::GetArgs),
    List(list::ListArgs),
    Notices(notices::NoticesArgs),
    Links(links::LinksArgs),
    Usage(usage::UsageArgs),
    Pause(control::PauseArgs),
    Resume(control::ResumeArgs),
    Cancel(control::CancelArgs),
    Retry(control::RetryArgs),
    /// Decide the pending approval: go on
    Approve(control::ApproveArgs),
    /// Decide the pending approval: end the job
    Reject(control::DecideArgs),
    /// Have what a job shows done again, with what is to be changed as the comment
    RequestChanges(control::DecideArgs),
    Prices(prices::PricesArgs),
    Prune(prune::PruneArgs),
    #[command(name = "import-n8n")]
    ImportN8n(import_n8n::ImportArgs),
    Key(key::KeyArgs),
    Doctor(doctor::DoctorArgs),
    Profile(profile::ProfileArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Parses the command line, runs the command, and says how it ended.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&error.into()).into(),
    };
    // On the main thread: what it spawns is told to die with the thread that spawned it.
    let exit = runtime.block_on(run(cli)).unwrap_or_else(|error| exit::report(&error));
    // A thread that still waits for stdin must not hold up the end.
    runtime.shutdown_background();
    exit.into()
}

async fn run(cli: Cli) -> Result<Exit> {
    match cli.command {
        // These see to Ctrl-C themselves: they have something to put in order.
        Command::Serve(args) => Box::pin(serve::run(args)).await,
        Command::Dev(args) => Box::pin(dev::run(args)).await,
        Command::Sandbox(args) => Box::pin(sandbox::run(args)).await,
        Command::Demo(args) => Box::pin(demo::run(args)).await,
        Command::Top(args) => Box::pin(top::run(args)).await,
        Command::Submit(args) => Box::pin(until_interrupted(submit::run(args))).await,
        Command::Watch(args) => Box::pin(until_interrupted(watch::run(args))).await,
        Command::Get(args) => Box::pin(until_interrupted(get::run(args))).await,
        Command::List(args) => Box::pin(until_interrupted(list::run(args))).await,
        Command::Notices(args) => Box::pin(until_interrupted(notices::run(args))).await,
        Command::Links(args) => Box::pin(until_interrupted(links::run(args))).await,
        Command::Usage(args) => Box::pin(until_interrupted(usage::run(args))).await,
        Command::Pause(args) => Box::pin(until_interrupted(args.run())).await,
        Command::Resume(args) => Box::pin(until_interrupted(args.run())).await,
        Command::Cancel(args) => Box::pin(until_interrupted(args.run())).await,
        Command::Retry(args) => Box::pin(until_interrupted(args.run())).await,
        Command::Approve(args) => Box::pin(until_interrupted(args.run())).await,
        Command::Reject(args) => Box::pin(until_interrupted(args.reject())).await,
        Command::RequestChanges(args) => Box::pin(until_interrupted(args.request_changes())).await,
        Command::Prices(args) => Box::pin(until_interrupted(prices::run(args))).await,
        Command::ImportN8n(args) => Box::pin(until_interrupted(import_n8n::run(args))).await,
        Command::Prune(args) => Box::pin(until_interrupted(prune::run(args))).await,

        Command::Key(args) => Box::pin(until_interrupted(key::run(args))).await,
        Command::Doctor(args) => Box::pin(until_interrupted(doctor::run(args))).await,
        Command::Profile(args) => profile::run(args),
        Command::Completions(args) => shell::completions(&args, Cli::command()),
        Command::Man(args) => shell::man(&args, Cli::command()),
    }
}

/// Runs a command until it is done, Ctrl-C is pressed or it is told to stop; a command that is dropped puts its terminal
/// in order.
async fn until_interrupted(command: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    let mut told = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    tokio::select! {
        ended = command => ended,
        _ = told.recv() => Ok(Exit::Interrupted),
        signal = tokio::signal::ctrl_c() => {
            signal.context("listening for Ctrl-C")?;
            Ok(Exit::Interrupted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_tells_every_exit_code() {
        let help = Cli::command().render_help().to_string();
        for code in ["0", "1", "2", "3", "4", "5", "6", "7", "69", "77", "78", "130"] {
            assert!(help.contains(&format!(" {code}  ")), "{code} is not in\n{help}");
        }
    }

    #[test]
    fn a_wrong_status_says_which_are_right() {
        let error = Cli::try_parse_from(["longhaul", "list", "--status", "done"]);
        assert!(error.expect_err("no such status").to_string().contains("awaiting_approval"));
    }
}
