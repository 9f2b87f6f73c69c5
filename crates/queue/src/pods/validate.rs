//! The validating webhook of pods.
//!
//! # Guarantees
//!
//! - All errors are reported at once.
//! - A pod without any of our keys is not validated.

use muster_api::gang_objects::consts::GANG;
use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::pod::PodPhase;
use muster_api::queue::amount_text;
use muster_api::queue::consts::{FALSE, TRUE, annotations, gates, labels};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::label_key_problems;
use muster_tree::Tree;

use super::gang;
use super::group_metadata::{self, MetadataField};
use crate::jobs::requests::{self, ResourceAccounting};

const IMMUTABLE: &str = "field is immutable";
const ONLY_THE_QUEUE: &str = "only the queue may release this pod";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodWriter {
    /// The queue itself, or a user with permission to update `workloads/status`: it allows admission, so it allows
    /// ungating.
    MayRelease,
    Other,
}

#[derive(Debug, Clone, Copy)]
pub struct PodReview<'a> {
    pub pod: &'a Tree,
    /// The old pod; None on create.
    pub old: Option<&'a Tree>,
    pub caller: PodWriter,
    /// The kind of its controller is an enabled integration.
    pub owner_enabled: bool,
    /// The namespace has a LocalQueue `default`.
    pub default_queue: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodReviewResult {
    pub errors: Vec<FieldError>,
    pub warnings: Vec<String>,
}

/// Validates the creation or update of a pod.
#[must_use]
pub fn validate(asked: &PodReview<'_>) -> PodReviewResult {
    let mut checker = Checker { pod: asked.pod, answer: PodReviewResult::default() };
    checker.pod_metadata();
    checker.warnings(asked);
    if let Some(old) = asked.old {
        checker.change(old, asked);
    }
    checker.answer
}

struct Checker<'a> {
    pod: &'a Tree,
    answer: PodReviewResult,
}

