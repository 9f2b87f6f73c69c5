//! Workload transitions shared by the Workload, job and pod reconcilers.
//!
//! Each returns a status update, or None if nothing is to be done. All are idempotent.

use std::collections::BTreeMap;

use muster_api::queue::consts::{annotations, conditions, messages, reasons};
use muster_api::queue::{PodSet, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::Text;

use super::metrics::MetricEvent;
use super::pending_reason::PendingCondition;
use super::settings::ReconcilerSettings;
use super::status_builder::{
    StatusBase, StatusBuilder, StatusUpdate, UpdateContext, deactivation_cause, pending_after_eviction,
};

/// The phase of a Workload, by its conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadPhase {
    Pending,
    /// Quota reserved, admission checks pending.
    QuotaReserved,
    Admitted,
    Finished,
}

/// The phase of a Workload, by its conditions.
#[must_use]
pub fn phase(workload: &WorkloadFacts) -> WorkloadPhase {
    if workload.is_finished() {
        WorkloadPhase::Finished
    } else if workload.is_admitted() {
        WorkloadPhase::Admitted
    } else if workload.has_quota() {
        WorkloadPhase::QuotaReserved
    } else {
        WorkloadPhase::Pending
    }
}

/// The gates in annotation `admission-gated-by`.
#[must_use]
pub fn admission_gates(workload: &WorkloadFacts) -> Vec<Text> {
    let list = workload.annotation(annotations::ADMISSION_GATED_BY).unwrap_or_default();
    list.split(',').map(str::trim).filter(|it| !it.is_empty()).map(Text::from).collect()
}

#[must_use]
pub fn is_on_hold(workload: &WorkloadFacts) -> bool {
    let reserved = workload.condition(conditions::QUOTA_RESERVED);
    reserved.is_some_and(|it| !it.holds && it.reason == reasons::ON_HOLD)
}

/// Whether a Workload may be in a pending queue.
#[must_use]
pub fn is_queueable(workload: &WorkloadFacts) -> bool {
    phase(workload) == WorkloadPhase::Pending
        && workload.active
        && !workload.deleting
        && admission_gates(workload).is_empty()
        && !is_on_hold(workload)
        && !workload.holds(conditions::WAITING_FOR_REPLACEMENT_PODS)
}

/// Whether a queued Workload may be nominated: `Requeued` is not False and the requeue backoff has ended.
#[must_use]
pub fn is_schedulable(workload: &WorkloadFacts, now: Time) -> bool {
    let held_back = workload.condition(conditions::REQUEUED).is_some_and(|it| !it.holds);
    let waits = workload.requeue.and_then(|it| it.at).is_some_and(|at| at > now);
    is_queueable(workload) && !held_back && !waits
}

/// Whether an evicted Workload may be requeued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeueability {
    /// Its job can be started again, or replacement pods can be created.
    Possible,
    /// Its only pod was deleted: a plain pod is never recreated.
    Never,
}

/// Completes an eviction: releases the quota once the job is observed as stopped. None if no quota is reserved or
/// the Workload is not evicted.
#[must_use]
pub fn release_quota(
    known: StatusBase<'_>,
    comeback: Requeueability,
    at: UpdateContext,
) -> Option<StatusUpdate> {
    let mut draft = StatusBuilder::new(known, at);
    if draft.status.holds(conditions::FINISHED) {
        return None;
    }
    let evicted = draft.condition(conditions::EVICTED).filter(|it| it.holds).cloned();
    let evicted = evicted.filter(|_| draft.has_quota() || draft.status.admission.is_some())?;
    let (reason, message) = (evicted.reason.as_str(), evicted.message.as_str());
    // All other reasons are requeued by the Workload reconciler: after a backoff, a restarted queue or a
    // reactivation.
    let by_itself = matches!(reason, reasons::PREEMPTED | reasons::NODE_FAILURES);
    draft.set_condition(
        conditions::REQUEUED,
        by_itself && comeback == Requeueability::Possible,
        reason,
        message,
    );
    draft.unset_quota_reservation(&pending_after_eviction(reason, message));
    Some(draft.build())
}

/// Puts a Workload on hold: releases its quota or reports `OnHold`.
#[must_use]
pub fn put_on_hold(known: StatusBase<'_>, message: &str, at: UpdateContext) -> Option<StatusUpdate> {
    let mut draft = StatusBuilder::new(known, at);
    if draft.status.holds(conditions::FINISHED) {
        return None;
    }
    let blocker = PendingCondition::on_hold(message);
    if draft.has_quota() || draft.status.admission.is_some() {
        draft.unset_quota_reservation(&blocker);
    } else {
        draft.set_pending(&blocker);
    }
    Some(draft.build()).filter(|it| !it.is_empty())
}

