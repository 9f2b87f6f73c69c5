//! The hooks, one after the other.

use muster_api::kinds;
use muster_api::port::Kind;
use muster_api::queue::kinds as queues;
use muster_api::queue::words::{CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, WORKLOAD};
use muster_api::train::kinds as training;
use muster_api::train::words::{CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME, labels};
use muster_api::words::jobset as words;

use super::conditions::{self, Condition};
use super::{Hook, Say, Scope, Step};

const CREATE: &[&str] = &["CREATE"];
const WRITE: &[&str] = &["CREATE", "UPDATE"];

const MUTATE_JOBSET: &str = "/mutate-jobset-x-k8s-io-v1alpha2-jobset";
const VALIDATE_JOBSET: &str = "/validate-jobset-x-k8s-io-v1alpha2-jobset";
const MUTATE_TRAIN_JOB: &str = "/mutate-trainer-kubeflow-org-v1alpha1-trainjob";
const VALIDATE_TRAIN_JOB: &str = "/validate-trainer-kubeflow-org-v1alpha1-trainjob";
const MUTATE_POD: &str = "/mutate--v1-pod";
const VALIDATE_POD: &str = "/validate--v1-pod";

/// All of them that are always there.
pub static HOOKS: [Hook; 22] = [
    Hook {
        step: Step::JobSets,
        path: MUTATE_JOBSET,
        name: "mjobset.kb.io",
        say: Say::Change,
        kind: &kinds::JOBSETS,
        word: words::KIND,
        // An apply replaces lists as a whole, and with them what was filled into their items.
        operations: WRITE,
        parts: &[],
        scope: Scope::Namespaces,
        spares: None,
        conditions: &[conditions::SPEC_CHANGES],
    },
    Hook {
        step: Step::JobSets,
        path: VALIDATE_JOBSET,
        name: "vjobset.kb.io",
        say: Say::Refuse,
        kind: &kinds::JOBSETS,
        word: words::KIND,
        operations: WRITE,
        parts: &[],
        scope: Scope::Namespaces,
        spares: None,
        conditions: &[conditions::SPEC_CHANGES],
    },
    Hook {
        step: Step::JobSets,
        path: MUTATE_POD,
        name: "mpod.kb.io",
        say: Say::Change,
        kind: &kinds::PODS,
        word: "Pod",
        operations: CREATE,
        parts: &[],
        scope: Scope::JobSets,
        spares: None,
        conditions: &[conditions::OF_A_JOBSET, conditions::PLACED_OR_RANKED],
    },
    Hook {
        step: Step::JobSets,
        path: VALIDATE_POD,
        name: "vpod.kb.io",
        say: Say::Refuse,
        kind: &kinds::PODS,
        word: "Pod",
        operations: CREATE,
        parts: &[],
        scope: Scope::JobSets,
        spares: None,
        conditions: &[conditions::OF_A_JOBSET, conditions::FOLLOWS],
    },
    kept(
        "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "mclusterqueue.kb.io",
        &queues::CLUSTER_QUEUES,
        CLUSTER_QUEUE,
    ),
    kept(
        "/mutate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "mresourceflavor.kb.io",
        &queues::RESOURCE_FLAVORS,
        RESOURCE_FLAVOR,
    ),
    judged(
        "/validate-kueue-x-k8s-io-v1beta2-clusterqueue",
        "vclusterqueue.kb.io",
        &queues::CLUSTER_QUEUES,
        CLUSTER_QUEUE,
    ),
    judged(
        "/validate-kueue-x-k8s-io-v1beta2-resourceflavor",
        "vresourceflavor.kb.io",
        &queues::RESOURCE_FLAVORS,
        RESOURCE_FLAVOR,
    ),
    judged("/validate-kueue-x-k8s-io-v1beta2-cohort", "vcohort.kb.io", &queues::COHORTS, COHORT),
    // Shares stand in the status.
    Hook {
        parts: &["status"],
        scope: Scope::Namespaces,
        ..judged("/validate-kueue-x-k8s-io-v1beta2-workload", "vworkload.kb.io", &queues::WORKLOADS, WORKLOAD)
    },
    queued("/mutate-batch-v1-job", "mjob.kb.io", Say::Change, &kinds::JOBS, "Job"),
    Hook {
        conditions: &[conditions::KEYED_OR_GROWS],
        ..queued("/validate-batch-v1-job", "vjob.kb.io", Say::Refuse, &kinds::JOBS, "Job")
    },
    queued(MUTATE_JOBSET, "mjobset.kb.io", Say::Change, &kinds::JOBSETS, words::KIND),
    queued(VALIDATE_JOBSET, "vjobset.kb.io", Say::Refuse, &kinds::JOBSETS, words::KIND),
    queued(MUTATE_TRAIN_JOB, "mtrainjob.kb.io", Say::Change, &training::TRAIN_JOBS, TRAIN_JOB),
    queued(VALIDATE_TRAIN_JOB, "vtrainjob.kb.io", Say::Refuse, &training::TRAIN_JOBS, TRAIN_JOB),
    queued(MUTATE_POD, "mpod.kb.io", Say::Change, &kinds::PODS, "Pod"),
    // Whoever is resized may not take more than was reserved.
    Hook { parts: &["resize"], ..queued(VALIDATE_POD, "vpod.kb.io", Say::Refuse, &kinds::PODS, "Pod") },
    Hook {
        say: Say::Change,
        conditions: &[conditions::STAYS, conditions::PATCHED],
        ..trained(
            MUTATE_TRAIN_JOB,
            "defaulter.trainjob.trainer.kubeflow.org",
            &training::TRAIN_JOBS,
            TRAIN_JOB,
        )
    },
    trained(VALIDATE_TRAIN_JOB, "validator.trainjob.trainer.kubeflow.org", &training::TRAIN_JOBS, TRAIN_JOB),
    runtime(
        "/validate-trainer-kubeflow-org-v1alpha1-trainingruntime",
        "validator.trainingruntime.trainer.kubeflow.org",
        &training::TRAINING_RUNTIMES,
        TRAINING_RUNTIME,
    ),
    Hook {
        scope: Scope::Cluster,
        ..runtime(
            "/validate-trainer-kubeflow-org-v1alpha1-clustertrainingruntime",
            "validator.clustertrainingruntime.trainer.kubeflow.org",
            &training::CLUSTER_TRAINING_RUNTIMES,
            CLUSTER_TRAINING_RUNTIME,
        )
    },
];

