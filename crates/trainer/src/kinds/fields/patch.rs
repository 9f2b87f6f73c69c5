//! The fields of runtimePatches.

use muster_api::crd_schema::{
    FieldSchema, atomic_list, date_time, int64, map_list, object, string, string_map,
};

use super::{NAME_MAX, core, env, fixed, metadata, name};

const JOBS_MAX: i64 = 100;
const CONTAINERS_MAX: i64 = 64;
const SECRETS_MAX: i64 = 64;
const VOLUMES_MAX: i64 = 128;
const TOLERATIONS_MAX: i64 = 128;
const GATES_MAX: i64 = 16;

/// The patch of one manager.
pub(super) fn patch() -> FieldSchema {
    let jobs = map_list("name", job()).max_items(JOBS_MAX).description("Changes to replicatedJobs, by name.");
    let template = object([
        ("metadata", metadata().description("Labels and annotations that the JobSet gets.")),
        ("spec", object([("replicatedJobs", jobs)]).description("Changes to the spec of the JobSet.")),
    ]);
    object([
        (
            "manager!",
            fixed(name()).description("The controller that requests the change, as domain and path."),
        ),
        ("time", date_time().description("When the change was made.")),
        (
            "trainingRuntimeSpec",
            object([("template", template.description("Changes to the JobSet of the runtime."))])
                .description("Changes to the spec of the runtime."),
        ),
    ])
}

fn job() -> FieldSchema {
    let pods = object([
        ("metadata", metadata().description("Labels and annotations that the pods get.")),
        ("spec", pod().description("Changes to the spec of the pods.")),
    ]);
    let spec = object([("template", pods.description("Changes to the pods."))]);
    let template = object([
        ("metadata", metadata().description("Labels and annotations that the Jobs get.")),
        ("spec", spec.description("Changes to the spec of the Jobs.")),
    ]);
    object([
        ("name!", name().description("The replicatedJob that is changed.")),
        ("template", template.description("Changes to its Jobs and their pods.")),
    ])
}

/// The pod fields that a patch may set. Containers and volumes are immutable once set; scheduling fields are not.
fn pod() -> FieldSchema {
    let containers = || fixed(map_list("name", container()).max_items(CONTAINERS_MAX));
    let volumes = fixed(map_list("name", core("Volume")).max_items(VOLUMES_MAX));
    let secrets = fixed(map_list("name", core("LocalObjectReference")).max_items(SECRETS_MAX));
    let tolerations = atomic_list(core("Toleration")).max_items(TOLERATIONS_MAX);
    let gates = map_list("name", core("PodSchedulingGate")).max_items(GATES_MAX);
    object([
        (
            "serviceAccountName",
            fixed(string().max_length(NAME_MAX)).description("The ServiceAccount of the pods."),
        ),
        ("volumes", volumes.description("Volumes that the pods get.")),
        ("initContainers", containers().description("Changes to init containers, by name.")),
        ("containers", containers().description("Changes to containers, by name.")),
        ("imagePullSecrets", secrets.description("Secrets with the credentials of image registries.")),
        ("securityContext", fixed(core("PodSecurityContext")).description("Security settings of the pods.")),
        (
            "terminationGracePeriodSeconds",
            fixed(int64().min(0)).description("Seconds that containers have to end after SIGTERM."),
        ),
        ("nodeSelector", string_map().description("Labels that the nodes of the pods must have.")),
        ("affinity", core("Affinity").description("Affinity of the pods to nodes and to other pods.")),
        ("tolerations", tolerations.description("Taints of nodes that the pods tolerate.")),
        ("schedulingGates", gates.description("Gates that hold the pods back from scheduling.")),
    ])
}

fn container() -> FieldSchema {
    let mounts = map_list("name", core("VolumeMount")).max_items(VOLUMES_MAX);
    object([
        ("name!", name().description("The container that is changed.")),
        ("env", env().description("Environment variables that it gets.")),
        ("volumeMounts", mounts.description("Volumes that it mounts.")),
        ("securityContext", core("SecurityContext").description("Its security settings.")),
    ])
}
