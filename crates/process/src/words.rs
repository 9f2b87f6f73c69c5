//! The hidden first words with which this program runs itself, and what each does.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::launch::Launch;
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
    Some(run(&PathBuf::from(args.next()?)))
}

/// One of the hidden commands, with words for people who look at the process table.
pub(crate) fn command(program: &Path, word: &str, dir: &Path, launch: &Launch) -> Command {
    let mut command = Command::new(program);
    // Nothing of the server's environment is a container's business.
    command.env_clear();
    command.arg0("muster").arg(word).arg(dir).arg(&launch.pod_name).arg(&launch.id.container);
    command
}
