//! Hidden subcommands with which the program executes itself.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::run_files::SupervisorConfig;
use crate::{exec_process, host_support, init_process, supervisor};

pub const SUPERVISE: &str = "__supervise";
/// The init process of a container.
pub const INSIDE: &str = "__inside";
/// A command in the namespaces of a container.
pub const BESIDE: &str = "__beside";
/// Detects the isolation features of the host.
pub const PROBE: &str = "__probe";
/// This executable, even if its file was replaced by an upgrade.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Runs a hidden subcommand if `args` (with the program name) contain one. Must be called first: the process must be
/// single-threaded.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let run: fn(&Path) -> ExitCode = match args.next()?.to_str()? {
        SUPERVISE => supervisor::main,
        INSIDE => init_process::main,
        BESIDE => exec_process::main,
        PROBE => host_support::main,
        _ => return None,
    };
    let dir = PathBuf::from(args.next()?);
    close_inherited();
    Some(run(&dir))
}

/// Closes file descriptors that the server inherited without `CLOEXEC`: a container must not get them.
fn close_inherited() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = open.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok()).collect();
    // Includes the descriptor of `read_dir`, which is closed by now.
    for file in open.into_iter().filter(|it| *it > 2) {
        let _ = nix::unistd::close(file);
    }
}

/// Builds a hidden subcommand; the pod and container names are only visible in `ps`.
pub(crate) fn command(program: &Path, word: &str, dir: &Path, orders: &SupervisorConfig) -> Command {
    let launch = &orders.launch;
    let mut command = Command::new(program);
    // The server's environment must not leak into containers; an engine client needs it (`DOCKER_HOST`).
    if orders.engine.is_none() {
        command.env_clear();
    }
    command.arg0("muster").arg(word).arg(dir).arg(&launch.pod_name).arg(&launch.id.container);
    command
}
