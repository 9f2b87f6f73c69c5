//! The init process of a container: sets up its isolation, starts the command, and exits with it.
//!
//! It reaps orphans, forwards signals to the command, and its exit ends the PID namespace. It receives
//! [`InitCommand`]s and sends [`InitEvent`]s over its standard input; if the supervisor closes that channel, the
//! container is killed.
//!
//! # Deliberately absent
//!
//! Logs and memory limits: the supervisor, outside of the container, handles them.

pub mod command;
mod path_lookup;
mod rootfs;
mod volume_symlinks;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::container_config::{ContainerConfig, Isolation};
use crate::engine::lifecycle;
use crate::run_files::{self, SupervisorConfig};
use crate::runtime::ExitReason;
use crate::system::channel::{self, Interest};
use crate::system::namespaces::NamespacePrivilege;
use crate::system::processes;
use crate::system::signals::{self, Sender, SignalReceiver};
use crate::system::{confine, mounts, namespaces, terminal};
use command::Started;

/// Messages from the supervisor to init.
#[derive(Debug, Serialize, Deserialize)]
pub enum InitCommand {
    /// Proceed: everything outside is set up. The descriptor of stdin is passed, if any.
    Go {
        /// Whether the namespaces were created with root privileges.
        as_root: bool,
    },
    Mapped,
}

/// Messages from init to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum InitEvent {
    /// Init has a new user namespace, which must be mapped from outside.
    MapUsers,
    Started {
        /// Isolation features that could not be applied.
        missing: Vec<String>,
    },
    /// The command could not be started.
    NotStarted { message: String },
    /// The image is missing.
    NoImage {
        why: ExitReason,
        /// The same in words.
        message: String,
    },
    /// The container engine reports an OOM kill.
    OutOfMemory,
    Ended {
        /// Exit code: 128 + n for signal n.
        code: i32,
        signal: Option<i32>,
    },
}

/// Entry point of the subcommand.
pub fn main(dir: &Path) -> ExitCode {
    let said = match run_init(dir) {
        Ok(said) => Some(said),
        Err(Some(message)) => Some(InitEvent::NotStarted { message }),
        // The supervisor is gone.
        Err(None) => None,
    };
    if let Some(said) = said {
        let _ = channel::send(io::stdin(), &said, &[]);
    }
    ExitCode::SUCCESS
}

/// Sets up the container and runs the command. `Err(None)`: the supervisor is gone.
fn run_init(dir: &Path) -> Result<InitEvent, Option<String>> {
    let orders: SupervisorConfig = run_files::read(dir, run_files::CONFIG)
        .ok_or_else(|| Some("the orders cannot be read".to_owned()))?;
    let (told, mut files) = receive_command()?;
    let InitCommand::Go { as_root } = told else {
        return Err(Some("told something else than to go".to_owned()));
    };
    let power = if as_root { NamespacePrivilege::Root } else { NamespacePrivilege::Unprivileged };
    confine::create_session();
    let mut missing = Vec::new();
    match orders.launch.isolation {
        _ if orders.engine.is_some() => {}
        Isolation::Namespaces => isolate(dir, &orders, power, &mut missing)?,
        Isolation::None => set_up_without_namespaces(dir, &orders)?,
    }
    if orders.launch.tty {
        terminal::control(io::stdout()).map_err(|error| Some(format!("take the terminal: {error}")))?;
    }
    // Blocked before the command starts, so that no signal for it is lost or kills init.
    let signals = SignalReceiver::block().map_err(|error| Some(format!("listen to signals: {error}")))?;
    if let Some(engine) = orders.engine {
        return lifecycle::live(engine, &orders, dir, files.pop(), signals);
    }
    let started = command::start(&orders, dir, files.pop(), signals).map_err(Some)?;
    channel::send(io::stdin(), &InitEvent::Started { missing }, &[]).map_err(|_| None)?;
    Ok(wait_and_clean_up(&started, orders.launch.isolation))
}

fn receive_command() -> Result<(InitCommand, Vec<std::fs::File>), Option<String>> {
    match channel::receive(io::stdin()) {
        Ok(Some(told)) => Ok(told),
        Ok(None) => Err(None),
        Err(error) => Err(Some(format!("listen to the supervisor: {error}"))),
    }
}