/// A hook that judges what is written, wherever it is.
const fn judges(
    step: Step,
    path: &'static str,
    name: &'static str,
    kind: &'static Kind,
    word: &'static str,
) -> Hook {
    Hook {
        step,
        path,
        name,
        say: Say::Refuse,
        kind,
        word,
        operations: WRITE,
        parts: &[],
        scope: Scope::Cluster,
        spares: None,
        conditions: &[],
    }
}

/// Something of queues that is kept for as long as it is in use.
const fn kept(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Hook {
    Hook { say: Say::Change, operations: CREATE, ..judged(path, name, kind, word) }
}

/// Something of queues that is judged.
const fn judged(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Hook {
    judges(Step::Queues, path, name, kind, word)
}

/// What is taken in when it is new and says where it waits, and may then not say otherwise.
const fn queued(
    path: &'static str,
    name: &'static str,
    say: Say,
    kind: &'static Kind,
    word: &'static str,
) -> Hook {
    const KEYED: &[Condition] = &[conditions::KEYED];
    let operations = match say {
        Say::Change => CREATE,
        Say::Refuse => WRITE,
    };
    Hook { say, operations, scope: Scope::Tenants, conditions: KEYED, ..judged(path, name, kind, word) }
}

/// A kind of training that is judged, unless it is going: its finalizers come off while we are away.
const fn trained(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Hook {
    const STAYS: &[Condition] = &[conditions::STAYS];
    let hook = judges(Step::Training, path, name, kind, word);
    Hook { scope: Scope::Namespaces, conditions: STAYS, ..hook }
}

/// A runtime, unless its label says that nobody wants to hear about it.
const fn runtime(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Hook {
    const JUDGED: &[Condition] = &[conditions::STAYS, conditions::JUDGED_CHANGES];
    let hook = trained(path, name, kind, word);
    Hook { spares: Some((labels::VALIDATION, labels::DISABLED)), conditions: JUDGED, ..hook }
}
