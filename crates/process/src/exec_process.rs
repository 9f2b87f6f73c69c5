//! The process between the server and an exec'd command: it joins the container's namespaces, starts the command and
//! relays its exit code. When the server closes its end of the channel, the command is killed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::container_config::Isolation;
use crate::init_process::command;
use crate::run_files::{self, RunningRecord, SupervisorConfig};
use crate::system::channel::{self, Interest};
use crate::system::processes::{self, ProcTable};
use crate::system::signals::{self, SignalReceiver};
use crate::system::{confine, namespaces, terminal};
use crate::{cgroup, engine};

/// File descriptors that are always passed: stdout and stderr.
const OUTPUTS: usize = 2;

/// Requests of the server.
#[derive(Debug, Serialize, Deserialize)]
pub enum ExecRequest {
    /// Run a command. Passed file descriptors: a terminal; or stdout, stderr and optionally stdin.
    Run {
        argv: Vec<String>,
        /// Whether the descriptor is a terminal.
        tty: bool,
    },
    /// Kill it and its descendants.
    End,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum ExecReply {
    Started,
    /// The command could not be started.
    Refused(String),
    /// The command exited with this code.
    Ended(i32),
}

/// Entry point of the subcommand.
pub fn main(dir: &Path) -> ExitCode {
    let answer = match start_exec(dir) {
        Ok(Some(running)) => running.wait_for_exit(),
        Ok(None) => return ExitCode::FAILURE,
        Err(why) => ExecReply::Refused(why),
    };
    let _ = channel::send(io::stdin(), &answer, &[]);
    ExitCode::SUCCESS
}

struct RunningExec {
    table: ProcTable,
    first: i32,
    pid: i32,
    signals: SignalReceiver,
    isolation: Isolation,
}

fn start_exec(dir: &Path) -> Result<Option<RunningExec>, String> {
    let asked = channel::receive::<ExecRequest>(io::stdin())
        .map_err(|error| format!("listen to the server: {error}"))?;
    let Some((ExecRequest::Run { argv, tty }, io_files)) = asked else { return Ok(None) };
    let not_running = || "the container does not run".to_owned();
    let orders: SupervisorConfig = run_files::read(dir, run_files::CONFIG).ok_or_else(not_running)?;
    let running: RunningRecord = run_files::read(dir, run_files::RUNNING).ok_or_else(not_running)?;
    let table = ProcTable::open().map_err(|error| format!("/proc: {error}"))?;
    // Own session: `tree` identifies processes of this exec by it after the container's init has adopted them.
    confine::create_session();
    let signals = SignalReceiver::block().map_err(|error| format!("listen to signals: {error}"))?;
    let argv = match orders.engine {
        Some(engine) => {
            let has_input = tty || io_files.len() > OUTPUTS;
            engine::argv::exec(engine, &engine::container_name(&orders.launch.id), &argv, has_input, tty)
        }
        None => {
            // Before the command exists, so that the watchdog never misses its processes.
            File::create(dir.join(run_files::EXEC_MARKER))
                .map_err(|error| format!("leave a mark: {error}"))?;
            if let Some(parent) = &orders.cgroup {
                // Fails without a container cgroup, when the watchdog enforces the limits.
                let _ = cgroup::enter(parent, &orders.launch.id);
            }
            enter(&orders, &running, &table)?;
            argv
        }
    };
    let pid = start(&orders, dir, (&argv, tty), io_files, &signals)?;
    channel::send(io::stdin(), &ExecReply::Started, &[])
        .map_err(|error| format!("answer the server: {error}"))?;
    let isolation = orders.launch.isolation;
    Ok(Some(RunningExec { table, first: running.first.pid, pid, signals, isolation }))
}

fn enter(orders: &SupervisorConfig, running: &RunningRecord, table: &ProcTable) -> Result<(), String> {
    let who = &orders.launch.user;
    match orders.launch.isolation {
        Isolation::Namespaces => {
            let first = table.find(&running.first).ok_or("the container does not run")?;
            let is_root = nix::unistd::geteuid().is_root();
            namespaces::setns_all(&first)
                .map_err(|error| format!("join the container's namespaces: {error}"))?;
            // Without root the user namespace maps a single UID: there is no other user to switch to.
            if is_root {
                confine::switch_user(who).map_err(|error| format!("become user {:?}: {error}", who.uid))?;
            }
            command::confine(orders, &mut Vec::new())
        }
        Isolation::None => {
            // As a subreaper this process keeps all descendants of the command, to kill them with it.
            confine::become_subreaper().map_err(|error| format!("adopt orphans: {error}"))?;
            command::switch_user_on_host(who)?;
            confine::no_new_privileges().map_err(|error| format!("give up privileges: {error}"))
        }
    }
}

fn start(
    orders: &SupervisorConfig,
    dir: &Path,
    (argv, tty): (&[String], bool),
    io_files: Vec<File>,
    signals: &SignalReceiver,
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

impl RunningExec {
    /// Waits until the command exits or the server closes the channel.
    fn wait_for_exit(self) -> ExecReply {
        let server = io::stdin();
        let code = loop {
            // Reap before waiting: a command that exited at once did so while signals were unblocked.
            if let Some(exit) = processes::reap().into_iter().find(|exit| exit.pid == self.pid) {
                break exit.code;
            }
            let wanted = [(self.signals.as_fd(), Interest::Read), (server.as_fd(), Interest::Read)];
            let ready = channel::wait(&wanted, None).unwrap_or_else(|_| vec![true, true]);
            while self.signals.next().is_some() {}
            if ready[1] {
                processes::kill_all(|| self.tree(), || drop(processes::reap()));
                break 128 + signals::KILL;
            }
        };
        if self.isolation == Isolation::None {
            // In a PID namespace the container's init adopts its orphans.
            processes::kill_descendants();
        }
        ExecReply::Ended(code)
    }

    /// Our descendants, and processes of our session that the container's init has adopted.
    fn tree(&self) -> Vec<i32> {
        let me = std::process::id().cast_signed();
        let ours = |pid: &i32| self.table.stat(*pid).is_some_and(|it| it.session == me && !it.is_zombie);
        let mut all = self.table.descendants(me);
        all.extend(self.table.descendants(self.first).into_iter().filter(ours));
        all
    }
}
