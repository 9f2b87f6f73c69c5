//! The mutating webhook of pods: which pods are managed, and what they get.
//!
//! # Guarantees
//!
//! - Mutating twice changes nothing.
//! - A pod that is not managed is returned unchanged.
//! - Lookups are made only if the answer depends on them: a pod that matches no selector costs one namespace
//!   lookup.

use muster_api::gang_objects::GangSupport;
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_api::queue::consts::{DEFAULT, TRUE, annotations, finalizers, gates, labels};
use muster_api::selector::LabelSelector;
use muster_tree::{Tree, tree};

use super::{gang, role_hash};

/// Whether an ancestor of a new pod is queued instead of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerLookup {
    Unmanaged,
    /// An ancestor is managed.
    Managed,
    /// The owner chain could not be read; the message.
    Unknown(String),
}

/// Lister of the webhook.
pub trait PodWebhookLister {
    /// The pod's namespace object.
    ///
    /// # Errors
    /// It could not be read.
    fn namespace(&self) -> Result<Tree, String>;
    fn ancestry(&self) -> OwnerLookup;
    /// Whether the namespace has a LocalQueue `default`.
    fn has_default_queue(&self) -> bool;
    /// Whether a WorkloadPriorityClass `default` exists.
    fn has_default_priority(&self) -> bool;
    /// The gang API; None if the server has none.
    fn gangs(&self) -> Option<GangSupport>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodWebhookSettings {
    /// All of these must select the pod's namespace.
    pub namespaces: Vec<LabelSelector>,
    pub pods: Option<LabelSelector>,
    /// Field `manageJobsWithoutQueueName` of Kueue's configuration.
    pub without_queue: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PodMutation {
    NotManaged,
    /// Managed: the mutated pod.
    Mutated(Tree),
    Denied(String),
}

/// Mutates a new pod if it is managed.
#[must_use]
pub fn mutate(pod: &Tree, live: &dyn PodWebhookLister, settings: &PodWebhookSettings) -> PodMutation {
    // Gated on behalf of its parent's integration, which also owns its Workload: no finalizer, no lookups.
    if meta::annotation(pod, annotations::SUSPENDING_PARENT).is_some() {
        return PodMutation::Mutated(with_hash(&with_gate(pod)));
    }
    let namespace = match live.namespace() {
        Ok(namespace) => namespace,
        Err(why) => return PodMutation::Denied(format!("failed to get namespace: {why}")),
    };
    let wanted = settings.namespaces.iter().all(|selector| selector.matches(&namespace))
        && settings.pods.as_ref().is_none_or(|selector| selector.matches(pod));
    if !wanted {
        return PodMutation::NotManaged;
    }
    match live.ancestry() {
        OwnerLookup::Managed => return PodMutation::NotManaged,
        // Denied rather than ignored: an unmanaged pod would bypass quota.
        OwnerLookup::Unknown(why) => return PodMutation::Denied(why),
        OwnerLookup::Unmanaged => {}
    }
    let pod = with_default(pod, labels::QUEUE, || live.has_default_queue());
    if meta::label(&pod, labels::QUEUE).is_none_or(str::is_empty) && !settings.without_queue {
        return PodMutation::NotManaged;
    }
    let pod = with_default(&pod, labels::PRIORITY_CLASS, || live.has_default_priority());
    let pod = pod.with(&[meta_path::LABELS, &[labels::MANAGED]].concat(), TRUE);
    let gangs = if gang::requests_gang(&pod) { live.gangs() } else { None };
    let pod = gangs.map_or_else(|| pod.clone(), |gangs| gang::with_gang(&pod, gangs));
    PodMutation::Mutated(with_hash(&with_gate(&with_finalizer(&pod))))
}

/// Sets a label to `default` if it is missing and the default object exists.
fn with_default(pod: &Tree, label: &str, exists: impl Fn() -> bool) -> Tree {
    match meta::label(pod, label) {
        None if exists() => pod.with(&[meta_path::LABELS, &[label]].concat(), DEFAULT),
        None | Some(_) => pod.clone(),
    }
}

fn with_gate(pod: &Tree) -> Tree {
    let all = pod.items_at(pod_path::GATES);
    if all.iter().any(|gate| gate.str_at(&["name"]) == gates::ADMISSION) {
        return pod.clone();
    }
    let gate = tree!({"name": (gates::ADMISSION)});
    pod.with(pod_path::GATES, Tree::list(all.iter().cloned().chain([gate])))
}

fn with_finalizer(pod: &Tree) -> Tree {
    if meta::has_finalizer(pod, finalizers::POD) {
        return pod.clone();
    }
    let all = pod.items_at(meta_path::FINALIZERS).iter().cloned().chain([Tree::from(finalizers::POD)]);
    pod.with(meta_path::FINALIZERS, Tree::list(all))
}

fn with_hash(pod: &Tree) -> Tree {
    match meta::annotation(pod, annotations::ROLE_HASH) {
        Some(_) => pod.clone(),
        None => {
            pod.with(&[meta_path::ANNOTATIONS, &[annotations::ROLE_HASH]].concat(), role_hash::compute(pod))
        }
    }
}
