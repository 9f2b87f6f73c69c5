//! TrainJobs: one pod set for each replicatedJob of the JobSet that they become.
//!
//! What a TrainJob becomes is built elsewhere, of its runtime, and passed in ([`Makes`]). What admission gives to its pods
//! does not go into templates, which are the runtime's: it stands in one entry of the TrainJob's patches, and that is ours.
//!
//! # Invariants
//!
//! - What it asks for is built without our entry ([`unpatched`]): whatever stands there, nobody has more or less by it.
//! - A start puts our entry last, so that nobody else's counts more, and leaves all others as they are.
//! - Our entry changes only while the TrainJob is suspended and none of its Jobs is active: no server takes it otherwise.

use std::collections::BTreeMap;

use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::paths::condition;
use muster_api::queue::PodSet;
use muster_api::queue::words::managers::RUNTIME_PATCH;
use muster_api::train::paths::{patch, patch_job, train_job as path};
use muster_api::train::words::{API_VERSION, GROUP, TRAIN_JOB, conditions};
use muster_api::train::{Managed, TrainJobFacts};
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree, tree};

use super::construct::{distinct_variables, without_gang};
use super::infos::{Info, Texts};
use super::work::{CannotStart, Change, Ended, Named, Step, Stop, Work, last_of_start, main_change};

/// What TrainJobs are called.
pub const NAMED: Named = Named {
    integration: "trainer.kubeflow.org/trainjob",
    api_version: API_VERSION,
    group: GROUP,
    kind: TRAIN_JOB,
    suspend: path::SUSPEND,
};

/// Why a stop waits.
const STILL_ACTIVE: &str = "jobs are still active";

/// What a TrainJob becomes, as far as queues go.
#[derive(Debug, Clone, PartialEq)]
pub struct Makes {
    parts: Vec<Part>,
}

/// One replicatedJob of it.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    /// As the runtime calls it.
    name: Text,
    /// How many Jobs.
    replicas: u32,
    /// Pods of each Job.
    pods: u32,
    /// What all of them ask for.
    set: PodSet,
}

impl Makes {
    /// Of the JobSet and the pod sets that whoever builds them says, for the TrainJob without our entry.
    #[must_use]
    pub fn of(jobset: &Tree, sets: Vec<PodSet>) -> Makes {
        let part = |(job, set): (ReplicatedJob, PodSet)| Part {
            name: job.name.clone(),
            replicas: job.replicas,
            pods: job.pods(),
            set: PodSet { template: distinct_variables(&without_gang(&set.template)), ..set },
        };
        Makes { parts: JobSetFacts::of(jobset).jobs.into_iter().zip(sets).map(part).collect() }
    }

    /// What it asks for.
    #[must_use]
    pub fn pod_sets(&self) -> Vec<PodSet> {
        self.parts.iter().map(|part| part.set.clone()).collect()
    }
}

/// A TrainJob of which whoever builds it is asked what it becomes: without our entry, and always as if it stood still, so
/// that the answer is the same for as long as its user changes nothing.
#[must_use]
pub fn unpatched(object: &Tree) -> Tree {
    let others = object.items_at(path::PATCHES).iter().filter(|it| !is_ours(it)).cloned();
    object.with(path::PATCHES, Tree::list(others)).with(path::SUSPEND, true)
}

/// Whether a TrainJob is somebody else's to run: then it is somebody else's to queue as well.
#[must_use]
pub fn is_elsewhere(object: &Tree) -> bool {
    TrainJobFacts::of(object).managed == Managed::Elsewhere
}

/// A TrainJob with an empty entry of ours behind all others, whatever stood under our name.
#[must_use]
pub fn with_entry(object: &Tree) -> Tree {
    let patches = object.items_at(path::PATCHES);
    let is_there = patches.last().is_some_and(|it| is_ours(it) && said(it).is_none())
        && patches.iter().filter(|it| is_ours(it)).count() == 1;
    if is_there { object.clone() } else { put_last(object, &empty()) }
}

