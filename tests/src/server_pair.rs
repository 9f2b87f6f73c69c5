//! Pairs of an embedded server and a real API server, for tests that send the same requests to both.
//!
//! # Invariants
//!
//! - Both run the same controllers, named as in our `--controllers`.
//! - Tests that share a pair use namespaces of their own and leave no cluster-scoped objects.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use muster_tree::{Tree, tree};

use crate::clients::skip;
use crate::differential::{ApiClient, RequestStep};
use crate::embedded_server::EmbeddedServer;
use crate::muster_process::MusterProcess;
use crate::real::{self, RealCluster};

/// Controllers that do not write compared objects.
const QUIET: [&str; 2] = ["gc", "namespace"];

/// Like [`QUIET`], with the JobSet controller.
const QUIET_WITH_JOBSETS: [&str; 3] = ["gc", "namespace", "jobset"];

/// Controllers that run workloads.
const WORKLOAD_CONTROLLERS: [&str; 9] =
    ["gc", "namespace", "job", "podgc", "endpointslice", "volume", "resourceclaim", "scheduler", "node"];
/// Like [`WORKLOAD_CONTROLLERS`], with the JobSet controller.
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
/// Operator configuration with only the JobSet controller.
const JOBSETS_ALONE: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\ncontrollers: [jobset]\n";
/// All admission plugins except those for ServiceAccount tokens, which the real server runs without, too.
const ADMITS_JOBSETS: &str = "*,-ServiceAccount,-UnsupportedInput";
/// Simulated nodes for workloads.
const NODES: usize = 4;
/// Simulated nodes for JobSets, in every environment.
const JOBSET_NODES: usize = 100;
/// Polls of node readiness: three minutes in total.
const NODES_TRIES: u32 = 1800;
const NODES_PAUSE: Duration = Duration::from_millis(100);

/// An embedded server and a real one.
pub struct ServerPair {
    /// Administrator client of the embedded server.
    pub ours: ApiClient,
    /// Administrator client of the real server.
    pub real: ApiClient,
    /// Absent for existing servers.
    running: Option<(EmbeddedServer, RealCluster)>,
}

impl ServerPair {
    /// Starts a pair with all Job controllers, a scheduler and the same simulated nodes; or uses the servers of the kubeconfigs in `OURS`
    /// and `REAL`.
    pub fn with_workload_controllers() -> Result<ServerPair, String> {
        if let Some(given) = ServerPair::existing()? {
            return Ok(given);
        }
        let plane = start_embedded_with_nodes(&WORKLOAD_CONTROLLERS, NODES)?;
        let mut running = RealCluster::with(&WORKLOAD_CONTROLLERS)?;
        running.add_simulated_nodes(&crate::embedded_server::binary()?, NODES)?;
        ServerPair::ready(plane, running, NODES)
    }

    /// Returns a shared pair that admits JobSets without nodes to run them, with default feature gates. The operator beside the real server
    /// runs as cluster administrator with webhooks registered by URL; nothing is installed.
    pub fn admitting_jobsets(test: &str) -> Option<&'static ServerPair> {
        static PLANES: OnceLock<ServerPair> = OnceLock::new();
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        let start = || -> Result<ServerPair, String> {
            let (binary, plane) =
                (crate::embedded_server::binary()?, start_embedded_with_nodes(&QUIET_WITH_JOBSETS, 0)?);
            let mut running = RealCluster::with(&QUIET)?;
            running.create_jobset_crd(&binary)?;
            running.start_operator_as_admin(&binary, &["--controllers", "jobset"])?;
            ServerPair::of(plane, running)
        };
        Some(PLANES.get_or_init(|| start().expect("both planes start")))
    }

    /// Starts a pair that runs JobSets under these feature gates (`A=true,B=false`).
    ///
    /// Ours is `muster up` with all Job and JobSet controllers, its scheduler and simulated nodes. The real one has upstream's controllers,
    /// kube-scheduler, the same simulated nodes (`muster node`), and an installed `muster operator` under its ServiceAccount. Both are
    /// ready: nodes are schedulable, and the real server reaches the operator's webhooks.
    pub fn with_jobsets(gates: &str) -> Result<ServerPair, String> {
        let plane = with_jobsets(gates)?;
        let binary = crate::embedded_server::binary()?;
        let mut running = RealCluster::with(&WORKLOAD_CONTROLLERS)?;
        running.add_simulated_nodes(&binary, JOBSET_NODES)?;
        running.install_and_operate_with_config(&binary, JOBSETS_ALONE, &["--feature-gates", gates])?;
        ServerPair::ready(plane, running, JOBSET_NODES)
    }

    fn of(plane: EmbeddedServer, running: RealCluster) -> Result<ServerPair, String> {
        let real = ApiClient::new(running.server.base(), real::TOKEN);
        Ok(ServerPair { ours: plane.server()?, real, running: Some((plane, running)) })
    }

    /// Returns the kubeconfigs of a pair that was started here: embedded, real.
    pub fn kubeconfigs(&self) -> Result<[PathBuf; 2], String> {
        let (plane, real) = self.running.as_ref().ok_or("these servers were there before")?;
        Ok([plane.kubeconfig().to_owned(), real.admin_kubeconfig()?])
    }

    /// Waits until the nodes are schedulable, after creating the same StorageClass on both.
    fn ready(plane: EmbeddedServer, running: RealCluster, nodes: usize) -> Result<ServerPair, String> {
        let planes = ServerPair::of(plane, running)?;
        share_class(&planes.ours, &planes.real)?;
        for server in [&planes.ours, &planes.real] {
            wait_for_nodes(server, nodes)?;
        }
        Ok(planes)
    }

    /// Starts another real control plane, on which an installed `muster operator` is the only scheduler.
    pub fn start_operated_cluster(&self) -> Result<RealCluster, String> {
        let others: Vec<&str> =
            WORKLOAD_CONTROLLERS.into_iter().filter(|name| *name != "scheduler").collect();
        let mut running = RealCluster::with(&others)?;
        let binary = crate::embedded_server::binary()?;
        running.add_simulated_nodes(&binary, NODES)?;
        running.install_and_operate(&binary, &[])?;
        share_class(&self.ours, &running.server)?;
        wait_for_nodes(&running.server, NODES)?;
        Ok(running)
    }

    /// Uses the servers of the kubeconfigs in `OURS` and `REAL`, or starts a pair with the controllers that only delete.
    pub fn existing_or_new() -> Result<ServerPair, String> {
        match ServerPair::existing()? {
            Some(given) => Ok(given),
            None => ServerPair::start(&QUIET),
        }
    }

    fn existing() -> Result<Option<ServerPair>, String> {
        let (Some(ours), Some(real)) = (std::env::var_os("OURS"), std::env::var_os("REAL")) else {
            return Ok(None);
        };
        let server = |file| ApiClient::of_kubeconfig(Path::new(file));
        Ok(Some(ServerPair { ours: server(&ours)?, real: server(&real)?, running: None }))
    }

    /// Whether the servers existed before and keep running when the value is dropped.
    #[must_use]
    pub fn is_existing(&self) -> bool {
        self.running.is_none()
    }

    pub fn start(controllers: &[&str]) -> Result<ServerPair, String> {
        let (running, plane) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| start_embedded(controllers));
            (RealCluster::with(controllers), ours.join().expect("starting ours does not panic"))
        });
        ServerPair::of(plane?, running?)
    }
}

