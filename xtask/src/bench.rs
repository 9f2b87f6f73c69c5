//! `cargo xtask bench`: builds what is measured in release and runs the benches that were named, or all.

use crate::process;

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
    let mut command = process::cargo(["run", "--release", "--quiet", "--package", "muster-bench", "--"]);
    process::run(command.args(args))
}
