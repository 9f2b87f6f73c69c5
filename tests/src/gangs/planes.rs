//! The planes that scenarios of gangs are played on.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;

use muster_tree::{Tree, tree};
use tempfile::TempDir;

use super::forms::Form;
use super::scenario::{Nodes, Scenario};
use super::stage::{HOME, home, node_name};
use crate::control_plane::ControlPlane;
use crate::differential::{Server, Step};
use crate::plane::{self, Plane};
use crate::real::{Gangs, Real};

/// Priorities that scenarios name.
const CLASSES: [(&str, i64, &str); 4] = [
    ("gang-low", 10, "PreemptLowerPriority"),
    ("gang-middle", 100, "PreemptLowerPriority"),
    ("gang-high", 1000, "PreemptLowerPriority"),
    ("gang-never", 1000, "Never"),
];
/// Groups of others that are understood, too.
const FOREIGN: [(&str, &str); 2] =
    [("scheduling.x-k8s.io", "v1alpha1"), ("scheduling.volcano.sh", "v1beta1")];
/// What a real plane needs beside our operator.
const CONTROLLERS: [&str; 7] = ["gc", "namespace", "podgc", "node", "podgroup", "job", "volume"];

/// What a scenario of gangs needs of a plane.
pub(crate) trait Ground {
    /// The plane.
    fn plane(&self) -> &dyn ControlPlane;

    /// How it spells gangs.
    fn form(&self) -> Form;

    /// Starts the nodes of a scenario that come later.
    fn join(&self, number: usize, scenario: &Scenario) -> Result<(), String>;
}

/// A plane on which all scenarios can be played.
pub struct Playground {
    /// Talks to it as the administrator.
    pub server: Server,
    /// How it spells gangs.
    pub form: Form,
    /// End with the value.
    /// Nodes that came later.
    joined: Mutex<Vec<Joined>>,
    /// How commands of ours find it.
    kubeconfig: PathBuf,
    _plane: Option<Plane>,
    real: Option<Real>,
    folder: TempDir,
}

/// Some nodes.
struct Joined(Child);

impl Drop for Joined {
    fn drop(&mut self) {
        // Closing the guard's input is the orderly end.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Playground {
    /// Starts one with the nodes of these scenarios.
    pub fn start(form: Form, scenarios: &[Scenario]) -> Result<Playground, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let numbered: Vec<(usize, &Scenario)> = scenarios.iter().enumerate().collect();
        let nodes = write_nodes(&folder.path().join("nodes.yaml"), &numbered, false)?;
        let made = match form {
            Form::Embedded => embedded(&nodes, folder)?,
            Form::Native => real(form, Gangs::Native, &nodes, folder)?,
            Form::Own => real(form, Gangs::Absent, &nodes, folder)?,
        };
        prepare(&made.server, form)?;
        let first = scenarios.iter().flat_map(|it| &it.nodes).filter(|it| !it.later);
        let count = first.map(|it| it.count).sum();
        crate::planes::wait_for_nodes(&made.server, count)?;
        Ok(made)
    }

    /// What the operator of a real plane has complained about.
    #[must_use]
    pub fn complaints(&self) -> String {
        self.real.as_ref().map(Real::complaints).unwrap_or_default()
    }
}

impl Ground for Playground {
    fn plane(&self) -> &dyn ControlPlane {
        &self.server
    }

    fn form(&self) -> Form {
        self.form
    }

    fn join(&self, number: usize, scenario: &Scenario) -> Result<(), String> {
        let file = self.folder.path().join(format!("later-{number}.yaml"));
        let nodes = write_nodes(&file, &[(number, scenario)], true)?;
        let mut command = plane::guarded(&plane::binary()?);
        command.args(["node", "--nodes"]).arg(nodes).arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--data-dir").arg(file.with_extension("data"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|e| format!("muster node: {e}"))?;
        self.joined.lock().expect("no thread panics with it").push(Joined(child));
        Ok(())
    }
}

fn embedded(nodes: &Path, folder: TempDir) -> Result<Playground, String> {
    let file = nodes.display().to_string();
    let plane = Plane::start(&["--ephemeral", "--nodes", &file])?;
    let (server, kubeconfig) = (plane.server()?, plane.kubeconfig().to_owned());
    let (form, joined) = (Form::Embedded, Mutex::default());
    Ok(Playground { server, form, joined, kubeconfig, _plane: Some(plane), real: None, folder })
}

/// The definitions come before the controllers: the garbage collector looks only now and then for new kinds.
fn real(form: Form, gangs: Gangs, nodes: &Path, folder: TempDir) -> Result<Playground, String> {
    let binary = plane::binary()?;
    let mut running = Real::with_gangs(gangs)?;
    define_foreign(&running.server)?;
    let installed = running.install(&binary)?;
    running.start_controllers(&CONTROLLERS)?;
    let data = folder.path().join("data").display().to_string();
    running.start_ours(&binary, &["node", "--nodes", &nodes.display().to_string(), "--data-dir", &data])?;
    running.operate_as(&binary, &installed, &["--log-level", "info"])?;
    let server = Server::new(running.server.base(), running.token());
    let (kubeconfig, joined) = (running.own_kubeconfig()?, Mutex::default());
    Ok(Playground { server, form, joined, kubeconfig, _plane: None, real: Some(running), folder })
}

/// What every scenario may rely on.
pub(crate) fn prepare(server: &dyn ControlPlane, form: Form) -> Result<(), String> {
    for (name, value, preemption) in CLASSES {
        let class = tree!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "preemptionPolicy": preemption});
        post(server, "/apis/scheduling.k8s.io/v1/priorityclasses", &class)?;
    }
    if form == Form::Embedded { define_foreign(server) } else { Ok(()) }
}

/// Just enough of the groups of others.
pub(crate) fn define_foreign(server: &dyn ControlPlane) -> Result<(), String> {
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
    let made = server.send("POST", path, &Step::default(), object.to_json_bytes())?;
    if made.code == 201 { Ok(()) } else { Err(format!("{path}: {}", made.body.to_json())) }
}

/// Writes the nodes of these scenarios, those that come later or all others; returns the file.
fn write_nodes(path: &Path, scenarios: &[(usize, &Scenario)], later: bool) -> Result<PathBuf, String> {
    let nodes = scenarios.iter().flat_map(|(number, scenario)| manifests(*number, scenario, later));
    let text: String = nodes.map(|node| format!("---\n{}", node.to_yaml())).collect();
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.to_owned())
}

/// The Node manifests of a scenario: of the nodes that come later, or of all others.
pub(crate) fn manifests(number: usize, scenario: &Scenario, later: bool) -> Vec<Tree> {
    let each = scenario.nodes.iter().flat_map(|nodes| std::iter::repeat_n(nodes, nodes.count));
    let those = each.enumerate().filter(|(_, nodes)| nodes.later == later);
    those.map(|(at, nodes)| node(number, at, nodes)).collect()
}

fn node(scenario: usize, at: usize, nodes: &Nodes) -> Tree {
    let name = node_name(scenario, at);
    let labels = nodes.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    let labels = labels
        .chain([(HOME.to_owned(), home(scenario)), ("kubernetes.io/hostname".to_owned(), name.clone())]);
    let room = tree!({"cpu": nodes.cpu.to_string(), "memory": "64Gi", "pods": "110"});
    tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": Tree::map(labels)},
        "status": {"capacity": room.clone(), "allocatable": room}})
}
