//! Status updates of engine decisions: quota reserved, pending, preempted.
//!
//! # Guarantees
//!
//! - The quota reservation, and the admission if no check is pending, are one update.
//! - A pending status that is already written is not written again; its event is deduplicated.
//! - An evicted Workload keeps its reservation until its job has stopped ([`super::steps::release`]).

use std::time::Duration;

use muster_api::queue::consts::{conditions, labels, messages, reasons};
use muster_api::queue::{Admission, Amounts, ClusterQueueFacts, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::Text;

use super::checks;
use super::event_dedup::EventDeduplicator;
use super::metrics::MetricEvent;
use super::pending_reason::PendingReason;
use super::settings::ReasonFormat;
use super::status_builder::{
    Eviction, StatusBase, StatusBuilder, StatusUpdate, UpdateContext, WorkloadEvent, queued_at,
};

/// Message while `blockAdmission` waits for pods.
pub const WAITING_FOR_PODS_READY: &str = "waiting for all admitted workloads to be in PodsReady condition";
/// Kueue prints this for an unknown field.
const UNKNOWN: &str = "UNKNOWN";

/// A quota reservation decided by the engine.
#[derive(Debug, Clone)]
pub struct NewReservation<'a> {
    pub admission: Admission,
    /// The queue it is given in.
    pub queue: &'a ClusterQueueFacts,
    /// The flavors considered, appended to the event; may be empty.
    pub considered: String,
}

/// Reserves quota, and admits the Workload if no check is pending.
#[must_use]
pub fn reserve_quota(known: StatusBase<'_>, share: &NewReservation<'_>, at: UpdateContext) -> StatusUpdate {
    let mut draft = StatusBuilder::new(known, at);
    let queue = &share.admission.cluster_queue;
    clear_eviction(&mut draft);
    let words = messages::quota_reserved(queue);
    draft.set_condition(conditions::QUOTA_RESERVED, true, reasons::QUOTA_RESERVED, &words);
    draft.status.admission = Some(share.admission.clone());
    // `resourceRequests` describes pending Workloads only.
    draft.status.requests.clear();
    let required = checks::required(share.queue, Some(&share.admission));
    draft.status.checks = checks::sync(&draft.status.checks, &required, at.now);
    let waited = queued_at(known).map(|since| at.now.since(since)).unwrap_or_default();
    draft.say(WorkloadEvent::normal(
        reasons::QUOTA_RESERVED,
        &reserved_message(&words, waited, &share.considered),
    ));
    // The base was read before the admission: take the ClusterQueue from the decision.
    let queues = super::metrics::WorkloadQueues { cluster: queue.clone(), ..draft.queues() };
    draft.happened.push(MetricEvent::Reserved { queues, waited });
    let topology = has_pending_topology(&share.admission);
    if !topology && checks::all_ready(&draft.status.checks, &required) {
        set_admitted(&mut draft, known, Duration::ZERO, !required.is_empty());
    } else {
        set_not_admitted(&mut draft, topology);
    }
    draft.build()
}

/// Sets `Evicted` and `Preempted` to False, with the previous message.
fn clear_eviction(draft: &mut StatusBuilder<'_>) {
    for kind in [conditions::EVICTED, conditions::PREEMPTED] {
        let Some(old) = draft.condition(kind).filter(|it| it.holds) else { continue };
        let words = messages::previously(&old.message);
        draft.set_condition(kind, false, reasons::QUOTA_RESERVED, &words);
    }
}

fn reserved_message(words: &str, waited: Duration, considered: &str) -> String {
    let text = format!("{words}, wait time since queued was {}s", waited.as_secs());
    if considered.is_empty() { text } else { format!("{text}; Flavors considered: {considered}") }
}

/// Sets `Admitted=True`. `had_checks`: the time since the reservation was spent in admission checks.
pub(super) fn set_admitted(
    draft: &mut StatusBuilder<'_>,
    known: StatusBase<'_>,
    waited: Duration,
    had_checks: bool,
) {
    let Some(cluster) = draft.status.admission.as_ref().map(|it| it.cluster_queue.clone()) else { return };
    draft.set_condition(conditions::ADMITTED, true, reasons::ADMITTED, messages::ADMITTED);
    let secs = waited.as_secs();
    let words = format!("Admitted by ClusterQueue {cluster}, wait time since reservation was {secs}s");
    draft.say(WorkloadEvent::normal(reasons::ADMITTED, &words));
    let queued = queued_at(known).map(|since| draft.at.now.since(since)).unwrap_or_default();
    let queues = super::metrics::WorkloadQueues { cluster, ..draft.queues() };
    let checks = had_checks.then_some(waited);
    draft.happened.push(MetricEvent::Admitted { queues, waited: queued, checks });
}

