//! A command beside a container, in its namespaces: what `exec` runs. It is a process between the server and the
//! command; when the server's end of its standard input goes, the command goes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::files::{self, Orders, Running};
use crate::inside::command;
use crate::launch::Isolation;
use crate::system::channel::{self, Want};
use crate::system::processes::{self, Table};
use crate::system::signals::{self, Signals};
use crate::system::{confine, namespaces, terminal};
use crate::{cgroup, engine};

/// Files that come along always: output and errors.
const OUTPUTS: usize = 2;

/// What the server asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Run this. Files come along: a terminal; or output, errors and, if there is one, input.
    Run {
        /// Program and arguments.
        argv: Vec<String>,
        /// Whether the file is a terminal.
        tty: bool,
    },
    /// End it and all its descendants.
    End,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The command runs.
    Started,
    /// It does not; why.
    Refused(String),
    /// It has ended with this code.
    Ended(i32),
}

/// Runs a command beside a container.
pub fn main(dir: &Path) -> ExitCode {
    let answer = match begin(dir) {
        Ok(Some(running)) => running.stay(),
        Ok(None) => return ExitCode::FAILURE,
        Err(why) => Answer::Refused(why),
    };
    let _ = channel::send(io::stdin(), &answer, &[]);
    ExitCode::SUCCESS
}

struct Beside {
    table: Table,
    first: i32,
    pid: i32,
    signals: Signals,
    isolation: Isolation,
}

fn begin(dir: &Path) -> Result<Option<Beside>, String> {
    let asked =
        channel::receive::<Ask>(io::stdin()).map_err(|error| format!("listen to the server: {error}"))?;
    let Some((Ask::Run { argv, tty }, io_files)) = asked else { return Ok(None) };
    let gone = || "the container does not run".to_owned();
    let orders: Orders = files::read(dir, files::ORDERS).ok_or_else(gone)?;
    let running: Running = files::read(dir, files::RUNNING).ok_or_else(gone)?;
    let table = Table::open().map_err(|error| format!("/proc: {error}"))?;
    confine::own_session();
    let signals = Signals::block().map_err(|error| format!("listen to signals: {error}"))?;
    let argv = match orders.engine {
        Some(engine) => {
            let has_input = tty || io_files.len() > OUTPUTS;
            engine::argv::exec(engine, &engine::name(&orders.launch.id), &argv, has_input, tty)
        }
        None => {
            File::create(dir.join(files::BESIDE)).map_err(|error| format!("leave a mark: {error}"))?;
            if let Some(parent) = &orders.cgroup {
                // None is there when the watchdog has to do.
                let _ = cgroup::enter(parent, &orders.launch.id);
            }
            enter(&orders, &running, &table)?;
            argv
        }
    };
    let pid = start(&orders, dir, (&argv, tty), io_files, &signals)?;
    channel::send(io::stdin(), &Answer::Started, &[])
        .map_err(|error| format!("answer the server: {error}"))?;
    let isolation = orders.launch.isolation;
    Ok(Some(Beside { table, first: running.first.pid, pid, signals, isolation }))
}

/// Into the container.
fn enter(orders: &Orders, running: &Running, table: &Table) -> Result<(), String> {
    let who = &orders.launch.user;
    match orders.launch.isolation {
        Isolation::Namespaces => {
            let first = table.find(&running.first).ok_or("the container does not run")?;
            let is_root = nix::unistd::geteuid().is_root();
            namespaces::join(&first).map_err(|error| format!("join the container's namespaces: {error}"))?;
            if is_root {
                confine::become_user(who).map_err(|error| format!("become user {:?}: {error}", who.uid))?;
            }
            command::confine(orders, &mut Vec::new())
        }
        Isolation::None => {
            confine::adopt_orphans().map_err(|error| format!("adopt orphans: {error}"))?;
            command::become_without_namespaces(who)?;
            confine::no_new_privileges().map_err(|error| format!("give up privileges: {error}"))
        }
    }
}

fn start(
    orders: &Orders,
    dir: &Path,
    (argv, tty): (&[String], bool),
    io_files: Vec<File>,
    signals: &Signals,
) -> Result<i32, String> {
    let mut env = command::environment(orders, dir);
    if tty {
        env.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
    }
    let mut run = command::prepare(argv, &env, &command::start_dir(orders, dir))?;
    let mut io_files = io_files.into_iter();
    let stdout = io_files.next().ok_or("no output was passed")?;
    if tty {
        let said = |error: io::Error| format!("use the terminal: {error}");
        terminal::control(&stdout).map_err(said)?;
        run.stdin(stdout.try_clone().map_err(said)?).stderr(stdout.try_clone().map_err(said)?).stdout(stdout);
    } else {
        let stderr = io_files.next().ok_or("no errors were passed")?;
        run.stdout(stdout).stderr(stderr).stdin(io_files.next().map_or_else(Stdio::null, Stdio::from));
        run.process_group(0);
    }
    command::spawn(&mut run, argv, signals)
}

impl Beside {
    /// Until the command has ended, or the server wants it to.
    fn stay(self) -> Answer {
        let server = io::stdin();
        let code = loop {
            // Looked at before waiting: one that ended at once did so while signals were not blocked.
            if let Some(gone) = processes::reap().into_iter().find(|gone| gone.pid == self.pid) {
                break gone.code;
            }
            let wanted = [(self.signals.as_fd(), Want::Read), (server.as_fd(), Want::Read)];
            let ready = channel::wait(&wanted, None).unwrap_or_else(|_| vec![true, true]);
            while self.signals.next().is_some() {}
            if ready[1] {
                processes::end_all(|| self.tree(), || drop(processes::reap()));
                break 128 + signals::KILL;
            }
        };
        if self.isolation == Isolation::None {
            // Elsewhere the container adopts them, and they end with it.
            processes::end_descendants();
        }
        Answer::Ended(code)
    }

    /// Our descendants, and those of our session that the container has adopted.
    fn tree(&self) -> Vec<i32> {
        let me = std::process::id().cast_signed();
        let ours = |pid: &i32| self.table.stat(*pid).is_some_and(|it| it.session == me && !it.is_zombie);
        let mut all = self.table.descendants(me);
        all.extend(self.table.descendants(self.first).into_iter().filter(ours));
        all
    }
}
