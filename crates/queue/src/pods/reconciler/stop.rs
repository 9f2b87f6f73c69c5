//! Stops pods and releases quota.
//!
//! A pod cannot be suspended: an evicted pod is deleted and uses its quota until it has terminated.

use muster_api::queue::consts::{conditions, reasons};

use super::{ObservedWorkload, PodAction, PodReconciliation, PodRequeueability, WaitReason, any_holds_quota};
use crate::pods::queued_pod::{PodReference, QueuedPod};

pub(super) const MISSING: &str = "Missing Workload; unable to restore pod templates";
pub(super) const NOT_MATCHING: &str =
    "No matching Workload; restoring pod templates according to existent Workload";
const DELETED: &str = "Workload is deleted";
const NOT_ADMITTED: &str = "Not admitted by cluster queue";

impl PodReconciliation<'_> {
    /// Stops pods that may run; returns whether there were any.
    pub(super) fn stop(&mut self, pods: &[&QueuedPod], reason: &str, message: &str) -> bool {
        self.stop_pods(
            pods.iter().filter(|pod| pod.may_run()).map(|pod| pod.reference.clone()),
            reason,
            message,
        )
    }

    fn stop_pods(&mut self, pods: impl Iterator<Item = PodReference>, reason: &str, message: &str) -> bool {
        let pods: Vec<PodReference> = pods.collect();
        let any = !pods.is_empty();
        if any {
            self.add(PodAction::Stop { pods, reason: reason.to_owned(), message: message.to_owned() });
        }
        any
    }

    /// Stops pods that run without admission.
    pub(super) fn stop_unadmitted(&mut self, pods: &[&QueuedPod]) {
        self.stop(pods, reasons::NOT_ADMITTED, NOT_ADMITTED);
    }

    /// The Workload is being deleted: its pods are deleted, and its finalizer is removed once none uses quota.
    /// Gated pods created since do not belong to it and start over afterwards.
    pub(super) fn reconcile_deleted_workload(&mut self, workload: &ObservedWorkload, pods: &[&QueuedPod]) {
        let waits = |pod: &QueuedPod| pod.gated && !pod.terminated() && pod.deleting.is_none();
        let since = |pod: &QueuedPod| workload.deleted_at.is_some_and(|at| pod.created >= at);
        // Gated and created after the Workload's deletion began: it waits for a new Workload.
        let is_new = |pod: &QueuedPod| waits(pod) && since(pod) && !workload.is_owned_by(pod);
        let pods = &pods.iter().copied().filter(|pod| !is_new(pod)).collect::<Vec<_>>();
        let alive = pods.iter().filter(|pod| pod.deleting.is_none()).map(|pod| pod.reference.clone());
        self.stop_pods(alive, reasons::WORKLOAD_DELETED, DELETED);
        self.remove_finalizers(pods.iter().copied());
        let may_run = pods.iter().any(|pod| pod.may_run());
        if may_run || any_holds_quota(pods, self.seen.now) {
            self.wait(WaitReason::StillActive);
            self.requeue_when_grace_period_ends(pods);
        } else {
            self.remove_workload_finalizer(workload);
        }
    }

    pub(super) fn remove_workload_finalizer(&mut self, workload: &ObservedWorkload) {
        if workload.facts.has_finalizer(muster_api::queue::consts::finalizers::IN_USE) {
            self.add(PodAction::RemoveWorkloadFinalizer(workload.reference()));
        }
    }

    /// Stops the pods of an evicted Workload and releases its quota once none uses it. Returns whether there is
    /// still something to wait for.
    pub(super) fn evict(&mut self, workload: &ObservedWorkload, pods: &[&QueuedPod]) -> bool {
        let Some(evicted) = workload.facts.condition(conditions::EVICTED) else { return false };
        let reason = format!("{}{}", reasons::WORKLOAD_EVICTED_DUE_TO, evicted.reason);
        if self.stop(pods, &reason, &evicted.message) {
            return true;
        }
        if any_holds_quota(pods, self.seen.now) {
            self.wait(WaitReason::StillActive);
            self.requeue_when_grace_period_ends(pods);
            return true;
        }
        if workload.facts.has_quota() {
            self.add(PodAction::ReleaseQuota(workload.reference(), self.requeueability(pods)));
            return true;
        }
        self.delete_deactivated(pods)
    }

    /// A stopped single pod is never recreated; one that is still gated was never started.
    fn requeueability(&self, pods: &[&QueuedPod]) -> PodRequeueability {
        let waits = |pod: &&QueuedPod| pod.gated && pod.deleting.is_none();
        match self.seen.key {
            super::PodReconcileKey::Pod { .. } if !pods.iter().any(waits) => PodRequeueability::Never,
            super::PodReconcileKey::Pod { .. } | super::PodReconcileKey::Group { .. } => {
                PodRequeueability::Possible
            }
        }
    }

    /// Deletes the pods of a system-deactivated Workload when their retention ends; returns whether it has.
    fn delete_deactivated(&mut self, pods: &[&QueuedPod]) -> bool {
        let Some(at) = self.seen.delete_deactivated_at else { return false };
        if at > self.seen.now {
            self.requeue_at(at);
            return false;
        }
        // Terminating pods with our finalizer are included: they are stuck without its removal.
        let left = pods.iter().filter(|pod| pod.finalizer || pod.deleting.is_none());
        let all: Vec<PodReference> = left.map(|pod| pod.reference.clone()).collect();
        if !all.is_empty() {
            self.add(PodAction::DeletePods(all));
        }
        true
    }
}
