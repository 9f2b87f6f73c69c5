//! A simulated container runtime: containers start, exit and are killed under virtual time.
//!
//! It survives a crash of the kubelet loop, as processes survive a killed server. The command of a container is a script:
//! `play SECONDS CODE CODE …` has one exit code per run; the last one is repeated.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::environment::Clock;
use muster_api::node;
use muster_api::pod_run_spec::ProbeHandler;
use muster_api::time::Time;
use muster_control::Controller;
use muster_node::local::container_spec::Volume;
use muster_node::local::host::NodeHost;
use muster_node::local::pleg::PodEvents;
use muster_node::local::{LocalKubelet, LocalKubeletConfig};
use muster_process::prober::OnProbeResult;
use muster_process::{
    AttachSession, ContainerConfig, ContainerRuntime, ExecOptions, ExecSession, ExitReason, ExitRecord,
    Isolation, IsolationFeature, PodDirs, PodRegistry, RunId, RunState,
};
use muster_tree::tree;

use crate::rng::VirtualClock;

/// Start-up time of a container.
const STARTING: Duration = Duration::from_millis(100);

pub struct SimulatedMachine {
    clock: Arc<VirtualClock>,
    layout: PodDirs,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    runs: BTreeMap<RunId, Run>,
    /// All runs ever started, with their number of starts.
    begun: BTreeMap<RunId, u32>,
    ring: Option<Arc<PodEvents>>,
}

struct Run {
    since: Time,
    until: Time,
    code: i32,
    /// The last state that was reported to the kubelet.
    rung: u8,
}

impl Run {
    fn stage(&self, now: Time) -> u8 {
        u8::from(now >= self.since) + u8::from(now >= self.until)
    }
}

impl SimulatedMachine {
    pub(crate) fn new(clock: Arc<VirtualClock>) -> SimulatedMachine {
        SimulatedMachine { clock, layout: PodDirs::new(PathBuf::from("/played")), inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kubelet controller of this machine, for a new loop.
    pub(crate) fn node(self: &Arc<Self>) -> Box<dyn Controller> {
        let ring = Arc::new(PodEvents::default());
        self.inner().ring = Some(ring.clone());
        let capacity = tree!({"cpu": "64", "memory": "64Gi", "pods": "110"});
        let setup = LocalKubeletConfig {
            name: "local".into(),
            mark: "played".into(),
            told: node::MachineInfo::simulated(capacity, "127.0.0.1"),
            isolation: Isolation::Namespaces,
            images: false,
            net: [127, 16],
            search_path: "/bin".into(),
            user: (0, 0),
            server: None,
            names: None,
            ports: None,
            processes_max: None,
            ask_token: None,
        };
        Box::new(LocalKubelet::new(
            setup,
            Box::new(MachineHandle(self.clone())),
            ring,
            Arc::new(PodRegistry::default()),
        ))
    }

    /// When the next run starts or exits.
    pub(crate) fn next_change(&self) -> Option<Time> {
        let now = self.clock.now();
        let inner = self.inner();
        let times = inner.runs.values().flat_map(|run| [run.since, run.until]);
        times.filter(|at| *at > now).min()
    }

    /// Reports all changed runs to the kubelet.
    pub(crate) fn ring(&self) {
        let now = self.clock.now();
        let mut inner = self.inner();
        let mut news = Vec::new();
        for (id, run) in &mut inner.runs {
            let stage = run.stage(now);
            if stage != run.rung {
                run.rung = stage;
                news.push(id.pod.clone());
            }
        }
        let ring = inner.ring.clone();
        drop(inner);
        ring.iter().for_each(|ring| news.iter().for_each(|uid| ring.ring(uid)));
    }

    /// All runs ever started.
    #[must_use]
    pub fn begun(&self) -> BTreeMap<RunId, u32> {
        self.inner().begun.clone()
    }

    /// The number of running runs.
    #[must_use]
    pub fn alive(&self) -> usize {
        let now = self.clock.now();
        self.inner().runs.values().filter(|run| run.until > now).count()
    }

    /// The number of runs that still have a directory.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.inner().runs.len()
    }

    fn end(&self, id: &RunId, code: i32) {
        let now = self.clock.now();
        if let Some(run) = self.inner().runs.get_mut(id).filter(|run| run.until > now) {
            (run.until, run.code, run.since) = (now, code, run.since.min(now));
        }
    }
}

impl ContainerRuntime for SimulatedMachine {
    fn start(&self, launch: &ContainerConfig) -> Result<(), String> {
        let number = |at: usize| launch.argv.get(at).and_then(|word| word.parse::<i64>().ok());
        let attempt = usize::try_from(launch.id.attempt).unwrap_or(usize::MAX - 2);
        let code = number(2 + attempt).or(number(launch.argv.len() - 1)).unwrap_or(0);
        let since = self.clock.now() + STARTING;
        let until = since + Duration::from_secs(number(1).unwrap_or(1).unsigned_abs());
        let mut inner = self.inner();
        let beside = inner.runs.iter().filter(|(id, _)| {
            id.pod == launch.id.pod && id.container == launch.id.container && **id != launch.id
        });
        let overlap = beside.filter(|(_, run)| run.until > self.clock.now()).count();
        assert_eq!(overlap, 0, "{} begins while another run of it is under way", launch.id);
        if inner.runs.contains_key(&launch.id) {
            return Err("it was begun before".to_owned());
        }
        *inner.begun.entry(launch.id.clone()).or_default() += 1;
        let code = i32::try_from(code).unwrap_or(1);
        inner.runs.insert(launch.id.clone(), Run { since, until, code, rung: 0 });
        Ok(())
    }

