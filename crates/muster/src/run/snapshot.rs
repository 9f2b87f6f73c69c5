//! The observed state of the work: watch events in; progress rows, result and pods out.
//!
//! # Guarantees
//!
//! - Pure: the same batches give the same snapshot. Time is passed in with them.
//! - A finished pod is kept for the summary when it is deleted afterwards.
//! - Objects that do not belong to the work are dropped, except pods if their JobSet may not have been observed yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{Uid, WatchBatch, WatchChange};
use muster_api::consts::jobset;
use muster_api::job::JobFacts;
use muster_api::meta;
use muster_api::paths::job;
use muster_api::pod::{PodFacts, PodPhase};
use muster_api::time::Time;
use muster_api::train::paths::{status, train_job, trainer_status};
use muster_tree::{Text, Tree};

use crate::run::pods::{self, PodStage};
pub use crate::run::work::{Work, WorkKind, WorkResult};

/// The upper bound of last warning events that are kept, one per object.
const WARNINGS_MAX: usize = 10_000;
/// The upper bound of pods that wait for the JobSet that owns them to be observed.
const EARLY_MAX: usize = 10_000;
/// The upper bound of distinct reasons in a progress row.
const REASONS_MAX: usize = 3;

/// The progress of one piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressRow {
    /// `kind/name`, as in `job/train`.
    pub title: String,
    /// Pod counts by stage, in the order of [`PodStage::ALL`].
    pub counts: [usize; 5],
    /// Why pods do not run: the reason, how many pods report it, the name of one of them.
    pub reasons: Vec<(String, usize, Text)>,
    /// Whether `spec.suspend` is set.
    pub suspended: bool,
    /// The progress that the trainer reports, in percent.
    pub progress: Option<i64>,
    /// The result, if the work has finished.
    pub ended: Option<WorkResult>,
}

/// The watch that a batch comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedKind {
    Jobs,
    Pods,
    JobSets,
    TrainJobs,
    Events,
}

impl WatchedKind {
    /// The watch that observes work of a kind.
    fn of(kind: WorkKind) -> WatchedKind {
        match kind {
            WorkKind::Job => WatchedKind::Jobs,
            WorkKind::Pod => WatchedKind::Pods,
            WorkKind::JobSet => WatchedKind::JobSets,
            WorkKind::TrainJob => WatchedKind::TrainJobs,
        }
    }
}

/// The last observed state of an object, and whether it was deleted.
#[derive(Debug, Clone)]
struct ObservedObject {
    tree: Tree,
    gone: bool,
}

#[derive(Debug)]
pub struct RunSnapshot {
    works: Vec<Work>,
    began: Time,
    /// The submitted Jobs, JobSets and TrainJobs.
    workloads: BTreeMap<Uid, ObservedObject>,
    /// The JobSets that the trainer controller created, with their TrainJob.
    child_jobsets: BTreeMap<Uid, Uid>,
    /// Pods of JobSets that may belong to a TrainJob but are not observed yet: the watch of pods may be ahead of that of
    /// JobSets.
    unowned_pods: BTreeMap<Uid, Tree>,
    pods: BTreeMap<Uid, ObservedObject>,
    /// Pods in the order of their first observation.
    order: Vec<Uid>,
    warnings: BTreeMap<Uid, String>,
    ended: BTreeMap<Uid, Time>,
    /// Failed pods in the order of observation. It breaks ties, since `finishedAt` has whole seconds.
    failures: Vec<Uid>,
    /// Work that can never run on this cluster, with the reason.
    impossible: BTreeMap<Uid, String>,
}

impl RunSnapshot {
    /// A snapshot of work submitted at `began`, with nothing observed yet.
    #[must_use]
    pub fn new(works: Vec<Work>, began: Time) -> RunSnapshot {
        RunSnapshot {
            works,
            began,
            workloads: BTreeMap::new(),
            child_jobsets: BTreeMap::new(),
            unowned_pods: BTreeMap::new(),
            pods: BTreeMap::new(),
            order: Vec::new(),
            warnings: BTreeMap::new(),
            ended: BTreeMap::new(),
            failures: Vec::new(),
            impossible: BTreeMap::new(),
        }
    }

    /// Records whether a piece of work can never run on this cluster.
    pub fn set_impossible(&mut self, work: &Uid, why: Option<String>) {
        match why {
            Some(why) => self.impossible.insert(work.clone(), why),
            None => self.impossible.remove(work),
        };
    }

