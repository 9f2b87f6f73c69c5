//! What is known of the work: fed by watches, asked for rows, a verdict and the pods behind them.
//!
//! # Invariants
//!
//! - Pure: the same batches make the same picture. Time comes in with them.
//! - What has ended stays: a pod that is deleted afterwards is still told of in the summary.
//! - Of strangers (pods and jobs that are not the work's) nothing is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::job::JobFacts;
use muster_api::meta;
use muster_api::paths::job;
use muster_api::pod::{Phase, PodFacts};
use muster_api::port::{Batch, Change, Uid};
use muster_api::time::Time;
use muster_api::train::paths::{status, train_job, trainer_status};
use muster_api::words::jobset;
use muster_tree::{Text, Tree};

use crate::run::pods::{self, Standing};
pub use crate::run::work::{Ended, Work, WorkKind};

/// Objects whose last warning is kept.
const WARNINGS_MAX: usize = 10_000;
/// Pods of JobSets that nobody has told of yet.
const EARLY_MAX: usize = 10_000;
/// Pods with different reasons that a row tells of.
const REASONS_MAX: usize = 3;

/// How a piece of work stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// How people name it.
    pub title: String,
    /// How many of its pods stand how, in the order of [`Standing::ALL`].
    pub counts: [usize; 5],
    /// Why some do not run: a sentence, how many pods say it, one of them.
    pub reasons: Vec<(String, usize, Text)>,
    /// Whether nothing will run until somebody resumes it.
    pub suspended: bool,
    /// How far training is by its own account, in percent.
    pub progress: Option<i64>,
    /// Whether and how it ended.
    pub ended: Option<Ended>,
}

/// Which watch a batch is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Jobs.
    Jobs,
    /// Pods.
    Pods,
    /// JobSets.
    JobSets,
    /// TrainJobs.
    TrainJobs,
    /// Events.
    Events,
}

impl Watch {
    /// The watch that tells of work of a kind.
    fn of(kind: WorkKind) -> Watch {
        match kind {
            WorkKind::Job => Watch::Jobs,
            WorkKind::Pod => Watch::Pods,
            WorkKind::JobSet => Watch::JobSets,
            WorkKind::TrainJob => Watch::TrainJobs,
        }
    }
}

/// An object, and whether it is still there.
#[derive(Debug, Clone)]
struct Seen {
    tree: Tree,
    gone: bool,
}

/// What is known.
#[derive(Debug)]
pub struct Picture {
    works: Vec<Work>,
    began: Time,
    /// The Jobs, JobSets and TrainJobs that are work.
    tops: BTreeMap<Uid, Seen>,
    /// The JobSets that were made for TrainJobs, and for which.
    inner: BTreeMap<Uid, Uid>,
    /// Pods of JobSets that may turn out to be such: watches may lag behind each other.
    early: BTreeMap<Uid, Tree>,
    pods: BTreeMap<Uid, Seen>,
    /// The order in which pods were seen first.
    order: Vec<Uid>,
    warnings: BTreeMap<Uid, String>,
    ended: BTreeMap<Uid, Time>,
    /// Pods in the order in which they were seen to fail: times of ends are in whole seconds.
    failures: Vec<Uid>,
    /// Work that can never run here, and why.
    never: BTreeMap<Uid, String>,
}

impl Picture {
    /// Of this work, submitted at an instant.
    #[must_use]
    pub fn new(works: Vec<Work>, began: Time) -> Picture {
        Picture {
            works,
            began,
            tops: BTreeMap::new(),
            inner: BTreeMap::new(),
            early: BTreeMap::new(),
            pods: BTreeMap::new(),
            order: Vec::new(),
            warnings: BTreeMap::new(),
            ended: BTreeMap::new(),
            failures: Vec::new(),
            never: BTreeMap::new(),
        }
    }

    /// Notes that a piece of work can never run here, or that it can.
    pub fn set_never(&mut self, work: &Uid, why: Option<String>) {
        match why {
            Some(why) => self.never.insert(work.clone(), why),
            None => self.never.remove(work),
        };
    }

