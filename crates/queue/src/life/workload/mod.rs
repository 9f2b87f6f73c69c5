//! What a Workload needs next, apart from quota.
//!
//! # Invariants
//!
//! - One pass writes one thing: the status as a whole, or one field of the spec, or the finalizer. What follows from it is
//!   decided when it was read.
//! - An evicted Workload keeps its quota until the integration that runs its job has stopped it and clears the reservation. That
//!   holds without an owner, too: the job may be that of an integration outside.
//! - A finished Workload is never touched again, except when its time is over.

mod blocked;
mod ends;
mod ready;
mod requeue;
mod reserved;

use muster_api::queue::words::conditions;
use muster_api::queue::{
    AdmissionStatus, ClusterQueueFacts, LocalQueueFacts, PriorityClassFacts, WorkloadFacts,
};
use muster_api::time::Time;
use muster_tree::Text;

use super::draft::{At, Draft, Known, Note, Written};
use super::numbers::Happened;
use super::priority;
use super::settings::Settings;

pub use blocked::EVALUATION_GRACE;

/// A ClusterQueue, and whether it takes Workloads.
#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    /// What is read of it.
    pub facts: &'a ClusterQueueFacts,
    /// Whether it takes Workloads now: [`super::queues::readiness`].
    pub active: bool,
}

/// Everything one decision may look at, read at a single instant.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The Workload.
    pub workload: &'a WorkloadFacts,
    /// What admission owns of its status, from the same reading.
    pub status: &'a AdmissionStatus,
    /// The LocalQueue it names.
    pub local_queue: Option<&'a LocalQueueFacts>,
    /// The ClusterQueue called [`cluster_queue_of`].
    pub cluster_queue: Option<Queue<'a>>,
    /// The WorkloadPriorityClass it refers to, if it does.
    pub priority_class: Option<&'a PriorityClassFacts>,
    /// The configuration.
    pub settings: &'a Settings,
    /// The instant of the reading.
    pub now: Time,
}

impl<'a> Observed<'a> {
    fn known(&self) -> Known<'a> {
        Known { workload: self.workload, status: self.status }
    }

    fn at(&self) -> At {
        At { now: self.now, wording: self.settings.wording }
    }
}

/// The ClusterQueue of a Workload: that of its share, else that of its LocalQueue.
#[must_use]
pub fn cluster_queue_of(workload: &WorkloadFacts, local_queue: Option<&LocalQueueFacts>) -> Option<Text> {
    let reserved = workload.admission.as_ref().map(|it| it.cluster_queue.clone());
    reserved.or_else(|| local_queue.map(|it| it.cluster_queue.clone()))
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Applies all that admission owns, over the revision that was read.
    Write(Box<AdmissionStatus>),
    /// Sets `spec.active` to false, over the revision that was read.
    Deactivate,
    /// Sets `spec.priority`, over the revision that was read.
    SetPriority(i64),
    /// Takes our finalizer away.
    DropFinalizer,
    /// Deletes the Workload, what it owns afterwards.
    Delete,
    /// Notes an event.
    Note(Note),
    /// Counts something.
    Count(Happened),
    /// Looks again at this time.
    LookAgain(Time),
}

/// Decides what a Workload needs next; nothing means that it is as it should be.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Vec<Action> {
    if let Some(end) = ends::plan(seen) {
        return end;
    }
    if seen.workload.active && seen.status.holds(conditions::DEACTIVATION_TARGET) {
        return vec![Action::Deactivate];
    }
    if let Some(priority) = priority::wanted(seen.workload, seen.priority_class) {
        return vec![Action::SetPriority(priority)];
    }
    let mut pass = Pass { seen, draft: Draft::new(seen.known(), seen.at()), wake: None };
    pass.run();
    pass.actions()
}

/// When to look again though nothing has happened.
#[must_use]
pub fn wake_at(steps: &[Action]) -> Option<Time> {
    let time = |it: &Action| if let Action::LookAgain(at) = it { Some(*at) } else { None };
    steps.iter().filter_map(time).min()
}

/// One pass over a Workload that has not ended.
struct Pass<'a> {
    seen: &'a Observed<'a>,
    draft: Draft<'a>,
    wake: Option<Time>,
}

impl Pass<'_> {
    fn run(&mut self) {
        if !self.seen.workload.active {
            self.deactivated();
            return;
        }
        self.come_back();
        self.sync_checks();
        let has_quota = self.draft.has_quota();
        if has_quota && self.draft.status.holds(conditions::EVICTED) {
            return;
        }
        if has_quota {
            self.go_on();
        } else if !self.heed_checks() {
            self.say_what_blocks();
        }
    }

    /// Whether the time has come; if not, it is looked at again then.
    fn is_due(&mut self, at: Time) -> bool {
        if at <= self.seen.now {
            return true;
        }
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
        false
    }

    fn actions(self) -> Vec<Action> {
        let mut steps = actions(self.draft.written());
        steps.extend(self.wake.map(Action::LookAgain));
        steps
    }
}

/// What is to be written, then what is said and counted of it.
#[must_use]
pub fn actions(written: Written) -> Vec<Action> {
    let mut steps: Vec<Action> = written.status.map(Action::Write).into_iter().collect();
    steps.extend(written.notes.into_iter().map(Action::Note));
    steps.extend(written.happened.into_iter().map(Action::Count));
    steps
}
