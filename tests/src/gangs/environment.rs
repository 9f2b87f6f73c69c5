//! The control planes that run gang scenarios.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;

use muster_tree::{Tree, tree};
use tempfile::TempDir;

use super::api_variant::GangApiVariant;
use super::scenario::{GangScenario, NodesSpec};
use super::scenario_run::{NODE_LABEL, node_name, node_prefix};
use crate::control_plane::ControlPlane;
use crate::differential::{ApiClient, RequestStep};
use crate::embedded_server::{self, EmbeddedServer};
use crate::real::{GangSupport, RealCluster};

/// PriorityClasses that scenarios reference.
const CLASSES: [(&str, i64, &str); 4] = [
    ("gang-low", 10, "PreemptLowerPriority"),
    ("gang-middle", 100, "PreemptLowerPriority"),
    ("gang-high", 1000, "PreemptLowerPriority"),
    ("gang-never", 1000, "Never"),
];
/// API groups of other schedulers' PodGroups, which our scheduler supports.
const FOREIGN: [(&str, &str); 2] =
    [("scheduling.x-k8s.io", "v1alpha1"), ("scheduling.volcano.sh", "v1beta1")];
/// Upstream controllers that run beside our operator.
const CONTROLLERS: [&str; 7] = ["gc", "namespace", "podgc", "node", "podgroup", "job", "volume"];

/// The operations that gang scenarios need of a control plane.
pub(crate) trait GangControlPlane {
    fn plane(&self) -> &dyn ControlPlane;

    fn form(&self) -> GangApiVariant;

    /// Starts the nodes of a scenario that are marked `later`.
    fn add_nodes(&self, number: usize, scenario: &GangScenario) -> Result<(), String>;
}

/// A control plane that can run all gang scenarios.
pub struct GangEnvironment {
    pub server: ApiClient,
    /// How it spells gangs.
    pub form: GangApiVariant,
    /// Nodes that joined during a scenario; they stop with the value.
    joined: Mutex<Vec<NodeProcess>>,
    /// Kubeconfig for `muster node`.
    kubeconfig: PathBuf,
    _plane: Option<EmbeddedServer>,
    real: Option<RealCluster>,
    folder: TempDir,
}

/// A `muster node` process.
struct NodeProcess(Child);

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // Closing stdin makes the guard send SIGTERM.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl GangEnvironment {
    /// Starts a control plane with the nodes of these scenarios.
    pub fn start(form: GangApiVariant, scenarios: &[GangScenario]) -> Result<GangEnvironment, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let numbered: Vec<(usize, &GangScenario)> = scenarios.iter().enumerate().collect();
        let nodes = write_nodes(&folder.path().join("nodes.yaml"), &numbered, false)?;
        let made = match form {
            GangApiVariant::Embedded => embedded(&nodes, folder)?,
            GangApiVariant::Native => real(form, GangSupport::Native, &nodes, folder)?,
            GangApiVariant::Own => real(form, GangSupport::Absent, &nodes, folder)?,
        };
        prepare(&made.server, form)?;
        let first = scenarios.iter().flat_map(|it| &it.nodes).filter(|it| !it.later);
        let count = first.map(|it| it.count).sum();
        crate::server_pair::wait_for_nodes(&made.server, count)?;
        Ok(made)
    }

    /// Log of the operator; empty for the embedded server.
    #[must_use]
    pub fn operator_log(&self) -> String {
        self.real.as_ref().map(RealCluster::operator_log).unwrap_or_default()
    }
}

impl GangControlPlane for GangEnvironment {
    fn plane(&self) -> &dyn ControlPlane {
        &self.server
    }

    fn form(&self) -> GangApiVariant {
        self.form
    }

    fn add_nodes(&self, number: usize, scenario: &GangScenario) -> Result<(), String> {
        let file = self.folder.path().join(format!("later-{number}.yaml"));
        let nodes = write_nodes(&file, &[(number, scenario)], true)?;
        let mut command = embedded_server::guarded(&embedded_server::binary()?);
        command.args(["node", "--nodes"]).arg(nodes).arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--data-dir").arg(file.with_extension("data"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|e| format!("muster node: {e}"))?;
        self.joined.lock().expect("no thread panics with it").push(NodeProcess(child));
        Ok(())
    }
}

