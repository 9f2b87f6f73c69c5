//! The supervisor of one run: starts the first process, keeps the log, waits, and writes the end down.
//!
//! It is a process of its own that outlives the server. It has one thread (namespaces demand it) and one loop, which
//! waits for output, input, signals and the first process, and looks after limits now and then.
//!
//! # Invariants
//!
//! - The locks it was started with (see [`crate::files`]) are held until what they stand for is over.
//! - The end is written before it exits; then nothing of the container is left.

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

use crate::cgroup::Leaf;
use crate::clock;
use crate::engine;
use crate::files::{self, Orders, Running};
use crate::inside::{Said, Told, command};
use crate::launch::Isolation;
use crate::port::Why;
use crate::system::channel::{self, Want};
use crate::system::confine;
use crate::system::namespaces::{self, Power};
use crate::system::processes::{self, Gone, Table};
use crate::system::signals::{self, Signals};
use crate::words;
use end::End;
use input::Input;
use output::Output;
use watchdog::Watchdog;

/// How long output is read after the last process has ended: whoever still holds it open is not ours.
const DRAIN_FOR: Duration = Duration::from_secs(1);
/// How long an engine's client may take to end after its container has.
const FORCE_AFTER: Duration = Duration::from_secs(10);

/// Runs a supervisor. Its standard input and output are the locks.
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
    confine::own_session();
    let signals = Signals::block()?;
    let orders: Orders = files::read(dir, files::ORDERS).ok_or_else(|| io::Error::other("no orders"))?;
    let table = Table::open()?;
    let me = table.know(std::process::id().cast_signed()).ok_or_else(|| io::Error::other("no /proc"))?;
    files::write(dir, files::SUPERVISOR, &me)?;
    // The server leaves the mark first and looks for us second; we do it the other way round.
    let abandoned = orders.passing.is_some_and(|server| confine::end_all_with(server).is_err());
    let ended = if abandoned || dir.join(files::KILL).exists() {
        End::killed_before_it_began()
    } else {
        match Supervisor::begin(dir, &orders, signals, table) {
            Ok(supervisor) => supervisor.run()?,
            Err(message) => End::not_started(message),
        }
    };
    end::write_down(dir, &orders.launch, ended)
}

struct Supervisor<'a> {
    dir: &'a Path,
    orders: &'a Orders,
    signals: Signals,
    /// Gone when the first process is.
    channel: Option<OwnedFd>,
    first: i32,
    first_gone: Option<Gone>,
    output: Output,
    input: Input,
    watchdog: Watchdog,
    leaf: Option<Leaf>,
    end: End,
    /// When the client of an engine that was asked to end its container is ended, too.
    force_at: Option<Duration>,
}

