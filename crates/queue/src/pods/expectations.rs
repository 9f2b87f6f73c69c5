//! Expectations: ungates and pod deletions that were sent and not observed yet.
//!
//! Like client-go's `ControllerExpectations` they are state of one controller. After a restart they are empty,
//! which is safe because the cache is listed before the first reconciliation.
//!
//! # Guarantees
//!
//! - A pod has an expectation from before its request is sent until the change is observed, the pod is deleted, or
//!   the request fails. Never longer.
//! - A request is valid for the resourceVersion it names. Once the pod is observed at a later one, the request was
//!   carried out or never will be.
//! - A request with an unknown outcome is sent again while that does not hold: several replies can be lost, and the
//!   pod must not stay gated because of it.
//! - Expectations are bounded. At the bound no request is sent: slower, never wrong.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::{ApiObject, Revision, Uid};
use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::queue::consts::{finalizers, gates};
use muster_tree::{Text, Tree};

use super::queued_pod::PodReference;
use super::reconciler::{PodAction, PodReconcileKey};

/// Bound on ungates in flight.
pub const UNGATES_MAX: usize = 50_000;
/// Bound on pod deletions and finalizer removals in flight.
pub const CLEANUPS_MAX: usize = 50_000;

/// A call about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ExpectedRequest<P> {
    /// The pod set or group it counts for.
    place: P,
    /// The resourceVersion precondition of the request.
    revision: Revision,
    /// The outcome is unknown: the reply was lost or a precondition failed.
    indeterminate: bool,
}

/// Pods with a scheduling gate removed by a request and not observed ungated yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UngateExpectations {
    by_set: BTreeMap<(Uid, Text), BTreeSet<Uid>>,
    by_pod: BTreeMap<Uid, ExpectedRequest<(Uid, Text)>>,
}

impl UngateExpectations {
    /// How many more requests may be sent.
    #[must_use]
    pub fn remaining_capacity(&self) -> usize {
        UNGATES_MAX.saturating_sub(self.by_pod.len())
    }

    pub fn pods_of_set<'a>(&'a self, workload: &Uid, set: &Text) -> impl Iterator<Item = &'a Uid> + use<'a> {
        self.by_set.get(&(workload.clone(), set.clone())).into_iter().flatten()
    }

    /// Whether a pod is among them.
    #[must_use]
    pub fn contains(&self, pod: &Uid) -> bool {
        self.by_pod.contains_key(pod)
    }

    /// Whether a pod is expected in this pod set.
    #[must_use]
    pub fn is_expected_in(&self, workload: &Uid, set: &Text, pod: &Uid) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.place.0 == *workload && sent.place.1 == *set)
    }

    /// Whether the request for a pod is in flight with its outcome pending.
    #[must_use]
    pub fn is_in_flight(&self, pod: &Uid) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| !sent.indeterminate)
    }

    /// Records an expectation before a request is sent or retried. False at the bound: the request must not be
    /// sent.
    pub fn sending(&mut self, workload: &Uid, set: &Text, pod: &PodReference) -> bool {
        self.forget(&pod.uid);
        // The old expectation was dropped above, so that a retry does not count twice.
        if self.remaining_capacity() == 0 {
            return false;
        }
        let place = (workload.clone(), set.clone());
        self.by_set.entry(place.clone()).or_default().insert(pod.uid.clone());
        self.by_pod
            .insert(pod.uid.clone(), ExpectedRequest { place, revision: pod.revision, indeterminate: false });
        true
    }

    fn unheard(&mut self, pod: &Uid) {
        if let Some(sent) = self.by_pod.get_mut(pod) {
            sent.indeterminate = true;
        }
    }

    fn is_past(&self, pod: &Uid, revision: Revision) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.revision < revision)
    }

    /// The pod was observed ungated or at a later resourceVersion, was deleted, or the request failed.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(sent) = self.by_pod.remove(pod) else { return };
        if let Some(pods) = self.by_set.get_mut(&sent.place) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_set.remove(&sent.place);
            }
        }
    }

    /// Drops all expectations: the cache is listed anew.
    pub fn clear(&mut self) {
        *self = UngateExpectations::default();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}

/// Namespace and name of a pod group.
pub type PodGroupKey = (Text, Text);

/// Excess and replaced pods with a finalizer removal or deletion sent and not observed yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CleanupExpectations {
    by_group: BTreeMap<PodGroupKey, BTreeSet<Uid>>,
    by_pod: BTreeMap<Uid, ExpectedRequest<PodGroupKey>>,
}

impl CleanupExpectations {
    /// Whether all requests for a group were observed (client-go's `SatisfiedExpectations`).
    #[must_use]
    pub fn satisfied(&self, group: &PodGroupKey) -> bool {
        !self.by_group.contains_key(group)
    }

