//! The table of webhooks.

use muster_api::client::Kind;
use muster_api::consts::jobset as words;
use muster_api::kinds;
use muster_api::queue::consts::{CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, WORKLOAD};
use muster_api::queue::kinds as queues;
use muster_api::train::consts::{CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME, labels};
use muster_api::train::kinds as training;

use super::match_conditions::{self, Condition};
use super::{AdmissionStep, Scope, Webhook, WebhookType};

const CREATE: &[&str] = &["CREATE"];
const WRITE: &[&str] = &["CREATE", "UPDATE"];

const MUTATE_JOBSET: &str = "/mutate-jobset-x-k8s-io-v1alpha2-jobset";
const VALIDATE_JOBSET: &str = "/validate-jobset-x-k8s-io-v1alpha2-jobset";
const MUTATE_TRAIN_JOB: &str = "/mutate-trainer-kubeflow-org-v1alpha1-trainjob";
const VALIDATE_TRAIN_JOB: &str = "/validate-trainer-kubeflow-org-v1alpha1-trainjob";
const MUTATE_POD: &str = "/mutate--v1-pod";
const VALIDATE_POD: &str = "/validate--v1-pod";

/// The webhooks that are always registered.
pub static WEBHOOKS: [Webhook; 22] = [
    Webhook {
        step: AdmissionStep::JobSets,
        path: MUTATE_JOBSET,
        name: "mjobset.kb.io",
        say: WebhookType::Mutating,
        kind: &kinds::JOBSETS,
        word: words::KIND,
        // Updates, too: an apply replaces atomic lists, and with them the defaults in their items.
        operations: WRITE,
        subresources: &[],
        scope: Scope::Namespaces,
        excluded_label: None,
        match_conditions: &[match_conditions::SPEC_CHANGED],
    },
    Webhook {
        step: AdmissionStep::JobSets,
        path: VALIDATE_JOBSET,
        name: "vjobset.kb.io",
        say: WebhookType::Validating,
        kind: &kinds::JOBSETS,
        word: words::KIND,
        operations: WRITE,
        subresources: &[],
        scope: Scope::Namespaces,
        excluded_label: None,
        match_conditions: &[match_conditions::SPEC_CHANGED],
    },
    Webhook {
        step: AdmissionStep::JobSets,
        path: MUTATE_POD,
        name: "mpod.kb.io",
        say: WebhookType::Mutating,
        kind: &kinds::PODS,
        word: "Pod",
        operations: CREATE,
        subresources: &[],
        scope: Scope::JobSets,
        excluded_label: None,
        match_conditions: &[match_conditions::OF_A_JOBSET, match_conditions::PLACED_OR_RANKED],
    },
    Webhook {
        step: AdmissionStep::JobSets,
        path: VALIDATE_POD,
        name: "vpod.kb.io",
        say: WebhookType::Validating,
        kind: &kinds::PODS,
        word: "Pod",
        operations: CREATE,
        subresources: &[],
        scope: Scope::JobSets,
        excluded_label: None,
        match_conditions: &[match_conditions::OF_A_JOBSET, match_conditions::FOLLOWS],
    },
    protected_queue_api(
        "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "mclusterqueue.kb.io",
        &queues::CLUSTER_QUEUES,
        CLUSTER_QUEUE,
    ),
    protected_queue_api(
        "/mutate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "mresourceflavor.kb.io",
        &queues::RESOURCE_FLAVORS,
        RESOURCE_FLAVOR,
    ),
    validated_queue_api(
        "/validate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "vclusterqueue.kb.io",
        &queues::CLUSTER_QUEUES,
        CLUSTER_QUEUE,
    ),
    validated_queue_api(
        "/validate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "vresourceflavor.kb.io",
        &queues::RESOURCE_FLAVORS,
        RESOURCE_FLAVOR,
    ),
    validated_queue_api("/validate-kueue-x-k8s-io-v1beta2-cohort", "vcohort.kb.io", &queues::COHORTS, COHORT),
    // The status, too: `status.admission` is the reserved quota.
    Webhook {
        subresources: &["status"],
        scope: Scope::Namespaces,
        ..validated_queue_api(
            "/validate-kueue-x-k8s-io-v1beta2-workload",
            "vworkload.kb.io",
            &queues::WORKLOADS,
            WORKLOAD,
        )
    },
    queued_job("/mutate-batch-v1-job", "mjob.kb.io", WebhookType::Mutating, &kinds::JOBS, "Job"),
    Webhook {
        match_conditions: &[match_conditions::IS_QUEUED_OR_GROWS],
        ..queued_job("/validate-batch-v1-job", "vjob.kb.io", WebhookType::Validating, &kinds::JOBS, "Job")
    },
    queued_job(MUTATE_JOBSET, "mjobset.kb.io", WebhookType::Mutating, &kinds::JOBSETS, words::KIND),
    queued_job(VALIDATE_JOBSET, "vjobset.kb.io", WebhookType::Validating, &kinds::JOBSETS, words::KIND),
    queued_job(MUTATE_TRAIN_JOB, "mtrainjob.kb.io", WebhookType::Mutating, &training::TRAIN_JOBS, TRAIN_JOB),
    queued_job(
        VALIDATE_TRAIN_JOB,
        "vtrainjob.kb.io",
        WebhookType::Validating,
        &training::TRAIN_JOBS,
        TRAIN_JOB,
    ),
    queued_job(MUTATE_POD, "mpod.kb.io", WebhookType::Mutating, &kinds::PODS, "Pod"),
    // An in-place resize must not exceed the reserved quota.
    Webhook {
        subresources: &["resize"],
        ..queued_job(VALIDATE_POD, "vpod.kb.io", WebhookType::Validating, &kinds::PODS, "Pod")
    },
    Webhook {
        say: WebhookType::Mutating,
        match_conditions: &[match_conditions::NOT_DELETED, match_conditions::PATCHED],
        ..training_api(
            MUTATE_TRAIN_JOB,
            "defaulter.trainjob.trainer.kubeflow.org",
            &training::TRAIN_JOBS,
            TRAIN_JOB,
        )
    },
    training_api(
        VALIDATE_TRAIN_JOB,
        "validator.trainjob.trainer.kubeflow.org",
        &training::TRAIN_JOBS,
        TRAIN_JOB,
    ),
    runtime(
        "/validate-trainer-kubeflow-org-v1alpha1-trainingruntime",
        "validator.trainingruntime.trainer.kubeflow.org",
        &training::TRAINING_RUNTIMES,
        TRAINING_RUNTIME,
    ),
    Webhook {
        scope: Scope::Cluster,
        ..runtime(
            "/validate-trainer-kubeflow-org-v1alpha1-clustertrainingruntime",
            "validator.clustertrainingruntime.trainer.kubeflow.org",
            &training::CLUSTER_TRAINING_RUNTIMES,
            CLUSTER_TRAINING_RUNTIME,
        )
    },
];

