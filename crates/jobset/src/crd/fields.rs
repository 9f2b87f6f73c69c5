//! The fields of the JobSet CRD.

use muster_api::crd_schema::{
    FieldSchema, atomic_list, boolean, condition, enumeration, int32, int64, integer, kubernetes, list,
    map_list, object, string, string_map,
};
use muster_tree::tree;

/// Maximum of claim policies, and of templates per policy.
const VOLUMES_MAX: i64 = 50;
/// Maximum of claim templates per replicatedJob.
const CLAIMS_MAX: i64 = 16;
/// Maximum of containers per claim template.
const CONTAINERS_MAX: i64 = 64;
/// Maximum of dependencies per replicatedJob.
const DEPENDENCIES_MAX: i64 = 5;
/// Maximum of Jobs with individual restart counts.
const COUNTED_MAX: i64 = 1024;

const EXCLUSIVE_ORDERS: &str = "!has(self.startupPolicy) || self.startupPolicy.startupPolicyOrder != 'InOrder' || \
     !has(self.replicatedJobs) || !self.replicatedJobs.exists(job, has(job.dependsOn))";
const NO_NAMESPACE: &str = "!has(self.templates) || self.templates.all(claim, \
     !has(claim.metadata) || !has(claim.metadata.namespace) || claim.metadata.namespace == '')";

pub(super) fn root() -> FieldSchema {
    object([
        ("apiVersion", string().description("The group and version of this object.")),
        ("kind", string().description("The kind of this object: JobSet.")),
        ("metadata", object([])),
        ("spec", spec().description("What the JobSet is to run, and what its ends and failures mean.")),
        ("status", status().description("How the JobSet fares; written by its controller.")),
    ])
    .description("A JobSet is a set of Jobs that start, fail, restart and end as one.")
}

pub(super) fn spec() -> FieldSchema {
    let order = enumeration(&["AnyOrder", "InOrder"]).description(
        "InOrder starts each replicatedJob when the one before it is ready; AnyOrder starts all at once.",
    );
    let coordinator = object([
        ("replicatedJob!", string().description("The replicatedJob that the coordinator belongs to.")),
        ("jobIndex", integer().description("Which of its Jobs; the first by default.")),
        ("podIndex", integer().description("Which pod of that Job; the first by default.")),
    ]);
    object([
        (
            "replicatedJobs",
            map_list("name", replicated_job())
                .description("Templates of Jobs, each with the number of Jobs to create."),
        ),
        ("network", network().immutable().description("Host names of the pods.")),
        (
            "successPolicy",
            success().immutable().description("When the JobSet is complete: with all Jobs by default."),
        ),
        (
            "failurePolicy",
            failure()
                .immutable()
                .description("What a failed Job means; without it the first one fails the JobSet."),
        ),
        (
            "startupPolicy",
            object([("startupPolicyOrder!", order)])
                .immutable()
                .description("In which order replicatedJobs start. dependsOn says the same more exactly."),
        ),
        (
            "suspend",
            boolean().description("Whether Jobs are held: true suspends all of them, false lets them run."),
        ),
        (
            "coordinator",
            coordinator
                .description("The pod whose host name every Job and pod carries as a label and annotation."),
        ),
        ("managedBy", string().description("The controller in charge; left out, it is the one of this API.")),
        (
            "ttlSecondsAfterFinished",
            int32()
                .min(0)
                .description("Seconds after its end until the JobSet is deleted; left out, it is kept."),
        ),
        (
            "volumeClaimPolicies",
            atomic_list(volume_policy()).max_items(VOLUMES_MAX).immutable().description(
                "PersistentVolumeClaims that are created for the JobSet and shared by all its Jobs.",
            ),
        ),
    ])
    .rule(EXCLUSIVE_ORDERS, "StartupPolicy and DependsOn APIs are mutually exclusive")
}

fn replicated_job() -> FieldSchema {
    object([
        ("name!", string().description("Its name, which is a part of the names of its Jobs.")),
        ("groupName", string().default("default").description("The group whose Jobs are numbered together.")),
        (
            "template!",
            kubernetes("io.k8s.api.batch.v1.JobTemplateSpec").description("What each Job is made of."),
        ),
        ("replicas", int32().min(0).default(1).description("How many Jobs are created of the template.")),
        (
            "dependsOn",
            map_list("name", dependency())
                .max_items(DEPENDENCIES_MAX)
                .immutable()
                .description("Earlier replicatedJobs that must be ready or complete before this one starts."),
        ),
        (
            "resourceClaimTemplates",
            atomic_list(claim_template())
                .max_items(CLAIMS_MAX)
                .description("ResourceClaims that each Job gets, shared by all pods of the Job."),
        ),
    ])
}

