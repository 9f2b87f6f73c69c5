//! A piece of work: what it is, and how it ended.
//!
//! Pure: the end is read off the object as it was seen last.

use muster_api::job::JobFacts;
use muster_api::jobset::JobSetFacts;
use muster_api::kinds;
use muster_api::paths::condition as path;
use muster_api::port::{Kind, Uid};
use muster_api::train::TrainJobFacts;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::train::words::{TRAIN_JOB, conditions as train};
use muster_api::words::{conditions, jobset};
use muster_tree::{Text, Tree};

use crate::run::pods::{self, Standing};

/// What a piece of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// A Job.
    Job,
    /// A Pod of its own.
    Pod,
    /// A JobSet.
    JobSet,
    /// A TrainJob, whose pods are those of a JobSet that is made for it.
    TrainJob,
}

impl WorkKind {
    /// All of them.
    pub const ALL: [WorkKind; 4] = [WorkKind::Job, WorkKind::Pod, WorkKind::JobSet, WorkKind::TrainJob];

    /// The kind that watches and deletes name.
    #[must_use]
    pub fn kind(self) -> &'static Kind {
        match self {
            WorkKind::Job => &kinds::JOBS,
            WorkKind::Pod => &kinds::PODS,
            WorkKind::JobSet => &kinds::JOBSETS,
            WorkKind::TrainJob => &TRAIN_JOBS,
        }
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            WorkKind::Job => "Job",
            WorkKind::Pod => "Pod",
            WorkKind::JobSet => "JobSet",
            WorkKind::TrainJob => TRAIN_JOB,
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

impl WorkKind {
    /// How an object of this kind ended; `gone` says that it is not there any more.
    #[must_use]
    pub fn end(self, object: &Tree, gone: bool) -> Option<Ended> {
        let ended = match self {
            WorkKind::Job => JobFacts::of(object).finished().map(|it| of_condition(it, conditions::COMPLETE)),
            WorkKind::JobSet => {
                let status = JobSetFacts::of(object).status;
                status.ended().map(|it| of_condition(it, jobset::conditions::COMPLETED))
            }
            WorkKind::TrainJob => train_end(object),
            WorkKind::Pod => pod_end(object),
        };
        ended.or_else(|| gone.then(deleted))
    }
}

/// What a last condition says: one of them means that all is well.
fn of_condition(end: &Tree, good: &str) -> Ended {
    if end.str_at(path::TYPE) == good {
        return Ended::Completed;
    }
    Ended::Failed(pods::words(end.str_at(path::REASON), end.str_at(path::MESSAGE)))
}

fn train_end(job: &Tree) -> Option<Ended> {
    let status = TrainJobFacts::of(job).status;
    let ends = [train::COMPLETE, train::FAILED].into_iter().filter(|kind| status.holds(kind));
    ends.filter_map(|kind| status.condition(kind)).map(|it| of_condition(it, train::COMPLETE)).next()
}

fn pod_end(pod: &Tree) -> Option<Ended> {
    match Standing::of(pod) {
        Standing::Finished => Some(Ended::Completed),
        Standing::Failed => Some(Ended::Failed(pods::reason(pod))),
        _ => None,
    }
}

fn deleted() -> Ended {
    Ended::Failed("somebody deleted it before it ended".to_owned())
}
