//! Parses the cases of a table.
//!
//! A case names a runtime of `runtimes.yaml` and its differences: `with` is merged over the runtime, `node` over the
//! trainer container, `pod` over its pod template. `trainer`, `initializer`, `patches` and `spec` make the TrainJob
//! `tj` in namespace `ns`. `keys`, `gangs` and `reporting` are the other inputs of the build.

use std::sync::OnceLock;

use muster_api::client::Uid;
use muster_api::gang::{GangApi, GangSupport, GroupMarker};
use muster_trainer::build::{self, BuildRequest, BuiltObjects, KeyPair, Reporting, RuntimeError};
use muster_tree::{Tree, tree};

/// The cases of a table.
pub fn cases(text: &str) -> Vec<Tree> {
    let all = Tree::parse_yaml(text).unwrap_or_else(|why| panic!("{why}"));
    assert!(!all.items().is_empty(), "a table has cases");
    all.items().to_vec()
}

/// The fields of a case.
pub fn says(case: &Tree) -> &str {
    case.str_at(&["says"])
}

/// Builds the objects of a case.
pub fn build(case: &Tree) -> Result<BuiltObjects, RuntimeError> {
    let (job, runtime) = (train_job(case), runtime(case));
    let workload_uid = case.get("workloadUid").and_then(Tree::as_text);
    build::build(&BuildRequest {
        job: &job,
        runtime: &runtime,
        keys: case.get("keys").map(|_| KeyPair { private: "private", public: "public" }),
        gangs: gangs(case.str_at(&["gangs"])),
        workload_uid: workload_uid.map(|it| it as &Uid),
        reporting: case
            .get("reporting")
            .map(|_| Reporting { server: "https://trainer.sys.svc:10443", ca: "CA" }),
    })
}

fn gangs(words: &str) -> Option<GangSupport> {
    let (form, mark) = words.split_once(' ').unwrap_or((words, "field"));
    let form = match form {
        "proposal" => GangApi::Proposal,
        "released" => GangApi::Released,
        "legacy" => GangApi::Legacy,
        "own" => GangApi::Own,
        _ => return None,
    };
    Some(GangSupport {
        api: form,
        marker: if mark == "annotations" { GroupMarker::Annotations } else { GroupMarker::Field },
    })
}

/// The TrainJob of a case.
pub fn train_job(case: &Tree) -> Tree {
    let parts = [("trainer", "trainer"), ("initializer", "initializer"), ("patches", "runtimePatches")];
    let spec = case.get("spec").cloned().unwrap_or_else(Tree::empty_map);
    let spec = spec.with(&["runtimeRef"], tree!({"name": case.str_at(&["runtime"])}));
    let spec = parts.iter().fold(spec, |spec, (from, to)| match case.get(from) {
        Some(value) => spec.with(&[to], value),
        None => spec,
    });
    tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "tj", "namespace": "ns", "uid": "u1", "labels": {"team": "a"}}, "spec": spec})
}

/// The runtime of a case.
pub fn runtime(case: &Tree) -> Tree {
    static RUNTIMES: OnceLock<Tree> = OnceLock::new();
    let all = RUNTIMES.get_or_init(|| Tree::parse_yaml(include_str!("runtimes.yaml")).unwrap());
    let name = case.str_at(&["runtime"]);
    let found = all.get(name).unwrap_or_else(|| panic!("{}: no runtime {name}", says(case)));
    let runtime = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name}, "spec": found});
    let runtime = runtime.merge(case.get("with").unwrap_or(&Tree::empty_map()));
    let jobs = ["spec", "template", "spec", "replicatedJobs"];
    let Some(list) = runtime.at(&jobs) else { return runtime };
    runtime.with(&jobs, list.map_items(|_, job| changed(case, job)))
}

/// The replicatedJob of the trainer step, with the changes of the case.
fn changed(case: &Tree, job: &Tree) -> Tree {
    let step = job.at(&["template", "metadata", "labels"]).and_then(|it| it.get(STEP)).and_then(Tree::as_str);
    if step != Some("trainer") {
        return job.clone();
    }
    let pod = ["template", "spec", "template", "spec"];
    let empty = Tree::empty_map();
    let spec = job.at(&pod).unwrap().merge(case.get("pod").unwrap_or(&empty));
    let containers =
        spec.get("containers").unwrap().map_items(|_, container| match container.str_at(&["name"]) {
            "node" => container.merge(case.get("node").unwrap_or(&empty)),
            _ => container.clone(),
        });
    job.with(&pod, spec.with_key("containers", containers))
}

const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