impl<'a> Supervisor<'a> {
    /// Up to the first process, which is told to go.
    fn begin(
        dir: &'a Path,
        orders: &'a Orders,
        signals: Signals,
        table: Table,
    ) -> Result<Supervisor<'a>, String> {
        let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        let launch = &orders.launch;
        let leaf = orders.cgroup.as_ref().and_then(|parent| Leaf::make(parent, &launch.id, &launch.limits));
        let (output, theirs) = Output::open(dir, orders).map_err(said("open the log"))?;
        let (input, stdin) = Input::open(dir, launch, output.terminal()).map_err(said("open the input"))?;
        let power = separate(orders)?;
        let (ours, child_end) = channel::pair().map_err(said("make a channel"))?;
        let first = start_first(dir, orders, child_end, theirs).map_err(said("start the first process"))?;
        if let Some(leaf) = &leaf {
            leaf.add(first).map_err(said("enter the control group"))?;
        }
        let go = Told::Go { as_root: power == Power::Root };
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
            end: End::default(),
            force_at: None,
        })
    }

    fn run(mut self) -> io::Result<End> {
        while self.channel.is_some() || self.first_gone.is_none() {
            if let Err(error) = self.turn(None) {
                self.give_up(&error)?;
            }
        }
        if self.orders.launch.isolation == Isolation::None {
            processes::end_descendants();
            // Commands beside it are nobody's descendants of ours.
            processes::end_marked(&command::mark(self.dir));
        }
        self.remove_leftovers();
        let until = clock::steady() + DRAIN_FOR;
        while self.output.is_open() && clock::steady() < until {
            self.turn(Some(until.saturating_sub(clock::steady())))?;
        }
        self.end.lost(self.output.close());
        self.end.first_gone(self.first_gone, self.leaf.as_ref().is_some_and(Leaf::is_out_of_memory));
        drop(self.leaf.take());
        Ok(self.end)
    }

    /// A first process that ended by itself has removed the engine's container.
    fn remove_leftovers(&self) {
        if let Some(engine) = self.orders.engine
            && self.first_gone.is_some_and(|gone| gone.code != 0)
        {
            engine.remove(&engine::name(&self.orders.launch.id));
        }
    }

    /// Something went wrong outside the container: it is not left alone with that.
    fn give_up(&mut self, error: &io::Error) -> io::Result<()> {
        if self.channel.take().is_none() {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        self.end = End::not_started(format!("the container's supervisor: {error}"));
        self.end_all();
        Ok(())
    }

    /// Waits for something and sees to it.
    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        let force_in = self.force_at.map(|at| at.saturating_sub(clock::steady()));
        let time = [most, self.output.flush_in(), self.watchdog.look_in(), force_in];
        let time = time.into_iter().flatten().min();
        let mut wanted = vec![(self.signals.as_fd(), Want::Read)];
        wanted.extend(self.channel.as_ref().map(|channel| (channel.as_fd(), Want::Read)));
        let outputs_from = wanted.len();
        self.output.want(&mut wanted);
        let inputs_from = wanted.len();
        self.input.want(&mut wanted);
        let ready = channel::wait(&wanted, time)?;
        if self.channel.is_some() && ready[1] {
            self.hear()?;
        }
        self.output.take(&ready[outputs_from..inputs_from]);
        self.input.take(&ready[inputs_from..]);
        self.take_signals();
        if let Some(why) = self.watchdog.look(self.first) {
            self.end.blame(why);
            self.end_all();
        }
        if self.force_at.is_some_and(|at| at <= clock::steady()) {
            self.end_all();
        }
        Ok(())
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                signals::CHILD => {
                    let gone = processes::reap().into_iter().find(|gone| gone.pid == self.first);
                    self.first_gone = self.first_gone.or(gone);
                }
                signals::END_ALL => self.end_all(),
                // The machine is going down: the container should know.
                signals::TERM => signals::send(self.first, signals::TERM),
                _ => {}
            }
        }
    }

    fn end_all(&mut self) {
        if self.first_gone.is_some() {
            return;
        }
        if !self.is_time_for_force() {
            return;
        }
        match self.orders.launch.isolation {
            Isolation::Namespaces => signals::send(self.first, signals::KILL),
            Isolation::None => {
                let gone = processes::end_descendants().into_iter().find(|gone| gone.pid == self.first);
                self.first_gone = self.first_gone.or(gone);
            }
        }
    }

    /// Whether our own processes are to be ended now. An engine is asked to end its container first: then its client,
    /// which passes on what the container still wrote, ends by itself.
    fn is_time_for_force(&mut self) -> bool {
        let Some(engine) = self.orders.engine else { return true };
        let asked = self.force_at.is_some();
        let until = *self.force_at.get_or_insert_with(|| clock::steady() + FORCE_AFTER);
        let done = !asked && engine.signal(&engine::name(&self.orders.launch.id), signals::KILL);
        let is_time = !done && (!asked || until <= clock::steady());
        if is_time {
            self.force_at = None;
        }
        is_time
    }

    fn hear(&mut self) -> io::Result<()> {
        let Some(channel) = &self.channel else { return Ok(()) };
        match channel::receive::<Said>(channel)? {
            None => self.channel = None,
            Some((Said::MapUsers, _)) => {
                namespaces::map_all(self.first)?;
                channel::send(channel, &Told::Mapped, &[])?;
            }
            Some((Said::Started { missing }, _)) => self.started(missing)?,
            Some((Said::NotStarted { message }, _)) => self.end = End::not_started(message),
            Some((Said::NoImage { why, message }, _)) => self.end = End::no_image(why, message),
            Some((Said::OutOfMemory, _)) => self.end.blame(Why::OutOfMemory),
            Some((Said::Ended { code, signal }, _)) => self.end.command_ended(code, signal),
        }
        Ok(())
    }

    fn started(&mut self, missing: Vec<String>) -> io::Result<()> {
        let since_micros = clock::now_micros();
        self.end.began(since_micros);
        // Ended right after it said so: how is seen next.
        let Some(first) = self.watchdog.know(self.first) else { return Ok(()) };
        files::write(self.dir, files::RUNNING, &Running { since_micros, first, missing })?;
        // Lets go of the lock that says we are getting ready.
        nix::unistd::dup2_stdout(File::open("/dev/null")?)?;
        Ok(())
    }
}

fn separate(orders: &Orders) -> Result<Power, String> {
    match orders.launch.isolation {
        // What an engine leaves running is the engine's.
        _ if orders.engine.is_some() => Ok(Power::Ordinary),
        Isolation::Namespaces => namespaces::separate_processes().map_err(|error| {
            format!("this machine allows no namespaces ({error}): allow user namespaces, or use `--isolation none`")
        }),
        Isolation::None => {
            confine::adopt_orphans().map_err(|error| format!("adopt orphans: {error}"))?;
            Ok(Power::Ordinary)
        }
    }
}

fn start_first(dir: &Path, orders: &Orders, end: OwnedFd, theirs: output::Theirs) -> io::Result<i32> {
    confine::give(&theirs.stdout, &orders.launch.user);
    confine::give(&theirs.stderr, &orders.launch.user);
    let child = words::command(Path::new(words::OWN_PROGRAM), words::INSIDE, dir, orders)
        .stdin(Stdio::from(end))
        .stdout(Stdio::from(theirs.stdout))
        .stderr(Stdio::from(theirs.stderr))
        .spawn()?;
    Ok(child.id().cast_signed())
}
