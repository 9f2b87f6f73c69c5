//! Those under comparison, each beside a real plane of its own on which it has made a JobSet before.

use std::time::{Duration, Instant};

use muster_tests::differential::ApiClient;
use muster_tests::real::{Disk, RealCluster, crd_manifest};
use muster_tree::{Tree, tree};
use tempfile::TempDir;

use super::play::WISH;
use super::upstream::{self, DEFINITIONS, Limits};
use crate::client::Target;
use crate::jobsets::calls::Count;
use crate::trainjobs::objects::{ROOT, Request, SETS_ROOT};
use crate::up;

/// The controllers of Kubernetes on either plane: TrainJobs are deleted in the foreground.
const BESIDE: [&str; 2] = ["gc", "namespace"];
const DEFINED: [&str; 3] = [
    "trainjobs.trainer.kubeflow.org",
    "trainingruntimes.trainer.kubeflow.org",
    "clustertrainingruntimes.trainer.kubeflow.org",
];
/// How ours is started: nothing but what is compared.
const WORDS: [&str; 4] = ["--controllers", "trainer", "--admission", "trainer"];
/// How long one may take to be at work.
const READY_MAX: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Where it is seen whether it is, under a number that no other has.
const WARM_SPACE: &str = "kube-system";
const WARM: usize = 999_999;

/// The controllers under comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Operator,
    Upstream(Limits),
}

/// One of them, ready for the load.
pub struct Plane {
    pub who: Who,
    pub target: Target,
    pub controller: u32,
    /// The processes of the API server.
    pub server: Vec<u32>,
    /// Both end with the plane.
    real: RealCluster,
    folder: TempDir,
}

impl Who {
    pub const ALL: [Who; 3] = [Who::Operator, Who::Upstream(Limits::Stock), Who::Upstream(Limits::Lifted)];

    pub fn name(self) -> &'static str {
        match self {
            Who::Operator => "muster operator",
            Who::Upstream(Limits::Stock) => "upstream, stock",
            Who::Upstream(Limits::Lifted) => "upstream, lifted",
        }
    }

    /// Starts it and waits until it works.
    pub fn start(self, disk: Disk) -> Result<Plane, String> {
        if let Some(why) = upstream::missing().filter(|_| self != Who::Operator) {
            // Before a plane is started for nothing.
            return Err(why);
        }
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let mut real = RealCluster::start_without_controllers(disk)?;
        let server = real.pids();
        // Before the garbage collector, which looks only now and then for new kinds.
        real.create_jobset_crd(&up::binary())?;
        match self {
            Who::Operator => define(&real.server)?,
            Who::Upstream(_) => upstream::define(&real.server)?,
        }
        real.start_controllers(&BESIDE)?;
        let controller = match self {
            // An administrator, which registers its webhooks by its address.
            Who::Operator => real.start_operator_as_admin(&up::binary(), &WORDS)?,
            Who::Upstream(limits) => upstream::start(&mut real, folder.path(), limits)?,
        };
        let target = Target::of_token(real.server.base(), real.token());
        let plane = Plane { who: self, target, controller, server, real, folder };
        plane.warm().map_err(|why| format!("{why}\n{}", plane.log_tail()))?;
        Ok(plane)
    }
}

fn define(server: &ApiClient) -> Result<(), String> {
    DEFINED
        .iter()
        .try_for_each(|name| upstream::make(server, DEFINITIONS, &crd_manifest(&up::binary(), name)?))
}

impl Plane {
    /// The calls so far.
    pub fn count(&self) -> Count {
        Count::of_server(&String::from_utf8_lossy(&self.target.ask("GET /metrics", &Tree::Null).1))
    }

    /// Sees a TrainJob to its JobSet, and both gone again.
    fn warm(&self) -> Result<(), String> {
        let takes = |(call, _, body): &Request| matches!(self.target.ask(call, body).0, 201 | 409);
        let (runtime, job) = (WISH.runtime.request(), WISH.request(WARM, WARM_SPACE));
        self.until("take a runtime", || takes(&runtime))?;
        self.until("take a TrainJob", || takes(&job))?;
        let [job, set] = [(ROOT, "trainjobs"), (SETS_ROOT, "jobsets")]
            .map(|(root, kind)| format!("{root}/namespaces/{WARM_SPACE}/{kind}/train-{WARM}"));
        let code = |call: &str, body: &Tree| self.target.ask(call, body).0;
        self.until("make a JobSet", || code(&format!("GET {set}"), &Tree::Null) == 200)?;
        code(&format!("DELETE {job}"), &tree!({"propagationPolicy": "Foreground"}));
        self.until("delete a TrainJob", || code(&format!("GET {job}"), &Tree::Null) == 404)
    }

    fn until(&self, what: &str, met: impl Fn() -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !met() {
            if began.elapsed() > READY_MAX {
                return Err(format!("{} does not {what} within {READY_MAX:?}", self.who.name()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        match self.who {
            Who::Operator => self.real.operator_log(),
            Who::Upstream(_) => upstream::log_tail(self.folder.path()),
        }
    }
}
