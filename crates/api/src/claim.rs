//! Claims to devices: what is read of them, what pods say of them, and the patches that change them.

use muster_tree::{Text, Tree, tree};

use crate::meta;
use crate::paths::{
    allocation as allocation_path, claim_consumer as consumer, claim_template, made_claim, meta as meta_path,
    pod as pod_path, pod_claim, resource_claim as path,
};
use crate::port::Uid;
use crate::time::Time;
use crate::words::{annotations, finalizers};

/// Most consumers of one claim.
pub const CONSUMERS_MAX: usize = 256;
/// Longest name of a made claim, without the letters at its end.
const BASE_MAX: usize = 57;

/// A claim that a pod names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name within the pod.
    pub within: Text,
    /// The template it is made from; empty when the pod names a claim itself.
    pub template: Text,
    /// The claim; `None` while it was not made.
    pub claim: Option<Text>,
}

/// The claims that a pod names. Those that somebody decided not to make are left out.
#[must_use]
pub fn named(pod: &Tree) -> Vec<Named> {
    let made = pod.items_at(pod_path::MADE_CLAIMS);
    let one = |it: &Tree| {
        let within = it.text_at(pod_claim::NAME);
        let template = it.text_at(pod_claim::TEMPLATE);
        let claim = it.text_at(pod_claim::CLAIM);
        if !claim.is_empty() {
            return Some(Named { within, template: Text::new(), claim: Some(claim) });
        }
        let status = made.iter().find(|it| it.str_at(made_claim::NAME) == within);
        let claim = status.map(|it| it.text_at(made_claim::CLAIM));
        (claim.as_ref().is_none_or(|it| !it.is_empty())).then_some(Named { within, template, claim })
    };
    pod.items_at(pod_path::CLAIMS).iter().filter_map(one).collect()
}

/// Whether a pod will not use its claims any more.
#[must_use]
pub fn is_done(pod: &Tree) -> bool {
    let ended = crate::pod::Phase::of(pod.str_at(pod_path::PHASE)).ended();
    ended || (meta::deleting(pod).is_some() && pod.str_at(pod_path::NODE_NAME).is_empty())
}

/// A consumer of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its name, when it is a pod.
    pub pod: Option<Text>,
    /// Its UID.
    pub uid: Uid,
}

/// The consumers of a claim.
#[must_use]
pub fn consumers(claim: &Tree) -> Vec<Consumer> {
    let one = |it: &Tree| {
        let pod = it.str_at(consumer::GROUP).is_empty() && it.str_at(consumer::RESOURCE) == "pods";
        Consumer { pod: pod.then(|| it.text_at(consumer::NAME)), uid: it.text_at(consumer::UID) }
    };
    claim.items_at(path::RESERVED_FOR).iter().map(one).collect()
}

/// A merge patch that keeps a claim from vanishing; wants a revision guard.
#[must_use]
pub fn protection(claim: &Tree) -> Tree {
    let old = claim.items_at(meta_path::FINALIZERS).iter().cloned();
    let all = old.chain([Tree::from(finalizers::CLAIM_PROTECTION)]);
    Tree::empty_map().with(meta_path::FINALIZERS, Tree::list(all))
}

/// A merge patch that reserves a claim for a pod and, with an allocation, gives it devices; wants a revision guard.
#[must_use]
pub fn reservation(claim: &Tree, pod: &Tree, allocation: Option<&Tree>, now: Time) -> Tree {
    let old = claim.items_at(path::RESERVED_FOR).iter().cloned();
    let new = tree!({"resource": "pods", "name": meta::name(pod), "uid": meta::uid(pod)});
    let patch = Tree::empty_map().with(path::RESERVED_FOR, Tree::list(old.chain([new])));
    match allocation {
        None => patch,
        Some(allocation) => {
            patch.with(path::ALLOCATION, allocation.with(allocation_path::TIME, now.to_seconds_text()))
        }
    }
}

/// A merge patch that leaves only the consumers that `keep` wants; when none is left the devices are given back.
/// Wants a revision guard.
#[must_use]
pub fn without_consumers(claim: &Tree, mut keep: impl FnMut(&Uid) -> bool) -> Tree {
    let old = claim.items_at(path::RESERVED_FOR).iter();
    let left: Vec<Tree> = old.filter(|it| keep(&it.text_at(consumer::UID))).cloned().collect();
    if left.is_empty() {
        return deallocation();
    }
    Tree::empty_map().with(path::RESERVED_FOR, Tree::list(left))
}

/// A merge patch that gives the devices of a claim back; wants a revision guard.
#[must_use]
pub fn deallocation() -> Tree {
    tree!({"status": {"allocation": Tree::Null, "reservedFor": Tree::Null, "devices": Tree::Null}})
}

/// The claim that a template makes for a pod.
#[must_use]
pub fn from_template(template: &Tree, pod: &Tree, within: &Text, name: &Text) -> Tree {
    let mark = Tree::map([(annotations::POD_CLAIM_NAME, within)]);
    let words = template.at(claim_template::ANNOTATIONS).cloned().unwrap_or_else(Tree::empty_map);
    let owner = tree!({"apiVersion": "v1", "kind": "Pod", "name": meta::name(pod), "uid": meta::uid(pod),
        "controller": true});
    tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "generateName": name_base(&meta::name(pod), within),
            "namespace": meta::namespace(pod), "annotations": words.merge(&mark),
            "labels": template.at(claim_template::LABELS).cloned().unwrap_or_default(),
            "ownerReferences": [owner]},
        "spec": template.at(claim_template::SPEC).cloned().unwrap_or_else(Tree::empty_map)})
}

/// The beginning of the name of a made claim. Long names are cut where they come from, so that both parts stay.
#[must_use]
pub fn name_base(pod: &str, within: &str) -> String {
    let whole = format!("{pod}-{within}-");
    if whole.len() <= BASE_MAX {
        return whole;
    }
    let cut = |part: &str| part[..part.len() * BASE_MAX / whole.len()].to_owned();
    format!("{}-{}", cut(pod), cut(within))
}

/// Apply of the names of the claims that were made for a pod.
#[must_use]
pub fn made_names(pod: &Tree, names: &[(Text, Text)]) -> Tree {
    let one = |(within, claim): &(Text, Text)| tree!({"name": within, "resourceClaimName": claim});
    tree!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": meta::name(pod), "namespace": meta::namespace(pod)},
        "status": {"resourceClaimStatuses": Tree::list(names.iter().map(one))}})
}

/// Which pod a claim was made for, and under which name within it.
#[must_use]
pub fn made_for(claim: &Tree) -> Option<(Text, Uid, Text)> {
    let owner = meta::controller(claim).filter(|it| it.kind == "Pod" && it.group().is_empty())?;
    let within = meta::annotation(claim, annotations::POD_CLAIM_NAME)?;
    Some((owner.name, owner.uid, within.into()))
}