    #[must_use]
    pub fn is_indeterminate(&self, pod: &Uid) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.indeterminate)
    }

    /// Records expectations before requests are sent or retried. False at the bound.
    pub fn sending<'a>(
        &mut self,
        group: &PodGroupKey,
        pods: impl IntoIterator<Item = &'a PodReference>,
    ) -> bool {
        let all: Vec<&PodReference> = pods.into_iter().collect();
        // All or none: a partly recorded action would be sent without expectations.
        let new = all.iter().filter(|pod| !self.by_pod.contains_key(&pod.uid)).count();
        if self.by_pod.len() + new > CLEANUPS_MAX {
            return false;
        }
        for pod in all {
            self.forget(&pod.uid);
            self.by_group.entry(group.clone()).or_default().insert(pod.uid.clone());
            let sent = ExpectedRequest { place: group.clone(), revision: pod.revision, indeterminate: false };
            self.by_pod.insert(pod.uid.clone(), sent);
        }
        true
    }

    fn unheard(&mut self, pod: &Uid) {
        if let Some(sent) = self.by_pod.get_mut(pod) {
            sent.indeterminate = true;
        }
    }

    fn is_past(&self, pod: &Uid, revision: Revision) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.revision < revision)
    }

    /// The pod was observed without our finalizer or at a later resourceVersion, was deleted, or the request
    /// failed.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(sent) = self.by_pod.remove(pod) else { return };
        if let Some(pods) = self.by_group.get_mut(&sent.place) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_group.remove(&sent.place);
            }
        }
    }

    /// Drops all expectations: the cache is listed anew.
    pub fn clear(&mut self) {
        *self = CleanupExpectations::default();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}

/// All expectations of the pod reconciler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodExpectations {
    pub ungates: UngateExpectations,
    pub cleanups: CleanupExpectations,
}

impl PodExpectations {
    /// Whether an action has expectations.
    #[must_use]
    pub fn tracks(step: &PodAction) -> bool {
        match step {
            PodAction::Ungate(_)
            | PodAction::RemoveFinalizer(_)
            | PodAction::DeleteExcess(_)
            | PodAction::DeletePods(_) => true,
            PodAction::CreateWorkload(..)
            | PodAction::UpdateWorkloadSpec(..)
            | PodAction::DeleteWorkload(_)
            | PodAction::RemoveWorkloadFinalizer(_)
            | PodAction::AddOwnerReferences(..)
            | PodAction::ChangeQueue(..)
            | PodAction::ChangePriority(..)
            | PodAction::Finish { .. }
            | PodAction::SetWaitingForReplacementPods { .. }
            | PodAction::SetReclaimablePods(..)
            | PodAction::SetPodsReady(..)
            | PodAction::ReleaseQuota(..)
            | PodAction::Stop { .. }
            | PodAction::Note(_)
            | PodAction::NoteOnce(_)
            | PodAction::RequeueAt(_)
            | PodAction::Wait(_) => false,
        }
    }

    /// Records the expectations of an action. False at a bound: the action has to wait.
    pub fn sending(&mut self, key: &PodReconcileKey, step: &PodAction) -> bool {
        match step {
            PodAction::Ungate(all) => {
                all.iter().all(|one| self.ungates.sending(&one.workload, &one.set, &one.pod))
            }
            PodAction::RemoveFinalizer(pods)
            | PodAction::DeleteExcess(pods)
            | PodAction::DeletePods(pods) => {
                let (namespace, name) = key.names();
                self.cleanups.sending(&(namespace.clone(), name.clone()), pods)
            }
            _ => true,
        }
    }

    /// The request for a pod failed definitely: it had no effect.
    pub fn observe_failure(&mut self, pod: &Uid) {
        self.ungates.forget(pod);
        self.cleanups.forget(pod);
    }

    /// The outcome of a request is unknown: the reply was lost, or a precondition failed, possibly because of the
    /// same request before its reply was lost.
    pub fn unheard(&mut self, pod: &Uid) {
        self.ungates.unheard(pod);
        self.cleanups.unheard(pod);
    }

    /// Lowers expectations by an observed pod.
    pub fn observe_pod(&mut self, pod: &ApiObject) {
        let uid = meta::uid(&pod.tree);
        let is_gate = |gate: &Tree| gate.str_at(&["name"]) == gates::ADMISSION;
        let is_open = !pod.tree.items_at(pod_path::GATES).iter().any(is_gate);
        // At a later resourceVersion the request either took effect or failed its precondition.
        if is_open || self.ungates.is_past(&uid, pod.revision) {
            self.ungates.forget(&uid);
        }
        let is_free = !meta::has_finalizer(&pod.tree, finalizers::POD);
        if is_free || self.cleanups.is_past(&uid, pod.revision) {
            self.cleanups.forget(&uid);
        }
    }

    pub fn observe_deletion(&mut self, pod: &Uid) {
        self.ungates.forget(pod);
        self.cleanups.forget(pod);
    }

    /// Drops all expectations: the cache is listed anew.
    pub fn clear(&mut self) {
        *self = PodExpectations::default();
    }
}
