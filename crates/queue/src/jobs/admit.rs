//! What is filled in and refused when jobs that can wait are written.
//!
//! # Invariants
//!
//! - Filling in twice fills in once.
//! - What a job asks for, and where it waits, stays as it is while the job runs.
//! - All that is wrong is told at once, each with its path.

use muster_api::meta;
use muster_api::paths::{job as job_path, meta as meta_path, pod as pod_path};
use muster_api::queue::words::{DEFAULT, annotations, labels};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Text, Tree};

use super::batch::read_bool;
use super::plan::prebuilt_of;

const IMMUTABLE: &str = "field is immutable";

/// What surrounds a job that is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Around {
    /// Whether the namespace is one of those that are managed.
    pub is_selected: bool,
    /// Whether the namespace has a LocalQueue for who names none.
    pub has_default_queue: bool,
    /// Whether there is a class of priority for who names none.
    pub has_default_class: bool,
    /// Whether jobs without a queue are managed too.
    pub without_queue: bool,
    /// Whether something above the job is queued in its stead.
    pub has_managed_owner: bool,
}

/// A new job as it is kept: with a queue and a class if there are such for who names none, and standing still if it is
/// taken in. `suspend` is where its kind says so.
#[must_use]
pub fn filled_in(object: &Tree, suspend: &[&str], around: Around) -> Tree {
    if !around.is_selected || around.has_managed_owner {
        return object.clone();
    }
    let mut object = object.clone();
    if around.has_default_queue && is_unset(&object, labels::QUEUE) {
        object = object.with(&label_path(labels::QUEUE), DEFAULT);
    }
    if around.has_default_class && is_unset(&object, labels::PRIORITY_CLASS) {
        object = object.with(&label_path(labels::PRIORITY_CLASS), DEFAULT);
    }
    if is_taken_in(&object, around) && object.bool_at(suspend) != Some(true) {
        object.with(suspend, true)
    } else {
        object
    }
}

/// Whether a job, as it was filled in, is queued from now on.
#[must_use]
pub fn is_taken_in(object: &Tree, around: Around) -> bool {
    around.is_selected
        && !around.has_managed_owner
        && (around.without_queue || !is_unset(object, labels::QUEUE))
}

fn is_unset(object: &Tree, label: &str) -> bool {
    meta::label(object, label).unwrap_or_default().is_empty()
}

fn label_path(label: &str) -> Vec<&str> {
    [meta_path::LABELS, &[label]].concat()
}

fn at_label(label: &str) -> String {
    format!("metadata.labels[{label}]")
}

fn at_annotation(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

/// What is wrong with what an object says about its queue, be it new or changed. Pods are checked by it too.
#[must_use]
pub fn check_queue_words(object: &Tree) -> Vec<FieldError> {
    let mut problems = Vec::new();
    if let Some(queue) = meta::label(object, labels::QUEUE) {
        let path = at_label(labels::QUEUE);
        problems
            .extend(names::subdomain(queue).into_iter().map(|why| FieldError::invalid(&path, queue, why)));
    }
    if let Some(seconds) = meta::label(object, labels::MAX_EXEC_SECONDS) {
        problems.extend(check_seconds(seconds));
    }
    problems.extend(check_prebuilt(object));
    problems
}

fn check_seconds(seconds: &str) -> Option<FieldError> {
    let why = match seconds.parse::<i64>() {
        Ok(1..=0x7fff_ffff) => return None,
        Ok(_) => "should be greater than 0",
        Err(_) => "must be an integer, and should be greater than 0",
    };
    Some(FieldError::invalid(at_label(labels::MAX_EXEC_SECONDS), seconds, why))
}

/// A group whose Workload the user made has the name of that Workload.
fn check_prebuilt(object: &Tree) -> Option<FieldError> {
    let prebuilt = prebuilt_of(object)?;
    let group = meta::annotation(object, labels::POD_GROUP_NAME)
        .or_else(|| meta::label(object, labels::POD_GROUP_NAME))?;
    let why = "prebuilt workload and pod group should be equal";
    (prebuilt != group).then(|| FieldError::invalid(prebuilt_path(object), prebuilt, why))
}

fn prebuilt_path(object: &Tree) -> String {
    match meta::label(object, labels::PREBUILT_WORKLOAD) {
        Some(_) => at_label(labels::PREBUILT_WORKLOAD),
        None => at_annotation(labels::PREBUILT_WORKLOAD),
    }
}

/// What is asked about a change.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// As it is.
    pub old: &'a Tree,
    /// As it would be.
    pub new: &'a Tree,
    /// Whether it stands still as it would be.
    pub is_suspended: bool,
    /// Whether the namespace has a LocalQueue for who names none.
    pub has_default_queue: bool,
}

/// What may not change of what an object says about its queue. Pods are checked by it too.
#[must_use]
pub fn check_queue_change(changed: &Changed<'_>) -> Vec<FieldError> {
    let Changed { old, new, is_suspended, has_default_queue } = *changed;
    let both = |key: &str| [old, new].map(|it| meta::label(it, key).map(Text::from).unwrap_or_default());
    let mut problems = Vec::new();
    let [before, after] = both(labels::QUEUE);
    let path = at_label(labels::QUEUE);
    if !is_suspended && before != after {
        problems.push(FieldError::invalid(&path, after.clone(), IMMUTABLE));
    }
    if !before.is_empty() && after.is_empty() && has_default_queue {
        let why = "queue-name must not be empty in namespace with default queue";
        problems.push(FieldError::invalid(&path, after, why));
    }
    let [before, after] = [old, new].map(|it| prebuilt_of(it).unwrap_or_default());
    if !is_suspended && before != after {
        let path = if after.is_empty() { prebuilt_path(old) } else { prebuilt_path(new) };
        problems.push(FieldError::invalid(path, after, IMMUTABLE));
    }
    problems.extend(check_class(both(labels::PRIORITY_CLASS), is_suspended));
    // An owner that comes later would be queued in its stead, and it would go on with what it holds.
    let [before, after] = [old, new].map(meta::controller);
    if after.is_some_and(|after| before.is_none_or(|before| before.uid != after.uid)) {
        let why = "what is queued may not be given another controller";
        problems.push(FieldError::forbidden("metadata.ownerReferences", why));
    }
    let [before, after] = both(labels::MAX_EXEC_SECONDS);
    if !is_suspended && before != after {
        problems.push(FieldError::invalid(at_label(labels::MAX_EXEC_SECONDS), after, IMMUTABLE));
    }
    problems
}

