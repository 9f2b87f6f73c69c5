//! Reconciles a pod group and its Workload.

use muster_api::meta;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::consts::{labels, messages, reasons};
use muster_tree::Text;

use super::finish::{Ended, ended, is_of_group};
use super::role_matching::{RoleMatch, fill, max_exec, sort_active};
use super::status::{BySet, absent};
use super::{
    MISSING_OBJECT_RECHECK_INTERVAL, ObservedWorkload, PodAction, PodEvent, PodEventObject, PodReconcileKey,
    PodReconciliation, WaitReason, WorkloadToCreate, any_holds_quota, stop,
};
use crate::jobs::construct::{self, WorkloadParams};
use crate::jobs::priority::{self, PrioritySources};
use crate::pods::compose::{ComposeError, compose};
use crate::pods::group::{GroupConsensus, GroupSize, pod_set_of, resolve_group};
use crate::pods::queued_pod::{PodReference, QueuedPod};

pub(super) fn run(pass: &mut PodReconciliation<'_>, name: &Text, ours: &[&QueuedPod]) {
    let seen = pass.seen;
    if ours.is_empty() {
        return pass.without_pods();
    }
    let workload = seen.workloads.iter().find(|workload| workload.facts.name == *name);
    if let Some(workload) = workload.filter(|workload| !is_of_group(&workload.facts)) {
        return conflict(pass, workload, ours);
    }
    let pods: Vec<&QueuedPod> = ours.iter().copied().filter(|pod| !pod.is_released()).collect();
    let consensus = resolve_group(name, &pods, workload.map(|workload| &workload.facts));
    match workload {
        None => without_workload(pass, &consensus, &pods),
        Some(workload) if workload.facts.is_finished() => finished(pass, workload, &consensus, &pods),
        Some(workload) if workload.facts.deleting => pass.reconcile_deleted_workload(workload, &pods),
        Some(workload) => with_workload(pass, workload, &consensus, &pods),
    }
}

/// A foreign Workload has the group's name: it is not modified, and finished pods are released so that none is
/// stuck.
fn conflict(pass: &mut PodReconciliation<'_>, workload: &ObservedWorkload, pods: &[&QueuedPod]) {
    let name = &workload.facts.name;
    pass.remove_finalizers(pods.iter().copied().filter(|pod| pod.inactive() || pod.terminated()));
    let message = format!(
        "A Workload named \"{name}\" already exists but is not a pod group workload; this pod group cannot be admitted"
    );
    if let Some(pod) = pods.iter().find(|pod| !pod.terminated()) {
        pass.warn_once(pod, reasons::WORKLOAD_NAME_CONFLICT, message);
    }
    pass.wait(WaitReason::NameConflict(name.clone()));
}

/// Creates the Workload once the required pods exist.
fn without_workload(pass: &mut PodReconciliation<'_>, consensus: &GroupConsensus, pods: &[&QueuedPod]) {
    let is_total = consensus.group.size.is_total();
    let any_alive = pods.iter().any(|pod| !pod.terminated());
    // With a total count, succeeded pods count towards it while others are alive.
    let is_over = |pod: &QueuedPod| pod.inactive() || (pod.terminated() && !(is_total && any_alive));
    pass.remove_finalizers(pods.iter().copied().filter(|pod| is_over(pod)));
    // Ungated pods without a Workload bypass quota.
    if pass.stop(pods, reasons::NO_MATCHING_WORKLOAD, stop::MISSING) {
        return;
    }
    if any_holds_quota(pods, pass.seen.now) {
        pass.wait(WaitReason::StillActive);
        return pass.requeue_when_grace_period_ends(pods);
    }
    let mut active: Vec<&QueuedPod> =
        pods.iter().copied().filter(|pod| !is_over(pod) && pod.deleting.is_none()).collect();
    if !active.iter().any(|pod| !pod.terminated()) {
        return;
    }
    // No Workload for contradicting pods: whichever was composed would be wrong for some of them.
    if let Some((pod, words)) =
        active.iter().find_map(|pod| Some((*pod, consensus.disagreements.get(&pod.reference.uid)?)))
    {
        pass.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, words.clone());
        return pass.wait(WaitReason::Compose(words.clone()));
    }
    if let GroupSize::Total(total) = consensus.group.size
        && !consensus.group.fast
        && active.len() > total as usize
    {
        sort_active(&mut active);
        let excess = active.split_off(total as usize);
        return pass.delete_excess(excess.iter().map(|pod| pod.reference.clone()).collect());
    }
    if consensus.group.prebuilt {
        return pass.wait(WaitReason::Prebuilt(consensus.group.name.clone()));
    }
    match compose(&consensus.group, &active) {
        Err(lack) => report_compose_error(pass, &consensus.group.name, &lack, &active),
        Ok(sets) => {
            let (name, queue) = (consensus.group.name.clone(), consensus.group.queue.clone());
            make(pass, &WorkloadToCreate { name, queue, sets, pods: active });
        }
    }
}

