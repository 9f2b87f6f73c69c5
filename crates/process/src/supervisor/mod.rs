//! The supervisor of one run (containerd: shim): starts the init process, writes the log, waits, and writes the exit
//! record.
//!
//! It is a process that outlives the server. It is single-threaded, since unshare requires that, and polls output,
//! input, signals and the init process; the watchdog checks limits periodically.
//!
//! # Guarantees
//!
//! - The inherited locks (see [`crate::run_files`]) are held for exactly the phase they stand for.
//! - It exits after the exit record is written, and no process of the container is left.

mod end;
mod input;
mod output;
pub(crate) mod watchdog;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use crate::cgroup::ContainerCgroup;
use crate::clock;
use crate::container_config::Isolation;
use crate::engine;
use crate::init_process::{InitCommand, InitEvent, command};
use crate::run_files::{self, RunningRecord, SupervisorConfig};
use crate::runtime::ExitReason;
use crate::subcommands;
use crate::system::channel::{self, Interest};
use crate::system::confine;
use crate::system::namespaces::{self, NamespacePrivilege};
use crate::system::processes::{self, ChildExit, ProcTable};
use crate::system::signals::{self, SignalReceiver};
use end::ExitRecordBuilder;
use input::StdinForwarder;
use output::OutputCollector;
use watchdog::Watchdog;

/// Output is read for at most this long after the last process of the container: another process may still hold the
/// pipe.
const DRAIN_FOR: Duration = Duration::from_secs(1);
/// Time for the client of an engine to exit after its container was killed.
const FORCE_AFTER: Duration = Duration::from_secs(10);

