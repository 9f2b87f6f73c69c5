//! The hooks, one after the other.

use muster_api::kinds;
use muster_api::port::Kind;
use muster_api::queue::kinds as queues;
use muster_api::queue::words::{CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, WORKLOAD};
use muster_api::words::jobset as words;

use super::conditions::{self, Condition};
use super::{Hook, Say, Scope, Step};

const CREATE: &[&str] = &["CREATE"];
const WRITE: &[&str] = &["CREATE", "UPDATE"];

const MUTATE_JOBSET: &str = "/mutate-jobset-x-k8s-io-v1alpha2-jobset";
const VALIDATE_JOBSET: &str = "/validate-jobset-x-k8s-io-v1alpha2-jobset";
const MUTATE_POD: &str = "/mutate--v1-pod";
const VALIDATE_POD: &str = "/validate--v1-pod";

/// All of them that are always there.
pub static HOOKS: [Hook; 16] = [
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
    queued("/validate-batch-v1-job", "vjob.kb.io", Say::Refuse, &kinds::JOBS, "Job"),
    queued(MUTATE_JOBSET, "mjobset.kb.io", Say::Change, &kinds::JOBSETS, words::KIND),
    queued(VALIDATE_JOBSET, "vjobset.kb.io", Say::Refuse, &kinds::JOBSETS, words::KIND),
    queued(MUTATE_POD, "mpod.kb.io", Say::Change, &kinds::PODS, "Pod"),
    // Whoever is resized may not take more than was reserved.
    Hook { parts: &["resize"], ..queued(VALIDATE_POD, "vpod.kb.io", Say::Refuse, &kinds::PODS, "Pod") },
];

const fn of_queues(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Hook {
    Hook {
        step: Step::Queues,
        path,
        name,
        say: Say::Refuse,
        kind,
        word,
        operations: WRITE,
        parts: &[],
        scope: Scope::Cluster,
        conditions: &[],
    }
}

/// Something of queues that is kept for as long as it is in use.
const fn kept(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Hook {
    let hook = of_queues(path, name, kind, word);
    Hook { say: Say::Change, operations: CREATE, ..hook }
}

/// Something of queues that is judged.
const fn judged(path: &'static str, name: &'static str, kind: &'static Kind, word: &'static str) -> Hook {
    of_queues(path, name, kind, word)
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
    let hook = of_queues(path, name, kind, word);
    Hook { say, operations, scope: Scope::Tenants, conditions: KEYED, ..hook }
}
