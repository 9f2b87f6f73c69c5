//! Which pods to make and which to take away.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::job::{JobStatus, Mode, NewPod};
use muster_api::pod::{Phase, PodFacts};
use muster_api::time::Time;
use muster_tree::Text;

use crate::suffix::suffix;
use crate::tally::{self, Tally};
use crate::{Action, Observed, PODS_PER_LOOK_MAX, PodRef};

/// The pause after a first failed pod.
pub const FAILURE_BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// The longest pause.
pub const FAILURE_BACKOFF_MAX: Duration = Duration::from_secs(600);

/// Pods to make or to take away, never both, and when to look again.
#[derive(Debug, Default)]
pub struct Change {
    create: Vec<NewPod>,
    discard: Vec<PodRef>,
    discarded_ready: u32,
    /// When the pause after a failure ends.
    pub again_at: Option<Time>,
}

impl Change {
    /// No change.
    pub fn none() -> Change {
        Change::default()
    }

    /// The steps that make the change.
    pub fn actions(&self) -> Vec<Action> {
        let mut steps = Vec::new();
        if !self.discard.is_empty() {
            steps.push(Action::Discard(self.discard.clone()));
        }
        if !self.create.is_empty() {
            steps.push(Action::Create(self.create.clone()));
        }
        steps
    }
}

/// Decides what to change.
pub fn change(seen: &Observed<'_>, tally: &Tally) -> Change {
    let active: Vec<&PodFacts> = seen.pods.iter().filter(|pod| pod.active()).collect();
    if seen.job.suspend {
        return discard(active);
    }
    let wanted = wanted(seen, tally, active.len());
    let surplus = active.len().saturating_sub(wanted);
    let removed = for_removal(seen, active.clone(), surplus);
    if !removed.is_empty() {
        return discard(removed);
    }
    let terminating = seen.pods.iter().filter(|pod| pod.terminating()).count();
    let coming = if seen.job.replace_only_ended { terminating } else { 0 };
    let missing = wanted.saturating_sub(active.len() + coming).min(PODS_PER_LOOK_MAX);
    if missing == 0 {
        return Change::none();
    }
    match pause_until(seen).filter(|until| *until > seen.now) {
        Some(until) => Change { again_at: Some(until), ..Change::default() },
        None => Change { create: new_pods(seen, tally, missing), ..Change::default() },
    }
}

/// Active pods once the change is made.
pub fn active_after(seen: &Observed<'_>, change: &Change) -> u32 {
    let active = seen.pods.iter().filter(|pod| pod.active()).count();
    number(active + change.create.len() - change.discard.len())
}

