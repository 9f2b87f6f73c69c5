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
use muster_api::jobset::JobSetFacts;
use muster_api::paths::{condition as condition_path, job};
use muster_api::pod::{Phase, PodFacts};
use muster_api::port::{Batch, Change, Kind, Uid};
use muster_api::time::Time;
use muster_api::words::{conditions, jobset};
use muster_api::{condition, kinds, meta};
use muster_tree::{Text, Tree};

use crate::run::pods::{self, Standing};

/// Objects whose last warning is kept.
const WARNINGS_MAX: usize = 10_000;
/// Pods with different reasons that a row tells of.
const REASONS_MAX: usize = 3;

/// What a piece of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// A Job.
    Job,
    /// A Pod of its own.
    Pod,
    /// A JobSet.
    JobSet,
}

impl WorkKind {
    /// The kind that watches and deletes name.
    #[must_use]
    pub fn kind(self) -> &'static Kind {
        match self {
            WorkKind::Job => &kinds::JOBS,
            WorkKind::Pod => &kinds::PODS,
            WorkKind::JobSet => &kinds::JOBSETS,
        }
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            WorkKind::Job => "Job",
            WorkKind::Pod => "Pod",
            WorkKind::JobSet => "JobSet",
        }
    }
}

/// A piece of work that was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// What it is.
    pub kind: WorkKind,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
}

impl Work {
    /// How people name it: `job/train`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind.word().to_lowercase(), self.name)
    }
}

/// How a piece of work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Well.
    Completed,
    /// Not well, and why.
    Failed(String),
}

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
    /// Events.
    Events,
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
    jobs: BTreeMap<Uid, Seen>,
    sets: BTreeMap<Uid, Seen>,
    pods: BTreeMap<Uid, Seen>,
    /// The order in which pods were seen first.
    order: Vec<Uid>,
    warnings: BTreeMap<Uid, String>,
    ended: BTreeMap<Uid, Time>,
}

impl Picture {
    /// Of this work, submitted at an instant.
    #[must_use]
    pub fn new(works: Vec<Work>, began: Time) -> Picture {
        Picture {
            works,
            began,
            jobs: BTreeMap::new(),
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            order: Vec::new(),
            warnings: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
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
        let all = match watch {
            Watch::Jobs => &mut self.jobs,
            Watch::JobSets => &mut self.sets,
            Watch::Pods => &mut self.pods,
            Watch::Events => return,
        };
        for (uid, seen) in all.iter_mut() {
            seen.gone |= meta::namespace(&seen.tree) == namespace && !there.contains(uid);
        }
    }

    fn put(&mut self, watch: Watch, tree: &Tree, gone: bool) {
        let uid = meta::uid(tree);
        let seen = Seen { tree: tree.clone(), gone };
        match watch {
            Watch::Jobs if self.is_work(&uid) => {
                self.jobs.insert(uid, seen);
            }
            Watch::JobSets if self.is_work(&uid) => {
                self.sets.insert(uid, seen);
            }
            Watch::Pods if self.is_work(&uid) || self.owner(tree).is_some() => {
                let is_new = self.pods.insert(uid.clone(), seen).is_none();
                self.order.extend(is_new.then_some(uid));
            }
            Watch::Events if !gone => self.note(tree),
            _ => {}
        }
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
        let set = || meta::label(pod, jobset::UID).map(Uid::from).filter(|uid| self.is_work(uid));
        job.or_else(set)
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
        if let Some(words) = self.warnings.get(&work.uid).filter(|_| counts == [0; 5]) {
            reasons.push((words.clone(), 0, work.name.clone()));
        }
        reasons.truncate(REASONS_MAX);
        let seen = self.jobs.get(&work.uid).or_else(|| self.sets.get(&work.uid));
        let suspended = seen.is_some_and(|seen| seen.tree.bool_at(job::SUSPEND) == Some(true));
        Row { title: work.title(), counts, reasons, suspended, ended: self.end_of(work) }
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

    /// Whether nothing runs and every pod waits for what only somebody from outside can give it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let mut any = false;
        self.live().inspect(|_| any = true).all(pods::is_held) && any
    }

    /// Whether all pods that Jobs have counted were seen to end: watches may lag behind each other.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let lives = |pod: &Tree| self.live().any(|live| meta::uid(live) == meta::uid(pod));
        self.works.iter().all(|work| {
            if work.kind == WorkKind::JobSet {
                return !self.pods_of(work).any(lives);
            }
            let Some(job) = self.jobs.get(&work.uid) else { return true };
            let status = JobFacts::of(&job.tree).status;
            let ended = |pod: &&Tree| Phase::of(pod.str_at(&["status", "phase"])).ended();
            self.pods_of(work).filter(ended).count() >= (status.succeeded + status.failed) as usize
        })
    }

    /// How a piece of work ended, if it has.
    #[must_use]
    pub fn end_of(&self, work: &Work) -> Option<Ended> {
        match work.kind {
            WorkKind::Job => self.jobs.get(&work.uid).and_then(job_end),
            WorkKind::Pod => self.pods.get(&work.uid).and_then(pod_end),
            WorkKind::JobSet => self.sets.get(&work.uid).and_then(set_end),
        }
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
        let Some(job) = self.jobs.get(&work.uid) else { return seen };
        let status = JobFacts::of(&job.tree).status;
        (seen.0.max(status.succeeded as usize), seen.1.max(status.failed as usize))
    }

    /// How often containers of a piece of work were restarted.
    #[must_use]
    pub fn restarts(&self, work: &Work) -> i64 {
        self.pods_of(work).map(|pod| PodFacts::of(pod).restarts).sum()
    }
}

fn job_end(seen: &Seen) -> Option<Ended> {
    let facts = JobFacts::of(&seen.tree);
    let Some(end) = facts.finished() else { return seen.gone.then(deleted) };
    if condition::holds(std::slice::from_ref(end), conditions::COMPLETE) {
        return Some(Ended::Completed);
    }
    Some(Ended::Failed(pods::words(end.str_at(condition_path::REASON), end.str_at(condition_path::MESSAGE))))
}

fn set_end(seen: &Seen) -> Option<Ended> {
    let status = JobSetFacts::of(&seen.tree).status;
    let Some(end) = status.ended() else { return seen.gone.then(deleted) };
    if end.str_at(condition_path::TYPE) == jobset::conditions::COMPLETED {
        return Some(Ended::Completed);
    }
    Some(Ended::Failed(pods::words(end.str_at(condition_path::REASON), end.str_at(condition_path::MESSAGE))))
}

fn pod_end(seen: &Seen) -> Option<Ended> {
    match Standing::of(&seen.tree) {
        Standing::Finished => Some(Ended::Completed),
        Standing::Failed => Some(Ended::Failed(pods::reason(&seen.tree))),
        _ => seen.gone.then(deleted),
    }
}

fn deleted() -> Ended {
    Ended::Failed("somebody deleted it before it ended".to_owned())
}