    /// Takes in what a watch of one namespace tells.
    pub fn feed(&mut self, watch: Watch, namespace: &str, batch: Batch, now: Time) {
        match batch {
            Batch::Reset(objects) => {
                let there: BTreeSet<Uid> = objects.iter().map(|object| meta::uid(&object.tree)).collect();
                objects.iter().for_each(|object| self.put(watch, &object.tree, false));
                self.forget(watch, namespace, &there);
            }
            Batch::Changes(changes) => {
                for change in changes {
                    match change {
                        Change::Put(object) => self.put(watch, &object.tree, false),
                        Change::Gone(object) => self.put(watch, &object.tree, true),
                    }
                }
            }
        }
        for work in &self.works {
            if !self.ended.contains_key(&work.uid) && self.end_of(work).is_some() {
                self.ended.insert(work.uid.clone(), now);
            }
        }
    }

    /// What is no longer there after a new listing is gone.
    fn forget(&mut self, watch: Watch, namespace: &str, there: &BTreeSet<Uid>) {
        let works = &self.works;
        let of_watch = |uid: &Uid| works.iter().any(|it| it.uid == *uid && Watch::of(it.kind) == watch);
        let tops = self.tops.iter_mut().filter(|(uid, _)| of_watch(uid));
        let pods = self.pods.iter_mut().filter(|_| watch == Watch::Pods);
        for (uid, seen) in tops.chain(pods) {
            seen.gone |= meta::namespace(&seen.tree) == namespace && !there.contains(uid);
        }
    }

    fn put(&mut self, watch: Watch, tree: &Tree, gone: bool) {
        let uid = meta::uid(tree);
        let seen = Seen { tree: tree.clone(), gone };
        match watch {
            Watch::Pods if self.is_work(&uid) || self.owner(tree).is_some() => self.put_pod(uid, seen),
            Watch::Pods if gone => {
                self.early.remove(&uid);
            }
            Watch::Pods if self.may_be_ours(tree) && self.early.len() < EARLY_MAX => {
                self.early.insert(uid, tree.clone());
            }
            Watch::Events if !gone => self.note(tree),
            Watch::Events | Watch::Pods => {}
            _ if self.is_work(&uid) => {
                self.tops.insert(uid, seen);
            }
            Watch::JobSets => self.adopt(uid, tree),
            Watch::Jobs | Watch::TrainJobs => {}
        }
    }

    fn put_pod(&mut self, uid: Uid, seen: Seen) {
        if Standing::of(&seen.tree) == Standing::Failed && !self.failures.contains(&uid) {
            self.failures.push(uid.clone());
        }
        let is_new = self.pods.insert(uid.clone(), seen).is_none();
        self.order.extend(is_new.then_some(uid));
    }

    /// Notes a JobSet that was made for a TrainJob, and takes in those of its pods that came before it.
    fn adopt(&mut self, set: Uid, tree: &Tree) {
        let Some(owner) = meta::controller(tree).map(|it| it.uid).filter(|uid| self.is_work(uid)) else {
            return;
        };
        self.inner.insert(set, owner);
        let (ours, others): (BTreeMap<Uid, Tree>, _) =
            std::mem::take(&mut self.early).into_iter().partition(|(_, pod)| self.owner(pod).is_some());
        self.early = others;
        ours.into_iter().for_each(|(uid, tree)| self.put_pod(uid, Seen { tree, gone: false }));
    }

    /// Whether a pod is of a JobSet that has the name of a TrainJob, as the one that is made for it has.
    fn may_be_ours(&self, pod: &Tree) -> bool {
        let (set, space) = (meta::label(pod, jobset::NAME), meta::namespace(pod));
        let same = |work: &Work| work.namespace == space && set == Some(&work.name);
        self.works.iter().any(|work| work.kind == WorkKind::TrainJob && same(work))
    }

    fn note(&mut self, event: &Tree) {
        let about = event.text_at(&["involvedObject", "uid"]);
        let known = self.warnings.contains_key(&about) || self.warnings.len() < WARNINGS_MAX;
        if event.str_at(&["type"]) == "Warning" && known {
            let words = pods::words(event.str_at(&["reason"]), event.str_at(&["message"]));
            self.warnings.insert(about, words);
        }
    }

    fn is_work(&self, uid: &Uid) -> bool {
        self.works.iter().any(|work| work.uid == *uid)
    }

