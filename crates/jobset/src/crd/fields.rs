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
        ("apiVersion", text().about("The group and version of this object.")),
        ("kind", text().about("The kind of this object: JobSet.")),
        ("metadata", object([])),
        ("spec", spec().about("What the JobSet is to run, and what its ends and failures mean.")),
        ("status", status().about("How the JobSet fares; written by its controller.")),
    ])
    .about("A JobSet is a set of Jobs that start, fail, restart and end as one.")
}

pub(super) fn spec() -> Part {
    let order = word(&["AnyOrder", "InOrder"]).about(
        "InOrder starts each replicatedJob when the one before it is ready; AnyOrder starts all at once.",
    );
    let coordinator = object([
        ("replicatedJob!", text().about("The replicatedJob that the coordinator belongs to.")),
        ("jobIndex", int().about("Which of its Jobs; the first by default.")),
        ("podIndex", int().about("Which pod of that Job; the first by default.")),
    ]);
    object([
        (
            "replicatedJobs",
            keyed("name", replicated_job())
                .about("Templates of Jobs, each with the number of Jobs to create."),
        ),
        ("network", network().immutable().about("Host names of the pods.")),
        (
            "successPolicy",
            success().immutable().about("When the JobSet is complete: with all Jobs by default."),
        ),
        (
            "failurePolicy",
            failure()
                .immutable()
                .about("What a failed Job means; without it the first one fails the JobSet."),
        ),
        (
            "startupPolicy",
            object([("startupPolicyOrder!", order)])
                .immutable()
                .about("In which order replicatedJobs start. dependsOn says the same more exactly."),
        ),
        ("suspend", truth().about("Whether Jobs are held: true suspends all of them, false lets them run.")),
        (
            "coordinator",
            coordinator.about("The pod whose host name every Job and pod carries as a label and annotation."),
        ),
        ("managedBy", text().about("The controller in charge; left out, it is the one of this API.")),
        (
            "ttlSecondsAfterFinished",
            int32().min(0).about("Seconds after its end until the JobSet is deleted; left out, it is kept."),
        ),
        (
            "volumeClaimPolicies",
            atoms(volume_policy())
                .max_items(VOLUMES_MAX)
                .immutable()
                .about("PersistentVolumeClaims that are created for the JobSet and shared by all its Jobs."),
        ),
    ])
    .rule(EXCLUSIVE_ORDERS, "StartupPolicy and DependsOn APIs are mutually exclusive")
}

fn replicated_job() -> Part {
    object([
        ("name!", text().about("Its name, which is a part of the names of its Jobs.")),
        ("groupName", text().default("default").about("The group whose Jobs are numbered together.")),
        ("template!", kubernetes("io.k8s.api.batch.v1.JobTemplateSpec").about("What each Job is made of.")),
        ("replicas", int32().min(0).default(1).about("How many Jobs are created of the template.")),
        (
            "dependsOn",
            keyed("name", dependency())
                .max_items(DEPENDENCIES_MAX)
                .immutable()
                .about("Earlier replicatedJobs that must be ready or complete before this one starts."),
        ),
        (
            "resourceClaimTemplates",
            atoms(claim_template())
                .max_items(CLAIMS_MAX)
                .about("ResourceClaims that each Job gets, shared by all pods of the Job."),
        ),
    ])
}

fn dependency() -> Part {
    object([
        ("name!", text().about("The replicatedJob to wait for.")),
        (
            "status!",
            word(&["Ready", "Complete"])
                .about("Ready: all its Jobs run or have ended. Complete: all succeeded."),
        ),
    ])
}

fn network() -> Part {
    object([
        (
            "enableDNSHostnames",
            truth().about("Whether pods have host names, by a headless Service; true by default."),
        ),
        (
            "subdomain",
            text().about(
                "The domain of the host names and the name of the Service; the JobSet's name by default.",
            ),
        ),
        (
            "publishNotReadyAddresses",
            truth().about("Whether names resolve before pods are ready; true by default."),
        ),
    ])
}

fn success() -> Part {
    object([
        ("operator!", word(&["All", "Any"]).about("Whether all Jobs must succeed, or one is enough.")),
        ("targetReplicatedJobs", atoms(text()).about("The replicatedJobs that count; all when empty.")),
    ])
}

fn failure() -> Part {
    let strategy = word(&["Recreate", "BlockingRecreate", "InPlaceRestart"]);
    object([
        (
            "maxRestarts",
            int32().about("Restarts that count until the JobSet fails; 0 by default. Rules may restart without counting."),
        ),
        (
            "restartStrategy",
            strategy.default("Recreate").about(
                "Recreate makes each Job anew when it is gone, BlockingRecreate when all are gone; InPlaceRestart \
                 restarts containers where they are.",
            ),
        ),
        ("rules", list(failure_rule()).about("The first rule that matches a failed Job says what happens.")),
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
        ("name!", text().about("Its name, which is a part of the reason of the restart.")),
        ("action!", word(&actions).about("What happens when the rule matches.")),
        (
            "onJobFailureReasons",
            list(text()).about("Reasons of the Job's Failed condition that match; any when empty."),
        ),
        (
            "onJobFailureMessagePatterns",
            list(text())
                .about("Regular expressions (RE2) for the message of that condition; any when empty."),
        ),
        ("targetReplicatedJobs", atoms(text()).about("The replicatedJobs whose Jobs match; all when empty.")),
    ])
}

