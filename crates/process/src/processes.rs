//! [`Containers`] with processes of this machine: makes folders, starts supervisors, and learns from locks how they do.
//!
//! # Invariants
//!
//! - One small thread per live run waits for its locks and for nothing else; what it learns it writes into the map and
//!   rings the bell, in that order.
//! - The map says what the files say: a server that comes back builds it from them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::time::Time;

use crate::cgroup::Leaf;
use crate::engine::{self, Engine};
use crate::files::{self, Known, Orders, Running};
use crate::inside::command;
use crate::launch::{Isolation, Launch};
use crate::layout::{Id, Layout};
use crate::logs::Bounds;
use crate::port::{Applied, Attached, Bell, Containers, Ended, Exec, ExecOptions, State, Usage, Why};
use crate::probe::{self, Found};
use crate::supervise::watchdog;
use crate::system::processes::{self, Table};
use crate::system::signals;
use crate::{cgroup, clock, exec, remove, words};

/// Threads that only wait need little.
const STACK_BYTES: usize = 64 * 1024;
/// How long what a lost supervisor left behind may take to go.
const LEFTOVERS_WITHIN: Duration = Duration::from_secs(5);
/// `PATH` for a server that has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Containers as processes of this machine.
pub struct Processes {
    shared: Arc<Shared>,
    program: PathBuf,
    isolation: Isolation,
    found: Found,
    cgroup: Result<PathBuf, String>,
    log: Bounds,
    /// Who runs containers, if we do not.
    engine: Option<Engine>,
    /// Whether runs end with this process.
    passing: bool,
}

struct Shared {
    layout: Layout,
    bell: Bell,
    table: Table,
    runs: Mutex<BTreeMap<Id, Run>>,
}

struct Run {
    state: State,
    /// Whom signals go to, while it runs.
    first: Option<Known>,
    /// Signals that came before it ran.
    early: Vec<i32>,
}

