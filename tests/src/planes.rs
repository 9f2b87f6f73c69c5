//! Both planes side by side, for tests that send the same to each.
//!
//! # Invariants
//!
//! - Both run the same controllers, named as our `--controllers` names them.
//! - Each is started once per test process and shared by all tests that need no more than the two controllers that
//!   delete; every test works in namespaces of its own and leaves no cluster-scoped object behind.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use muster_tree::{Tree, tree};

use crate::clients::skip;
use crate::differential::{Server, Step};
use crate::plane::Plane;
use crate::real::{self, Real};

/// The controllers that write into no object that is compared.
const QUIET: [&str; 2] = ["gc", "namespace"];

/// The controllers that run work.
const AT_WORK: [&str; 9] =
    ["gc", "namespace", "job", "podgc", "endpointslice", "volume", "resourceclaim", "scheduler", "node"];
/// The same, and the one of JobSets.
const WITH_JOBSETS: [&str; 10] = [
    "gc",
    "namespace",
    "job",
    "podgc",
    "endpointslice",
    "volume",
    "resourceclaim",
    "scheduler",
    "node",
    "jobset",
];
/// The nodes that work runs on.
const NODES: usize = 4;
/// How often one looks whether they are ready.
const NODES_TRIES: u32 = 600;
/// The pause between two looks.
const NODES_PAUSE: Duration = Duration::from_millis(100);

/// Our server and a real one.
pub struct Planes {
    /// Talks to ours as the administrator.
    pub ours: Server,
    /// Talks to the real one as the administrator.
    pub real: Server,
    /// End with the value; absent for servers that were there before.
    running: Option<(Plane, Real)>,
}

impl Planes {
    /// The pair that all differential tests of a process share; `None`, and the test noted as skipped, where no real
    /// plane can be had.
    pub fn shared(test: &str) -> Option<&'static Planes> {
        static PLANES: OnceLock<Planes> = OnceLock::new();
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        Some(PLANES.get_or_init(|| Planes::start(&QUIET).expect("both planes start")))
    }

    /// The pair on which work runs, with all controllers of Jobs, a scheduler and the same simulated nodes.
    pub fn at_work(test: &str) -> Option<&'static Planes> {
        static PLANES: OnceLock<Planes> = OnceLock::new();
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        Some(PLANES.get_or_init(|| Planes::work().expect("both planes start")))
    }

    /// Starts a pair on which work runs.
    pub fn work() -> Result<Planes, String> {
        let plane = ours_with(&AT_WORK, NODES)?;
        let mut running = Real::with(&AT_WORK)?;
        running.join(&crate::plane::binary()?, NODES)?;
        Planes::ready(plane, running)
    }

    /// The pair on which JobSets run, with the feature gates as they are by default.
    pub fn jobsets(test: &str) -> Option<&'static Planes> {
        static PLANES: OnceLock<Planes> = OnceLock::new();
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        Some(PLANES.get_or_init(|| Planes::with_jobsets("").expect("both planes start")))
    }

    /// Starts a pair on which JobSets run under these feature gates (`A=true,B=false`).
    ///
    /// Ours is `muster up` with all controllers of Jobs and JobSets, its scheduler and simulated nodes. The real one has
    /// the same controllers of its own, kube-scheduler, the same simulated nodes (`muster node`), the definition of
    /// JobSets, and beside it a `muster operator` that admits JobSets and runs them. Both are ready: nodes take pods, and
    /// the real server has asked the operator's webhooks.
    pub fn with_jobsets(gates: &str) -> Result<Planes, String> {
        let plane = ours_gated(&WITH_JOBSETS, NODES, gates)?;
        let binary = crate::plane::binary()?;
        let mut running = Real::with(&AT_WORK)?;
        running.join(&binary, NODES)?;
        running.define_jobsets(&binary)?;
        running.operate(&binary, &["--controllers", "jobset", "--feature-gates", gates])?;
        Planes::ready(plane, running)
    }

    /// The kubeconfigs of a pair that was started here: ours, then the real one's.
    pub fn kubeconfigs(&self) -> Result<[PathBuf; 2], String> {
        let (plane, real) = self.running.as_ref().ok_or("these servers were there before")?;
        Ok([plane.kubeconfig().to_owned(), real.own_kubeconfig()?])
    }

    /// A pair whose nodes take pods and whose volumes are made alike.
    fn ready(plane: Plane, running: Real) -> Result<Planes, String> {
        let real = Server::new(running.server.base(), real::TOKEN);
        let planes = Planes { ours: plane.server()?, real, running: Some((plane, running)) };
        share_class(&planes.ours, &planes.real)?;
        for server in [&planes.ours, &planes.real] {
            wait_for_nodes(server)?;
        }
        Ok(planes)
    }

    /// Starts a further real plane, on which work runs under the scheduler of `muster operator` alone.
    pub fn operated(&self) -> Result<Real, String> {
        let others: Vec<&str> = AT_WORK.into_iter().filter(|name| *name != "scheduler").collect();
        let mut running = Real::with(&others)?;
        let binary = crate::plane::binary()?;
        running.join(&binary, NODES)?;
        running.start_ours(&binary, &["operator"])?;
        share_class(&self.ours, &running.server)?;
        wait_for_nodes(&running.server)?;
        Ok(running)
    }

    /// For people: the servers whose kubeconfigs `OURS` and `REAL` name, or else a new pair.
    pub fn given_or_new() -> Result<Planes, String> {
        match (std::env::var_os("OURS"), std::env::var_os("REAL")) {
            (Some(ours), Some(real)) => {
                let server = |file| Server::of_kubeconfig(Path::new(file));
                Ok(Planes { ours: server(&ours)?, real: server(&real)?, running: None })
            }
            _ => Planes::start(&QUIET),
        }
    }

    /// Starts a pair with these controllers.
    pub fn start(controllers: &[&str]) -> Result<Planes, String> {
        let (running, plane) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| ours(controllers));
            (Real::with(controllers), ours.join().expect("starting ours does not panic"))
        });
        let (running, plane) = (running?, plane?);
        let real = Server::new(running.server.base(), real::TOKEN);
        Ok(Planes { ours: plane.server()?, real, running: Some((plane, running)) })
    }
}