/// Emits the compose error on one pod.
fn report_compose_error(
    pass: &mut PodReconciliation<'_>,
    name: &Text,
    lack: &ComposeError,
    active: &[&QueuedPod],
) {
    let words = lack.words(name);
    let target = active.iter().find(|pod| pod.gated).or(active.first());
    if let Some(pod) = target {
        pass.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, words.clone());
    }
    pass.wait(WaitReason::Compose(words));
}

/// The Workload to create; None if it cannot be composed, with an event.
fn new_workload(
    pass: &mut PodReconciliation<'_>,
    draft: &WorkloadToCreate<'_>,
) -> Option<muster_api::queue::NewWorkload> {
    let seen = pass.seen;
    let first = draft.pods.first()?;
    // The first pod with the label decides.
    let label = draft.pods.iter().find_map(|pod| meta::label(&pod.tree, labels::PRIORITY_CLASS));
    let of_pods: Vec<Text> =
        draft.sets.iter().map(|set| set.template.text_at(muster_api::paths::pod::PRIORITY_CLASS)).collect();
    let sources = PrioritySources { label: label.unwrap_or_default(), of_job: "", of_pods: &of_pods };
    let priority = match priority::resolve(sources, seen.classes) {
        Ok(priority) => priority,
        Err(missing) => {
            let name = missing.0.name;
            let words = format!("{} {name} not found", missing.0.kind);
            pass.warn_once(first, reasons::PRIORITY_CLASS_NOT_FOUND, words);
            pass.wait(WaitReason::PriorityClass(name));
            pass.requeue_at(seen.now + MISSING_OBJECT_RECHECK_INTERVAL);
            return None;
        }
    };
    let making = WorkloadParams {
        name: draft.name.clone(),
        queue: draft.queue.clone(),
        pod_sets: draft.sets.clone(),
        priority,
        label_keys: &seen.settings.label_keys,
    };
    if matches!(seen.key, PodReconcileKey::Pod { .. }) {
        return Some(construct::of_object("v1", "Pod", &first.tree, making));
    }
    let trees: Vec<&muster_tree::Tree> = draft.pods.iter().map(|pod| &pod.tree).collect();
    match construct::of_group(&trees, making) {
        Ok(made) => Some(made),
        Err(why) => {
            pass.warn_once(first, reasons::ERR_WORKLOAD_COMPOSE, why.to_string());
            pass.wait(WaitReason::Compose(why.to_string()));
            None
        }
    }
}

pub(super) fn make(pass: &mut PodReconciliation<'_>, draft: &WorkloadToCreate<'_>) {
    let Some(made) = new_workload(pass, draft) else { return };
    let Some(first) = draft.pods.first() else { return };
    let note = PodEvent {
        object: PodEventObject::Pod(first.reference.clone()),
        severity: muster_api::event::EventType::Normal,
        reason: reasons::CREATED_WORKLOAD,
        message: format!("Created Workload: {}", pass.full_name(&draft.name)),
    };
    pass.add(PodAction::CreateWorkload(made.tree(), note));
}

/// Replaces the spec of a Workload without reservation.
pub(super) fn rewrite(
    pass: &mut PodReconciliation<'_>,
    workload: &ObservedWorkload,
    draft: &WorkloadToCreate<'_>,
) {
    let Some(made) = new_workload(pass, draft) else { return };
    pass.add(PodAction::UpdateWorkloadSpec(workload.reference(), made.spec()));
    if let Some(first) = draft.pods.first() {
        let message =
            format!("Updated not matching Workload for suspended job: {}", pass.full_name(&draft.name));
        pass.emit_event(first, muster_api::event::EventType::Normal, reasons::UPDATED_WORKLOAD, message);
    }
}