impl Processes {
    /// Containers below `layout`, with `program` as supervisor (it must call [`crate::run_hidden_command`]). Finds what
    /// earlier servers left: what runs is adopted, what was lost is told as such.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(layout: Layout, program: PathBuf, isolation: Isolation, bell: Bell) -> io::Result<Processes> {
        fs::create_dir_all(layout.root())?;
        let found = match isolation {
            Isolation::Namespaces => probe::ask(&program),
            Isolation::None => Found::default(),
        };
        let shared = Shared { layout, bell, table: Table::open()?, runs: Mutex::default() };
        let all = Processes {
            shared: Arc::new(shared),
            program,
            isolation,
            found,
            cgroup: cgroup::delegated(),
            log: Bounds::DEFAULT,
            engine: None,
            passing: false,
        };
        for id in files::begun(&all.shared.layout)? {
            all.adopt(id)?;
        }
        Ok(all)
    }

    /// Runs that begin from now on end with this process, however it ends: for servers whose folders nobody opens again.
    /// The thread that begins them must live as long as they shall.
    #[must_use]
    pub fn passing(mut self) -> Processes {
        self.passing = true;
        self
    }

    /// Has a container engine run the images of runs that begin from now on.
    #[must_use]
    pub fn with_engine(mut self, engine: Engine) -> Processes {
        self.engine = Some(engine);
        self
    }

    /// Keeps another amount of log, for runs that begin from now on.
    #[must_use]
    pub fn with_log_bounds(mut self, log: Bounds) -> Processes {
        self.log = log;
        self
    }

    fn adopt(&self, id: Id) -> io::Result<()> {
        let dir = self.shared.layout.run(&id);
        if let Some(ended) = files::read::<Ended>(&dir, files::ENDED) {
            self.shared.set(&id, State::Ended(ended));
            return Ok(());
        }
        let is_alive = match File::open(dir.join(files::ALIVE)) {
            Ok(lock) => lock.try_lock().is_err(),
            Err(_) => false,
        };
        if !is_alive {
            let ended = self.shared.find_end(&id);
            self.shared.set(&id, State::Ended(ended));
            return Ok(());
        }
        self.shared.set(&id, State::Starting);
        if let Some(running) = files::read::<Running>(&dir, files::RUNNING) {
            self.shared.set_running(&id, running);
        }
        let _ = self.watch(id)?.send(None);
        Ok(())
    }

    /// A thread that watches a run as soon as it is given its supervisor; an adopted one is no child of ours.
    fn watch(&self, id: Id) -> io::Result<Sender<Option<Child>>> {
        let shared = Arc::clone(&self.shared);
        let (go, begun) = channel::<Option<Child>>();
        let watch = move || begun.into_iter().take(1).for_each(|child| shared.watch(&id, child));
        std::thread::Builder::new().name("run".to_owned()).stack_size(STACK_BYTES).spawn(watch)?;
        Ok(go)
    }

    fn orders(&self, launch: &Launch) -> Orders {
        let own = |name: &str, absent: &str| std::env::var(name).unwrap_or_else(|_| absent.to_owned());
        let mut launch = launch.clone();
        if self.engine.is_some() {
            // The engine keeps containers apart.
            launch.isolation = Isolation::None;
        }
        Orders {
            launch,
            path: own("PATH", PATH),
            home: own("HOME", "/"),
            cgroup: self.cgroup.clone().ok().filter(|_| self.engine.is_none()),
            log: self.log,
            passing: self.passing.then(|| std::process::id().cast_signed()),
            engine: self.engine,
        }
    }

    /// Fills a run's new folder and starts its supervisor.
    fn begin(&self, dir: &Path, launch: &Launch) -> io::Result<Child> {
        let orders = self.orders(launch);
        files::write(dir, files::ORDERS, &orders)?;
        files::set_space_aside(dir)?;
        fs::create_dir(dir.join(files::ROOT))?;
        files::open_to_all(&dir.join(files::TMP), files::Made::Folder)?;
        files::open_to_all(&dir.join(files::MESSAGE), files::Made::File)?;
        if launch.stdin {
            files::make_pipe(&dir.join(files::STDIN))?;
        }
        if launch.tty {
            files::make_pipe(&dir.join(files::SIZE))?;
        }
        // The locks are taken here and go over to the supervisor, so that there is no moment without them.
        let (alive, starting) =
            (files::locked(&dir.join(files::ALIVE))?, files::locked(&dir.join(files::STARTING))?);
        let complaints = File::options().append(true).create(true).open(dir.join(files::COMPLAINTS))?;
        words::command(&self.program, words::SUPERVISE, dir, &orders)
            .stdin(Stdio::from(alive))
            .stdout(Stdio::from(starting))
            .stderr(Stdio::from(complaints))
            .spawn()
    }
}

impl Containers for Processes {
    fn start(&self, launch: &Launch) -> Result<(), String> {
        if self.engine.is_none() && (launch.argv.is_empty() || launch.image_program) {
            return Err(
                "no command: nothing is pulled here, so `command` must name a program of this machine"
                    .to_owned(),
            );
        }
        let dir = self.shared.layout.run(&launch.id);
        let said = |error: io::Error| format!("start container in {}: {error}", dir.display());
        fs::create_dir_all(self.shared.layout.container(&launch.id.pod, &launch.id.container))
            .map_err(said)?;
        // This is the moment from which on it was begun.
        fs::create_dir(&dir).map_err(said)?;
        // The thread first: a run that nobody watches must not begin.
        let begun = self.watch(launch.id.clone()).and_then(|go| Ok((go, self.begin(&dir, launch)?)));
        let (go, child) = begun.map_err(|error| {
            let _ = remove::folder(&dir);
            said(error)
        })?;
        self.shared.set(&launch.id, State::Starting);
        let _ = go.send(Some(child));
        Ok(())
    }

