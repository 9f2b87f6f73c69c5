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
    let template = object([
        ("metadata", metadata().about("Labels and annotations that the JobSet gets.")),
        ("spec", jobset().about("The spec of the JobSet.")),
    ])
    .min_entries(1);
    let together = object([
        ("coscheduling", coscheduling().about("By the coscheduling plugin of kube-scheduler.")),
        ("volcano", volcano().about("By Volcano.")),
        ("workload", object([]).about("By the Workloads of Kubernetes.")),
    ]);
    let spec = object([
        ("mlPolicy", ml_policy().about("How the processes of a training find each other.")),
        ("podGroupPolicy", together.about("How the pods of a training are placed together.")),
        ("template", template.about("The JobSet that a training becomes.")),
    ]);
    bare()
        .and("spec", spec.min_entries(1).about("How trainings of this runtime are run."))
        .about("A runtime is a blueprint for TrainJobs that name it.")
}

fn ml_policy() -> Part {
    let procs = |policy: &str| {
        int32().default(1).rule("self >= 1", &format!("numProcPerNode of {policy} must be >= 1"))
    };
    let mpi = object([
        ("numProcPerNode", procs("mpiPolicy").about("Processes in each pod.")),
        ("mpiImplementation", word(&["OpenMPI", ""]).default("OpenMPI").about("Which MPI it is.")),
        (
            "sshAuthMountPath",
            text().max_length(PATH_MAX).default("/root/.ssh").about("Where pods find the keys of SSH."),
        ),
        ("runLauncherAsNode", truth().default(false).about("Whether the launcher trains, too.")),
    ]);
    object([
        ("numNodes", int32().about("How many pods train together, unless the TrainJob says otherwise.")),
        (
            "torch",
            object([(
                "envInjection",
                env_injection().about("Further containers that get the variables of torchrun."),
            )])
            .about("PyTorch, by torchrun."),
        ),
        ("mpi", mpi.about("MPI.")),
        ("jax", object([]).about("JAX.")),
        ("xgboost", object([]).about("XGBoost.")),
        (
            "flux",
            object([("numProcPerNode", procs("fluxPolicy").about("Processes in each pod."))]).about("Flux."),
        ),
    ])
    .rule(ONE_POLICY, "Only one of the policy fields torch, mpi, jax, xgboost and flux may be set")
}

fn env_injection() -> Part {
    let names = set(text().max_length(CONTAINER_NAME_MAX)).min_items(1).max_items(TARGET_CONTAINERS_MAX);
    let names = names.rule("!('node' in self)", "containerNames must not contain node, which is always told");
    let target = object([
        ("jobName!", name().about("The replicatedJob.")),
        ("containerNames!", names.about("Its containers that get the variables.")),
    ]);
    object([(
        "targets",
        keyed("jobName", target).max_items(TARGETS_MAX).about("The containers, by replicatedJob."),
    )])
}

fn coscheduling() -> Part {
    let timeout = int32().default(60).about("Seconds that the plugin waits for the whole group to fit.");
    object([("scheduleTimeoutSeconds", timeout)])
}

fn volcano() -> Part {
    let topology = object([
        (
            "mode",
            word(&["hard", "soft"])
                .default("hard")
                .about("Whether the tier is required (hard) or preferred (soft)."),
        ),
        (
            "highestTierAllowed",
            int32().default(1).about("The highest tier of the network that pods may span."),
        ),
    ]);
    object([("networkTopology", topology.about("How near to each other in the network pods are placed."))])
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
