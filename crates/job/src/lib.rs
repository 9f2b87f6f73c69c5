//! Decides what a batch Job needs next.
//!
//! # Invariants
//!
//! - [`plan`] is pure: same picture, same steps, same order.
//! - Each step is safe to repeat: the shell may die between any two of them.
//! - A pod is counted exactly once: it is put on the list of uncounted pods, loses its finalizer, and only then
//!   moves into the counters.
//! - A finished Job is never touched again, except for its TTL.
//!
//! - A Job that failed takes its pods along and counts them; one that succeeded takes them along uncounted.
//!
//! # Deliberately absent
//!
//! Events about pods and slow starts: those belong to the one who performs the steps. Placing gangs: a Job makes the
//! group that its pods join, and that is all.

mod conditions;
mod gang;
pub mod indexes;
mod pause;
mod picture;
mod pods;
mod policy;
mod tally;
mod verdict;

use muster_api::condition::{self, Wanted};
use muster_api::event::Severity;
use muster_api::gang_make::Member;
use muster_api::job::{JobFacts, JobStatus, Mode};
use muster_api::job_pod::{JobPod, NewPod};
use muster_api::port::{Kind, Object, Uid};
use muster_api::time::Time;
use muster_api::words::{conditions as kinds, reasons};
use muster_tree::{Text, Tree};

use crate::gang::Gang;
pub use crate::gang::Groups;
pub use crate::pause::Past;
use crate::picture::{Picture, number};
use crate::pods::Change;
use crate::tally::Tally;
use crate::verdict::Verdict;

/// Pods created or deleted in one go.
pub const PODS_PER_LOOK_MAX: usize = 500;
/// Pods on the list of uncounted ones.
pub const UNCOUNTED_MAX: usize = 500;

/// Everything one decision may look at, read at a single instant.
pub struct Observed<'a> {
    /// The Job, defaulted and validated.
    pub job: &'a JobFacts,
    /// The pods it controls.
    pub pods: &'a [JobPod],
    /// Pods of its namespace that nobody controls.
    pub orphans: &'a [JobPod],
    /// What is remembered of earlier pods.
    pub past: &'a Past,
    /// Whether a pod name is in use, be it by a stranger.
    pub taken: &'a dyn Fn(&Text) -> bool,
    /// What concerns its gang; `None` where Jobs make none.
    pub groups: Option<&'a Groups<'a>>,
    /// Whether the last try to make pods was refused: the status is then told before the next try.
    pub creates_refused: bool,
    /// The instant of the reading.
    pub now: Time,
}

/// Exactly this pod: the UID guards against a namesake born meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
}

