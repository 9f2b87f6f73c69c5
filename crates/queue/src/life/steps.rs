//! Steps of a Workload's life that those who start and stop its job or pods take.
//!
//! Each returns what is to be written, and nothing when there is nothing to do: all are safe to repeat.

use std::collections::BTreeMap;

use muster_api::queue::words::{annotations, conditions, messages, reasons};
use muster_api::queue::{PodSet, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::Text;

use super::blockers::Blocker;
use super::draft::{At, Draft, Known, Written, after_eviction, cause_of_deactivation};
use super::numbers::Happened;
use super::settings::Settings;

/// Where a Workload is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It waits for its share.
    Pending,
    /// It has its share and waits for checks.
    QuotaReserved,
    /// It may run.
    Admitted,
    /// It has ended.
    Finished,
}

/// Where a Workload is in its life.
#[must_use]
pub fn phase(workload: &WorkloadFacts) -> Phase {
    if workload.is_finished() {
        Phase::Finished
    } else if workload.is_admitted() {
        Phase::Admitted
    } else if workload.has_quota() {
        Phase::QuotaReserved
    } else {
        Phase::Pending
    }
}

/// Who else has to let a Workload in.
#[must_use]
pub fn gates(workload: &WorkloadFacts) -> Vec<Text> {
    let list = workload.annotation(annotations::ADMISSION_GATED_BY).unwrap_or_default();
    list.split(',').map(str::trim).filter(|it| !it.is_empty()).map(Text::from).collect()
}

/// Whether its job is held.
#[must_use]
pub fn is_on_hold(workload: &WorkloadFacts) -> bool {
    let reserved = workload.condition(conditions::QUOTA_RESERVED);
    reserved.is_some_and(|it| !it.holds && it.reason == reasons::ON_HOLD)
}

/// Whether a Workload may be put in a queue.
#[must_use]
pub fn is_queueable(workload: &WorkloadFacts) -> bool {
    phase(workload) == Phase::Pending
        && workload.active
        && !workload.deleting
        && gates(workload).is_empty()
        && !is_on_hold(workload)
        && !workload.holds(conditions::WAITING_FOR_REPLACEMENT_PODS)
}

/// Whether a queued Workload may be looked at: it has neither to wait nor to be let back.
#[must_use]
pub fn may_be_tried(workload: &WorkloadFacts, now: Time) -> bool {
    let held_back = workload.condition(conditions::REQUEUED).is_some_and(|it| !it.holds);
    let waits = workload.requeue.and_then(|it| it.at).is_some_and(|at| at > now);
    is_queueable(workload) && !held_back && !waits
}

/// Whether the job of an evicted Workload can be started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comeback {
    /// It can, or others will take its place.
    Possible,
    /// Its only pod is gone for good.
    Never,
}

/// Gives back the share of an evicted Workload; for when its job is known to have stopped. Nothing when it has none, or
/// does not have to leave.
#[must_use]
pub fn release(known: Known<'_>, comeback: Comeback, at: At) -> Option<Written> {
    let mut draft = Draft::new(known, at);
    if draft.status.holds(conditions::FINISHED) {
        return None;
    }
    let evicted = draft.find(conditions::EVICTED).filter(|it| it.holds).cloned();
    let evicted = evicted.filter(|_| draft.has_quota() || draft.status.admission.is_some())?;
    let (reason, message) = (evicted.reason.as_str(), evicted.message.as_str());
    let by_itself = matches!(reason, reasons::PREEMPTED | reasons::NODE_FAILURES);
    draft.set(conditions::REQUEUED, by_itself && comeback == Comeback::Possible, reason, message);
    draft.unreserve(&after_eviction(reason, message));
    Some(draft.written())
}

/// Gives back the share of a Workload whose job is held, or tells that it is. Nothing when that is told already.
#[must_use]
pub fn hold(known: Known<'_>, message: &str, at: At) -> Option<Written> {
    let mut draft = Draft::new(known, at);
    if draft.status.holds(conditions::FINISHED) {
        return None;
    }
    let blocker = Blocker::on_hold(message);
    if draft.has_quota() || draft.status.admission.is_some() {
        draft.unreserve(&blocker);
    } else {
        draft.block(&blocker);
    }
    Some(draft.written()).filter(|it| !it.is_empty())
}

/// The job of a Workload is not held any more. Nothing when that was never told.
#[must_use]
pub fn unhold(known: Known<'_>, at: At) -> Option<Written> {
    if !is_on_hold(known.workload) {
        return None;
    }
    let mut draft = Draft::new(known, at);
    draft.block(&Blocker::not_evaluated());
    Some(draft.written())
}

/// A Workload has ended. Nothing when that is told already: what ended first stays.
#[must_use]
pub fn finish(known: Known<'_>, reason: &str, message: &str, at: At) -> Option<Written> {
    let mut draft = Draft::new(known, at);
    if draft.status.holds(conditions::FINISHED) {
        return None;
    }
    draft.set(conditions::FINISHED, true, reason, message);
    let queues = draft.queues();
    draft.happened.push(Happened::Finished { queues });
    Some(draft.written())
}