/// Sets `Admitted=False`. The legacy format omits the condition before the first admission.
pub(super) fn set_not_admitted(draft: &mut StatusBuilder<'_>, waits_for_places: bool) {
    let old = draft.at.format == ReasonFormat::Legacy;
    if old && draft.condition(conditions::ADMITTED).is_none() {
        return;
    }
    let (reason, message) = match (waits_for_places, old) {
        (true, _) => (reasons::PENDING_TOPOLOGY, messages::PENDING_TOPOLOGY),
        (false, true) => (reasons::OLD_UNSATISFIED_CHECKS, messages::UNSATISFIED_CHECKS),
        (false, false) => (reasons::UNSATISFIED_CHECKS, messages::UNSATISFIED_CHECKS),
    };
    draft.set_condition(conditions::ADMITTED, false, reason, message);
}

/// Whether a pod set waits for a delayed topology assignment.
pub(super) fn has_pending_topology(admission: &Admission) -> bool {
    admission.assignments.iter().any(|it| it.delayed_topology == "Pending")
}

/// A pending status decided by the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingUpdate {
    pub reason: PendingReason,
    pub message: String,
    /// Requests of each pod set.
    pub requests: Vec<(Text, Amounts)>,
}

impl PendingUpdate {
    #[must_use]
    pub fn waiting_for_pods_ready(requests: Vec<(Text, Amounts)>) -> PendingUpdate {
        PendingUpdate {
            reason: PendingReason::WaitingForPodsReady,
            message: WAITING_FOR_PODS_READY.to_owned(),
            requests,
        }
    }
}

/// Whether `blockAdmission` applies: an admitted Workload is not ready.
pub fn must_wait_for_pods_ready<'a>(admitted: impl IntoIterator<Item = &'a WorkloadFacts>) -> bool {
    let unready =
        |it: &WorkloadFacts| it.is_admitted() && !it.is_finished() && !it.holds(conditions::PODS_READY);
    admitted.into_iter().any(unready)
}

/// Writes the pending status. A Workload with a reservation is left unchanged: the decision was based on an older
/// read.
#[must_use]
pub fn set_pending(
    known: StatusBase<'_>,
    refusal: &PendingUpdate,
    dedup: &mut EventDeduplicator,
    at: UpdateContext,
) -> StatusUpdate {
    let mut draft = StatusBuilder::new(known, at);
    if draft.has_quota() {
        return StatusUpdate::default();
    }
    let reason = refusal.reason.condition_reason(at.format);
    draft.set_condition(conditions::QUOTA_RESERVED, false, reason, &refusal.message);
    draft.status.requests.clone_from(&refusal.requests);
    // The condition is written whenever it changes; an equal event is emitted at most once a minute.
    if dedup.should_emit(&known.workload.uid, reason, &refusal.message, at.now) {
        draft.say(WorkloadEvent::warning(reason, &refusal.message));
    }
    draft.build()
}

/// The reason of condition `Preempted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptedReason {
    /// Both are in one queue.
    InClusterQueue,
    Reclamation,
    FairSharing,
    /// Reclaimed by a ClusterQueue that borrows itself.
    ReclaimWhileBorrowing,
}

impl PreemptedReason {
    pub const ALL: [PreemptedReason; 4] = [
        PreemptedReason::InClusterQueue,
        PreemptedReason::Reclamation,
        PreemptedReason::FairSharing,
        PreemptedReason::ReclaimWhileBorrowing,
    ];

    /// Reason of the condition.
    #[must_use]
    pub fn condition_reason(self) -> &'static str {
        match self {
            PreemptedReason::InClusterQueue => reasons::IN_CLUSTER_QUEUE,
            PreemptedReason::Reclamation => reasons::IN_COHORT_RECLAMATION,
            PreemptedReason::FairSharing => reasons::IN_COHORT_FAIR_SHARING,
            PreemptedReason::ReclaimWhileBorrowing => reasons::IN_COHORT_RECLAIM_WHILE_BORROWING,
        }
    }

    fn human_readable(self) -> &'static str {
        match self {
            PreemptedReason::InClusterQueue => "prioritization in the ClusterQueue",
            PreemptedReason::Reclamation => "reclamation within the cohort",
            PreemptedReason::FairSharing => "Fair Sharing within the cohort",
            PreemptedReason::ReclaimWhileBorrowing => "reclamation within the cohort while borrowing",
        }
    }
}

/// Preemptor or victim of a preemption.
#[derive(Debug, Clone, Copy)]
pub struct PreemptionSide<'a> {
    pub workload: &'a WorkloadFacts,
    /// Fair sharing path [`super::cohorts::path_text`]; may be empty.
    pub path: &'a str,
    pub cluster_queue: &'a str,
    pub boost: i64,
}

