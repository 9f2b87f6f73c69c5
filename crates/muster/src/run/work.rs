//! A piece of work (Job, Pod, JobSet or TrainJob) and its result.
//!
//! Pure: the result is read from the last observed state of the object.

use muster_api::client::{Kind, Uid};
use muster_api::consts::{conditions, jobset};
use muster_api::job::JobFacts;
use muster_api::jobset::JobSetFacts;
use muster_api::kinds;
use muster_api::paths::condition as path;
use muster_api::train::TrainJobFacts;
use muster_api::train::consts::{TRAIN_JOB, conditions as train};
use muster_api::train::kinds::TRAIN_JOBS;
use muster_tree::{Text, Tree};

use crate::run::pods::{self, PodStage};

/// The kind of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    Job,
    /// A Pod without a controller.
    Pod,
    JobSet,
    /// A TrainJob; its pods belong to the JobSet that the trainer controller creates.
    TrainJob,
}

impl WorkKind {
    pub const ALL: [WorkKind; 4] = [WorkKind::Job, WorkKind::Pod, WorkKind::JobSet, WorkKind::TrainJob];

    /// The API resource.
    #[must_use]
    pub fn kind(self) -> &'static Kind {
        match self {
            WorkKind::Job => &kinds::JOBS,
            WorkKind::Pod => &kinds::PODS,
            WorkKind::JobSet => &kinds::JOBSETS,
            WorkKind::TrainJob => &TRAIN_JOBS,
        }
    }

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

/// A submitted piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    pub kind: WorkKind,
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
}

impl Work {
    /// `kind/name`, as in `job/train`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind.word().to_lowercase(), self.name)
    }
}

/// The result of a piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkResult {
    Completed,
    /// Failed or deleted, with the reason.
    Failed(String),
}

impl WorkKind {
    /// The result of an object of this kind, if it has finished; `gone` means that it was deleted.
    #[must_use]
    pub fn end(self, object: &Tree, gone: bool) -> Option<WorkResult> {
        let ended = match self {
            WorkKind::Job => {
                JobFacts::of(object).finished_condition().map(|it| of_condition(it, conditions::COMPLETE))
            }
            WorkKind::JobSet => {
                let status = JobSetFacts::of(object).status;
                status.terminal_condition().map(|it| of_condition(it, jobset::conditions::COMPLETED))
            }
            WorkKind::TrainJob => train_end(object),
            WorkKind::Pod => pod_end(object),
        };
        ended.or_else(|| gone.then(deleted))
    }
}

/// The result of a terminal condition; `good` is the type of the successful one.
fn of_condition(end: &Tree, good: &str) -> WorkResult {
    if end.str_at(path::TYPE) == good {
        return WorkResult::Completed;
    }
    WorkResult::Failed(pods::reason_text(end.str_at(path::REASON), end.str_at(path::MESSAGE)))
}

fn train_end(job: &Tree) -> Option<WorkResult> {
    let status = TrainJobFacts::of(job).status;
    let ends = [train::COMPLETE, train::FAILED].into_iter().filter(|kind| status.holds(kind));
    ends.filter_map(|kind| status.condition(kind)).map(|it| of_condition(it, train::COMPLETE)).next()
}

fn pod_end(pod: &Tree) -> Option<WorkResult> {
    match PodStage::of(pod) {
        PodStage::Finished => Some(WorkResult::Completed),
        PodStage::Failed => Some(WorkResult::Failed(pods::reason(pod))),
        _ => None,
    }
}

fn deleted() -> WorkResult {
    WorkResult::Failed("it was deleted before it finished".to_owned())
}
