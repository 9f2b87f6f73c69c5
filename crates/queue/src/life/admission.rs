//! What is written when the engine has decided: a share given, refused, or taken for another.
//!
//! # Invariants
//!
//! - A share and, where no check is in the way, the admission are one write.
//! - A refusal that says what is said already writes nothing, and its event is told once a minute.
//! - Whoever has to leave keeps its share: it is given back when its job has stopped ([`super::steps::release`]).

use std::time::Duration;

use muster_api::queue::words::{conditions, labels, messages, reasons};
use muster_api::queue::{Admission, Amounts, ClusterQueueFacts, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::Text;

use super::blockers::Why;
use super::checks;
use super::draft::{At, Draft, Eviction, Known, Note, Written, queued_at};
use super::numbers::Happened;
use super::settings::Wording;
use super::told::Told;

/// What is written while nobody is admitted before the pods of others are ready.
pub const WAITING_FOR_PODS_READY: &str = "waiting for all admitted workloads to be in PodsReady condition";
/// What stands where something is not known.
const UNKNOWN: &str = "UNKNOWN";

/// A share that the engine gives.
#[derive(Debug, Clone)]
pub struct Share<'a> {
    /// What is given.
    pub admission: Admission,
    /// The queue it is given in.
    pub queue: &'a ClusterQueueFacts,
    /// Which flavors were looked at, in words; may be empty.
    pub considered: String,
}

/// Gives a share, and with it the right to run if no check is in the way.
#[must_use]
pub fn reserve(known: Known<'_>, share: &Share<'_>, at: At) -> Written {
    let mut draft = Draft::new(known, at);
    let queue = &share.admission.cluster_queue;
    forget_departure(&mut draft);
    let words = messages::quota_reserved(queue);
    draft.set(conditions::QUOTA_RESERVED, true, reasons::QUOTA_RESERVED, &words);
    draft.status.admission = Some(share.admission.clone());
    draft.status.requests.clear();
    let required = checks::required(share.queue, Some(&share.admission));
    draft.status.checks = checks::synced(&draft.status.checks, &required, at.now);
    let waited = queued_at(known).map(|since| at.now.since(since)).unwrap_or_default();
    draft.say(Note::normal(reasons::QUOTA_RESERVED, &reserved_words(&words, waited, &share.considered)));
    let queues = super::numbers::Queues { cluster: queue.clone(), ..draft.queues() };
    draft.happened.push(Happened::Reserved { queues, waited });
    let topology = waits_for_places(&share.admission);
    if !topology && checks::all_ready(&draft.status.checks, &required) {
        tell_admitted(&mut draft, known, Duration::ZERO, !required.is_empty());
    } else {
        tell_not_admitted(&mut draft, topology);
    }
    draft.written()
}

/// It does not have to leave any more: what was said of that is kept as the past.
fn forget_departure(draft: &mut Draft<'_>) {
    for kind in [conditions::EVICTED, conditions::PREEMPTED] {
        let Some(old) = draft.find(kind).filter(|it| it.holds) else { continue };
        let words = messages::previously(&old.message);
        draft.set(kind, false, reasons::QUOTA_RESERVED, &words);
    }
}

fn reserved_words(words: &str, waited: Duration, considered: &str) -> String {
    let told = format!("{words}, wait time since queued was {}s", waited.as_secs());
    if considered.is_empty() { told } else { format!("{told}; Flavors considered: {considered}") }
}

/// It may run; `had_checks` tells whether the time since its share was spent waiting for checks.
pub(super) fn tell_admitted(draft: &mut Draft<'_>, known: Known<'_>, waited: Duration, had_checks: bool) {
    let Some(cluster) = draft.status.admission.as_ref().map(|it| it.cluster_queue.clone()) else { return };
    draft.set(conditions::ADMITTED, true, reasons::ADMITTED, messages::ADMITTED);
    let secs = waited.as_secs();
    let words = format!("Admitted by ClusterQueue {cluster}, wait time since reservation was {secs}s");
    draft.say(Note::normal(reasons::ADMITTED, &words));
    let queued = queued_at(known).map(|since| draft.at.now.since(since)).unwrap_or_default();
    let queues = super::numbers::Queues { cluster, ..draft.queues() };
    let checks = had_checks.then_some(waited);
    draft.happened.push(Happened::Admitted { queues, waited: queued, checks });
}

