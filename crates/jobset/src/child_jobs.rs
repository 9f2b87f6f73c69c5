//! The child Jobs of a JobSet, classified by restart attempt and state.

use std::collections::BTreeMap;

use muster_api::client::Uid;
use muster_api::consts::conditions;
use muster_api::consts::jobset as words;
use muster_api::jobset::JobSetFacts;
use muster_api::meta;
use muster_api::paths::{condition, job as path, job_status as status, meta as meta_path};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::FeatureGates;

/// An object by name and UID: a new object of the same name must not be modified or deleted by mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub name: Text,
    pub uid: Uid,
}

impl ObjectRef {
    #[must_use]
    pub fn of(object: &Tree) -> ObjectRef {
        ObjectRef { name: meta::name(object), uid: meta::uid(object) }
    }
}

/// How a Job finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFinish {
    /// Failed instead of succeeded.
    pub failed: bool,
    pub reason: Text,
    pub message: Text,
    pub since: Option<Time>,
}

/// The parsed fields of a child Job.
#[derive(Debug, Clone)]
pub struct ChildJob<'a> {
    pub tree: &'a Tree,
    pub object_ref: ObjectRef,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
    /// The name of its replicatedJob, from its label or annotation.
    pub group: Option<&'a str>,
    pub ended: Option<JobFinish>,
    /// The API field `spec.suspend`.
    pub suspend: bool,
    /// Pending and running pods.
    pub active: u32,
    /// Pods that are ready or succeeded.
    pub ready_or_succeeded: u32,
    pub succeeded: u32,
}

impl<'a> ChildJob<'a> {
    #[must_use]
    pub fn of(job: &'a Tree) -> ChildJob<'a> {
        let status_of = job.at(path::STATUS).unwrap_or(&Tree::Null);
        let number = |path: &[&str]| status_of.int_at(path).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        ChildJob {
            tree: job,
            object_ref: ObjectRef::of(job),
            deleting: meta::deletion_timestamp(job).is_some(),
            group: said(job, words::GROUP),
            ended: ended(status_of),
            suspend: job.bool_at(path::SUSPEND) == Some(true),
            active: number(status::ACTIVE),
            ready_or_succeeded: number(status::READY).saturating_add(number(status::SUCCEEDED)),
            succeeded: number(status::SUCCEEDED),
        }
    }

    /// Pods that are ready.
    #[must_use]
    pub fn ready(&self) -> u32 {
        self.ready_or_succeeded - self.succeeded
    }

    /// Its index in its replicatedJob.
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        said(self.tree, words::JOB_INDEX)?.parse().ok()
    }

    /// Whether `status.startTime` is set.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.tree.at(path::STATUS).is_some_and(|it| it.at(status::START_TIME).is_some())
    }

    /// Whether its `Suspended` condition is true.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        let all = self.tree.at(path::STATUS).map_or(&[][..], |it| it.items_at(status::CONDITIONS));
        muster_api::condition::is_true(all, conditions::SUSPENDED)
    }
}

/// A label of a Job, or the annotation of the same key if the label was removed.
fn said<'a>(job: &'a Tree, key: &str) -> Option<&'a str> {
    meta::label(job, key).or_else(|| meta::annotation(job, key))
}

fn number(job: &Tree, key: &str) -> Option<u32> {
    let read = |value: Option<&str>| value?.parse().ok();
    read(meta::label(job, key)).or_else(|| read(meta::annotation(job, key)))
}

fn ended(status_of: &Tree) -> Option<JobFinish> {
    let ends = |c: &&Tree| {
        matches!(c.str_at(condition::TYPE), conditions::COMPLETE | conditions::FAILED)
            && c.str_at(condition::STATUS) == "True"
    };
    let found = status_of.items_at(status::CONDITIONS).iter().find(ends)?;
    Some(JobFinish {
        failed: found.str_at(condition::TYPE) == conditions::FAILED,
        reason: found.text_at(condition::REASON),
        message: found.text_at(condition::MESSAGE),
        since: Time::of(found.at(condition::SINCE)),
    })
}

