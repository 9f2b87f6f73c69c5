//! What a container costs over a plain process: from asking for it to its end, and the memory of its supervisor.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use muster_process::container_config::ImagePullPolicy;
use muster_process::{
    ContainerConfig, ContainerRuntime, Isolation, PodDirs, ProcessRuntime, ResourceLimits, RunAs, RunId,
    RunState,
};
use tempfile::TempDir;

use crate::measure::resident_of;

/// How many are run, one after another, for one figure.
const RUNS: usize = 50;
/// The longest a container may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run() {
    println!("containers: `true` {RUNS} times, one after another, from asking for it to its end");
    println!("  {:<12} {:>10} {:>10} {:>10} {:>14}", "", "best ms", "median ms", "worst ms", "supervisor MB");
    let plain = figures(|_| {
        let ended = Command::new("true").stdin(Stdio::null()).status();
        assert!(ended.is_ok_and(|it| it.success()), "this machine has no `true`");
    });
    print("plain", &plain, None);
    for (name, isolation) in [("none", Isolation::None), ("namespaces", Isolation::Namespaces)] {
        match Machine::new(isolation) {
            Ok(machine) => {
                let took = figures(|at| machine.run_to_end(at));
                print(name, &took, machine.supervisor_bytes());
                println!(
                    "  {name} / plain {:>22.1}x",
                    median(&took).as_secs_f64() / median(&plain).as_secs_f64()
                );
            }
            Err(why) => println!("  {name}: not measured: {why}"),
        }
    }
}

fn figures(mut once: impl FnMut(u32)) -> Vec<Duration> {
    let mut all: Vec<Duration> = (0..u32::try_from(RUNS).unwrap_or(u32::MAX))
        .map(|at| {
            let began = Instant::now();
            once(at);
            began.elapsed()
        })
        .collect();
    all.sort();
    all
}

fn median(all: &[Duration]) -> Duration {
    all[all.len() / 2]
}

fn print(name: &str, all: &[Duration], bytes: Option<u64>) {
    let millis = |took: Duration| took.as_secs_f64() * 1e3;
    let bytes = bytes.map_or_else(String::new, |bytes| format!("{:.1}", bytes as f64 / 1e6));
    println!(
        "  {name:<12} {:>10.1} {:>10.1} {:>10.1} {bytes:>14}",
        millis(all[0]),
        millis(median(all)),
        millis(all[all.len() - 1])
    );
}

/// A machine with a folder of its own.
struct Machine {
    processes: ProcessRuntime,
    isolation: Isolation,
    rung: Receiver<RunId>,
    folder: TempDir,
}

impl Machine {
    fn new(isolation: Isolation) -> Result<Machine, String> {
        let program = muster_tests::embedded_server::binary()?;
        if isolation == Isolation::Namespaces
            && let Some(why) = muster_process::namespaces_missing(&program)
        {
            return Err(why);
        }
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let (ring, rung) = channel();
        let bell = Box::new(move |id: &RunId| {
            // The receiver is gone at the end.
            let _ = ring.send(id.clone());
        });
        let layout = PodDirs::new(folder.path().join("pods"));
        let processes = ProcessRuntime::open(layout, program, isolation, bell).map_err(|e| e.to_string())?;
        Ok(Machine { processes, isolation, rung, folder })
    }

    fn run_to_end(&self, at: u32) {
        let launch = self.launch(at, &["true"]);
        self.processes.start(&launch).expect("a container begins");
        self.wait(&launch.id, |state| matches!(state, RunState::Exited(_)));
    }

    /// Memory of the supervisor of a container that runs.
    fn supervisor_bytes(&self) -> Option<u64> {
        let launch = self.launch(u32::MAX, &["sleep", "1000"]);
        self.processes.start(&launch).ok()?;
        self.wait(&launch.id, |state| matches!(state, RunState::Running { .. }));
        let mark = self.folder.path().display().to_string();
        let bytes = supervisor(&mark).map(resident_of);
        self.processes.kill(&launch.id);
        self.wait(&launch.id, |state| matches!(state, RunState::Exited(_)));
        bytes
    }

    fn wait(&self, id: &RunId, wanted: impl Fn(&RunState) -> bool) {
        while !self.processes.state(id).is_some_and(|state| wanted(&state)) {
            self.rung.recv_timeout(PATIENCE).expect("the container goes on");
        }
    }

    fn launch(&self, at: u32, argv: &[&str]) -> ContainerConfig {
        ContainerConfig {
            id: RunId { pod: "bench".into(), container: "main".into(), attempt: at },
            pod_name: "default/bench".into(),
            image: "any".into(),
            argv: argv.iter().map(ToString::to_string).collect(),
            image_program: false,
            pull: ImagePullPolicy::default(),
            env: Vec::new(),
            dir: None,
            mounts: Vec::new(),
            hosts: PathBuf::from("/etc/hosts"),
            hostname: "bench".into(),
            stdin: false,
            stdin_once: false,
            tty: false,
            user: RunAs::default(),
            limits: ResourceLimits { processes: 64, ..ResourceLimits::default() },
            read_only_root: false,
            message_path: PathBuf::from("/dev/termination-log"),
            message_from_log: false,
            isolation: self.isolation,
        }
    }
}

/// The supervisor whose command line names this folder.
fn supervisor(folder: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("__supervise") && line.contains(folder)
    })
}
