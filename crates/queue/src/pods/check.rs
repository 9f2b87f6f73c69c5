//! What is accepted of pods that have to do with queues.
//!
//! # Invariants
//!
//! - Everything that is wrong is told at once.
//! - A pod without any of our keys is nobody's business here.

use muster_api::gang_make::words::GANG;
use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::pod::Phase;
use muster_api::queue::amount_text;
use muster_api::queue::words::{FALSE, TRUE, annotations, gates, labels};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::label_key_problems;
use muster_tree::Tree;

use super::decl::{self, Side};
use super::gang;
use crate::jobs::requests::{self, Accounting};

const IMMUTABLE: &str = "field is immutable";
const ONLY_THE_QUEUE: &str = "only the queue may release this pod";

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// We, or somebody who may update `workloads/status`: whoever can admit may release.
    MayRelease,
    /// Anybody else.
    Other,
}

/// What is asked about a write.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The pod as it would be.
    pub pod: &'a Tree,
    /// The pod as it is; absent on create.
    pub old: Option<&'a Tree>,
    /// Who writes.
    pub caller: Caller,
    /// Whether the kind of its controller is an integration that is enabled.
    pub owner_enabled: bool,
    /// Whether the namespace has a queue for those that name none.
    pub default_queue: bool,
}

/// What is answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Everything that is wrong.
    pub problems: Vec<FieldError>,
    /// What the client should hear.
    pub warnings: Vec<String>,
}

/// Whether a pod may be created, or changed as it would be.
#[must_use]
pub fn check(asked: &Asked<'_>) -> Answer {
    let mut checker = Checker { pod: asked.pod, answer: Answer::default() };
    checker.itself();
    checker.warnings(asked);
    if let Some(old) = asked.old {
        checker.change(old, asked);
    }
    checker.answer
}

struct Checker<'a> {
    pod: &'a Tree,
    answer: Answer,
}