/// It has its share and may not run yet. Older clients are told nothing until it did run.
pub(super) fn tell_not_admitted(draft: &mut Draft<'_>, waits_for_places: bool) {
    let old = draft.at.wording == Wording::Old;
    if old && draft.find(conditions::ADMITTED).is_none() {
        return;
    }
    let (reason, message) = match (waits_for_places, old) {
        (true, _) => (reasons::PENDING_TOPOLOGY, messages::PENDING_TOPOLOGY),
        (false, true) => (reasons::OLD_UNSATISFIED_CHECKS, messages::UNSATISFIED_CHECKS),
        (false, false) => (reasons::UNSATISFIED_CHECKS, messages::UNSATISFIED_CHECKS),
    };
    draft.set(conditions::ADMITTED, false, reason, message);
}

/// Whether places are still to be chosen for some pods.
pub(super) fn waits_for_places(admission: &Admission) -> bool {
    admission.assignments.iter().any(|it| it.delayed_topology == "Pending")
}

/// Why the engine gives no share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is in the way.
    pub why: Why,
    /// The words.
    pub message: String,
    /// What each pod set asks for.
    pub requests: Vec<(Text, Amounts)>,
}

impl Refusal {
    /// Pods of others are not ready yet.
    #[must_use]
    pub fn waiting_for_pods_ready(requests: Vec<(Text, Amounts)>) -> Refusal {
        Refusal { why: Why::WaitingForPodsReady, message: WAITING_FOR_PODS_READY.to_owned(), requests }
    }
}

/// Whether nobody may be admitted before others are ready: the pods of somebody who is admitted are not.
pub fn must_wait_for_ready<'a>(admitted: impl IntoIterator<Item = &'a WorkloadFacts>) -> bool {
    let unready =
        |it: &WorkloadFacts| it.is_admitted() && !it.is_finished() && !it.holds(conditions::PODS_READY);
    admitted.into_iter().any(unready)
}

/// Refuses a share. Whoever has one by now is left alone: the refusal is of an older reading.
#[must_use]
pub fn refuse(known: Known<'_>, refusal: &Refusal, told: &mut Told, at: At) -> Written {
    let mut draft = Draft::new(known, at);
    if draft.has_quota() {
        return Written::default();
    }
    let reason = refusal.why.reason(at.wording);
    draft.set(conditions::QUOTA_RESERVED, false, reason, &refusal.message);
    draft.status.requests.clone_from(&refusal.requests);
    if told.is_news(&known.workload.uid, reason, &refusal.message, at.now) {
        draft.say(Note::warning(reason, &refusal.message));
    }
    draft.written()
}

/// Why one Workload has to leave for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preemption {
    /// Both are in one queue.
    InClusterQueue,
    /// The other's queue takes back what is its own.
    Reclamation,
    /// For fair shares.
    FairSharing,
    /// The other's queue borrows, and may still do it.
    ReclaimWhileBorrowing,
}

impl Preemption {
    /// All of them.
    pub const ALL: [Preemption; 4] = [
        Preemption::InClusterQueue,
        Preemption::Reclamation,
        Preemption::FairSharing,
        Preemption::ReclaimWhileBorrowing,
    ];

    /// Reason of the condition.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Preemption::InClusterQueue => reasons::IN_CLUSTER_QUEUE,
            Preemption::Reclamation => reasons::IN_COHORT_RECLAMATION,
            Preemption::FairSharing => reasons::IN_COHORT_FAIR_SHARING,
            Preemption::ReclaimWhileBorrowing => reasons::IN_COHORT_RECLAIM_WHILE_BORROWING,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Preemption::InClusterQueue => "prioritization in the ClusterQueue",
            Preemption::Reclamation => "reclamation within the cohort",
            Preemption::FairSharing => "Fair Sharing within the cohort",
            Preemption::ReclaimWhileBorrowing => "reclamation within the cohort while borrowing",
        }
    }
}

