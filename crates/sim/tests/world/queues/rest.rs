//! Invariants of an idle world: no Workload is pending that could be admitted, every pending Workload reports its reason,
//! statuses report the usage, and nothing is stuck.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::Kind;
use muster_api::kinds::{JOBS, JOBSETS, PODS};
use muster_api::meta;
use muster_api::pod_requests::effective;
use muster_api::queue::consts::{annotations, conditions, finalizers, labels};
use muster_api::queue::{
    ClusterQueueFacts, CohortFacts, LocalQueueFacts, QueueStatus, QueueingStrategy, StopPolicy,
    WorkloadFacts, kinds,
};
use muster_api::train::kinds::TRAIN_JOBS;
use muster_queue::engine::decision::{Decision, NO_LONGER_FITS};
use muster_queue::engine::flavor_assigner::AssignmentMode;
use muster_queue::engine::workload::{QuotaStatus, WorkloadInfo};
use muster_queue::pods::role_hash;
use muster_sim::World;
use muster_tree::{Text, Tree};

use super::laws::{engine, has_ended, is_gated};
use super::quotas::{Pair, held};
use crate::scenario::{is_quiet_for, minutes};

/// More cycles than any of these worlds needs.
const CYCLES_MAX: usize = 400;

/// Everything that holds at rest.
pub fn check(world: &mut World) {
    let picture = Picture::of(world);
    picture.pods();
    picture.jobs();
    picture.reasons();
    picture.statuses();
    nobody_sleeps(world);
    is_quiet_for(world, minutes(10));
}

struct Picture {
    workloads: Vec<WorkloadFacts>,
    pods: Vec<Tree>,
    jobs: Vec<Tree>,
    sets: Vec<Tree>,
    trainings: Vec<Tree>,
    queues: Vec<Tree>,
    locals: Vec<Tree>,
}

impl Picture {
    fn of(world: &World) -> Picture {
        let all = |kind: &Kind| world.list(kind).into_iter().map(|it| it.tree).collect::<Vec<Tree>>();
        Picture {
            workloads: all(&kinds::WORKLOADS).iter().map(WorkloadFacts::of).collect(),
            pods: all(&PODS),
            jobs: all(&JOBS),
            sets: all(&JOBSETS),
            trainings: all(&TRAIN_JOBS),
            queues: all(&kinds::CLUSTER_QUEUES),
            locals: all(&kinds::LOCAL_QUEUES),
        }
    }

    fn workload(&self, namespace: &str, name: &str) -> Option<&WorkloadFacts> {
        self.workloads.iter().find(|it| it.namespace == *namespace && it.name == *name)
    }

    fn local(&self, workload: &WorkloadFacts) -> Option<LocalQueueFacts> {
        let mut all = self.locals.iter().map(LocalQueueFacts::of);
        all.find(|it| it.namespace == workload.namespace && it.name == workload.queue)
    }

    fn queue(&self, name: &str) -> Option<ClusterQueueFacts> {
        self.queues.iter().map(ClusterQueueFacts::of).find(|it| it.name == *name)
    }

    /// No pod is stuck on its way out, none waits that may run, none runs that may not.
    fn pods(&self) {
        for pod in &self.pods {
            let name = meta::name(pod);
            let goes = meta::deletion_timestamp(pod).is_some();
            let of = self.workload_of(pod);
            // Pods of a group count, or keep the place of those that replace them, until the group has ended.
            let counts = of.is_some_and(|it| !it.is_finished() && !it.deleting && is_grouped(pod));
            assert!(
                !goes || counts || !meta::has_finalizer(pod, finalizers::POD),
                "{name} is stuck: {pod:?} {of:#?}"
            );
            if meta::label(pod, labels::MANAGED).is_none() {
                continue;
            }
            let runs = of.is_some_and(|it| {
                it.is_admitted() && !it.is_evicted() && !it.is_finished() && has_place_for(it, pod)
            });
            assert!(!(runs && is_gated(pod) && !goes), "{name} waits although it may run: {pod:?} {of:#?}");
            let holds = of.is_some_and(WorkloadFacts::has_quota);
            let open = !is_gated(pod) && !has_ended(pod) && !goes;
            assert!(!open || holds, "{name} runs without a share: {pod:?} {of:#?}");
        }
    }