    /// The work that a pod belongs to: pods of a JobSet are those of its Jobs, and say so in a label.
    fn owner(&self, pod: &Tree) -> Option<Uid> {
        let job = meta::controller(pod).map(|owner| owner.uid).filter(|uid| self.is_work(uid));
        let set = || meta::label(pod, jobset::UID).map(Uid::from);
        let work = |set: Uid| self.inner.get(&set).cloned().or(Some(set)).filter(|uid| self.is_work(uid));
        job.or_else(|| set().and_then(work))
    }

    /// The work.
    #[must_use]
    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// All pods of the work, in the order in which they were seen first.
    pub fn pods(&self) -> impl Iterator<Item = &Tree> {
        self.order.iter().filter_map(|uid| self.pods.get(uid)).map(|seen| &seen.tree)
    }

    /// The pods of one piece of work.
    pub fn pods_of<'a>(&'a self, work: &'a Work) -> impl Iterator<Item = &'a Tree> {
        self.pods().filter(|pod| meta::uid(pod) == work.uid || self.owner(pod).as_ref() == Some(&work.uid))
    }

    /// The pods of one piece of work that failed by themselves, the first first, and those that were stopped before
    /// they ended.
    #[must_use]
    pub fn failures_of<'a>(&'a self, work: &'a Work) -> (Vec<&'a Tree>, Vec<&'a Tree>) {
        let ended = |pod: &Tree| Phase::of(pod.str_at(&["status", "phase"])).ended();
        let failed = |pod: &Tree| Standing::of(pod) == Standing::Failed;
        let gone = |pod: &Tree| self.pods.get(&meta::uid(pod)).is_some_and(|seen| seen.gone);
        let stopped = |pod: &Tree| match ended(pod) {
            true => failed(pod) && pods::was_stopped(pod),
            false => gone(pod) || meta::deleting(pod).is_some(),
        };
        let (stopped, others): (Vec<&Tree>, Vec<&Tree>) = self.pods_of(work).partition(|pod| stopped(pod));
        let mut own: Vec<&Tree> = others.into_iter().filter(|pod| failed(pod)).collect();
        let order = |pod: &Tree| self.failures.iter().position(|uid| *uid == meta::uid(pod));
        own.sort_by_key(|pod| (pods::ended_at(pod), order(pod)));
        (own, stopped)
    }

    /// The pods that are there and have not ended.
    pub fn live(&self) -> impl Iterator<Item = &Tree> {
        let lives = |seen: &&Seen| !seen.gone && !Phase::of(seen.tree.str_at(&["status", "phase"])).ended();
        self.pods.values().filter(lives).map(|seen| &seen.tree)
    }

    /// How each piece of work stands.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.works.iter().map(|work| self.row(work)).collect()
    }

    fn row(&self, work: &Work) -> Row {
        let mut counts = [0; 5];
        let mut reasons: Vec<(String, usize, Text)> = Vec::new();
        for pod in self.pods_of(work) {
            let standing = Standing::of(pod);
            if self.counts(pod) {
                counts[standing as usize] += 1;
            }
            let warning = self.warnings.get(&meta::uid(pod));
            let Some(why) = pods::why(pod, warning.map(String::as_str)).filter(|_| self.counts(pod)) else {
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
        reasons.extend(self.never.get(&work.uid).map(|why| (why.clone(), 0, work.name.clone())));
        let seen = self.tops.get(&work.uid).map(|seen| &seen.tree);
        // At the same place in all of them.
        let suspended = seen.is_some_and(|it| it.bool_at(job::SUSPEND) == Some(true));
        let progress = seen.and_then(progress);
        Row { title: work.title(), counts, reasons, suspended, progress, ended: self.end_of(work) }
    }

    /// What was said last of a piece of work, and of the JobSet that was made for it.
    fn work_warnings<'a>(&'a self, work: &'a Work) -> impl Iterator<Item = &'a String> {
        let inner = self.inner.iter().filter(|(_, of)| **of == work.uid).map(|(set, _)| set);
        std::iter::once(&work.uid).chain(inner).filter_map(|uid| self.warnings.get(uid))
    }

    /// Pods that were deleted before they ended tell nothing.
    fn counts(&self, pod: &Tree) -> bool {
        let gone = self.pods.get(&meta::uid(pod)).is_some_and(|seen| seen.gone);
        !gone || Phase::of(pod.str_at(&["status", "phase"])).ended()
    }

    /// Whether all work has ended, and how.
    #[must_use]
    pub fn verdict(&self) -> Option<Ended> {
        let ends: Vec<Ended> = self.works.iter().map(|work| self.end_of(work)).collect::<Option<_>>()?;
        let failed = ends.into_iter().find(|end| *end != Ended::Completed);
        Some(failed.unwrap_or(Ended::Completed))
    }

    /// Whether nothing runs and every pod waits for what only somebody from outside can give it. A TrainJob of which
    /// nothing can be made waits for such, too.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let mut any = self.works.iter().any(|work| self.is_unmade(work));
        let never = |pod: &Tree| {
            let uid = meta::uid(pod);
            self.never.contains_key(&uid)
                || self.owner(pod).is_some_and(|work| self.never.contains_key(&work))
        };
        self.live().inspect(|_| any = true).all(|pod| pods::is_held(pod) || never(pod)) && any
    }

    /// Whether all work that has not ended can never run here.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let mut left = self.works.iter().filter(|work| self.end_of(work).is_none()).peekable();
        left.peek().is_some() && left.all(|work| self.never.contains_key(&work.uid))
    }

    /// Work that has not ended and of which nothing runs: it has no pods, or pods without a node.
    pub fn waiting(&self) -> impl Iterator<Item = &Work> {
        self.works.iter().filter(|work| {
            let Row { counts, ended, .. } = self.row(work);
            let runs = counts[Standing::Starting as usize] + counts[Standing::Running as usize] > 0;
            ended.is_none() && !runs && (counts[Standing::Waiting as usize] > 0 || counts == [0; 5])
        })
    }

    /// Whether a TrainJob was tried to be made into something, and could not be.
    fn is_unmade(&self, work: &Work) -> bool {
        work.kind == WorkKind::TrainJob
            && self.end_of(work).is_none()
            && self.warnings.contains_key(&work.uid)
            && !self.inner.values().any(|of| *of == work.uid)
    }

    /// Whether all pods that Jobs have counted were seen to end: watches may lag behind each other.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let lives = |pod: &Tree| self.live().any(|live| meta::uid(live) == meta::uid(pod));
        self.works.iter().all(|work| {
            if matches!(work.kind, WorkKind::JobSet | WorkKind::TrainJob) {
                return !self.pods_of(work).any(lives);
            }
            let Some(job) = self.tops.get(&work.uid) else { return true };
            let status = JobFacts::of(&job.tree).status;
            let ended = |pod: &&Tree| Phase::of(pod.str_at(&["status", "phase"])).ended();
            self.pods_of(work).filter(ended).count() >= (status.succeeded + status.failed) as usize
        })
    }

    /// How a piece of work ended, if it has.
    #[must_use]
    pub fn end_of(&self, work: &Work) -> Option<Ended> {
        let all = if work.kind == WorkKind::Pod { &self.pods } else { &self.tops };
        all.get(&work.uid).and_then(|seen| work.kind.end(&seen.tree, seen.gone))
    }

    /// How long a piece of work took, or has taken so far.
    #[must_use]
    pub fn took(&self, work: &Work, now: Time) -> Duration {
        self.ended.get(&work.uid).copied().unwrap_or(now).since(self.began)
    }

    /// How many pods of a piece of work succeeded and failed, as the server counts them.
    #[must_use]
    pub fn tally(&self, work: &Work) -> (usize, usize) {
        let counts = self.row(work).counts;
        let seen = (counts[Standing::Finished as usize], counts[Standing::Failed as usize]);
        let Some(job) = self.tops.get(&work.uid).filter(|_| work.kind == WorkKind::Job) else { return seen };
        let status = JobFacts::of(&job.tree).status;
        (seen.0.max(status.succeeded as usize), seen.1.max(status.failed as usize))
    }

    /// How often containers of a piece of work were restarted.
    #[must_use]
    pub fn restarts(&self, work: &Work) -> i64 {
        self.pods_of(work).map(|pod| PodFacts::of(pod).restarts).sum()
    }
}

/// How far training says that it is, in percent.
fn progress(job: &Tree) -> Option<i64> {
    job.at(train_job::STATUS)?.at(status::TRAINER)?.int_at(trainer_status::PROGRESS)
}
