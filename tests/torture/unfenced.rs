//! The same program, for the feature `without_fencing`: a name of its own, so that building it replaces nothing.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul::cli::main()
}
