//! The first process of a container: furnishes it, starts the command, and ends with it.
//!
//! It stays as the container's `init`: orphans become its children, signals go on to the command, and when it ends the
//! container ends. It is told what to do over its standard input ([`Told`]) and tells how it goes ([`Said`]); when the
//! other end of that is gone, the supervisor is, and then nothing of the container must be left.
//!
//! # Deliberately absent
//!
//! Logs and limits of memory: those are the supervisor's, outside.

pub mod command;
mod links;
mod look;
mod view;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::engine::life;
use crate::files::{self, Orders};
use crate::launch::{Isolation, Launch};
use crate::port::Why;
use crate::system::channel::{self, Want};
use crate::system::namespaces::Power;
use crate::system::processes;
use crate::system::signals::{self, Sender, Signals};
use crate::system::{confine, mounts, namespaces, terminal};
use command::Started;

/// What the supervisor tells the first process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// Everything outside is ready. The command's input comes along if it has one.
    Go {
        /// Whether the machine let the supervisor act as root.
        as_root: bool,
    },
    /// Users are mapped.
    Mapped,
}

/// What the first process tells the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    /// It has users of its own now, which must be mapped from outside.
    MapUsers,
    /// The command runs.
    Started {
        /// What was asked for and could not be applied.
        missing: Vec<String>,
    },
    /// The command could not be started.
    NotStarted {
        /// Why, and what to do.
        message: String,
    },
    /// There is no image.
    NoImage {
        /// [`Why::ImageNotPulled`] or [`Why::ImageAbsent`].
        why: Why,
        /// The same in words.
        message: String,
    },
    /// The kernel ended it for its memory, as a container engine tells.
    OutOfMemory,
    /// The command has ended.
    Ended {
        /// Exit code; 128 + n for a signal n.
        code: i32,
        /// The signal.
        signal: Option<i32>,
    },
}

/// Runs the first process.
pub fn main(dir: &Path) -> ExitCode {
    let said = match live(dir) {
        Ok(said) => Some(said),
        Err(Some(message)) => Some(Said::NotStarted { message }),
        // The supervisor is gone.
        Err(None) => None,
    };
    if let Some(said) = said {
        let _ = channel::send(io::stdin(), &said, &[]);
    }
    ExitCode::SUCCESS
}

/// Everything up to the command, and its life; `None` for an error when nobody is there to hear it.
fn live(dir: &Path) -> Result<Said, Option<String>> {
    let orders: Orders =
        files::read(dir, files::ORDERS).ok_or_else(|| Some("the orders cannot be read".to_owned()))?;
    let (told, mut files) = listen()?;
    let Told::Go { as_root } = told else { return Err(Some("told something else than to go".to_owned())) };
    let power = if as_root { Power::Root } else { Power::Ordinary };
    confine::own_session();
    let mut missing = Vec::new();
    match orders.launch.isolation {
        _ if orders.engine.is_some() => {}
        Isolation::Namespaces => apart(dir, &orders, power, &mut missing)?,
        Isolation::None => together(dir, &orders)?,
    }
    if orders.launch.tty {
        terminal::control(io::stdout()).map_err(|error| Some(format!("take the terminal: {error}")))?;
    }
    // Before the command runs, so that no signal meant for it is lost or ends us.
    let signals = Signals::block().map_err(|error| Some(format!("listen to signals: {error}")))?;
    if let Some(engine) = orders.engine {
        return life::live(engine, &orders, dir, files.pop(), signals);
    }
    let started = command::start(&orders, dir, files.pop(), signals).map_err(Some)?;
    channel::send(io::stdin(), &Said::Started { missing }, &[]).map_err(|_| None)?;
    Ok(stay(&started, orders.launch.isolation))
}

fn listen() -> Result<(Told, Vec<std::fs::File>), Option<String>> {
    match channel::receive(io::stdin()) {
        Ok(Some(told)) => Ok(told),
        Ok(None) => Err(None),
        Err(error) => Err(Some(format!("listen to the supervisor: {error}"))),
    }
}

