//! Parse, run, exit code.

use std::process::ExitCode;

/// A server makes and drops many small things on many threads; see docs/performance.md for what this saves.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    longhaul::cli::main()
}
