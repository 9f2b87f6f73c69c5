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
//! # Deliberately absent
//!
//! Pod failure policy, success policy and limits per index: a Job that asks for them is run as if it did not.

pub mod indexes;
mod pods;
pub mod suffix;
mod tally;
mod verdict;

use muster_api::condition;
use muster_api::event::Severity;
use muster_api::job::{JobFacts, JobStatus, Mode, NewPod};
use muster_api::pod::PodFacts;
use muster_api::port::Uid;
use muster_api::time::Time;
use muster_api::words::{conditions, reasons};
use muster_tree::Text;

use crate::pods::Change;
use crate::verdict::Verdict;

/// Pods created or deleted in one go.
pub const PODS_PER_LOOK_MAX: usize = 500;
/// Pods on the list of uncounted ones.
pub const UNCOUNTED_MAX: usize = 500;

/// Everything one decision may look at, read at a single instant.
pub struct Observed<'a> {
    /// The Job, defaulted and validated.
    pub job: &'a JobFacts,
    /// The pods it controls. Strangers were filtered out by the reader.
    pub pods: &'a [PodFacts],
    /// Whether a pod name is in use, be it by a stranger.
    pub taken: &'a dyn Fn(&Text) -> bool,
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
    fn of(pod: &PodFacts) -> PodRef {
        PodRef { name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// One step towards the spec.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
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

/// Returns the steps that bring `seen` closer to its spec; none means converged.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Vec<Action> {
    if seen.job.foreign {
        return Vec::new();
    }
    if seen.job.finished().is_some() {
        return expire(seen);
    }
    if seen.job.mode == Mode::Unknown {
        let message = "Skipped Job sync because completion mode is unknown".to_owned();
        return vec![Action::Note(Severity::Warning, reasons::UNKNOWN_COMPLETION_MODE.into(), message)];
    }
    match verdict::before_managing(seen) {
        Some(verdict) => finish(seen, &verdict),
        None => manage(seen),
    }
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

/// Makes and deletes pods, counts those that ended, and perhaps finds that the goal is reached.
fn manage(seen: &Observed<'_>) -> Vec<Action> {
    let tally = tally::count(seen, None);
    let change = if seen.job.deleting { Change::none() } else { pods::change(seen, &tally) };
    let active = pods::active_after(seen, &change);
    if verdict::complete(seen.job, &tally, active) {
        return finish(seen, &Verdict::completed());
    }
    let mut status = tally.status.clone();
    let mut notes = Vec::new();
    started(seen, &mut status, &mut notes);
    pods::counts_after(seen, &change, &mut status);
    let mut steps = change.actions();
    steps.push(Action::Write(Box::new(status)));
    steps.extend(notes);
    if !tally.release.is_empty() {
        steps.push(Action::Release(tally.release));
    }
    let deadline = verdict::deadline(seen.job).map(Action::LookAgain);
    steps.extend(change.again_at.map(Action::LookAgain).into_iter().chain(deadline));
    steps
}

/// Sets what suspending and resuming change: the condition, the start, and the event about it.
fn started(seen: &Observed<'_>, status: &mut JobStatus, notes: &mut Vec<Action>) {
    let now = seen.now.whole_seconds();
    let was = condition::holds(&status.conditions, conditions::SUSPENDED);
    let known = condition::find(&status.conditions, conditions::SUSPENDED).is_some();
    if seen.job.suspend {
        if !was {
            let wanted = suspended(true, reasons::JOB_SUSPENDED, "Job suspended");
            condition::set(&mut status.conditions, &wanted, now);
            notes.push(Action::Note(Severity::Normal, reasons::SUSPENDED.into(), "Job suspended".to_owned()));
        }
        status.start_time = None;
        return;
    }
    if was {
        let wanted = suspended(false, reasons::JOB_RESUMED, "Job resumed");
        condition::set(&mut status.conditions, &wanted, now);
        notes.push(Action::Note(Severity::Normal, reasons::RESUMED.into(), "Job resumed".to_owned()));
    }
    if status.start_time.is_none() || (known && was) {
        status.start_time = Some(now);
    }
}

fn suspended<'a>(holds: bool, reason: &'a str, message: &'a str) -> condition::Wanted<'a> {
    condition::Wanted { kind: conditions::SUSPENDED, holds, reason, message }
}

/// Brings a decided Job to its end: the interim condition first, the last one when no pod is left.
fn finish(seen: &Observed<'_>, verdict: &Verdict) -> Vec<Action> {
    let tally = tally::count(seen, Some(verdict));
    let now = seen.now.whole_seconds();
    let active: Vec<&PodFacts> = seen.pods.iter().filter(|pod| pod.active()).collect();
    let mut status = tally.status;
    status.start_time = status.start_time.or((!seen.job.suspend).then_some(now));
    verdict.set_interim(&mut status, now);
    let terminating = seen.pods.iter().filter(|pod| pod.terminating()).count() + active.len();
    status.active = 0;
    status.ready = Some(0);
    status.terminating = Some(u32::try_from(terminating).unwrap_or(u32::MAX));
    let uncounted = status.uncounted_succeeded.len() + status.uncounted_failed.len();
    let over = terminating == 0 && uncounted == 0 && tally.release.is_empty();
    let mut steps = Vec::new();
    if over {
        verdict.set_last(&mut status, now);
    }
    let too_many = over && verdict.is_success() && seen.job.completions.is_some_and(|n| status.succeeded > n);
    steps.push(Action::Write(Box::new(status)));
    if !active.is_empty() {
        steps.push(Action::Delete(active.into_iter().map(PodRef::of).collect()));
    }
    if !tally.release.is_empty() {
        steps.push(Action::Release(tally.release));
    }
    if too_many {
        let message = "Too many succeeded pods running after completion count reached".to_owned();
        steps.push(Action::Note(Severity::Warning, reasons::TOO_MANY_SUCCEEDED.into(), message));
    }
    if over {
        steps.push(verdict.note());
    }
    steps
}

#[cfg(test)]
mod tests;
