//! Defaulting and validation of jobs that can be suspended.
//!
//! # Guarantees
//!
//! - Defaulting is idempotent.
//! - Requests and queue name are immutable while the job runs.
//! - All errors are reported at once, each with its path.

use muster_api::meta;
use muster_api::paths::{job as job_path, meta as meta_path, pod as pod_path};
use muster_api::queue::consts::{DEFAULT, annotations, labels};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Text, Tree};

use super::batch::read_bool;
use super::reconciler::prebuilt_of;

const IMMUTABLE: &str = "field is immutable";

/// Lookups of the webhook for a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobWebhookContext {
    /// Whether `managedJobsNamespaceSelector` selects its namespace.
    pub is_selected: bool,
    /// Whether the namespace has a LocalQueue `default`.
    pub has_default_queue: bool,
    /// Whether a WorkloadPriorityClass `default` exists.
    pub has_default_class: bool,
    /// Field `manageJobsWithoutQueueName` of Kueue's configuration.
    pub without_queue: bool,
    /// Whether an ancestor is queued instead.
    pub has_managed_owner: bool,
}

/// Defaults a new job: default queue and priority class if they exist, and suspended if it is managed. `suspend` is
/// the path of its suspend field.
#[must_use]
pub fn default_job(object: &Tree, suspend: &[&str], around: JobWebhookContext) -> Tree {
    // A job with a managed parent is suspended and resumed by that parent.
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
    // Suspended at creation, so that no pod runs before admission.
    if is_managed(&object, around) && object.bool_at(suspend) != Some(true) {
        object.with(suspend, true)
    } else {
        object
    }
}

/// Whether a defaulted job is managed.
#[must_use]
pub fn is_managed(object: &Tree, around: JobWebhookContext) -> bool {
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

/// Validates the queue labels of an object, on create and update; also used for pods.
#[must_use]
pub fn validate_queue_metadata(object: &Tree) -> Vec<FieldError> {
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
        // `maximumExecutionTimeSeconds` is an int32.
        Ok(1..=0x7fff_ffff) => return None,
        Ok(_) => "should be greater than 0",
        Err(_) => "must be an integer, and should be greater than 0",
    };
    Some(FieldError::invalid(at_label(labels::MAX_EXEC_SECONDS), seconds, why))
}

/// A group with a prebuilt Workload must have its name.
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

/// An update to validate.
#[derive(Debug, Clone, Copy)]
pub struct JobUpdate<'a> {
    pub old: &'a Tree,
    pub new: &'a Tree,
    /// Whether the new object is suspended.
    pub is_suspended: bool,
    /// Whether the namespace has a LocalQueue `default`.
    pub has_default_queue: bool,
}

/// Validates the immutable queue labels on update; also used for pods.
#[must_use]
pub fn validate_queue_metadata_update(changed: &JobUpdate<'_>) -> Vec<FieldError> {
    let JobUpdate { old, new, is_suspended, has_default_queue } = *changed;
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
    // A later owner would be queued instead of the object, which would keep its quota.
    let [before, after] = [old, new].map(meta::controller_of);
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

/// Validates the partial admission annotations of a Job.
#[must_use]
pub fn validate_job(job: &Tree) -> Vec<FieldError> {
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

/// Whether an update raises the parallelism of a Job or changes its requests. A managed ancestor has quota for the
/// old ones.
#[must_use]
pub fn increases_requests(old: &Tree, new: &Tree) -> bool {
    let requests_of = |job: &Tree| {
        let template = job.at(job_path::TEMPLATE).cloned().unwrap_or_default();
        [pod_path::CONTAINERS, pod_path::INIT_CONTAINERS, pod_path::REQUESTS, pod_path::LIMITS]
            .map(|path| template.at(path).cloned().unwrap_or_default())
    };
    Numbers::of(new).parallelism > Numbers::of(old).parallelism || requests_of(new) != requests_of(old)
}

/// Validates the immutable fields of a Job with partial admission.
#[must_use]
pub fn validate_job_update(old: &Tree, new: &Tree) -> Vec<FieldError> {
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