/// What may not change of the patches of a queued TrainJob. `is_queue` tells whether the queue itself writes; it is asked
/// only where that matters.
#[must_use]
pub fn check_patches(old: &Tree, new: &Tree, is_queue: impl FnOnce() -> bool) -> Vec<FieldError> {
    const PATH: &str = "spec.runtimePatches";
    let mut problems = Vec::new();
    if said_by_us(old) != said_by_us(new) && !is_queue() {
        let why = format!("only the queue writes the entry of {RUNTIME_PATCH}");
        problems.push(FieldError::forbidden(PATH, why));
    }
    // Whoever lets it run with the same write would run it as nobody has looked at it.
    if new.bool_at(path::SUSPEND) != Some(true) && by_others(old) != by_others(new) {
        let why = "patches of what is queued change while it is suspended, before and after";
        problems.push(FieldError::forbidden(PATH, why));
    }
    problems
}

fn is_ours(entry: &Tree) -> bool {
    entry.str_at(patch::MANAGER) == RUNTIME_PATCH
}

/// What an entry says: nothing, for one that is empty however it is written.
fn said(entry: &Tree) -> Option<&Tree> {
    let spec = entry.at(patch::SPEC)?;
    is_something(spec).then_some(spec)
}

fn is_something(tree: &Tree) -> bool {
    match tree {
        Tree::Map(_) => tree.entries().iter().any(|(_, below)| is_something(below)),
        Tree::List(_) => !tree.items().is_empty(),
        other => !other.is_null(),
    }
}

fn said_by_us(object: &Tree) -> Vec<&Tree> {
    object.items_at(path::PATCHES).iter().filter(|it| is_ours(it)).filter_map(said).collect()
}

fn by_others(object: &Tree) -> Vec<Tree> {
    let others = object.items_at(path::PATCHES).iter().filter(|it| !is_ours(it));
    others.map(|it| it.without(patch::TIME)).collect()
}

fn empty() -> Tree {
    tree!({"manager": RUNTIME_PATCH}).with(patch::TEMPLATE_SPEC, Tree::empty_map())
}

fn put_last(object: &Tree, entry: &Tree) -> Tree {
    let others = object.items_at(path::PATCHES).iter().filter(|it| !is_ours(it)).cloned();
    object.with(path::PATCHES, Tree::list(others.chain([entry.clone()])))
}

/// A TrainJob.
#[derive(Debug, Clone)]
pub struct Training<'a> {
    object: &'a Tree,
    facts: TrainJobFacts,
    makes: Result<Makes, String>,
    runs: bool,
}

impl<'a> Training<'a> {
    /// Reads a TrainJob; `makes` is what it becomes, or why nobody can tell, and `runs` whether something of what it was
    /// made into runs or may run, whatever its status says.
    #[must_use]
    pub fn of(object: &'a Tree, makes: Result<Makes, String>, runs: bool) -> Training<'a> {
        Training { object, facts: TrainJobFacts::of(object), makes, runs }
    }

    fn parts(&self) -> &[Part] {
        self.makes.as_ref().map(|it| it.parts.as_slice()).unwrap_or_default()
    }

    /// Our entry with what admission gives to each set.
    fn entry(&self, infos: &[Info]) -> Result<Tree, CannotStart> {
        let (has, admitted) = (self.parts().len(), infos.len());
        let mut jobs = Vec::with_capacity(has);
        for part in self.parts() {
            let info = infos.iter().find(|it| it.name == part.set.name).filter(|_| has == admitted);
            jobs.push(patched(part, info.ok_or(CannotStart::OtherSets { has, admitted })?)?);
        }
        Ok(empty().with(patch::JOBS, Tree::list(jobs)))
    }

    /// The TrainJob with this entry of ours behind all others; itself where it is so.
    fn with_last(&self, entry: &Tree) -> Tree {
        let patches = self.object.items_at(path::PATCHES);
        let is_last = patches.last().is_some_and(|it| it.without(patch::TIME) == *entry);
        let is_alone = patches.iter().filter(|it| is_ours(it)).count() == 1;
        if is_last && is_alone { self.object.clone() } else { put_last(self.object, entry) }
    }
}

/// What of a replicatedJob has to be different.
fn patched(part: &Part, info: &Info) -> Result<Tree, CannotStart> {
    // Where two say something different of one key it does not start, whoever would have the last word.
    let whole = Info::of_template(&info.name, info.count, &info.put_into(&part.set.template)?);
    let map = |texts: &Texts| {
        (!texts.is_empty())
            .then(|| Tree::map(texts.iter().map(|(key, value)| (key.clone(), Tree::from(value)))))
    };
    let list = |items: &[Tree]| (!items.is_empty()).then(|| Tree::list(items.iter().cloned()));
    // Tolerations replace those of the template: all of them have to be there.
    let tolerations = list(&info.tolerations).and_then(|_| list(&whole.tolerations));
    Ok(Tree::empty_map()
        .with(patch_job::NAME, &part.name)
        .with_option(patch_job::POD_LABELS, map(&info.labels))
        .with_option(patch_job::POD_ANNOTATIONS, map(&info.annotations))
        .with_option(patch_job::NODE_SELECTOR, map(&info.node_selector))
        .with_option(patch_job::TOLERATIONS, tolerations)
        .with_option(patch_job::GATES, list(&info.gates)))
}

impl Work for Training<'_> {
    fn named(&self) -> Named {
        NAMED
    }

