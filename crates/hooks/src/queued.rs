//! Mutation and validation of jobs and pods that are submitted to a queue.
//!
//! The caller is the embedded API server or a webhook; both bring a lister for related objects.
//!
//! # Guarantees
//!
//! - Related objects are read only where the result depends on them.
//! - If a read fails, the request is rejected: there is no guess.

use std::cell::RefCell;

use muster_api::gang::GangSupport;
use muster_api::kinds::{JOBS, JOBSETS};
use muster_api::meta::{self, OwnerReference};
use muster_api::queue::consts::{annotations, finalizers, labels};
use muster_api::selector::LabelSelector;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_queue::jobs::owner_chain::{self, ManagedAncestor, ManagedKinds, OwnerInfo};
use muster_queue::jobs::reconciler::queue_of;
use muster_queue::jobs::webhook::{self, JobUpdate};
use muster_queue::jobs::{batch, jobset, trainjob};
use muster_queue::kinds::admission::Answer;
use muster_queue::pods::mutate::{self as taking, OwnerLookup, PodWebhookLister};
use muster_queue::pods::validate::{self, PodWriter};
use muster_tree::Tree;

/// Which jobs and pods are managed.
#[derive(Debug, Clone, Default)]
pub struct QueueWebhookConfig {
    pub managed: ManagedKinds,
    /// Selects the managed namespaces.
    pub namespaces: LabelSelector,
    /// Settings of the plain pod integration.
    pub pods: taking::PodWebhookSettings,
}

/// A kind that can be submitted to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueableKind {
    Job,
    JobSet,
    TrainJob,
    Pod,
}

impl QueueableKind {
    /// The kind of a resource; `None` if it cannot be submitted to a queue.
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Option<QueueableKind> {
        match (group, plural) {
            ("", "pods") => Some(QueueableKind::Pod),
            it if it == (&*JOBS.group, &*JOBS.plural) => Some(QueueableKind::Job),
            it if it == (&*JOBSETS.group, &*JOBSETS.plural) => Some(QueueableKind::JobSet),
            it if it == (&*TRAIN_JOBS.group, &*TRAIN_JOBS.plural) => Some(QueueableKind::TrainJob),
            _ => None,
        }
    }

    fn suspend(self) -> &'static [&'static str] {
        match self {
            QueueableKind::JobSet => jobset::NAMED.suspend,
            QueueableKind::TrainJob => trainjob::NAMED.suspend,
            QueueableKind::Job | QueueableKind::Pod => batch::NAMED.suspend,
        }
    }

    fn integration(self) -> &'static str {
        match self {
            QueueableKind::Job => batch::NAMED.integration,
            QueueableKind::JobSet => jobset::NAMED.integration,
            QueueableKind::TrainJob => trainjob::NAMED.integration,
            QueueableKind::Pod => "pod",
        }
    }

    /// The name of the webhook on a cluster, without the `m` or `v` in front.
    pub(crate) fn webhook(self) -> &'static str {
        match self {
            QueueableKind::Job => "job.kb.io",
            QueueableKind::JobSet => "jobset.kb.io",
            QueueableKind::TrainJob => "trainjob.kb.io",
            QueueableKind::Pod => "pod.kb.io",
        }
    }

    /// Whether the integration of this kind is enabled.
    #[must_use]
    pub fn is_managed(self, settings: &QueueWebhookConfig) -> bool {
        settings.managed.enabled.contains(self.integration())
    }
}

/// Reads objects related to the one in the request. An error means that the state is unknown.
pub trait RelatedObjects {
    /// The Namespace of the object.
    ///
    /// # Errors
    /// It cannot be read, or does not exist.
    fn namespace(&self) -> Result<Tree, String>;
    /// An owner, which is in the same namespace; `None` if it does not exist.
    ///
    /// # Errors
    /// It cannot be read.
    fn owner(&self, owner: &OwnerReference) -> Result<Option<Tree>, String>;
    /// Whether the namespace has a LocalQueue `default`.
    ///
    /// # Errors
    /// It cannot be read.
    fn has_default_queue(&self) -> Result<bool, String>;
    /// Whether a WorkloadPriorityClass `default` exists.
    ///
    /// # Errors
    /// It cannot be read.
    fn has_default_class(&self) -> Result<bool, String>;
    /// Whether the user may ungate pods: the queue controller, and users that may write the admission of Workloads.
    ///
    /// # Errors
    /// The authorization check failed.
    fn may_release(&self) -> Result<bool, String>;
    /// Whether the user acts as the controller of this owner: it may write the owner's status.
    ///
    /// # Errors
    /// The authorization check failed.
    fn acts_for(&self, owner: &OwnerReference) -> Result<bool, String>;
    /// The gang API of the server; `None` without one.
    ///
    /// # Errors
    /// Discovery failed.
    fn gangs(&self) -> Result<Option<GangSupport>, String>;
}

