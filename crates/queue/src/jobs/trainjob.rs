//! The `trainer.kubeflow.org/trainjob` integration: one pod set per replicatedJob of the JobSet it is built into.
//!
//! That JobSet is built elsewhere, from the runtime, and passed in ([`Makes`]). The PodSetInfo is not written
//! into templates, which belong to the runtime, but into one entry of `spec.runtimePatches` with our manager name.
//!
//! # Guarantees
//!
//! - Pod sets are built without our entry ([`unpatched`]): its content never changes the requests.
//! - A start puts our entry last, so that no other entry overrides it, and keeps all others.
//! - Our entry changes only while the TrainJob is suspended and none of its Jobs is active: other writes would be
//!   rejected.

use std::collections::BTreeMap;

use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::paths::condition;
use muster_api::queue::PodSet;
use muster_api::queue::consts::TRAINJOB_INTEGRATION;
use muster_api::queue::consts::managers::RUNTIME_PATCH;
use muster_api::train::consts::{API_VERSION, GROUP, TRAIN_JOB, conditions};
use muster_api::train::paths::{patch, patch_job, train_job as path};
use muster_api::train::{ManagedBy, TrainJobFacts};
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree, tree};

use super::construct::{distinct_variables, without_gang};
use super::generic_job::{
    GenericJob, JobKind, JobOutcome, JobPatch, JobStartError, JobWrite, StopProgress, last_of_start,
    main_change,
};
use super::podset_info::{PodSetInfo, StringMap};

pub const NAMED: JobKind = JobKind {
    integration: TRAINJOB_INTEGRATION,
    api_version: API_VERSION,
    group: GROUP,
    kind: TRAIN_JOB,
    suspend: path::SUSPEND,
};

const STILL_ACTIVE: &str = "jobs are still active";

/// The JobSet a TrainJob is built into, as far as quota is concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltJobSet {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
struct Part {
    /// Its name in the runtime.
    name: Text,
    replicas: u32,
    pods: u32,
    set: PodSet,
}

impl BuiltJobSet {
    /// From the built JobSet and its pod sets, for the TrainJob without our entry.
    #[must_use]
    pub fn of(jobset: &Tree, sets: Vec<PodSet>) -> BuiltJobSet {
        let part = |(job, set): (ReplicatedJob, PodSet)| Part {
            name: job.name.clone(),
            replicas: job.replicas,
            pods: job.pods(),
            set: PodSet { template: distinct_variables(&without_gang(&set.template)), ..set },
        };
        BuiltJobSet { parts: JobSetFacts::of(jobset).jobs.into_iter().zip(sets).map(part).collect() }
    }

    #[must_use]
    pub fn pod_sets(&self) -> Vec<PodSet> {
        self.parts.iter().map(|part| part.set.clone()).collect()
    }
}

/// The TrainJob to build the JobSet from: without our entry and always suspended, so that the result depends on the
/// user's spec only.
#[must_use]
pub fn without_queue_patch(object: &Tree) -> Tree {
    let others = object.items_at(path::PATCHES).iter().filter(|it| !is_ours(it)).cloned();
    object.with(path::PATCHES, Tree::list(others)).with(path::SUSPEND, true)
}

/// Whether `managedBy` names another controller: it is queued there, too.
#[must_use]
pub fn is_managed_externally(object: &Tree) -> bool {
    TrainJobFacts::of(object).managed_by == ManagedBy::External
}

/// Appends an empty entry of ours, dropping any with our manager name.
#[must_use]
pub fn with_empty_queue_patch(object: &Tree) -> Tree {
    let patches = object.items_at(path::PATCHES);
    let is_there = patches.last().is_some_and(|it| is_ours(it) && entry_content(it).is_none())
        && patches.iter().filter(|it| is_ours(it)).count() == 1;
    if is_there { object.clone() } else { append_entry(object, &empty()) }
}

