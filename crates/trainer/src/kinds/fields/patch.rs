//! Fields of what others change of a runtime.

use muster_api::definition::{Part, atoms, instant, int64, keyed, labels, object, text};

use super::{NAME_MAX, core, env, fixed, metadata, name};

const JOBS_MAX: i64 = 100;
const CONTAINERS_MAX: i64 = 64;
const SECRETS_MAX: i64 = 64;
const VOLUMES_MAX: i64 = 128;
const TOLERATIONS_MAX: i64 = 128;
const GATES_MAX: i64 = 16;

/// What one manager changes.
pub(super) fn patch() -> Part {
    let jobs = keyed("name", job()).max_items(JOBS_MAX).about("Changes to replicatedJobs, by name.");
    let template = object([
        ("metadata", metadata().about("Labels and annotations that the JobSet gets.")),
        ("spec", object([("replicatedJobs", jobs)]).about("Changes to the spec of the JobSet.")),
    ]);
    object([
        ("manager!", fixed(name()).about("Who wants the change, as a domain and a path.")),
        ("time", instant().about("When the change was made.")),
        (
            "trainingRuntimeSpec",
            object([("template", template.about("Changes to the JobSet of the runtime."))])
                .about("Changes to the spec of the runtime."),
        ),
    ])
}

fn job() -> Part {
    let pods = object([
        ("metadata", metadata().about("Labels and annotations that the pods get.")),
        ("spec", pod().about("Changes to the spec of the pods.")),
    ]);
    let spec = object([("template", pods.about("Changes to the pods."))]);
    let template = object([
        ("metadata", metadata().about("Labels and annotations that the Jobs get.")),
        ("spec", spec.about("Changes to the spec of the Jobs.")),
    ]);
    object([
        ("name!", name().about("The replicatedJob that is changed.")),
        ("template", template.about("Changes to its Jobs and their pods.")),
    ])
}

/// What may change of pods: what they are once, where they go at any time.
fn pod() -> Part {
    let containers = || fixed(keyed("name", container()).max_items(CONTAINERS_MAX));
    let volumes = fixed(keyed("name", core("Volume")).max_items(VOLUMES_MAX));
    let secrets = fixed(keyed("name", core("LocalObjectReference")).max_items(SECRETS_MAX));
    let tolerations = atoms(core("Toleration")).max_items(TOLERATIONS_MAX);
    let gates = keyed("name", core("PodSchedulingGate")).max_items(GATES_MAX);
    object([
        ("serviceAccountName", fixed(text().max_length(NAME_MAX)).about("The ServiceAccount of the pods.")),
        ("volumes", volumes.about("Volumes that the pods get.")),
        ("initContainers", containers().about("Changes to init containers, by name.")),
        ("containers", containers().about("Changes to containers, by name.")),
        ("imagePullSecrets", secrets.about("Secrets with the credentials of image registries.")),
        ("securityContext", fixed(core("PodSecurityContext")).about("Security settings of the pods.")),
        (
            "terminationGracePeriodSeconds",
            fixed(int64().min(0)).about("Seconds that containers have to end after SIGTERM."),
        ),
        ("nodeSelector", labels().about("Labels that the nodes of the pods must have.")),
        ("affinity", core("Affinity").about("Affinity of the pods to nodes and to other pods.")),
        ("tolerations", tolerations.about("Taints of nodes that the pods tolerate.")),
        ("schedulingGates", gates.about("Gates that hold the pods back from scheduling.")),
    ])
}

fn container() -> Part {
    let mounts = keyed("name", core("VolumeMount")).max_items(VOLUMES_MAX);
    object([
        ("name!", name().about("The container that is changed.")),
        ("env", env().about("Environment variables that it gets.")),
        ("volumeMounts", mounts.about("Volumes that it mounts.")),
        ("securityContext", core("SecurityContext").about("Its security settings.")),
    ])
}
