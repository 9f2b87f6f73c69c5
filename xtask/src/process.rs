//! Runs cargo and other programs as child processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Prefixes of the variables that cargo sets for the program that it runs.
const CARGO_RUN_VARIABLES: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Arguments of clippy's driver in the encoding of `cargo clippy`: each one ends with this marker.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// The interval at which [`run_for`] checks whether the child has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Attempts and backoff of [`retry`].
const ATTEMPTS_MAX: u32 = 3;
const RETRY_BACKOFF: Duration = Duration::from_secs(5);

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Returns the target directory of cargo.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |directory| root().join(directory))
}

/// Returns a command at the root of the workspace for the cargo that runs this task.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Build scripts that read these variables would rerun, and their dependents recompile, at every change between
    // `cargo xtask` and plain cargo.
    let of_this_task = |name: &OsStr| {
        name.to_str().is_some_and(|name| CARGO_RUN_VARIABLES.iter().any(|of| name.starts_with(of)))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_this_task(name)) {
        command.env_remove(name);
    }
    command.current_dir(root()).args(args);
    command
}

/// Returns a cargo command that compiles the workspace with clippy's driver, which lints like `cargo clippy` and also
/// generates code. A warning is an error.
///
/// Every dev build of a task uses this command: cargo caches artifacts per compiler, so an additional plain build would
/// compile the workspace twice.
pub fn linting_cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = cargo(args);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", DENY_WARNINGS);
    command
}

/// Runs a command to completion. It inherits stdout and stderr.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("starting {}: {e}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} exited with {status}", name(command))) }
}

/// Runs a command to completion, or kills it after `time_max`. It inherits stdout and stderr.
pub fn run_for(command: &mut Command, time_max: Duration) -> Result<(), String> {
    let mut child = command.spawn().map_err(|e| format!("starting {}: {e}", name(command)))?;
    for _ in 0..time_max.as_millis() / POLL_INTERVAL.as_millis() {
        match child.try_wait().map_err(|e| format!("waiting for {}: {e}", name(command)))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{} exited with {status}", name(command))),
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
    // Killing fails if the child has exited since the last check.
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("{} took longer than {} s", name(command), time_max.as_secs()))
}

/// Retries an operation with transient failures, such as a download.
pub fn retry<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for left in (1..ATTEMPTS_MAX).rev() {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(problem) => eprintln!("{problem}; retrying ({left} attempts left)"),
        }
        std::thread::sleep(RETRY_BACKOFF);
    }
    attempt()
}

/// Runs a command to completion and returns its stdout.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("starting {}: {e}", name(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} exited with {}: {}", name(command), output.status, stderr.trim()));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{}: {e}", name(command)))
}

/// Whether a program is installed: whether it starts with its version flag.
pub fn exists(program: &str, version_flag: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(version_flag).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args().take(2));
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
