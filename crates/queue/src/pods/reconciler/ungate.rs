//! Ungates the pods of an admitted group and applies their PodSetInfo.

use muster_api::event::EventType;
use muster_api::paths::pod as path;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::consts::{gates, reasons};
use muster_tree::{Text, Tree};

use super::finish::{Ended, admitted_count};
use super::status::BySet;
use super::{
    MISSING_OBJECT_RECHECK_INTERVAL, ObservedWorkload, PodAction, PodReconciliation, PodUngate,
    RECHECK_INTERVAL, WaitReason,
};
use crate::jobs::podset_info::{self, PodSetInfo, PodSetInfoError};
use crate::jobs::requests::{self, ResourceAccounting};
use crate::pods::queued_pod::{PodReference, QueuedPod};

/// The ungates and deletions possible now.
#[derive(Default)]
struct UngatePlan {
    openings: Vec<PodUngate>,
    excess: Vec<PodReference>,
    /// A pod has to wait until earlier ungates are observed.
    in_doubt: bool,
}

impl PodReconciliation<'_> {
    /// Ungates pods up to the admitted counts.
    pub(super) fn start(&mut self, workload: &ObservedWorkload, by_set: &BySet<'_>, pods: &[&QueuedPod]) {
        let infos = match podset_info::of_workload(&workload.facts, self.seen.flavor) {
            Ok(infos) => infos,
            Err(PodSetInfoError::FlavorMissing(name)) => {
                self.wait(WaitReason::Flavor(name));
                self.requeue_at(self.seen.now + MISSING_OBJECT_RECHECK_INTERVAL);
                return;
            }
            Err(PodSetInfoError::NotAdmitted) => return self.handle_missing_assignment(workload, pods),
            Err(PodSetInfoError::Clash(clash)) => {
                return self.fail_to_start(workload, clash.to_string(), pods);
            }
        };
        let mut turn = UngatePlan::default();
        for (set, of_set) in by_set {
            // Nothing to ungate: skip the lookup of the PodSetInfo.
            if !of_set.iter().any(|pod| pod.gated) {
                continue;
            }
            let Some(info) = infos.iter().find(|info| info.name == *set) else {
                let why = format!("podSetInfo with the name '{set}' is not found");
                return self.fail_to_start(workload, why, pods);
            };
            if let Err(why) = self.plan_pod_set(&workload.facts, info, of_set, &mut turn) {
                return self.fail_to_start(workload, why, pods);
            }
        }
        self.apply_ungates(turn);
    }

    fn apply_ungates(&mut self, turn: UngatePlan) {
        if !turn.openings.is_empty() {
            self.add(PodAction::Ungate(turn.openings));
        }
        if turn.in_doubt {
            self.wait(WaitReason::UnobservedUngates);
            self.requeue_at(self.seen.now + RECHECK_INTERVAL);
        }
        self.delete_excess(turn.excess);
    }

    /// Deletes excess pods, unless earlier deletions are not observed. Of these only requests with an unknown
    /// outcome are sent again: a pod that lost its finalizer and was not deleted would be stuck.
    pub(super) fn delete_excess(&mut self, mut pods: Vec<PodReference>) {
        if pods.is_empty() {
            return;
        }
        if !self.seen.cleanups.satisfied(&self.seen.key.group()) {
            pods.retain(|pod| self.seen.cleanups.is_indeterminate(&pod.uid));
        }
        match pods.is_empty() {
            true => self.wait(WaitReason::UnobservedCleanups),
            false => self.add(PodAction::DeleteExcess(pods)),
        }
    }

    /// One pod set. A pod with an ungate in flight counts as ungated, so that a stale cache never admits one pod
    /// too many.
    fn plan_pod_set(
        &self,
        workload: &WorkloadFacts,
        info: &PodSetInfo,
        pods: &[&QueuedPod],
        turn: &mut UngatePlan,
    ) -> Result<(), String> {
        let openings = self.seen.ungates;
        let count = admitted_count(workload, &info.name) as usize;
        let is_open = |pod: &&QueuedPod| !pod.gated && !pod.terminated();
        // Ungated as observed, plus ungates in flight that are not observed yet.
        let in_cache = pods.iter().copied().filter(is_open).count();
        let seen_open = |uid: &Text| pods.iter().any(|pod| pod.reference.uid == *uid && !pod.gated);
        let unseen = openings.pods_of_set(&workload.uid, &info.name).filter(|uid| !seen_open(uid)).count();
        let mut admitted = in_cache + unseen;
        let may_open = |pod: &&&QueuedPod| {
            pod.gated && pod.deleting.is_none() && !openings.is_in_flight(&pod.reference.uid)
        };
        for pod in pods.iter().filter(may_open) {
            if openings.is_expected_in(&workload.uid, &info.name, &pod.reference.uid) {
                // Outcome unknown: it counts as ungated, and the request is sent again.
                turn.openings.push(ungate_patch(workload, info, pod)?);
            } else if admitted < count && turn.openings.len() < openings.remaining_capacity() {
                turn.openings.push(ungate_patch(workload, info, pod)?);
                admitted += 1;
            // The observed pods leave room, the unobserved ungates take it: wait for the cache before calling the
            // pod excess.
            } else if in_cache < count {
                turn.in_doubt = true;
            } else {
                turn.excess.push(pod.reference.clone());
            }
        }
        Ok(())
    }

    /// A pod set without assignment can never start. Without any admission the reconciler waits for one.
    fn handle_missing_assignment(&mut self, workload: &ObservedWorkload, pods: &[&QueuedPod]) {
        let facts = &workload.facts;
        let Some(admission) = &facts.admission else { return self.wait(WaitReason::NotAdmitted) };
        let missing = facts.pod_sets.iter().find(|set| admission.assignment(&set.name).is_none());
        if let Some(set) = missing {
            let why = format!("podSetInfo with the name '{}' is not found", set.name);
            self.fail_to_start(workload, why, pods);
        }
    }

    /// The PodSetInfo conflicts with the pod: the Workload fails, unless other pods of the group use its quota.
    /// Then the pods that cannot start stay gated.
    fn fail_to_start(&mut self, workload: &ObservedWorkload, why: String, pods: &[&QueuedPod]) {
        if pods.iter().any(|pod| pod.may_run() || pod.holds_quota(self.seen.now)) {
            if let Some(pod) = pods.iter().find(|pod| pod.gated) {
                self.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, why);
            }
            return;
        }
        self.finish(workload, Ended { reason: reasons::FAILED_TO_START, message: why }, pods);
    }

    /// Why a pod cannot be ungated although its role matches: its requests exceed the reserved ones.
    pub(super) fn exceeds_reserved_requests(
        &self,
        workload: &WorkloadFacts,
        set: &str,
        pod: &QueuedPod,
    ) -> Option<String> {
        let set = workload.pod_set(set)?;
        let requests_of = |tree: &Tree| {
            requests::of_pod(
                &requests::adjust_resources(tree, self.seen.environment),
                &ResourceAccounting::default(),
            )
        };
        let reserved = requests_of(&set.template);
        let more = requests_of(&pod.tree)
            .into_iter()
            .find(|(name, amount)| *amount > reserved.get(name).copied().unwrap_or(0))?;
        let (resource, wants) = more;
        let has = reserved.get(&resource).copied().unwrap_or(0);
        let text = |amount: i64| muster_api::queue::amount_text(&resource, amount);
        Some(format!(
            "pod asks for {} of {resource}, and pod set '{}' reserves {} for each",
            text(wants),
            set.name,
            text(has)
        ))
    }

    /// Adds missing owner references to the Workload; returns whether any were missing.
    pub(super) fn add_owners(&mut self, workload: &ObservedWorkload, pods: &[&QueuedPod]) -> bool {
        let new: Vec<Tree> = pods
            .iter()
            .filter(|pod| !workload.is_owned_by(pod))
            .map(|pod| crate::jobs::construct::pod_owner(&pod.tree))
            .collect();
        if new.is_empty() {
            return false;
        }
        let message = format!("Added {} owner reference(s)", new.len());
        self.add(PodAction::AddOwnerReferences(workload.reference(), new));
        let topic = super::PodEventObject::Workload(workload.reference());
        let (severity, reason) = (EventType::Normal, reasons::OWNERS_ADDED);
        self.add(PodAction::Note(super::PodEvent { object: topic, severity, reason, message }));
        true
    }
}