/// The child Jobs by attempt and state.
#[derive(Debug, Default)]
pub struct ChildJobs<'a> {
    /// Of an earlier restart attempt.
    pub previous: Vec<&'a ChildJob<'a>>,
    /// Of the current attempt, not finished.
    pub active: Vec<&'a ChildJob<'a>>,
    pub successful: Vec<&'a ChildJob<'a>>,
    pub failed: Vec<&'a ChildJob<'a>>,
    /// Jobs without a valid attempt label, with the error. They are neither counted nor deleted for a restart.
    pub unreadable: Vec<(&'a ChildJob<'a>, String)>,
}

impl<'a> ChildJobs<'a> {
    /// Classifies the child Jobs. An unreadable Job does not affect the others.
    #[must_use]
    pub fn of(set: &JobSetFacts, children: &'a [ChildJob<'a>], gates: FeatureGates) -> ChildJobs<'a> {
        let targets: BTreeMap<&str, &[u32]> =
            set.status.jobs.iter().map(|it| (it.name.as_str(), it.restarts.as_slice())).collect();
        let mut sorted = ChildJobs::default();
        for child in children {
            let is_previous = match is_previous(set, child, &targets, gates) {
                Ok(is_previous) => is_previous,
                Err(why) => {
                    sorted.unreadable.push((child, why));
                    continue;
                }
            };
            let bucket = match &child.ended {
                _ if is_previous => &mut sorted.previous,
                Some(ended) if ended.failed => &mut sorted.failed,
                Some(_) => &mut sorted.successful,
                None => &mut sorted.active,
            };
            bucket.push(child);
        }
        sorted
    }

    /// Unfinished Jobs of the current attempt, and unreadable ones.
    pub fn running(&self) -> impl Iterator<Item = &'a ChildJob<'a>> + '_ {
        let unreadable = self.unreadable.iter().map(|(it, _)| it).filter(|it| it.ended.is_none());
        self.active.iter().chain(unreadable).copied()
    }

    /// All Jobs of the current attempt.
    pub fn present(&self) -> impl Iterator<Item = &'a ChildJob<'a>> + '_ {
        self.active.iter().chain(&self.successful).chain(&self.failed).copied()
    }
}

fn is_previous(
    set: &JobSetFacts,
    child: &ChildJob<'_>,
    targets: &BTreeMap<&str, &[u32]>,
    gates: FeatureGates,
) -> Result<bool, String> {
    let missing = |key: &str| {
        let value = child
            .tree
            .at(meta_path::LABELS)
            .and_then(|all| all.get(key))
            .map_or("none", |it| it.as_str().unwrap_or(""));
        format!(
            "job {:?}: label {key} must be a number of an attempt, and is {value:?}: put back what its annotation of the same key said, or delete the job",
            child.object_ref.name.as_str()
        )
    };
    let attempt =
        number(child.tree, words::RESTART_ATTEMPT).ok_or_else(|| missing(words::RESTART_ATTEMPT))?;
    if attempt < set.status.restarts {
        return Ok(true);
    }
    let single = gates.restart_job.then(|| said(child.tree, words::JOB_RESTART_ATTEMPT)).flatten();
    let Some(single) = single else { return Ok(false) };
    let single: u32 = single.parse().map_err(|_| missing(words::JOB_RESTART_ATTEMPT))?;
    let group = child.group.ok_or_else(|| missing(words::GROUP))?;
    // No single Job of this replicatedJob was restarted yet.
    let Some(targets) = targets.get(group).filter(|it| !it.is_empty()) else { return Ok(false) };
    let index = number(child.tree, words::JOB_INDEX).ok_or_else(|| missing(words::JOB_INDEX))?;
    let target = targets.get(index as usize).ok_or_else(|| missing(words::JOB_INDEX))?;
    Ok(single < *target)
}
