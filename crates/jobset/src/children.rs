//! The Jobs of a JobSet as they are: what is read of each, and which attempt it belongs to.

use std::collections::BTreeMap;

use muster_api::jobset::JobSetFacts;
use muster_api::meta;
use muster_api::paths::{condition, job as path, job_status as status, meta as meta_path};
use muster_api::port::Uid;
use muster_api::time::Time;
use muster_api::words::conditions;
use muster_api::words::jobset as words;
use muster_tree::{Text, Tree};

use crate::Gates;

/// Exactly this object: the UID guards against a namesake born meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
}

impl Ref {
    /// An object.
    #[must_use]
    pub fn of(object: &Tree) -> Ref {
        Ref { name: meta::name(object), uid: meta::uid(object) }
    }
}

/// How a Job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Whether it failed; it succeeded otherwise.
    pub failed: bool,
    /// Why.
    pub reason: Text,
    /// In words.
    pub message: Text,
    /// When.
    pub since: Option<Time>,
}

/// What is read of a Job of a JobSet.
#[derive(Debug, Clone)]
pub struct Child<'a> {
    /// The Job itself.
    pub tree: &'a Tree,
    /// Which.
    pub this: Ref,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The name of its replicatedJob, if it says so.
    pub group: Option<&'a str>,
    /// How it ended, if it has.
    pub ended: Option<Ended>,
    /// Whether no pod may run.
    pub suspend: bool,
    /// Pods that run or may run.
    pub active: u32,
    /// Pods that are ready, and those that succeeded.
    pub ready_or_succeeded: u32,
    /// Pods that succeeded.
    pub succeeded: u32,
}

impl<'a> Child<'a> {
    /// Reads a Job.
    #[must_use]
    pub fn of(job: &'a Tree) -> Child<'a> {
        let status_of = job.at(path::STATUS).unwrap_or(&Tree::Null);
        let number = |path: &[&str]| status_of.int_at(path).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        Child {
            tree: job,
            this: Ref::of(job),
            deleting: meta::deleting(job).is_some(),
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

    /// Its place in its replicatedJob.
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        said(self.tree, words::JOB_INDEX)?.parse().ok()
    }

    /// Whether it has started at some time and nobody cleared that.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.tree.at(path::STATUS).is_some_and(|it| it.at(status::START_TIME).is_some())
    }

    /// Whether its controller has suspended it.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        let all = self.tree.at(path::STATUS).map_or(&[][..], |it| it.items_at(status::CONDITIONS));
        muster_api::condition::holds(all, conditions::SUSPENDED)
    }
}

/// What a Job says of itself: the label, or where somebody changed that, the annotation of the same key.
fn said<'a>(job: &'a Tree, key: &str) -> Option<&'a str> {
    meta::label(job, key).or_else(|| meta::annotation(job, key))
}

fn number(job: &Tree, key: &str) -> Option<u32> {
    let read = |value: Option<&str>| value?.parse().ok();
    read(meta::label(job, key)).or_else(|| read(meta::annotation(job, key)))
}

fn ended(status_of: &Tree) -> Option<Ended> {
    let ends = |c: &&Tree| {
        matches!(c.str_at(condition::TYPE), conditions::COMPLETE | conditions::FAILED)
            && c.str_at(condition::STATUS) == "True"
    };
    let found = status_of.items_at(status::CONDITIONS).iter().find(ends)?;
    Some(Ended {
        failed: found.str_at(condition::TYPE) == conditions::FAILED,
        reason: found.text_at(condition::REASON),
        message: found.text_at(condition::MESSAGE),
        since: Time::of(found.at(condition::SINCE)),
    })
}

/// All Jobs, by what they are to the JobSet now.
#[derive(Debug, Default)]
pub struct Sorted<'a> {
    /// Of an attempt that is over.
    pub previous: Vec<&'a Child<'a>>,
    /// Neither over nor ended.
    pub active: Vec<&'a Child<'a>>,
    /// Succeeded.
    pub successful: Vec<&'a Child<'a>>,
    /// Failed.
    pub failed: Vec<&'a Child<'a>>,
    /// Jobs whose labels do not say to which attempt they belong, and why not. Whether one is to be replaced is not
    /// known, so it is neither counted nor deleted for a restart.
    pub unreadable: Vec<(&'a Child<'a>, String)>,
}

impl<'a> Sorted<'a> {
    /// Sorts them. A Job that cannot be read is set aside; the others are what they are without it.
    #[must_use]
    pub fn of(set: &JobSetFacts, children: &'a [Child<'a>], gates: Gates) -> Sorted<'a> {
        let targets: BTreeMap<&str, &[u32]> =
            set.status.jobs.iter().map(|it| (it.name.as_str(), it.restarts.as_slice())).collect();
        let mut sorted = Sorted::default();
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

    /// Jobs that have not ended, of whatever attempt: these run unless they are suspended or deleted.
    pub fn running(&self) -> impl Iterator<Item = &'a Child<'a>> + '_ {
        let unreadable = self.unreadable.iter().map(|(it, _)| it).filter(|it| it.ended.is_none());
        self.active.iter().chain(unreadable).copied()
    }

    /// All of the present attempt.
    pub fn present(&self) -> impl Iterator<Item = &'a Child<'a>> + '_ {
        self.active.iter().chain(&self.successful).chain(&self.failed).copied()
    }
}

fn is_previous(
    set: &JobSetFacts,
    child: &Child<'_>,
    targets: &BTreeMap<&str, &[u32]>,
    gates: Gates,
) -> Result<bool, String> {
    let missing = |key: &str| {
        let value = child
            .tree
            .at(meta_path::LABELS)
            .and_then(|all| all.get(key))
            .map_or("none", |it| it.as_str().unwrap_or(""));
        format!(
            "job {:?}: label {key} must be a number of an attempt, and is {value:?}: put back what its annotation of the same key said, or delete the job",
            child.this.name.as_str()
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
    let Some(targets) = targets.get(group).filter(|it| !it.is_empty()) else { return Ok(false) };
    let index = number(child.tree, words::JOB_INDEX).ok_or_else(|| missing(words::JOB_INDEX))?;
    let target = targets.get(index as usize).ok_or_else(|| missing(words::JOB_INDEX))?;
    Ok(single < *target)
}