/// The ungate patch: removes the gates and applies the PodSetInfo in one write.
fn ungate_patch(workload: &WorkloadFacts, info: &PodSetInfo, pod: &QueuedPod) -> Result<PodUngate, String> {
    let with_info = info.merge_into(&pod.tree).map_err(|clash| clash.to_string())?;
    let admission = workload.admission.as_ref();
    // With an assigned topology the topology ungater removes its gate later.
    let placed = admission.and_then(|it| it.assignment(&info.name)).is_some_and(|it| !it.topology.is_empty());
    let goes = |gate: &Tree| match gate.str_at(&["name"]) {
        gates::ADMISSION => true,
        gates::TOPOLOGY => !placed,
        _ => false,
    };
    let left: Vec<Tree> =
        with_info.items_at(path::GATES).iter().filter(|gate| !goes(gate)).cloned().collect();
    let open = with_info.with_option(path::GATES, (!left.is_empty()).then(|| Tree::list(left)));
    let cluster_queue = admission.map(|it| it.cluster_queue.as_str()).unwrap_or_default();
    Ok(PodUngate {
        pod: pod.reference.clone(),
        workload: workload.uid.clone(),
        set: info.name.clone(),
        patch: pod.tree.merge_patch_to(&open).unwrap_or_else(Tree::empty_map),
        message: format!("Admitted by clusterQueue {cluster_queue}"),
    })
}