/// Ends a hold. None if the Workload is not on hold.
#[must_use]
pub fn end_hold(known: StatusBase<'_>, at: UpdateContext) -> Option<StatusUpdate> {
    if !is_on_hold(known.workload) {
        return None;
    }
    let mut draft = StatusBuilder::new(known, at);
    draft.set_pending(&PendingCondition::pending_evaluation());
    Some(draft.build())
}

/// Sets `Finished`. None if it is set: the first outcome stays.
#[must_use]
pub fn finish(known: StatusBase<'_>, reason: &str, message: &str, at: UpdateContext) -> Option<StatusUpdate> {
    let mut draft = StatusBuilder::new(known, at);
    if draft.status.holds(conditions::FINISHED) {
        return None;
    }
    draft.set_condition(conditions::FINISHED, true, reason, message);
    let queues = draft.queues();
    draft.happened.push(MetricEvent::Finished { queues });
    Some(draft.build())
}

/// Sets `PodsReady`. None if `waitForPodsReady` is off, the Workload is evicted or finished, or the condition is
/// unchanged.
#[must_use]
pub fn set_pods_ready(
    known: StatusBase<'_>,
    ready: bool,
    settings: &ReconcilerSettings,
    now: Time,
) -> Option<StatusUpdate> {
    settings.pods_ready.as_ref()?;
    let mut draft = StatusBuilder::new(known, UpdateContext { now, format: settings.wording });
    let leaves = [conditions::EVICTED, conditions::FINISHED].iter().any(|it| draft.status.holds(it));
    if leaves {
        return None;
    }
    let admitted = draft.status.holds(conditions::ADMITTED);
    let old = draft.condition(conditions::PODS_READY).map(|it| (it.holds, it.reason.clone()));
    let was_lost = matches!(&old, Some((false, reason)) if *reason == reasons::WAIT_FOR_RECOVERY);
    let was_ready = matches!(&old, Some((true, _)));
    let (holds, reason, message) = match (admitted, ready) {
        (true, true) if was_ready => return None,
        (true, true) if was_lost => (true, reasons::RECOVERED, messages::PODS_READY),
        (true, true) => (true, reasons::STARTED, messages::PODS_READY),
        (true, false) if was_ready || was_lost => (false, reasons::WAIT_FOR_RECOVERY, messages::PODS_LOST),
        (true, false) | (false, _) => (false, reasons::WAIT_FOR_START, messages::PODS_NOT_READY),
    };
    draft.set_condition(conditions::PODS_READY, holds, reason, message);
    Some(draft.build()).filter(|it| !it.is_empty())
}

/// `status.reclaimablePods` to write: at most the pod set's count and, while quota is reserved, never less than
/// before. None if unchanged.
#[must_use]
pub fn reclaimable_pods(
    workload: &WorkloadFacts,
    ended: &BTreeMap<Text, u32>,
) -> Option<BTreeMap<Text, u32>> {
    // Quota released for a reclaimable pod may be in use elsewhere: the count must not go back.
    let held = workload.has_quota();
    let one = |it: &PodSet| {
        let before = workload.reclaimable.get(&it.name).copied().filter(|_| held).unwrap_or(0);
        let now = ended.get(&it.name).copied().unwrap_or(0).min(it.count).max(before);
        (now > 0).then(|| (it.name.clone(), now))
    };
    let all: BTreeMap<Text, u32> = workload.pod_sets.iter().filter_map(one).collect();
    (all != workload.reclaimable).then_some(all)
}

