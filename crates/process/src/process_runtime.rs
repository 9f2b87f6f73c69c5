//! A [`ContainerRuntime`] of host processes: creates run directories, starts supervisors, and learns their state from
//! file locks.
//!
//! # Guarantees
//!
//! - One thread per active run waits for its locks. It updates the map first and then calls the state callback.
//! - The map mirrors the files, so a restarted server rebuilds it from them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::time::Time;

use crate::cgroup::ContainerCgroup;
use crate::container_config::{ContainerConfig, Isolation};
use crate::engine::{self, ContainerEngine};
use crate::host_support::{self, HostSupport};
use crate::init_process::command;
use crate::logs::LogRotation;
use crate::pod_dirs::{PodDirs, RunId};
use crate::run_files::{self, ProcessIdentity, RunningRecord, SupervisorConfig};
use crate::runtime::{
    AttachSession, ContainerRuntime, ContainerUsage, ExecOptions, ExecSession, ExitReason, ExitRecord,
    IsolationFeature, OnStateChange, RunState,
};
use crate::supervisor::watchdog;
use crate::system::processes::{self, ProcTable};
use crate::system::signals;
use crate::{cgroup, cleanup, clock, exec_session, subcommands};

/// Stack size of the threads that wait for locks.
const STACK_BYTES: usize = 64 * 1024;
/// Time for the processes of a killed supervisor to exit after SIGKILL.
const LEFTOVERS_WITHIN: Duration = Duration::from_secs(5);
/// `PATH` of a server without one.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs containers as processes of the host.
pub struct ProcessRuntime {
    shared: Arc<Shared>,
    program: PathBuf,
    isolation: Isolation,
    found: HostSupport,
    cgroup: Result<PathBuf, String>,
    log: LogRotation,
    /// The container engine that runs images, if configured.
    engine: Option<ContainerEngine>,
    /// Whether runs are killed when this process exits.
    passing: bool,
}

struct Shared {
    layout: PodDirs,
    bell: OnStateChange,
    table: ProcTable,
    runs: Mutex<BTreeMap<RunId, Run>>,
}

struct Run {
    state: RunState,
    /// The init process, which receives signals while the run is active.
    first: Option<ProcessIdentity>,
    /// Signals received before the command started.
    pending_signals: Vec<i32>,
}

impl ProcessRuntime {
    /// Opens the runtime below `layout`, with `program` as supervisor (it must call [`crate::run_hidden_command`]).
    /// Active runs of earlier servers are adopted; runs without a supervisor and exit record are marked as lost.
    pub fn open(
        layout: PodDirs,
        program: PathBuf,
        isolation: Isolation,
        bell: OnStateChange,
    ) -> io::Result<ProcessRuntime> {
        fs::create_dir_all(layout.root())?;
        let found = match isolation {
            Isolation::Namespaces => host_support::detect(&program),
            Isolation::None => HostSupport::default(),
        };
        let shared = Shared { layout, bell, table: ProcTable::open()?, runs: Mutex::default() };
        let all = ProcessRuntime {
            shared: Arc::new(shared),
            program,
            isolation,
            found,
            cgroup: cgroup::delegated_parent(),
            log: LogRotation::DEFAULT,
            engine: None,
            passing: false,
        };
        for id in run_files::begun(&all.shared.layout)? {
            all.adopt(id)?;
        }
        Ok(all)
    }

    /// Runs started from now on are killed when this process exits, for servers without a persistent data directory.
    /// The starting thread must live as long as the runs: the parent death signal follows the thread.
    #[must_use]
    pub fn passing(mut self) -> ProcessRuntime {
        self.passing = true;
        self
    }

    /// Uses a container engine for runs started from now on.
    #[must_use]
    pub fn with_engine(mut self, engine: ContainerEngine) -> ProcessRuntime {
        self.engine = Some(engine);
        self
    }

    /// Sets the log rotation of runs started from now on.
    #[must_use]
    pub fn with_log_bounds(mut self, log: LogRotation) -> ProcessRuntime {
        self.log = log;
        self
    }