/// An embedded server without the JobSet controller, and a `muster operator` beside it with only that controller, over HTTPS.
pub struct EmbeddedWithOperator {
    pub server: ApiClient,
    /// Dropped before the server. The lock is never taken; it makes the type `Sync`.
    _operator: Mutex<MusterProcess>,
    _plane: EmbeddedServer,
}

impl EmbeddedWithOperator {
    /// Starts both under these feature gates and waits until the nodes are schedulable and the operator is leader.
    ///
    /// The server admits JobSets itself, as it does where it runs them.
    pub fn with_jobsets(gates: &str) -> Result<EmbeddedWithOperator, String> {
        let plane =
            start_embedded_with_admission(&WORKLOAD_CONTROLLERS, JOBSET_NODES, gates, ADMITS_JOBSETS)?;
        let server = plane.server()?;
        real::create_jobset_crd(&server, &crate::embedded_server::binary()?)?;
        let log = std::fs::File::create(plane.directory().join("operator.log")).map_err(|e| e.to_string())?;
        let words = ["operator", "--controllers", "jobset", "--admission", "", "--feature-gates", gates];
        let mut operator = MusterProcess::start_with_stderr(&words, plane.kubeconfig(), log.into());
        operator.wait_for_line("muster is the leader");
        wait_for_nodes(&server, JOBSET_NODES)?;
        Ok(EmbeddedWithOperator { server, _operator: Mutex::new(operator), _plane: plane })
    }
}

/// Starts an embedded server with these controllers, without nodes, for comparison with a real one: the ServiceAccount admission plugin
/// is off on both.
pub fn start_embedded(controllers: &[&str]) -> Result<EmbeddedServer, String> {
    start_embedded_with_nodes(controllers, 0)
}

/// Starts an embedded server that runs JobSets under these feature gates.
pub fn with_jobsets(gates: &str) -> Result<EmbeddedServer, String> {
    start_embedded_with_gates(&WITH_JOBSETS, JOBSET_NODES, gates)
}

/// Creates the embedded server's default StorageClass on a real server.
fn share_class(ours: &ApiClient, real: &ApiClient) -> Result<(), String> {
    let all = "/apis/storage.k8s.io/v1/storageclasses";
    let class = ours.get(&format!("{all}/local-path"))?.body;
    let annotations = class.at(&["metadata", "annotations"]).cloned().unwrap_or_default();
    let metadata = tree!({"name": "local-path", "annotations": annotations});
    let made = class.with(&["metadata"], metadata);
    let answer = real.send("POST", all, &RequestStep::default(), made.to_json_bytes())?;
    if answer.code < 300 { Ok(()) } else { Err(answer.body.to_json()) }
}

/// Waits until all nodes are schedulable: before that, scheduler messages are nondeterministic.
pub fn wait_for_nodes(server: &ApiClient, nodes: usize) -> Result<(), String> {
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

fn start_embedded_with_nodes(controllers: &[&str], nodes: usize) -> Result<EmbeddedServer, String> {
    start_embedded_with_gates(controllers, nodes, "")
}

fn start_embedded_with_gates(
    controllers: &[&str],
    nodes: usize,
    gates: &str,
) -> Result<EmbeddedServer, String> {
    // A real server without the JobSet controller has no JobSet defaulting either.
    let admission = if controllers.contains(&"jobset") {
        ADMITS_JOBSETS
    } else {
        "*,-ServiceAccount,-UnsupportedInput,-jobset"
    };
    start_embedded_with_admission(controllers, nodes, gates, admission)
}

fn start_embedded_with_admission(
    controllers: &[&str],
    nodes: usize,
    gates: &str,
    admission: &str,
) -> Result<EmbeddedServer, String> {
    let (controllers, nodes) = (controllers.join(","), nodes.to_string());
    let mut args = vec!["--ephemeral", "--sim-nodes", &nodes, "--controllers", &controllers];
    args.extend(["--admission", admission, "--feature-gates", gates]);
    EmbeddedServer::start(&args)
}