/// The Workload is finished: removes the finalizers of its pods and its own. Pods that do not own it start over
/// with a new Workload, except with a prebuilt one, which only the user can replace.
fn finished(
    pass: &mut PodReconciliation<'_>,
    workload: &ObservedWorkload,
    consensus: &GroupConsensus,
    pods: &[&QueuedPod],
) {
    let is_new = |pod: &QueuedPod| !pod.terminated() && pod.deleting.is_none() && !workload.is_owned_by(pod);
    pass.remove_finalizers(pods.iter().copied().filter(|pod| !is_new(pod)));
    // New pods under the name of a finished group start a new group.
    let begins =
        pods.iter().any(|pod| is_new(pod) && !consensus.disagreements.contains_key(&pod.reference.uid));
    if begins && !consensus.group.prebuilt && !workload.facts.deleting {
        pass.add(PodAction::DeleteWorkload(workload.reference()));
    } else {
        pass.remove_workload_finalizer(workload);
    }
}

/// The pods of a group by their relation to its Workload.
struct PodPlacement<'p> {
    by_set: BySet<'p>,
    /// Pods that match a pod set.
    members: Vec<&'p QueuedPod>,
    /// Pods that match no pod set, with the message.
    mismatched: Vec<(&'p QueuedPod, String)>,
}

fn pod_placement<'p>(
    pass: &PodReconciliation<'_>,
    workload: &ObservedWorkload,
    consensus: &GroupConsensus,
    pods: &[&'p QueuedPod],
) -> PodPlacement<'p> {
    let mut placement = PodPlacement { by_set: BySet::new(), members: Vec::new(), mismatched: Vec::new() };
    for pod in pods.iter().copied() {
        let set = pod_set_of(&consensus.group, &workload.facts, pod);
        let wrong = match (consensus.disagreements.get(&pod.reference.uid), set) {
            // A contradiction matters only while the pod is gated: a running pod keeps running.
            (Some(words), _) if pod.gated => Some(words.clone()),
            // Without a reservation the Workload is recreated with the new role; with one the role is too late.
            (_, None) if consensus.group.size.is_total() && !workload.facts.has_quota() => None,
            (_, None) if consensus.group.size.is_total() => Some(format!(
                "no pod set of workload '{}' is of the role '{}'",
                workload.facts.name, pod.hash
            )),
            (_, None) => {
                let role = pod.group_metadata.role.as_deref().unwrap_or_default();
                Some(format!("pod role '{role}' is not declared in the group"))
            }
            (_, Some(set)) if pod.gated => pass.exceeds_reserved_requests(&workload.facts, set, pod),
            (_, Some(_)) => None,
        };
        match (wrong, set) {
            (Some(words), _) => placement.mismatched.push((pod, words)),
            (None, Some(set)) => {
                placement.by_set.entry(set.clone()).or_default().push(pod);
                placement.members.push(pod);
            }
            (None, None) => placement.members.push(pod),
        }
    }
    placement
}