    fn state(&self, id: &Id) -> Option<State> {
        self.shared.runs().get(id).map(|run| run.state.clone())
    }

    fn all(&self) -> Vec<Id> {
        self.shared.runs().keys().cloned().collect()
    }

    fn signal(&self, id: &Id, signal: i32) {
        let mut runs = self.shared.runs();
        let Some(run) = runs.get_mut(id) else { return };
        match (&run.state, &run.first) {
            (State::Starting, _) => run.early.push(signal),
            (State::Running { .. }, Some(first)) => self.shared.send(first, signal),
            _ => {}
        }
    }

    fn kill(&self, id: &Id) {
        if matches!(self.state(id), None | Some(State::Ended(_))) {
            return;
        }
        let dir = self.shared.layout.run(id);
        // The mark first: a supervisor that does not listen yet looks for it when it does.
        let _ = File::create(dir.join(files::KILL));
        if let Some(supervisor) = files::read::<Known>(&dir, files::SUPERVISOR) {
            self.shared.send(&supervisor, signals::END_ALL);
        }
    }

    fn remove(&self, pod: &str) -> io::Result<()> {
        let mut runs = self.shared.runs();
        let is_alive = |(id, run): (&Id, &Run)| id.pod == pod && !matches!(run.state, State::Ended(_));
        if runs.iter().any(is_alive) {
            return Err(io::Error::other(format!("pod {pod} has containers that still run")));
        }
        runs.retain(|id, _| id.pod != pod);
        drop(runs);
        remove::folder(&self.shared.layout.pod(pod))
    }

    fn forget(&self, id: &Id) -> io::Result<()> {
        let mut runs = self.shared.runs();
        if runs.get(id).is_some_and(|run| !matches!(run.state, State::Ended(_))) {
            return Err(io::Error::other(format!("container {id} still runs")));
        }
        runs.remove(id);
        drop(runs);
        remove::folder(&self.shared.layout.run(id))
    }

    fn exec(&self, id: &Id, options: &ExecOptions) -> Result<Exec, String> {
        let dir = self.running(id)?;
        let orders: Orders =
            files::read(&dir, files::ORDERS).ok_or("the container's orders cannot be read")?;
        exec::start(&self.program, &dir, &orders, options)
    }

    fn attach(&self, id: &Id, stdin: bool) -> Result<Attached, String> {
        let dir = self.running(id)?;
        let stdin = match dir.join(files::STDIN) {
            // One that nobody reads any more has ended for all: there is output still.
            path if stdin && path.exists() => files::open_pipe(&path).ok(),
            _ => None,
        };
        let size = dir.join(files::SIZE);
        let resize = move |columns: u16, rows: u16| {
            if let Ok(mut pipe) = files::open_pipe(&size) {
                let _ = io::Write::write_all(&mut pipe, format!("{columns} {rows}\n").as_bytes());
            }
        };
        Ok(Attached { stdin, resize: Box::new(resize) })
    }

    fn log(&self, id: &Id) -> PathBuf {
        self.shared.layout.run(id).join(files::LOG)
    }

    fn usage(&self, id: &Id) -> Option<Usage> {
        // What an engine runs is not among our descendants.
        if self.engine.is_some() {
            return None;
        }
        let first = match self.shared.runs().get(id)? {
            Run { state: State::Running { .. }, first: Some(first), .. } => first.clone(),
            _ => return None,
        };
        let of_leaf = self.cgroup.as_ref().ok().and_then(|parent| cgroup::usage(parent, id));
        of_leaf.or_else(|| self.shared.usage_of_processes(id, &first, self.isolation))
    }

    fn applied(&self) -> Vec<Applied> {
        if self.engine.is_some() {
            return vec![Applied { what: "images", missing: None }];
        }
        probe::applied(self.isolation, &self.found, self.cgroup.clone().err())
    }
}

