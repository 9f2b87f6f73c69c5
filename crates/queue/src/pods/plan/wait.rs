//! What a Workload is told of its pods while it waits and runs: who is missing, who is done, who is ready.

use std::collections::BTreeMap;

use muster_api::event::Severity;
use muster_api::meta;
use muster_api::pod::Phase;
use muster_api::queue::words::{conditions, labels, messages, reasons};
use muster_api::queue::{State, WorkloadFacts};
use muster_tree::Text;

use super::end::{admitted_count, admitted_sum};
use super::{Action, Key, Pass, SeenWorkload};
use crate::jobs::priority::{self, Asked};
use crate::pods::decl::Mode;
use crate::pods::group::{Group, Size};
use crate::pods::member::Member;

/// The pods of each set of a Workload.
pub(super) type BySet<'p> = BTreeMap<Text, Vec<&'p Member>>;

/// How many pods are missing that somebody has to make anew. Pods that were never made are not missing: a group that its
/// first pod declares could never queue otherwise.
pub(super) fn absent(group: &Group, workload: &WorkloadFacts, by_set: &BySet<'_>) -> u64 {
    let pods = |set: &str| by_set.get(set).map(Vec::as_slice).unwrap_or_default();
    if workload.has_quota() {
        let missing = |set: &str| {
            let count =
                |fits: &dyn Fn(&Member) -> bool| pods(set).iter().filter(|pod| fits(pod)).count() as u64;
            let failed = count(&|pod| pod.phase == Phase::Failed && !pod.let_go());
            let busy = count(&|pod| !pod.terminated())
                + count(&|pod| pod.phase == Phase::Succeeded && !pod.let_go());
            failed.min(u64::from(admitted_count(workload, set)).saturating_sub(busy))
        };
        return workload.pod_sets.iter().map(|set| missing(&set.name)).sum();
    }
    let is_alive = |pod: &&&Member| !pod.terminated() && pod.deleting.is_none();
    let has_pod = |set: &str| pods(set).iter().any(|pod| is_alive(&pod));
    match &group.size {
        Size::Count(_) | Size::Roles(_) => {
            workload.pod_sets.iter().filter(|set| !has_pod(&set.name)).count() as u64
        }
        Size::Sets(declared) => {
            let bare =
                declared.iter().filter(|set| set.template.is_none() && !has_pod(&set.name)).count() as u64;
            let carried = by_set.values().flatten().any(|pod| pod.decl.mode == Mode::Sets && is_alive(&pod));
            bare.max(u64::from(!carried))
        }
        // Nobody declares any more what would be needed: any pod of the group is a beginning.
        Size::Unsaid => u64::from(!by_set.values().flatten().any(|pod| is_alive(&pod))),
        Size::Prebuilt | Size::Total(_) => 0,
    }
}