/// Entry point of the subcommand. Stdin and stdout are the locked files.
pub fn main(dir: &Path) -> ExitCode {
    match supervise(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("supervisor of {}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

fn supervise(dir: &Path) -> io::Result<()> {
    // Signals to the server's terminal or process group must not reach the container.
    confine::create_session();
    let signals = SignalReceiver::block()?;
    let orders: SupervisorConfig =
        run_files::read(dir, run_files::CONFIG).ok_or_else(|| io::Error::other("no orders"))?;
    let table = ProcTable::open()?;
    let me = table.know(std::process::id().cast_signed()).ok_or_else(|| io::Error::other("no /proc"))?;
    run_files::write(dir, run_files::SUPERVISOR, &me)?;
    // The server writes the kill marker and then looks for our identity; the reverse order here means that one side
    // always notices.
    let server_exited = orders.passing.is_some_and(|server| confine::signal_on_parent_death(server).is_err());
    let ended = if server_exited || dir.join(run_files::KILL).exists() {
        ExitRecordBuilder::killed_before_start()
    } else {
        match Supervisor::begin(dir, &orders, signals, table) {
            Ok(supervisor) => supervisor.run()?,
            Err(message) => ExitRecordBuilder::not_started(message),
        }
    };
    end::write_exit_record(dir, &orders.launch, ended)
}

struct Supervisor<'a> {
    dir: &'a Path,
    orders: &'a SupervisorConfig,
    signals: SignalReceiver,
    /// Channel to the init process; `None` after its EOF.
    channel: Option<OwnedFd>,
    first: i32,
    first_gone: Option<ChildExit>,
    output: OutputCollector,
    input: StdinForwarder,
    watchdog: Watchdog,
    leaf: Option<ContainerCgroup>,
    end: ExitRecordBuilder,
    /// When the client of an engine is killed after its container did not stop.
    force_at: Option<Duration>,
}

impl<'a> Supervisor<'a> {
    /// Sets up cgroup, log and stdin, starts the init process and sends [`InitCommand::Go`].
    fn begin(
        dir: &'a Path,
        orders: &'a SupervisorConfig,
        signals: SignalReceiver,
        table: ProcTable,
    ) -> Result<Supervisor<'a>, String> {
        let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let launch = &orders.launch;
        let leaf = orders
            .cgroup
            .as_ref()
            .and_then(|parent| ContainerCgroup::make(parent, &launch.id, &launch.limits));
        let (output, theirs) = OutputCollector::open(dir, orders).map_err(said("open the log"))?;
        let (input, stdin) =
            StdinForwarder::open(dir, launch, output.terminal()).map_err(said("open the input"))?;
        let power = unshare(orders)?;
        let (ours, child_end) = channel::pair().map_err(said("make a channel"))?;
        let first = start_init(dir, orders, child_end, theirs).map_err(said("start the first process"))?;
        if let Some(leaf) = &leaf {
            // Before `Go`: the command never runs outside of its limits.
            leaf.add(first).map_err(said("enter the control group"))?;
        }
        let go = InitCommand::Go { as_root: power == NamespacePrivilege::Root };
        let files: Vec<_> = stdin.iter().map(AsFd::as_fd).collect();
        channel::send(&ours, &go, &files).map_err(said("tell the first process to go"))?;
        let watchdog = Watchdog::new(table, dir, orders, leaf.as_ref());
        Ok(Supervisor {
            dir,
            orders,
            signals,
            channel: Some(ours),
            first,
            first_gone: None,
            output,
            input,
            watchdog,
            leaf,
            end: ExitRecordBuilder::default(),
            force_at: None,
        })
    }

    fn run(mut self) -> io::Result<ExitRecordBuilder> {
        // Until init has closed its channel and was reaped; either may be observed first.
        while self.channel.is_some() || self.first_gone.is_none() {
            if let Err(error) = self.poll_once(None) {
                self.abort(&error)?;
            }
        }
        if self.orders.launch.isolation == Isolation::None {
            processes::kill_descendants();
            // Exec'd commands are not our descendants.
            processes::kill_with_environment(&command::mark(self.dir));
        }
        self.remove_leftovers();
        let until = clock::steady() + DRAIN_FOR;
        while self.output.is_open() && clock::steady() < until {
            self.poll_once(Some(until.saturating_sub(clock::steady())))?;
        }
        self.end.lost(self.output.close());
        self.end
            .init_exited(self.first_gone, self.leaf.as_ref().is_some_and(ContainerCgroup::was_oom_killed));
        drop(self.leaf.take());
        Ok(self.end)
    }

    /// Removes the engine's container, unless init exited normally and did so itself.
    fn remove_leftovers(&self) {
        if let Some(engine) = self.orders.engine
            && self.first_gone.is_some_and(|gone| gone.code != 0)
        {
            engine.remove(&engine::container_name(&self.orders.launch.id));
        }
    }

    /// An error of the supervisor itself kills the container: it must not run unsupervised.
    fn abort(&mut self, error: &io::Error) -> io::Result<()> {
        if self.channel.take().is_none() {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        self.end = ExitRecordBuilder::not_started(format!("the container's supervisor: {error}"));
        self.kill_container();
        Ok(())
    }

    /// One iteration of the poll loop.
    fn poll_once(&mut self, most: Option<Duration>) -> io::Result<()> {
        let force_in = self.force_at.map(|at| at.saturating_sub(clock::steady()));
        let time = [most, self.output.flush_in(), self.watchdog.next_check_in(), force_in];
        let time = time.into_iter().flatten().min();
        let mut wanted = vec![(self.signals.as_fd(), Interest::Read)];
        wanted.extend(self.channel.as_ref().map(|channel| (channel.as_fd(), Interest::Read)));
        let outputs_from = wanted.len();
        self.output.want(&mut wanted);
        let inputs_from = wanted.len();
        self.input.want(&mut wanted);
        let ready = channel::wait(&wanted, time)?;
        if self.channel.is_some() && ready[1] {
            self.handle_init_event()?;
        }
        self.output.take(&ready[outputs_from..inputs_from]);
        self.input.take(&ready[inputs_from..]);
        self.handle_signals();
        if let Some(why) = self.watchdog.look(self.first) {
            self.end.set_reason(why);
            self.kill_container();
        }
        if self.force_at.is_some_and(|at| at <= clock::steady()) {
            self.kill_container();
        }
        Ok(())
    }

    fn handle_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                signals::CHILD => {
                    let gone = processes::reap().into_iter().find(|gone| gone.pid == self.first);
                    self.first_gone = self.first_gone.or(gone);
                }
                signals::KILL_CONTAINER => self.kill_container(),
                // The host shuts down: forward SIGTERM to the container.
                signals::TERM => signals::send(self.first, signals::TERM),
                _ => {}
            }
        }
    }

    fn kill_container(&mut self) {
        if self.first_gone.is_some() {
            return;
        }
        if !self.should_force_kill() {
            return;
        }
        match self.orders.launch.isolation {
            Isolation::Namespaces => signals::send(self.first, signals::KILL),
            Isolation::None => {
                let gone = processes::kill_descendants().into_iter().find(|gone| gone.pid == self.first);
                self.first_gone = self.first_gone.or(gone);
            }
        }
    }

    /// Whether to kill our own processes now. With an engine, its container is killed first: the client then forwards
    /// the remaining output and exits by itself.
    fn should_force_kill(&mut self) -> bool {
        let Some(engine) = self.orders.engine else { return true };
        let asked = self.force_at.is_some();
        let until = *self.force_at.get_or_insert_with(|| clock::steady() + FORCE_AFTER);
        let done = !asked && engine.signal(&engine::container_name(&self.orders.launch.id), signals::KILL);
        let is_time = !done && (!asked || until <= clock::steady());
        if is_time {
            self.force_at = None;
        }
        is_time
    }

    fn handle_init_event(&mut self) -> io::Result<()> {
        let Some(channel) = &self.channel else { return Ok(()) };
        match channel::receive::<InitEvent>(channel)? {
            None => self.channel = None,
            Some((InitEvent::MapUsers, _)) => {
                namespaces::write_identity_id_maps(self.first)?;
                channel::send(channel, &InitCommand::Mapped, &[])?;
            }
            Some((InitEvent::Started { missing }, _)) => self.started(missing)?,
            Some((InitEvent::NotStarted { message }, _)) => {
                self.end = ExitRecordBuilder::not_started(message);
            }
            Some((InitEvent::NoImage { why, message }, _)) => {
                self.end = ExitRecordBuilder::image_unavailable(why, message);
            }
            Some((InitEvent::OutOfMemory, _)) => self.end.set_reason(ExitReason::OutOfMemory),
            Some((InitEvent::Ended { code, signal }, _)) => self.end.command_ended(code, signal),
        }
        Ok(())
    }

    fn started(&mut self, missing: Vec<String>) -> io::Result<()> {
        let since_micros = clock::now_micros();
        self.end.command_started(since_micros);
        // Init has exited already; its exit is handled next.
        let Some(first) = self.watchdog.know(self.first) else { return Ok(()) };
        run_files::write(self.dir, run_files::RUNNING, &RunningRecord { since_micros, first, missing })?;
        // Closing stdout releases the `starting` lock.
        nix::unistd::dup2_stdout(File::open("/dev/null")?)?;
        Ok(())
    }
}

