//! Which new pods are taken in, and what they are given.
//!
//! # Invariants
//!
//! - Doing it twice changes nothing.
//! - A pod that is not taken in comes back as it was sent.
//! - Others are asked only when the answer depends on them: a pod that no selector wants costs one look at its
//!   namespace.

use muster_api::gang_make::Gangs;
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_api::queue::words::{DEFAULT, TRUE, annotations, finalizers, gates, labels};
use muster_api::selector::Selector;
use muster_tree::{Tree, tree};

use super::{gang, hash};

/// Whether somebody above a new pod is queued in its stead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ancestry {
    /// Nobody.
    Unmanaged,
    /// An ancestor that is managed.
    Managed,
    /// It cannot be told, and why.
    Unknown(String),
}

/// What is looked up about a new pod.
pub trait Live {
    /// The pod's namespace.
    ///
    /// # Errors
    /// It could not be read.
    fn namespace(&self) -> Result<Tree, String>;
    /// Whether somebody above the pod is queued in its stead.
    fn ancestry(&self) -> Ancestry;
    /// Whether the namespace has a queue for those that name none.
    fn has_default_queue(&self) -> bool;
    /// Whether there is a class of priority for those that name none.
    fn has_default_priority(&self) -> bool;
    /// How pods name their gang here; `None` where there are none.
    fn gangs(&self) -> Option<Gangs>;
}

/// What is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Namespaces that are wanted; each that is there must select the pod's.
    pub namespaces: Vec<Selector>,
    /// Pods that are wanted.
    pub pods: Option<Selector>,
    /// Whether pods without a queue are taken in too.
    pub without_queue: bool,
}

/// What becomes of a new pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It stays as it was sent.
    LeftAlone,
    /// It is taken in, like this.
    TakenIn(Tree),
    /// It may not be made now, and why.
    Refused(String),
}

/// Takes a new pod in, or leaves it alone.
#[must_use]
pub fn admit(pod: &Tree, live: &dyn Live, settings: &Settings) -> Verdict {
    if meta::annotation(pod, annotations::SUSPENDING_PARENT).is_some() {
        return Verdict::TakenIn(with_hash(&with_gate(pod)));
    }
    let namespace = match live.namespace() {
        Ok(namespace) => namespace,
        Err(why) => return Verdict::Refused(format!("failed to get namespace: {why}")),
    };
    let wanted = settings.namespaces.iter().all(|selector| selector.selects(&namespace))
        && settings.pods.as_ref().is_none_or(|selector| selector.selects(pod));
    if !wanted {
        return Verdict::LeftAlone;
    }
    match live.ancestry() {
        Ancestry::Managed => return Verdict::LeftAlone,
        Ancestry::Unknown(why) => return Verdict::Refused(why),
        Ancestry::Unmanaged => {}
    }
    let pod = with_default(pod, labels::QUEUE, || live.has_default_queue());
    if meta::label(&pod, labels::QUEUE).is_none_or(str::is_empty) && !settings.without_queue {
        return Verdict::LeftAlone;
    }
    let pod = with_default(&pod, labels::PRIORITY_CLASS, || live.has_default_priority());
    let pod = pod.with(&[meta_path::LABELS, &[labels::MANAGED]].concat(), TRUE);
    let gangs = if gang::asks(&pod) { live.gangs() } else { None };
    let pod = gangs.map_or_else(|| pod.clone(), |gangs| gang::marked(&pod, gangs));
    Verdict::TakenIn(with_hash(&with_gate(&with_finalizer(&pod))))
}

/// A pod with the default for a label that it lacks.
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
        None => pod.with(&[meta_path::ANNOTATIONS, &[annotations::ROLE_HASH]].concat(), hash::computed(pod)),
    }
}