fn dependency() -> FieldSchema {
    object([
        ("name!", string().description("The replicatedJob to wait for.")),
        (
            "status!",
            enumeration(&["Ready", "Complete"])
                .description("Ready: all its Jobs run or have ended. Complete: all succeeded."),
        ),
    ])
}

fn network() -> FieldSchema {
    object([
        (
            "enableDNSHostnames",
            boolean().description("Whether pods have host names, by a headless Service; true by default."),
        ),
        (
            "subdomain",
            string().description(
                "The domain of the host names and the name of the Service; the JobSet's name by default.",
            ),
        ),
        (
            "publishNotReadyAddresses",
            boolean().description("Whether names resolve before pods are ready; true by default."),
        ),
    ])
}

fn success() -> FieldSchema {
    object([
        (
            "operator!",
            enumeration(&["All", "Any"]).description("Whether all Jobs must succeed, or one is enough."),
        ),
        (
            "targetReplicatedJobs",
            atomic_list(string()).description("The replicatedJobs that count; all when empty."),
        ),
    ])
}

fn failure() -> FieldSchema {
    let strategy = enumeration(&["Recreate", "BlockingRecreate", "InPlaceRestart"]);
    object([
        (
            "maxRestarts",
            int32().description("Restarts that count until the JobSet fails; 0 by default. Rules may restart without counting."),
        ),
        (
            "restartStrategy",
            strategy.default("Recreate").description(
                "Recreate makes each Job anew when it is gone, BlockingRecreate when all are gone; InPlaceRestart \
                 restarts containers where they are.",
            ),
        ),
        ("rules", list(failure_rule()).description("The first rule that matches a failed Job says what happens.")),
    ])
}

fn failure_rule() -> FieldSchema {
    let actions = [
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ];
    object([
        ("name!", string().description("Its name, which is a part of the reason of the restart.")),
        ("action!", enumeration(&actions).description("What happens when the rule matches.")),
        (
            "onJobFailureReasons",
            list(string()).description("Reasons of the Job's Failed condition that match; any when empty."),
        ),
        (
            "onJobFailureMessagePatterns",
            list(string())
                .description("Regular expressions (RE2) for the message of that condition; any when empty."),
        ),
        (
            "targetReplicatedJobs",
            atomic_list(string()).description("The replicatedJobs whose Jobs match; all when empty."),
        ),
    ])
}

fn volume_policy() -> FieldSchema {
    let claim = kubernetes("io.k8s.api.core.v1.PersistentVolumeClaim");
    let when = enumeration(&["Delete", "Retain"]).default("Delete").description(
        "Delete: the claims go with the JobSet. Retain: they stay, and serve the next JobSet of the name.",
    );
    let retention = object([("whenDeleted", when)]).default(tree!({"whenDeleted": "Delete"}));
    object([
        (
            "templates",
            atomic_list(claim).max_items(VOLUMES_MAX).description(
                "Claims to create, called <template>-<jobset>. Jobs whose containers mount a volume of the template's \
                 name get it.",
            ),
        ),
        ("retentionPolicy", retention.description("What becomes of the claims.")),
    ])
    .rule(NO_NAMESPACE, "namespace cannot be set for VolumeClaimPolicies templates")
}

