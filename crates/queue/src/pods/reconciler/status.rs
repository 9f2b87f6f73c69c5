//! Status of the Workload that follows from its pods: replacement pods, reclaimable pods, readiness, priority and
//! queue.

use std::collections::BTreeMap;

use muster_api::event::EventType;
use muster_api::meta;
use muster_api::pod::PodPhase;
use muster_api::queue::consts::{conditions, labels, messages, reasons};
use muster_api::queue::{CheckState, WorkloadFacts};
use muster_tree::Text;

use super::finish::{admitted_count, admitted_sum};
use super::{ObservedWorkload, PodAction, PodReconcileKey, PodReconciliation};
use crate::jobs::priority::{self, PrioritySources};
use crate::pods::group::{GroupDeclaration, GroupSize};
use crate::pods::group_metadata::GroupMode;
use crate::pods::queued_pod::QueuedPod;

/// Pods by pod set.
pub(super) type BySet<'p> = BTreeMap<Text, Vec<&'p QueuedPod>>;

/// The number of failed pods that have to be replaced. Pods that were never created do not count: a group declared
/// by its first pod could never queue otherwise.
pub(super) fn absent(group: &GroupDeclaration, workload: &WorkloadFacts, by_set: &BySet<'_>) -> u64 {
    let pods = |set: &str| by_set.get(set).map(Vec::as_slice).unwrap_or_default();
    if workload.has_quota() {
        let missing = |set: &str| {
            let count =
                |fits: &dyn Fn(&QueuedPod) -> bool| pods(set).iter().filter(|pod| fits(pod)).count() as u64;
            let failed = count(&|pod| pod.phase == PodPhase::Failed && !pod.is_released());
            let busy = count(&|pod| !pod.terminated())
                + count(&|pod| pod.phase == PodPhase::Succeeded && !pod.is_released());
            // Failed pods beyond the free part of the admitted count need no replacement.
            failed.min(u64::from(admitted_count(workload, set)).saturating_sub(busy))
        };
        return workload.pod_sets.iter().map(|set| missing(&set.name)).sum();
    }
    let is_alive = |pod: &&&QueuedPod| !pod.terminated() && pod.deleting.is_none();
    let has_pod = |set: &str| pods(set).iter().any(|pod| is_alive(&pod));
    match &group.size {
        GroupSize::Count(_) | GroupSize::Roles(_) => {
            workload.pod_sets.iter().filter(|set| !has_pod(&set.name)).count() as u64
        }
        GroupSize::Sets(declared) => {
            let bare =
                declared.iter().filter(|set| set.template.is_none() && !has_pod(&set.name)).count() as u64;
            // At least one living pod must carry the declaration, or the group could not be recomposed.
            let carried = by_set
                .values()
                .flatten()
                .any(|pod| pod.group_metadata.mode == GroupMode::Sets && is_alive(&pod));
            bare.max(u64::from(!carried))
        }
        // No pod declares the size any more: any pod of the group is a start.
        GroupSize::Undeclared => u64::from(!by_set.values().flatten().any(|pod| is_alive(&pod))),
        GroupSize::Prebuilt | GroupSize::Total(_) => 0,
    }
}

