//! What every kind of job supplies: what it asks for, how it is started and stopped, and how it fares.
//!
//! The reconcile order ([`plan`](super::plan)) knows jobs by this alone. A kind is a small file beside this one that
//! reads one object; its changes are merge patches, each safe to repeat, each meant for the revision that was read.
//!
//! # Invariants
//!
//! - A job changes by one write at a time. What needs several says with each reading which comes next, so that a crash
//!   between any two loses nothing.
//! - `restore` undoes whatever `start` did, whoever was there in between.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::port::Part;
use muster_api::queue::PodSet;
use muster_tree::{Text, Tree};

use super::infos::{Clash, Info};

/// What a kind of job is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Its name in configuration.
    pub integration: &'static str,
    /// Group and version.
    pub api_version: &'static str,
    /// Its group.
    pub group: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Where it is told to stand still.
    pub suspend: &'static [&'static str],
}

/// One write to a job: a merge patch (RFC 7396) of a part of it, meant for the revision that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which part.
    pub part: Part,
    /// The patch.
    pub patch: Tree,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its own words.
    pub message: Text,
    /// Whether it did what it was made for.
    pub succeeded: bool,
}

/// The next write of a start or a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The write.
    pub change: Change,
    /// Whether it is the one that lets the job run, or keeps it from running: worth an event.
    pub is_told: bool,
}

/// How far a stop is.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// This comes next.
    Step(Step),
    /// Nothing can be written before others have done their part: why.
    Wait(&'static str),
    /// The job stands still and is as it should be.
    Still,
}

impl Stop {
    /// The write that comes next, if there is one.
    pub(super) fn step(change: Option<Change>, is_told: bool) -> Stop {
        change.map_or(Stop::Still, |change| Stop::Step(Step { change, is_told }))
    }
}

/// Why a job cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotStart {
    /// What admission gives contradicts what is there: for good.
    Clash(Clash),
    /// The admission is of another number of pod sets: for good, too.
    OtherSets {
        /// Sets of the job.
        has: usize,
        /// Sets that were admitted.
        admitted: usize,
    },
}

impl From<Clash> for CannotStart {
    fn from(clash: Clash) -> CannotStart {
        CannotStart::Clash(clash)
    }
}

impl std::fmt::Display for CannotStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CannotStart::Clash(clash) => clash.fmt(f),
            CannotStart::OtherSets { has, admitted } => {
                write!(f, "invalid podset infos: expecting {has} podset, got {admitted}")
            }
        }
    }
}

/// One job of some kind.
pub trait Work {
    /// What its kind is called.
    fn named(&self) -> Named;

    /// The object.
    fn object(&self) -> &Tree;

    /// Whether it stands still, and nothing is left to be done about that.
    fn is_suspended(&self) -> bool;

    /// What it asks for, with templates as its user wrote them or as a start left them.
    ///
    /// # Errors
    /// It cannot be told yet, and why.
    fn pod_sets(&self) -> Result<Vec<PodSet>, String>;

    /// The next write of a start with what admission gives to each set. The one that lets it run comes last and has
    /// everything in it.
    ///
    /// # Errors
    /// It can never be started like that.
    fn start(&self, infos: &[Info]) -> Result<Step, CannotStart>;

    /// What comes next of a stop. Without `infos` nobody knows what the job was like, and it only stops.
    fn stop(&self, infos: Option<&[Info]>) -> Stop;

    /// How it ended, if it has.
    fn ended(&self) -> Option<Ended>;

    /// Whether pods of it run or may still run.
    fn is_active(&self) -> bool;

    /// Whether all pods that are to run are ready or done.
    fn pods_ready(&self) -> bool;

    /// Whether it runs as a start leaves it, where that cannot be told by what it asks for.
    fn is_as_started(&self) -> bool {
        true
    }

    /// Pods of each set whose share nobody needs any more.
    fn reclaimable(&self) -> BTreeMap<Text, u32> {
        BTreeMap::new()
    }

    /// The class of priority that the kind itself names; empty for none.
    fn priority_class(&self) -> &str {
        ""
    }

    /// Whether it is being deleted.
    fn is_deleting(&self) -> bool {
        meta::deleting(self.object()).is_some()
    }
}

/// The last write of a start: from `old` to `new`. A start of what runs already changes nothing.
pub(super) fn last_of_start(old: &Tree, new: &Tree) -> Step {
    let nothing = || Change { part: Part::Main, patch: Tree::empty_map() };
    Step { change: main_change(old, new).unwrap_or_else(nothing), is_told: true }
}

/// A merge patch from `old` to `new` of the main part.
pub(super) fn main_change(old: &Tree, new: &Tree) -> Option<Change> {
    old.merge_patch_to(new).map(|patch| Change { part: Part::Main, patch })
}
