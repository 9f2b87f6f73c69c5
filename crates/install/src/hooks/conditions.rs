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
