//! Stopping pods, and giving back what they held.
//!
//! Pods cannot be suspended: whoever has to leave is deleted, and holds its share until it has left.

use muster_api::queue::words::{conditions, reasons};

use super::{Action, Comeback, Hold, Pass, SeenWorkload, any_holds};
use crate::pods::member::{Member, PodRef};

/// What pods without a Workload are told.
pub(super) const MISSING: &str = "Missing Workload; unable to restore pod templates";
/// What pods are told whose Workload is another.
pub(super) const NOT_MATCHING: &str =
    "No matching Workload; restoring pod templates according to existent Workload";
/// What pods are told whose Workload was deleted.
const DELETED: &str = "Workload is deleted";
/// What pods are told that run without admission.
const NOT_ADMITTED: &str = "Not admitted by cluster queue";

impl Pass<'_> {
    /// Stops those that may run; whether there are any.
    pub(super) fn stop(&mut self, pods: &[&Member], reason: &str, message: &str) -> bool {
        self.stop_these(pods.iter().filter(|pod| pod.at_large()).map(|pod| pod.this.clone()), reason, message)
    }

    fn stop_these(&mut self, pods: impl Iterator<Item = PodRef>, reason: &str, message: &str) -> bool {
        let pods: Vec<PodRef> = pods.collect();
        let any = !pods.is_empty();
        if any {
            self.add(Action::Stop { pods, reason: reason.to_owned(), message: message.to_owned() });
        }
        any
    }

    /// Stops pods that run though nobody let them.
    pub(super) fn stop_unadmitted(&mut self, pods: &[&Member]) {
        self.stop(pods, reasons::NOT_ADMITTED, NOT_ADMITTED);
    }

    /// The Workload is being deleted: all its pods go, whatever they do, and it goes once none holds anything. Whoever came
    /// since and waits at the gate is none of its pods, and begins anew when it is gone.
    pub(super) fn follow_deleted(&mut self, workload: &SeenWorkload, pods: &[&Member]) {
        let waits = |pod: &Member| pod.gated && !pod.terminated() && pod.deleting.is_none();
        let since = |pod: &Member| workload.deleted_at.is_some_and(|at| pod.created >= at);
        let is_new = |pod: &Member| waits(pod) && since(pod) && !workload.knows(pod);
        let pods = &pods.iter().copied().filter(|pod| !is_new(pod)).collect::<Vec<_>>();
        let alive = pods.iter().filter(|pod| pod.deleting.is_none()).map(|pod| pod.this.clone());
        self.stop_these(alive, reasons::WORKLOAD_DELETED, DELETED);
        self.let_go(pods.iter().copied());
        let may_run = pods.iter().any(|pod| pod.at_large());
        if may_run || any_holds(pods, self.seen.now) {
            self.hold(Hold::StillActive);
            self.look_when_over(pods);
        } else {
            self.let_workload_go(workload);
        }
    }

    pub(super) fn let_workload_go(&mut self, workload: &SeenWorkload) {
        if workload.facts.has_finalizer(muster_api::queue::words::finalizers::IN_USE) {
            self.add(Action::LetWorkloadGo(workload.this()));
        }
    }

    /// An evicted Workload: its pods are stopped, and once none holds anything the share goes back. Whether there is
    /// still something to wait for.
    pub(super) fn evict(&mut self, workload: &SeenWorkload, pods: &[&Member]) -> bool {
        let Some(evicted) = workload.facts.condition(conditions::EVICTED) else { return false };
        let reason = format!("{}{}", reasons::WORKLOAD_EVICTED_DUE_TO, evicted.reason);
        if self.stop(pods, &reason, &evicted.message) {
            return true;
        }
        if any_holds(pods, self.seen.now) {
            self.hold(Hold::StillActive);
            self.look_when_over(pods);
            return true;
        }
        if workload.facts.has_quota() {
            self.add(Action::Release(workload.this(), self.comeback(pods)));
            return true;
        }
        self.retire(pods)
    }

    /// A pod by itself that was stopped never comes back; one that still waits for its gate never left.
    fn comeback(&self, pods: &[&Member]) -> Comeback {
        let waits = |pod: &&Member| pod.gated && pod.deleting.is_none();
        match self.seen.key {
            super::Key::Pod { .. } if !pods.iter().any(waits) => Comeback::Never,
            super::Key::Pod { .. } | super::Key::Group { .. } => Comeback::Possible,
        }
    }

    /// Pods of a Workload that we deactivated go when their time is over; whether it is.
    fn retire(&mut self, pods: &[&Member]) -> bool {
        let Some(at) = self.seen.retire_at else { return false };
        if at > self.seen.now {
            self.look_again(at);
            return false;
        }
        let left = pods.iter().filter(|pod| pod.finalizer || pod.deleting.is_none());
        let all: Vec<PodRef> = left.map(|pod| pod.this.clone()).collect();
        if !all.is_empty() {
            self.add(Action::DeletePods(all));
        }
        true
    }
}
