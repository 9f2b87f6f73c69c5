//! Workloads, PodGroups and their pods, through the engine.

mod changes;
mod forms;
mod gates;
mod pods;
mod rules;

use muster_tree::{Tree, tree};

use super::kinds::{job, pod};
use super::{TestEngine, body, target};
use crate::request::{
    DeleteOptions, FieldValidation, ListOptions, Patch, ReplyObject, WriteAct, WriteOptions, WriteReply,
};
use crate::status::Status;

const ALPHA: &str = "scheduling.k8s.io/v1alpha1/default";
const BETA: &str = "scheduling.k8s.io/v1beta1/default";

/// A `v1alpha1` Workload with one gang of two.
pub(super) fn workload(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"podGroupTemplates": [(gang("t", 2))]}})
}

pub(super) fn gang(name: &str, count: i64) -> Tree {
    tree!({"name": name, "policy": {"gang": {"minCount": count}}})
}

pub(super) fn group(name: &str) -> Tree {
    tree!({"metadata": {"name": name},
        "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}})
}

pub(super) fn released(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}},
        "workloadRef": {"workloadName": "w", "templateName": "t"}}})
}

pub(super) fn condition(kind: &str, status: &str, reason: &str) -> Tree {
    tree!({"type": kind, "status": status, "reason": reason, "message": "m",
        "lastTransitionTime": "2026-01-02T03:04:05Z"})
}

/// Sets the value at a dotted path.
pub(super) fn with(tree: &Tree, path: &str, value: impl Into<Tree>) -> Tree {
    tree.with(&path.split('.').collect::<Vec<_>>(), value)
}

pub(super) fn without(tree: &Tree, path: &str) -> Tree {
    tree.without(&path.split('.').collect::<Vec<_>>())
}

/// Asserts a 422 with this message.
pub(super) fn refused(says: &str, result: Result<Tree, Status>, words: &str) {
    match result {
        Ok(tree) => panic!("{says}: was taken: {tree}"),
        Err(status) => {
            assert_eq!((status.code, status.reason), (422, "Invalid"), "{says}: {}", status.message);
            assert!(status.message.contains(words), "{says}: {}", status.message);
        }
    }
}

impl TestEngine {
    pub(super) fn patch(&self, path: &str, patch: Patch) -> Result<Tree, Status> {
        let target = target(path);
        self.send(target.clone(), WriteAct::Patch(patch)).map(|reply| self.tree(&target, reply.shown))
    }

    pub(super) fn reply(&self, path: &str, act: WriteAct) -> WriteReply {
        self.send(target(path), act).unwrap_or_else(|status| panic!("{path}: {}", status.message))
    }
}
