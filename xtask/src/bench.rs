//! `cargo xtask bench`: builds `muster` and the benches in release and runs all benches, or those named.

use std::process::Command;

use xtask::process;

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    process::run(&mut process::cargo([
        "build",
        "--release",
        "--package",
        "muster",
        "--package",
        "muster-bench",
    ]))?;
    // `cargo run` would build one package alone, with other features of its dependencies, and compile those again.
    let bench = process::target().join("release").join("muster-bench");
    process::run(Command::new(bench).current_dir(process::root()).args(args))
}
