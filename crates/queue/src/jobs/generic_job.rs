//! What a job integration implements (Kueue's `GenericJob`).
//!
//! The job [`reconciler`](super::reconciler) knows jobs only by this trait. An implementation reads one object; its
//! changes are idempotent merge patches with the resourceVersion that was read.
//!
//! # Guarantees
//!
//! - A job changes by one write at a time. If several are needed, each read determines the next one, so that a crash
//!   between two loses nothing.
//! - A restore undoes every start.

use std::collections::BTreeMap;

use muster_api::client::Subresource;
use muster_api::meta;
use muster_api::queue::PodSet;
use muster_tree::{Text, Tree};

use super::podset_info::{PodSetInfo, PodSetInfoConflict};

/// A kind of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobKind {
    /// Its name in `integrations.frameworks`.
    pub integration: &'static str,
    pub api_version: &'static str,
    pub group: &'static str,
    pub kind: &'static str,
    /// Path of its suspend field.
    pub suspend: &'static [&'static str],
}

/// A merge patch (RFC 7396) of a job or a subresource, with the resourceVersion that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPatch {
    pub part: Subresource,
    pub patch: Tree,
}

/// The outcome of a finished job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutcome {
    pub message: Text,
    pub succeeded: bool,
}

/// The next write of a start or stop.
#[derive(Debug, Clone, PartialEq)]
pub struct JobWrite {
    pub change: JobPatch,
    /// Whether it changes `suspend`: then an event is emitted.
    pub emits_event: bool,
}

/// The progress of a stop.
#[derive(Debug, Clone, PartialEq)]
pub enum StopProgress {
    Step(JobWrite),
    /// Another controller has to act first; why.
    Wait(&'static str),
    Stopped,
}

impl StopProgress {
    pub(super) fn step(change: Option<JobPatch>, is_told: bool) -> StopProgress {
        change.map_or(StopProgress::Stopped, |change| {
            StopProgress::Step(JobWrite { change, emits_event: is_told })
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobStartError {
    /// The PodSetInfo conflicts with the template. Permanent.
    Clash(PodSetInfoConflict),
    /// The admission has another number of pod sets. Permanent.
    OtherSets { has: usize, admitted: usize },
}

impl From<PodSetInfoConflict> for JobStartError {
    fn from(clash: PodSetInfoConflict) -> JobStartError {
        JobStartError::Clash(clash)
    }
}

impl std::fmt::Display for JobStartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JobStartError::Clash(clash) => clash.fmt(f),
            JobStartError::OtherSets { has, admitted } => {
                write!(f, "invalid podset infos: expecting {has} podset, got {admitted}")
            }
        }
    }
}

pub trait GenericJob {
    fn kind(&self) -> JobKind;

    fn object(&self) -> &Tree;

    /// Whether it is suspended.
    fn is_suspended(&self) -> bool;

    /// Its pod sets, with templates as written by the user or as left by a start.
    ///
    /// # Errors
    /// They are not known yet; why.
    fn pod_sets(&self) -> Result<Vec<PodSet>, String>;

    /// The next write of a start with the PodSetInfo of each pod set. The write that unsuspends is last and complete.
    ///
    /// # Errors
    /// The job can never be started with these.
    fn start(&self, infos: &[PodSetInfo]) -> Result<JobWrite, JobStartError>;

    /// The next write of a stop. Without `infos` the original templates are unknown, and the job is only suspended.
    fn stop(&self, infos: Option<&[PodSetInfo]>) -> StopProgress;

    /// The outcome, if it has finished.
    fn outcome(&self) -> Option<JobOutcome>;

    /// Whether any of its pods runs or may still run.
    fn is_active(&self) -> bool;

    /// Whether all required pods are ready or succeeded.
    fn pods_ready(&self) -> bool;

    /// Whether a running job has its PodSetInfo, where pod sets do not show it.
    fn has_podset_info(&self) -> bool {
        true
    }

    /// Reclaimable pods by pod set.
    fn reclaimable_pods(&self) -> BTreeMap<Text, u32> {
        BTreeMap::new()
    }

    /// The priority class named by the job itself; empty for none.
    fn priority_class(&self) -> &str {
        ""
    }

    /// Whether it is being deleted.
    fn is_deleting(&self) -> bool {
        meta::deletion_timestamp(self.object()).is_some()
    }
}

/// The last write of a start. Starting a running job changes nothing.
pub(super) fn last_of_start(old: &Tree, new: &Tree) -> JobWrite {
    let nothing = || JobPatch { part: Subresource::Main, patch: Tree::empty_map() };
    JobWrite { change: main_change(old, new).unwrap_or_else(nothing), emits_event: true }
}

pub(super) fn main_change(old: &Tree, new: &Tree) -> Option<JobPatch> {
    old.merge_patch_to(new).map(|patch| JobPatch { part: Subresource::Main, patch })
}
