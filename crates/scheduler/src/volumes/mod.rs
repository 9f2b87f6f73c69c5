//! The volume plugins: `VolumeBinding`, `VolumeRestrictions`, `NodeVolumeLimits` and `VolumeZone`.
//!
//! When a pod is assumed, each unbound claim is assumed bound to an available PersistentVolume or assumed to be
//! provisioned for the node (the assume cache of the PV binder). Both count at once, before any write: the next pod
//! cannot get the same volume.
//!
//! # Invariants
//!
//! - [`VolumeBinder::forget`] undoes [`VolumeBinder::assume`] exactly: a failed cycle is rolled back in reverse.
//! - A volume is assumed for at most one claim, and a claim is assumed on one volume or one node.
//! - Pods that share a claim share its assumed binding.
//!
//! # Deliberately absent
//!
//! In-line volumes without a claim, and `CSIStorageCapacity`.

mod facts;
mod filter;
mod matching;
mod pod_claims;
mod pv_index;

use std::collections::BTreeMap;

use muster_api::node::NodeFacts;
use muster_tree::Text;

use crate::cache::PodId;
use crate::claiming_pod::ClaimingPod as AnyAsker;
use crate::pod::PodKey;

pub use facts::{ClaimFacts, ClaimKey, ReservedClaim, StorageClassFacts, VolumeFacts};
pub use matching::{VolumeSearch, find_matching_volume, has_access_modes};
pub use pod_claims::{PodVolumeClaims, VolumeFilterFailure};
pub use pv_index::PvIndex;

pub type VolumeClaimingPod<'a> = AnyAsker<'a, PodVolumeClaims>;

/// A write of `PreBind` about a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeBindTask {
    /// Set `claimRef` of the volume and wait for the PV controller to bind the claim.
    Bind { claim: ClaimKey, volume: Text },
    /// Set the selected node of the claim and wait for the provisioner.
    Provision {
        claim: ClaimKey,
        /// The value of the annotation `volume.kubernetes.io/selected-node`.
        node: Text,
    },
    /// The assumed binding is no longer possible: the pod must be scheduled again.
    Infeasible,
}

/// The assumed binding of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AssumedBinding {
    Volume(Text),
    /// A volume provisioned for this node.
    Provision(Text),
}

/// An assumed binding with the pods that rely on it.
#[derive(Debug)]
struct AssumedClaim {
    what: AssumedBinding,
    pods: Vec<PodKey>,
    /// The provisioner removed the selected node: it cannot provision there.
    failed: bool,
}

/// An assumed or bound pod.
#[derive(Debug)]
struct PlacedPod {
    node: Text,
    /// Its claims with an assumed binding.
    promised: Vec<ClaimKey>,
    /// No binding was possible when it was assumed.
    hopeless: bool,
}

#[derive(Debug, Default)]
pub struct VolumeBinder {
    claims: BTreeMap<ClaimKey, ClaimFacts>,
    volumes: PvIndex,
    classes: BTreeMap<Text, StorageClassFacts>,
    /// Maximum number of volumes by node and driver (`CSINode`).
    limits: BTreeMap<Text, BTreeMap<Text, i64>>,
    placed: BTreeMap<PodId, PlacedPod>,
    /// Number of placed pods per claim and node.
    users: BTreeMap<ClaimKey, BTreeMap<Text, i32>>,
    promises: BTreeMap<ClaimKey, AssumedClaim>,
    /// Assumed volumes with their claim.
    taken: BTreeMap<Text, ClaimKey>,
}

impl VolumeBinder {
    /// Sets a claim (`None` deletes it); whether a pod may become schedulable.
    pub fn update_claim(&mut self, key: &ClaimKey, facts: Option<ClaimFacts>) -> bool {
        let before = self.claims.get(key);
        if before == facts.as_ref() {
            return false;
        }
        // The provisioner clears the selected node to report that it cannot provision there: the pod must be rescheduled.
        let given_up = before.is_some_and(|it| !it.node.is_empty())
            && facts.as_ref().is_none_or(|it| it.node.is_empty() && !it.is_bound());
        if given_up && let Some(promised) = self.promises.get_mut(key) {
            promised.failed = true;
        }
        replace(&mut self.claims, key, facts)
    }

    /// Sets a volume (`None` deletes it); whether a pod may become schedulable.
    pub fn update_volume(&mut self, name: &Text, facts: Option<VolumeFacts>) -> bool {
        let there = facts.is_some();
        let same = self.volumes.get(name) == facts.as_ref();
        if !same {
            self.volumes.put(name, facts);
        }
        there && !same
    }

    /// Sets a StorageClass (`None` deletes it); whether a pod may become schedulable.
    pub fn update_class(&mut self, name: &Text, facts: Option<StorageClassFacts>) -> bool {
        replace(&mut self.classes, name, facts)
    }

    /// Sets the volume limits of a node; whether a pod may become schedulable.
    pub fn update_limits(&mut self, node: &Text, limits: Option<BTreeMap<Text, i64>>) -> bool {
        replace(&mut self.limits, node, limits)
    }

