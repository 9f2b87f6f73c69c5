//! Jobs, JobSets and TrainJobs in queues: their pictures, and their plans as calls.

use muster_api::event::About as EventAbout;
use muster_api::kinds::{JOBS, JOBSETS, NAMESPACES, PRIORITY_CLASSES};
use muster_api::meta::{self, Owner};
use muster_api::paths::priority_class;
use muster_api::port::{Cascade, Kind, Object, Part};
use muster_api::queue::words::WORKLOAD;
use muster_api::queue::{AdmissionStatus, FlavorFacts, WorkloadFacts, kinds};
use muster_api::time::Time;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_queue::jobs::ancestors::{self, Above as Looked};
use muster_queue::jobs::batch::{self, BatchJob};
use muster_queue::jobs::jobset::{self, SetOfJobs};
use muster_queue::jobs::plan::{self, About, Above, Action, Observed, Ref, Seen as SeenWorkload};
use muster_queue::jobs::priority::{Classes, PodClass, default_of};
use muster_queue::jobs::trainjob::{self, Training};
use muster_queue::jobs::work::Work;
use muster_queue::life::steps::{self, Comeback};
use muster_queue::life::workload::{Action as LifeAction, actions};
use muster_queue::life::{At, Known};
use muster_tree::{Text, Tree};

use super::{Queueing, calls, trainjobs};
use crate::cache::{Caches, Seen};
use crate::plan::{Key, Plan, Step, Wake};

/// The kinds of jobs.
const KINDS: [(&Kind, &str); 3] =
    [(&JOBS, batch::NAMED.kind), (&JOBSETS, jobset::NAMED.kind), (&TRAIN_JOBS, trainjob::NAMED.kind)];

/// Whether objects of this kind are jobs.
pub(super) fn are_jobs(kind: &Kind) -> bool {
    KINDS.iter().any(|(job, _)| *job == kind)
}

/// Whether an owner is a job.
pub(super) fn is_job(owner: &Owner) -> bool {
    KINDS.iter().any(|(kind, word)| (&*kind.group, *word) == (owner.group(), &*owner.kind))
}

/// The word of the kind of a job.
pub(super) fn word_of(key: &Key) -> &'static str {
    KINDS.iter().find(|(kind, _)| **kind == key.kind).map_or("", |(_, word)| word)
}

/// All jobs.
pub(super) fn all(caches: &Caches) -> impl Iterator<Item = (Key, &Object)> {
    KINDS.iter().flat_map(|(kind, _)| caches.all(kind).map(|it| (Key::of(kind, &it.tree), it)))
}

/// The jobs of a namespace.
pub(super) fn in_namespace<'a>(namespace: &'a Text, caches: &'a Caches) -> impl Iterator<Item = Key> + 'a {
    KINDS.iter().flat_map(move |(kind, _)| {
        caches.in_namespace(kind, namespace).map(move |it| Key::of(kind, &it.tree))
    })
}

/// The keys that a change of a job concerns: itself, the TrainJob that waits until it stands still, the jobs that it owns when
/// it is new, and the Workloads that it owns when it is gone.
pub(super) fn hear(seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
    let uid = meta::uid(&seen.newest().tree);
    let mut keys = vec![seen.key.clone()];
    keys.extend(trainjobs::above(&seen.newest().tree, caches));
    let owned = || caches.owned_by(&uid).map(|(key, _)| key);
    if seen.before.is_none() {
        // A job that was seen before its owner waits for it: the owner may be queued in its stead.
        keys.extend(owned().filter(|key| are_jobs(&key.kind)).cloned());
    }
    if seen.after.is_none() {
        keys.extend(owned().filter(|key| key.kind == kinds::WORKLOADS).cloned());
    }
    keys.into_iter().map(Wake::from).collect()
}

/// The jobs that a change of a Workload concerns: its own, and the children of that one.
pub(super) fn concerned(workload: &WorkloadFacts, caches: &Caches) -> Vec<Key> {
    let is_job = |key: &&Key| are_jobs(&key.kind);
    let mut keys = Vec::new();
    for owner in &workload.owners {
        let Some((key, _)) = caches.by_uid(&owner.uid).filter(|(key, _)| is_job(key)) else { continue };
        keys.push(key.clone());
        keys.extend(caches.owned_by(&owner.uid).map(|(key, _)| key).filter(is_job).cloned());
    }
    keys
}

