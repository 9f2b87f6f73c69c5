//! The `DynamicResources` plugin: ResourceClaims, their allocations, and the assume cache beside them.
//!
//! `status.allocation` of a ResourceClaim is authoritative; an allocation that is decided but not written yet is
//! assumed. The allocator itself is in `muster_devices`.
//!
//! # Invariants
//!
//! - [`DynamicResources::forget`] undoes [`DynamicResources::assume`] exactly: a failed cycle is rolled back in reverse.
//! - A device is allocated to at most one claim, observed or assumed; a request with `adminAccess` allocates nothing.
//! - After an indeterminate allocation write the devices stay assumed for that claim until the claim is observed again:
//!   otherwise two claims could get one device.
//! - A claim shared by several pods is allocated once; later pods only fit on nodes that its node selector matches.
//!
//! # Deliberately absent
//!
//! Preemption for devices: a device is free only when its claim is deallocated, which takes longer than the eviction of
//! a pod.

mod claims;
mod pod_claims;
mod prebind;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use muster_api::client::Uid;
use muster_api::node::NodeFacts;
use muster_api::resource_claim::CONSUMERS_MAX;
use muster_devices::{Allocation, AllocationError, Claim, DeviceClassFacts, Inventory};
use muster_tree::{Text, Tree};

use crate::cache::PodId;
use crate::claiming_pod::ClaimingPod as AnyAsker;
use crate::pod::PodKey;
use crate::reason::Reason;

pub use pod_claims::{PodResourceClaims, ResourceClaimRef};
pub use prebind::{ClaimAction, ClaimBindTask};

use claims::{AssumedAllocation, ClaimEntry};

pub type DeviceClaimingPod<'a> = AnyAsker<'a, PodResourceClaims>;
/// Namespace and name of a ResourceClaim.
pub type ClaimKey = (Text, Text);

/// Why `DynamicResources` rejects a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceFilterFailure {
    /// No free devices match.
    Nothing,
    /// The allocation of a claim does not include the node.
    Elsewhere,
    /// No free devices match, and some resource pools are invalid.
    Invalid,
    /// The allocator failed; [`DynamicResources::take_error`] returns the message.
    Broken,
}

impl DeviceFilterFailure {
    #[must_use]
    pub fn reason(self) -> Reason {
        Reason::Claims(Text::from(match self {
            DeviceFilterFailure::Nothing | DeviceFilterFailure::Broken => "cannot allocate all claims",
            DeviceFilterFailure::Elsewhere => "resourceclaim not available on the node",
            DeviceFilterFailure::Invalid => "invalid resource pools were encountered",
        }))
    }

    /// Whether preemption on the node may help.
    #[must_use]
    pub fn resolvable(self) -> bool {
        false
    }
}

/// The pods that a change requeues.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RequeueScope {
    /// All pods that are unschedulable because of claims.
    pub all: bool,
    pub pods: Vec<PodKey>,
}

#[derive(Debug, Default)]
pub struct DynamicResources {
    inventory: Inventory,
    claims: BTreeMap<ClaimKey, ClaimEntry>,
    /// Claims with an allocation write whose result was not observed yet.
    indeterminate_writes: BTreeSet<ClaimKey>,
    /// Pending pods by the claims they use.
    waiting: BTreeMap<ClaimKey, BTreeMap<PodKey, Uid>>,
    /// Nodes of the pods that this scheduler placed.
    nodes: HashMap<PodId, Arc<NodeFacts>>,
    broken: Option<Text>,
    /// The last allocation found, so that filtering a node and assuming it allocate once.
    last_found: Option<(PodId, Text, Vec<Allocation>)>,
}

impl DynamicResources {
    pub fn update_slice(&mut self, tree: &Tree) -> RequeueScope {
        self.last_found = None;
        self.inventory.update_slice(tree);
        RequeueScope { all: true, pods: Vec::new() }
    }

    /// A ResourceSlice was deleted. Pods are requeued because an invalid pool may have become valid.
    pub fn delete_slice(&mut self, name: &Text) -> RequeueScope {
        self.last_found = None;
        self.inventory.delete_slice(name);
        RequeueScope { all: true, pods: Vec::new() }
    }

