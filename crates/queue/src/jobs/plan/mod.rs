//! What a job in a queue needs next.
//!
//! One order for all kinds of jobs: who is above it, which Workload is its own, whether either has ended, what the
//! Workload should be told, and whether the job may run. The kind itself is behind [`Work`].
//!
//! # Invariants
//!
//! - [`plan`] is pure: same picture, same steps, same order.
//! - A pass ends with the first write that changes the Workload, or the job: what comes after is decided by what is read
//!   then. So each step is safe to repeat, and a crash between any two loses nothing.
//! - A Workload goes, or gives its share back, only once its job stands still and none of its pods is active.
//! - Events come after the write that they tell of.

mod gone;
mod matching;
mod progress;
mod run;

use std::collections::BTreeMap;

use muster_api::event::Severity;
use muster_api::meta;
use muster_api::port::Uid;
use muster_api::queue::words::{finalizers, labels, reasons};
use muster_api::queue::{Condition, FlavorFacts, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

pub use gone::plan_gone;

use super::ancestors::{Ancestor, Lost};
use super::naming::Room;
use super::priority::Classes;
use super::work::{Change, Work};

/// Most pod sets of a Workload.
pub const POD_SETS_MAX: usize = 18;

/// A Workload as it was read.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The object.
    pub tree: &'a Tree,
    /// What is read of it.
    pub facts: WorkloadFacts,
}

impl<'a> Seen<'a> {
    /// Reads a Workload.
    #[must_use]
    pub fn of(tree: &'a Tree) -> Seen<'a> {
        Seen { tree, facts: WorkloadFacts::of(tree) }
    }

    /// Which it is.
    #[must_use]
    pub fn this(&self) -> Ref {
        Ref { name: self.facts.name.clone(), uid: self.facts.uid.clone() }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.facts.namespace, self.facts.name)
    }
}

/// Exactly this Workload: the UID guards against a namesake born meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
}

/// What is above a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Above {
    /// Nothing that is managed.
    Nothing,
    /// An owner that is queued in its stead.
    Managed {
        /// Which.
        ancestor: Ancestor,
        /// Whether that one's Workload is there and admitted.
        is_admitted: bool,
    },
    /// It cannot be told.
    Lost(Lost),
}

/// What is configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Labels that Workloads take over.
    pub label_keys: Vec<Text>,
    /// How long names of Workloads may be.
    pub room: Room,
    /// Whether jobs without a queue are managed too.
    pub without_queue: bool,
    /// Whether Workloads are told that pods are ready.
    pub tells_pods_ready: bool,
}

/// Everything one decision may look at, read at a single instant.
pub struct Observed<'a> {
    /// The job.
    pub job: &'a dyn Work,
    /// Whether its namespace is one of those that are managed.
    pub is_selected: bool,
    /// What is above it.
    pub above: Above,
    /// The Workloads that it controls, the oldest first.
    pub workloads: &'a [Seen<'a>],
    /// The Workload that it names itself, if it does and there is one.
    pub prebuilt: Option<&'a Seen<'a>>,
    /// Flavors.
    pub flavor: &'a dyn Fn(&str) -> Option<FlavorFacts>,
    /// Classes of priority.
    pub classes: &'a dyn Classes,
    /// What is configured.
    pub settings: &'a Settings,
    /// The instant of the reading.
    pub now: Time,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// The job.
    Job,
    /// A Workload.
    Workload(Ref),
}

/// One step towards what should be.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Makes a Workload.
    CreateWorkload(Tree),
    /// Merge patch of a Workload, meant for the revision that was read.
    PatchWorkload(Ref, Tree),
    /// Takes the finalizer off a Workload, if it is there.
    DropFinalizer(Ref),
    /// Deletes a Workload.
    DeleteWorkload(Ref),
    /// Sets a condition that admission owns.
    SetCondition(Ref, Condition),
    /// Tells a Workload which pods need their share no more.
    SetReclaimable(Ref, BTreeMap<Text, u32>),
    /// Gives the share of an evicted Workload back: reservation, admission and, by the reason, the queue.
    ReleaseQuota(Ref),
    /// Changes the job, meant for the revision that was read.
    ChangeJob(Change),
    /// Notes an event.
    Note(About, Severity, &'static str, String),
}

/// Decides what a job needs next: the steps that bring it closer to what its Workload says.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Vec<Action> {
    if seen.job.is_deleting() {
        return seen.workloads.iter().flat_map(drop_finalizer).collect();
    }
    if !seen.is_selected {
        return Vec::new();
    }
    match &seen.above {
        Above::Managed { is_admitted, .. } => return matching::hold_child(seen, *is_admitted),
        Above::Lost(Lost::TooDeep) => {
            return vec![warn(reasons::NESTING_TOO_DEEP, Lost::TooDeep.to_string())];
        }
        // It may be that an owner is only not seen yet: its arrival reconciles the job.
        Above::Lost(Lost::NotFound(_) | Lost::Unreadable(_) | Lost::Cyclic) => return Vec::new(),
        Above::Nothing => {}
    }
    if queue_of(seen.job.object()).is_empty() && !seen.settings.without_queue {
        return Vec::new();
    }
    match matching::own_workload(seen) {
        matching::Own::Act(steps) => steps,
        matching::Own::Missing => run::without_workload(seen),
        matching::Own::Found(workload) => with_workload(seen, workload),
    }
}

/// A job and the Workload that is like it.
fn with_workload(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    let facts = &workload.facts;
    if facts.is_finished() {
        return run::after_the_end(seen, workload);
    }
    if facts.deleting {
        return run::stop_for_deleted(seen, workload);
    }
    if let Some(end) = seen.job.ended() {
        return progress::finish(seen, workload, &end);
    }
    let mut steps = progress::tell(seen, workload);
    if steps.is_empty() {
        steps = run::run_or_stop(seen, workload);
    }
    steps.extend(progress::complaint(seen, workload));
    steps.extend(seen.job.pod_sets().err().map(matching::cannot_tell));
    steps
}

/// The queue that an object names; empty for none.
#[must_use]
pub fn queue_of(object: &Tree) -> Text {
    meta::label(object, labels::QUEUE).map(Text::from).unwrap_or_default()
}

/// The Workload that an object names itself, by label or annotation.
#[must_use]
pub fn prebuilt_of(object: &Tree) -> Option<Text> {
    let name = meta::label(object, labels::PREBUILT_WORKLOAD)
        .or_else(|| meta::annotation(object, labels::PREBUILT_WORKLOAD))?;
    (!name.is_empty()).then(|| Text::from(name))
}

fn drop_finalizer(workload: &Seen<'_>) -> Vec<Action> {
    let has = workload.facts.has_finalizer(finalizers::IN_USE);
    if has { vec![Action::DropFinalizer(workload.this())] } else { Vec::new() }
}

fn note(reason: &'static str, message: impl Into<String>) -> Action {
    Action::Note(About::Job, Severity::Normal, reason, message.into())
}

fn warn(reason: &'static str, message: impl Into<String>) -> Action {
    Action::Note(About::Job, Severity::Warning, reason, message.into())
}
