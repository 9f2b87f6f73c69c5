//! TrainJobs in queues: the JobSet that a TrainJob is built into, from its runtime snapshot or else from the live runtime, and
//! the TrainJobs that an event of either reconciles.
//!
//! # Guarantees
//!
//! - A TrainJob is built again only when its spec or the revision of its source changed.

use std::collections::BTreeMap;

use muster_api::client::{ApiError, ApiObject, ApiRequest, Kind, Revision, Uid};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::gang_objects::GangSupport;
use muster_api::kinds::{CONFIG_MAPS, JOBS, JOBSETS};
use muster_api::meta;
use muster_api::train::consts::{GROUP, TRAIN_JOB, messages};
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES};
use muster_api::train::{RuntimeKind, RuntimeRef, TrainJobFacts, snapshot_name};
use muster_queue::jobs::batch::BatchJob;
use muster_queue::jobs::generic_job::GenericJob;
use muster_queue::jobs::jobset::QueuedJobSet;
use muster_queue::jobs::trainjob::{BuiltJobSet, without_queue_patch};
use muster_trainer::build::{BuildRequest, build};
use muster_trainer::controller::snapshot;
use muster_tree::{Text, Tree};

use super::requests;
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, ReconcileRequest};

/// The kinds to watch for TrainJobs.
pub(super) const KINDS: [&Kind; 4] =
    [&TRAIN_JOBS, &TRAINING_RUNTIMES, &CLUSTER_TRAINING_RUNTIMES, &CONFIG_MAPS];

/// Cached builds of TrainJobs.
#[derive(Debug, Default)]
pub(super) struct Trainings {
    built: BTreeMap<Uid, Built>,
}

/// A cached build and its inputs.
#[derive(Debug)]
struct Built {
    /// The spec of the TrainJob without the patches of the manager.
    spec: Tree,
    /// The revision of the snapshot or the runtime.
    of: Option<Revision>,
    makes: Result<BuiltJobSet, String>,
}

impl Trainings {
    /// The pod sets of a TrainJob, or the build error.
    pub fn makes(
        &mut self,
        object: &ApiObject,
        gangs: Option<GangSupport>,
        caches: &Caches,
    ) -> Result<BuiltJobSet, String> {
        let (job, source) = (without_queue_patch(&object.tree), source(&object.tree, caches));
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

    /// Drops the build of a deleted TrainJob.
    pub fn forget(&mut self, uid: &Uid) {
        self.built.remove(uid);
    }
}

/// The pod sets of a TrainJob that does not exist yet, or the build error.
pub(super) fn makes(job: &Tree, gangs: Option<GangSupport>, caches: &Caches) -> Result<BuiltJobSet, String> {
    made(&without_queue_patch(job), &source(job, caches)?, gangs)
}

/// The source of a build.
enum Source<'a> {
    /// The ConfigMap with the runtime as it was when the TrainJob started.
    Snapshot(&'a ApiObject),
    /// The live TrainingRuntime or ClusterTrainingRuntime.
    Runtime(&'a ApiObject),
}

impl<'a> Source<'a> {
    fn object(&self) -> &'a ApiObject {
        match self {
            Source::Snapshot(it) | Source::Runtime(it) => it,
        }
    }
}

/// The source to build a TrainJob from, or the error.
fn source<'a>(job: &Tree, caches: &'a Caches) -> Result<Source<'a>, String> {
    let (namespace, reference) = (meta::namespace(job), RuntimeRef::of(job));
    let Some(kind) = reference.runtime_kind() else {
        return Err(messages::unsupported_runtime(&reference.kind, &reference.group));
    };
    if let Some(kept) = caches.get(&CONFIG_MAPS, &namespace, &snapshot_name(&meta::name(job))) {
        return Ok(Source::Snapshot(kept));
    }
    let place = place_of(kind, &namespace);
    let runtime = caches.get(kind.kind(), &place, &reference.name);
    runtime.map(Source::Runtime).ok_or_else(|| format!("runtime '{}' not found", reference.name))
}

/// The namespace of a runtime that is referenced from this namespace; empty for a ClusterTrainingRuntime.
fn place_of(kind: RuntimeKind, namespace: &Text) -> Text {
    match kind {
        RuntimeKind::Namespaced => namespace.clone(),
        RuntimeKind::Cluster => Text::new(),
    }
}