    pub fn update_class(&mut self, tree: &Tree) -> RequeueScope {
        self.last_found = None;
        self.inventory.update_class(DeviceClassFacts::of(tree));
        RequeueScope { all: true, pods: Vec::new() }
    }

    pub fn delete_class(&mut self, name: &Text) -> RequeueScope {
        self.last_found = None;
        self.inventory.delete_class(name);
        RequeueScope::default()
    }

    /// `PreEnqueue`: whether a claim of the pod is missing or terminating. kube-scheduler reports no condition for such a
    /// pod either. The pod is registered and requeued when one of its claims changes.
    pub fn pre_enqueue(&mut self, asker: &DeviceClaimingPod<'_>) -> bool {
        self.last_found = None;
        for want in &asker.claims.claims {
            if let ResourceClaimRef::Claim { name, .. } = want {
                let key = (asker.key.0.clone(), name.clone());
                let pods = self.waiting.entry(key).or_default();
                pods.insert(asker.key.clone(), asker.claims.uid.clone());
            }
        }
        asker.claims.claims.iter().any(|want| self.is_missing(asker, want))
    }

    fn is_missing(&self, asker: &DeviceClaimingPod<'_>, want: &ResourceClaimRef) -> bool {
        let ResourceClaimRef::Claim { name, owned } = want else { return true };
        let told =
            self.claims.get(&(asker.key.0.clone(), name.clone())).and_then(|row| row.observed.as_ref());
        told.is_none_or(|it| it.deleting || (*owned && it.owner.as_ref() != Some(&asker.claims.uid)))
    }

