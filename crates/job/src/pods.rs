//! Which pods to make and which to take away.

use std::collections::BTreeSet;

use muster_api::job::{JobStatus, Mode};
use muster_api::job_pod::{Failures, JobPod, NewPod};
use muster_api::pod::Phase;
use muster_api::suffix::suffix;
use muster_api::time::Time;
use muster_tree::Text;

use crate::indexes::Indexes;
use crate::pause::{self, Past};
use crate::picture::{Picture, number};
use crate::{Action, Observed, PODS_PER_LOOK_MAX, PodRef, policy};

/// Pods to make or to take away, never both, and when to look again.
#[derive(Debug, Clone, Default)]
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

    /// The step that makes pods.
    pub fn creates(&self) -> Option<Action> {
        (!self.create.is_empty()).then(|| Action::Create(self.create.clone()))
    }

    /// The step that takes pods away.
    pub fn discards(&self) -> Option<Action> {
        (!self.discard.is_empty()).then(|| Action::Discard(self.discard.clone()))
    }

    /// Active pods once the change is made.
    pub fn active_after(&self, picture: &Picture<'_>) -> u32 {
        number(picture.active.len() + self.create.len() - self.discard.len())
    }

    /// Puts the numbers of pods, as they are once the change is made, into the status.
    pub fn counts_after(&self, picture: &Picture<'_>, status: &mut JobStatus) {
        let ready = picture.active.iter().filter(|pod| pod.ready).count();
        status.active = self.active_after(picture);
        status.ready = Some(number(ready).saturating_sub(self.discarded_ready));
        status.terminating = Some(picture.terminating.saturating_add(number(self.discard.len())));
    }

    /// This change without its new pods.
    pub fn without_creates(&self) -> Change {
        Change { create: Vec::new(), ..self.clone() }
    }
}

/// Decides what to change.
pub fn change(seen: &Observed<'_>, picture: &Picture<'_>, past: &Past) -> Change {
    let active = picture.active.clone();
    if picture.job.suspend {
        return discard(active, picture.now);
    }
    let wanted = wanted(picture);
    let removed = for_removal(picture, active, picture.active.len().saturating_sub(wanted));
    if !removed.is_empty() {
        return discard(removed, picture.now);
    }
    let coming = if picture.job.replace_only_ended { picture.terminating as usize } else { 0 };
    let missing = wanted.saturating_sub(picture.active.len() + coming);
    let now = missing.min(PODS_PER_LOOK_MAX);
    let change = match (missing, picture.job.backoff_per_index) {
        (0, _) => Change::none(),
        (_, Some(_)) => create_by_index(seen, picture, now),
        (_, None) => match past.until().filter(|until| *until > picture.now) {
            Some(until) => Change { again_at: Some(until), ..Change::default() },
            None => Change { create: new_pods(seen, picture, places(picture, now)), ..Change::default() },
        },
    };
    // The rest at the next look, which is not to wait for anything.
    let rest = (missing > now && !change.create.is_empty()).then_some(picture.now);
    Change { again_at: rest.or(change.again_at), ..change }
}

fn discard(mut pods: Vec<&JobPod>, now: Time) -> Change {
    let rest = pods.len() > PODS_PER_LOOK_MAX;
    pods.truncate(PODS_PER_LOOK_MAX);
    Change {
        again_at: rest.then_some(now),
        discarded_ready: number(pods.iter().filter(|pod| pod.ready).count()),
        discard: pods.into_iter().map(PodRef::of).collect(),
        ..Change::default()
    }
}

/// How many pods should be active.
fn wanted(picture: &Picture<'_>) -> usize {
    let parallelism = picture.job.parallelism as usize;
    match picture.job.completions {
        None if picture.succeeded > 0 => picture.active.len(),
        None => parallelism,
        Some(completions) => parallelism.min(completions.saturating_sub(picture.succeeded) as usize),
    }
}