    fn object(&self) -> &Tree {
        self.object
    }

    fn is_suspended(&self) -> bool {
        self.facts.suspend
    }

    fn pod_sets(&self) -> Result<Vec<PodSet>, String> {
        self.makes.as_ref().map(Makes::pod_sets).map_err(Clone::clone)
    }

    fn start(&self, infos: &[Info]) -> Result<Step, CannotStart> {
        let job = self.with_last(&self.entry(infos)?);
        if let Some(change) = main_change(self.object, &job) {
            return Ok(Step { change, is_told: false });
        }
        Ok(last_of_start(self.object, &job.with(path::SUSPEND, false)))
    }

    /// Whoever asks, and whatever it was like: our entry is emptied.
    fn stop(&self, _: Option<&[Info]>) -> Stop {
        if !self.facts.suspend {
            return Stop::step(main_change(self.object, &self.object.with(path::SUSPEND, true)), true);
        }
        if said_by_us(self.object).is_empty() {
            return Stop::Still;
        }
        if self.is_active() {
            return Stop::Wait(STILL_ACTIVE);
        }
        let patches = self.object.at(path::PATCHES).cloned().unwrap_or_default();
        let emptied = patches.map_items(|_, it| if is_ours(it) { empty() } else { it.clone() });
        let change: Option<Change> = main_change(self.object, &self.object.with(path::PATCHES, emptied));
        Stop::step(change, false)
    }

    fn ended(&self) -> Option<Ended> {
        let ends = [(conditions::COMPLETE, true), (conditions::FAILED, false)];
        let (kind, succeeded) = ends.into_iter().find(|(kind, _)| self.facts.status.holds(kind))?;
        let end = self.facts.status.condition(kind)?;
        Some(Ended { message: end.text_at(condition::MESSAGE), succeeded })
    }

    fn is_active(&self) -> bool {
        self.runs || self.facts.status.jobs.iter().any(|it| it.active > 0)
    }

    fn pods_ready(&self) -> bool {
        let wanted = self.parts().iter().map(|part| u64::from(part.replicas)).sum::<u64>();
        let there = self.facts.status.jobs.iter().map(|it| u64::from(it.ready) + u64::from(it.succeeded));
        self.makes.is_ok() && there.sum::<u64>() == wanted
    }

    fn reclaimable(&self) -> BTreeMap<Text, u32> {
        let free = |part: &Part| {
            let status = self.facts.status.jobs.iter().find(|it| it.name == part.name)?;
            let done = status.succeeded.min(part.replicas);
            (done > 0).then(|| (part.set.name.clone(), done.saturating_mul(part.pods)))
        };
        self.parts().iter().filter_map(free).collect()
    }

    /// Whether our entry is the last one and has a word for every set: then nobody but we have written it.
    fn is_as_started(&self) -> bool {
        let Some(last) = self.object.items_at(path::PATCHES).last().filter(|it| is_ours(it)) else {
            return self.makes.is_err();
        };
        let named =
            |part: &Part| last.items_at(patch::JOBS).iter().any(|it| it.str_at(patch_job::NAME) == part.name);
        self.parts().iter().all(named)
    }
}
