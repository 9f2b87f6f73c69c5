//! Starts a command in a container: environment, working directory, stdin. Used by init and exec.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::path_lookup;
use crate::container_config::{Isolation, RunAs};
use crate::run_files::{self, SupervisorConfig};
use crate::system::confine;
use crate::system::signals::SignalReceiver;

/// The variable with the root of the volume symlinks where there are no mounts.
pub const POD_ROOT: &str = "MUSTER_POD_ROOT";
/// RLIMIT_NPROC above `pids` limit: the watchdog should act first, since it reports the reason.
const BACKSTOP_BEYOND: u64 = 256;

pub struct Started {
    /// PID in the namespace of the caller.
    pub pid: i32,
    /// Receives the signals to forward.
    pub signals: SignalReceiver,
}

/// Starts the container's own command.
///
/// # Errors
/// Error and remedy.
pub fn start(
    orders: &SupervisorConfig,
    dir: &Path,
    stdin: Option<File>,
    signals: SignalReceiver,
) -> Result<Started, String> {
    start_with(&orders.launch.argv, orders, dir, stdin, signals)
}

/// Starts another command instead, e.g. the client of an engine.
///
/// # Errors
/// Error and remedy.
pub fn start_with(
    argv: &[String],
    orders: &SupervisorConfig,
    dir: &Path,
    stdin: Option<File>,
    signals: SignalReceiver,
) -> Result<Started, String> {
    let launch = &orders.launch;
    let env = environment(orders, dir);
    let start_in = start_dir(orders, dir);
    let input = match stdin {
        Some(file) => Stdio::from(file),
        None if launch.tty => {
            Stdio::from(terminal_of_ours().map_err(|error| format!("use the terminal: {error}"))?)
        }
        None => Stdio::null(),
    };
    let mut command = prepare(argv, &env, &start_in)?;
    command.stdin(input);
    if !launch.tty {
        // Own process group, so that `kill 0` does not signal init. With a terminal it must be the foreground group.
        command.process_group(0);
    }
    let pid = spawn(&mut command, argv, &signals)?;
    Ok(Started { pid, signals })
}

/// Stdout is the terminal; a copy becomes stdin.
fn terminal_of_ours() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// A command ready to be started.
///
/// # Errors
/// Error and remedy.
pub fn prepare(argv: &[String], env: &BTreeMap<String, String>, start_in: &Path) -> Result<Command, String> {
    let (program, args) =
        argv.split_first().ok_or("the command is empty: give `command` a program to run")?;
    let path = env.get("PATH").map_or("", String::as_str);
    // Relative programs and `PATH` entries are resolved in the working directory.
    std::env::set_current_dir(start_in)
        .map_err(|error| format!("working directory {}: {error}", start_in.display()))?;
    let found = path_lookup::find(program, path, start_in)?;
    let mut command = Command::new(found);
    command.arg0(program).args(args).env_clear().envs(env);
    Ok(command)
}

/// Spawns a command; returns its PID.
///
/// # Errors
/// Error and remedy.
pub fn spawn(command: &mut Command, argv: &[String], signals: &SignalReceiver) -> Result<i32, String> {
    // The handle is dropped: the caller reaps all children.
    match signals.unblocked(|| command.spawn()) {
        Ok(child) => Ok(child.id().cast_signed()),
        Err(error) => Err(format!("cannot run {:?}: {error}", argv.first().map_or("", String::as_str))),
    }
}

/// The complete environment of the command. The client of an engine inherits the server's.
#[must_use]
pub fn environment(orders: &SupervisorConfig, dir: &Path) -> BTreeMap<String, String> {
    let launch = &orders.launch;
    if orders.engine.is_some() {
        let own = std::env::vars_os();
        return own
            .filter_map(|(name, it)| Some((name.into_string().ok()?, it.into_string().ok()?)))
            .collect();
    }
    let mut all =
        BTreeMap::from([("PATH".to_owned(), orders.path.clone()), ("HOME".to_owned(), orders.home.clone())]);
    if launch.tty {
        all.insert("TERM".to_owned(), "xterm".to_owned());
    }
    if launch.isolation == Isolation::None {
        all.insert(POD_ROOT.to_owned(), dir.join(run_files::ROOT).display().to_string());
    }
    all.extend(launch.env.iter().cloned());
    all
}