    fn adopt(&self, id: RunId) -> io::Result<()> {
        let dir = self.shared.layout.run(&id);
        if let Some(ended) = run_files::read::<ExitRecord>(&dir, run_files::EXIT_RECORD) {
            self.shared.set(&id, RunState::Exited(ended));
            return Ok(());
        }
        let is_alive = match File::open(dir.join(run_files::ALIVE)) {
            // The supervisor holds this lock for its whole life.
            Ok(lock) => lock.try_lock().is_err(),
            Err(_) => false,
        };
        if !is_alive {
            let ended = self.shared.read_or_record_exit(&id);
            self.shared.set(&id, RunState::Exited(ended));
            return Ok(());
        }
        self.shared.set(&id, RunState::Starting);
        if let Some(running) = run_files::read::<RunningRecord>(&dir, run_files::RUNNING) {
            self.shared.set_running(&id, running);
        }
        let _ = self.watch(id)?.send(None);
        Ok(())
    }

    /// Spawns the thread that watches a run; it starts when it is sent the supervisor, or `None` for an adopted run.
    fn watch(&self, id: RunId) -> io::Result<Sender<Option<Child>>> {
        let shared = Arc::clone(&self.shared);
        let (go, begun) = channel::<Option<Child>>();
        let watch = move || begun.into_iter().take(1).for_each(|child| shared.watch(&id, child));
        std::thread::Builder::new().name("run".to_owned()).stack_size(STACK_BYTES).spawn(watch)?;
        Ok(go)
    }

    fn orders(&self, launch: &ContainerConfig) -> SupervisorConfig {
        let own = |name: &str, absent: &str| std::env::var(name).unwrap_or_else(|_| absent.to_owned());
        let mut launch = launch.clone();
        if self.engine.is_some() {
            // The engine isolates containers itself.
            launch.isolation = Isolation::None;
        }
        SupervisorConfig {
            launch,
            path: own("PATH", PATH),
            home: own("HOME", "/"),
            cgroup: self.cgroup.clone().ok().filter(|_| self.engine.is_none()),
            log: self.log,
            passing: self.passing.then(|| std::process::id().cast_signed()),
            engine: self.engine,
        }
    }

    /// Writes the run directory and starts its supervisor.
    fn begin(&self, dir: &Path, launch: &ContainerConfig) -> io::Result<Child> {
        let orders = self.orders(launch);
        run_files::write(dir, run_files::CONFIG, &orders)?;
        run_files::reserve_exit_record(dir)?;
        fs::create_dir(dir.join(run_files::ROOT))?;
        run_files::create_world_writable(&dir.join(run_files::TMP), run_files::Made::Folder)?;
        run_files::create_world_writable(&dir.join(run_files::MESSAGE), run_files::Made::File)?;
        if launch.stdin {
            run_files::create_fifo(&dir.join(run_files::STDIN))?;
        }
        if launch.tty {
            run_files::create_fifo(&dir.join(run_files::TERMINAL_SIZE))?;
        }
        // The locks are taken here and inherited by the supervisor, so that there is no moment without them.
        let (alive, starting) = (
            run_files::locked(&dir.join(run_files::ALIVE))?,
            run_files::locked(&dir.join(run_files::STARTING))?,
        );
        let complaints =
            File::options().append(true).create(true).open(dir.join(run_files::SUPERVISOR_LOG))?;
        subcommands::command(&self.program, subcommands::SUPERVISE, dir, &orders)
            .stdin(Stdio::from(alive))
            .stdout(Stdio::from(starting))
            .stderr(Stdio::from(complaints))
            .spawn()
    }
}

impl ContainerRuntime for ProcessRuntime {
    fn start(&self, launch: &ContainerConfig) -> Result<(), String> {
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
        // `create_dir` fails if the run was started before: this is what makes a start happen at most once.
        fs::create_dir(&dir).map_err(said)?;
        // The thread first: a run without a watcher would never be reported as exited.
        let begun = self.watch(launch.id.clone()).and_then(|go| Ok((go, self.begin(&dir, launch)?)));
        let (go, child) = begun.map_err(|error| {
            let _ = cleanup::folder(&dir);
            said(error)
        })?;
        self.shared.set(&launch.id, RunState::Starting);
        let _ = go.send(Some(child));
        Ok(())
    }

    fn state(&self, id: &RunId) -> Option<RunState> {
        self.shared.runs().get(id).map(|run| run.state.clone())
    }

    fn list_runs(&self) -> Vec<RunId> {
        self.shared.runs().keys().cloned().collect()
    }

