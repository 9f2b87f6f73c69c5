//! TrainJobs in queues: what they become, of the runtime that they kept or else of the one there is, and whom a change of
//! either concerns.
//!
//! # Invariants
//!
//! - What a TrainJob becomes is built anew only when its user, or what it is built of, changed.

use std::collections::BTreeMap;

use muster_api::event::{About, Event, Severity};
use muster_api::gang_make::Gangs;
use muster_api::kinds::{CONFIG_MAPS, JOBS, JOBSETS};
use muster_api::meta;
use muster_api::port::{Call, Kind, Object, Refusal, Revision, Uid};
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES};
use muster_api::train::words::{GROUP, TRAIN_JOB, messages};
use muster_api::train::{RuntimeKind, RuntimeRef, TrainJobFacts, snapshot_name};
use muster_queue::jobs::batch::BatchJob;
use muster_queue::jobs::jobset::SetOfJobs;
use muster_queue::jobs::trainjob::{Makes, unpatched};
use muster_queue::jobs::work::Work;
use muster_trainer::build::{Asked, build};
use muster_trainer::life::snapshot;
use muster_tree::{Text, Tree};

use super::calls;
use crate::cache::{Caches, Seen};
use crate::plan::{Key, Wake};

/// What has to be known of TrainJobs.
pub(super) const KINDS: [&Kind; 4] =
    [&TRAIN_JOBS, &TRAINING_RUNTIMES, &CLUSTER_TRAINING_RUNTIMES, &CONFIG_MAPS];

/// What TrainJobs become.
#[derive(Debug, Default)]
pub(super) struct Trainings {
    built: BTreeMap<Uid, Built>,
}

/// What was built, and of what.
#[derive(Debug)]
struct Built {
    /// The TrainJob's part in it.
    spec: Tree,
    /// The revision of the snapshot or the runtime.
    of: Option<Revision>,
    makes: Result<Makes, String>,
}

impl Trainings {
    /// What a TrainJob becomes, or why that cannot be told.
    pub fn makes(&mut self, object: &Object, gangs: Option<Gangs>, caches: &Caches) -> Result<Makes, String> {
        let (job, source) = (unpatched(&object.tree), source(&object.tree, caches));
        let spec = job.get("spec").cloned().unwrap_or_default();
        let of = source.as_ref().ok().map(|it| it.object().revision);
        let uid = meta::uid(&object.tree);
        if let Some(known) = self.built.get(&uid).filter(|it| it.of == of && it.spec == spec)
            && of.is_some()
        {
            return known.makes.clone();
        }
        let makes = source.and_then(|source| made(&job, &source, gangs));
        self.built.insert(uid, Built { spec, of, makes: makes.clone() });
        makes
    }

    /// Hears that a TrainJob is gone.
    pub fn forget(&mut self, uid: &Uid) {
        self.built.remove(uid);
    }
}

/// What a TrainJob that is not there yet would become, or why that cannot be told.
pub(super) fn makes(job: &Tree, gangs: Option<Gangs>, caches: &Caches) -> Result<Makes, String> {
    made(&unpatched(job), &source(job, caches)?, gangs)
}

/// Of what a TrainJob is built.
enum Source<'a> {
    /// Of the runtime that it kept.
    Snapshot(&'a Object),
    /// Of the runtime itself.
    Runtime(&'a Object),
}

impl<'a> Source<'a> {
    fn object(&self) -> &'a Object {
        match self {
            Source::Snapshot(it) | Source::Runtime(it) => it,
        }
    }
}

/// Of what a TrainJob is built, or why it cannot be.
fn source<'a>(job: &Tree, caches: &'a Caches) -> Result<Source<'a>, String> {
    let (namespace, reference) = (meta::namespace(job), RuntimeRef::of(job));
    let Some(kind) = reference.known() else {
        return Err(messages::unsupported_runtime(&reference.kind, &reference.group));
    };
    if let Some(kept) = caches.get(&CONFIG_MAPS, &namespace, &snapshot_name(&meta::name(job))) {
        return Ok(Source::Snapshot(kept));
    }
    let place = place_of(kind, &namespace);
    let runtime = caches.get(kind.kind(), &place, &reference.name);
    runtime.map(Source::Runtime).ok_or_else(|| format!("runtime '{}' not found", reference.name))
}

