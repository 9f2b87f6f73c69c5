//! Every field of a JobSet.

use muster_api::definition::{
    Part, atoms, condition, int, int32, int64, keyed, kubernetes, labels, list, object, text, truth, word,
};
use muster_tree::tree;

/// Claim policies, and templates in one of them.
const VOLUMES_MAX: i64 = 50;
/// Claim templates of a replicatedJob.
const CLAIMS_MAX: i64 = 16;
/// Containers that a claim template names.
const CONTAINERS_MAX: i64 = 64;
/// What a replicatedJob waits for.
const DEPENDENCIES_MAX: i64 = 5;
/// Jobs whose restarts are counted one by one.
const COUNTED_MAX: i64 = 1024;

const EXCLUSIVE_ORDERS: &str = "!has(self.startupPolicy) || self.startupPolicy.startupPolicyOrder != 'InOrder' || \
     !has(self.replicatedJobs) || !self.replicatedJobs.exists(job, has(job.dependsOn))";
const NO_NAMESPACE: &str = "!has(self.templates) || self.templates.all(claim, \
     !has(claim.metadata) || !has(claim.metadata.namespace) || claim.metadata.namespace == '')";

/// A JobSet.
pub(super) fn root() -> Part {
    object([
        ("apiVersion", text()),
        ("kind", text()),
        ("metadata", object([])),
        ("spec", spec()),
        ("status", status()),
    ])
}

pub(super) fn spec() -> Part {
    object([
        ("replicatedJobs", keyed("name", replicated_job())),
        ("network", network().immutable()),
        ("successPolicy", success().immutable()),
        ("failurePolicy", failure().immutable()),
        ("startupPolicy", object([("startupPolicyOrder!", word(&["AnyOrder", "InOrder"]))]).immutable()),
        ("suspend", truth()),
        ("coordinator", object([("replicatedJob!", text()), ("jobIndex", int()), ("podIndex", int())])),
        ("managedBy", text()),
        ("ttlSecondsAfterFinished", int32().min(0)),
        ("volumeClaimPolicies", atoms(volume_policy()).max_items(VOLUMES_MAX).immutable()),
    ])
    .rule(EXCLUSIVE_ORDERS, "StartupPolicy and DependsOn APIs are mutually exclusive")
}

fn replicated_job() -> Part {
    object([
        ("name!", text()),
        ("groupName", text().default("default")),
        ("template!", kubernetes("io.k8s.api.batch.v1.JobTemplateSpec")),
        ("replicas", int32().min(0).default(1)),
        ("dependsOn", keyed("name", dependency()).max_items(DEPENDENCIES_MAX).immutable()),
        ("resourceClaimTemplates", atoms(claim_template()).max_items(CLAIMS_MAX)),
    ])
}

fn dependency() -> Part {
    object([("name!", text()), ("status!", word(&["Ready", "Complete"]))])
}

fn network() -> Part {
    object([("enableDNSHostnames", truth()), ("subdomain", text()), ("publishNotReadyAddresses", truth())])
}

fn success() -> Part {
    object([("operator!", word(&["All", "Any"])), ("targetReplicatedJobs", atoms(text()))])
}

fn failure() -> Part {
    let strategy = word(&["Recreate", "BlockingRecreate", "InPlaceRestart"]);
    object([
        ("maxRestarts", int32()),
        ("restartStrategy", strategy.default("Recreate")),
        ("rules", list(failure_rule())),
    ])
}

fn failure_rule() -> Part {
    let actions = [
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ];
    object([
        ("name!", text()),
        ("action!", word(&actions)),
        ("onJobFailureReasons", list(text())),
        ("onJobFailureMessagePatterns", list(text())),
        ("targetReplicatedJobs", atoms(text())),
    ])
}

fn volume_policy() -> Part {
    let claim = kubernetes("io.k8s.api.core.v1.PersistentVolumeClaim");
    let when = word(&["Delete", "Retain"]).default("Delete");
    object([
        ("templates", atoms(claim).max_items(VOLUMES_MAX)),
        ("retentionPolicy", object([("whenDeleted", when)]).default(tree!({"whenDeleted": "Delete"}))),
    ])
    .rule(NO_NAMESPACE, "namespace cannot be set for VolumeClaimPolicies templates")
}

/// Fields that must not be set are here too: what a schema does not know is dropped before admission can refuse it.
fn claim_template() -> Part {
    let metadata = object([
        ("name!", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", labels()),
        ("annotations", labels()),
    ]);
    let below = object([("name", text()), ("labels", labels()), ("annotations", labels())]);
    let spec =
        object([("metadata", below), ("spec", object([("devices", devices())])), ("devices", devices())]);
    object([
        ("metadata!", metadata),
        ("spec!", spec),
        ("containers", atoms(text()).max_items(CONTAINERS_MAX)),
        ("deletionPolicy", word(&["OnJobCompletion", "OnJobDeletion"]).default("OnJobCompletion")),
    ])
}

/// A device claim with requests in today's form or in the flat one of earlier versions.
fn devices() -> Part {
    let v1 = |name: &str| kubernetes(&format!("io.k8s.api.resource.v1.{name}"));
    let request = object([
        ("name!", text()),
        ("exactly", v1("ExactDeviceRequest")),
        ("firstAvailable", atoms(v1("DeviceSubRequest"))),
        ("deviceClassName", text()),
        ("selectors", atoms(v1("DeviceSelector"))),
        ("allocationMode", text()),
        ("count", int64()),
        ("adminAccess", truth()),
        ("tolerations", atoms(v1("DeviceToleration"))),
        ("capacity", v1("CapacityRequirements")),
    ]);
    object([
        ("requests", atoms(request)),
        ("constraints", atoms(v1("DeviceConstraint"))),
        ("config", atoms(v1("DeviceClaimConfiguration"))),
    ])
}

fn status() -> Part {
    object([
        ("conditions", keyed("type", condition())),
        ("restarts", int32()),
        ("restartsCountTowardsMax", int32()),
        ("terminalState", text()),
        ("replicatedJobsStatus", keyed("name", replicated_status())),
        ("previousInPlaceRestartAttempt", int32().min(0)),
        ("currentInPlaceRestartAttempt", int32().min(0)),
    ])
}

fn replicated_status() -> Part {
    let counts = || atoms(int32()).max_items(COUNTED_MAX);
    object([
        ("name!", text()),
        ("ready!", int32()),
        ("succeeded!", int32()),
        ("failed!", int32()),
        ("active!", int32()),
        ("suspended!", int32()),
        ("jobRestarts", counts()),
        ("jobRestartsCountTowardsMax", counts()),
    ])
}