/// Fields that must not be set are here too: what a schema does not know is dropped before admission can refuse it.
fn claim_template() -> FieldSchema {
    let metadata = object([
        (
            "name!",
            string().description(
                "Its name, and that of the claim in the pod; the claim is called <job>-<template>.",
            ),
        ),
        ("generateName", string().description("Must be unset.")),
        ("namespace", string().description("Must be unset.")),
        ("labels", string_map().description("Labels of the claim.")),
        ("annotations", string_map().description("Annotations of the claim.")),
    ]);
    let below = object([
        ("name", string().description("Must be unset.")),
        ("labels", string_map().description("Labels of the claim, over those of metadata.")),
        ("annotations", string_map().description("Annotations of the claim, over those of metadata.")),
    ]);
    let asked = "The requested devices; in spec.devices or in spec.spec.devices, not in both.";
    let long = object([("devices", devices().description(asked))]);
    let spec = object([
        ("metadata", below.description("Labels and annotations, as in a ResourceClaimTemplate.")),
        ("spec", long.description("The claim, as in a ResourceClaimTemplate.")),
        ("devices", devices().description(asked)),
    ]);
    let policy = enumeration(&["OnJobCompletion", "OnJobDeletion"])
        .default("OnJobCompletion")
        .description("When the claim is deleted: when its Job ends, or with the Job.");
    object([
        ("metadata!", metadata.description("Name, labels and annotations.")),
        ("spec!", spec.description("The requests of the claim.")),
        (
            "containers",
            atomic_list(string()).max_items(CONTAINERS_MAX).description(
                "Containers and init containers that get the claim; \"*\" means all. Left out, the pod has the claim and no \
                 container names it.",
            ),
        ),
        ("deletionPolicy", policy),
    ])
}

/// A device claim with requests in today's form or in the flat one of earlier versions.
fn devices() -> FieldSchema {
    let v1 = |name: &str| kubernetes(&format!("io.k8s.api.resource.v1.{name}"));
    let request = object([
        ("name!", string().description("The name of the request.")),
        ("exactly", v1("ExactDeviceRequest").description("Devices of one kind.")),
        ("firstAvailable", atomic_list(v1("DeviceSubRequest")).description("Alternatives, the best first.")),
        ("deviceClassName", string().description("The DeviceClass; the flat form of exactly.")),
        (
            "selectors",
            atomic_list(v1("DeviceSelector")).description("Further conditions on a device; flat form."),
        ),
        ("allocationMode", string().description("ExactCount or All; flat form.")),
        ("count", int64().description("How many devices; flat form.")),
        ("adminAccess", boolean().description("Whether devices in use may be had, too; flat form.")),
        (
            "tolerations",
            atomic_list(v1("DeviceToleration")).description("Taints of devices that do no harm; flat form."),
        ),
        ("capacity", v1("CapacityRequirements").description("How much of a device; flat form.")),
    ]);
    object([
        ("requests", atomic_list(request).description("The request.")),
        (
            "constraints",
            atomic_list(v1("DeviceConstraint")).description("What the devices must have in common."),
        ),
        ("config", atomic_list(v1("DeviceClaimConfiguration")).description("Settings for the drivers.")),
    ])
}

fn status() -> FieldSchema {
    let jobs = map_list("name", replicated_status());
    object([
        (
            "conditions",
            map_list("type", condition()).description(
                "Completed, Failed, Suspended, RestartingJobSet, StartupPolicyInProgress, StartupPolicyCompleted, and \
                 Stalled, which says why the JobSet makes no progress.",
            ),
        ),
        ("restarts", int32().description("How often the whole JobSet was restarted.")),
        ("restartsCountTowardsMax", int32().description("How many of these count towards maxRestarts.")),
        ("terminalState", string().description("Completed or Failed once the JobSet has ended.")),
        ("replicatedJobsStatus", jobs.description("How the Jobs of each replicatedJob fare.")),
        (
            "previousInPlaceRestartAttempt",
            int32().min(0).description("The last attempt in place that is over: pods in it restart."),
        ),
        (
            "currentInPlaceRestartAttempt",
            int32().min(0).description("The attempt in place that all pods have reached."),
        ),
    ])
}

fn replicated_status() -> FieldSchema {
    let counts = || atomic_list(int32()).max_items(COUNTED_MAX);
    object([
        ("name!", string().description("The replicatedJob.")),
        ("ready!", int32().description("Jobs whose pods are all ready or succeeded.")),
        ("succeeded!", int32().description("Jobs that succeeded.")),
        ("failed!", int32().description("Jobs that failed.")),
        ("active!", int32().description("Jobs with pods that run or are pending.")),
        ("suspended!", int32().description("Jobs that are suspended.")),
        ("jobRestarts", counts().description("Restarts of each Job alone, by its index.")),
        ("jobRestartsCountTowardsMax", counts().description("How many of these count towards maxRestarts.")),
    ])
}