    /// Removes a pod that is no longer pending.
    pub fn remove_pending(&mut self, asker: &DeviceClaimingPod<'_>) {
        for key in asker.claim_keys() {
            if let Some(pods) = self.waiting.get_mut(&key) {
                pods.remove(asker.key);
                if pods.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }

    /// Why a pod is unschedulable on every node.
    #[must_use]
    pub fn pre_filter_error(&self, asker: &DeviceClaimingPod<'_>) -> Option<Text> {
        for key in asker.claim_keys() {
            let row = self.claims.get(&key);
            let Some(told) = row.and_then(|row| row.observed.as_ref()) else {
                return Some(format!("resourceclaim \"{}\" not found", key.1).into());
            };
            let reserved = told.reserved.contains(&asker.claims.uid);
            if told.reserved.len() >= CONSUMERS_MAX && !reserved {
                return Some("resourceclaim in use".into());
            }
            if row.is_some_and(|row| row.reach().is_some()) {
                continue;
            }
            for ask in told.spec.alternatives() {
                if !self.inventory.has_class(&ask.class) {
                    let (name, class) = (&ask.name, &ask.class);
                    return Some(format!("request {name}: device class {class} does not exist").into());
                }
            }
        }
        None
    }

    /// The specs of the claims of a pod, if nothing else matters: none is allocated or reserved.
    #[must_use]
    pub fn claim_specs(&self, asker: &DeviceClaimingPod<'_>) -> Option<Vec<Tree>> {
        let plain = |key: &ClaimKey| {
            let row = self.claims.get(key)?;
            let told = row.observed.as_ref().filter(|it| row.reach().is_none() && it.reserved.is_empty())?;
            Some(told.spec_tree.clone())
        };
        asker.claim_keys().iter().map(plain).collect()
    }

    /// Why `DynamicResources` rejects a node.
    pub fn filter(&mut self, asker: &DeviceClaimingPod<'_>, node: &NodeFacts) -> Option<DeviceFilterFailure> {
        if let Some((id, name, _)) = &self.last_found
            && *id == asker.id
            // Same pod and node as in the last search, and nothing changed since: every change resets the result.
            && *name == node.name
        {
            return None;
        }
        match self.search(asker, node) {
            Ok(found) => {
                self.last_found = Some((asker.id, node.name.clone(), found));
                None
            }
            Err(wrong) => Some(wrong),
        }
    }

    /// Whether a claim has `firstAvailable` alternatives, so that the score depends on the node.
    #[must_use]
    pub fn prefers(&self, asker: &DeviceClaimingPod<'_>) -> bool {
        asker.claim_keys().iter().filter_map(|key| self.claims.get(key)).any(|row| {
            let lists = |it: &claims::ObservedClaim| {
                it.spec.requests.iter().any(muster_devices::DeviceRequest::is_list)
            };
            row.reach().is_none() && row.observed.as_ref().is_some_and(lists)
        })
    }

    /// The score of the alternatives on the node that was filtered last.
    #[must_use]
    pub fn choices(&self, asker: &DeviceClaimingPod<'_>) -> i64 {
        let draft = self.last_found.as_ref().filter(|(id, ..)| *id == asker.id);
        draft.map_or(0, |(_, _, found)| found.iter().map(|it| it.alternative_score).sum())
    }

    /// Allocates the unallocated claims of a pod, in order.
    fn search(
        &mut self,
        asker: &DeviceClaimingPod<'_>,
        node: &NodeFacts,
    ) -> Result<Vec<Allocation>, DeviceFilterFailure> {
        let mut open: Vec<Arc<Claim>> = Vec::new();
        let mut elsewhere = false;
        for key in asker.claim_keys() {
            let row = self.claims.get(&key).ok_or(DeviceFilterFailure::Elsewhere)?;
            match row.reach() {
                Some(reach) => elsewhere |= reach.is_some_and(|terms| !terms.matches(node)),
                None => open.push(row.observed.as_ref().ok_or(DeviceFilterFailure::Elsewhere)?.spec.clone()),
            }
        }
        let claims: Vec<&Claim> = open.iter().map(AsRef::as_ref).collect();
        let found = if claims.is_empty() { Ok(Vec::new()) } else { self.inventory.allocate(node, &claims) };
        let found = found.map_err(|trouble| match trouble {
            AllocationError::Nothing => DeviceFilterFailure::Nothing,
            AllocationError::Invalid => DeviceFilterFailure::Invalid,
            AllocationError::Broken(why) => {
                self.broken = Some(why.into());
                DeviceFilterFailure::Broken
            }
        })?;
        if elsewhere { Err(DeviceFilterFailure::Elsewhere) } else { Ok(found) }
    }

    /// Takes the last error of the allocator.
    pub fn take_error(&mut self) -> Option<Text> {
        self.broken.take()
    }

    /// Assumes a pod on a node. Nothing is assumed for a pod that is bound already: its claims are authoritative.
    pub fn assume(&mut self, asker: &DeviceClaimingPod<'_>, _node: &Text, facts: Option<&NodeFacts>) {
        let Some(facts) = facts.filter(|_| !asker.bound && !asker.claims.is_empty()) else { return };
        let found = match self.last_found.take() {
            Some((id, name, found)) if id == asker.id && name == facts.name => found,
            _ => self.search(asker, facts).unwrap_or_default(),
        };
        self.nodes.insert(asker.id, Arc::new(facts.clone()));
        let mut found = found.into_iter();
        for key in asker.claim_keys() {
            let Some(row) = self.claims.get_mut(&key) else { continue };
            if row.reach().is_none()
                && let Some(allocation) = found.next()
            {
                let numbers = self.inventory.hold(&allocation.devices.devices);
                row.assumed =
                    Some(AssumedAllocation { allocation, numbers, pods: BTreeSet::new(), sent: None });
            }
            if let Some(assumed) = &mut row.assumed {
                assumed.pods.insert(asker.id);
            }
            row.users.insert(asker.id, asker.key.clone());
        }
    }

    /// Undoes [`DynamicResources::assume`]; whether devices became free.
    pub fn forget(&mut self, asker: &DeviceClaimingPod<'_>) -> bool {
        self.last_found = None;
        if self.nodes.remove(&asker.id).is_none() {
            return false;
        }
        let mut freed = false;
        for key in asker.claim_keys() {
            let Some(row) = self.claims.get_mut(&key) else { continue };
            row.users.remove(&asker.id);
            if let Some(assumed) = &mut row.assumed {
                assumed.pods.remove(&asker.id);
            }
            freed |= self.settle(&key);
        }
        freed
    }

    /// Preemption dry run: devices are not freed by it.
    pub fn simulate(&mut self, _asker: &DeviceClaimingPod<'_>, _sign: i32) {}

    /// The number of allocated devices, observed or assumed.
    #[must_use]
    pub fn held(&self) -> usize {
        self.inventory.held()
    }
}

#[cfg(test)]
mod tests;