/// A create or update under review.
#[derive(Clone, Copy)]
pub struct QueueReview<'a> {
    pub queued: QueueableKind,
    /// The object in the request.
    pub object: &'a Tree,
    /// The stored object; `None` on create.
    pub old: Option<&'a Tree>,
    pub around: &'a dyn RelatedObjects,
    pub settings: &'a QueueWebhookConfig,
}

/// Mutates a new object: default queue and priority class, suspend or scheduling gate.
#[must_use]
pub fn mutate_queued(asked: &QueueReview<'_>) -> Answer {
    let lister = RequestLister::new(asked);
    let QueueReview { queued, object, settings, .. } = *asked;
    if is_elsewhere(queued, object) {
        return Answer::default();
    }
    let waits = !queue_of(object).is_empty() || settings.managed.without_queue;
    let parented = meta::annotation(object, annotations::SUSPENDING_PARENT).is_some();
    // An object without a queue costs one read.
    if !waits && !parented && !lister.has_default_queue() {
        return lister.or_rejected(Answer::default());
    }
    let answer = match queued {
        QueueableKind::Pod => match taking::mutate(object, &lister, &settings.pods) {
            taking::PodMutation::NotManaged => Answer::default(),
            taking::PodMutation::Mutated(pod) => changed(pod, object),
            taking::PodMutation::Denied(why) => rejected(why),
        },
        QueueableKind::Job | QueueableKind::JobSet | QueueableKind::TrainJob => mutate_job(asked, &lister),
    };
    lister.or_rejected(answer)
}

fn mutate_job(asked: &QueueReview<'_>, lister: &RequestLister<'_>) -> Answer {
    let QueueReview { queued, object, settings, .. } = *asked;
    let ancestor = match lister.ancestor() {
        Ok(ancestor) => ancestor,
        Err(why) => return rejected(why),
    };
    let around = webhook::JobWebhookContext {
        is_selected: lister
            .recorded(asked.around.namespace())
            .is_some_and(|it| settings.namespaces.matches(&it)),
        has_default_queue: queue_of(object).is_empty() && lister.has_default_queue(),
        has_default_class: lister.has_default_priority(),
        without_queue: settings.managed.without_queue,
        has_managed_owner: ancestor.is_some(),
    };
    let filled = webhook::default_job(object, queued.suspend(), around);
    let has_entry = queued == QueueableKind::TrainJob && webhook::is_managed(&filled, around);
    changed(if has_entry { trainjob::with_empty_queue_patch(&filled) } else { filled }, object)
}

/// Validates a create or update.
#[must_use]
pub fn validate_queued(asked: &QueueReview<'_>) -> Answer {
    let QueueReview { queued, object, old, .. } = *asked;
    let lister = RequestLister::new(asked);
    // The quota of a managed ancestor was computed from the Job as created: the Job must not grow beyond it.
    let grows =
        queued == QueueableKind::Job && old.is_some_and(|old| webhook::increases_requests(old, object));
    if let Some(why) = grows.then(|| lister.ancestor().err()).flatten() {
        return rejected(why);
    }
    if !is_keyed(object) && !old.is_some_and(is_keyed) || is_elsewhere(queued, object) {
        return Answer::default();
    }
    // The default queue matters only if the queue label changes.
    let moves = old.is_some_and(|old| meta::label(old, labels::QUEUE) != meta::label(object, labels::QUEUE));
    let default_queue = moves && lister.has_default_queue();
    let answer = match queued {
        QueueableKind::Pod => validate_pod(asked, &lister, default_queue),
        QueueableKind::Job | QueueableKind::JobSet | QueueableKind::TrainJob => {
            validate_job(asked, &lister, default_queue)
        }
    };
    lister.or_rejected(answer)
}

/// Whether another cluster's controller manages it (`spec.managedBy`, immutable) and queues it there.
fn is_elsewhere(queued: QueueableKind, object: &Tree) -> bool {
    queued == QueueableKind::TrainJob && trainjob::is_managed_externally(object)
}

fn is_keyed(it: &Tree) -> bool {
    [labels::QUEUE, labels::MANAGED, labels::POD_GROUP_NAME].iter().any(|key| meta::label(it, key).is_some())
        || [labels::POD_GROUP_NAME, annotations::SUSPENDING_PARENT]
            .iter()
            .any(|key| meta::annotation(it, key).is_some())
        || meta::has_finalizer(it, finalizers::POD)
}

