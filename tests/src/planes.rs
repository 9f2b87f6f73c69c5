//! Both planes side by side, for tests that send the same to each.
//!
//! # Invariants
//!
//! - Both run the same controllers, named as our `--controllers` names them.
//! - Tests that share a pair work in namespaces of their own and leave no cluster-scoped object behind.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use muster_tree::{Tree, tree};

use crate::beside::Beside;
use crate::clients::skip;
use crate::differential::{Server, Step};
use crate::plane::Plane;
use crate::real::{self, Real};

/// The controllers that write into no object that is compared.
const QUIET: [&str; 2] = ["gc", "namespace"];

/// The same, and the one of JobSets.
const QUIET_WITH_JOBSETS: [&str; 3] = ["gc", "namespace", "jobset"];

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
/// The configuration of an operator that runs JobSets and nothing else.
const JOBSETS_ALONE: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\ncontrollers: [jobset]\n";
/// All admission steps but what the node does with tokens, which the real plane lacks, too.
const ADMITS_JOBSETS: &str = "*,-ServiceAccount,-UnsupportedInput";
/// The nodes that work runs on.
const NODES: usize = 4;
/// The nodes that JobSets run on, on every plane.
const JOBSET_NODES: usize = 100;
/// How often one looks whether they are ready.
const NODES_TRIES: u32 = 1800;
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
    /// The pair on which work runs, with all controllers of Jobs, a scheduler and the same simulated nodes: a new one, or the
    /// servers whose kubeconfigs `OURS` and `REAL` name.
    pub fn work() -> Result<Planes, String> {
        if let Some(given) = Planes::given()? {
            return Ok(given);
        }
        let plane = ours_with(&AT_WORK, NODES)?;
        let mut running = Real::with(&AT_WORK)?;
        running.join(&crate::plane::binary()?, NODES)?;
        Planes::ready(plane, running, NODES)
    }

    /// The pair on which JobSets are admitted and not run: there are no nodes. The feature gates are as they are by default. Beside
    /// the real server is an operator with the rights of an administrator, whose webhooks are reached by their address:
    /// nothing is installed.
    pub fn jobsets(test: &str) -> Option<&'static Planes> {
        static PLANES: OnceLock<Planes> = OnceLock::new();
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let start = || -> Result<Planes, String> {
            let (binary, plane) = (crate::plane::binary()?, ours_with(&QUIET_WITH_JOBSETS, 0)?);
            let mut running = Real::with(&QUIET)?;
            running.define_jobsets(&binary)?;
            running.operate(&binary, &["--controllers", "jobset"])?;
            Planes::of(plane, running)
        };
        Some(PLANES.get_or_init(|| start().expect("both planes start")))
    }

    /// Starts a pair on which JobSets run under these feature gates (`A=true,B=false`).
    ///
    /// Ours is `muster up` with all controllers of Jobs and JobSets, its scheduler and simulated nodes. The real one has
    /// the same controllers of its own, kube-scheduler, the same simulated nodes (`muster node`), all that `muster install`
    /// makes, and a `muster operator` under its ServiceAccount that admits JobSets and runs them. Both are ready: nodes
    /// take pods, and the real server has asked the operator's webhooks.
    pub fn with_jobsets(gates: &str) -> Result<Planes, String> {
        let plane = with_jobsets(gates)?;
        let binary = crate::plane::binary()?;
        let mut running = Real::with(&AT_WORK)?;
        running.join(&binary, JOBSET_NODES)?;
        running.operate_configured(&binary, JOBSETS_ALONE, &["--feature-gates", gates])?;
        Planes::ready(plane, running, JOBSET_NODES)
    }

    fn of(plane: Plane, running: Real) -> Result<Planes, String> {
        let real = Server::new(running.server.base(), real::TOKEN);
        Ok(Planes { ours: plane.server()?, real, running: Some((plane, running)) })
    }

    /// The kubeconfigs of a pair that was started here: ours, then the real one's.
    pub fn kubeconfigs(&self) -> Result<[PathBuf; 2], String> {
        let (plane, real) = self.running.as_ref().ok_or("these servers were there before")?;
        Ok([plane.kubeconfig().to_owned(), real.own_kubeconfig()?])
    }

    /// A pair whose nodes take pods and whose volumes are made alike.
    fn ready(plane: Plane, running: Real, nodes: usize) -> Result<Planes, String> {
        let planes = Planes::of(plane, running)?;
        share_class(&planes.ours, &planes.real)?;
        for server in [&planes.ours, &planes.real] {
            wait_for_nodes(server, nodes)?;
        }
        Ok(planes)
    }

    /// Starts a further real plane, on which work runs under the scheduler of an installed `muster operator` alone.
    pub fn operated(&self) -> Result<Real, String> {
        let others: Vec<&str> = AT_WORK.into_iter().filter(|name| *name != "scheduler").collect();
        let mut running = Real::with(&others)?;
        let binary = crate::plane::binary()?;
        running.join(&binary, NODES)?;
        running.operate_installed(&binary, &[])?;
        share_class(&self.ours, &running.server)?;
        wait_for_nodes(&running.server, NODES)?;
        Ok(running)
    }

    /// The servers whose kubeconfigs `OURS` and `REAL` name, or else a new pair with the controllers that only delete.
    pub fn given_or_new() -> Result<Planes, String> {
        match Planes::given()? {
            Some(given) => Ok(given),
            None => Planes::start(&QUIET),
        }
    }

    fn given() -> Result<Option<Planes>, String> {
        let (Some(ours), Some(real)) = (std::env::var_os("OURS"), std::env::var_os("REAL")) else {
            return Ok(None);
        };
        let server = |file| Server::of_kubeconfig(Path::new(file));
        Ok(Some(Planes { ours: server(&ours)?, real: server(&real)?, running: None }))
    }

    /// Whether the servers were there before and stay when the value is dropped.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.running.is_none()
    }

    /// Starts a pair with these controllers.
    pub fn start(controllers: &[&str]) -> Result<Planes, String> {
        let (running, plane) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| ours(controllers));
            (Real::with(controllers), ours.join().expect("starting ours does not panic"))
        });
        Planes::of(plane?, running?)
    }
}