/// Tells whether the pods of a Workload are ready. Nothing when nobody asks, when it has to leave, or when it is told.
#[must_use]
pub fn pods_ready(known: Known<'_>, ready: bool, settings: &Settings, now: Time) -> Option<Written> {
    settings.ready.as_ref()?;
    let mut draft = Draft::new(known, At { now, wording: settings.wording });
    let leaves = [conditions::EVICTED, conditions::FINISHED].iter().any(|it| draft.status.holds(it));
    if leaves {
        return None;
    }
    let admitted = draft.status.holds(conditions::ADMITTED);
    let old = draft.find(conditions::PODS_READY).map(|it| (it.holds, it.reason.clone()));
    let was_lost = matches!(&old, Some((false, reason)) if *reason == reasons::WAIT_FOR_RECOVERY);
    let was_ready = matches!(&old, Some((true, _)));
    let (holds, reason, message) = match (admitted, ready) {
        (true, true) if was_ready => return None,
        (true, true) if was_lost => (true, reasons::RECOVERED, messages::PODS_READY),
        (true, true) => (true, reasons::STARTED, messages::PODS_READY),
        (true, false) if was_ready || was_lost => (false, reasons::WAIT_FOR_RECOVERY, messages::PODS_LOST),
        (true, false) | (false, _) => (false, reasons::WAIT_FOR_START, messages::PODS_NOT_READY),
    };
    draft.set(conditions::PODS_READY, holds, reason, message);
    Some(draft.written()).filter(|it| !it.is_empty())
}

/// Pods whose share is free again, as they may be written: no more than a set has, and no fewer than before while the
/// share is reserved. Nothing when that is what is written already.
#[must_use]
pub fn reclaimable(workload: &WorkloadFacts, ended: &BTreeMap<Text, u32>) -> Option<BTreeMap<Text, u32>> {
    let held = workload.has_quota();
    let one = |it: &PodSet| {
        let before = workload.reclaimable.get(&it.name).copied().filter(|_| held).unwrap_or(0);
        let now = ended.get(&it.name).copied().unwrap_or(0).min(it.count).max(before);
        (now > 0).then(|| (it.name.clone(), now))
    };
    let all: BTreeMap<Text, u32> = workload.pod_sets.iter().filter_map(one).collect();
    (all != workload.reclaimable).then_some(all)
}

/// When the job of a Workload that the system deactivated is to be deleted; its share must have been given back.
#[must_use]
pub fn deactivated_until(workload: &WorkloadFacts, settings: &Settings) -> Option<Time> {
    let after = settings.delete_deactivated_after?;
    let evicted = workload.condition(conditions::EVICTED).filter(|it| it.holds)?;
    cause_of_deactivation(&evicted.reason)?;
    let gone = !workload.active && !workload.has_quota() && !workload.is_finished();
    evicted.since.filter(|_| gone).map(|since| since + after)
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
    fn who_may_be_queued_and_who_may_be_tried() {
        let now = Time::parse("2026-01-01T00:01:00Z").unwrap();
        let annotated = tree!({"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "x"}}});
        let requeue = |at: &str| tree!({"status": {"requeueState": {"count": 1, "requeueAt": at}}});
        let cases = [
            ("a new one", Tree::Null, true, true, Phase::Pending),
            ("gated", annotated, false, false, Phase::Pending),
            ("not active", tree!({"spec": {"active": false}}), false, false, Phase::Pending),
            (
                "being deleted",
                tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                false,
                false,
                Phase::Pending,
            ),
            ("finished", with(vec![condition("Finished", true, "Succeeded")]), false, false, Phase::Finished),
            (
                "with a share",
                with(vec![condition("QuotaReserved", true, "QuotaReserved")]),
                false,
                false,
                Phase::QuotaReserved,
            ),
            (
                "admitted",
                with(vec![condition("QuotaReserved", true, "x"), condition("Admitted", true, "x")]),
                false,
                false,
                Phase::Admitted,
            ),
            (
                "refused",
                with(vec![condition("QuotaReserved", false, "WaitingForQuota")]),
                true,
                true,
                Phase::Pending,
            ),
            ("held", with(vec![condition("QuotaReserved", false, "OnHold")]), false, false, Phase::Pending),
            (
                "pods are missing",
                with(vec![condition("WaitingForReplacementPods", true, "PodsFailed")]),
                false,
                false,
                Phase::Pending,
            ),
            (
                "no pods are missing any more",
                with(vec![condition("WaitingForReplacementPods", false, "PodsReady")]),
                true,
                true,
                Phase::Pending,
            ),
            ("kept away", with(vec![condition("Requeued", false, "x")]), true, false, Phase::Pending),
            ("let back", with(vec![condition("Requeued", true, "x")]), true, true, Phase::Pending),
            ("has a pause", requeue("2026-01-01T00:01:01Z"), true, false, Phase::Pending),
            ("had a pause", requeue("2026-01-01T00:01:00Z"), true, true, Phase::Pending),
        ];
        for (says, patch, queueable, tried, want) in cases {
            let it = workload(&patch);
            assert_eq!(
                (is_queueable(&it), may_be_tried(&it, now), phase(&it)),
                (queueable, tried, want),
                "{says}"
            );
        }
    }

    #[test]
    fn ended_pods_are_capped_and_never_taken_back_while_the_share_is_reserved() {
        let reserved = with(vec![condition("QuotaReserved", true, "x")])
            .with(&["status", "reclaimablePods"], Tree::list([tree!({"name": "a", "count": 2})]));
        let pods = |all: &[(&str, u32)]| all.iter().map(|(name, n)| (Text::from(*name), *n)).collect();
        let got = |patch: &Tree, ended: &[(&str, u32)]| reclaimable(&workload(patch), &pods(ended));
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
    fn the_job_of_whom_the_system_deactivated_goes_in_time() {
        let settings =
            Settings { delete_deactivated_after: Some(Duration::from_secs(60)), ..Settings::default() };
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
            assert_eq!(deactivated_until(&it, &settings), want, "{says}");
        }
        assert_eq!(
            deactivated_until(&evicted("DeactivatedDueToX", false, false), &Settings::default()),
            None
        );
    }
}
