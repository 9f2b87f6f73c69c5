//! `cargo xtask bench`: builds what is measured in release and runs the benches that were named, or all.

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
    // Not by `cargo run`: one package alone has other features of its dependencies, which would all be built again.
    let bench = process::target().join("release").join("muster-bench");
    process::run(Command::new(bench).current_dir(process::root()).args(args))
}