    /// The Workload of a pod by itself or of a group.
    fn workload_of(&self, pod: &Tree) -> Option<&WorkloadFacts> {
        match group_of(pod) {
            Some(group) => self.workload(&meta::namespace(pod), group),
            None => self.of_owner(meta::uid(pod)).next(),
        }
    }

    fn of_owner(&self, uid: Text) -> impl Iterator<Item = &WorkloadFacts> {
        self.workloads.iter().filter(move |it| it.controller().is_some_and(|owner| owner.uid == uid))
    }

    /// Admitted Workloads run, and no other does.
    fn jobs(&self) {
        for job in self.jobs.iter().chain(&self.sets).chain(&self.trainings) {
            let name = meta::name(job);
            assert!(meta::deletion_timestamp(job).is_none(), "{name} does not go: {job:?}");
            let ends = |it: &Tree| {
                ["Complete", "Failed", "Completed"].contains(&it.str_at(&["type"]))
                    && it.str_at(&["status"]) == "True"
            };
            let over = job.items_at(&["status", "conditions"]).iter().any(ends);
            if over || meta::label(job, labels::QUEUE).is_none() {
                continue;
            }
            let uid = meta::uid(job);
            let own: Vec<&WorkloadFacts> = self.of_owner(uid.clone()).collect();
            assert_eq!(own.len(), 1, "{name} has one Workload: {own:#?}");
            let runs = own[0].is_admitted() && !own[0].is_evicted();
            let suspended = job.bool_at(&["spec", "suspend"]) == Some(true);
            assert_eq!(suspended, !runs, "{name} is suspended if it may not run: {:#?}", own[0]);
            let counted: u32 = own[0].pod_sets.iter().map(|it| it.count).sum();
            let alive = self.alive_below(&uid);
            assert!(alive <= if runs { counted as usize } else { 0 }, "{name}: {alive} pods run");
            let share = held(own[0]).into_iter().filter(|((_, resource), _)| resource == "cpu");
            let (asked, share) = (self.cpu_below(&uid), share.map(|(_, amount)| amount).sum::<i64>());
            assert!(asked <= share, "{name}: pods use {asked} of a share of {share}: {:#?}", own[0]);
        }
    }

    /// Pods that run for a Job, for the Jobs of a JobSet, or for the JobSet of a TrainJob.
    fn alive_below(&self, uid: &Text) -> usize {
        let owned = |tree: &&Tree, by: &Text| meta::controller_of(tree).is_some_and(|it| it.uid == *by);
        let pods = self.pods.iter().filter(|pod| owned(pod, uid) && !has_ended(pod)).count();
        let jobs = self.jobs.iter().chain(&self.sets).filter(|job| owned(job, uid)).map(meta::uid);
        pods + jobs.map(|job| self.alive_below(&job)).sum::<usize>()
    }

    /// CPU requests of those pods in thousandths, as stored.
    fn cpu_below(&self, uid: &Text) -> i64 {
        let owned = |tree: &&Tree, by: &Text| meta::controller_of(tree).is_some_and(|it| it.uid == *by);
        let pods = self.pods.iter().filter(|pod| owned(pod, uid) && !has_ended(pod));
        let asked = pods.map(|pod| effective(pod, &[]).get("cpu").copied().unwrap_or(0)).sum::<i64>();
        let jobs = self.jobs.iter().chain(&self.sets).filter(|job| owned(job, uid)).map(meta::uid);
        asked + jobs.map(|job| self.cpu_below(&job)).sum::<i64>()
    }

