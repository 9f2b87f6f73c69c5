//! The fields of TrainingRuntime and ClusterTrainingRuntime, which are the same.

use muster_api::crd_schema::{
    FieldSchema, boolean, enumeration, int32, map_list, object, schema, set, string,
};
use muster_tree::Tree;

use super::{bare, metadata, name};

/// Maximum number of `envInjection` targets, and of containers per target.
const TARGETS_MAX: i64 = 16;
const TARGET_CONTAINERS_MAX: i64 = 8;
const CONTAINER_NAME_MAX: i64 = 63;
const PATH_MAX: i64 = 4096;

const RULES: &str = "x-kubernetes-validations";
const ONE_POLICY: &str = "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)].filter(it, it).size() <= 1";

pub(in super::super) fn runtime() -> FieldSchema {
    let template = object([
        ("metadata", metadata().description("Labels and annotations that the JobSet gets.")),
        ("spec", jobset().description("The spec of the JobSet.")),
    ])
    .min_properties(1);
    let together = object([
        ("coscheduling", coscheduling().description("By the coscheduling plugin of kube-scheduler.")),
        ("volcano", volcano().description("By Volcano.")),
        ("workload", object([]).description("By the Workloads of Kubernetes.")),
    ]);
    let spec = object([
        ("mlPolicy", ml_policy().description("How the processes of a training find each other.")),
        ("podGroupPolicy", together.description("How the pods of a training are placed together.")),
        ("template", template.description("The JobSet that a training becomes.")),
    ]);
    bare()
        .with_field("spec", spec.min_properties(1).description("How trainings of this runtime are run."))
        .description("A runtime is a blueprint for TrainJobs that name it.")
}

fn ml_policy() -> FieldSchema {
    let procs = |policy: &str| {
        int32().default(1).rule("self >= 1", &format!("numProcPerNode of {policy} must be >= 1"))
    };
    let mpi = object([
        ("numProcPerNode", procs("mpiPolicy").description("Processes in each pod.")),
        (
            "mpiImplementation",
            enumeration(&["OpenMPI", ""]).default("OpenMPI").description("Which MPI it is."),
        ),
        (
            "sshAuthMountPath",
            string()
                .max_length(PATH_MAX)
                .default("/root/.ssh")
                .description("Where pods find the keys of SSH."),
        ),
        ("runLauncherAsNode", boolean().default(false).description("Whether the launcher trains, too.")),
    ]);
    object([
        (
            "numNodes",
            int32().description("How many pods train together, unless the TrainJob says otherwise."),
        ),
        (
            "torch",
            object([(
                "envInjection",
                env_injection().description("Further containers that get the variables of torchrun."),
            )])
            .description("PyTorch, by torchrun."),
        ),
        ("mpi", mpi.description("MPI.")),
        ("jax", object([]).description("JAX.")),
        ("xgboost", object([]).description("XGBoost.")),
        (
            "flux",
            object([("numProcPerNode", procs("fluxPolicy").description("Processes in each pod."))])
                .description("Flux."),
        ),
    ])
    .rule(ONE_POLICY, "Only one of the policy fields torch, mpi, jax, xgboost and flux may be set")
}

fn env_injection() -> FieldSchema {
    let names = set(string().max_length(CONTAINER_NAME_MAX)).min_items(1).max_items(TARGET_CONTAINERS_MAX);
    let names = names.rule("!('node' in self)", "containerNames must not contain node, which is always told");
    let target = object([
        ("jobName!", name().description("The replicatedJob.")),
        ("containerNames!", names.description("Its containers that get the variables.")),
    ]);
    object([(
        "targets",
        map_list("jobName", target).max_items(TARGETS_MAX).description("The containers, by replicatedJob."),
    )])
}

fn coscheduling() -> FieldSchema {
    let timeout =
        int32().default(60).description("Seconds that the plugin waits for the whole group to fit.");
    object([("scheduleTimeoutSeconds", timeout)])
}

fn volcano() -> FieldSchema {
    let topology = object([
        (
            "mode",
            enumeration(&["hard", "soft"])
                .default("hard")
                .description("Whether the tier is required (hard) or preferred (soft)."),
        ),
        (
            "highestTierAllowed",
            int32().default(1).description("The highest tier of the network that pods may span."),
        ),
    ]);
    object([(
        "networkTopology",
        topology.description("How near to each other in the network pods are placed."),
    )])
}

/// The spec of a JobSet without its transition rules: a template may change, because started TrainJobs have a
/// snapshot of it.
fn jobset() -> FieldSchema {
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