/// Validates changes of `runtimePatches` of a managed TrainJob. `is_queue`: whether the writer is the queue itself;
/// evaluated only if needed.
#[must_use]
pub fn validate_runtime_patches(old: &Tree, new: &Tree, is_queue: impl FnOnce() -> bool) -> Vec<FieldError> {
    const PATH: &str = "spec.runtimePatches";
    let mut problems = Vec::new();
    if our_content(old) != our_content(new) && !is_queue() {
        let why = format!("only the queue writes the entry of {RUNTIME_PATCH}");
        problems.push(FieldError::forbidden(PATH, why));
    }
    // Changed together with unsuspending, the patches would apply to pods that were not validated.
    if new.bool_at(path::SUSPEND) != Some(true) && foreign_entries(old) != foreign_entries(new) {
        let why = "patches of what is queued change while it is suspended, before and after";
        problems.push(FieldError::forbidden(PATH, why));
    }
    problems
}

fn is_ours(entry: &Tree) -> bool {
    entry.str_at(patch::MANAGER) == RUNTIME_PATCH
}

/// The content of an entry; None if it is empty.
fn entry_content(entry: &Tree) -> Option<&Tree> {
    let spec = entry.at(patch::SPEC)?;
    has_content(spec).then_some(spec)
}

fn has_content(tree: &Tree) -> bool {
    match tree {
        Tree::Map(_) => tree.entries().iter().any(|(_, below)| has_content(below)),
        Tree::List(_) => !tree.items().is_empty(),
        other => !other.is_null(),
    }
}

fn our_content(object: &Tree) -> Vec<&Tree> {
    object.items_at(path::PATCHES).iter().filter(|it| is_ours(it)).filter_map(entry_content).collect()
}

fn foreign_entries(object: &Tree) -> Vec<Tree> {
    let others = object.items_at(path::PATCHES).iter().filter(|it| !is_ours(it));
    others.map(|it| it.without(patch::TIME)).collect()
}

fn empty() -> Tree {
    tree!({"manager": RUNTIME_PATCH}).with(patch::TEMPLATE_SPEC, Tree::empty_map())
}

fn append_entry(object: &Tree, entry: &Tree) -> Tree {
    let others = object.items_at(path::PATCHES).iter().filter(|it| !is_ours(it)).cloned();
    object.with(path::PATCHES, Tree::list(others.chain([entry.clone()])))
}

#[derive(Debug, Clone)]
pub struct QueuedTrainJob<'a> {
    object: &'a Tree,
    facts: TrainJobFacts,
    makes: Result<BuiltJobSet, String>,
    runs: bool,
}

impl<'a> QueuedTrainJob<'a> {
    /// Reads a TrainJob. `makes`: the built JobSet, or why it is not known. `runs`: whether any of its objects runs
    /// or may run, whatever the status says.
    #[must_use]
    pub fn of(object: &'a Tree, makes: Result<BuiltJobSet, String>, runs: bool) -> QueuedTrainJob<'a> {
        QueuedTrainJob { object, facts: TrainJobFacts::of(object), makes, runs }
    }

    fn parts(&self) -> &[Part] {
        self.makes.as_ref().map(|it| it.parts.as_slice()).unwrap_or_default()
    }

    /// Our entry with the PodSetInfo of each pod set.
    fn entry(&self, infos: &[PodSetInfo]) -> Result<Tree, JobStartError> {
        let (has, admitted) = (self.parts().len(), infos.len());
        let mut jobs = Vec::with_capacity(has);
        for part in self.parts() {
            let info = infos.iter().find(|it| it.name == part.set.name).filter(|_| has == admitted);
            jobs.push(patched(part, info.ok_or(JobStartError::OtherSets { has, admitted })?)?);
        }
        Ok(empty().with(patch::JOBS, Tree::list(jobs)))
    }

    /// The TrainJob with this entry of ours last; unchanged if it is already.
    fn with_last(&self, entry: &Tree) -> Tree {
        let patches = self.object.items_at(path::PATCHES);
        let is_last = patches.last().is_some_and(|it| it.without(patch::TIME) == *entry);
        let is_alone = patches.iter().filter(|it| is_ours(it)).count() == 1;
        if is_last && is_alone { self.object.clone() } else { append_entry(self.object, entry) }
    }
}

/// The patch of one replicatedJob.
fn patched(part: &Part, info: &PodSetInfo) -> Result<Tree, JobStartError> {
    // A conflicting key fails the start, even if our entry would override it.
    let whole = PodSetInfo::of_template(&info.name, info.count, &info.merge_into(&part.set.template)?);
    let map = |texts: &StringMap| {
        (!texts.is_empty())
            .then(|| Tree::map(texts.iter().map(|(key, value)| (key.clone(), Tree::from(value)))))
    };
    let list = |items: &[Tree]| (!items.is_empty()).then(|| Tree::list(items.iter().cloned()));
    // The patch replaces the tolerations of the template: include all.
    let tolerations = list(&info.tolerations).and_then(|_| list(&whole.tolerations));
    Ok(Tree::empty_map()
        .with(patch_job::NAME, &part.name)
        .with_option(patch_job::POD_LABELS, map(&info.labels))
        .with_option(patch_job::POD_ANNOTATIONS, map(&info.annotations))
        .with_option(patch_job::NODE_SELECTOR, map(&info.node_selector))
        .with_option(patch_job::TOLERATIONS, tolerations)
        .with_option(patch_job::GATES, list(&info.gates)))
}

impl GenericJob for QueuedTrainJob<'_> {
    fn kind(&self) -> JobKind {
        NAMED
    }