impl Processes {
    /// The folder of a run that runs.
    fn running(&self, id: &Id) -> Result<PathBuf, String> {
        match self.state(id) {
            Some(State::Running { .. }) => Ok(self.shared.layout.run(id)),
            Some(State::Starting) => Err(format!("container {} does not run yet", id.container)),
            Some(State::Ended(_)) => Err(format!("container {} does not run any more", id.container)),
            None => Err(format!("container {} was never started", id.container)),
        }
    }
}

impl Shared {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<Id, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, id: &Id, state: State) {
        self.runs().insert(id.clone(), Run { state, first: None, early: Vec::new() });
    }

    fn set_running(&self, id: &Id, running: Running) {
        let mut runs = self.runs();
        let Some(run) = runs.get_mut(id) else { return };
        run.state = State::Running { since: Time(running.since_micros) };
        for signal in run.early.drain(..) {
            self.send(&running.first, signal);
        }
        run.first = Some(running.first);
    }

    /// The sum over the processes of a run. Memory that several share is counted for each of them in parts.
    fn usage_of_processes(&self, id: &Id, first: &Known, isolation: Isolation) -> Option<Usage> {
        self.table.find(first)?;
        let mut pids = watchdog::members(&self.table, &self.layout.run(id), isolation, first.pid);
        pids.push(first.pid);
        let mut sum = Usage::default();
        for (pid, stat) in pids.iter().filter_map(|pid| Some((*pid, self.table.stat(*pid)?))) {
            sum.cpu += stat.cpu;
            let bytes = self.table.proportional_bytes(pid).unwrap_or(stat.resident_bytes);
            sum.memory_bytes = sum.memory_bytes.saturating_add(bytes);
        }
        Some(sum)
    }

    fn send(&self, to: &Known, signal: i32) {
        if let Some(process) = self.table.find(to) {
            process.signal(signal);
        }
    }

    /// The life of one thread: waits for the run to begin, then for its end.
    fn watch(&self, id: &Id, child: Option<Child>) {
        let dir = self.layout.run(id);
        files::wait_for_lock(&dir.join(files::STARTING));
        if let Some(running) = files::read::<Running>(&dir, files::RUNNING) {
            self.set_running(id, running);
            (self.bell)(id);
        }
        files::wait_for_lock(&dir.join(files::ALIVE));
        if let Some(mut child) = child {
            let _ = child.wait();
        }
        let ended = self.find_end(id);
        self.set(id, State::Ended(ended));
        (self.bell)(id);
    }

    /// How a run whose supervisor is gone ended.
    fn find_end(&self, id: &Id) -> Ended {
        let dir = self.layout.run(id);
        if let Some(ended) = files::read(&dir, files::ENDED) {
            return ended;
        }
        let running = files::read::<Running>(&dir, files::RUNNING);
        self.end_leftovers(&dir, running.as_ref());
        let ended = Ended {
            since_micros: running.map(|it| it.since_micros),
            until_micros: clock::now_micros(),
            code: 128 + signals::KILL,
            signal: None,
            why: Why::Lost,
            message: files::lost_message(&dir),
        };
        // So that the next server tells the same.
        let _ = files::write_end(&dir, &ended);
        ended
    }

    /// Whatever a supervisor that was killed could not end itself.
    fn end_leftovers(&self, dir: &Path, running: Option<&Running>) {
        if let Some(first) = running.and_then(|it| self.table.find(&it.first)) {
            first.signal(signals::KILL);
            let _ = first.wait_gone(LEFTOVERS_WITHIN);
        }
        let Some(orders) = files::read::<Orders>(dir, files::ORDERS) else { return };
        if let Some(engine) = orders.engine {
            engine.remove(&engine::name(&orders.launch.id));
        } else if orders.launch.isolation == Isolation::None {
            let mark = command::mark(dir);
            processes::end_all(|| self.table.with_environment(&mark), || ());
        }
        drop(orders.cgroup.and_then(|parent| Leaf::left_by(&parent, &orders.launch.id)));
    }
}