/// By this entry of their environment the processes of a run without namespaces are known.
#[must_use]
pub fn mark(dir: &Path) -> String {
    format!("{POD_ROOT}={}", dir.join(run_files::ROOT).display())
}

/// Where a command starts.
#[must_use]
pub fn start_dir(orders: &SupervisorConfig, dir: &Path) -> PathBuf {
    let (launch, root) = (&orders.launch, dir.join(run_files::ROOT));
    if orders.engine.is_some() {
        return root;
    }
    match (&launch.dir, launch.isolation) {
        (Some(start), Isolation::Namespaces) => start.clone(),
        (None, Isolation::Namespaces) => PathBuf::from("/"),
        (None, Isolation::None) => root,
        // A folder that is a volume is meant, not a namesake of the machine's.
        (Some(start), Isolation::None) => {
            let laid = root.join(start.strip_prefix("/").unwrap_or(start));
            if laid.is_dir() { laid } else { start.clone() }
        }
    }
}

/// What this process and its children must not do any more, in namespaces.
///
/// # Errors
/// Why it cannot be applied, when it must be.
pub fn confine(orders: &SupervisorConfig, missing: &mut Vec<String>) -> Result<(), String> {
    let launch = &orders.launch;
    confine::limit_processes(u64::from(launch.limits.processes) + BACKSTOP_BEYOND)
        .map_err(|error| format!("bound processes: {error}"))?;
    confine::no_new_privileges().map_err(|error| format!("give up privileges: {error}"))?;
    if let Err(why) = confine::restrict_writes_to(writable(orders).iter().map(PathBuf::as_path)) {
        missing.push(format!("landlock: {why}"));
    }
    Ok(())
}

/// Writable paths of a container. Its `HOME` variable is not trusted: a writable home is a mount.
fn writable(orders: &SupervisorConfig) -> Vec<PathBuf> {
    let launch = &orders.launch;
    let mut all = vec![
        PathBuf::from("/tmp"),
        PathBuf::from("/dev"),
        PathBuf::from("/proc"),
        launch.message_path.clone(),
    ];
    all.extend(launch.mounts.iter().filter(|it| !it.read_only).map(|it| it.target.clone()));
    all
}

/// Switches to the requested user on the host, which needs root.
///
/// # Errors
/// Error and remedy.
pub fn switch_user_on_host(who: &RunAs) -> Result<(), String> {
    let me = nix::unistd::geteuid().as_raw();
    if me != 0 && who.uid.is_none_or(|uid| uid == me) {
        return Ok(());
    }
    confine::switch_user(who).map_err(|error| {
        format!(
            "become user {:?}: {error}; without namespaces only root can run containers as others",
            who.uid
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_variables_override_defaults() {
        let orders = crate::testing::orders(|launch| {
            launch.env =
                vec![("PATH".into(), "/mine".into()), ("A".into(), "1".into()), ("A".into(), "2".into())];
        });
        let env = environment(&orders, Path::new("/run"));
        assert_eq!(env["PATH"], "/mine");
        assert_eq!(env["HOME"], "/home/server", "absent: the server's");
        assert_eq!(env["A"], "2", "the last of several");
        assert!(!env.contains_key(POD_ROOT), "volumes are at their places");
    }

    #[test]
    fn writable_paths() {
        let all = writable(&crate::testing::orders(|launch| {
            launch.env = vec![("HOME".into(), "/etc".into())];
            launch.mounts = vec![
                crate::Mount { source: "/a".into(), target: "/data".into(), read_only: false },
                crate::Mount { source: "/b".into(), target: "/model".into(), read_only: true },
            ];
        }));
        assert!(all.contains(&PathBuf::from("/data")));
        assert!(!all.contains(&PathBuf::from("/model")), "read-only");
        assert!(!all.contains(&PathBuf::from("/etc")), "what it calls its home is not thereby its own");
    }
}
