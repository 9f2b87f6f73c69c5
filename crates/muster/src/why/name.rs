//! `KIND/NAME`, as people write it.

use muster_api::kinds::{JOBS, JOBSETS, PODS};
use muster_api::port::Kind;
use muster_api::queue::kinds::WORKLOADS;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::train::words::TRAIN_JOB;
use muster_tree::Text;

/// What can be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A Workload of a queue.
    Workload,
    Job,
    JobSet,
    TrainJob,
    Pod,
}

impl What {
    /// All of them, and how people call them.
    const ALL: [(What, &'static [&'static str]); 5] = [
        (
            What::Workload,
            &["workload", "workloads", "wl", "kwl", "workload.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"],
        ),
        (What::Job, &["job", "jobs", "job.batch", "jobs.batch"]),
        (What::JobSet, &["jobset", "jobsets", "jobset.jobset.x-k8s.io", "jobsets.jobset.x-k8s.io"]),
        (
            What::TrainJob,
            &["trainjob", "trainjobs", "trainjob.trainer.kubeflow.org", "trainjobs.trainer.kubeflow.org"],
        ),
        (What::Pod, &["pod", "pods", "po"]),
    ];

    /// Its kind on the wire.
    pub fn kind(self) -> &'static Kind {
        match self {
            What::Workload => &WORKLOADS,
            What::Job => &JOBS,
            What::JobSet => &JOBSETS,
            What::TrainJob => &TRAIN_JOBS,
            What::Pod => &PODS,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            What::Workload => "Workload",
            What::Job => "Job",
            What::JobSet => "JobSet",
            What::TrainJob => TRAIN_JOB,
            What::Pod => "Pod",
        }
    }

    /// What is called so in references to owners.
    pub fn called(group: &str, word: &str) -> Option<What> {
        let all = [What::Job, What::JobSet, What::TrainJob, What::Pod];
        all.into_iter().find(|it| it.word() == word && it.kind().group == group)
    }
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// What it is.
    pub what: What,
    /// How it is called.
    pub name: Text,
}

/// Nothing that could be asked about.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} names nothing that can be explained\n\nhint: write KIND/NAME with one of workload, job, jobset, trainjob and pod, such as job/train"
)]
pub struct NameError(String);

impl Name {
    /// Reads it.
    ///
    /// # Errors
    /// It is no name.
    pub fn of(text: &str) -> Result<Name, NameError> {
        let wrong = || NameError(text.to_owned());
        let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
        let kind = kind.to_lowercase();
        let what = What::ALL.iter().find(|(_, words)| words.contains(&kind.as_str())).ok_or_else(wrong)?.0;
        if name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        Ok(Name { what, name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, want) in [
            ("job/a", Some((What::Job, "a"))),
            ("Jobs/a", Some((What::Job, "a"))),
            ("jobset/train", Some((What::JobSet, "train"))),
            ("po/p", Some((What::Pod, "p"))),
            ("TrainJob/t", Some((What::TrainJob, "t"))),
            ("kwl/w", Some((What::Workload, "w"))),
            ("deployment/d", None),
            ("job", None),
            ("job/", None),
            ("job/a/b", None),
        ] {
            let read = Name::of(text).ok().map(|it| (it.what, it.name.to_string()));
            assert_eq!(read, want.map(|(what, name)| (what, name.to_owned())), "{text}");
        }
        assert!(Name::of("x").unwrap_err().to_string().contains("such as job/train"));
    }
}
