//! The pod garbage collector: pods that no kubelet will ever terminate.
//!
//! - A pod without its node for [`QUARANTINE`] is set to Failed, so that its controller counts it, and deleted.
//! - A terminating pod that was never scheduled is deleted after [`PATIENCE`]: no kubelet does it.
//! - Only the newest [`ENDED_MAX`] terminated pods are kept.
//!
//! # Guarantees
//!
//! - A terminated pod keeps its phase.
//! - Deletes carry the UID.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::condition::DesiredCondition;
use muster_api::consts::{conditions, managers, reasons};
use muster_api::paths::pod as path;
use muster_api::pod::{self, PodPhase};
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// How long a node may be missing before its pods are deleted.
pub const QUARANTINE: Duration = Duration::from_secs(40);
/// How long a terminating, unscheduled pod is left to its finalizers.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Terminated pods to keep (upstream's `--terminated-pod-gc-threshold`).
pub const ENDED_MAX: usize = 12_500;

/// The pod garbage collector.
#[derive(Debug, Default)]
pub struct PodGcController {
    /// Terminated pods, oldest first.
    ended: BTreeSet<(Time, ObjectKey)>,
}

impl Controller for PodGcController {
    fn name(&self) -> &'static str {
        "podgc"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::PODS.clone(), kinds::NODES.clone()]
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        if seen.key.kind == kinds::NODES {
            let orphans = caches.on_node(&seen.key.name).filter(|_| seen.new.is_none());
            let later = |pod: &ApiObject| ReconcileRequest {
                key: ObjectKey::of(&kinds::PODS, &pod.tree),
                after: QUARANTINE,
            };
            return orphans.map(later).collect();
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let mut wakes = self.surplus(seen);
        match seen.new.map(|pod| need(pod, caches)) {
            Some(Need::Nothing) | None => {}
            Some(Need::End) => wakes.push(ReconcileRequest { key: seen.key.clone(), after: PATIENCE }),
            // A node may reach the cache after its pods: wait for the quarantine.
            Some(Need::GiveUp) => wakes.push(ReconcileRequest { key: seen.key.clone(), after: QUARANTINE }),
        }
        wakes
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let Some(pod) = caches.find(key) else {
            return Reconciled::done();
        };
        match need(pod, caches) {
            Need::End => match meta::deletion_timestamp(&pod.tree).map(|at| at + PATIENCE) {
                Some(due) if due > now => Reconciled::done().requeue_at(due),
                _ => end(key, pod, None, now),
            },
            Need::GiveUp => end(key, pod, Some("PodGC: node no longer exists"), now),
            Need::Nothing if self.is_surplus(pod, key) => end(key, pod, None, now),
            Need::Nothing => Reconciled::done(),
        }
    }
}

impl PodGcController {
    /// Updates the list of terminated pods; returns the oldest one when there are too many.
    fn surplus(&mut self, seen: &WatchEvent<'_>) -> Vec<ReconcileRequest> {
        let entry =
            |pod: &ApiObject| (meta::creation_timestamp(&pod.tree).unwrap_or_default(), seen.key.clone());
        if let Some(before) = seen.old {
            self.ended.remove(&entry(before));
        }
        if let Some(after) = seen.new.filter(|pod| phase(pod).is_terminal()) {
            self.ended.insert(entry(after));
        }
        let over = self.ended.len().saturating_sub(ENDED_MAX);
        self.ended.iter().take(over).map(|(_, key)| key.clone().into()).collect()
    }

    fn is_surplus(&self, pod: &ApiObject, key: &ObjectKey) -> bool {
        let over = self.ended.len().saturating_sub(ENDED_MAX);
        let entry = (meta::creation_timestamp(&pod.tree).unwrap_or_default(), key.clone());
        meta::deletion_timestamp(&pod.tree).is_none() && self.ended.iter().take(over).any(|it| *it == entry)
    }
}

/// Why a pod is garbage.
enum Need {
    Nothing,
    /// Terminating and unscheduled.
    End,
    /// Its node does not exist.
    GiveUp,
}

fn need(pod: &ApiObject, caches: &Caches) -> Need {
    let node = pod.tree.text_at(path::NODE_NAME);
    let released = meta::deletion_timestamp(&pod.tree).is_some() && meta::deletion_grace_secs(&pod.tree) == 0;
    match node.is_empty() {
        // It only waits for its finalizers.
        _ if released && phase(pod).is_terminal() => Need::Nothing,
        true if meta::deletion_timestamp(&pod.tree).is_some() => Need::End,
        false if caches.get(&kinds::NODES, &Text::new(), &node).is_none() => Need::GiveUp,
        _ => Need::Nothing,
    }
}

fn phase(pod: &ApiObject) -> PodPhase {
    PodPhase::of(pod.tree.str_at(path::PHASE))
}

/// Sets the pod to Failed, unless it is terminated, and deletes it without a grace period.
fn end(key: &ObjectKey, pod: &ApiObject, message: Option<&str>, now: Time) -> Reconciled {
    let call = |part, revision, act| ApiRequest {
        field_manager: managers::POD_GC.clone(),
        target: key.target(part),
        preconditions: Preconditions { uid: Some(meta::uid(&pod.tree)), revision },
        verb: act,
    };
    let mut steps = Vec::new();
    if !phase(pod).is_terminal() {
        // With a precondition: if the kubelet terminated the pod meanwhile, its phase must not change again.
        let patch = RequestVerb::StrategicMergePatch(failed(&pod.tree, message, now));
        steps.push(Step::Request(call(Subresource::Status, Some(pod.revision), patch)));
    }
    let delete =
        RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: Some(0) };
    steps.push(Step::Request(call(Subresource::Main, None, delete)));
    Reconciled::with_steps(steps)
}

fn failed(pod: &Tree, message: Option<&str>, now: Time) -> Tree {
    let phase = Tree::Null.with(path::PHASE, PodPhase::Failed.as_str());
    let Some(message) = message else {
        return phase;
    };
    let wanted = DesiredCondition {
        condition_type: conditions::DISRUPTION_TARGET,
        status: true,
        reason: reasons::DELETION_BY_POD_GC,
        message,
    };
    phase.merge(&pod::condition_patch(pod, &wanted, now))
}