    fn object(&self) -> &Tree {
        self.object
    }

    fn is_suspended(&self) -> bool {
        self.facts.suspend
    }

    fn pod_sets(&self) -> Result<Vec<PodSet>, String> {
        self.makes.as_ref().map(BuiltJobSet::pod_sets).map_err(Clone::clone)
    }

    fn start(&self, infos: &[PodSetInfo]) -> Result<JobWrite, JobStartError> {
        let job = self.with_last(&self.entry(infos)?);
        // Two writes: patches change only while the TrainJob is suspended, before and after the write.
        if let Some(change) = main_change(self.object, &job) {
            return Ok(JobWrite { change, emits_event: false });
        }
        Ok(last_of_start(self.object, &job.with(path::SUSPEND, false)))
    }

    /// Suspends, then empties our entry; the original templates are not needed.
    fn stop(&self, _: Option<&[PodSetInfo]>) -> StopProgress {
        if !self.facts.suspend {
            return StopProgress::step(
                main_change(self.object, &self.object.with(path::SUSPEND, true)),
                true,
            );
        }
        if our_content(self.object).is_empty() {
            return StopProgress::Stopped;
        }
        // The Trainer rejects changed patches while Jobs are active.
        if self.is_active() {
            return StopProgress::Wait(STILL_ACTIVE);
        }
        let patches = self.object.at(path::PATCHES).cloned().unwrap_or_default();
        let emptied = patches.map_items(|_, it| if is_ours(it) { empty() } else { it.clone() });
        let change: Option<JobPatch> = main_change(self.object, &self.object.with(path::PATCHES, emptied));
        StopProgress::step(change, false)
    }

    fn outcome(&self) -> Option<JobOutcome> {
        let ends = [(conditions::COMPLETE, true), (conditions::FAILED, false)];
        let (kind, succeeded) = ends.into_iter().find(|(kind, _)| self.facts.status.holds(kind))?;
        let end = self.facts.status.condition(kind)?;
        Some(JobOutcome { message: end.text_at(condition::MESSAGE), succeeded })
    }

    fn is_active(&self) -> bool {
        self.runs || self.facts.status.jobs.iter().any(|it| it.active > 0)
    }

    fn pods_ready(&self) -> bool {
        let wanted = self.parts().iter().map(|part| u64::from(part.replicas)).sum::<u64>();
        let there = self.facts.status.jobs.iter().map(|it| u64::from(it.ready) + u64::from(it.succeeded));
        self.makes.is_ok() && there.sum::<u64>() == wanted
    }

    fn reclaimable_pods(&self) -> BTreeMap<Text, u32> {
        let free = |part: &Part| {
            let status = self.facts.status.jobs.iter().find(|it| it.name == part.name)?;
            let done = status.succeeded.min(part.replicas);
            (done > 0).then(|| (part.set.name.clone(), done.saturating_mul(part.pods)))
        };
        self.parts().iter().filter_map(free).collect()
    }

    /// Whether our entry is last and covers every pod set.
    fn has_podset_info(&self) -> bool {
        let Some(last) = self.object.items_at(path::PATCHES).last().filter(|it| is_ours(it)) else {
            return self.makes.is_err();
        };
        let named =
            |part: &Part| last.items_at(patch::JOBS).iter().any(|it| it.str_at(patch_job::NAME) == part.name);
        self.parts().iter().all(named)
    }
}