/// Starts our server with these controllers, without nodes, the way it is compared with a real one: what the node
/// does with a ServiceAccount's token is left out on both sides.
pub fn ours(controllers: &[&str]) -> Result<Plane, String> {
    ours_with(controllers, 0)
}

/// Gives a real plane the storage class that ours begins with.
fn share_class(ours: &Server, real: &Server) -> Result<(), String> {
    let all = "/apis/storage.k8s.io/v1/storageclasses";
    let class = ours.get(&format!("{all}/local-path"))?.body;
    let annotations = class.at(&["metadata", "annotations"]).cloned().unwrap_or_default();
    let metadata = tree!({"name": "local-path", "annotations": annotations});
    let made = class.with(&["metadata"], metadata);
    let answer = real.send("POST", all, &Step::default(), made.to_json_bytes())?;
    if answer.code < 300 { Ok(()) } else { Err(answer.body.to_json()) }
}

/// Waits until all nodes take pods: until then what a scheduler says depends on chance.
fn wait_for_nodes(server: &Server) -> Result<(), String> {
    for _ in 0..NODES_TRIES {
        let answer = server.get("/api/v1/nodes")?;
        let takes = |node: &&Tree| {
            let taints = node.items_at(&["spec", "taints"]);
            taints.is_empty() && node.at(&["status", "allocatable", "cpu"]).is_some()
        };
        if answer.body.items_at(&["items"]).iter().filter(takes).count() == NODES {
            return Ok(());
        }
        std::thread::sleep(NODES_PAUSE);
    }
    Err("the nodes did not become ready".to_owned())
}

fn ours_with(controllers: &[&str], nodes: usize) -> Result<Plane, String> {
    ours_gated(controllers, nodes, "")
}

fn ours_gated(controllers: &[&str], nodes: usize, gates: &str) -> Result<Plane, String> {
    // What our JobSet admission fills in, a server without our controller does not have.
    let admission =
        if controllers.contains(&"jobset") { "*,-ServiceAccount" } else { "*,-ServiceAccount,-jobset" };
    let (controllers, nodes) = (controllers.join(","), nodes.to_string());
    let mut args = vec!["--ephemeral", "--sim-nodes", &nodes, "--controllers", &controllers];
    args.extend(["--admission", admission, "--feature-gates", gates]);
    Plane::start(&args)
}