/// Enters namespaces and rootfs, maps users and drops privileges.
fn isolate(
    dir: &Path,
    orders: &SupervisorConfig,
    power: NamespacePrivilege,
    missing: &mut Vec<String>,
) -> Result<(), Option<String>> {
    let launch = &orders.launch;
    confine::die_with_parent().map_err(|error| Some(format!("depend on the supervisor: {error}")))?;
    namespaces::unshare_mount_uts_ipc(&launch.hostname)
        .map_err(|error| Some(format!("make namespaces: {error}; `--isolation none` does without them")))?;
    // The order matters: mounting needs privileges that the user namespace and Landlock take away below.
    rootfs::enter(dir, launch, missing).map_err(Some)?;
    mount_own_proc(launch, power, missing);
    map_users(launch, power)?;
    command::confine(orders, missing).map_err(Some)?;
    // Changing the UID clears the parent death signal.
    confine::die_with_parent().map_err(|error| Some(format!("depend on the supervisor: {error}")))
}

fn mount_own_proc(launch: &ContainerConfig, power: NamespacePrivilege, missing: &mut Vec<String>) {
    if let Err(error) = mounts::mount_proc() {
        missing.push(format!("a /proc of its own: {error}"));
        return;
    }
    if confine::has_pid_max_per_namespace() {
        confine::set_pid_max(launch.limits.processes);
    }
    if power == NamespacePrivilege::Root {
        missing.extend(mounts::make_sysctls_read_only().into_iter().map(|at| format!("a read-only {at}")));
    }
}

fn map_users(launch: &ContainerConfig, power: NamespacePrivilege) -> Result<(), Option<String>> {
    let who = &launch.user;
    let said = |error: io::Error| Some(format!("become user {:?}, group {:?}: {error}", who.uid, who.gid));
    match power {
        // Also for UID 0: root of the mount namespace's owner could undo the mounts.
        NamespacePrivilege::Unprivileged => {
            namespaces::unshare_user_mapped(who.uid.unwrap_or(0), who.gid.unwrap_or(0)).map_err(said)
        }
        NamespacePrivilege::Root => {
            namespaces::unshare_user().map_err(said)?;
            channel::send(io::stdin(), &InitEvent::MapUsers, &[]).map_err(|_| None)?;
            receive_command()?;
            confine::switch_user(who).map_err(said)
        }
    }
}

/// Without namespaces: volumes are symlinks, and orphans are adopted as subreaper.
fn set_up_without_namespaces(dir: &Path, orders: &SupervisorConfig) -> Result<(), Option<String>> {
    let said = |what: &str, error: io::Error| Some(format!("{what}: {error}"));
    confine::become_subreaper().map_err(|error| said("adopt orphans", error))?;
    volume_symlinks::lay(dir, &orders.launch).map_err(Some)?;
    command::switch_user_on_host(&orders.launch.user).map_err(Some)?;
    confine::no_new_privileges().map_err(|error| said("give up privileges", error))
}

/// Waits for the command or the supervisor.
fn wait_and_clean_up(started: &Started, isolation: Isolation) -> InitEvent {
    let end = wait_for_end(started);
    if isolation == Isolation::None {
        // In a PID namespace the kernel kills them.
        processes::kill_descendants();
    }
    end
}

fn wait_for_end(started: &Started) -> InitEvent {
    let supervisor = io::stdin();
    let lost = InitEvent::Ended { code: 128 + signals::KILL, signal: Some(signals::KILL) };
    loop {
        // Reap before waiting: a command that exited at once did so while signals were unblocked.
        if let Some(gone) = processes::reap().into_iter().find(|gone| gone.pid == started.pid) {
            return InitEvent::Ended { code: gone.code, signal: gone.signal };
        }
        let wanted = [(started.signals.as_fd(), Interest::Read), (supervisor.as_fd(), Interest::Read)];
        let Ok(ready) = channel::wait(&wanted, None) else { return lost };
        while let Some((signal, sender)) = started.signals.next_with_sender() {
            // The terminal has signalled the command, too.
            if signal != signals::CHILD && sender == Sender::Process {
                signals::send(started.pid, signal);
            }
        }
        // EOF: the supervisor sends nothing in this phase, so it has exited.
        if ready[1] {
            return lost;
        }
    }
}