    fn state(&self, id: &RunId) -> Option<RunState> {
        let now = self.clock.now();
        self.inner().runs.get(id).map(|run| match run.stage(now) {
            0 => RunState::Starting,
            1 => RunState::Running { since: run.since },
            _ => RunState::Exited(ExitRecord {
                since_micros: Some(run.since.0),
                until_micros: run.until.0,
                code: run.code,
                signal: None,
                why: ExitReason::Exited,
                message: String::new(),
            }),
        })
    }

    fn list_runs(&self) -> Vec<RunId> {
        self.inner().runs.keys().cloned().collect()
    }

    fn signal(&self, id: &RunId, _signal: i32) {
        self.end(id, 143);
    }

    fn kill(&self, id: &RunId) {
        self.end(id, 137);
    }

    fn remove_pod(&self, pod: &str) -> io::Result<()> {
        let now = self.clock.now();
        let mut inner = self.inner();
        let alive = inner.runs.iter().any(|(id, run)| id.pod == pod && run.until > now);
        assert!(!alive, "a pod is removed while a run of it is under way");
        inner.runs.retain(|id, _| id.pod != pod);
        Ok(())
    }

    fn remove_run(&self, id: &RunId) -> io::Result<()> {
        self.inner().runs.remove(id);
        Ok(())
    }

    fn exec(&self, _: &RunId, _: &ExecOptions) -> Result<ExecSession, String> {
        Err("nothing runs beside played containers".to_owned())
    }

    fn attach(&self, _: &RunId, _: bool) -> Result<AttachSession, String> {
        Err("played containers have no ends".to_owned())
    }

    fn log_dir(&self, id: &RunId) -> PathBuf {
        self.layout.run(id)
    }

    fn isolation_features(&self) -> Vec<IsolationFeature> {
        Vec::new()
    }
}

struct MachineHandle(Arc<SimulatedMachine>);

impl NodeHost for MachineHandle {
    fn containers(&self) -> &dyn ContainerRuntime {
        &*self.0
    }

    fn layout(&self) -> &PodDirs {
        &self.0.layout
    }

    fn lay(&mut self, _: &Volume) -> Result<(), String> {
        Ok(())
    }

    fn write_hosts(&mut self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn check(&mut self, _: &RunId, _: &str, _: &ProbeHandler, _: Duration, done: OnProbeResult) {
        done(Ok(()));
    }
}