impl Checker<'_> {
    fn invalid(&mut self, side: Side, key: &str, detail: impl Into<String>) {
        let value = said(self.pod, side, key).unwrap_or_default();
        self.answer.problems.push(FieldError::invalid(side.path(key), value, detail));
    }

    fn forbidden(&mut self, path: String, detail: &str) {
        self.answer.problems.push(FieldError::forbidden(path, detail));
    }

    /// What is wrong with the pod whatever it was before.
    fn itself(&mut self) {
        if meta::label(self.pod, labels::MANAGED).is_some_and(|value| value != TRUE) {
            self.forbidden(Side::Label.path(labels::MANAGED), "managed label value can only be 'true'");
        }
        if let Some(queue) = meta::label(self.pod, labels::QUEUE) {
            for why in names::subdomain(queue) {
                self.invalid(Side::Label, labels::QUEUE, why);
            }
        }
        self.answer.problems.extend(decl::read(self.pod).1);
        self.topology();
        if let Some(seconds) = meta::label(self.pod, labels::MAX_EXEC_SECONDS) {
            match seconds.parse::<i32>() {
                Ok(seconds) if seconds > 0 => {}
                Ok(_) => self.invalid(Side::Label, labels::MAX_EXEC_SECONDS, "should be greater than 0"),
                Err(_) => self.invalid(
                    Side::Label,
                    labels::MAX_EXEC_SECONDS,
                    "must be a whole number of seconds, should be greater than 0",
                ),
            }
        }
        if meta::annotation(self.pod, annotations::ELASTIC_JOB).is_some() {
            let path = Side::Annotation.path(annotations::ELASTIC_JOB);
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
        if set.len() > 1 {
            let words = "must not contain more than one topology annotation";
            let shown = format!("{:?}", set.join(", "));
            self.answer.problems.push(FieldError::invalid_shown("metadata.annotations", shown, words));
        }
        for key in levels {
            if let Some(level) = meta::annotation(self.pod, key) {
                for why in label_key_problems(level) {
                    self.invalid(Side::Annotation, key, why);
                }
            }
        }
        if size && !slice {
            let words = format!("may not be set without {}", annotations::SLICE_REQUIRED);
            self.forbidden(Side::Annotation.path(annotations::SLICE_SIZE), &words);
        }
        if slice && !size {
            let path = Side::Annotation.path(annotations::SLICE_SIZE);
            let words = format!("needed beside {}", annotations::SLICE_REQUIRED);
            self.answer.problems.push(FieldError::required(path, words));
        }
        let number = meta::annotation(self.pod, annotations::SLICE_SIZE);
        if number.is_some_and(|text| text.parse::<i32>().ok().is_none_or(|size| size < 1)) {
            self.invalid(Side::Annotation, annotations::SLICE_SIZE, "must be greater than zero");
        }
    }

    fn warnings(&mut self, asked: &Asked<'_>) {
        self.answer.warnings.extend(decl::misplaced(self.pod));
        if gang::asks_in_vain(self.pod) {
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

    /// What may not change.
    fn change(&mut self, old: &Tree, asked: &Asked<'_>) {
        let is_suspended = suspended(old) && suspended(self.pod);
        self.queue(old, is_suspended, asked.default_queue);
        self.group(old);
        if !is_suspended {
            self.frozen(old, Side::Label, labels::MAX_EXEC_SECONDS);
            if decl::prebuilt(old).map(|it| it.0) != decl::prebuilt(self.pod).map(|it| it.0) {
                let side =
                    decl::prebuilt(self.pod).or_else(|| decl::prebuilt(old)).map_or(Side::Label, |it| it.1);
                self.invalid(side, labels::PREBUILT_WORKLOAD, IMMUTABLE);
            }
        }
        self.priority(old, is_suspended);
        // Which share a pod takes goes by it.
        if meta::annotation(old, annotations::ROLE_HASH).is_some() {
            self.frozen(old, Side::Annotation, annotations::ROLE_HASH);
        }
        if asked.caller == Caller::Other {
            self.release(old);
        }
    }

    fn queue(&mut self, old: &Tree, is_suspended: bool, default_queue: bool) {
        let (was, is) = (meta::label(old, labels::QUEUE), meta::label(self.pod, labels::QUEUE));
        if was == is {
            return;
        }
        if !is_suspended {
            self.invalid(Side::Label, labels::QUEUE, IMMUTABLE);
        }
        if is.is_none_or(str::is_empty) && default_queue {
            let words = "queue-name must not be empty in namespace with default queue";
            self.invalid(Side::Label, labels::QUEUE, words);
        }
    }

    /// Groups have a fixed size: what declares it is final once there is a group.
    fn group(&mut self, old: &Tree) {
        let Some((name, was)) = decl::group_name(old) else { return };
        let now = decl::group_name(self.pod);
        if now.as_ref().map(|(name, _)| name) != Some(&name) {
            self.invalid(now.map_or(was, |(_, side)| side), labels::POD_GROUP_NAME, IMMUTABLE);
        }
        self.frozen(old, Side::Label, labels::POD_GROUP_ROLE);
        for key in decl::SIZE_KEYS.into_iter().filter(|key| *key != annotations::POD_GROUP_TOTAL_COUNT) {
            self.frozen(old, Side::Annotation, key);
        }
        let retriable = |pod: &Tree| meta::annotation(pod, annotations::RETRIABLE_IN_GROUP) != Some(FALSE);
        if !retriable(old) && retriable(self.pod) {
            let path = Side::Annotation.path(annotations::RETRIABLE_IN_GROUP);
            self.forbidden(path, "unretriable pod group can't be converted to retriable");
        }
    }

    fn priority(&mut self, old: &Tree, is_suspended: bool) {
        let class =
            |pod: &Tree| meta::label(pod, labels::PRIORITY_CLASS).is_some_and(|name| !name.is_empty());
        match (class(old), class(self.pod)) {
            (false, true) if !is_suspended => {
                let words = "WorkloadPriorityClass cannot be added to a non-suspended workload";
                self.invalid(Side::Label, labels::PRIORITY_CLASS, words);
            }
            (true, false) => {
                let words = "WorkloadPriorityClass cannot be removed from a workload";
                self.invalid(Side::Label, labels::PRIORITY_CLASS, words);
            }
            (false | true, _) => {}
        }
    }

    /// A tenant who could open the gate himself would have free capacity.
    fn release(&mut self, old: &Tree) {
        if gated(old) && !gated(self.pod) {
            self.forbidden("spec.schedulingGates".to_owned(), ONLY_THE_QUEUE);
        }
        let managed = |pod: &Tree| meta::label(pod, labels::MANAGED) == Some(TRUE);
        if managed(old) && !managed(self.pod) && !terminated(old) {
            self.forbidden(Side::Label.path(labels::MANAGED), ONLY_THE_QUEUE);
        }
        if managed(old) {
            self.take_more(old);
        }
    }

    /// Nor may he make a pod bigger than what was reserved for it, or hand it to an owner who is queued in its stead.
    fn take_more(&mut self, old: &Tree) {
        let (was, is) = (
            requests::of_pod(old, &Accounting::default()),
            requests::of_pod(self.pod, &Accounting::default()),
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
        let (was, is) = (meta::controller(old), meta::controller(self.pod));
        if is.is_some_and(|is| was.is_none_or(|was| was.uid != is.uid)) {
            self.forbidden(
                "metadata.ownerReferences".to_owned(),
                "a queued pod may not be given another controller",
            );
        }
    }

    fn frozen(&mut self, old: &Tree, side: Side, key: &str) {
        if said(old, side, key) != said(self.pod, side, key) {
            self.invalid(side, key, IMMUTABLE);
        }
    }
}

fn said<'a>(pod: &'a Tree, side: Side, key: &str) -> Option<&'a str> {
    match side {
        Side::Label => meta::label(pod, key),
        Side::Annotation => meta::annotation(pod, key),
    }
}

fn gated(pod: &Tree) -> bool {
    pod.items_at(pod_path::GATES).iter().any(|gate| gate.str_at(&["name"]) == gates::ADMISSION)
}

fn terminated(pod: &Tree) -> bool {
    Phase::of(pod.str_at(pod_path::PHASE)).ended()
}

fn suspended(pod: &Tree) -> bool {
    gated(pod) || terminated(pod)
}
