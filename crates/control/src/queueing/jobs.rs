//! The Job, JobSet and TrainJob integrations: snapshots of jobs, and their steps as requests.

use muster_api::client::{ApiObject, DeletionPropagation, Kind, Subresource};
use muster_api::event::ObjectReference as EventAbout;
use muster_api::kinds::{JOBS, JOBSETS, NAMESPACES, PRIORITY_CLASSES};
use muster_api::meta::{self, OwnerReference};
use muster_api::paths::priority_class;
use muster_api::queue::consts::WORKLOAD;
use muster_api::queue::{AdmissionStatus, FlavorFacts, WorkloadFacts, kinds};
use muster_api::time::Time;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_queue::jobs::batch::{self, BatchJob};
use muster_queue::jobs::generic_job::GenericJob;
use muster_queue::jobs::jobset::{self, QueuedJobSet};
use muster_queue::jobs::owner_chain::{self, OwnerInfo as Looked};
use muster_queue::jobs::priority::{PodPriorityClass, PriorityClassLister, default_of};
use muster_queue::jobs::reconciler::{
    self, JobAncestry, JobEventObject, JobReconcilerAction, QueuedJobSnapshot, WorkloadId,
    WorkloadView as SeenWorkload,
};
use muster_queue::jobs::trainjob::{self, QueuedTrainJob};
use muster_queue::reconcilers::transitions::{self, Requeueability};
use muster_queue::reconcilers::workload::{Action as LifeAction, status_update_actions};
use muster_queue::reconcilers::{StatusBase, UpdateContext};
use muster_tree::{Text, Tree};

use super::{QueueController, requests, trainjobs};
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, ReconcileRequest, Reconciled, Step};

/// The kinds with a job integration.
const KINDS: [(&Kind, &str); 3] =
    [(&JOBS, batch::NAMED.kind), (&JOBSETS, jobset::NAMED.kind), (&TRAIN_JOBS, trainjob::NAMED.kind)];

/// Whether this kind has a job integration.
pub(super) fn is_job_kind(kind: &Kind) -> bool {
    KINDS.iter().any(|(job, _)| *job == kind)
}

/// Whether an owner reference names a job.
pub(super) fn is_job(owner: &OwnerReference) -> bool {
    KINDS.iter().any(|(kind, word)| (&*kind.group, *word) == (owner.group(), &*owner.kind))
}

/// The `kind` of a job.
pub(super) fn word_of(key: &ObjectKey) -> &'static str {
    KINDS.iter().find(|(kind, _)| **kind == key.kind).map_or("", |(_, word)| word)
}

pub(super) fn all(caches: &Caches) -> impl Iterator<Item = (ObjectKey, &ApiObject)> {
    KINDS.iter().flat_map(|(kind, _)| caches.all(kind).map(|it| (ObjectKey::of(kind, &it.tree), it)))
}

pub(super) fn in_namespace<'a>(
    namespace: &'a Text,
    caches: &'a Caches,
) -> impl Iterator<Item = ObjectKey> + 'a {
    KINDS.iter().flat_map(move |(kind, _)| {
        caches.in_namespace(kind, namespace).map(move |it| ObjectKey::of(kind, &it.tree))
    })
}

/// The keys to reconcile after an event of a job: itself, the TrainJob above it that waits until it stops, the jobs that it owns
/// when it is new, and the Workloads that it owns when it is deleted.
pub(super) fn map_event(seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
    let uid = meta::uid(&seen.latest().tree);
    let mut keys = vec![seen.key.clone()];
    keys.extend(trainjobs::above(&seen.latest().tree, caches));
    let owned = || caches.owned_by(&uid).map(|(key, _)| key);
    if seen.old.is_none() {
        // A job that arrived before its owner waits for it: the owner may be the one that is queued.
        keys.extend(owned().filter(|key| is_job_kind(&key.kind)).cloned());
    }
    if seen.new.is_none() {
        keys.extend(owned().filter(|key| key.kind == kinds::WORKLOADS).cloned());
    }
    keys.into_iter().map(ReconcileRequest::from).collect()
}

/// The jobs to reconcile after an event of a Workload: its owner, and the children of the owner.
pub(super) fn concerned(workload: &WorkloadFacts, caches: &Caches) -> Vec<ObjectKey> {
    let is_job = |key: &&ObjectKey| is_job_kind(&key.kind);
    let mut keys = Vec::new();
    for owner in &workload.owners {
        let Some((key, _)) = caches.by_uid(&owner.uid).filter(|(key, _)| is_job(key)) else { continue };
        keys.push(key.clone());
        keys.extend(caches.owned_by(&owner.uid).map(|(key, _)| key).filter(is_job).cloned());
    }
    keys
}