    fn signal(&self, id: &RunId, signal: i32) {
        let mut runs = self.shared.runs();
        let Some(run) = runs.get_mut(id) else { return };
        match (&run.state, &run.first) {
            // Delivered when the command has started.
            (RunState::Starting, _) => run.pending_signals.push(signal),
            (RunState::Running { .. }, Some(first)) => self.shared.send(first, signal),
            _ => {}
        }
    }

    fn kill(&self, id: &RunId) {
        if matches!(self.state(id), None | Some(RunState::Exited(_))) {
            return;
        }
        let dir = self.shared.layout.run(id);
        // The marker first: a supervisor that does not handle signals yet checks for it at startup.
        let _ = File::create(dir.join(run_files::KILL));
        if let Some(supervisor) = run_files::read::<ProcessIdentity>(&dir, run_files::SUPERVISOR) {
            self.shared.send(&supervisor, signals::KILL_CONTAINER);
        }
    }

    fn remove_pod(&self, pod: &str) -> io::Result<()> {
        let mut runs = self.shared.runs();
        let is_alive = |(id, run): (&RunId, &Run)| id.pod == pod && !matches!(run.state, RunState::Exited(_));
        if runs.iter().any(is_alive) {
            return Err(io::Error::other(format!("pod {pod} has containers that still run")));
        }
        // Forgotten before the slow removal, which runs without the lock.
        runs.retain(|id, _| id.pod != pod);
        drop(runs);
        cleanup::folder(&self.shared.layout.pod(pod))
    }

    fn remove_run(&self, id: &RunId) -> io::Result<()> {
        let mut runs = self.shared.runs();
        if runs.get(id).is_some_and(|run| !matches!(run.state, RunState::Exited(_))) {
            return Err(io::Error::other(format!("container {id} still runs")));
        }
        runs.remove(id);
        drop(runs);
        cleanup::folder(&self.shared.layout.run(id))
    }

    fn exec(&self, id: &RunId, options: &ExecOptions) -> Result<ExecSession, String> {
        let dir = self.running(id)?;
        let orders: SupervisorConfig =
            run_files::read(&dir, run_files::CONFIG).ok_or("the container's orders cannot be read")?;
        exec_session::start(&self.program, &dir, &orders, options)
    }

    fn attach(&self, id: &RunId, stdin: bool) -> Result<AttachSession, String> {
        let dir = self.running(id)?;
        let stdin = match dir.join(run_files::STDIN) {
            // Opening fails if stdin was closed (`stdinOnce`); output can still be attached.
            path if stdin && path.exists() => run_files::open_fifo_for_write(&path).ok(),
            _ => None,
        };
        let size = dir.join(run_files::TERMINAL_SIZE);
        let resize = move |columns: u16, rows: u16| {
            if let Ok(mut pipe) = run_files::open_fifo_for_write(&size) {
                let _ = io::Write::write_all(&mut pipe, format!("{columns} {rows}\n").as_bytes());
            }
        };
        Ok(AttachSession { stdin, resize: Box::new(resize) })
    }

    fn log_dir(&self, id: &RunId) -> PathBuf {
        self.shared.layout.run(id).join(run_files::LOG)
    }

    fn usage(&self, id: &RunId) -> Option<ContainerUsage> {
        // Processes of an engine are not our descendants.
        if self.engine.is_some() {
            return None;
        }
        let first = match self.shared.runs().get(id)? {
            Run { state: RunState::Running { .. }, first: Some(first), .. } => first.clone(),
            _ => return None,
        };
        let of_leaf = self.cgroup.as_ref().ok().and_then(|parent| cgroup::usage(parent, id));
        // Without a cgroup the usage is summed over the processes.
        of_leaf.or_else(|| self.shared.usage_of_processes(id, &first, self.isolation))
    }

    fn isolation_features(&self) -> Vec<IsolationFeature> {
        if self.engine.is_some() {
            return vec![IsolationFeature { name: "images", missing: None }];
        }
        host_support::isolation_features(self.isolation, &self.found, self.cgroup.clone().err())
    }
}