fn unshare(orders: &SupervisorConfig) -> Result<NamespacePrivilege, String> {
    match orders.launch.isolation {
        // Processes of an engine are the engine's.
        _ if orders.engine.is_some() => Ok(NamespacePrivilege::Unprivileged),
        Isolation::Namespaces => namespaces::unshare_pid().map_err(|error| {
            format!("this machine allows no namespaces ({error}): allow user namespaces, or use `--isolation none`")
        }),
        Isolation::None => {
            confine::become_subreaper().map_err(|error| format!("adopt orphans: {error}"))?;
            Ok(NamespacePrivilege::Unprivileged)
        }
    }
}

fn start_init(
    dir: &Path,
    orders: &SupervisorConfig,
    end: OwnedFd,
    theirs: output::ContainerOutputs,
) -> io::Result<i32> {
    confine::chown_file(&theirs.stdout, &orders.launch.user);
    confine::chown_file(&theirs.stderr, &orders.launch.user);
    let child = subcommands::command(Path::new(subcommands::OWN_PROGRAM), subcommands::INSIDE, dir, orders)
        .stdin(Stdio::from(end))
        .stdout(Stdio::from(theirs.stdout))
        .stderr(Stdio::from(theirs.stderr))
        .spawn()?;
    Ok(child.id().cast_signed())
}
