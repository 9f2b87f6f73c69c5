//! Finishing: groups that have finished, Workloads without pods, and Workloads that do not match.

use muster_api::pod::PodPhase;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::consts::{annotations, messages, reasons};

use super::{ObservedWorkload, PodAction, PodEvent, PodEventObject, PodReconciliation, PodRequeueability};
use crate::pods::group::{GroupDeclaration, GroupSize};
use crate::pods::queued_pod::QueuedPod;

/// The outcome of a group.
pub(super) struct Ended {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The admitted pod count of a pod set; the spec's count if the admission does not say.
pub(super) fn admitted_count(workload: &WorkloadFacts, set: &str) -> u32 {
    let spec = workload.pod_set(set).map_or(0, |set| set.count);
    let assigned = workload.admission.as_ref().and_then(|it| it.assignment(set)).and_then(|it| it.count);
    assigned.unwrap_or(spec)
}

pub(super) fn admitted_sum(workload: &WorkloadFacts) -> u64 {
    workload.pod_sets.iter().map(|set| u64::from(admitted_count(workload, &set.name))).sum()
}

/// The outcome of a group, if it has finished. `pods` are those of its Workload.
pub(super) fn ended(
    group: &GroupDeclaration,
    workload: &WorkloadFacts,
    pods: &[&QueuedPod],
) -> Option<Ended> {
    if group.serving {
        return None;
    }
    match &group.size {
        GroupSize::Total(total) => total_outcome(u64::from(*total), admitted_sum(workload), pods),
        GroupSize::Count(_)
        | GroupSize::Roles(_)
        | GroupSize::Sets(_)
        | GroupSize::Prebuilt
        | GroupSize::Undeclared => counted_outcome(admitted_sum(workload), pods),
    }
}

/// Finished when as many pods succeeded as were declared, and as were admitted: the declared count can change while
/// they run. As in Kueue, a pod that succeeds while being stopped counts.
fn total_outcome(declared: u64, admitted: u64, pods: &[&QueuedPod]) -> Option<Ended> {
    // A tenant could lower the declared count while pods run, and finish the group early.
    let total = declared.max(admitted);
    let succeeded = pods.iter().filter(|pod| pod.phase == PodPhase::Succeeded).count() as u64;
    let message = format!("Pods succeeded: {succeeded}/{total}.");
    let done = succeeded >= total || is_unretriable(pods);
    done.then_some(Ended { reason: reasons::SUCCEEDED, message })
}

/// All pods have terminated, and one is annotated as not retriable.
fn is_unretriable(pods: &[&QueuedPod]) -> bool {
    pods.iter().all(|pod| pod.terminated() || pod.deleted_unscheduled())
        && pods.iter().any(|pod| !pod.group_metadata.retriable)
}

/// Finished when as many pods terminated as were admitted and none is alive. Pods that we stopped do not count.
fn counted_outcome(admitted: u64, pods: &[&QueuedPod]) -> Option<Ended> {
    let counted: Vec<&QueuedPod> =
        pods.iter().copied().filter(|pod| pod.terminated() && pod.finalizer && !pod.stopped).collect();
    let alive = pods.iter().any(|pod| !pod.terminated());
    let unstopped: Vec<&QueuedPod> = pods.iter().copied().filter(|pod| !pod.stopped).collect();
    let done = !alive && (counted.len() as u64 >= admitted || is_unretriable(&unstopped));
    // Without a pod that terminated by itself there is no outcome.
    if !done || counted.is_empty() {
        return None;
    }
    let succeeded = counted.iter().filter(|pod| pod.phase == PodPhase::Succeeded).count();
    let reason = if succeeded == counted.len() { reasons::SUCCEEDED } else { reasons::FAILED };
    Some(Ended { reason, message: format!("Pods succeeded: {succeeded}/{admitted}.") })
}

impl PodReconciliation<'_> {
    /// Sets `Finished`, then removes pod finalizers.
    pub(super) fn finish(&mut self, workload: &ObservedWorkload, ended: Ended, pods: &[&QueuedPod]) {
        let name = self.full_name(&workload.facts.name);
        self.add(PodAction::Finish {
            workload: workload.reference(),
            reason: ended.reason,
            message: ended.message,
        });
        if let Some(pod) = pods.first() {
            let message = format!("Workload '{name}' is declared finished");
            self.emit_event(pod, muster_api::event::EventType::Normal, reasons::FINISHED_WORKLOAD, message);
        }
        self.remove_finalizers(pods.iter().copied());
    }

    /// No pod of the key is left: finishes its Workloads and removes their finalizers.
    pub(super) fn without_pods(&mut self) {
        let seen = self.seen;
        for workload in seen.workloads {
            let facts = &workload.facts;
            let is_group = matches!(seen.key, super::PodReconcileKey::Group { .. });
            let is_pod =
                |owner: &muster_api::meta::OwnerReference| owner.kind == "Pod" && owner.group().is_empty();
            // A prebuilt Workload created before its pods has no owner yet; one without the group annotation is
            // foreign.
            let is_foreign = match facts.controller() {
                Some(owner) => is_group || !is_pod(owner),
                None => !facts.deleting && !facts.owners.iter().any(is_pod),
            };
            if is_group
                && is_of_group(facts)
                && facts.owners.is_empty()
                && facts.is_evicted()
                && facts.has_quota()
            {
                // Prebuilt, with no pods yet: there is nothing to stop.
                self.add(PodAction::ReleaseQuota(workload.reference(), PodRequeueability::Possible));
                continue;
            }
            if is_foreign || (is_group && !is_of_group(facts)) {
                continue;
            }
            if facts.controller().is_some() && !facts.deleting && !facts.is_finished() {
                let message = messages::OWNER_NOT_FOUND.to_owned();
                self.add(PodAction::Finish {
                    workload: workload.reference(),
                    reason: reasons::OWNER_NOT_FOUND,
                    message,
                });
                continue;
            }
            self.remove_workload_finalizer(workload);
        }
    }

    /// Deletes a Workload that does not match its pods, with an event.
    pub(super) fn delete_not_matching(&mut self, workload: &ObservedWorkload, pod: Option<&QueuedPod>) {
        let message = format!("Deleted not matching Workload: {}", self.full_name(&workload.facts.name));
        self.add(PodAction::DeleteWorkload(workload.reference()));
        if let Some(pod) = pod {
            let topic = PodEventObject::Pod(pod.reference.clone());
            let severity = muster_api::event::EventType::Normal;
            self.add(PodAction::Note(PodEvent {
                object: topic,
                severity,
                reason: reasons::DELETED_WORKLOAD,
                message,
            }));
        }
    }
}

pub(super) fn is_of_group(workload: &WorkloadFacts) -> bool {
    workload.annotation(annotations::IS_GROUP_WORKLOAD) == Some(muster_api::queue::consts::TRUE)
}