    /// Applies a batch of a watch of one namespace.
    pub fn apply_batch(&mut self, watch: WatchedKind, namespace: &str, batch: WatchBatch, now: Time) {
        match batch {
            WatchBatch::Restarted(objects) => {
                let there: BTreeSet<Uid> = objects.iter().map(|object| meta::uid(&object.tree)).collect();
                objects.iter().for_each(|object| self.put(watch, &object.tree, false));
                self.forget(watch, namespace, &there);
            }
            WatchBatch::Changes(changes) => {
                for change in changes {
                    match change {
                        WatchChange::Applied(object) => self.put(watch, &object.tree, false),
                        WatchChange::Deleted(object) => self.put(watch, &object.tree, true),
                    }
                }
            }
        }
        for work in &self.works {
            if !self.ended.contains_key(&work.uid) && self.result_of(work).is_some() {
                self.ended.insert(work.uid.clone(), now);
            }
        }
    }

    /// Marks objects as deleted that are absent from a new list.
    fn forget(&mut self, watch: WatchedKind, namespace: &str, there: &BTreeSet<Uid>) {
        let works = &self.works;
        let of_watch = |uid: &Uid| works.iter().any(|it| it.uid == *uid && WatchedKind::of(it.kind) == watch);
        let tops = self.workloads.iter_mut().filter(|(uid, _)| of_watch(uid));
        let pods = self.pods.iter_mut().filter(|_| watch == WatchedKind::Pods);
        for (uid, seen) in tops.chain(pods) {
            seen.gone |= meta::namespace(&seen.tree) == namespace && !there.contains(uid);
        }
    }

    fn put(&mut self, watch: WatchedKind, tree: &Tree, gone: bool) {
        let uid = meta::uid(tree);
        let seen = ObservedObject { tree: tree.clone(), gone };
        match watch {
            WatchedKind::Pods if self.is_work(&uid) || self.owner(tree).is_some() => self.put_pod(uid, seen),
            // Deleted before its JobSet was observed: nothing is known of it that the summary could show.
            WatchedKind::Pods if gone => {
                self.unowned_pods.remove(&uid);
            }
            WatchedKind::Pods if self.may_be_ours(tree) && self.unowned_pods.len() < EARLY_MAX => {
                self.unowned_pods.insert(uid, tree.clone());
            }
            WatchedKind::Events if !gone => self.note(tree),
            WatchedKind::Events | WatchedKind::Pods => {}
            _ if self.is_work(&uid) => {
                self.workloads.insert(uid, seen);
            }
            WatchedKind::JobSets => self.adopt(uid, tree),
            WatchedKind::Jobs | WatchedKind::TrainJobs => {}
        }
    }

    fn put_pod(&mut self, uid: Uid, seen: ObservedObject) {
        if PodStage::of(&seen.tree) == PodStage::Failed && !self.failures.contains(&uid) {
            self.failures.push(uid.clone());
        }
        let is_new = self.pods.insert(uid.clone(), seen).is_none();
        self.order.extend(is_new.then_some(uid));
    }

    /// Records the JobSet of a TrainJob, and adds its pods that were observed before it.
    fn adopt(&mut self, set: Uid, tree: &Tree) {
        let Some(owner) = meta::controller_of(tree).map(|it| it.uid).filter(|uid| self.is_work(uid)) else {
            return;
        };
        self.child_jobsets.insert(set, owner);
        let (ours, others): (BTreeMap<Uid, Tree>, _) = std::mem::take(&mut self.unowned_pods)
            .into_iter()
            .partition(|(_, pod)| self.owner(pod).is_some());
        self.unowned_pods = others;
        ours.into_iter().for_each(|(uid, tree)| self.put_pod(uid, ObservedObject { tree, gone: false }));
    }

    /// Whether a pod belongs to a JobSet with the name of a submitted TrainJob, as the JobSet of that TrainJob has.
    fn may_be_ours(&self, pod: &Tree) -> bool {
        let (set, space) = (meta::label(pod, jobset::NAME), meta::namespace(pod));
        let same = |work: &Work| work.namespace == space && set == Some(&work.name);
        self.works.iter().any(|work| work.kind == WorkKind::TrainJob && same(work))
    }

    fn note(&mut self, event: &Tree) {
        let about = event.text_at(&["involvedObject", "uid"]);
        let known = self.warnings.contains_key(&about) || self.warnings.len() < WARNINGS_MAX;
        if event.str_at(&["type"]) == "Warning" && known {
            let words = pods::reason_text(event.str_at(&["reason"]), event.str_at(&["message"]));
            self.warnings.insert(about, words);
        }
    }

    fn is_work(&self, uid: &Uid) -> bool {
        self.works.iter().any(|work| work.uid == *uid)
    }

