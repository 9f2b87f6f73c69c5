//! When a hook's answer can be other than "fine", in CEL: what a server looks at before it asks.
//!
//! A condition that cannot be computed is a refusal, so each looks whether there is what it reads.

use muster_tree::{Tree, tree};

/// One condition.
pub(super) struct Condition {
    name: &'static str,
    /// Lines that are written one after the other.
    pub(super) expression: &'static [&'static str],
}

impl Condition {
    pub(super) fn tree(&self) -> Tree {
        tree!({"name": self.name, "expression": self.expression.join(" ")})
    }
}

/// All that is judged and filled in stands in the spec. Labels, owners and finalizers may change while we are away.
pub(super) const SPEC_CHANGES: Condition = Condition {
    name: "spec-changes",
    expression: &[
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) ||",
        "object.spec != oldObject.spec",
    ],
};

/// It is not being deleted: whoever goes is never held up, not even by us being away.
pub(super) const STAYS: Condition =
    Condition { name: "stays", expression: &["!has(object.metadata.deletionTimestamp)"] };

/// Others change its runtime: when they did is all that is filled into a TrainJob.
pub(super) const PATCHED: Condition = Condition {
    name: "patched",
    expression: &[
        "has(object.spec) && has(object.spec.runtimePatches) && object.spec.runtimePatches.size() > 0",
    ],
};

/// All that is judged of a runtime stands in its spec and its labels. Finalizers come off, and what is applied again
/// stays as it is, while we are away.
pub(super) const JUDGED_CHANGES: Condition = Condition {
    name: "judged-changes",
    expression: &[
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) ||",
        "object.spec != oldObject.spec || has(object.metadata.labels) != has(oldObject.metadata.labels) ||",
        "(has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)",
    ],
};

/// A pod of a JobSet whose nodes nobody labelled beforehand.
pub(super) const OF_A_JOBSET: Condition = Condition {
    name: "of-a-jobset",
    expression: &[
        "has(object.metadata.annotations) &&",
        "'jobset.sigs.k8s.io/jobset-name' in object.metadata.annotations &&",
        "!('alpha.jobset.sigs.k8s.io/node-selector' in object.metadata.annotations)",
    ],
};

/// It has a place of its own to go to, or a priority that its label does not tell yet; one below zero can be no label.
pub(super) const PLACED_OR_RANKED: Condition = Condition {
    name: "placed-or-ranked",
    expression: &[
        "'alpha.jobset.sigs.k8s.io/exclusive-topology' in object.metadata.annotations ||",
        "(has(object.spec.priority) && object.spec.priority >= 0 &&",
        "!(has(object.metadata.labels) && 'jobset.sigs.k8s.io/priority' in object.metadata.labels &&",
        "object.metadata.labels['jobset.sigs.k8s.io/priority'] == string(object.spec.priority)))",
    ],
};

/// It follows the first pod of its Job to its place.
pub(super) const FOLLOWS: Condition = Condition {
    name: "follows",
    expression: &[
        "'alpha.jobset.sigs.k8s.io/exclusive-topology' in object.metadata.annotations &&",
        "!('batch.kubernetes.io/job-completion-index' in object.metadata.annotations &&",
        "object.metadata.annotations['batch.kubernetes.io/job-completion-index'] == '0')",
    ],
};

/// It carries a key of queues, or did. What has none has nothing to do with us.
pub(super) const KEYED: Condition = Condition { name: "has-to-do-with-queues", expression: CARRIES };

/// The same, or a Job of a JobSet that asks for more pods at a time than it did, or for other ones: where the JobSet is
/// queued, it has its share by what it was.
pub(super) const KEYED_OR_GROWS: Condition = Condition {
    name: "has-to-do-with-queues",
    expression: &[
        CARRIES[0],
        CARRIES[1],
        CARRIES[2],
        CARRIES[3],
        CARRIES[4],
        CARRIES[5],
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

/// It carries none of them: others are asked about those that do.
pub(super) const UNKEYED: Condition = Condition {
    name: "has-to-do-with-no-queue",
    expression: &["!(", CARRIES[0], CARRIES[1], CARRIES[2], CARRIES[3], CARRIES[4], CARRIES[5], ")"],
};

const CARRIES: &[&str] = &[
    "[object, oldObject].exists(it, it != null && (",
    "(has(it.metadata.labels) && ['kueue.x-k8s.io/queue-name', 'kueue.x-k8s.io/managed',",
    "'kueue.x-k8s.io/pod-group-name'].exists(key, key in it.metadata.labels)) ||",
    "(has(it.metadata.annotations) && ['kueue.x-k8s.io/pod-group-name',",
    "'kueue.x-k8s.io/pod-suspending-parent'].exists(key, key in it.metadata.annotations)) ||",
    "(has(it.metadata.finalizers) && 'kueue.x-k8s.io/managed' in it.metadata.finalizers)))",
];