/// An embedded server whose JobSets are run from outside: `muster up` without that controller, and a `muster operator`
/// beside it that has no other, over HTTPS.
pub struct Outside {
    /// Talks to the server as the administrator.
    pub server: Server,
    /// Ends first. The lock is never taken: it makes the value one that threads can share.
    _operator: Mutex<Beside>,
    _plane: Plane,
}

impl Outside {
    /// Starts both under these feature gates and waits until nodes take pods and the operator is in charge.
    ///
    /// JobSets are admitted by the server itself, as they are where it runs them.
    pub fn with_jobsets(gates: &str) -> Result<Outside, String> {
        let plane = ours_admitting(&AT_WORK, JOBSET_NODES, gates, ADMITS_JOBSETS)?;
        let server = plane.server()?;
        real::define_jobsets(&server, &crate::plane::binary()?)?;
        let log = std::fs::File::create(plane.folder().join("operator.log")).map_err(|e| e.to_string())?;
        let words = ["operator", "--controllers", "jobset", "--admission", "", "--feature-gates", gates];
        let mut operator = Beside::telling(&words, plane.kubeconfig(), log.into());
        operator.says("muster is in charge");
        wait_for_nodes(&server, JOBSET_NODES)?;
        Ok(Outside { server, _operator: Mutex::new(operator), _plane: plane })
    }
}

/// Starts our server with these controllers, without nodes, the way it is compared with a real one: what the node
/// does with a ServiceAccount's token is left out on both sides.
pub fn ours(controllers: &[&str]) -> Result<Plane, String> {
    ours_with(controllers, 0)
}

/// Starts our server as it is where JobSets run, under these feature gates.
pub fn with_jobsets(gates: &str) -> Result<Plane, String> {
    ours_gated(&WITH_JOBSETS, JOBSET_NODES, gates)
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
pub fn wait_for_nodes(server: &Server, nodes: usize) -> Result<(), String> {
    for _ in 0..NODES_TRIES {
        let answer = server.get("/api/v1/nodes")?;
        let takes = |node: &&Tree| {
            let taints = node.items_at(&["spec", "taints"]);
            taints.is_empty() && node.at(&["status", "allocatable", "cpu"]).is_some()
        };
        if answer.body.items_at(&["items"]).iter().filter(takes).count() == nodes {
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
    let admission = if controllers.contains(&"jobset") {
        ADMITS_JOBSETS
    } else {
        "*,-ServiceAccount,-UnsupportedInput,-jobset"
    };
    ours_admitting(controllers, nodes, gates, admission)
}

fn ours_admitting(controllers: &[&str], nodes: usize, gates: &str, admission: &str) -> Result<Plane, String> {
    let (controllers, nodes) = (controllers.join(","), nodes.to_string());
    let mut args = vec!["--ephemeral", "--sim-nodes", &nodes, "--controllers", &controllers];
    args.extend(["--admission", admission, "--feature-gates", gates]);
    Plane::start(&args)
}