/// Puts the numbers of pods, as they are once the change is made, into the status.
pub fn counts_after(seen: &Observed<'_>, change: &Change, status: &mut JobStatus) {
    let ready = seen.pods.iter().filter(|pod| pod.active() && pod.ready).count();
    let terminating = seen.pods.iter().filter(|pod| pod.terminating()).count();
    status.active = active_after(seen, change);
    status.ready = Some(number(ready).saturating_sub(change.discarded_ready));
    status.terminating = Some(number(terminating + change.discard.len()));
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn discard(mut pods: Vec<&PodFacts>) -> Change {
    pods.truncate(PODS_PER_LOOK_MAX);
    Change {
        discarded_ready: number(pods.iter().filter(|pod| pod.ready).count()),
        discard: pods.into_iter().map(PodRef::of).collect(),
        ..Change::default()
    }
}

/// How many pods should be active.
fn wanted(seen: &Observed<'_>, tally: &Tally, active: usize) -> usize {
    let parallelism = seen.job.parallelism as usize;
    match seen.job.completions {
        None if tally.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => parallelism.min(completions.saturating_sub(tally.succeeded) as usize),
    }
}

/// At least `surplus` active pods to take away: doubles of an index and indexes out of range first, then
/// unscheduled, pending, unready and young ones.
fn for_removal<'a>(seen: &Observed<'a>, mut active: Vec<&'a PodFacts>, surplus: usize) -> Vec<&'a PodFacts> {
    active.sort_by_key(|pod| worth(pod));
    let mut removed = Vec::new();
    if seen.job.mode == Mode::Indexed {
        let below = seen.job.completions.unwrap_or(0);
        let mut kept = BTreeSet::new();
        // From the most worthy down, so that the best of each index stays.
        active.reverse();
        active.retain(|pod| {
            let keep = pod.index.is_some_and(|index| index < below && kept.insert(index));
            if !keep {
                removed.push(*pod);
            }
            keep
        });
        active.reverse();
    }
    let more = surplus.saturating_sub(removed.len()).min(active.len());
    removed.extend(active.drain(..more));
    removed
}

/// What is least worth keeping comes first.
fn worth(pod: &PodFacts) -> (bool, Phase, bool, std::cmp::Reverse<Time>, Text) {
    let order = if pod.phase == Phase::Pending { Phase::Pending } else { Phase::Running };
    (!pod.node.is_empty(), order, pod.ready, std::cmp::Reverse(pod.created), pod.name.clone())
}

/// When the pause after the latest failures ends: it doubles with each failure since the last success.
fn pause_until(seen: &Observed<'_>) -> Option<Time> {
    let ended = |phase| seen.pods.iter().filter(move |pod| pod.phase == phase).map(|pod| pod.ended_at);
    let success = ended(Phase::Succeeded).max();
    let failed = seen.pods.iter().filter(|pod| tally::is_failed(seen.job, pod)).map(|pod| pod.ended_at);
    let after: Vec<Time> = failed.filter(|at| success.is_none_or(|success| *at > success)).collect();
    let last = after.iter().max()?;
    let doublings = u32::try_from(after.len() - 1).unwrap_or(u32::MAX).min(10);
    Some(*last + FAILURE_BACKOFF_FIRST.saturating_mul(1 << doublings).min(FAILURE_BACKOFF_MAX))
}

fn new_pods(seen: &Observed<'_>, tally: &Tally, missing: usize) -> Vec<NewPod> {
    let places: Vec<Option<u32>> = match seen.job.mode {
        Mode::Indexed => free_indexes(seen, tally).take(missing).map(Some).collect(),
        _ => vec![None; missing],
    };
    let mut names = BTreeSet::new();
    places.into_iter().map(|index| new_pod(seen, index, &mut names)).collect()
}

/// Indexes without a success and without a pod, lowest first.
fn free_indexes(seen: &Observed<'_>, tally: &Tally) -> impl Iterator<Item = u32> {
    let held = |pod: &&PodFacts| pod.active() || (seen.job.replace_only_ended && pod.terminating());
    let held: BTreeSet<u32> = seen.pods.iter().filter(held).filter_map(|pod| pod.index).collect();
    let completed = tally.completed.clone();
    (0..seen.job.completions.unwrap_or(0))
        .filter(move |index| !held.contains(index) && !completed.has(*index))
}

/// The next pod of an index, with a name nobody has. Attempts begin where the counters are, so that the name of
/// a pod long gone does not come back.
fn new_pod(seen: &Observed<'_>, index: Option<u32>, names: &mut BTreeSet<Text>) -> NewPod {
    let status = &seen.job.status;
    let listed = status.uncounted_failed.len() + status.uncounted_succeeded.len();
    let first = status.failed.saturating_add(status.succeeded).saturating_add(number(listed));
    let tries =
        (first..=u32::MAX).map(|attempt| NewPod { index, suffix: suffix(&seen.job.uid, index, attempt) });
    let free = |new: &NewPod| {
        let name = new.name(&seen.job.name);
        !(seen.taken)(&name) && names.insert(name)
    };
    tries.into_iter().find(free).expect("five letters have more names than a Job has pods")
}