impl Pass<'_> {
    /// Writes whether replacements are waited for, where that changes; whether it was written.
    pub(super) fn tell_waiting(&mut self, workload: &SeenWorkload, absent: u64) -> bool {
        let facts = &workload.facts;
        let told = facts.condition(conditions::WAITING_FOR_REPLACEMENT_PODS);
        let holds = absent > 0;
        let evicted = facts.condition(conditions::EVICTED).filter(|it| it.holds);
        let (reason, message) = match (told.filter(|it| it.holds), holds, evicted) {
            (None, false, _) | (Some(_), true, None) => return false,
            // Pods are missing for another reason since an eviction.
            (Some(told), true, Some(evicted))
                if (&told.reason, &told.message) == (&evicted.reason, &evicted.message) =>
            {
                return false;
            }
            (Some(_), false, _) => (reasons::PODS_READY.into(), messages::NO_PODS_NEEDED.into()),
            (_, true, Some(evicted)) => (evicted.reason.clone(), evicted.message.clone()),
            (None, true, None) => (reasons::PODS_FAILED.into(), messages::PODS_FAILED.into()),
        };
        self.add(Action::TellWaiting { workload: workload.this(), holds, reason, message });
        true
    }

    /// Writes how many pods of each role are done; whether it was written. Their number never goes down.
    pub(super) fn tell_reclaimable(
        &mut self,
        group: &Group,
        workload: &SeenWorkload,
        by_set: &BySet<'_>,
    ) -> bool {
        let facts = &workload.facts;
        if !group.size.is_total() || group.serving || !facts.has_quota() {
            return false;
        }
        let done = |set: &muster_api::queue::PodSet| {
            let pods = by_set.get(&set.name).map(Vec::as_slice).unwrap_or_default();
            let done = u32::try_from(pods.iter().filter(|pod| pod.phase == Phase::Succeeded).count())
                .unwrap_or(u32::MAX);
            let told = facts.reclaimable.get(&set.name).copied().unwrap_or(0);
            (set.name.clone(), done.min(set.count).max(told))
        };
        let now: Vec<(Text, u32)> = facts.pod_sets.iter().map(done).filter(|(_, done)| *done > 0).collect();
        if now.iter().cloned().eq(facts.reclaimable.clone()) || now.is_empty() {
            return false;
        }
        self.add(Action::TellReclaimable(workload.this(), now));
        true
    }

    /// Tells whether the pods are ready, where anybody asks and it changed; whether it was told.
    pub(super) fn tell_ready(&mut self, workload: &SeenWorkload, pods: &[&Member]) -> bool {
        let facts = &workload.facts;
        if !self.seen.settings.tells_ready || facts.is_evicted() {
            return false;
        }
        let ready = self.all_ready(facts, pods);
        let changed = match facts.condition(conditions::PODS_READY) {
            None => true,
            Some(told) if facts.is_admitted() => told.holds != ready,
            Some(told) => told.holds || told.reason != reasons::WAIT_FOR_START,
        };
        if changed {
            self.add(Action::TellReady(workload.this(), ready));
        }
        changed
    }

    fn all_ready(&self, workload: &WorkloadFacts, pods: &[&Member]) -> bool {
        // Only groups by total keep pods that were stopped: the others let them go.
        let is_kept = |pod: &Member| !pod.ended_stopped() || pod.decl.mode == Mode::Total;
        let counted: Vec<&&Member> = pods.iter().filter(|pod| !pod.inactive() && is_kept(pod)).collect();
        let enough = match self.seen.key {
            Key::Pod { .. } => !counted.is_empty(),
            Key::Group { .. } => counted.len() as u64 >= admitted_sum(workload),
        };
        enough && counted.iter().all(|pod| pod.ready || pod.phase == Phase::Succeeded)
    }

    /// Tells the pods what checks say while they are waited for.
    pub(super) fn tell_checks(&mut self, workload: &SeenWorkload, pods: &[&Member]) {
        let facts = &workload.facts;
        if !facts.has_quota() || facts.is_admitted() {
            return;
        }
        let said = facts.checks.iter().filter(|it| it.state == State::Pending && !it.message.is_empty());
        let message = said.map(|it| format!("{}: {}", it.name, it.message)).collect::<Vec<_>>().join("; ");
        if message.is_empty() {
            return;
        }
        for pod in pods {
            let topic = super::Topic::Pod(pod.this.clone());
            let (severity, reason) = (Severity::Normal, reasons::UPDATED_CHECK);
            self.add(Action::NoteOnce(super::Note { topic, severity, reason, message: message.clone() }));
        }
    }

    /// Gives a Workload the class that its pods name by label, where that changed; whether it does. A class of pods is no
    /// label's business, and whether there is a class at all is fixed with the share.
    pub(super) fn follow_priority(&mut self, workload: &SeenWorkload, pods: &[&Member]) -> bool {
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
        match priority::resolve(Asked { label: name, ..Asked::default() }, self.seen.classes) {
            Ok(resolved) => {
                let message = format!("Updated workload priority class: {}", self.full_name(&facts.name));
                self.add(Action::ChangePriority(workload.this(), resolved));
                self.note(pod, Severity::Normal, reasons::UPDATED_WORKLOAD, message);
                true
            }
            Err(missing) => {
                let words = format!("{} {} not found", missing.0.kind, missing.0.name);
                self.warn_once(pod, reasons::PRIORITY_CLASS_NOT_FOUND, words);
                false
            }
        }
    }

    /// Moves a Workload that waits to the queue that all its pods name; whether it is moved.
    pub(super) fn follow_queue(&mut self, workload: &SeenWorkload, queue: &Text, pods: &[&Member]) -> bool {
        let facts = &workload.facts;
        let waits = !facts.has_quota() && !facts.is_admitted() && pods.iter().all(|pod| pod.suspended());
        if !waits || facts.queue == *queue || queue.is_empty() {
            return false;
        }
        self.add(Action::ChangeQueue(workload.this(), queue.clone()));
        true
    }
}