/// Priority classes from the caches.
pub(super) struct Priorities<'a>(pub &'a Caches);

impl PriorityClassLister for Priorities<'_> {
    fn workload_priority_class(&self, name: &str) -> Option<i64> {
        let class = self.0.get(&kinds::PRIORITY_CLASSES, &Text::new(), &name.into())?;
        class.tree.int_at(muster_api::queue::paths::priority_class::VALUE)
    }

    fn priority_class(&self, name: &str) -> Option<i64> {
        let class = self.0.get(&PRIORITY_CLASSES, &Text::new(), &name.into())?;
        class.tree.int_at(priority_class::VALUE)
    }

    fn default_priority_class(&self) -> Option<PodPriorityClass> {
        default_of(self.0.all(&PRIORITY_CLASSES).map(|it| PodPriorityClass {
            name: meta::name(&it.tree),
            value: it.tree.int_at(priority_class::VALUE).unwrap_or(0),
            is_default: it.tree.bool_at(priority_class::GLOBAL_DEFAULT) == Some(true),
        }))
    }
}

impl QueueController {
    /// Reconciles a job with its Workload.
    pub(super) fn plan_job(
        &mut self,
        key: &ObjectKey,
        object: &ApiObject,
        caches: &Caches,
        now: Time,
    ) -> Reconciled {
        if !self.settings.managed.is_enabled(&key.kind.group, word_of(key)) {
            return Reconciled::done();
        }
        if key.kind == TRAIN_JOBS && trainjob::is_managed_externally(&object.tree) {
            return Reconciled::done();
        }
        let uid = meta::uid(&object.tree);
        let mut owned: Vec<&ApiObject> = caches
            .owned_by(&uid)
            .filter(|(key, it)| key.kind == kinds::WORKLOADS && is_controlled(&it.tree, &uid))
            .map(|(_, it)| it)
            .collect();
        owned.sort_by_key(|it| meta::creation_timestamp(&it.tree));
        let prebuilt = reconciler::prebuilt_of(&object.tree);
        let prebuilt = prebuilt.and_then(|name| caches.get(&kinds::WORKLOADS, &key.namespace, &name));
        let above = self.above(object, caches);
        if owned.is_empty() && prebuilt.is_none() && above == JobAncestry::Unmanaged {
            let queued = !reconciler::queue_of(&object.tree).is_empty() || self.settings.jobs.without_queue;
            if !queued {
                return Reconciled::done();
            }
        }
        let job = self.work(key, object, caches);
        let workloads: Vec<SeenWorkload<'_>> = owned.iter().map(|it| SeenWorkload::of(&it.tree)).collect();
        let named = prebuilt.map(|it| SeenWorkload::of(&it.tree));
        let namespace = caches.get(&NAMESPACES, &Text::new(), &key.namespace);
        let flavor = |name: &str| {
            caches
                .get(&kinds::RESOURCE_FLAVORS, &Text::new(), &name.into())
                .map(|it| FlavorFacts::of(&it.tree))
        };
        let steps = reconciler::reconcile(&QueuedJobSnapshot {
            job: &*job,
            is_selected: namespace.is_some_and(|it| self.settings.namespaces.matches(&it.tree)),
            ancestry: above,
            workloads: &workloads,
            prebuilt: named.as_ref(),
            flavor: &flavor,
            classes: &Priorities(caches),
            settings: &self.settings.jobs,
            now,
        });
        let mut plan = Reconciled::done();
        for action in steps {
            plan.steps.extend(self.job_steps(key, object, caches, action, now));
        }
        plan
    }