impl PreemptionSide<'_> {
    fn priority_words(&self) -> String {
        let base = self.workload.priority;
        format!("{} (base: {base}, boost: {})", base.saturating_add(self.boost), self.boost)
    }

    fn path(&self) -> &str {
        or_unknown(self.path)
    }
}

/// The updates of a preemption.
#[derive(Debug, Clone, PartialEq)]
pub struct PreemptionUpdate {
    pub victim: StatusUpdate,
    pub preemptor_event: WorkloadEvent,
}

/// The texts of a preemption.
#[derive(Debug, Clone, Copy)]
pub struct PreemptionMessage<'a> {
    pub why: PreemptedReason,
    /// The queue of the other.
    pub preempting_cluster_queue: &'a str,
    pub message: &'a str,
    /// Text that the event appends to the message.
    pub event_suffix: &'a str,
}

/// Evicts a victim. None if it is evicted already, is finished or has no reservation: the caller treats that as
/// done.
#[must_use]
pub fn preempt(
    known: StatusBase<'_>,
    victim: PreemptionSide<'_>,
    preemptor: PreemptionSide<'_>,
    why: PreemptedReason,
    at: UpdateContext,
) -> Option<PreemptionUpdate> {
    let message = preemption_words(&victim, &preemptor, why);
    let suffix = format!(
        "; preemptor effective priority: {}; preemptee effective priority: {}",
        preemptor.priority_words(),
        victim.priority_words()
    );
    let saying = PreemptionMessage {
        why,
        preempting_cluster_queue: preemptor.cluster_queue,
        message: &message,
        event_suffix: &suffix,
    };
    preempt_with_message(known, saying, at)
}

/// Like [`preempt`], with given texts.
#[must_use]
pub fn preempt_with_message(
    known: StatusBase<'_>,
    saying: PreemptionMessage<'_>,
    at: UpdateContext,
) -> Option<PreemptionUpdate> {
    let mut draft = StatusBuilder::new(known, at);
    // Evicted or finished since the decision: the quota is released anyway.
    let leaves = [conditions::EVICTED, conditions::FINISHED].iter().any(|it| draft.status.holds(it));
    if leaves || !draft.has_quota() {
        return None;
    }
    let PreemptionMessage { why, preempting_cluster_queue: by, message, event_suffix: suffix } = saying;
    draft.evict(&Eviction { reason: reasons::PREEMPTED, cause: "", message });
    draft.set_condition(conditions::PREEMPTED, true, why.condition_reason(), message);
    draft.say(WorkloadEvent::normal(reasons::PREEMPTED, &format!("{message}{suffix}")));
    draft.happened.push(MetricEvent::Preempted { by: by.into(), reason: why.condition_reason().into() });
    let it = known.workload;
    let (namespace, name, uid) = (&it.namespace, &it.name, &it.uid);
    let text = format!("Preempted workload {namespace}/{name} (UID: {uid}) due to {}", why.human_readable());
    Some(PreemptionUpdate {
        victim: draft.build(),
        preemptor_event: WorkloadEvent::normal(reasons::PREEMPTED_WORKLOAD, &text),
    })
}

fn preemption_words(
    victim: &PreemptionSide<'_>,
    preemptor: &PreemptionSide<'_>,
    why: PreemptedReason,
) -> String {
    let it = preemptor.workload;
    format!(
        "Preempted to accommodate a workload (UID: {}, JobUID: {}) due to {}; preemptor path: {}; preemptee path: {}",
        or_unknown(&it.uid),
        or_unknown(it.label(labels::JOB_UID).unwrap_or_default()),
        why.human_readable(),
        preemptor.path(),
        victim.path()
    )
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}

#[must_use]
pub fn queued_duration(known: StatusBase<'_>, now: Time) -> Duration {
    queued_at(known).map(|since| now.since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn block_admission_waits_for_pods_ready() {
        let one = |types: &[&str]| {
            let all = types.iter().map(|it| tree!({"type": *it, "status": "True"}));
            let conditions: Vec<muster_tree::Tree> = all.collect();
            WorkloadFacts::of(&tree!({"status": {"conditions": conditions}}))
        };
        for (types, want) in [
            (&["QuotaReserved"][..], false),
            (&["QuotaReserved", "Admitted"], true),
            (&["QuotaReserved", "Admitted", "PodsReady"], false),
            (&["QuotaReserved", "Admitted", "Finished"], false),
        ] {
            let ready = one(&["Admitted", "PodsReady"]);
            assert_eq!(must_wait_for_pods_ready([&ready, &one(types)]), want, "{types:?}");
        }
        assert!(!must_wait_for_pods_ready([]), "nobody is there");
    }
}