    /// The pods that rely on the assumed binding of a claim.
    #[must_use]
    pub fn pods_relying_on(&self, claim: &ClaimKey) -> &[PodKey] {
        self.promises.get(claim).map(|it| it.pods.as_slice()).unwrap_or_default()
    }

    /// The claim that a volume is assumed for.
    #[must_use]
    pub fn assumed_for(&self, volume: &Text) -> Option<&ClaimKey> {
        self.taken.get(volume)
    }

    /// Assumes a pod on a node. `facts` is `None` if the Node was not observed.
    pub fn assume(&mut self, asker: &VolumeClaimingPod<'_>, node: &Text, facts: Option<&NodeFacts>) {
        if asker.claims.is_empty() {
            return;
        }
        let chosen = facts.filter(|_| !asker.bound);
        let found = chosen.map_or(Ok(Vec::new()), |facts| self.find_bindings(asker, facts));
        // Volumes may have changed since the node was filtered. `PreBind` reports such a pod as infeasible.
        let hopeless = found.is_err();
        let found = found.unwrap_or_default();
        let promised = found.iter().map(|(claim, _)| claim.clone()).collect();
        for (claim, what) in found {
            if let AssumedBinding::Volume(volume) = &what {
                self.taken.insert(volume.clone(), claim.clone());
            }
            let entry = self.promises.entry(claim);
            let entry = entry.or_insert_with(|| AssumedClaim { what, pods: Vec::new(), failed: false });
            entry.pods.push(asker.key.clone());
        }
        self.placed.insert(asker.id, PlacedPod { node: node.clone(), promised, hopeless });
        self.count(asker, node, 1);
    }

    /// Undoes [`VolumeBinder::assume`].
    pub fn forget(&mut self, asker: &VolumeClaimingPod<'_>) {
        let Some(placed) = self.placed.remove(&asker.id) else { return };
        self.count(asker, &placed.node, -1);
        for claim in placed.promised {
            let promised = self.promises.get_mut(&claim).expect("a pod relies on a promise that is there");
            let at = promised.pods.iter().rposition(|pod| pod == asker.key);
            promised.pods.remove(at.expect("a pod that relies on a promise is on its list"));
            if promised.pods.is_empty() {
                if let AssumedBinding::Volume(volume) = &promised.what {
                    self.taken.remove(volume);
                }
                self.promises.remove(&claim);
            }
        }
    }

    /// Adds (`sign` 1) or removes (-1) a pod in a preemption dry run.
    pub fn simulate(&mut self, asker: &VolumeClaimingPod<'_>, sign: i32) {
        let node = self.placed.get(&asker.id).map(|it| it.node.clone()).unwrap_or_default();
        self.count(asker, &node, sign);
    }

    /// What has to be so before the pod may be bound.
    #[must_use]
    pub fn prebind_tasks(&self, asker: &VolumeClaimingPod<'_>) -> Vec<VolumeBindTask> {
        let Some(placed) = self.placed.get(&asker.id) else { return Vec::new() };
        if placed.hopeless {
            return vec![VolumeBindTask::Infeasible];
        }
        placed.promised.iter().filter_map(|claim| self.prebind_task(claim)).collect()
    }

    fn prebind_task(&self, key: &ClaimKey) -> Option<VolumeBindTask> {
        let promised = self.promises.get(key)?;
        let Some(claim) = self.claims.get(key).filter(|it| !it.deleting && !promised.failed) else {
            return Some(VolumeBindTask::Infeasible);
        };
        match &promised.what {
            AssumedBinding::Volume(volume) if claim.is_bound() && claim.volume != *volume => {
                Some(VolumeBindTask::Infeasible)
            }
            _ if claim.is_bound() => None,
            AssumedBinding::Volume(volume) => {
                Some(VolumeBindTask::Bind { claim: key.clone(), volume: volume.clone() })
            }
            AssumedBinding::Provision(node) => {
                Some(VolumeBindTask::Provision { claim: key.clone(), node: node.clone() })
            }
        }
    }

    fn count(&mut self, asker: &VolumeClaimingPod<'_>, node: &Text, sign: i32) {
        for want in &asker.claims.claims {
            let key = (asker.key.0.clone(), want.claim.clone());
            let nodes = self.users.entry(key.clone()).or_default();
            let count = nodes.entry(node.clone()).or_default();
            *count += sign;
            if *count == 0 {
                nodes.remove(node);
            }
            if nodes.is_empty() {
                self.users.remove(&key);
            }
        }
    }
}

/// Replaces an object; whether a new state was set. A deletion makes no pod schedulable.
fn replace<K: Ord + Clone, T: PartialEq>(all: &mut BTreeMap<K, T>, name: &K, new: Option<T>) -> bool {
    if all.get(name) == new.as_ref() {
        return false;
    }
    let there = new.is_some();
    match new {
        Some(new) => all.insert(name.clone(), new),
        None => all.remove(name),
    };
    there
}

#[cfg(test)]
mod tests;