    /// Every pending Workload has a condition with the true reason.
    fn reasons(&self) {
        for it in self.workloads.iter().filter(|it| !it.is_finished()) {
            let name = &it.name;
            assert!(!it.deleting, "{name} does not go: {it:#?}");
            if it.has_quota() {
                assert!(it.admission.is_some(), "{name} has a share of nothing");
                assert!(!it.is_evicted(), "{name} was told to go and does not: {it:#?}");
                continue;
            }
            assert!(it.admission.is_none() && !it.is_admitted(), "{name} gave its share back: {it:#?}");
            let told = it.condition(conditions::QUOTA_RESERVED);
            let told = told.unwrap_or_else(|| panic!("{name} was told nothing: {it:#?}"));
            assert!(!told.holds && !told.message.is_empty(), "{name}: {told:?}");
            if let Some(wanted) = self.obvious(it) {
                assert_eq!(told.reason, wanted, "{name} was told another reason: {it:#?}");
            }
        }
    }

    /// Why a Workload cannot be admitted, apart from quota.
    fn obvious(&self, it: &WorkloadFacts) -> Option<&'static str> {
        if !it.active {
            return Some("Deactivated");
        }
        let local = self.local(it);
        let queue = local.as_ref().and_then(|local| self.queue(&local.cluster_queue));
        let (Some(local), Some(queue)) = (local, queue) else { return Some("Misconfigured") };
        if local.stop != StopPolicy::None || queue.stop != StopPolicy::None || queue.deleting {
            return Some("Suspended");
        }
        None
    }

    /// The status of queues reports usage and pending Workloads.
    fn statuses(&self) {
        for queue in &self.queues {
            let (facts, status) = (ClusterQueueFacts::of(queue), status_of(queue));
            let of_it =
                |it: &&WorkloadFacts| it.admission.as_ref().is_some_and(|it| it.cluster_queue == facts.name);
            let holders: Vec<&WorkloadFacts> = self.holders().filter(of_it).collect();
            tells(&facts.name, &status, &holders);
            let waits = |it: &&WorkloadFacts| {
                let local =
                    self.local(it).filter(|it| it.cluster_queue == facts.name && it.stop == StopPolicy::None);
                local.is_some() && is_queueable(it)
            };
            let pending = self.workloads.iter().filter(waits).count();
            assert_eq!(status.pending as usize, pending, "{} tells who waits: {queue:?}", facts.name);
        }
        for local in &self.locals {
            let (facts, status) = (LocalQueueFacts::of(local), status_of(local));
            let of_it = |it: &&WorkloadFacts| {
                let queue = it.admission.as_ref().map(|it| &it.cluster_queue);
                it.namespace == facts.namespace
                    && it.queue == facts.name
                    && queue == Some(&facts.cluster_queue)
            };
            if self.queue(&facts.cluster_queue).is_some() {
                let holders: Vec<&WorkloadFacts> = self.holders().filter(of_it).collect();
                tells(&facts.name, &status, &holders);
                let own = |it: &&WorkloadFacts| it.namespace == facts.namespace && it.queue == facts.name;
                let pending = self.workloads.iter().filter(own).filter(|it| is_queueable(it)).count();
                assert_eq!(status.pending as usize, pending, "{} tells who waits: {local:?}", facts.name);
            }
        }
    }

    fn holders(&self) -> impl Iterator<Item = &WorkloadFacts> {
        self.workloads.iter().filter(|it| it.has_quota() && !it.is_finished())
    }
}

fn group_of(pod: &Tree) -> Option<&str> {
    meta::annotation(pod, labels::POD_GROUP_NAME).or(meta::label(pod, labels::POD_GROUP_NAME))
}

fn is_grouped(pod: &Tree) -> bool {
    group_of(pod).is_some()
}