fn made(job: &Tree, source: &Source<'_>, gangs: Option<GangSupport>) -> Result<BuiltJobSet, String> {
    let kept;
    let runtime = match source {
        Source::Snapshot(it) => {
            kept = snapshot::read(&TrainJobFacts::of(job), &it.tree).map_err(|why| why.to_string())?;
            &kept
        }
        Source::Runtime(it) => &it.tree,
    };
    let built =
        build(&BuildRequest { gangs, ..BuildRequest::new(job, runtime) }).map_err(|why| why.to_string())?;
    let sets = built.pod_sets();
    built
        .jobset()
        .map(|jobset| BuiltJobSet::of(jobset, sets))
        .ok_or_else(|| "nothing is made of it".to_owned())
}

/// Whether a JobSet or Job of a TrainJob runs or may run: the status of the TrainJob lags behind.
pub(super) fn runs(train_job: &Uid, caches: &Caches) -> bool {
    let of = |uid: &Uid, kind: &'static Kind| {
        let owned: Vec<&ApiObject> =
            caches.owned_by(uid).filter(|(key, _)| key.kind == *kind).map(|(_, it)| it).collect();
        owned
    };
    let may_run =
        |work: &dyn GenericJob| work.outcome().is_none() && (!work.is_suspended() || work.is_active());
    of(train_job, &JOBSETS).into_iter().any(|set| {
        let jobs = of(&meta::uid(&set.tree), &JOBS);
        may_run(&QueuedJobSet::of(&set.tree)) || jobs.iter().any(|job| may_run(&BatchJob::of(&job.tree)))
    })
}

/// Event reason: the suspend field or the patches of a TrainJob could not be written.
const UPDATE_REFUSED: &str = "UpdateRefused";

/// The event that an update of a TrainJob was rejected, for example by another webhook: it may hold its quota until that
/// changes.
pub(super) fn refused(call: &ApiRequest, why: &ApiError, caches: &Caches) -> Option<Event> {
    let is_no = matches!(why, ApiError::Invalid(_) | ApiError::Forbidden(_));
    let on = Some(&call.target).filter(|on| on.kind == TRAIN_JOBS && is_no)?;
    let job = caches.get(&on.kind, &on.namespace, &on.name)?;
    let about = ObjectReference::of(&TRAIN_JOBS, TRAIN_JOB, &job.tree);
    Some(requests::told_of(about, EventType::Warning, UPDATE_REFUSED, why.message()))
}

/// Whether a ConfigMap is the runtime snapshot of a TrainJob.
pub(super) fn concerns(object: &Tree) -> bool {
    keeper(object).is_some()
}

/// The name of the TrainJob that owns this runtime snapshot.
fn keeper(object: &Tree) -> Option<Text> {
    let owner = meta::controller_of(object).filter(|it| (it.group(), &*it.kind) == (GROUP, TRAIN_JOB))?;
    (meta::name(object) == snapshot_name(&owner.name)).then_some(owner.name)
}

/// The TrainJobs to reconcile after an event of a runtime or a snapshot.
pub(super) fn map_event(seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
    let (kind, namespace) = (&seen.key.kind, &seen.key.namespace);
    if *kind == CONFIG_MAPS {
        let keepers = [seen.old, seen.new].into_iter().flatten().filter_map(|it| keeper(&it.tree));
        return keepers.map(|name| ObjectKey::new(&TRAIN_JOBS, namespace, &name).into()).collect();
    }
    let names = |job: &&ApiObject| {
        let (reference, own) = (RuntimeRef::of(&job.tree), meta::namespace(&job.tree));
        let is_it = |of: RuntimeKind| of.kind() == kind && place_of(of, &own) == *namespace;
        reference.name == seen.key.name && reference.runtime_kind().is_some_and(is_it)
    };
    let jobs = caches.all(&TRAIN_JOBS).filter(names);
    jobs.map(|job| ObjectKey::of(&TRAIN_JOBS, &job.tree).into()).collect()
}

/// The TrainJob that controls a JobSet, or the JobSet of a Job.
pub(super) fn above(object: &Tree, caches: &Caches) -> Option<ObjectKey> {
    let owner = meta::controller_of(object)?;
    let (key, above) = caches.by_uid(&owner.uid)?;
    if key.kind == TRAIN_JOBS {
        return Some(key.clone());
    }
    let owner = meta::controller_of(&above.tree).filter(|_| key.kind == JOBSETS)?;
    caches.by_uid(&owner.uid).map(|(key, _)| key.clone()).filter(|key| key.kind == TRAIN_JOBS)
}