fn validate_pod(asked: &QueueReview<'_>, lister: &RequestLister<'_>, default_queue: bool) -> Answer {
    let owner = meta::controller_of(asked.object);
    let check = |caller: PodWriter| {
        validate::validate(&validate::PodReview {
            pod: asked.object,
            old: asked.old,
            caller,
            owner_enabled: owner
                .as_ref()
                .is_some_and(|it| asked.settings.managed.is_enabled(it.group(), &it.kind)),
            default_queue,
        })
    };
    let (mut answer, other) = (check(PodWriter::MayRelease), check(PodWriter::Other));
    // The user's permissions are checked only if the result depends on them.
    if answer != other && lister.recorded(asked.around.may_release()) != Some(true) {
        answer = other;
    }
    Answer { problems: answer.errors, warnings: answer.warnings, ..Answer::default() }
}

fn validate_job(asked: &QueueReview<'_>, lister: &RequestLister<'_>, has_default_queue: bool) -> Answer {
    let QueueReview { queued, object, old, .. } = *asked;
    let mut problems = webhook::validate_queue_metadata(object);
    // A partially admitted Job runs with fewer pods than its annotations describe: validate them only when they change.
    let sizes = [annotations::JOB_MIN_PARALLELISM, annotations::JOB_COMPLETIONS_EQUAL_PARALLELISM];
    let same =
        |old: &Tree| sizes.iter().all(|key| meta::annotation(old, key) == meta::annotation(object, key));
    if queued == QueueableKind::Job && !old.is_some_and(same) {
        problems.extend(webhook::validate_job(object));
    }
    if let Some(old) = old {
        let is_suspended = object.bool_at(queued.suspend()) == Some(true);
        let changed = JobUpdate { old, new: object, is_suspended, has_default_queue };
        problems.extend(webhook::validate_queue_metadata_update(&changed));
        if queued == QueueableKind::Job {
            problems.extend(webhook::validate_job_update(old, object));
        }
        if queued == QueueableKind::TrainJob {
            let is_queue = || lister.recorded(asked.around.may_release()) == Some(true);
            problems.extend(trainjob::validate_runtime_patches(old, object, is_queue));
        }
    }
    Answer { problems, ..Answer::default() }
}

fn changed(new: Tree, old: &Tree) -> Answer {
    Answer { changed: (new != *old).then_some(new), ..Answer::default() }
}

fn rejected(why: String) -> Answer {
    Answer { refused: Some(why), ..Answer::default() }
}

/// Reads related objects and remembers the first error.
struct RequestLister<'a> {
    review: &'a QueueReview<'a>,
    read_error: RefCell<Option<String>>,
}

impl<'a> RequestLister<'a> {
    fn new(review: &'a QueueReview<'a>) -> RequestLister<'a> {
        RequestLister { review, read_error: RefCell::default() }
    }

    fn recorded<T>(&self, seen: Result<T, String>) -> Option<T> {
        match seen {
            Ok(seen) => Some(seen),
            Err(why) => {
                self.read_error.borrow_mut().get_or_insert(why);
                None
            }
        }
    }

    /// The response, or a rejection if a read failed.
    fn or_rejected(self, answer: Answer) -> Answer {
        self.read_error.into_inner().map_or(answer, rejected)
    }

    /// The managed ancestor that is queued in the object's stead. Any user can write an owner reference, so it counts only if the
    /// user acts as the controller of that owner.
    fn ancestor(&self) -> Result<Option<ManagedAncestor>, String> {
        let found = self.named_ancestor()?;
        let owner = meta::controller_of(self.review.object).filter(|_| found.is_some());
        match owner {
            Some(owner) if !self.review.around.acts_for(&owner)? => Err(format!(
                "{} {} is queued with all that is made for it: only its controller makes something for it",
                owner.kind, owner.name
            )),
            _ => Ok(found),
        }
    }

    fn named_ancestor(&self) -> Result<Option<ManagedAncestor>, String> {
        let QueueReview { object, around, settings, .. } = self.review;
        let look = |owner: &OwnerReference| {
            let found = around.owner(owner)?;
            Ok(found.map(|it| OwnerInfo {
                uid: meta::uid(&it),
                queue: queue_of(&it),
                controller: meta::controller_of(&it),
            }))
        };
        let controller = meta::controller_of(object);
        owner_chain::find_managed_ancestor(&meta::uid(object), controller.as_ref(), &settings.managed, look)
            .map_err(|lost| lost.to_string())
    }
}

impl PodWebhookLister for RequestLister<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        self.review.around.namespace()
    }

    fn ancestry(&self) -> OwnerLookup {
        match self.ancestor() {
            Ok(None) => OwnerLookup::Unmanaged,
            Ok(Some(_)) => OwnerLookup::Managed,
            Err(why) => OwnerLookup::Unknown(why),
        }
    }

    fn has_default_queue(&self) -> bool {
        self.recorded(self.review.around.has_default_queue()) == Some(true)
    }

    fn has_default_priority(&self) -> bool {
        self.recorded(self.review.around.has_default_class()) == Some(true)
    }

    fn gangs(&self) -> Option<GangSupport> {
        self.recorded(self.review.around.gangs()).flatten()
    }
}

#[cfg(test)]
mod tests;
