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
    let set = object([("replicatedJobs", keyed("name", job()).max_items(JOBS_MAX))]);
    let template = object([("metadata", metadata()), ("spec", set)]);
    object([
        ("manager!", fixed(name())),
        ("time", instant()),
        ("trainingRuntimeSpec", object([("template", template)])),
    ])
}

fn job() -> Part {
    let pods = object([("metadata", metadata()), ("spec", pod())]);
    let spec = object([("template", pods)]);
    object([("name!", name()), ("template", object([("metadata", metadata()), ("spec", spec)]))])
}

/// What may change of pods: what they are once, where they go at any time.
fn pod() -> Part {
    let containers = || fixed(keyed("name", container()).max_items(CONTAINERS_MAX));
    object([
        ("serviceAccountName", fixed(text().max_length(NAME_MAX))),
        ("volumes", fixed(keyed("name", core("Volume")).max_items(VOLUMES_MAX))),
        ("initContainers", containers()),
        ("containers", containers()),
        ("imagePullSecrets", fixed(keyed("name", core("LocalObjectReference")).max_items(SECRETS_MAX))),
        ("securityContext", fixed(core("PodSecurityContext"))),
        ("terminationGracePeriodSeconds", fixed(int64().min(0))),
        ("nodeSelector", labels()),
        ("affinity", core("Affinity")),
        ("tolerations", atoms(core("Toleration")).max_items(TOLERATIONS_MAX)),
        ("schedulingGates", keyed("name", core("PodSchedulingGate")).max_items(GATES_MAX)),
    ])
}

fn container() -> Part {
    object([
        ("name!", name()),
        ("env", env()),
        ("volumeMounts", keyed("name", core("VolumeMount")).max_items(VOLUMES_MAX)),
        ("securityContext", core("SecurityContext")),
    ])
}
