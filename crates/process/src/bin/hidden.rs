//! Only the hidden commands, for tests of this crate: what `muster` does first.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_process::run_hidden_command(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
