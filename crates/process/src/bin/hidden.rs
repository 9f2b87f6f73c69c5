//! The hidden subcommands for tests of this crate; `muster` handles them first, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_process::run_hidden_command(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