impl PodRef {
    fn of(pod: &JobPod) -> PodRef {
        PodRef { name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// One step towards the spec.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Makes these orphans the Job's own, if the Job is still what it was.
    Adopt(Vec<PodRef>),
    /// Gives up these pods: the selector does not select them any more.
    LetGo(Vec<PodRef>),
    /// Makes the Workload or the group of its gang, and tells it.
    Make {
        /// The kind.
        kind: Kind,
        /// The object.
        object: Box<Tree>,
        /// Reason and message of the event.
        told: (&'static str, String),
    },
    /// Changes the size of its gang, if the object is what it was.
    Resize {
        /// The kind.
        kind: Kind,
        /// The object.
        object: Box<Object>,
        /// A merge patch.
        patch: Tree,
    },
    /// Makes these pods.
    Create(Vec<NewPod>),
    /// Deletes these pods, which then count as failed.
    Delete(Vec<PodRef>),
    /// Takes the finalizer off these pods and deletes them: they do not count.
    Discard(Vec<PodRef>),
    /// Writes the status, if it differs.
    Write(Box<JobStatus>),
    /// Takes the finalizer off these pods: they are on the list.
    Release(Vec<PodRef>),
    /// Notes an event about the Job.
    Note(Severity, Text, String),
    /// Looks again at this time.
    LookAgain(Time),
    /// Deletes the Job, its pods first.
    DeleteJob,
}

/// What to do, and what to remember.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// The steps that bring the Job closer to its spec; none means converged.
    pub steps: Vec<Action>,
    /// What to hand in next time.
    pub past: Past,
    /// The gang that new pods join.
    pub member: Option<Member>,
}

impl From<Vec<Action>> for Decision {
    fn from(steps: Vec<Action>) -> Decision {
        Decision { steps, ..Decision::default() }
    }
}

/// Decides what a Job needs next.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Decision {
    if seen.job.foreign {
        return Decision::default();
    }
    if seen.job.finished().is_some() {
        return expire(seen).into();
    }
    if seen.job.mode == Mode::Unknown {
        let message = "Skipped Job sync because completion mode is unknown".to_owned();
        return vec![Action::Note(Severity::Warning, reasons::UNKNOWN_COMPLETION_MODE.into(), message)]
            .into();
    }
    let claims = claim(seen);
    if !claims.is_empty() {
        return Decision { steps: claims, past: seen.past.clone(), member: None };
    }
    let picture = Picture::of(seen);
    let past = seen.past.with(&picture);
    let (steps, member) = match verdict::before_managing(&picture) {
        Some(verdict) => (finish(&picture, &verdict), None),
        None => manage(seen, &picture, &past),
    };
    Decision { steps, past, member }
}

/// A finished Job lets go of its pods, and goes itself when its time has come.
fn expire(seen: &Observed<'_>) -> Vec<Action> {
    let held: Vec<PodRef> = seen.pods.iter().filter(|pod| pod.tracked).map(PodRef::of).collect();
    let mut steps = if held.is_empty() { vec![] } else { vec![Action::Release(held)] };
    let (Some(ttl), Some(end), false) = (seen.job.ttl_secs, seen.job.finished(), seen.job.deleting) else {
        return steps;
    };
    let since = Time::of(end.at(muster_api::paths::condition::SINCE)).unwrap_or(seen.now);
    let at = since + std::time::Duration::from_secs(ttl.into());
    steps.push(if at <= seen.now { Action::DeleteJob } else { Action::LookAgain(at) });
    steps
}

/// Which pods change hands: orphans that are selected, and own pods that are not. A Job that is being deleted
/// neither takes nor gives.
fn claim(seen: &Observed<'_>) -> Vec<Action> {
    if seen.job.deleting {
        return Vec::new();
    }
    let lost: Vec<PodRef> = seen.pods.iter().filter(|pod| !pod.selected).map(PodRef::of).collect();
    let found = seen.orphans.iter().filter(|pod| pod.selected && pod.deleting.is_none());
    let found: Vec<PodRef> = found.map(PodRef::of).collect();
    let mut steps = Vec::new();
    if !lost.is_empty() {
        steps.push(Action::LetGo(lost));
    }
    if !found.is_empty() {
        steps.push(Action::Adopt(found));
    }
    if !steps.is_empty() {
        steps.push(Action::LookAgain(seen.now));
    }
    steps
}

/// Makes and deletes pods, counts those that ended, and perhaps finds that the goal is reached.
fn manage(seen: &Observed<'_>, picture: &Picture<'_>, past: &Past) -> (Vec<Action>, Option<Member>) {
    let change = if seen.job.deleting { Change::none() } else { pods::change(seen, picture, past) };
    if verdict::complete(picture, change.active_after(picture)) {
        return (finish(picture, &Verdict::completed()), None);
    }
    match gang::decide(seen, picture, &change) {
        Gang::First(steps) => (steps, None),
        Gang::Plain => (go_on(seen, picture, &change), None),
        Gang::Joined(member, mut steps) => {
            steps.extend(go_on(seen, picture, &change));
            (steps, Some(member))
        }
    }
}

/// Makes and deletes pods, and tells the status.
fn go_on(seen: &Observed<'_>, picture: &Picture<'_>, change: &Change) -> Vec<Action> {
    let Tally { mut status, release } = tally::count(picture, None);
    let notes = started(seen, &mut status);
    let (told, first, last) = match seen.creates_refused {
        true => (change.without_creates(), None, change.creates()),
        false => (change.clone(), change.creates(), None),
    };
    told.counts_after(picture, &mut status);
    let mut steps: Vec<Action> = change.discards().into_iter().chain(first).collect();
    steps.push(Action::Write(Box::new(status)));
    steps.extend(notes);
    if !release.is_empty() {
        steps.push(Action::Release(release));
    }
    steps.extend(last);
    let deadline = verdict::deadline(seen.job).map(Action::LookAgain);
    steps.extend(change.again_at.map(Action::LookAgain).into_iter().chain(deadline));
    steps
}

/// Sets what suspending and resuming change: the condition, the start, and the event about it.
fn started(seen: &Observed<'_>, status: &mut JobStatus) -> Option<Action> {
    let now = seen.now.whole_seconds();
    if status.start_time.is_none() && !seen.job.suspend {
        status.start_time = Some(now);
    }
    let known = condition::find(&status.conditions, kinds::SUSPENDED).is_some();
    if seen.job.deleting || !(seen.job.suspend || known) {
        return None;
    }
    let (reason, event, message) = match seen.job.suspend {
        true => (reasons::JOB_SUSPENDED, reasons::SUSPENDED, "Job suspended"),
        false => (reasons::JOB_RESUMED, reasons::RESUMED, "Job resumed"),
    };
    let wanted = Wanted { kind: kinds::SUSPENDED, holds: seen.job.suspend, reason, message };
    if !conditions::set(&mut status.conditions, &wanted, now) {
        return None;
    }
    status.start_time = (!seen.job.suspend).then_some(now);
    Some(Action::Note(Severity::Normal, event.into(), message.to_owned()))
}

/// Brings a decided Job to its end: the interim condition first, the last one when no pod is left.
fn finish(picture: &Picture<'_>, verdict: &Verdict) -> Vec<Action> {
    let Tally { mut status, release } = tally::count(picture, Some(verdict));
    let now = picture.now.whole_seconds();
    let active: Vec<PodRef> = picture.active.iter().map(|pod| PodRef::of(pod)).collect();
    let terminating = picture.terminating.saturating_add(number(active.len()));
    status.start_time = status.start_time.or((!picture.job.suspend).then_some(now));
    verdict.set_interim(&mut status, now);
    (status.active, status.ready, status.terminating) = (0, Some(0), Some(terminating));
    let uncounted = status.uncounted_succeeded.len() + status.uncounted_failed.len();
    // Whoever waits for the announcement sees it in a status of its own.
    let announced = verdict::is_announced(&picture.job.status);
    let over = announced && terminating == 0 && uncounted == 0 && release.is_empty();
    if over {
        verdict.set_last(&mut status, now);
    }
    let too_many = picture.job.completions.is_some_and(|wanted| status.succeeded > wanted);
    let mut steps = vec![Action::Write(Box::new(status))];
    steps.extend(go(verdict, active, release));
    if over {
        steps.extend((too_many && verdict.is_success()).then(too_many_succeeded));
        steps.push(verdict.note());
    }
    steps
}

/// The pods of a Job that has ended go. Were those of a Job that succeeded deleted before they are released, a
/// crash in between would count them as failures.
fn go(verdict: &Verdict, active: Vec<PodRef>, release: Vec<PodRef>) -> Vec<Action> {
    let delete = (!active.is_empty()).then_some(Action::Delete(active));
    let release = (!release.is_empty()).then_some(Action::Release(release));
    let (first, second) = if verdict.is_success() { (release, delete) } else { (delete, release) };
    first.into_iter().chain(second).collect()
}

fn too_many_succeeded() -> Action {
    let message = "Too many succeeded pods running after completion count reached".to_owned();
    Action::Note(Severity::Warning, reasons::TOO_MANY_SUCCEEDED.into(), message)
}

#[cfg(test)]
mod tests;