/// When the job of a system-deactivated Workload is deleted by retention; its quota must have been released.
#[must_use]
pub fn deactivated_job_expires_at(workload: &WorkloadFacts, settings: &ReconcilerSettings) -> Option<Time> {
    let after = settings.delete_deactivated_after?;
    let evicted = workload.condition(conditions::EVICTED).filter(|it| it.holds)?;
    deactivation_cause(&evicted.reason)?;
    let released = !workload.active && !workload.has_quota() && !workload.is_finished();
    evicted.since.filter(|_| released).map(|since| since + after)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_tree::{Tree, tree};

    use super::*;

    fn workload(patch: &Tree) -> WorkloadFacts {
        let base = tree!({"metadata": {"name": "w", "namespace": "n"},
            "spec": {"podSets": [{"name": "a", "count": 3}, {"name": "b", "count": 1}]}});
        WorkloadFacts::of(&if patch.is_null() { base } else { base.merge(patch) })
    }

    fn condition(kind: &str, holds: bool, reason: &str) -> Tree {
        let status = if holds { "True" } else { "False" };
        tree!({"type": kind, "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn with(conditions: Vec<Tree>) -> Tree {
        tree!({"status": {"conditions": Tree::list(conditions)}})
    }

    #[test]
    fn queueable_and_schedulable_workloads() {
        let now = Time::parse("2026-01-01T00:01:00Z").unwrap();
        let annotated = tree!({"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "x"}}});
        let requeue = |at: &str| tree!({"status": {"requeueState": {"count": 1, "requeueAt": at}}});
        let cases = [
            ("a new one", Tree::Null, true, true, WorkloadPhase::Pending),
            ("gated", annotated, false, false, WorkloadPhase::Pending),
            ("not active", tree!({"spec": {"active": false}}), false, false, WorkloadPhase::Pending),
            (
                "being deleted",
                tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                false,
                false,
                WorkloadPhase::Pending,
            ),
            (
                "finished",
                with(vec![condition("Finished", true, "Succeeded")]),
                false,
                false,
                WorkloadPhase::Finished,
            ),
            (
                "with a share",
                with(vec![condition("QuotaReserved", true, "QuotaReserved")]),
                false,
                false,
                WorkloadPhase::QuotaReserved,
            ),
            (
                "admitted",
                with(vec![condition("QuotaReserved", true, "x"), condition("Admitted", true, "x")]),
                false,
                false,
                WorkloadPhase::Admitted,
            ),
            (
                "refused",
                with(vec![condition("QuotaReserved", false, "WaitingForQuota")]),
                true,
                true,
                WorkloadPhase::Pending,
            ),
            (
                "held",
                with(vec![condition("QuotaReserved", false, "OnHold")]),
                false,
                false,
                WorkloadPhase::Pending,
            ),
            (
                "pods are missing",
                with(vec![condition("WaitingForReplacementPods", true, "PodsFailed")]),
                false,
                false,
                WorkloadPhase::Pending,
            ),
            (
                "no pods are missing any more",
                with(vec![condition("WaitingForReplacementPods", false, "PodsReady")]),
                true,
                true,
                WorkloadPhase::Pending,
            ),
            ("kept away", with(vec![condition("Requeued", false, "x")]), true, false, WorkloadPhase::Pending),
            ("let back", with(vec![condition("Requeued", true, "x")]), true, true, WorkloadPhase::Pending),
            ("has a pause", requeue("2026-01-01T00:01:01Z"), true, false, WorkloadPhase::Pending),
            ("had a pause", requeue("2026-01-01T00:01:00Z"), true, true, WorkloadPhase::Pending),
        ];
        for (says, patch, queueable, tried, want) in cases {
            let it = workload(&patch);
            assert_eq!(
                (is_queueable(&it), is_schedulable(&it, now), phase(&it)),
                (queueable, tried, want),
                "{says}"
            );
        }
    }

    #[test]
    fn reclaimable_pods_are_capped_and_never_decrease_with_quota() {
        let reserved = with(vec![condition("QuotaReserved", true, "x")])
            .with(&["status", "reclaimablePods"], Tree::list([tree!({"name": "a", "count": 2})]));
        let pods = |all: &[(&str, u32)]| all.iter().map(|(name, n)| (Text::from(*name), *n)).collect();
        let got = |patch: &Tree, ended: &[(&str, u32)]| reclaimable_pods(&workload(patch), &pods(ended));
        assert_eq!(got(&Tree::Null, &[("a", 1)]), Some(pods(&[("a", 1)])));
        assert_eq!(got(&Tree::Null, &[("a", 9), ("b", 1), ("c", 1)]), Some(pods(&[("a", 3), ("b", 1)])));
        assert_eq!(got(&Tree::Null, &[]), None, "nothing to tell");
        assert_eq!(got(&reserved, &[("a", 2)]), None, "told already");
        assert_eq!(got(&reserved, &[("a", 1)]), None, "not fewer");
        assert_eq!(got(&reserved, &[("a", 3), ("b", 1)]), Some(pods(&[("a", 3), ("b", 1)])));
        let free = reserved.merge(&with(Vec::new()));
        assert_eq!(got(&free, &[]), Some(pods(&[])), "a share that was given back begins anew");
    }

    #[test]
    fn job_of_deactivated_workload_expires() {
        let settings = ReconcilerSettings {
            delete_deactivated_after: Some(Duration::from_secs(60)),
            ..ReconcilerSettings::default()
        };
        let evicted = |reason: &str, active: bool, reserved: bool| {
            let all = vec![condition("Evicted", true, reason), condition("QuotaReserved", reserved, "x")];
            workload(&with(all).with(&["spec"], tree!({"active": active})))
        };
        let at = Time::parse("2026-01-01T00:01:00Z");
        for (says, it, want) in [
            ("by the system", evicted("DeactivatedDueToAdmissionCheck", false, false), at),
            ("by a user", evicted("Deactivated", false, false), None),
            ("still has its share", evicted("DeactivatedDueToAdmissionCheck", false, true), None),
            ("active again", evicted("DeactivatedDueToAdmissionCheck", true, false), None),
        ] {
            assert_eq!(deactivated_job_expires_at(&it, &settings), want, "{says}");
        }
        assert_eq!(
            deactivated_job_expires_at(
                &evicted("DeactivatedDueToX", false, false),
                &ReconcilerSettings::default()
            ),
            None
        );
    }
}
