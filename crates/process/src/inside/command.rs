//! Starts a command in a container: its environment, its folder, its input; the same for the first and for those beside.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::look;
use crate::files::{self, Orders};
use crate::launch::{Identity, Isolation};
use crate::system::confine;
use crate::system::signals::Signals;

/// The variable that says where volumes are when they cannot be at their places.
pub const POD_ROOT: &str = "MUSTER_POD_ROOT";
/// How far beyond the limit of processes the kernel's own bound lies: the watchdog should be first, since it says why.
const BACKSTOP_BEYOND: u64 = 256;

/// A command that runs.
pub struct Started {
    /// Its number, as seen from here.
    pub pid: i32,
    /// All signals for it come here first.
    pub signals: Signals,
}

/// Starts the container's own command.
///
/// # Errors
/// Why not, and what to do.
pub fn start(orders: &Orders, dir: &Path, stdin: Option<File>, signals: Signals) -> Result<Started, String> {
    start_with(&orders.launch.argv, orders, dir, stdin, signals)
}

/// Starts another command in its place: that of an engine, which runs the container's own.
///
/// # Errors
/// Why not, and what to do.
pub fn start_with(
    argv: &[String],
    orders: &Orders,
    dir: &Path,
    stdin: Option<File>,
    signals: Signals,
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
        // `kill 0` inside must not reach the first process. With a terminal the group must be the one in front.
        command.process_group(0);
    }
    let pid = spawn(&mut command, argv, &signals)?;
    Ok(Started { pid, signals })
}

/// Our standard output is the terminal; the command's input is, too.
fn terminal_of_ours() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// A command ready to be started.
///
/// # Errors
/// Why it cannot be, and what to do.
pub fn prepare(argv: &[String], env: &BTreeMap<String, String>, start_in: &Path) -> Result<Command, String> {
    let (program, args) =
        argv.split_first().ok_or("the command is empty: give `command` a program to run")?;
    let path = env.get("PATH").map_or("", String::as_str);
    std::env::set_current_dir(start_in)
        .map_err(|error| format!("working directory {}: {error}", start_in.display()))?;
    let found = look::find(program, path, start_in)?;
    let mut command = Command::new(found);
    command.arg0(program).args(args).env_clear().envs(env);
    Ok(command)
}

/// Starts a command; its number.
///
/// # Errors
/// Why not, and what to do.
pub fn spawn(command: &mut Command, argv: &[String], signals: &Signals) -> Result<i32, String> {
    // Nobody waits for this handle: whoever started it reaps all children.
    match signals.unblocked(|| command.spawn()) {
        Ok(child) => Ok(child.id().cast_signed()),
        Err(error) => Err(format!("cannot run {:?}: {error}", argv.first().map_or("", String::as_str))),
    }
}

/// The whole environment: what was ordered, and little else. An engine has the server's.
#[must_use]
pub fn environment(orders: &Orders, dir: &Path) -> BTreeMap<String, String> {
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
        all.insert(POD_ROOT.to_owned(), dir.join(files::ROOT).display().to_string());
    }
    all.extend(launch.env.iter().cloned());
    all
}

/// By this entry of their environment the processes of a run without namespaces are known.
#[must_use]
pub fn mark(dir: &Path) -> String {
    format!("{POD_ROOT}={}", dir.join(files::ROOT).display())
}

/// Where a command starts.
#[must_use]
pub fn start_dir(orders: &Orders, dir: &Path) -> PathBuf {
    let (launch, root) = (&orders.launch, dir.join(files::ROOT));
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
pub fn confine(orders: &Orders, missing: &mut Vec<String>) -> Result<(), String> {
    let launch = &orders.launch;
    confine::bound_processes(u64::from(launch.limits.processes) + BACKSTOP_BEYOND)
        .map_err(|error| format!("bound processes: {error}"))?;
    confine::no_new_privileges().map_err(|error| format!("give up privileges: {error}"))?;
    if let Err(why) = confine::write_only_below(writable(orders).iter().map(PathBuf::as_path)) {
        missing.push(format!("landlock: {why}"));
    }
    Ok(())
}

/// Where a container may write. Its own variables have no say: a home it can write to is a mount.
fn writable(orders: &Orders) -> Vec<PathBuf> {
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

/// Becomes the wanted user on the machine itself, which only root can.
///
/// # Errors
/// Why not, and what to do.
pub fn become_without_namespaces(who: &Identity) -> Result<(), String> {
    let me = nix::unistd::geteuid().as_raw();
    if me != 0 && who.uid.is_none_or(|uid| uid == me) {
        return Ok(());
    }
    confine::become_user(who).map_err(|error| {
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
    fn what_was_ordered_wins() {
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
