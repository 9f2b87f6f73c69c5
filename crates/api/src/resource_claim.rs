//! ResourceClaims: how pods reference them, their consumers, and the patches that change them.

use muster_tree::{Text, Tree, tree};

use crate::client::Uid;
use crate::consts::{annotations, finalizers};
use crate::meta;
use crate::paths::{
    allocation as allocation_path, claim_consumer as consumer, claim_template, made_claim, meta as meta_path,
    pod as pod_path, pod_claim, resource_claim as path,
};
use crate::time::Time;

/// Largest number of entries in `status.reservedFor`.
pub const CONSUMERS_MAX: usize = 256;
/// Longest generated name without the random suffix.
const BASE_MAX: usize = 57;

/// A ResourceClaim that a pod references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodResourceClaim {
    /// Name of the entry in `spec.resourceClaims`.
    pub pod_claim_name: Text,
    /// ResourceClaimTemplate that the claim is generated from; empty when the pod names a claim.
    pub template: Text,
    /// Name of the ResourceClaim; `None` until it is generated.
    pub claim: Option<Text>,
}

/// The ResourceClaims that a pod references. Entries that need no claim, by the pod's status, are omitted.
#[must_use]
pub fn pod_claims(pod: &Tree) -> Vec<PodResourceClaim> {
    let made = pod.items_at(pod_path::MADE_CLAIMS);
    let one = |it: &Tree| {
        let within = it.text_at(pod_claim::NAME);
        let template = it.text_at(pod_claim::TEMPLATE);
        let claim = it.text_at(pod_claim::CLAIM);
        if !claim.is_empty() {
            return Some(PodResourceClaim {
                pod_claim_name: within,
                template: Text::new(),
                claim: Some(claim),
            });
        }
        let status = made.iter().find(|it| it.str_at(made_claim::NAME) == within);
        let claim = status.map(|it| it.text_at(made_claim::CLAIM));
        (claim.as_ref().is_none_or(|it| !it.is_empty())).then_some(PodResourceClaim {
            pod_claim_name: within,
            template,
            claim,
        })
    };
    pod.items_at(pod_path::CLAIMS).iter().filter_map(one).collect()
}

/// Returns whether a pod will no longer use its claims: it is terminal, or was deleted before it was bound.
#[must_use]
pub fn is_done_with_claims(pod: &Tree) -> bool {
    let ended = crate::pod::PodPhase::of(pod.str_at(pod_path::PHASE)).is_terminal();
    ended || (meta::deletion_timestamp(pod).is_some() && pod.str_at(pod_path::NODE_NAME).is_empty())
}

/// One entry of `status.reservedFor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimConsumer {
    /// Name of the consumer if it is a pod.
    pub pod: Option<Text>,
    /// UID of the consumer.
    pub uid: Uid,
}

/// The consumers in `status.reservedFor`.
#[must_use]
pub fn consumers(claim: &Tree) -> Vec<ClaimConsumer> {
    let one = |it: &Tree| {
        let pod = it.str_at(consumer::GROUP).is_empty() && it.str_at(consumer::RESOURCE) == "pods";
        ClaimConsumer { pod: pod.then(|| it.text_at(consumer::NAME)), uid: it.text_at(consumer::UID) }
    };
    claim.items_at(path::RESERVED_FOR).iter().map(one).collect()
}

/// A merge patch that adds the protection finalizer; needs a resource version precondition.
#[must_use]
pub fn add_finalizer_patch(claim: &Tree) -> Tree {
    let old = claim.items_at(meta_path::FINALIZERS).iter().cloned();
    let all = old.chain([Tree::from(finalizers::CLAIM_PROTECTION)]);
    Tree::empty_map().with(meta_path::FINALIZERS, Tree::list(all))
}

/// A merge patch that reserves a claim for a pod and sets its allocation, if given; needs a resource version
/// precondition.
#[must_use]
pub fn reserve_patch(claim: &Tree, pod: &Tree, allocation: Option<&Tree>, now: Time) -> Tree {
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

/// A merge patch that keeps only the consumers that `keep` accepts, and deallocates a claim without consumers; needs a
/// resource version precondition.
#[must_use]
pub fn remove_consumers_patch(claim: &Tree, mut keep: impl FnMut(&Uid) -> bool) -> Tree {
    let old = claim.items_at(path::RESERVED_FOR).iter();
    let left: Vec<Tree> = old.filter(|it| keep(&it.text_at(consumer::UID))).cloned().collect();
    if left.is_empty() {
        return deallocate_patch();
    }
    Tree::empty_map().with(path::RESERVED_FOR, Tree::list(left))
}

/// A merge patch that deallocates a claim; needs a resource version precondition.
#[must_use]
pub fn deallocate_patch() -> Tree {
    tree!({"status": {"allocation": Tree::Null, "reservedFor": Tree::Null, "devices": Tree::Null}})
}

/// The ResourceClaim to create for a pod from a template.
#[must_use]
pub fn from_template(template: &Tree, pod: &Tree, within: &Text, name: &Text) -> Tree {
    let mark = Tree::map([(annotations::POD_CLAIM_NAME, within)]);
    let words = template.at(claim_template::ANNOTATIONS).cloned().unwrap_or_else(Tree::empty_map);
    let owner = tree!({"apiVersion": "v1", "kind": "Pod", "name": meta::name(pod), "uid": meta::uid(pod),
        "controller": true});
    tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "generateName": generate_name(&meta::name(pod), within),
            "namespace": meta::namespace(pod), "annotations": words.merge(&mark),
            "labels": template.at(claim_template::LABELS).cloned().unwrap_or_default(),
            "ownerReferences": [owner]},
        "spec": template.at(claim_template::SPEC).cloned().unwrap_or_else(Tree::empty_map)})
}

/// `generateName` of a claim. Long names are truncated proportionally, so that parts of both remain.
#[must_use]
pub fn generate_name(pod: &str, within: &str) -> String {
    let whole = format!("{pod}-{within}-");
    if whole.len() <= BASE_MAX {
        return whole;
    }
    let cut = |part: &str| part[..part.len() * BASE_MAX / whole.len()].to_owned();
    format!("{}-{}", cut(pod), cut(within))
}

/// The configuration to apply for `status.resourceClaimStatuses` of a pod.
#[must_use]
pub fn claim_statuses_apply(pod: &Tree, names: &[(Text, Text)]) -> Tree {
    let one = |(within, claim): &(Text, Text)| tree!({"name": within, "resourceClaimName": claim});
    tree!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": meta::name(pod), "namespace": meta::namespace(pod)},
        "status": {"resourceClaimStatuses": Tree::list(names.iter().map(one))}})
}

/// The pod that a claim was generated for (name, UID), and the name of the claim within the pod.
#[must_use]
pub fn owner_pod(claim: &Tree) -> Option<(Text, Uid, Text)> {
    let owner = meta::controller_of(claim).filter(|it| it.kind == "Pod" && it.group().is_empty())?;
    let within = meta::annotation(claim, annotations::POD_CLAIM_NAME)?;
    Some((owner.name, owner.uid, within.into()))
}
