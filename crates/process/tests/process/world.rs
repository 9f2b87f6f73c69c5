//! A runtime for one test.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use muster_process::logs::LogRotation;
use muster_process::{
    ContainerConfig, ContainerRuntime, ExitRecord, Isolation, LogOptions, LogReader, PodDirs, ProcessRuntime,
    ResourceLimits, RunAs, RunId, RunState,
};
use tempfile::TempDir;

/// Timeout: far above what any test takes, also on a busy host.
const PATIENCE: Duration = Duration::from_secs(20);

pub const BOTH: [Isolation; 2] = [Isolation::Namespaces, Isolation::None];

pub struct World {
    pub dir: TempDir,
    pub isolation: Isolation,
    pub processes: ProcessRuntime,
    bell: Receiver<RunId>,
}

impl World {
    pub fn new(isolation: Isolation) -> World {
        World::over(tempfile::tempdir().unwrap(), isolation)
    }

    /// A server over the data directory of an earlier one.
    pub fn over(dir: TempDir, isolation: Isolation) -> World {
        let built = env!("CARGO_BIN_EXE_muster-hidden");
        let program = std::env::var_os("MUSTER_HIDDEN").map_or_else(|| PathBuf::from(built), PathBuf::from);
        World::with_program(dir, isolation, program)
    }

    /// A server with another program as supervisor.
    pub fn with_program(dir: TempDir, isolation: Isolation, program: PathBuf) -> World {
        let (ring, bell) = channel();
        let layout = PodDirs::new(dir.path().join("pods"));
        let bell_rope = Box::new(move |id: &RunId| drop(ring.send(id.clone())));
        let processes = ProcessRuntime::open(layout, program, isolation, bell_rope).unwrap();
        World { dir, isolation, processes, bell }
    }

    /// Drops the server and keeps its directory.
    pub fn leave(self) -> TempDir {
        self.dir
    }

    pub fn with_engine(mut self, engine: muster_process::ContainerEngine) -> World {
        self.processes = self.processes.with_engine(engine);
        self
    }

    pub fn with_log_bounds(mut self, bounds: LogRotation) -> World {
        self.processes = self.processes.with_log_bounds(bounds);
        self
    }

    pub fn layout(&self) -> PodDirs {
        PodDirs::new(self.dir.path().join("pods"))
    }

    pub fn launch(&self, name: &str, argv: &[&str]) -> ContainerConfig {
        let id = RunId { pod: format!("uid-{name}"), container: "main".into(), attempt: 0 };
        std::fs::create_dir_all(self.layout().pod(&id.pod)).unwrap();
        let hosts = self.layout().hosts(&id.pod);
        std::fs::write(&hosts, "127.0.0.1 localhost\n127.9.9.9 my-pod\n").unwrap();
        ContainerConfig {
            pod_name: format!("default/{name}"),
            image: "none".into(),
            argv: argv.iter().map(|it| (*it).to_owned()).collect(),
            image_program: false,
            pull: muster_process::ImagePullPolicy::Never,
            env: vec![("LANG".into(), "C".into())],
            dir: None,
            mounts: Vec::new(),
            hosts,
            hostname: "my-pod".into(),
            stdin: false,
            stdin_once: false,
            tty: false,
            user: RunAs::default(),
            limits: ResourceLimits { processes: 512, ..ResourceLimits::default() },
            read_only_root: false,
            message_path: PathBuf::from("/dev/termination-log"),
            message_from_log: false,
            isolation: self.isolation,
            id,
        }
    }

    pub fn sh(&self, name: &str, script: &str) -> ContainerConfig {
        self.launch(name, &["sh", "-c", script])
    }

    pub fn start(&self, launch: &ContainerConfig) -> RunId {
        self.processes.start(launch).unwrap();
        launch.id.clone()
    }

    /// Starts a container, waits for its exit and returns its log.
    pub fn run(&self, launch: &ContainerConfig) -> (ExitRecord, String) {
        let id = self.start(launch);
        let ended = self.ended(&id);
        (ended, self.text(&id))
    }

    pub fn ended(&self, id: &RunId) -> ExitRecord {
        self.until(id, |state| if let RunState::Exited(ended) = state { Some(ended) } else { None })
    }

    pub fn running(&self, id: &RunId) {
        self.until(id, |state| match state {
            RunState::Running { .. } => Some(()),
            RunState::Starting => None,
            RunState::Exited(ended) => panic!("ended early: {ended:?}"),
        });
    }

    fn until<T>(&self, id: &RunId, wanted: impl Fn(RunState) -> Option<T>) -> T {
        loop {
            let state = self.processes.state(id).expect("it was begun");
            if let Some(found) = wanted(state.clone()) {
                return found;
            }
            if self.bell.recv_timeout(PATIENCE).is_err() {
                panic!("nothing rang; {id} is {state:?}");
            }
        }
    }

    pub fn log(&self, id: &RunId, options: LogOptions) -> String {
        let mut reader = LogReader::open(&self.processes.log_dir(id), options).unwrap();
        let mut all = Vec::new();
        while let Some(bytes) = reader.next_bytes().unwrap() {
            all.extend(bytes);
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    pub fn text(&self, id: &RunId) -> String {
        self.log(id, LogOptions::default())
    }

    /// Waits until the log says something.
    pub fn says(&self, id: &RunId, words: &str) {
        eventually(&format!("{id} says {words:?}"), || self.text(id).contains(words));
    }
}

/// Waits for a condition.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Processes of the host with this word in their command line.
pub fn processes_with(word: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let line =
                std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
            *pid != std::process::id().cast_signed() && String::from_utf8_lossy(&line).contains(word)
        })
        .collect()
}

/// A word that is unique to one test.
pub fn word(name: &str) -> String {
    format!("{name}{}", std::process::id())
}