/// Classes of priority, from the caches.
pub(super) struct Priorities<'a>(pub &'a Caches);

impl Classes for Priorities<'_> {
    fn of_queues(&self, name: &str) -> Option<i64> {
        let class = self.0.get(&kinds::PRIORITY_CLASSES, &Text::new(), &name.into())?;
        class.tree.int_at(muster_api::queue::paths::priority_class::VALUE)
    }

    fn of_pods(&self, name: &str) -> Option<i64> {
        let class = self.0.get(&PRIORITY_CLASSES, &Text::new(), &name.into())?;
        class.tree.int_at(priority_class::VALUE)
    }

    fn default_of_pods(&self) -> Option<PodClass> {
        default_of(self.0.all(&PRIORITY_CLASSES).map(|it| PodClass {
            name: meta::name(&it.tree),
            value: it.tree.int_at(priority_class::VALUE).unwrap_or(0),
            is_default: it.tree.bool_at(priority_class::GLOBAL_DEFAULT) == Some(true),
        }))
    }
}

impl Queueing {
    /// What a job needs next.
    pub(super) fn plan_job(&mut self, key: &Key, object: &Object, caches: &Caches, now: Time) -> Plan {
        if !self.settings.managed.is_enabled(&key.kind.group, word_of(key)) {
            return Plan::nothing();
        }
        if key.kind == TRAIN_JOBS && trainjob::is_elsewhere(&object.tree) {
            return Plan::nothing();
        }
        let uid = meta::uid(&object.tree);
        let mut owned: Vec<&Object> = caches
            .owned_by(&uid)
            .filter(|(key, it)| key.kind == kinds::WORKLOADS && is_controlled(&it.tree, &uid))
            .map(|(_, it)| it)
            .collect();
        owned.sort_by_key(|it| meta::created(&it.tree));
        let prebuilt = plan::prebuilt_of(&object.tree);
        let prebuilt = prebuilt.and_then(|name| caches.get(&kinds::WORKLOADS, &key.namespace, &name));
        let above = self.above(object, caches);
        if owned.is_empty() && prebuilt.is_none() && above == Above::Nothing {
            let queued = !plan::queue_of(&object.tree).is_empty() || self.settings.jobs.without_queue;
            if !queued {
                return Plan::nothing();
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
        let steps = plan::plan(&Observed {
            job: &*job,
            is_selected: namespace.is_some_and(|it| self.settings.namespaces.selects(&it.tree)),
            above,
            workloads: &workloads,
            prebuilt: named.as_ref(),
            flavor: &flavor,
            classes: &Priorities(caches),
            settings: &self.settings.jobs,
            now,
        });
        let mut plan = Plan::nothing();
        for action in steps {
            plan.steps.extend(self.job_steps(key, object, caches, action, now));
        }
        plan
    }

    /// The job behind an object.
    fn work<'a>(&mut self, key: &Key, object: &'a Object, caches: &Caches) -> Box<dyn Work + 'a> {
        if key.kind == JOBS {
            return Box::new(BatchJob::of(&object.tree));
        }
        if key.kind == JOBSETS {
            return Box::new(SetOfJobs::of(&object.tree));
        }
        let makes = self.trainings.makes(object, self.gangs, caches);
        Box::new(Training::of(&object.tree, makes, trainjobs::runs(&meta::uid(&object.tree), caches)))
    }