/// A validating webhook for creates and updates.
const fn validating(
    step: AdmissionStep,
    path: &'static str,
    name: &'static str,
    kind: &'static Kind,
    word: &'static str,
) -> Webhook {
    Webhook {
        step,
        path,
        name,
        say: WebhookType::Validating,
        kind,
        word,
        operations: WRITE,
        subresources: &[],
        scope: Scope::Cluster,
        excluded_label: None,
        match_conditions: &[],
    }
}

/// A queueing kind that gets a finalizer, which protects it while it is in use.
const fn protected_queue_api(
    path: &'static str,
    name: &'static str,
    kind: &'static Kind,
    word: &'static str,
) -> Webhook {
    Webhook { say: WebhookType::Mutating, operations: CREATE, ..validated_queue_api(path, name, kind, word) }
}

/// A queueing kind that is validated.
const fn validated_queue_api(
    path: &'static str,
    name: &'static str,
    kind: &'static Kind,
    word: &'static str,
) -> Webhook {
    validating(AdmissionStep::Queues, path, name, kind, word)
}

/// A kind that can be queued: gated or suspended on create, and its queue name is validated on update.
const fn queued_job(
    path: &'static str,
    name: &'static str,
    say: WebhookType,
    kind: &'static Kind,
    word: &'static str,
) -> Webhook {
    const KEYED: &[Condition] = &[match_conditions::IS_QUEUED];
    let operations = match say {
        WebhookType::Mutating => CREATE,
        WebhookType::Validating => WRITE,
    };
    Webhook {
        say,
        operations,
        scope: Scope::Tenants,
        match_conditions: KEYED,
        ..validated_queue_api(path, name, kind, word)
    }
}

/// A training kind that is validated, unless it is being deleted: its finalizers can be removed while the operator is
/// down.
const fn training_api(
    path: &'static str,
    name: &'static str,
    kind: &'static Kind,
    word: &'static str,
) -> Webhook {
    const STAYS: &[Condition] = &[match_conditions::NOT_DELETED];
    let hook = validating(AdmissionStep::Training, path, name, kind, word);
    Webhook { scope: Scope::Namespaces, match_conditions: STAYS, ..hook }
}

/// A runtime, unless its label disables validation.
const fn runtime(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Webhook {
    const JUDGED: &[Condition] = &[match_conditions::NOT_DELETED, match_conditions::VALIDATED_FIELDS_CHANGED];
    let hook = training_api(path, name, kind, word);
    Webhook { excluded_label: Some((labels::VALIDATION, labels::DISABLED)), match_conditions: JUDGED, ..hook }
}