/// Reconciles the group with its unfinished Workload, one step at a time.
fn with_workload(
    pass: &mut PodReconciliation<'_>,
    workload: &ObservedWorkload,
    consensus: &GroupConsensus,
    pods: &[&QueuedPod],
) {
    let facts = &workload.facts;
    let placement = pod_placement(pass, workload, consensus, pods);
    // Pod groups have no partial admission, and a prebuilt Workload cannot be recreated here.
    if consensus.group.prebuilt
        && (facts.pod_sets.iter().any(|set| set.min_count.is_some()) || !consensus.fits)
    {
        return out_of_sync(pass, workload, pods);
    }
    let found = match consensus.group.size.is_total() {
        true => fill(&consensus.group, facts, &placement.members, &placement.by_set, pass.seen.now),
        false => RoleMatch { matches: consensus.fits, ..RoleMatch::default() },
    };
    if !found.matches {
        return not_matching(pass, workload, consensus, pods);
    }
    // Before anything is cleaned up: finished pods must still be counted.
    if let Some(end) = ended(&consensus.group, facts, &placement.members) {
        return pass.finish(workload, end, pods);
    }
    if all_deleted_for_good(facts, pods, pass.seen.now) {
        return pass.remove_finalizers(pods.iter().copied());
    }
    // Excess and replaced pods are computed from a cache that does not reflect the last cleanup yet.
    if !pass.seen.cleanups.satisfied(&pass.seen.key.group()) {
        pass.wait(WaitReason::UnobservedCleanups);
        let cleanups = pass.seen.cleanups;
        let is_unheard = |pod: &&&QueuedPod| cleanups.is_indeterminate(&pod.reference.uid);
        let is_over = |pod: &&&QueuedPod| pod.deleting.is_some() || pod.terminated();
        pass.remove_finalizers(pods.iter().filter(is_over).filter(is_unheard).copied());
        if consensus.group.size.is_total() {
            let again = found.excess.iter().filter(is_unheard).map(|pod| pod.reference.clone());
            return pass.delete_excess(again.collect());
        }
    } else if remove_excess_and_replaced(pass, workload, consensus, &placement, &found) {
        return;
    }
    let absent = match consensus.group.size.is_total() {
        true => found.absent,
        false => absent(&consensus.group, facts, &placement.by_set),
    };
    if pass.set_waiting_for_replacement_pods(workload, absent)
        || pass.set_reclaimable_pods(&consensus.group, workload, &placement.by_set)
        || pass.set_pods_ready(workload, &placement.members)
        || pass.sync_priority(workload, &placement.members)
    {
        return;
    }
    reconcile_admission(pass, workload, consensus, &placement, pods);
}

/// Ungates, stops or waits, by the Workload's admission.
fn reconcile_admission(
    pass: &mut PodReconciliation<'_>,
    workload: &ObservedWorkload,
    consensus: &GroupConsensus,
    placement: &PodPlacement<'_>,
    pods: &[&QueuedPod],
) {
    let facts = &workload.facts;
    // Eviction first: a pod must not be ungated on quota that is being released.
    if facts.is_evicted() && pass.evict(workload, pods) {
        return;
    }
    for (pod, words) in placement.mismatched.iter().filter(|(pod, _)| pod.gated && pod.deleting.is_none()) {
        pass.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, words.clone());
    }
    if facts.is_admitted() && !facts.is_evicted() {
        return pass.start(workload, &placement.by_set, &placement.members);
    }
    pass.stop_unadmitted(pods);
    pass.report_pending_checks(workload, &placement.members);
    if !consensus.group.serving {
        pass.sync_queue_name(workload, &consensus.group.queue, &placement.members);
    }
}

/// Adds owner references, deletes excess pods and releases replaced ones; returns whether the reconciliation ends
/// here.
fn remove_excess_and_replaced(
    pass: &mut PodReconciliation<'_>,
    workload: &ObservedWorkload,
    consensus: &GroupConsensus,
    placement: &PodPlacement<'_>,
    found: &RoleMatch<'_>,
) -> bool {
    let staying: Vec<&QueuedPod> = placement
        .members
        .iter()
        .copied()
        .filter(|pod| found.excess.iter().all(|it| it.reference != pod.reference))
        .collect();
    let added = pass.add_owners(workload, &staying);
    let excess: Vec<PodReference> = found.excess.iter().map(|pod| pod.reference.clone()).collect();
    let deletes = !excess.is_empty();
    pass.delete_excess(excess);
    let replaced: Vec<&QueuedPod> = match consensus.group.size.is_total() {
        true => found.replaced.clone(),
        false => releasable_pods(&workload.facts, placement),
    };
    pass.remove_finalizers(replaced);
    added || deletes
}