    /// The work that a pod belongs to: by controller owner reference, or by the JobSet label, since the owner of a JobSet's
    /// pod is one of its Jobs.
    fn owner(&self, pod: &Tree) -> Option<Uid> {
        let job = meta::controller_of(pod).map(|owner| owner.uid).filter(|uid| self.is_work(uid));
        let set = || meta::label(pod, jobset::UID).map(Uid::from);
        let work =
            |set: Uid| self.child_jobsets.get(&set).cloned().or(Some(set)).filter(|uid| self.is_work(uid));
        job.or_else(|| set().and_then(work))
    }

    #[must_use]
    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// All pods of the work, in the order of their first observation.
    pub fn pods(&self) -> impl Iterator<Item = &Tree> {
        self.order.iter().filter_map(|uid| self.pods.get(uid)).map(|seen| &seen.tree)
    }

    /// The pods of one piece of work.
    pub fn pods_of<'a>(&'a self, work: &'a Work) -> impl Iterator<Item = &'a Tree> {
        self.pods().filter(|pod| meta::uid(pod) == work.uid || self.owner(pod).as_ref() == Some(&work.uid))
    }

    /// The pods of one piece of work that failed by themselves, in the order of failure, and the pods that were deleted
    /// before they finished.
    #[must_use]
    pub fn failures_of<'a>(&'a self, work: &'a Work) -> (Vec<&'a Tree>, Vec<&'a Tree>) {
        let ended = |pod: &Tree| PodPhase::of(pod.str_at(&["status", "phase"])).is_terminal();
        let failed = |pod: &Tree| PodStage::of(pod) == PodStage::Failed;
        let gone = |pod: &Tree| self.pods.get(&meta::uid(pod)).is_some_and(|seen| seen.gone);
        let stopped = |pod: &Tree| match ended(pod) {
            true => failed(pod) && pods::was_deleted_early(pod),
            false => gone(pod) || meta::deletion_timestamp(pod).is_some(),
        };
        let (stopped, others): (Vec<&Tree>, Vec<&Tree>) = self.pods_of(work).partition(|pod| stopped(pod));
        let mut own: Vec<&Tree> = others.into_iter().filter(|pod| failed(pod)).collect();
        let order = |pod: &Tree| self.failures.iter().position(|uid| *uid == meta::uid(pod));
        own.sort_by_key(|pod| (pods::ended_at(pod), order(pod)));
        (own, stopped)
    }

    /// The pods that exist and have not terminated.
    pub fn live_pods(&self) -> impl Iterator<Item = &Tree> {
        let lives = |seen: &&ObservedObject| {
            !seen.gone && !PodPhase::of(seen.tree.str_at(&["status", "phase"])).is_terminal()
        };
        self.pods.values().filter(lives).map(|seen| &seen.tree)
    }

    #[must_use]
    pub fn rows(&self) -> Vec<ProgressRow> {
        self.works.iter().map(|work| self.row(work)).collect()
    }

    fn row(&self, work: &Work) -> ProgressRow {
        let mut counts = [0; 5];
        let mut reasons: Vec<(String, usize, Text)> = Vec::new();
        for pod in self.pods_of(work) {
            let standing = PodStage::of(pod);
            if self.counts(pod) {
                counts[standing as usize] += 1;
            }
            let warning = self.warnings.get(&meta::uid(pod));
            let Some(why) =
                pods::waiting_reason(pod, warning.map(String::as_str)).filter(|_| self.counts(pod))
            else {
                continue;
            };
            match reasons.iter_mut().find(|(known, ..)| *known == why) {
                Some((_, count, _)) => *count += 1,
                None => reasons.push((why, 1, meta::name(pod))),
            }
        }
        if counts == [0; 5] {
            reasons.extend(self.work_warnings(work).map(|words| (words.clone(), 0, work.name.clone())));
        }
        reasons.truncate(REASONS_MAX);
        reasons.extend(self.impossible.get(&work.uid).map(|why| (why.clone(), 0, work.name.clone())));
        let seen = self.workloads.get(&work.uid).map(|seen| &seen.tree);
        // `spec.suspend` has the same path in Jobs, JobSets and TrainJobs.
        let suspended = seen.is_some_and(|it| it.bool_at(job::SUSPEND) == Some(true));
        let progress = seen.and_then(progress);
        ProgressRow { title: work.title(), counts, reasons, suspended, progress, ended: self.result_of(work) }
    }

    /// The last warning events of a piece of work and of the JobSet of a TrainJob.
    fn work_warnings<'a>(&'a self, work: &'a Work) -> impl Iterator<Item = &'a String> {
        let inner = self.child_jobsets.iter().filter(|(_, of)| **of == work.uid).map(|(set, _)| set);
        std::iter::once(&work.uid).chain(inner).filter_map(|uid| self.warnings.get(uid))
    }

    /// Whether a pod counts in the progress row. A pod that was deleted before it terminated has been replaced, or was
    /// scaled down.
    fn counts(&self, pod: &Tree) -> bool {
        let gone = self.pods.get(&meta::uid(pod)).is_some_and(|seen| seen.gone);
        !gone || PodPhase::of(pod.str_at(&["status", "phase"])).is_terminal()
    }

    /// The result, once all work has finished: that of the first work that failed, if any.
    #[must_use]
    pub fn result(&self) -> Option<WorkResult> {
        let ends: Vec<WorkResult> =
            self.works.iter().map(|work| self.result_of(work)).collect::<Option<_>>()?;
        let failed = ends.into_iter().find(|end| *end != WorkResult::Completed);
        Some(failed.unwrap_or(WorkResult::Completed))
    }

    /// Whether no pod runs and every pod is blocked on something that only another client can create or correct. A
    /// TrainJob for which no JobSet can be created is blocked, too.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        let mut any = self.works.iter().any(|work| self.is_unmade(work));
        let never = |pod: &Tree| {
            let uid = meta::uid(pod);
            self.impossible.contains_key(&uid)
                || self.owner(pod).is_some_and(|work| self.impossible.contains_key(&work))
        };
        self.live_pods().inspect(|_| any = true).all(|pod| pods::is_blocked(pod) || never(pod)) && any
    }

    /// Whether all unfinished work can never run on this cluster.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        let mut left = self.works.iter().filter(|work| self.result_of(work).is_none()).peekable();
        left.peek().is_some() && left.all(|work| self.impossible.contains_key(&work.uid))
    }

    /// Unfinished work of which nothing runs: it has no pods, or only unscheduled ones.
    pub fn waiting(&self) -> impl Iterator<Item = &Work> {
        self.works.iter().filter(|work| {
            let ProgressRow { counts, ended, .. } = self.row(work);
            let runs = counts[PodStage::Starting as usize] + counts[PodStage::Running as usize] > 0;
            ended.is_none() && !runs && (counts[PodStage::Waiting as usize] > 0 || counts == [0; 5])
        })
    }

    /// Whether the trainer controller failed to create the JobSet of a TrainJob.
    fn is_unmade(&self, work: &Work) -> bool {
        work.kind == WorkKind::TrainJob
            && self.result_of(work).is_none()
            && self.warnings.contains_key(&work.uid)
            && !self.child_jobsets.values().any(|of| *of == work.uid)
    }

    /// Whether every pod that a Job counts as finished was also observed as finished: the watch of Jobs may be ahead of
    /// that of pods.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let lives = |pod: &Tree| self.live_pods().any(|live| meta::uid(live) == meta::uid(pod));
        self.works.iter().all(|work| {
            if matches!(work.kind, WorkKind::JobSet | WorkKind::TrainJob) {
                return !self.pods_of(work).any(lives);
            }
            let Some(job) = self.workloads.get(&work.uid) else { return true };
            let status = JobFacts::of(&job.tree).status;
            let ended = |pod: &&Tree| PodPhase::of(pod.str_at(&["status", "phase"])).is_terminal();
            self.pods_of(work).filter(ended).count() >= (status.succeeded + status.failed) as usize
        })
    }

    /// The result of a piece of work, if it has finished.
    #[must_use]
    pub fn result_of(&self, work: &Work) -> Option<WorkResult> {
        let all = if work.kind == WorkKind::Pod { &self.pods } else { &self.workloads };
        all.get(&work.uid).and_then(|seen| work.kind.end(&seen.tree, seen.gone))
    }

    /// The time from submission until a piece of work finished, or until now.
    #[must_use]
    pub fn duration(&self, work: &Work, now: Time) -> Duration {
        self.ended.get(&work.uid).copied().unwrap_or(now).since(self.began)
    }

    /// The succeeded and failed pods of a piece of work. The counts of a Job win over observed pods, which may have been
    /// deleted before they were observed.
    #[must_use]
    pub fn finished_pods(&self, work: &Work) -> (usize, usize) {
        let counts = self.row(work).counts;
        let seen = (counts[PodStage::Finished as usize], counts[PodStage::Failed as usize]);
        let Some(job) = self.workloads.get(&work.uid).filter(|_| work.kind == WorkKind::Job) else {
            return seen;
        };
        let status = JobFacts::of(&job.tree).status;
        (seen.0.max(status.succeeded as usize), seen.1.max(status.failed as usize))
    }

    /// Container restarts of a piece of work.
    #[must_use]
    pub fn restarts(&self, work: &Work) -> i64 {
        self.pods_of(work).map(|pod| PodFacts::of(pod).restarts).sum()
    }
}

/// `status.trainerStatus.progressPercentage` of a TrainJob.
fn progress(job: &Tree) -> Option<i64> {
    job.at(train_job::STATUS)?.at(status::TRAINER)?.int_at(trainer_status::PROGRESS)
}