/// Where a runtime lives that is named in this namespace.
fn place_of(kind: RuntimeKind, namespace: &Text) -> Text {
    match kind {
        RuntimeKind::Namespaced => namespace.clone(),
        RuntimeKind::Cluster => Text::new(),
    }
}

fn made(job: &Tree, source: &Source<'_>, gangs: Option<Gangs>) -> Result<Makes, String> {
    let kept;
    let runtime = match source {
        Source::Snapshot(it) => {
            kept = snapshot::read(&TrainJobFacts::of(job), &it.tree).map_err(|why| why.to_string())?;
            &kept
        }
        Source::Runtime(it) => &it.tree,
    };
    let built = build(&Asked { gangs, ..Asked::new(job, runtime) }).map_err(|why| why.to_string())?;
    let sets = built.pod_sets();
    built.jobset().map(|jobset| Makes::of(jobset, sets)).ok_or_else(|| "nothing is made of it".to_owned())
}

/// Whether something of what a TrainJob was made into runs, or may run: its status tells that late.
pub(super) fn runs(train_job: &Uid, caches: &Caches) -> bool {
    let of = |uid: &Uid, kind: &'static Kind| {
        let owned: Vec<&Object> =
            caches.owned_by(uid).filter(|(key, _)| key.kind == *kind).map(|(_, it)| it).collect();
        owned
    };
    let may_run = |work: &dyn Work| work.ended().is_none() && (!work.is_suspended() || work.is_active());
    of(train_job, &JOBSETS).into_iter().any(|set| {
        let jobs = of(&meta::uid(&set.tree), &JOBS);
        may_run(&SetOfJobs::of(&set.tree)) || jobs.iter().any(|job| may_run(&BatchJob::of(&job.tree)))
    })
}

/// Event: what admission gives, or takes back, could not be written.
const UPDATE_REFUSED: &str = "UpdateRefused";

/// What is told when a TrainJob is not written as it should be: whoever else judges it knows a reason, and it may hold its
/// share for as long as that stands.
pub(super) fn refused(call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
    let is_no = matches!(why, Refusal::Invalid(_) | Refusal::Forbidden(_));
    let on = Some(&call.on).filter(|on| on.kind == TRAIN_JOBS && is_no)?;
    let job = caches.get(&on.kind, &on.namespace, &on.name)?;
    let about = About::of(&TRAIN_JOBS, TRAIN_JOB, &job.tree);
    Some(calls::told_of(about, Severity::Warning, UPDATE_REFUSED, why.words()))
}

/// Of ConfigMaps, those in which TrainJobs keep their runtime.
pub(super) fn concerns(object: &Tree) -> bool {
    keeper(object).is_some()
}

/// The name of the TrainJob that keeps its runtime in this ConfigMap.
fn keeper(object: &Tree) -> Option<Text> {
    let owner = meta::controller(object).filter(|it| (it.group(), &*it.kind) == (GROUP, TRAIN_JOB))?;
    (meta::name(object) == snapshot_name(&owner.name)).then_some(owner.name)
}

/// The TrainJobs that a change of a runtime or a snapshot concerns.
pub(super) fn hear(seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
    let (kind, namespace) = (&seen.key.kind, &seen.key.namespace);
    if *kind == CONFIG_MAPS {
        let keepers = [seen.before, seen.after].into_iter().flatten().filter_map(|it| keeper(&it.tree));
        return keepers.map(|name| Key::new(&TRAIN_JOBS, namespace, &name).into()).collect();
    }
    let names = |job: &&Object| {
        let (reference, own) = (RuntimeRef::of(&job.tree), meta::namespace(&job.tree));
        let is_it = |of: RuntimeKind| of.kind() == kind && place_of(of, &own) == *namespace;
        reference.name == seen.key.name && reference.known().is_some_and(is_it)
    };
    let jobs = caches.all(&TRAIN_JOBS).filter(names);
    jobs.map(|job| Key::of(&TRAIN_JOBS, &job.tree).into()).collect()
}

/// The TrainJob that a JobSet, or a Job of one, was made for.
pub(super) fn above(object: &Tree, caches: &Caches) -> Option<Key> {
    let owner = meta::controller(object)?;
    let (key, above) = caches.by_uid(&owner.uid)?;
    if key.kind == TRAIN_JOBS {
        return Some(key.clone());
    }
    let owner = meta::controller(&above.tree).filter(|_| key.kind == JOBSETS)?;
    caches.by_uid(&owner.uid).map(|(key, _)| key.clone()).filter(|key| key.kind == TRAIN_JOBS)
}
