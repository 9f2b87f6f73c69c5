//! Fields of runtimes; those of a namespace and of the cluster are the same.

use muster_api::definition::{Part, int32, keyed, object, schema, set, text, truth, word};
use muster_tree::Tree;

use super::{bare, metadata, name};

/// Jobs whose containers are told how to find the others, and such containers of one.
const TARGETS_MAX: i64 = 16;
const TARGET_CONTAINERS_MAX: i64 = 8;
const CONTAINER_NAME_MAX: i64 = 63;
/// The longest path.
const PATH_MAX: i64 = 4096;

const RULES: &str = "x-kubernetes-validations";
const ONE_POLICY: &str = "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)].filter(it, it).size() <= 1";

/// A runtime.
pub(in super::super) fn runtime() -> Part {
    let template = object([("metadata", metadata()), ("spec", jobset())]).min_entries(1);
    let together =
        object([("coscheduling", coscheduling()), ("volcano", volcano()), ("workload", object([]))]);
    let spec = object([("mlPolicy", ml_policy()), ("podGroupPolicy", together), ("template", template)]);
    bare().and("spec", spec.min_entries(1))
}

fn ml_policy() -> Part {
    let procs = |policy: &str| {
        int32().default(1).rule("self >= 1", &format!("numProcPerNode of {policy} must be >= 1"))
    };
    let mpi = object([
        ("numProcPerNode", procs("mpiPolicy")),
        ("mpiImplementation", word(&["OpenMPI", ""]).default("OpenMPI")),
        ("sshAuthMountPath", text().max_length(PATH_MAX).default("/root/.ssh")),
        ("runLauncherAsNode", truth().default(false)),
    ]);
    object([
        ("numNodes", int32()),
        ("torch", object([("envInjection", env_injection())])),
        ("mpi", mpi),
        ("jax", object([])),
        ("xgboost", object([])),
        ("flux", object([("numProcPerNode", procs("fluxPolicy"))])),
    ])
    .rule(ONE_POLICY, "Only one of the policy fields torch, mpi, jax, xgboost and flux may be set")
}

fn env_injection() -> Part {
    let names = set(text().max_length(CONTAINER_NAME_MAX)).min_items(1).max_items(TARGET_CONTAINERS_MAX);
    let names = names.rule("!('node' in self)", "containerNames must not contain node, which is always told");
    let target = object([("jobName!", name()), ("containerNames!", names)]);
    object([("targets", keyed("jobName", target).max_items(TARGETS_MAX))])
}

fn coscheduling() -> Part {
    object([("scheduleTimeoutSeconds", int32().default(60))])
}

fn volcano() -> Part {
    let topology = object([
        ("mode", word(&["hard", "soft"]).default("hard")),
        ("highestTierAllowed", int32().default(1)),
    ]);
    object([("networkTopology", topology)])
}

/// A whole JobSet, but for what may not change of one: a template may, since no TrainJob that has started looks at it.
fn jobset() -> Part {
    schema(without_transitions(&muster_jobset::crd::spec().tree()))
}

fn without_transitions(tree: &Tree) -> Tree {
    let is_static = |rule: &&Tree| !rule.str_at(&["rule"]).contains("oldSelf");
    match tree {
        Tree::Map(_) => tree.map_entries(|key, below| match key.as_str() {
            RULES => {
                let kept: Vec<Tree> = below.items().iter().filter(is_static).cloned().collect();
                (!kept.is_empty()).then(|| Tree::list(kept))
            }
            _ => Some(without_transitions(below)),
        }),
        Tree::List(_) => tree.map_items(|_, below| without_transitions(below)),
        _ => tree.clone(),
    }
}
