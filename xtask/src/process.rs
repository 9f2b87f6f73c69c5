//! Starting other programs and saying what happens meanwhile.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The variables that cargo sets for the program it runs.
const OF_THIS_TASK: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Arguments of clippy's driver in the form in which `cargo clippy` passes them on: each ends with this mark.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// How often one looks whether a program has ended.
const PAUSE: Duration = Duration::from_millis(100);

/// How often something is tried that fails for passing reasons, and the pause in between.
const ATTEMPTS: u32 = 3;
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(5);

/// The root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// A cargo command at the root of the workspace, with the cargo that runs us.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo told us of this very task would make build scripts that read it, and all that depends on them, run
    // again for every change between `cargo xtask` and plain cargo.
    let ours =
        |name: &OsStr| name.to_str().is_some_and(|name| OF_THIS_TASK.iter().any(|of| name.starts_with(of)));
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.current_dir(root()).args(args);
    command
}

/// A cargo command that compiles the crates of the workspace with clippy's driver, as `cargo clippy` checks them; the driver
/// also generates code. A warning is an error.
///
/// Every dev build of a task goes through here: cargo keeps what another compiler made apart, so that a plain build beside it
/// would compile the workspace twice.
pub fn linting_cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = cargo(args);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", DENY_WARNINGS);
    command
}

/// Runs a command to its end; what it says goes to our own output.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("starting {}: {e}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", name(command))) }
}

/// Runs a command to its end, or ends it when it takes longer than this; what it says goes to our own output.
pub fn run_for(command: &mut Command, time_max: Duration) -> Result<(), String> {
    let mut child = command.spawn().map_err(|e| format!("starting {}: {e}", name(command)))?;
    for _ in 0..time_max.as_millis() / PAUSE.as_millis() {
        match child.try_wait().map_err(|e| format!("waiting for {}: {e}", name(command)))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{} ended with {status}", name(command))),
            None => std::thread::sleep(PAUSE),
        }
    }
    // It may have ended this very moment.
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("{} took longer than {} s", name(command), time_max.as_secs()))
}

/// Tries something that fails for passing reasons, such as a download, several times.
pub fn retry<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for left in (1..ATTEMPTS).rev() {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(problem) => eprintln!("{problem}; trying again ({left} left)"),
        }
        std::thread::sleep(BETWEEN_ATTEMPTS);
    }
    attempt()
}

/// Runs a command to its end and returns what it printed.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("starting {}: {e}", name(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} ended with {}: {}", name(command), output.status, said.trim()));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{}: {e}", name(command)))
}

/// Whether a program can be started at all.
pub fn exists(program: &str, version_flag: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(version_flag).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args().take(2));
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