impl Checker<'_> {
    fn invalid(&mut self, side: MetadataField, key: &str, detail: impl Into<String>) {
        let value = metadata_value(self.pod, side, key).unwrap_or_default();
        self.answer.errors.push(FieldError::invalid(side.path(key), value, detail));
    }

    fn forbidden(&mut self, path: String, detail: &str) {
        self.answer.errors.push(FieldError::forbidden(path, detail));
    }

    /// Validation independent of the old pod.
    fn pod_metadata(&mut self) {
        if meta::label(self.pod, labels::MANAGED).is_some_and(|value| value != TRUE) {
            self.forbidden(
                MetadataField::Label.path(labels::MANAGED),
                "managed label value can only be 'true'",
            );
        }
        if let Some(queue) = meta::label(self.pod, labels::QUEUE) {
            for why in names::subdomain(queue) {
                self.invalid(MetadataField::Label, labels::QUEUE, why);
            }
        }
        self.answer.errors.extend(group_metadata::read(self.pod).1);
        self.topology();
        if let Some(seconds) = meta::label(self.pod, labels::MAX_EXEC_SECONDS) {
            match seconds.parse::<i32>() {
                Ok(seconds) if seconds > 0 => {}
                Ok(_) => {
                    self.invalid(MetadataField::Label, labels::MAX_EXEC_SECONDS, "should be greater than 0");
                }
                Err(_) => self.invalid(
                    MetadataField::Label,
                    labels::MAX_EXEC_SECONDS,
                    "must be a whole number of seconds, should be greater than 0",
                ),
            }
        }
        if meta::annotation(self.pod, annotations::ELASTIC_JOB).is_some() {
            let path = MetadataField::Annotation.path(annotations::ELASTIC_JOB);
            self.forbidden(path, "elastic job is not supported for pods");
        }
    }

    fn topology(&mut self) {
        let has = |key: &str| meta::annotation(self.pod, key).is_some();
        let levels =
            [annotations::TOPOLOGY_REQUIRED, annotations::TOPOLOGY_PREFERRED, annotations::SLICE_REQUIRED];
        let places = [
            annotations::TOPOLOGY_REQUIRED,
            annotations::TOPOLOGY_PREFERRED,
            annotations::TOPOLOGY_UNCONSTRAINED,
        ];
        let set: Vec<&str> = places.into_iter().filter(|key| has(key)).collect();
        let slice = has(annotations::SLICE_REQUIRED);
        let size = has(annotations::SLICE_SIZE);
        // At most one of required, preferred and unconstrained.
        if set.len() > 1 {
            let words = "must not contain more than one topology annotation";
            let shown = format!("{:?}", set.join(", "));
            self.answer.errors.push(FieldError::invalid_shown("metadata.annotations", shown, words));
        }
        for key in levels {
            if let Some(level) = meta::annotation(self.pod, key) {
                for why in label_key_problems(level) {
                    self.invalid(MetadataField::Annotation, key, why);
                }
            }
        }
        if size && !slice {
            let words = format!("may not be set without {}", annotations::SLICE_REQUIRED);
            self.forbidden(MetadataField::Annotation.path(annotations::SLICE_SIZE), &words);
        }
        if slice && !size {
            let path = MetadataField::Annotation.path(annotations::SLICE_SIZE);
            let words = format!("needed beside {}", annotations::SLICE_REQUIRED);
            self.answer.errors.push(FieldError::required(path, words));
        }
        let number = meta::annotation(self.pod, annotations::SLICE_SIZE);
        // Kueue parses an int32.
        if number.is_some_and(|text| text.parse::<i32>().ok().is_none_or(|size| size < 1)) {
            self.invalid(MetadataField::Annotation, annotations::SLICE_SIZE, "must be greater than zero");
        }
    }

    fn warnings(&mut self, asked: &PodReview<'_>) {
        self.answer.warnings.extend(group_metadata::misplaced(self.pod));
        if gang::is_gang_request_ignored(self.pod) {
            let words = format!(
                "annotation '{GANG}' is ignored beside '{}': declared workers come when their driver runs, and a gang would wait for them",
                annotations::POD_GROUP_SETS
            );
            self.answer.warnings.push(words);
        }
        let is_parented = meta::annotation(self.pod, annotations::SUSPENDING_PARENT).is_some();
        let is_managed = meta::label(self.pod, labels::MANAGED) == Some(TRUE);
        if is_managed && asked.owner_enabled && !(asked.old.is_some() && is_parented) {
            let words = format!(
                "pod owner is managed by kueue, label '{}={TRUE}' might lead to unexpected behaviour",
                labels::MANAGED
            );
            self.answer.warnings.push(words);
        }
    }

    /// Validation of an update.
    fn change(&mut self, old: &Tree, asked: &PodReview<'_>) {
        let is_suspended = suspended(old) && suspended(self.pod);
        // A gated pod may still move to another queue.
        self.queue(old, is_suspended, asked.default_queue);
        self.group(old);
        if !is_suspended {
            self.unchanged(old, MetadataField::Label, labels::MAX_EXEC_SECONDS);
            if group_metadata::prebuilt(old).map(|it| it.0)
                != group_metadata::prebuilt(self.pod).map(|it| it.0)
            {
                let side = group_metadata::prebuilt(self.pod)
                    .or_else(|| group_metadata::prebuilt(old))
                    .map_or(MetadataField::Label, |it| it.1);
                self.invalid(side, labels::PREBUILT_WORKLOAD, IMMUTABLE);
            }
        }
        self.priority(old, is_suspended);
        // The role hash selects the pod set, and so the reserved quota, of a pod.
        if meta::annotation(old, annotations::ROLE_HASH).is_some() {
            self.unchanged(old, MetadataField::Annotation, annotations::ROLE_HASH);
        }
        if asked.caller == PodWriter::Other {
            self.release(old);
        }
    }

    fn queue(&mut self, old: &Tree, is_suspended: bool, default_queue: bool) {
        let (was, is) = (meta::label(old, labels::QUEUE), meta::label(self.pod, labels::QUEUE));
        if was == is {
            return;
        }
        if !is_suspended {
            self.invalid(MetadataField::Label, labels::QUEUE, IMMUTABLE);
        }
        if is.is_none_or(str::is_empty) && default_queue {
            let words = "queue-name must not be empty in namespace with default queue";
            self.invalid(MetadataField::Label, labels::QUEUE, words);
        }
    }

    /// The declared size of a group is immutable.
    fn group(&mut self, old: &Tree) {
        let Some((name, was)) = group_metadata::group_name(old) else { return };
        let now = group_metadata::group_name(self.pod);
        if now.as_ref().map(|(name, _)| name) != Some(&name) {
            self.invalid(now.map_or(was, |(_, side)| side), labels::POD_GROUP_NAME, IMMUTABLE);
        }
        self.unchanged(old, MetadataField::Label, labels::POD_GROUP_ROLE);
        for key in
            group_metadata::SIZE_KEYS.into_iter().filter(|key| *key != annotations::POD_GROUP_TOTAL_COUNT)
        {
            self.unchanged(old, MetadataField::Annotation, key);
        }
        let retriable = |pod: &Tree| meta::annotation(pod, annotations::RETRIABLE_IN_GROUP) != Some(FALSE);
        if !retriable(old) && retriable(self.pod) {
            let path = MetadataField::Annotation.path(annotations::RETRIABLE_IN_GROUP);
            self.forbidden(path, "unretriable pod group can't be converted to retriable");
        }
    }

    fn priority(&mut self, old: &Tree, is_suspended: bool) {
        let class =
            |pod: &Tree| meta::label(pod, labels::PRIORITY_CLASS).is_some_and(|name| !name.is_empty());
        match (class(old), class(self.pod)) {
            (false, true) if !is_suspended => {
                let words = "WorkloadPriorityClass cannot be added to a non-suspended workload";
                self.invalid(MetadataField::Label, labels::PRIORITY_CLASS, words);
            }
            (true, false) => {
                let words = "WorkloadPriorityClass cannot be removed from a workload";
                self.invalid(MetadataField::Label, labels::PRIORITY_CLASS, words);
            }
            (false | true, _) => {}
        }
    }

    /// A tenant could bypass quota by removing the gate.
    fn release(&mut self, old: &Tree) {
        if gated(old) && !gated(self.pod) {
            self.forbidden("spec.schedulingGates".to_owned(), ONLY_THE_QUEUE);
        }
        let managed = |pod: &Tree| meta::label(pod, labels::MANAGED) == Some(TRUE);
        if managed(old) && !managed(self.pod) && !terminated(old) {
            self.forbidden(MetadataField::Label.path(labels::MANAGED), ONLY_THE_QUEUE);
        }
        if managed(old) {
            self.increased_requests(old);
        }
    }

    /// Nor may a tenant raise the requests above the reserved ones, or set an owner that is queued instead of the
    /// pod.
    fn increased_requests(&mut self, old: &Tree) {
        let (was, is) = (
            requests::of_pod(old, &ResourceAccounting::default()),
            requests::of_pod(self.pod, &ResourceAccounting::default()),
        );
        for (resource, amount) in is {
            let before = was.get(&resource).copied().unwrap_or(0);
            if amount > before {
                let words = format!(
                    "{resource} may not be raised from {} to {}: only as much as was reserved may run",
                    amount_text(&resource, before),
                    amount_text(&resource, amount)
                );
                self.forbidden("spec".to_owned(), &words);
            }
        }
        let (was, is) = (meta::controller_of(old), meta::controller_of(self.pod));
        if is.is_some_and(|is| was.is_none_or(|was| was.uid != is.uid)) {
            self.forbidden(
                "metadata.ownerReferences".to_owned(),
                "a queued pod may not be given another controller",
            );
        }
    }

    fn unchanged(&mut self, old: &Tree, side: MetadataField, key: &str) {
        if metadata_value(old, side, key) != metadata_value(self.pod, side, key) {
            self.invalid(side, key, IMMUTABLE);
        }
    }
}

fn metadata_value<'a>(pod: &'a Tree, side: MetadataField, key: &str) -> Option<&'a str> {
    match side {
        MetadataField::Label => meta::label(pod, key),
        MetadataField::Annotation => meta::annotation(pod, key),
    }
}

fn gated(pod: &Tree) -> bool {
    pod.items_at(pod_path::GATES).iter().any(|gate| gate.str_at(&["name"]) == gates::ADMISSION)
}

fn terminated(pod: &Tree) -> bool {
    PodPhase::of(pod.str_at(pod_path::PHASE)).is_terminal()
}

fn suspended(pod: &Tree) -> bool {
    gated(pod) || terminated(pod)
}
