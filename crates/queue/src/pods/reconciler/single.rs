//! Reconciles a pod without a group and its Workload.

use muster_api::meta::OwnerReference;
use muster_api::paths::pod as path;
use muster_api::pod::PodPhase;
use muster_api::queue::consts::{MAIN, messages, reasons};
use muster_api::queue::{PodSet, WorkloadFacts};
use muster_tree::{Text, Tree};

use super::finish::Ended;
use super::group::{make, rewrite};
use super::status::BySet;
use super::{ObservedWorkload, PodAction, PodReconciliation, WaitReason, WorkloadToCreate, stop};
use crate::jobs::construct::template_of_pod;
use crate::jobs::equivalence::{self, ComparedJob};
use crate::jobs::naming::{self, WorkloadOwner};
use crate::pods::queued_pod::QueuedPod;

pub(super) fn run(pass: &mut PodReconciliation<'_>, ours: &[&QueuedPod]) {
    let Some(pod) = ours.first().copied() else { return pass.without_pods() };
    if pod.group_metadata.group.is_some() {
        return pass.wait(WaitReason::WrongKey);
    }
    let own: Vec<&ObservedWorkload> =
        pass.seen.workloads.iter().filter(|it| is_controller_of(&it.facts, pod)).collect();
    if pod.deleting.is_some() {
        return reconcile_terminating(pass, pod, &own);
    }
    if let Some(name) = &pod.group_metadata.prebuilt {
        return prebuilt(pass, pod, name);
    }
    // A finished Workload matches whatever the pod looks like: its outcome must not be lost.
    let matching = own.iter().position(|it| it.facts.is_finished() || is_equivalent(pass, &it.facts, pod));
    for (at, other) in own.iter().enumerate() {
        if matching.is_some_and(|kept| kept != at) {
            pass.delete_not_matching(other, Some(pod));
        }
    }
    match matching {
        Some(at) => with_workload(pass, pod, own[at]),
        None => without_workload(pass, pod, &own),
    }
}

fn is_controller_of(workload: &WorkloadFacts, pod: &QueuedPod) -> bool {
    let is_pod = |owner: &OwnerReference| owner.kind == "Pod" && owner.group().is_empty();
    workload.controller().is_some_and(|owner| is_pod(owner) && owner.uid == pod.reference.uid)
}

/// Whether a Workload matches its pod. The PodSetInfo applied at the start is not a difference.
fn is_equivalent(pass: &PodReconciliation<'_>, workload: &WorkloadFacts, pod: &QueuedPod) -> bool {
    let sets = [set_of(pod)];
    let compared = ComparedJob { object: &pod.tree, pod_sets: &sets, is_suspended: pod.suspended() };
    equivalence::is_equivalent(&compared, workload, pass.seen.flavor)
}

fn set_of(pod: &QueuedPod) -> PodSet {
    let template = template_of_pod(&pod.tree);
    PodSet { name: MAIN.into(), template, count: 1, min_count: None, topology: Tree::Null }
}

/// A terminating pod uses its quota until it has ended; then its finalizer is removed, and its Workload is
/// finished.
fn reconcile_terminating(pass: &mut PodReconciliation<'_>, pod: &QueuedPod, own: &[&ObservedWorkload]) {
    let now = pass.seen.now;
    if pod.holds_quota(now) {
        pass.wait(WaitReason::StillActive);
        return pass.requeue_when_grace_period_ends(&[pod]);
    }
    for workload in own {
        let facts = &workload.facts;
        if facts.is_finished() || facts.deleting {
            pass.remove_workload_finalizer(workload);
        } else if facts.is_evicted() && facts.has_quota() {
            pass.add(PodAction::ReleaseQuota(workload.reference(), super::PodRequeueability::Never));
        } else if pod.terminated() && !pod.stopped {
            pass.finish(workload, outcome_of(pod), &[]);
        }
    }
    pass.remove_finalizers([pod]);
}

/// No Workload matches the pod.
fn without_workload(pass: &mut PodReconciliation<'_>, pod: &QueuedPod, others: &[&ObservedWorkload]) {
    if pod.terminated() {
        pass.remove_finalizers([pod]);
        return;
    }
    let words = if others.is_empty() { stop::MISSING } else { stop::NOT_MATCHING };
    if pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, words) {
        return;
    }
    let maker = WorkloadOwner { kind: "Pod", group: "", name: &pod.reference.name, uid: &pod.reference.uid };
    let (name, queue) = (naming::workload_name(maker, pass.seen.settings.room), pod.queue.clone());
    let draft = WorkloadToCreate { name, queue, sets: vec![set_of(pod)], pods: vec![pod] };
    match others {
        [] => make(pass, &draft),
        [one] if !one.facts.has_quota() && !one.facts.deleting => rewrite(pass, one, &draft),
        _ => others.iter().for_each(|other| pass.delete_not_matching(other, Some(pod))),
    }
}

fn prebuilt(pass: &mut PodReconciliation<'_>, pod: &QueuedPod, name: &Text) {
    let Some(workload) = pass.seen.workloads.iter().find(|it| it.facts.name == *name) else {
        if pod.terminated() {
            pass.remove_finalizers([pod]);
        }
        pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, stop::MISSING);
        return pass.wait(WaitReason::Prebuilt(name.clone()));
    };
    let facts = &workload.facts;
    if facts.controller().is_some_and(|owner| owner.uid != pod.reference.uid) {
        pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, stop::NOT_MATCHING);
        return pass.wait(WaitReason::NameConflict(name.clone()));
    }
    if !facts.is_finished() && !is_equivalent(pass, facts, pod) {
        let end = Ended { reason: reasons::OUT_OF_SYNC, message: messages::OUT_OF_SYNC.to_owned() };
        pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, stop::NOT_MATCHING);
        return pass.finish(workload, end, &[]);
    }
    if facts.controller().is_none() {
        let owner =
            OwnerReference::controller_reference("v1", "Pod", &pod.reference.name, &pod.reference.uid);
        return pass.add(PodAction::AddOwnerReferences(workload.reference(), vec![owner]));
    }
    with_workload(pass, pod, workload);
}

fn with_workload(pass: &mut PodReconciliation<'_>, pod: &QueuedPod, workload: &ObservedWorkload) {
    let facts = &workload.facts;
    if facts.is_finished() {
        pass.remove_finalizers([pod]);
        return pass.remove_workload_finalizer(workload);
    }
    if facts.deleting {
        return pass.reconcile_deleted_workload(workload, &[pod]);
    }
    if pod.terminated() {
        return pass.finish(workload, outcome_of(pod), &[pod]);
    }
    // A write to the Workload ends the reconciliation: the others rely on its resourceVersion.
    if pass.set_pods_ready(workload, &[pod]) || pass.sync_priority(workload, &[pod]) {
        return;
    }
    if facts.is_evicted() && pass.evict(workload, &[pod]) {
        return;
    }
    if facts.is_admitted() && !facts.is_evicted() {
        let Some(set) = facts.pod_sets.first() else { return };
        let by_set = BySet::from([(set.name.clone(), vec![pod])]);
        return pass.start(workload, &by_set, &[pod]);
    }
    pass.stop_unadmitted(&[pod]);
    pass.report_pending_checks(workload, &[pod]);
    pass.sync_queue_name(workload, &pod.queue, &[pod]);
}

fn outcome_of(pod: &QueuedPod) -> Ended {
    let reason = if pod.phase == PodPhase::Succeeded { reasons::SUCCEEDED } else { reasons::FAILED };
    Ended { reason, message: pod.tree.str_at(path::MESSAGE).to_owned() }
}
