//! The hidden first words with which this program runs itself, and what each does.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::files::Orders;
use crate::{beside, inside, probe, supervise};

/// A supervisor.
pub const SUPERVISE: &str = "__supervise";
/// The first process of a container.
pub const INSIDE: &str = "__inside";
/// A command beside a container.
pub const BESIDE: &str = "__beside";
/// Tries what this machine allows.
pub const PROBE: &str = "__probe";
/// This program, also when its file was replaced meanwhile.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Runs one of the hidden commands, if the arguments (the program's name included) ask for one. Must be called before
/// anything else: no thread may run yet.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let run: fn(&Path) -> ExitCode = match args.next()?.to_str()? {
        SUPERVISE => supervise::main,
        INSIDE => inside::main,
        BESIDE => beside::main,
        PROBE => probe::main,
        _ => return None,
    };
    let dir = PathBuf::from(args.next()?);
    close_inherited();
    Some(run(&dir))
}

/// Closes what the server's own parent left open: nobody told the hidden commands of it, and containers would get it.
fn close_inherited() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = open.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok()).collect();
    // The folder itself is among them, and closed by now.
    for file in open.into_iter().filter(|it| *it > 2) {
        let _ = nix::unistd::close(file);
    }
}

/// One of the hidden commands, with words for people who look at the process table.
pub(crate) fn command(program: &Path, word: &str, dir: &Path, orders: &Orders) -> Command {
    let launch = &orders.launch;
    let mut command = Command::new(program);
    // Nothing of the server's environment is a container's business; an engine may need all of it.
    if orders.engine.is_none() {
        command.env_clear();
    }
    command.arg0("muster").arg(word).arg(dir).arg(&launch.pod_name).arg(&launch.id.container);
    command
}