    fn job_steps(
        &mut self,
        key: &Key,
        object: &Object,
        caches: &Caches,
        action: Action,
        now: Time,
    ) -> Vec<Step> {
        let find = |of: &Ref| {
            caches.get(&kinds::WORKLOADS, &key.namespace, &of.name).filter(|it| meta::uid(&it.tree) == of.uid)
        };
        match action {
            Action::CreateWorkload(workload) => vec![calls::create(workload)],
            Action::ChangeJob(change) => vec![calls::merge(&key.kind, object, change.part, change.patch)],
            Action::Note(About::Job, severity, reason, message) => {
                if !self.told.is_news(&meta::uid(&object.tree), reason, &message, now) {
                    return Vec::new();
                }
                let about = EventAbout::of(&key.kind, word_of(key), &object.tree);
                vec![Step::Note(calls::told_of(about, severity, reason, message))]
            }
            Action::PatchWorkload(ref of, _)
            | Action::DropFinalizer(ref of)
            | Action::DeleteWorkload(ref of)
            | Action::SetCondition(ref of, _)
            | Action::SetReclaimable(ref of, _)
            | Action::ReleaseQuota(ref of)
            | Action::Note(About::Workload(ref of), ..) => {
                find(of).map(|it| workload_steps(it, action.clone(), self.at(now))).unwrap_or_default()
            }
        }
    }

    /// The managed owner of a job.
    fn above(&self, object: &Object, caches: &Caches) -> Above {
        let controller = meta::owners(&object.tree).find(|it| it.controller);
        let look = |owner: &Owner| {
            let found = caches.by_uid(&owner.uid).map(|(_, it)| it);
            Ok(found.map(|it| Looked {
                uid: meta::uid(&it.tree),
                queue: plan::queue_of(&it.tree),
                controller: meta::owners(&it.tree).find(|it| it.controller),
            }))
        };
        let uid = meta::uid(&object.tree);
        match ancestors::find(&uid, controller.as_ref(), &self.settings.managed, look) {
            Ok(None) => Above::Nothing,
            Ok(Some(ancestor)) => {
                let runs = |it: &WorkloadFacts| it.is_admitted() && !it.is_finished();
                let is_admitted = caches
                    .owned_by(&ancestor.owner.uid)
                    .any(|(key, it)| key.kind == kinds::WORKLOADS && runs(&WorkloadFacts::of(&it.tree)));
                Above::Managed { ancestor, is_admitted }
            }
            Err(lost) => Above::Lost(lost),
        }
    }
}

fn is_controlled(workload: &Tree, uid: &str) -> bool {
    meta::owners(workload).any(|it| it.controller && it.uid == uid)
}

/// What a job has done to its Workload, as steps.
pub(super) fn workload_steps(workload: &Object, action: Action, at: At) -> Vec<Step> {
    match action {
        Action::PatchWorkload(_, patch) => {
            vec![calls::merge(&kinds::WORKLOADS, workload, Part::Main, patch)]
        }
        Action::DropFinalizer(_) => calls::drop_finalizer(&kinds::WORKLOADS, workload).into_iter().collect(),
        Action::DeleteWorkload(_) => {
            let finalizer = calls::drop_finalizer(&kinds::WORKLOADS, workload);
            finalizer.into_iter().chain([calls::delete(workload, Cascade::Background)]).collect()
        }
        Action::SetCondition(_, condition) => {
            let mut status = AdmissionStatus::of(&workload.tree);
            if status.set(condition) { vec![calls::apply(workload, &status)] } else { Vec::new() }
        }
        Action::SetReclaimable(_, pods) => vec![calls::apply_reclaimable(workload, &pods)],
        Action::ReleaseQuota(_) => {
            let (facts, status) = (WorkloadFacts::of(&workload.tree), AdmissionStatus::of(&workload.tree));
            let known = Known { workload: &facts, status: &status };
            let written = steps::release(known, Comeback::Possible, at).map(actions).unwrap_or_default();
            let status = written.into_iter().filter_map(|it| match it {
                LifeAction::Write(status) => Some(calls::apply(workload, &status)),
                LifeAction::Note(note) => Some(calls::note_workload(workload, note)),
                _ => None,
            });
            status.collect()
        }
        Action::Note(_, severity, reason, message) => {
            let about = EventAbout::of(&kinds::WORKLOADS, WORKLOAD, &workload.tree);
            vec![Step::Note(calls::told_of(about, severity, reason, message))]
        }
        Action::CreateWorkload(_) | Action::ChangeJob(_) => Vec::new(),
    }
}
