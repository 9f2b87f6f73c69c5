//! The controllers under comparison, each on a plane of its own.

use std::process::Child;
use std::time::{Duration, Instant};

use muster_tests::real::{Disk, RealCluster};
use muster_tests::upstream_jobset::{self, ClientLimits};
use muster_tree::{Tree, tree};
use tempfile::TempDir;

use super::calls::Count;
use super::load;
use crate::client::Target;
use crate::up;

/// The controllers of Kubernetes on either plane: Jobs are deleted in the foreground.
const BESIDE: [&str; 2] = ["gc", "namespace"];
/// How long a controller and the garbage collector may take to be at work.
const READY_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Where it is seen whether they are.
const WARM: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/kube-system/jobsets";
const WARM_JOBS: &str = "/apis/batch/v1/namespaces/kube-system/jobs";

/// The controllers under comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Ours beside a real plane.
    Operator,
    /// The upstream one beside a real plane.
    Upstream(ClientLimits),
    /// Ours in its own plane.
    Embedded,
}

/// A controller at work.
pub struct Plane {
    pub name: &'static str,
    pub target: Target,
    pub controller: u32,
    /// The processes of the API server, where they are others.
    pub server: Vec<u32>,
    /// Ends with the plane.
    _real: Option<RealCluster>,
    /// The whole plane, where it is ours.
    ours: Option<Child>,
    folder: TempDir,
}

impl Who {
    pub const ALL: [Who; 4] = [
        Who::Operator,
        Who::Upstream(ClientLimits::Stock),
        Who::Upstream(ClientLimits::Lifted),
        Who::Embedded,
    ];
    pub const OPERATOR: &'static str = "muster operator";
    pub const EMBEDDED: &'static str = "muster, embedded";

    pub fn name(self) -> &'static str {
        match self {
            Who::Operator => Who::OPERATOR,
            Who::Upstream(ClientLimits::Stock) => "upstream, stock",
            Who::Upstream(ClientLimits::Lifted) => "upstream, lifted",
            Who::Embedded => Who::EMBEDDED,
        }
    }

    /// Starts it and waits until it works.
    pub fn start(self, disk: Disk) -> Result<Plane, String> {
        if matches!(self, Who::Upstream(_)) {
            // Before a plane is started for nothing.
            muster_tests::real::upstream_program(upstream_jobset::PROGRAM)?;
        }
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let plane = match self {
            Who::Embedded => embedded(folder),
            _ => self.beside_real(disk, folder)?,
        };
        plane.warm().map_err(|why| format!("{why}\n{}", upstream_jobset::log_tail(plane.folder.path())))?;
        Ok(plane)
    }

    fn beside_real(self, disk: Disk, folder: TempDir) -> Result<Plane, String> {
        let mut real = RealCluster::start_without_controllers(disk)?;
        let server = real.pids();
        // Before the garbage collector, which looks only now and then for new kinds.
        real.create_jobset_crd(&up::binary())?;
        real.start_controllers(&BESIDE)?;
        let controller = match self {
            Who::Upstream(limits) => upstream_jobset::start(&mut real, folder.path(), limits)?.pid,
            _ => {
                real.start_operator_as_admin(&up::binary(), &["--controllers", "jobset", "--admission", ""])?
            }
        };
        let target = Target::of_token(real.server.base(), real.token());
        Ok(Plane { name: self.name(), target, controller, server, _real: Some(real), ours: None, folder })
    }
}

fn embedded(folder: TempDir) -> Plane {
    let kubeconfig = folder.path().join("kubeconfig");
    let controllers = format!("jobset,{}", BESIDE.join(","));
    let args = [
        "--ephemeral",
        "--sim-nodes",
        "0",
        "--controllers",
        &controllers,
        "--admission",
        "*,-ServiceAccount",
    ];
    let child = up::start(&kubeconfig.display().to_string(), &args);
    Plane {
        name: Who::EMBEDDED,
        target: Target::of_kubeconfig(&kubeconfig),
        controller: child.id(),
        server: Vec::new(),
        _real: None,
        ours: Some(child),
        folder,
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(child) = &mut self.ours {
            // Already gone is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Plane {
    /// Whether controller and server are one process.
    pub fn is_embedded(&self) -> bool {
        self.ours.is_some()
    }

    /// The calls so far.
    pub fn count(&self) -> Count {
        let (_, metrics) = self.target.ask("GET /metrics", &Tree::Null);
        let metrics = String::from_utf8_lossy(&metrics);
        if self.is_embedded() { Count::of_controllers(&metrics) } else { Count::of_server(&metrics) }
    }

    /// Sees a JobSet to its Job, and both gone again.
    fn warm(&self) -> Result<(), String> {
        let set = load::jobset("warm", "kube-system", 1);
        self.until("take a JobSet", || {
            matches!(self.target.ask(&format!("POST {WARM}"), &set).0, 201 | 409)
        })?;
        self.until("make a Job", || self.jobs() > 0)?;
        let options = tree!({"propagationPolicy": "Foreground"});
        self.target.ask(&format!("DELETE {WARM}/warm"), &options);
        self.until("delete a JobSet", || self.target.ask(&format!("GET {WARM}/warm"), &Tree::Null).0 == 404)
    }

    fn jobs(&self) -> usize {
        let (_, body) = self.target.ask(&format!("GET {WARM_JOBS}"), &Tree::Null);
        Tree::parse(&body).map_or(0, |list| list.items_at(&["items"]).len())
    }

    fn until(&self, what: &str, met: impl Fn() -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !met() {
            if began.elapsed() > READY_MAX {
                return Err(format!("{} does not {what} within {READY_MAX:?}", self.name));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}