/// At least `surplus` active pods to take away: doubles of an index and indexes out of range first, then the least
/// worthy.
fn for_removal<'a>(picture: &Picture<'a>, mut active: Vec<&'a JobPod>, surplus: usize) -> Vec<&'a JobPod> {
    active.sort_by_key(|pod| worth(pod));
    let mut removed = Vec::new();
    if picture.job.mode == Mode::Indexed {
        let mut kept = BTreeSet::new();
        // From the most worthy down, so that the best of each index stays.
        active.reverse();
        active.retain(|pod| {
            let keep = picture.in_range(pod) && pod.index.is_some_and(|index| kept.insert(index));
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

/// What is least worth keeping comes first: unscheduled, pending, unready, lately ready, often restarted, young.
fn worth(pod: &JobPod) -> impl Ord {
    use std::cmp::Reverse;
    let phase = match pod.phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        _ => 2,
    };
    let restarts = Reverse(pod.restarts);
    (
        !pod.node.is_empty(),
        phase,
        pod.ready,
        Reverse(pod.ready_since),
        restarts,
        Reverse(pod.created),
        pod.name.clone(),
    )
}

/// New pods where each index pauses for itself: an index that must wait keeps its place.
fn create_by_index(seen: &Observed<'_>, picture: &Picture<'_>, missing: usize) -> Change {
    let waits = |place: &Option<u32>| {
        let last = place.and_then(|index| picture.replaced.get(&index));
        last.map(|last| pause::until_for_index(last)).filter(|until| *until > picture.now)
    };
    let (wait, go): (Vec<_>, Vec<_>) =
        places(picture, missing).into_iter().partition(|place| waits(place).is_some());
    let again_at = wait.iter().filter_map(waits).min();
    Change { create: new_pods(seen, picture, go), again_at, ..Change::default() }
}

/// Where pods are missing: the lowest free indexes of an indexed Job.
fn places(picture: &Picture<'_>, missing: usize) -> Vec<Option<u32>> {
    if picture.job.mode != Mode::Indexed {
        return vec![None; missing];
    }
    let held = |pod: &&&JobPod| pod.active() || (picture.job.replace_only_ended && pod.terminating());
    let held = picture.pods.iter().filter(held).filter_map(|pod| pod.index).collect();
    let mut busy = picture.completed.and(&Indexes::of(&held));
    if let Some(failed) = &picture.failed_indexes {
        busy = busy.and(failed);
    }
    busy.missing(picture.job.completions.unwrap_or(0)).take(missing).map(Some).collect()
}

fn new_pods(seen: &Observed<'_>, picture: &Picture<'_>, places: Vec<Option<u32>>) -> Vec<NewPod> {
    let mut names = BTreeSet::new();
    let new = |index| {
        let before = picture.job.backoff_per_index.and(index).map(|index| failures_before(picture, index));
        new_pod(seen, index, before, &mut names)
    };
    places.into_iter().map(new).collect()
}

/// Failures of an index before its next pod.
fn failures_before(picture: &Picture<'_>, index: u32) -> Failures {
    let Some(last) = picture.replaced.get(&index) else { return Failures::default() };
    let Failures { counted, ignored } = last.before;
    match policy::counts(picture.job, last) {
        true => Failures { counted: counted.saturating_add(1), ignored },
        false => Failures { counted, ignored: ignored.saturating_add(1) },
    }
}

/// The next pod of an index, with a name nobody has. Attempts begin where the counters are, so that the name of
/// a pod long gone does not come back.
fn new_pod(
    seen: &Observed<'_>,
    index: Option<u32>,
    before: Option<Failures>,
    names: &mut BTreeSet<Text>,
) -> NewPod {
    let status = &seen.job.status;
    let listed = status.uncounted_failed.len() + status.uncounted_succeeded.len();
    let first = status.failed.saturating_add(status.succeeded).saturating_add(number(listed));
    let tries = (first..=u32::MAX).map(|attempt| NewPod {
        index,
        suffix: suffix(&seen.job.uid, index, attempt),
        before,
    });
    let free = |new: &NewPod| {
        let name = new.name(&seen.job.name);
        !(seen.taken)(&name) && names.insert(name)
    };
    tries.into_iter().find(free).expect("five letters have more names than a Job has pods")
}
