//! The end: of the work, of a Workload whose pods are gone, and of pods that nobody waits for.

use muster_api::pod::Phase;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::words::{annotations, messages, reasons};

use super::{Action, Comeback, Note, Pass, SeenWorkload, Topic};
use crate::pods::group::{Group, Size};
use crate::pods::member::Member;

/// How a group ended.
pub(super) struct Ended {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// How many pods of a set were admitted: as many as it has when nothing else is said.
pub(super) fn admitted_count(workload: &WorkloadFacts, set: &str) -> u32 {
    let spec = workload.pod_set(set).map_or(0, |set| set.count);
    let given = workload.admission.as_ref().and_then(|it| it.assignment(set)).and_then(|it| it.count);
    given.unwrap_or(spec)
}

/// How many pods were admitted altogether.
pub(super) fn admitted_sum(workload: &WorkloadFacts) -> u64 {
    workload.pod_sets.iter().map(|set| u64::from(admitted_count(workload, &set.name))).sum()
}

/// How a group ended, if it has; `pods` are those that belong to its Workload.
pub(super) fn ended(group: &Group, workload: &WorkloadFacts, pods: &[&Member]) -> Option<Ended> {
    if group.serving {
        return None;
    }
    match &group.size {
        Size::Total(total) => total_ended(u64::from(*total), admitted_sum(workload), pods),
        Size::Count(_) | Size::Roles(_) | Size::Sets(_) | Size::Prebuilt | Size::Unsaid => {
            counted_ended(admitted_sum(workload), pods)
        }
    }
}

/// As many pods have succeeded as were declared, and as many as were admitted: the number that is declared can be changed
/// while they run. As in Kueue, a pod that succeeds while it is stopped counts.
fn total_ended(declared: u64, admitted: u64, pods: &[&Member]) -> Option<Ended> {
    let total = declared.max(admitted);
    let succeeded = pods.iter().filter(|pod| pod.phase == Phase::Succeeded).count() as u64;
    let message = format!("Pods succeeded: {succeeded}/{total}.");
    let done = succeeded >= total || given_up(pods);
    done.then_some(Ended { reason: reasons::SUCCEEDED, message })
}

/// Nobody is alive, and somebody says that nobody will be replaced.
fn given_up(pods: &[&Member]) -> bool {
    pods.iter().all(|pod| pod.terminated() || pod.stillborn()) && pods.iter().any(|pod| !pod.decl.retriable)
}

/// As many pods have ended as were admitted, and none is alive. Pods that we stopped have not ended by themselves.
fn counted_ended(admitted: u64, pods: &[&Member]) -> Option<Ended> {
    let counted: Vec<&Member> =
        pods.iter().copied().filter(|pod| pod.terminated() && pod.finalizer && !pod.stopped).collect();
    let alive = pods.iter().any(|pod| !pod.terminated());
    let unstopped: Vec<&Member> = pods.iter().copied().filter(|pod| !pod.stopped).collect();
    let done = !alive && (counted.len() as u64 >= admitted || given_up(&unstopped));
    if !done || counted.is_empty() {
        return None;
    }
    let succeeded = counted.iter().filter(|pod| pod.phase == Phase::Succeeded).count();
    let reason = if succeeded == counted.len() { reasons::SUCCEEDED } else { reasons::FAILED };
    Some(Ended { reason, message: format!("Pods succeeded: {succeeded}/{admitted}.") })
}

impl Pass<'_> {
    /// Tells the Workload that it has ended, then lets its pods go.
    pub(super) fn finish(&mut self, workload: &SeenWorkload, ended: Ended, pods: &[&Member]) {
        let name = self.full_name(&workload.facts.name);
        self.add(Action::Finish { workload: workload.this(), reason: ended.reason, message: ended.message });
        if let Some(pod) = pods.first() {
            let message = format!("Workload '{name}' is declared finished");
            self.note(pod, muster_api::event::Severity::Normal, reasons::FINISHED_WORKLOAD, message);
        }
        self.let_go(pods.iter().copied());
    }

    /// No pod of the key is left: its Workloads end and are let go.
    pub(super) fn without_pods(&mut self) {
        let seen = self.seen;
        for workload in seen.workloads {
            let facts = &workload.facts;
            let is_group = matches!(seen.key, super::Key::Group { .. });
            let is_pod = |owner: &muster_api::meta::Owner| owner.kind == "Pod" && owner.group().is_empty();
            // A Workload that a user made for pods to come has no owner yet; one without our mark is another's.
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
                // A user made it for pods that have not come: there is nothing to stop.
                self.add(Action::Release(workload.this(), Comeback::Possible));
                continue;
            }
            if is_foreign || (is_group && !is_of_group(facts)) {
                continue;
            }
            if facts.controller().is_some() && !facts.deleting && !facts.is_finished() {
                let message = messages::OWNER_NOT_FOUND.to_owned();
                self.add(Action::Finish {
                    workload: workload.this(),
                    reason: reasons::OWNER_NOT_FOUND,
                    message,
                });
                continue;
            }
            self.let_workload_go(workload);
        }
    }

    /// Deletes a Workload that is not what its pods are, and tells.
    pub(super) fn delete_not_matching(&mut self, workload: &SeenWorkload, pod: Option<&Member>) {
        let message = format!("Deleted not matching Workload: {}", self.full_name(&workload.facts.name));
        self.add(Action::DeleteWorkload(workload.this()));
        if let Some(pod) = pod {
            let topic = Topic::Pod(pod.this.clone());
            let severity = muster_api::event::Severity::Normal;
            self.add(Action::Note(Note { topic, severity, reason: reasons::DELETED_WORKLOAD, message }));
        }
    }
}

/// Whether a Workload is that of a group.
pub(super) fn is_of_group(workload: &WorkloadFacts) -> bool {
    workload.annotation(annotations::IS_GROUP_WORKLOAD) == Some(muster_api::queue::words::TRUE)
}