/// Pods released before the group finishes where all finished pods are counted: pods we stopped, pods deleted
/// before they were scheduled, and pods replaced by enough others.
fn releasable_pods<'p>(workload: &WorkloadFacts, placement: &PodPlacement<'p>) -> Vec<&'p QueuedPod> {
    let mut all = Vec::new();
    let mismatched = placement.mismatched.iter().map(|(pod, _)| *pod);
    all.extend(mismatched.filter(|pod| pod.deleted_unscheduled() || pod.terminated()));
    for (set, pods) in &placement.by_set {
        let count = super::finish::admitted_count(workload, set) as usize;
        let mut held = pods.iter().filter(|pod| pod.finalizer && pod.deleting.is_none()).count();
        for pod in pods.iter().filter(|pod| pod.finalizer) {
            let ended_by_us = pod.ended_stopped();
            let replaced = pod.deleting.is_some() && pod.terminated() && held >= count;
            if ended_by_us || pod.deleted_unscheduled() || replaced {
                all.push(*pod);
            } else if pod.deleting.is_some() {
                // It keeps its finalizer and counts, so a later replaced pod can be released instead.
                held += 1;
            }
        }
    }
    all
}

/// Whether all pods are being deleted, none runs, and no replacement is expected: the deletion was not ours, or the
/// Workload is inactive.
fn all_deleted_for_good(workload: &WorkloadFacts, pods: &[&QueuedPod], now: muster_api::time::Time) -> bool {
    // A deactivated Workload expects no replacement pods.
    let for_good = !workload.active && !workload.has_quota();
    !pods.is_empty()
        && pods.iter().all(|pod| pod.deleting.is_some() && (!pod.stopped || for_good))
        && pods.iter().all(|pod| pod.terminated() || pod.deleted_unscheduled())
        && !any_holds_quota(pods, now)
}

/// The prebuilt Workload does not match the pods.
fn out_of_sync(pass: &mut PodReconciliation<'_>, workload: &ObservedWorkload, pods: &[&QueuedPod]) {
    let end = Ended { reason: reasons::OUT_OF_SYNC, message: messages::OUT_OF_SYNC.to_owned() };
    pass.finish(workload, end, pods);
}

/// Whether a Workload equals the one that these pods would get.
fn is_up_to_date(workload: &WorkloadFacts, draft: &WorkloadToCreate<'_>) -> bool {
    let sets = draft.sets.iter().map(|set| (&set.name, set.count));
    workload.name == draft.name
        && sets.eq(workload.pod_sets.iter().map(|set| (&set.name, set.count)))
        && max_exec(&draft.pods) == workload.max_exec_secs
}

/// The Workload does not match the pods: it is updated or recreated.
fn not_matching(
    pass: &mut PodReconciliation<'_>,
    workload: &ObservedWorkload,
    consensus: &GroupConsensus,
    pods: &[&QueuedPod],
) {
    if pass.stop(pods, reasons::NO_MATCHING_WORKLOAD, stop::NOT_MATCHING) {
        return;
    }
    if any_holds_quota(pods, pass.seen.now) {
        pass.wait(WaitReason::StillActive);
        return pass.requeue_when_grace_period_ends(pods);
    }
    let is_total = consensus.group.size.is_total();
    let is_alive =
        |pod: &QueuedPod| !pod.inactive() && pod.deleting.is_none() && (is_total || !pod.terminated());
    let mut alive: Vec<&QueuedPod> = pods.iter().copied().filter(|pod| is_alive(pod)).collect();
    let mut too_many = Vec::new();
    if let GroupSize::Total(total) = consensus.group.size {
        sort_active(&mut alive);
        too_many = alive.split_off(alive.len().min(total as usize));
    }
    let waits = !workload.facts.has_quota() && alive.iter().any(|pod| pod.gated);
    let agreed = alive.iter().all(|pod| !consensus.disagreements.contains_key(&pod.reference.uid));
    if waits
        && agreed
        && let Ok(sets) = compose(&consensus.group, &alive)
    {
        let (name, queue) = (consensus.group.name.clone(), consensus.group.queue.clone());
        let draft = WorkloadToCreate { name, queue, sets, pods: alive };
        if is_total && is_up_to_date(&workload.facts, &draft) {
            // Recreating it would give the same Workload, in a loop: what does not match are excess pods.
            return pass.delete_excess(too_many.iter().map(|pod| pod.reference.clone()).collect());
        }
        return rewrite(pass, workload, &draft);
    }
    pass.delete_not_matching(workload, pods.first().copied());
}