fn check_class([before, after]: [Text; 2], is_suspended: bool) -> Option<FieldError> {
    let why = match (before.is_empty(), after.is_empty()) {
        (true, false) if !is_suspended => "WorkloadPriorityClass cannot be added to a non-suspended workload",
        (false, true) => "WorkloadPriorityClass cannot be removed from a workload",
        (true, _) | (false, false) => return None,
    };
    Some(FieldError::invalid(at_label(labels::PRIORITY_CLASS), after, why))
}

/// What is wrong with what a Job says about running with fewer pods.
#[must_use]
pub fn check_job(job: &Tree) -> Vec<FieldError> {
    let numbers = Numbers::of(job);
    let mut problems = Vec::new();
    if let Some(text) = meta::annotation(job, annotations::JOB_MIN_PARALLELISM) {
        problems.extend(check_least(text, numbers));
    }
    if let Some(text) = meta::annotation(job, annotations::JOB_COMPLETIONS_EQUAL_PARALLELISM) {
        problems.extend(check_follow(job, text, numbers));
    }
    problems
}

/// The sizes of a Job.
#[derive(Clone, Copy)]
struct Numbers {
    parallelism: i64,
    completions: Option<i64>,
}

impl Numbers {
    fn of(job: &Tree) -> Numbers {
        Numbers {
            parallelism: job.int_at(job_path::PARALLELISM).unwrap_or(1),
            completions: job.int_at(job_path::COMPLETIONS),
        }
    }

    fn count(self) -> i64 {
        self.completions.map_or(self.parallelism, |completions| completions.min(self.parallelism))
    }
}

fn check_least(text: &str, numbers: Numbers) -> Option<FieldError> {
    let path = at_annotation(annotations::JOB_MIN_PARALLELISM);
    let most = numbers.count() - 1;
    let range = format!("should be between 0 and {most}");
    match text.parse::<i64>() {
        Ok(least) if (1..=most).contains(&least) => None,
        Ok(least) => Some(FieldError::invalid(path, least, range)),
        Err(_) => Some(FieldError::invalid(path, text, format!("must be an integer, and {range}"))),
    }
}

fn check_follow(job: &Tree, text: &str, numbers: Numbers) -> Vec<FieldError> {
    let path = at_annotation(annotations::JOB_COMPLETIONS_EQUAL_PARALLELISM);
    let Some(is_on) = read_bool(text) else {
        return vec![FieldError::invalid(path, text, "must be true or false")];
    };
    if !is_on {
        return Vec::new();
    }
    let mut problems = Vec::new();
    if job.str_at(job_path::MODE) != "Indexed" {
        problems.push(FieldError::invalid(path, text, "should not be enabled for NonIndexed jobs"));
    }
    let completions = numbers.completions.unwrap_or(1);
    if completions != numbers.parallelism {
        let key = annotations::JOB_COMPLETIONS_EQUAL_PARALLELISM;
        let why = format!("should be equal to parallelism {} when {key} is true", numbers.parallelism);
        problems.push(FieldError::invalid("spec.completions", completions, why));
    }
    problems
}

/// Whether a Job asks for more pods at a time than it did, or for other ones. Whatever is queued in its stead has its share by
/// what it was.
#[must_use]
pub fn asks_for_more(old: &Tree, new: &Tree) -> bool {
    let asked = |job: &Tree| {
        let template = job.at(job_path::TEMPLATE).cloned().unwrap_or_default();
        [pod_path::CONTAINERS, pod_path::INIT_CONTAINERS, pod_path::REQUESTS, pod_path::LIMITS]
            .map(|path| template.at(path).cloned().unwrap_or_default())
    };
    Numbers::of(new).parallelism > Numbers::of(old).parallelism || asked(new) != asked(old)
}

/// What may not change of a Job that may run with fewer pods.
#[must_use]
pub fn check_job_change(old: &Tree, new: &Tree) -> Vec<FieldError> {
    let runs = |job: &Tree| job.bool_at(job_path::SUSPEND) != Some(true);
    let mut problems = Vec::new();
    let is_partial = meta::annotation(old, annotations::JOB_MIN_PARALLELISM).is_some();
    if is_partial && runs(old) && Numbers::of(old).parallelism != Numbers::of(new).parallelism {
        let why = "cannot change when partial admission is enabled and the job is not suspended";
        problems.push(FieldError::forbidden("spec.parallelism", why));
    }
    let key = annotations::JOB_COMPLETIONS_EQUAL_PARALLELISM;
    let follows = |job: &Tree| meta::annotation(job, key).and_then(read_bool).unwrap_or(false);
    if runs(old) && runs(new) && follows(old) != follows(new) {
        problems
            .push(FieldError::forbidden(at_annotation(key), "cannot change while the job is not suspended"));
    }
    problems
}
