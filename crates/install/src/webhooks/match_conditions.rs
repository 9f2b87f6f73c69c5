//! The match conditions of webhooks, in CEL: the requests that a webhook could mutate or reject.
//!
//! With `failurePolicy: Fail` an evaluation error rejects the request, so each expression tests with `has` what it reads.

use muster_tree::{Tree, tree};

pub(super) struct Condition {
    name: &'static str,
    /// The lines of the expression, joined by spaces.
    pub(super) expression: &'static [&'static str],
}

impl Condition {
    pub(super) fn tree(&self) -> Tree {
        tree!({"name": self.name, "expression": self.expression.join(" ")})
    }
}

/// A create, or an update of the spec: only the spec is defaulted and validated. Labels, owner references and finalizers
/// can be updated while the operator is down.
pub(super) const SPEC_CHANGED: Condition = Condition {
    name: "spec-changes",
    expression: &[
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) ||",
        "object.spec != oldObject.spec",
    ],
};

/// The object is not being deleted: an unavailable webhook must not block the removal of finalizers.
pub(super) const NOT_DELETED: Condition =
    Condition { name: "stays", expression: &["!has(object.metadata.deletionTimestamp)"] };

/// A TrainJob with runtime patches: their timestamp is the only field that is defaulted.
pub(super) const PATCHED: Condition = Condition {
    name: "patched",
    expression: &[
        "has(object.spec) && has(object.spec.runtimePatches) && object.spec.runtimePatches.size() > 0",
    ],
};

/// A create, or an update of spec or labels: only those are validated. Finalizers can be removed, and an unchanged
/// runtime applied again, while the operator is down.
pub(super) const VALIDATED_FIELDS_CHANGED: Condition = Condition {
    name: "judged-changes",
    expression: &[
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) ||",
        "object.spec != oldObject.spec || has(object.metadata.labels) != has(oldObject.metadata.labels) ||",
        "(has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)",
    ],
};

/// A pod of a JobSet without the node selector strategy, for which nodes are labelled in advance.
pub(super) const OF_A_JOBSET: Condition = Condition {
    name: "of-a-jobset",
    expression: &[
        "has(object.metadata.annotations) &&",
        "'jobset.sigs.k8s.io/jobset-name' in object.metadata.annotations &&",
        "!('alpha.jobset.sigs.k8s.io/node-selector' in object.metadata.annotations)",
    ],
};

/// A pod with exclusive placement, or with a priority that its label does not have yet. A negative number is not a valid
/// label value.
pub(super) const PLACED_OR_RANKED: Condition = Condition {
    name: "placed-or-ranked",
    expression: &[
        "'alpha.jobset.sigs.k8s.io/exclusive-topology' in object.metadata.annotations ||",
        "(has(object.spec.priority) && object.spec.priority >= 0 &&",
        "!(has(object.metadata.labels) && 'jobset.sigs.k8s.io/priority' in object.metadata.labels &&",
        "object.metadata.labels['jobset.sigs.k8s.io/priority'] == string(object.spec.priority)))",
    ],
};

/// A pod with exclusive placement that is not the first of its Job: it is placed in the topology domain of that pod.
pub(super) const FOLLOWS: Condition = Condition {
    name: "follows",
    expression: &[
        "'alpha.jobset.sigs.k8s.io/exclusive-topology' in object.metadata.annotations &&",
        "!('batch.kubernetes.io/job-completion-index' in object.metadata.annotations &&",
        "object.metadata.annotations['batch.kubernetes.io/job-completion-index'] == '0')",
    ],
};

/// The old or new object has a label, annotation or finalizer of queues. Other objects are not queued.
pub(super) const IS_QUEUED: Condition =
    Condition { name: "has-to-do-with-queues", expression: HAS_QUEUE_KEYS };

/// The same, or a Job of a JobSet raises its parallelism or changes its pods: the quota of a queued JobSet is that of the
/// old ones.
pub(super) const IS_QUEUED_OR_GROWS: Condition = Condition {
    name: "has-to-do-with-queues",
    expression: &[
        HAS_QUEUE_KEYS[0],
        HAS_QUEUE_KEYS[1],
        HAS_QUEUE_KEYS[2],
        HAS_QUEUE_KEYS[3],
        HAS_QUEUE_KEYS[4],
        HAS_QUEUE_KEYS[5],
        "|| (oldObject != null && has(object.metadata.ownerReferences) &&",
        "object.metadata.ownerReferences.exists(it, it.kind == 'JobSet' && has(it.controller) && it.controller) &&",
        "((has(object.spec.parallelism) ? object.spec.parallelism : 1) >",
        "(has(oldObject.spec.parallelism) ? oldObject.spec.parallelism : 1) ||",
        "object.spec.template.spec.containers != oldObject.spec.template.spec.containers ||",
        "(has(object.spec.template.spec.initContainers) ? object.spec.template.spec.initContainers : []) !=",
        "(has(oldObject.spec.template.spec.initContainers) ? oldObject.spec.template.spec.initContainers : []) ||",
        "(has(object.spec.template.spec.resources) ? object.spec.template.spec.resources : {}) !=",
        "(has(oldObject.spec.template.spec.resources) ? oldObject.spec.template.spec.resources : {})))",
    ],
};

/// The negation of [`KEYED`]: objects with these keys are matched by the sibling webhook.
pub(super) const IS_NOT_QUEUED: Condition = Condition {
    name: "has-to-do-with-no-queue",
    expression: &[
        "!(",
        HAS_QUEUE_KEYS[0],
        HAS_QUEUE_KEYS[1],
        HAS_QUEUE_KEYS[2],
        HAS_QUEUE_KEYS[3],
        HAS_QUEUE_KEYS[4],
        HAS_QUEUE_KEYS[5],
        ")",
    ],
};

const HAS_QUEUE_KEYS: &[&str] = &[
    "[object, oldObject].exists(it, it != null && (",
    "(has(it.metadata.labels) && ['kueue.x-k8s.io/queue-name', 'kueue.x-k8s.io/managed',",
    "'kueue.x-k8s.io/pod-group-name'].exists(key, key in it.metadata.labels)) ||",
    "(has(it.metadata.annotations) && ['kueue.x-k8s.io/pod-group-name',",
    "'kueue.x-k8s.io/pod-suspending-parent'].exists(key, key in it.metadata.annotations)) ||",
    "(has(it.metadata.finalizers) && 'kueue.x-k8s.io/managed' in it.metadata.finalizers)))",
];