impl ProcessRuntime {
    /// The directory of a running run.
    fn running(&self, id: &RunId) -> Result<PathBuf, String> {
        match self.state(id) {
            Some(RunState::Running { .. }) => Ok(self.shared.layout.run(id)),
            Some(RunState::Starting) => Err(format!("container {} does not run yet", id.container)),
            Some(RunState::Exited(_)) => Err(format!("container {} does not run any more", id.container)),
            None => Err(format!("container {} was never started", id.container)),
        }
    }
}

impl Shared {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, id: &RunId, state: RunState) {
        self.runs().insert(id.clone(), Run { state, first: None, pending_signals: Vec::new() });
    }

    fn set_running(&self, id: &RunId, running: RunningRecord) {
        let mut runs = self.runs();
        let Some(run) = runs.get_mut(id) else { return };
        run.state = RunState::Running { since: Time(running.since_micros) };
        for signal in run.pending_signals.drain(..) {
            self.send(&running.first, signal);
        }
        run.first = Some(running.first);
    }

    /// Usage summed over the processes of a run; shared memory counts proportionally (PSS).
    fn usage_of_processes(
        &self,
        id: &RunId,
        first: &ProcessIdentity,
        isolation: Isolation,
    ) -> Option<ContainerUsage> {
        self.table.find(first)?;
        let mut pids = watchdog::container_processes(&self.table, &self.layout.run(id), isolation, first.pid);
        pids.push(first.pid);
        let mut sum = ContainerUsage::default();
        for (pid, stat) in pids.iter().filter_map(|pid| Some((*pid, self.table.stat(*pid)?))) {
            sum.cpu += stat.cpu;
            let bytes = self.table.proportional_bytes(pid).unwrap_or(stat.resident_bytes);
            sum.memory_bytes = sum.memory_bytes.saturating_add(bytes);
        }
        Some(sum)
    }

    fn send(&self, to: &ProcessIdentity, signal: i32) {
        if let Some(process) = self.table.find(to) {
            process.signal(signal);
        }
    }

    /// Body of the watcher thread: waits until the command starts, then until the supervisor exits.
    fn watch(&self, id: &RunId, child: Option<Child>) {
        let dir = self.layout.run(id);
        run_files::wait_for_lock(&dir.join(run_files::STARTING));
        if let Some(running) = run_files::read::<RunningRecord>(&dir, run_files::RUNNING) {
            self.set_running(id, running);
            (self.bell)(id);
        }
        run_files::wait_for_lock(&dir.join(run_files::ALIVE));
        if let Some(mut child) = child {
            let _ = child.wait();
        }
        let ended = self.read_or_record_exit(id);
        self.set(id, RunState::Exited(ended));
        (self.bell)(id);
    }

    /// The exit record of a run without a supervisor; a lost run gets one.
    fn read_or_record_exit(&self, id: &RunId) -> ExitRecord {
        let dir = self.layout.run(id);
        if let Some(ended) = run_files::read(&dir, run_files::EXIT_RECORD) {
            return ended;
        }
        let running = run_files::read::<RunningRecord>(&dir, run_files::RUNNING);
        self.kill_leftovers(&dir, running.as_ref());
        let ended = ExitRecord {
            since_micros: running.map(|it| it.since_micros),
            until_micros: clock::now_micros(),
            code: 128 + signals::KILL,
            signal: None,
            why: ExitReason::Lost,
            message: run_files::lost_run_message(&dir),
        };
        // Persisted, so that the next server reports the same.
        let _ = run_files::write_exit_record(&dir, &ended);
        ended
    }

    /// Kills the processes that a killed supervisor left.
    fn kill_leftovers(&self, dir: &Path, running: Option<&RunningRecord>) {
        if let Some(first) = running.and_then(|it| self.table.find(&it.first)) {
            // In a PID namespace, killing init kills all processes.
            first.signal(signals::KILL);
            let _ = first.wait_gone(LEFTOVERS_WITHIN);
        }
        let Some(orders) = run_files::read::<SupervisorConfig>(dir, run_files::CONFIG) else { return };
        if let Some(engine) = orders.engine {
            engine.remove(&engine::container_name(&orders.launch.id));
        } else if orders.launch.isolation == Isolation::None {
            // Without namespaces, processes are identified by a marker in their environment.
            let mark = command::mark(dir);
            processes::kill_all(|| self.table.with_environment(&mark), || ());
        }
        drop(orders.cgroup.and_then(|parent| ContainerCgroup::of_lost_run(&parent, &orders.launch.id)));
    }
}