fn status_of(queue: &Tree) -> QueueStatus {
    QueueStatus::of(queue.at(&["status"]).unwrap_or(&Tree::Null))
}

/// Whether a Workload could be put in a line.
fn is_queueable(it: &WorkloadFacts) -> bool {
    !it.is_finished()
        && !it.has_quota()
        && it.active
        && !it.deleting
        && it.annotation(annotations::ADMISSION_GATED_BY).is_none()
        && !it.holds(conditions::WAITING_FOR_REPLACEMENT_PODS)
}

/// A status has these holders, and what they hold.
fn tells(name: &str, status: &QueueStatus, holders: &[&WorkloadFacts]) {
    let admitted = holders.iter().filter(|it| it.is_admitted()).count();
    let counts = (status.reserving as usize, status.admitted as usize);
    assert_eq!(counts, (holders.len(), admitted), "{name} tells who holds something: {status:#?}");
    let mut total: BTreeMap<Pair, i64> = BTreeMap::new();
    for (pair, amount) in holders.iter().flat_map(|it| held(it)) {
        *total.entry(pair).or_default() += amount;
    }
    for flavor in &status.reservation {
        for resource in &flavor.resources {
            let pair = (flavor.name.clone(), resource.name.clone());
            let want = total.get(&pair).copied().unwrap_or(0);
            assert_eq!(resource.total, want, "{name} tells what is held of {pair:?}: {status:#?}");
        }
    }
}

/// A rebuilt engine makes the same decisions, and no Workload is pending that it would admit at once, except in queues with
/// `StrictFIFO`.
fn nobody_sleeps(world: &World) {
    let engine = engine(world).expect("the controllers have seen everything");
    let open: Vec<&WorkloadInfo> =
        engine.workload_infos().filter(|(_, open)| *open).map(|(info, _)| info).collect();
    assert!(open.is_empty(), "what was decided was never written: {open:#?}");
    let mut twin = engine.rebuilt();
    for _ in 0..CYCLES_MAX {
        for decision in twin.run_cycle(world.now()) {
            assert!(!matches!(decision, Decision::Admit(_)), "asleep: {decision:?}");
        }
        if !twin.has_work() {
            break;
        }
    }
    let mut tried = engine.clone();
    let picture = Picture::of(world);
    let cohorts: Vec<CohortFacts> =
        world.list(&kinds::COHORTS).iter().map(|it| CohortFacts::of(&it.tree)).collect();
    let waits: Vec<(WorkloadInfo, ClusterQueueFacts)> = engine
        .workload_infos()
        .filter(|(info, _)| may_be_tried(info))
        .filter_map(|(info, _)| Some((info.clone(), queue_of(world, info)?)))
        .filter(|(_, queue)| tried.inactive_reason(&queue.name).is_none())
        .collect();
    let is_strict = |queue: &ClusterQueueFacts| queue.strategy == QueueingStrategy::StrictFifo;
    let strict = waits.iter().filter(|(_, queue)| is_strict(queue));
    let strict: BTreeSet<Text> = strict.map(|(_, queue)| top_of(queue, &cohorts)).collect();
    for (info, queue) in waits.iter().filter(|(_, queue)| !is_strict(queue)) {
        let told = picture.workload(&info.key.namespace, &info.key.name);
        let told = told.and_then(|it| it.condition(conditions::QUOTA_RESERVED));
        let reason = told.map(|it| it.reason.as_str());
        assert_ne!(reason, Some("PendingEvaluation"), "{:?} was looked at", info.key);
        // The first of a strict queue is never put aside, and with it not what it keeps for itself: others of its cohorts
        // may be passed over for it as long as it waits.
        let passed_over = told.is_some_and(|it| it.message == NO_LONGER_FITS);
        let passed_over = passed_over && strict.contains(&top_of(queue, &cohorts));
        let fits =
            tried.dry_run(info).is_ok_and(|it| it.assignment.representative_mode() == AssignmentMode::Fit);
        assert!(!fits || passed_over, "{:?} fits and waits: {:#?}", info.key, tried.explain(&info.key));
    }
}