fn embedded(nodes: &Path, folder: TempDir) -> Result<GangEnvironment, String> {
    let file = nodes.display().to_string();
    let plane = EmbeddedServer::start(&["--ephemeral", "--nodes", &file])?;
    let (server, kubeconfig) = (plane.server()?, plane.kubeconfig().to_owned());
    let (form, joined) = (GangApiVariant::Embedded, Mutex::default());
    Ok(GangEnvironment { server, form, joined, kubeconfig, _plane: Some(plane), real: None, folder })
}

/// CRDs are created before the controller manager starts: its garbage collector refreshes discovery rarely.
fn real(
    form: GangApiVariant,
    gangs: GangSupport,
    nodes: &Path,
    folder: TempDir,
) -> Result<GangEnvironment, String> {
    let binary = embedded_server::binary()?;
    let mut running = RealCluster::with_gang_support(gangs)?;
    create_foreign_crds(&running.server)?;
    let installed = running.install(&binary)?;
    running.start_controllers(&CONTROLLERS)?;
    let data = folder.path().join("data").display().to_string();
    running.start_muster(&binary, &["node", "--nodes", &nodes.display().to_string(), "--data-dir", &data])?;
    running.start_installed_operator(&binary, &installed, &["--log-level", "info"])?;
    let server = ApiClient::new(running.server.base(), running.token());
    let (kubeconfig, joined) = (running.admin_kubeconfig()?, Mutex::default());
    Ok(GangEnvironment { server, form, joined, kubeconfig, _plane: None, real: Some(running), folder })
}

/// Creates the objects that every scenario may reference.
pub(crate) fn prepare(server: &dyn ControlPlane, form: GangApiVariant) -> Result<(), String> {
    for (name, value, preemption) in CLASSES {
        let class = tree!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "preemptionPolicy": preemption});
        post(server, "/apis/scheduling.k8s.io/v1/priorityclasses", &class)?;
    }
    if form == GangApiVariant::Embedded { create_foreign_crds(server) } else { Ok(()) }
}

/// Creates minimal CRDs for the PodGroups of other schedulers.
pub(crate) fn create_foreign_crds(server: &dyn ControlPlane) -> Result<(), String> {
    for (group, version) in FOREIGN {
        let open = tree!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = tree!({"type": "object", "properties": {"spec": open.clone(), "status": open}});
        let version = tree!({"name": version, "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}});
        let names = tree!({"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"});
        let definition = tree!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("podgroups.{group}")},
            "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}});
        post(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)?;
    }
    Ok(())
}

fn post(server: &dyn ControlPlane, path: &str, object: &Tree) -> Result<(), String> {
    let made = server.send("POST", path, &RequestStep::default(), object.to_json_bytes())?;
    if made.code == 201 { Ok(()) } else { Err(format!("{path}: {}", made.body.to_json())) }
}

/// Writes the Node manifests of these scenarios: those marked `later`, or all others.
fn write_nodes(path: &Path, scenarios: &[(usize, &GangScenario)], later: bool) -> Result<PathBuf, String> {
    let nodes = scenarios.iter().flat_map(|(number, scenario)| manifests(*number, scenario, later));
    let text: String = nodes.map(|node| format!("---\n{}", node.to_yaml())).collect();
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.to_owned())
}

/// Builds the Node manifests of a scenario: those marked `later`, or all others.
pub(crate) fn manifests(number: usize, scenario: &GangScenario, later: bool) -> Vec<Tree> {
    let each = scenario.nodes.iter().flat_map(|nodes| std::iter::repeat_n(nodes, nodes.count));
    let those = each.enumerate().filter(|(_, nodes)| nodes.later == later);
    those.map(|(at, nodes)| node(number, at, nodes)).collect()
}

fn node(scenario: usize, at: usize, nodes: &NodesSpec) -> Tree {
    let name = node_name(scenario, at);
    let labels = nodes.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    let labels = labels.chain([
        (NODE_LABEL.to_owned(), node_prefix(scenario)),
        ("kubernetes.io/hostname".to_owned(), name.clone()),
    ]);
    let room = tree!({"cpu": nodes.cpu.to_string(), "memory": "64Gi", "pods": "110"});
    tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": Tree::map(labels)},
        "status": {"capacity": room.clone(), "allocatable": room}})
}