/// One of the two Workloads of a preemption.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// The Workload.
    pub workload: &'a WorkloadFacts,
    /// Its place, from the root of its cohort: [`super::cohorts::path_text`]; may be empty.
    pub path: &'a str,
    /// The queue it is or would be admitted in.
    pub cluster_queue: &'a str,
    /// What is added to its priority.
    pub boost: i64,
}

impl Party<'_> {
    fn priority_words(&self) -> String {
        let base = self.workload.priority;
        format!("{} (base: {base}, boost: {})", base.saturating_add(self.boost), self.boost)
    }

    fn path(&self) -> &str {
        or_unknown(self.path)
    }
}

/// What a preemption writes and says, on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Preempted {
    /// Of the one that has to leave.
    pub victim: Written,
    /// About the other.
    pub preemptor: Note,
}

/// A preemption in words.
#[derive(Debug, Clone, Copy)]
pub struct Saying<'a> {
    /// Why.
    pub why: Preemption,
    /// The queue of the other.
    pub by: &'a str,
    /// Of both conditions.
    pub message: &'a str,
    /// What the event adds to it.
    pub suffix: &'a str,
}

/// Makes one Workload leave for another. Nothing when it leaves already, or has no share: that counts as done.
#[must_use]
pub fn preempt(
    known: Known<'_>,
    victim: Party<'_>,
    preemptor: Party<'_>,
    why: Preemption,
    at: At,
) -> Option<Preempted> {
    let message = preemption_words(&victim, &preemptor, why);
    let suffix = format!(
        "; preemptor effective priority: {}; preemptee effective priority: {}",
        preemptor.priority_words(),
        victim.priority_words()
    );
    let saying = Saying { why, by: preemptor.cluster_queue, message: &message, suffix: &suffix };
    preempt_saying(known, saying, at)
}

/// The same, where the words are known already.
#[must_use]
pub fn preempt_saying(known: Known<'_>, saying: Saying<'_>, at: At) -> Option<Preempted> {
    let mut draft = Draft::new(known, at);
    let leaves = [conditions::EVICTED, conditions::FINISHED].iter().any(|it| draft.status.holds(it));
    if leaves || !draft.has_quota() {
        return None;
    }
    let Saying { why, by, message, suffix } = saying;
    draft.evict(&Eviction { reason: reasons::PREEMPTED, cause: "", message });
    draft.set(conditions::PREEMPTED, true, why.reason(), message);
    draft.say(Note::normal(reasons::PREEMPTED, &format!("{message}{suffix}")));
    draft.happened.push(Happened::Preempted { by: by.into(), reason: why.reason().into() });
    let it = known.workload;
    let (namespace, name, uid) = (&it.namespace, &it.name, &it.uid);
    let told = format!("Preempted workload {namespace}/{name} (UID: {uid}) due to {}", why.words());
    Some(Preempted { victim: draft.written(), preemptor: Note::normal(reasons::PREEMPTED_WORKLOAD, &told) })
}

fn preemption_words(victim: &Party<'_>, preemptor: &Party<'_>, why: Preemption) -> String {
    let it = preemptor.workload;
    format!(
        "Preempted to accommodate a workload (UID: {}, JobUID: {}) due to {}; preemptor path: {}; preemptee path: {}",
        or_unknown(&it.uid),
        or_unknown(it.label(labels::JOB_UID).unwrap_or_default()),
        why.words(),
        preemptor.path(),
        victim.path()
    )
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}

/// How long a Workload has been queued, as its events tell it.
#[must_use]
pub fn queued_for(known: Known<'_>, now: Time) -> Duration {
    queued_at(known).map(|since| now.since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn others_are_waited_for_until_their_pods_are_ready() {
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
            assert_eq!(must_wait_for_ready([&ready, &one(types)]), want, "{types:?}");
        }
        assert!(!must_wait_for_ready([]), "nobody is there");
    }
}