/// The cohort at the top of those of a queue; the queue by itself where it has none.
fn top_of(queue: &ClusterQueueFacts, cohorts: &[CohortFacts]) -> Text {
    if queue.cohort.is_empty() {
        return Text::from(format!("{} alone", queue.name));
    }
    let above = |top: Text| {
        let found = cohorts.iter().find(|it| it.name == top && !it.parent.is_empty());
        found.map_or(top, |it| it.parent.clone())
    };
    // No more steps than there are cohorts: those in a circle take nothing in.
    cohorts.iter().fold(queue.cohort.clone(), |top, _| above(top))
}

/// Whether a Workload has a pod set for this pod. A replacement pod with another shape matches no pod set and stays
/// pending.
fn has_place_for(workload: &WorkloadFacts, pod: &Tree) -> bool {
    let by_total = meta::annotation(pod, annotations::POD_GROUP_TOTAL_COUNT).is_some();
    !by_total || workload.pod_sets.iter().any(|set| set.name == role_hash::role_hash(pod))
}

/// Whether nothing but quota can keep it.
fn may_be_tried(info: &WorkloadInfo) -> bool {
    let free =
        !info.on_hold && info.requeue_at.is_none() && !info.checks_failed && info.invalid_resources.is_none();
    info.status == QuotaStatus::Pending && free
}

/// The queue to which a LocalQueue that takes work leads.
fn queue_of(world: &World, info: &WorkloadInfo) -> Option<ClusterQueueFacts> {
    let picture = Picture::of(world);
    let mut locals = picture.locals.iter().map(LocalQueueFacts::of);
    let local = locals.find(|it| it.namespace == info.key.namespace && it.name == info.local_queue)?;
    (local.stop == StopPolicy::None && !local.deleting).then(|| picture.queue(&local.cluster_queue))?
}

/// With enough quota every Workload runs or is finished, except groups without enough pods.
pub fn everybody_runs(world: &World) {
    let picture = Picture::of(world);
    for it in picture.workloads.iter().filter(|it| !it.is_finished() && !it.has_quota()) {
        let goes = |name: &Text| picture.queue(name).is_none_or(|it| it.deleting);
        let local = picture.local(it);
        if local.is_none_or(|it| it.deleting || goes(&it.cluster_queue)) {
            continue;
        }
        let held_back = it.condition(conditions::REQUEUED).is_some_and(|it| !it.holds);
        assert!(
            it.holds(conditions::WAITING_FOR_REPLACEMENT_PODS) || held_back || !it.active,
            "{} waits with plenty for everybody: {it:#?}",
            it.name
        );
    }
}

/// Everything that waited or ran was deleted: nothing is left of it.
pub fn nothing_is_left(world: &World) {
    for kind in [&TRAIN_JOBS, &JOBSETS, &JOBS, &PODS, &kinds::WORKLOADS] {
        let left = world.list(kind);
        assert!(left.is_empty(), "{} are left: {left:#?}", kind.plural);
    }
    let mut engine = engine(world).expect("the controllers have seen everything").clone();
    for queue in world.list(&kinds::CLUSTER_QUEUES) {
        let usage = engine.cluster_queue_usage(&meta::name(&queue.tree)).expect("the queue is known");
        assert_eq!((usage.reserving, usage.pending), (0, 0), "{}: {usage:?}", meta::name(&queue.tree));
    }
}

/// The queues were deleted, too.
pub fn no_queue_is_left(world: &World) {
    for kind in [&kinds::LOCAL_QUEUES, &kinds::CLUSTER_QUEUES, &kinds::COHORTS, &kinds::RESOURCE_FLAVORS] {
        let left = world.list(kind);
        assert!(left.is_empty(), "{} are left: {left:#?}", kind.plural);
    }
}