    /// The integration of an object.
    fn work<'a>(
        &mut self,
        key: &ObjectKey,
        object: &'a ApiObject,
        caches: &Caches,
    ) -> Box<dyn GenericJob + 'a> {
        if key.kind == JOBS {
            return Box::new(BatchJob::of(&object.tree));
        }
        if key.kind == JOBSETS {
            return Box::new(QueuedJobSet::of(&object.tree));
        }
        let makes = self.trainings.makes(object, self.gangs, caches);
        Box::new(QueuedTrainJob::of(&object.tree, makes, trainjobs::runs(&meta::uid(&object.tree), caches)))
    }

    fn job_steps(
        &mut self,
        key: &ObjectKey,
        object: &ApiObject,
        caches: &Caches,
        action: JobReconcilerAction,
        now: Time,
    ) -> Vec<Step> {
        let find = |of: &WorkloadId| {
            caches.get(&kinds::WORKLOADS, &key.namespace, &of.name).filter(|it| meta::uid(&it.tree) == of.uid)
        };
        match action {
            JobReconcilerAction::CreateWorkload(workload) => vec![requests::create(workload)],
            JobReconcilerAction::PatchJob(change) => {
                vec![requests::merge(&key.kind, object, change.part, change.patch)]
            }
            JobReconcilerAction::Note(JobEventObject::Job, severity, reason, message) => {
                if !self.told.should_emit(&meta::uid(&object.tree), reason, &message, now) {
                    return Vec::new();
                }
                let about = EventAbout::of(&key.kind, word_of(key), &object.tree);
                vec![Step::Event(requests::told_of(about, severity, reason, message))]
            }
            JobReconcilerAction::PatchWorkload(ref of, _)
            | JobReconcilerAction::RemoveFinalizer(ref of)
            | JobReconcilerAction::DeleteWorkload(ref of)
            | JobReconcilerAction::SetCondition(ref of, _)
            | JobReconcilerAction::SetReclaimablePods(ref of, _)
            | JobReconcilerAction::ReleaseQuota(ref of)
            | JobReconcilerAction::Note(JobEventObject::Workload(ref of), ..) => {
                find(of).map(|it| workload_steps(it, action.clone(), self.at(now))).unwrap_or_default()
            }
        }
    }

    /// The managed ancestor of a job.
    fn above(&self, object: &ApiObject, caches: &Caches) -> JobAncestry {
        let controller = meta::owner_references(&object.tree).find(|it| it.controller);
        let look = |owner: &OwnerReference| {
            let found = caches.by_uid(&owner.uid).map(|(_, it)| it);
            Ok(found.map(|it| Looked {
                uid: meta::uid(&it.tree),
                queue: reconciler::queue_of(&it.tree),
                controller: meta::owner_references(&it.tree).find(|it| it.controller),
            }))
        };
        let uid = meta::uid(&object.tree);
        match owner_chain::find_managed_ancestor(&uid, controller.as_ref(), &self.settings.managed, look) {
            Ok(None) => JobAncestry::Unmanaged,
            Ok(Some(ancestor)) => {
                let runs = |it: &WorkloadFacts| it.is_admitted() && !it.is_finished();
                let is_admitted = caches
                    .owned_by(&ancestor.owner.uid)
                    .any(|(key, it)| key.kind == kinds::WORKLOADS && runs(&WorkloadFacts::of(&it.tree)));
                JobAncestry::Managed { ancestor, is_admitted }
            }
            Err(lost) => JobAncestry::Unknown(lost),
        }
    }
}

fn is_controlled(workload: &Tree, uid: &str) -> bool {
    meta::owner_references(workload).any(|it| it.controller && it.uid == uid)
}

/// An action of a job on its Workload as steps.
pub(super) fn workload_steps(
    workload: &ApiObject,
    action: JobReconcilerAction,
    at: UpdateContext,
) -> Vec<Step> {
    match action {
        JobReconcilerAction::PatchWorkload(_, patch) => {
            vec![requests::merge(&kinds::WORKLOADS, workload, Subresource::Main, patch)]
        }
        JobReconcilerAction::RemoveFinalizer(_) => {
            requests::drop_finalizer(&kinds::WORKLOADS, workload).into_iter().collect()
        }
        JobReconcilerAction::DeleteWorkload(_) => {
            let finalizer = requests::drop_finalizer(&kinds::WORKLOADS, workload);
            finalizer
                .into_iter()
                .chain([requests::delete(workload, DeletionPropagation::Background)])
                .collect()
        }
        JobReconcilerAction::SetCondition(_, condition) => {
            let mut status = AdmissionStatus::of(&workload.tree);
            if status.set(condition) { vec![requests::apply(workload, &status)] } else { Vec::new() }
        }
        JobReconcilerAction::SetReclaimablePods(_, pods) => {
            vec![requests::apply_reclaimable(workload, &pods)]
        }
        JobReconcilerAction::ReleaseQuota(_) => {
            let (facts, status) = (WorkloadFacts::of(&workload.tree), AdmissionStatus::of(&workload.tree));
            let known = StatusBase { workload: &facts, status: &status };
            let written = transitions::release_quota(known, Requeueability::Possible, at)
                .map(status_update_actions)
                .unwrap_or_default();
            let status = written.into_iter().filter_map(|it| match it {
                LifeAction::Write(status) => Some(requests::apply(workload, &status)),
                LifeAction::Note(note) => Some(requests::note_workload(workload, note)),
                _ => None,
            });
            status.collect()
        }
        JobReconcilerAction::Note(_, severity, reason, message) => {
            let about = EventAbout::of(&kinds::WORKLOADS, WORKLOAD, &workload.tree);
            vec![Step::Event(requests::told_of(about, severity, reason, message))]
        }
        JobReconcilerAction::CreateWorkload(_) | JobReconcilerAction::PatchJob(_) => Vec::new(),
    }
}
