//! A machine that is played: runs of containers that begin, end and are ended under virtual time.
//!
//! It outlives the loop that drives it, as processes outlive a server that is killed. A container's command says how its
//! runs go: `play SECONDS CODE CODE …`, a code for each run, the last one for all further ones.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::node;
use muster_api::pod_work::Check;
use muster_api::ports::Clock;
use muster_api::time::Time;
use muster_control::Controller;
use muster_node::local::dress::Volume;
use muster_node::local::machine::Machine;
use muster_node::local::ring::Ring;
use muster_node::local::{Local, Setup};
use muster_process::checks::Done;
use muster_process::{
    Applied, Attached, Containers, Ended, Exec, ExecOptions, Id, Isolation, Launch, Layout, Roster, State,
    Why,
};
use muster_tree::tree;

use crate::chance::VirtualClock;

/// How long a run takes to begin.
const STARTING: Duration = Duration::from_millis(100);

/// The machine.
pub struct Played {
    clock: Arc<VirtualClock>,
    layout: Layout,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    runs: BTreeMap<Id, Run>,
    /// Every run that was ever begun, and how often.
    begun: BTreeMap<Id, u32>,
    ring: Option<Arc<Ring>>,
}

struct Run {
    since: Time,
    until: Time,
    code: i32,
    /// The last state that was rung for.
    rung: u8,
}

impl Run {
    fn stage(&self, now: Time) -> u8 {
        u8::from(now >= self.since) + u8::from(now >= self.until)
    }
}

impl Played {
    pub(crate) fn new(clock: Arc<VirtualClock>) -> Played {
        Played { clock, layout: Layout::new(PathBuf::from("/played")), inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that this machine is, for a loop that begins anew.
    pub(crate) fn node(self: &Arc<Self>) -> Box<dyn Controller> {
        let ring = Arc::new(Ring::default());
        self.inner().ring = Some(ring.clone());
        let capacity = tree!({"cpu": "64", "memory": "64Gi", "pods": "110"});
        let setup = Setup {
            name: "local".into(),
            mark: "played".into(),
            told: node::Machine::simulated(capacity, "127.0.0.1"),
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
        Box::new(Local::new(setup, Box::new(Here(self.clone())), ring, Arc::new(Roster::default())))
    }

    /// When the next run begins or ends.
    pub(crate) fn next_change(&self) -> Option<Time> {
        let now = self.clock.now();
        let inner = self.inner();
        let times = inner.runs.values().flat_map(|run| [run.since, run.until]);
        times.filter(|at| *at > now).min()
    }

    /// Rings for all runs that have changed.
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

    /// Runs that were ever begun.
    #[must_use]
    pub fn begun(&self) -> BTreeMap<Id, u32> {
        self.inner().begun.clone()
    }

    /// Runs that are under way.
    #[must_use]
    pub fn alive(&self) -> usize {
        let now = self.clock.now();
        self.inner().runs.values().filter(|run| run.until > now).count()
    }

    /// Runs of which there is a folder.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.inner().runs.len()
    }

    fn end(&self, id: &Id, code: i32) {
        let now = self.clock.now();
        if let Some(run) = self.inner().runs.get_mut(id).filter(|run| run.until > now) {
            (run.until, run.code, run.since) = (now, code, run.since.min(now));
        }
    }
}

impl Containers for Played {
    fn start(&self, launch: &Launch) -> Result<(), String> {
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

    fn state(&self, id: &Id) -> Option<State> {
        let now = self.clock.now();
        self.inner().runs.get(id).map(|run| match run.stage(now) {
            0 => State::Starting,
            1 => State::Running { since: run.since },
            _ => State::Ended(Ended {
                since_micros: Some(run.since.0),
                until_micros: run.until.0,
                code: run.code,
                signal: None,
                why: Why::Exited,
                message: String::new(),
            }),
        })
    }

    fn all(&self) -> Vec<Id> {
        self.inner().runs.keys().cloned().collect()
    }

    fn signal(&self, id: &Id, _signal: i32) {
        self.end(id, 143);
    }

    fn kill(&self, id: &Id) {
        self.end(id, 137);
    }

    fn remove(&self, pod: &str) -> io::Result<()> {
        let now = self.clock.now();
        let mut inner = self.inner();
        let alive = inner.runs.iter().any(|(id, run)| id.pod == pod && run.until > now);
        assert!(!alive, "a pod is removed while a run of it is under way");
        inner.runs.retain(|id, _| id.pod != pod);
        Ok(())
    }

    fn forget(&self, id: &Id) -> io::Result<()> {
        self.inner().runs.remove(id);
        Ok(())
    }

    fn exec(&self, _: &Id, _: &ExecOptions) -> Result<Exec, String> {
        Err("nothing runs beside played containers".to_owned())
    }

    fn attach(&self, _: &Id, _: bool) -> Result<Attached, String> {
        Err("played containers have no ends".to_owned())
    }

    fn log(&self, id: &Id) -> PathBuf {
        self.layout.run(id)
    }

    fn applied(&self) -> Vec<Applied> {
        Vec::new()
    }
}

struct Here(Arc<Played>);

impl Machine for Here {
    fn containers(&self) -> &dyn Containers {
        &*self.0
    }

    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    fn lay(&mut self, _: &Volume) -> Result<(), String> {
        Ok(())
    }

    fn write_hosts(&mut self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn check(&mut self, _: &Id, _: &str, _: &Check, _: Duration, done: Done) {
        done(Ok(()));
    }
}