/// Namespaces, the view, users, and what this process must not do any more.
fn apart(dir: &Path, orders: &Orders, power: Power, missing: &mut Vec<String>) -> Result<(), Option<String>> {
    let launch = &orders.launch;
    confine::die_with_parent().map_err(|error| Some(format!("depend on the supervisor: {error}")))?;
    namespaces::separate_the_rest(&launch.hostname)
        .map_err(|error| Some(format!("make namespaces: {error}; `--isolation none` does without them")))?;
    view::enter(dir, launch, missing).map_err(Some)?;
    own_process_table(launch, power, missing);
    users(launch, power)?;
    command::confine(orders, missing).map_err(Some)?;
    // Becoming somebody else has undone it.
    confine::die_with_parent().map_err(|error| Some(format!("depend on the supervisor: {error}")))
}

fn own_process_table(launch: &Launch, power: Power, missing: &mut Vec<String>) {
    if let Err(error) = mounts::processes() {
        missing.push(format!("a /proc of its own: {error}"));
        return;
    }
    if confine::bounds_process_numbers() {
        confine::bound_process_numbers(launch.limits.processes);
    }
    if power == Power::Root {
        missing.extend(mounts::make_switches_read_only().into_iter().map(|at| format!("a read-only {at}")));
    }
}

fn users(launch: &Launch, power: Power) -> Result<(), Option<String>> {
    let who = &launch.user;
    let said = |error: io::Error| Some(format!("become user {:?}, group {:?}: {error}", who.uid, who.gid));
    match power {
        // Also for its root: whoever is root where the mounts were made can undo them.
        Power::Ordinary => {
            namespaces::become_in_own_users(who.uid.unwrap_or(0), who.gid.unwrap_or(0)).map_err(said)
        }
        Power::Root => {
            namespaces::separate_users().map_err(said)?;
            channel::send(io::stdin(), &Said::MapUsers, &[]).map_err(|_| None)?;
            listen()?;
            confine::become_user(who).map_err(said)
        }
    }
}

/// Without namespaces: folders by symbolic links, and orphans become ours.
fn together(dir: &Path, orders: &Orders) -> Result<(), Option<String>> {
    let said = |what: &str, error: io::Error| Some(format!("{what}: {error}"));
    confine::adopt_orphans().map_err(|error| said("adopt orphans", error))?;
    links::lay(dir, &orders.launch).map_err(Some)?;
    command::become_without_namespaces(&orders.launch.user).map_err(Some)?;
    confine::no_new_privileges().map_err(|error| said("give up privileges", error))
}

/// Stays until the command has ended, or the supervisor has.
fn stay(started: &Started, isolation: Isolation) -> Said {
    let end = wait_for_end(started);
    if isolation == Isolation::None {
        // The kernel does this for process namespaces.
        processes::end_descendants();
    }
    end
}

fn wait_for_end(started: &Started) -> Said {
    let supervisor = io::stdin();
    let lost = Said::Ended { code: 128 + signals::KILL, signal: Some(signals::KILL) };
    loop {
        // Looked at before waiting: one that ended at once did so while signals were not blocked.
        if let Some(gone) = processes::reap().into_iter().find(|gone| gone.pid == started.pid) {
            return Said::Ended { code: gone.code, signal: gone.signal };
        }
        let wanted = [(started.signals.as_fd(), Want::Read), (supervisor.as_fd(), Want::Read)];
        let Ok(ready) = channel::wait(&wanted, None) else { return lost };
        while let Some((signal, sender)) = started.signals.next_with_sender() {
            // What the terminal sent to us it sent to the command, too.
            if signal != signals::CHILD && sender == Sender::Process {
                signals::send(started.pid, signal);
            }
        }
        // The supervisor has nothing more to tell: this is its end.
        if ready[1] {
            return lost;
        }
    }
}