fn volume_policy() -> Part {
    let claim = kubernetes("io.k8s.api.core.v1.PersistentVolumeClaim");
    let when = word(&["Delete", "Retain"]).default("Delete").about(
        "Delete: the claims go with the JobSet. Retain: they stay, and serve the next JobSet of the name.",
    );
    let retention = object([("whenDeleted", when)]).default(tree!({"whenDeleted": "Delete"}));
    object([
        (
            "templates",
            atoms(claim).max_items(VOLUMES_MAX).about(
                "Claims to create, called <template>-<jobset>. Jobs whose containers mount a volume of the template's \
                 name get it.",
            ),
        ),
        ("retentionPolicy", retention.about("What becomes of the claims.")),
    ])
    .rule(NO_NAMESPACE, "namespace cannot be set for VolumeClaimPolicies templates")
}

/// Fields that must not be set are here too: what a schema does not know is dropped before admission can refuse it.
fn claim_template() -> Part {
    let metadata = object([
        (
            "name!",
            text().about("Its name, and that of the claim in the pod; the claim is called <job>-<template>."),
        ),
        ("generateName", text().about("Must be unset.")),
        ("namespace", text().about("Must be unset.")),
        ("labels", labels().about("Labels of the claim.")),
        ("annotations", labels().about("Annotations of the claim.")),
    ]);
    let below = object([
        ("name", text().about("Must be unset.")),
        ("labels", labels().about("Labels of the claim, over those of metadata.")),
        ("annotations", labels().about("Annotations of the claim, over those of metadata.")),
    ]);
    let asked = "The devices that are asked for; in spec.devices or in spec.spec.devices, not in both.";
    let long = object([("devices", devices().about(asked))]);
    let spec = object([
        ("metadata", below.about("Labels and annotations, as in a ResourceClaimTemplate.")),
        ("spec", long.about("The claim, as in a ResourceClaimTemplate.")),
        ("devices", devices().about(asked)),
    ]);
    let policy = word(&["OnJobCompletion", "OnJobDeletion"])
        .default("OnJobCompletion")
        .about("When the claim is deleted: when its Job ends, or with the Job.");
    object([
        ("metadata!", metadata.about("Name, labels and annotations.")),
        ("spec!", spec.about("What the claim asks for.")),
        (
            "containers",
            atoms(text()).max_items(CONTAINERS_MAX).about(
                "Containers and init containers that get the claim; \"*\" means all. Left out, the pod has the claim and no \
                 container names it.",
            ),
        ),
        ("deletionPolicy", policy),
    ])
}

/// A device claim with requests in today's form or in the flat one of earlier versions.
fn devices() -> Part {
    let v1 = |name: &str| kubernetes(&format!("io.k8s.api.resource.v1.{name}"));
    let request = object([
        ("name!", text().about("The name of the request.")),
        ("exactly", v1("ExactDeviceRequest").about("Devices of one kind.")),
        ("firstAvailable", atoms(v1("DeviceSubRequest")).about("Alternatives, the best first.")),
        ("deviceClassName", text().about("The DeviceClass; the flat form of exactly.")),
        ("selectors", atoms(v1("DeviceSelector")).about("Further conditions on a device; flat form.")),
        ("allocationMode", text().about("ExactCount or All; flat form.")),
        ("count", int64().about("How many devices; flat form.")),
        ("adminAccess", truth().about("Whether devices in use may be had, too; flat form.")),
        ("tolerations", atoms(v1("DeviceToleration")).about("Taints of devices that do no harm; flat form.")),
        ("capacity", v1("CapacityRequirements").about("How much of a device; flat form.")),
    ]);
    object([
        ("requests", atoms(request).about("What is asked for.")),
        ("constraints", atoms(v1("DeviceConstraint")).about("What the devices must have in common.")),
        ("config", atoms(v1("DeviceClaimConfiguration")).about("Settings for the drivers.")),
    ])
}

fn status() -> Part {
    let jobs = keyed("name", replicated_status());
    object([
        (
            "conditions",
            keyed("type", condition()).about(
                "Completed, Failed, Suspended, RestartingJobSet, StartupPolicyInProgress, StartupPolicyCompleted, and \
                 Stalled, which says why the JobSet makes no progress.",
            ),
        ),
        ("restarts", int32().about("How often the whole JobSet was restarted.")),
        ("restartsCountTowardsMax", int32().about("How many of these count towards maxRestarts.")),
        ("terminalState", text().about("Completed or Failed once the JobSet has ended.")),
        ("replicatedJobsStatus", jobs.about("How the Jobs of each replicatedJob fare.")),
        (
            "previousInPlaceRestartAttempt",
            int32().min(0).about("The last attempt in place that is over: pods in it restart."),
        ),
        (
            "currentInPlaceRestartAttempt",
            int32().min(0).about("The attempt in place that all pods have reached."),
        ),
    ])
}

fn replicated_status() -> Part {
    let counts = || atoms(int32()).max_items(COUNTED_MAX);
    object([
        ("name!", text().about("The replicatedJob.")),
        ("ready!", int32().about("Jobs whose pods are all ready or succeeded.")),
        ("succeeded!", int32().about("Jobs that succeeded.")),
        ("failed!", int32().about("Jobs that failed.")),
        ("active!", int32().about("Jobs with pods that run or are pending.")),
        ("suspended!", int32().about("Jobs that are suspended.")),
        ("jobRestarts", counts().about("Restarts of each Job alone, by its index.")),
        ("jobRestartsCountTowardsMax", counts().about("How many of these count towards maxRestarts.")),
    ])
}