impl PodReconciliation<'_> {
    /// Sets `WaitingForReplacementPods` if it changed; returns whether it did.
    pub(super) fn set_waiting_for_replacement_pods(
        &mut self,
        workload: &ObservedWorkload,
        absent: u64,
    ) -> bool {
        let facts = &workload.facts;
        let current = facts.condition(conditions::WAITING_FOR_REPLACEMENT_PODS);
        let holds = absent > 0;
        let evicted = facts.condition(conditions::EVICTED).filter(|it| it.holds);
        let (reason, message) = match (current.filter(|it| it.holds), holds, evicted) {
            (None, false, _) | (Some(_), true, None) => return false,
            // The pods are missing because of the eviction: its reason replaces the earlier one.
            (Some(current), true, Some(evicted))
                if (&current.reason, &current.message) == (&evicted.reason, &evicted.message) =>
            {
                return false;
            }
            (Some(_), false, _) => (reasons::PODS_READY.into(), messages::NO_PODS_NEEDED.into()),
            (_, true, Some(evicted)) => (evicted.reason.clone(), evicted.message.clone()),
            (None, true, None) => (reasons::PODS_FAILED.into(), messages::PODS_FAILED.into()),
        };
        self.add(PodAction::SetWaitingForReplacementPods {
            workload: workload.reference(),
            holds,
            reason,
            message,
        });
        true
    }

    /// Sets `reclaimablePods` if it changed; counts never decrease while quota is reserved. Returns whether it did.
    pub(super) fn set_reclaimable_pods(
        &mut self,
        group: &GroupDeclaration,
        workload: &ObservedWorkload,
        by_set: &BySet<'_>,
    ) -> bool {
        let facts = &workload.facts;
        // Only with role hashes does a finished pod free its part; a serving group replaces every pod.
        if !group.size.is_total() || group.serving || !facts.has_quota() {
            return false;
        }
        let done = |set: &muster_api::queue::PodSet| {
            let pods = by_set.get(&set.name).map(Vec::as_slice).unwrap_or_default();
            let done = u32::try_from(pods.iter().filter(|pod| pod.phase == PodPhase::Succeeded).count())
                .unwrap_or(u32::MAX);
            let current = facts.reclaimable.get(&set.name).copied().unwrap_or(0);
            (set.name.clone(), done.min(set.count).max(current))
        };
        let now: Vec<(Text, u32)> = facts.pod_sets.iter().map(done).filter(|(_, done)| *done > 0).collect();
        if now.iter().cloned().eq(facts.reclaimable.clone()) || now.is_empty() {
            return false;
        }
        self.add(PodAction::SetReclaimablePods(workload.reference(), now));
        true
    }

    /// Sets `PodsReady` if it changed; returns whether it did.
    pub(super) fn set_pods_ready(&mut self, workload: &ObservedWorkload, pods: &[&QueuedPod]) -> bool {
        let facts = &workload.facts;
        if !self.seen.settings.reports_pods_ready || facts.is_evicted() {
            return false;
        }
        let ready = self.all_ready(facts, pods);
        let changed = match facts.condition(conditions::PODS_READY) {
            None => true,
            Some(told) if facts.is_admitted() => told.holds != ready,
            // Before admission the condition is False with `WaitForStart`, as in Kueue.
            Some(told) => told.holds || told.reason != reasons::WAIT_FOR_START,
        };
        if changed {
            self.add(PodAction::SetPodsReady(workload.reference(), ready));
        }
        changed
    }

    fn all_ready(&self, workload: &WorkloadFacts, pods: &[&QueuedPod]) -> bool {
        // Only groups with a total count keep stopped pods; the others release them.
        let is_kept = |pod: &QueuedPod| !pod.ended_stopped() || pod.group_metadata.mode == GroupMode::Total;
        let counted: Vec<&&QueuedPod> = pods.iter().filter(|pod| !pod.inactive() && is_kept(pod)).collect();
        let enough = match self.seen.key {
            PodReconcileKey::Pod { .. } => !counted.is_empty(),
            PodReconcileKey::Group { .. } => counted.len() as u64 >= admitted_sum(workload),
        };
        enough && counted.iter().all(|pod| pod.ready || pod.phase == PodPhase::Succeeded)
    }

    /// Emits the messages of pending admission checks on the pods.
    pub(super) fn report_pending_checks(&mut self, workload: &ObservedWorkload, pods: &[&QueuedPod]) {
        let facts = &workload.facts;
        if !facts.has_quota() || facts.is_admitted() {
            return;
        }
        let pending_checks =
            facts.checks.iter().filter(|it| it.state == CheckState::Pending && !it.message.is_empty());
        let message =
            pending_checks.map(|it| format!("{}: {}", it.name, it.message)).collect::<Vec<_>>().join("; ");
        if message.is_empty() {
            return;
        }
        for pod in pods {
            let topic = super::PodEventObject::Pod(pod.reference.clone());
            let (severity, reason) = (EventType::Normal, reasons::UPDATED_CHECK);
            self.add(PodAction::NoteOnce(super::PodEvent {
                object: topic,
                severity,
                reason,
                message: message.clone(),
            }));
        }
    }

    /// Follows a changed priority class label of the pods; returns whether it did. A pod priority class is not
    /// changed by the label, and a class cannot be added once quota is reserved.
    pub(super) fn sync_priority(&mut self, workload: &ObservedWorkload, pods: &[&QueuedPod]) -> bool {
        let facts = &workload.facts;
        let label =
            pods.iter().find_map(|pod| meta::label(&pod.tree, labels::PRIORITY_CLASS).map(|it| (*pod, it)));
        let Some((pod, name)) = label.filter(|(_, name)| !name.is_empty()) else { return false };
        let may_change = match &facts.priority_class {
            None => !facts.has_quota(),
            Some(class) => class.is_workload() && class.name != name,
        };
        if !may_change {
            return false;
        }
        match priority::resolve(
            PrioritySources { label: name, ..PrioritySources::default() },
            self.seen.classes,
        ) {
            Ok(resolved) => {
                let message = format!("Updated workload priority class: {}", self.full_name(&facts.name));
                self.add(PodAction::ChangePriority(workload.reference(), resolved));
                self.emit_event(pod, EventType::Normal, reasons::UPDATED_WORKLOAD, message);
                true
            }
            Err(missing) => {
                let words = format!("{} {} not found", missing.0.kind, missing.0.name);
                self.warn_once(pod, reasons::PRIORITY_CLASS_NOT_FOUND, words);
                false
            }
        }
    }

    /// Follows the queue name if all pods name the same; returns whether it did.
    pub(super) fn sync_queue_name(
        &mut self,
        workload: &ObservedWorkload,
        queue: &Text,
        pods: &[&QueuedPod],
    ) -> bool {
        let facts = &workload.facts;
        let waits = !facts.has_quota() && !facts.is_admitted() && pods.iter().all(|pod| pod.suspended());
        if !waits || facts.queue == *queue || queue.is_empty() {
            return false;
        }
        self.add(PodAction::ChangeQueue(workload.reference(), queue.clone()));
        true
    }
}
