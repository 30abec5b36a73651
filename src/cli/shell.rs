//! `longhaul completions` and `longhaul man`: what a shell and a manual know of the command line.
//!
//! In comes the command line as clap has it, so that nothing is told twice; out go a script for a shell, or pages of
//! the manual, one for each command.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::exit::Exit;

/// Print the completions of a shell
///
/// For bash: longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul.
/// For zsh: longhaul completions zsh > a folder of its fpath, as _longhaul.
/// For fish: longhaul completions fish > ~/.config/fish/completions/longhaul.fish.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the page of the manual, or write one for each command
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The folder to write a page for each command into, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints completions.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Exit> {
    // All of it at once: a reader that leaves early is an error that is known, not one of the generator.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "longhaul", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Ok)
}

/// Prints or writes pages.
pub fn man(args: &ManArgs, command: Command) -> Result<Exit> {
    let Some(folder) = &args.dir else {
        write!(io::stdout(), "{}", page(command)?)?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut count = 0;
    write_pages(folder, &command, &mut count)?;
    writeln!(io::stdout(), "{count} pages are in {}", folder.display())?;
    Ok(Exit::Ok)
}

/// A page, in which what follows the options keeps its lines, and no rule is wider than a page.
fn page(command: Command) -> Result<String> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    let mut page = String::from_utf8(page).context("reading the page")?;
    let rule = r"\-";
    while page.contains(&rule.repeat(4)) {
        page = page.replace(&rule.repeat(4), &rule.repeat(3));
    }
    Ok(page.replacen(".SH EXTRA\n", ".SH EXTRA\n.nf\n", 1).replacen(
        ".SH VERSION\n",
        ".fi\n.SH VERSION\n",
        1,
    ))
}

/// A page for a command and for each below it: `longhaul-key-create.1`.
fn write_pages(folder: &Path, command: &Command, count: &mut u32) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = folder.join(format!("{name}.1"));
    let text = page(command.clone())?;
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    *count += 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(folder, below, count)?;
    }
    Ok(())
}
