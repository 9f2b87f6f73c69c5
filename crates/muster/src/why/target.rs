//! Parses the `KIND/NAME` argument of `muster why`.

use muster_api::client::Kind;
use muster_api::kinds::{JOBS, JOBSETS, PODS};
use muster_api::queue::kinds::WORKLOADS;
use muster_api::train::consts::TRAIN_JOB;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_tree::Text;

/// The kinds that can be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainableKind {
    /// `kueue.x-k8s.io` Workload.
    Workload,
    Job,
    JobSet,
    TrainJob,
    Pod,
}

impl ExplainableKind {
    /// The names of each kind on the command line: singular, plural, short and with the group, as kubectl accepts them.
    const ALL: [(ExplainableKind, &'static [&'static str]); 5] = [
        (
            ExplainableKind::Workload,
            &["workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"],
        ),
        (ExplainableKind::Job, &["job", "jobs", "job.batch", "jobs.batch"]),
        (
            ExplainableKind::JobSet,
            &["jobset", "jobsets", "jobset.jobset.x-k8s.io", "jobsets.jobset.x-k8s.io"],
        ),
        (
            ExplainableKind::TrainJob,
            &["trainjob", "trainjobs", "trainjob.trainer.kubeflow.org", "trainjobs.trainer.kubeflow.org"],
        ),
        (ExplainableKind::Pod, &["pod", "pods", "po"]),
    ];

    pub fn kind(self) -> &'static Kind {
        match self {
            ExplainableKind::Workload => &WORKLOADS,
            ExplainableKind::Job => &JOBS,
            ExplainableKind::JobSet => &JOBSETS,
            ExplainableKind::TrainJob => &TRAIN_JOBS,
            ExplainableKind::Pod => &PODS,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            ExplainableKind::Workload => "Workload",
            ExplainableKind::Job => "Job",
            ExplainableKind::JobSet => "JobSet",
            ExplainableKind::TrainJob => TRAIN_JOB,
            ExplainableKind::Pod => "Pod",
        }
    }

    /// The kind of an owner reference. A Workload owns nothing, so it is not looked up.
    pub fn from_owner(group: &str, word: &str) -> Option<ExplainableKind> {
        let all =
            [ExplainableKind::Job, ExplainableKind::JobSet, ExplainableKind::TrainJob, ExplainableKind::Pod];
        all.into_iter().find(|it| it.word() == word && it.kind().group == group)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainTarget {
    pub what: ExplainableKind,
    pub name: Text,
}

/// The argument is not `KIND/NAME` of a kind that can be explained.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not an object that can be explained\n\nhint: write KIND/NAME with one of workload, job, jobset, trainjob and pod, such as job/train"
)]
pub struct TargetNameError(String);

impl ExplainTarget {
    /// # Errors
    /// The kind is unknown, or the name is empty.
    pub fn of(text: &str) -> Result<ExplainTarget, TargetNameError> {
        let wrong = || TargetNameError(text.to_owned());
        let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
        let kind = kind.to_lowercase();
        let what = ExplainableKind::ALL
            .iter()
            .find(|(_, words)| words.contains(&kind.as_str()))
            .ok_or_else(wrong)?
            .0;
        if name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        Ok(ExplainTarget { what, name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, want) in [
            ("job/a", Some((ExplainableKind::Job, "a"))),
            ("Jobs/a", Some((ExplainableKind::Job, "a"))),
            ("jobset/train", Some((ExplainableKind::JobSet, "train"))),
            ("po/p", Some((ExplainableKind::Pod, "p"))),
            ("TrainJob/t", Some((ExplainableKind::TrainJob, "t"))),
            ("kwl/w", Some((ExplainableKind::Workload, "w"))),
            ("deployment/d", None),
            ("job", None),
            ("job/", None),
            ("job/a/b", None),
        ] {
            let read = ExplainTarget::of(text).ok().map(|it| (it.what, it.name.to_string()));
            assert_eq!(read, want.map(|(what, name)| (what, name.to_owned())), "{text}");
        }
        assert!(ExplainTarget::of("x").unwrap_err().to_string().contains("such as job/train"));
    }
}
