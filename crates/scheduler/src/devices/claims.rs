//! The cache of ResourceClaims: observed state, and the allocation that is assumed beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::client::{ApiObject, Revision, Uid};
use muster_api::node_selector::NodeSelector;
use muster_api::paths::resource_claim as path;
use muster_api::{meta, resource_claim};
use muster_devices::{Allocation, Claim, DeviceIndex, allocated_devices};
use muster_tree::Tree;

use super::{ClaimKey, DynamicResources, RequeueScope};
use crate::cache::PodId;
use crate::pod::PodKey;

#[derive(Debug, Default)]
pub(super) struct ClaimEntry {
    /// `None` if it does not exist.
    pub(super) observed: Option<ObservedClaim>,
    /// The allocation that is decided and not observed yet.
    pub(super) assumed: Option<AssumedAllocation>,
    /// Pods that this scheduler placed and that use it.
    pub(super) users: BTreeMap<PodId, PodKey>,
}

/// The observed state of a claim.
#[derive(Debug)]
pub(super) struct ObservedClaim {
    pub(super) uid: Uid,
    pub(super) revision: Revision,
    pub(super) spec_tree: Tree,
    pub(super) spec: Arc<Claim>,
    pub(super) deleting: bool,
    /// The pod it was generated for.
    pub(super) owner: Option<Uid>,
    pub(super) allocation: Option<ObservedAllocation>,
    /// The UIDs in `status.reservedFor`.
    pub(super) reserved: Vec<Uid>,
}

/// The `status.allocation` as observed.
#[derive(Debug)]
pub(super) struct ObservedAllocation {
    pub(super) numbers: Vec<DeviceIndex>,
    /// The nodes it is available on; `None` for all.
    pub(super) reach: Option<NodeSelector>,
}

/// An allocation that is not written yet.
#[derive(Debug)]
pub(super) struct AssumedAllocation {
    pub(super) allocation: Allocation,
    pub(super) numbers: Vec<DeviceIndex>,
    /// The pods that rely on it.
    pub(super) pods: BTreeSet<PodId>,
    /// The resourceVersion it was sent for, while the write is indeterminate.
    pub(super) sent: Option<Revision>,
}

impl ClaimEntry {
    /// The nodes its allocation is available on: `None` if unallocated, `Some(None)` for all nodes.
    pub(super) fn reach(&self) -> Option<Option<&NodeSelector>> {
        let told = self.observed.as_ref().and_then(|it| it.allocation.as_ref()).map(|it| it.reach.as_ref());
        told.or_else(|| self.assumed.as_ref().map(|it| it.allocation.devices.node_selector.as_ref()))
    }
}

impl DynamicResources {
    pub fn update_claim(&mut self, object: &ApiObject) -> RequeueScope {
        self.last_found = None;
        let tree = &object.tree;
        let key = (meta::namespace(tree), meta::name(tree));
        if self
            .claims
            .get(&key)
            .and_then(|row| row.observed.as_ref())
            .is_some_and(|it| it.uid != meta::uid(tree))
        {
            self.delete_claim(&key);
        }
        let row = self.claims.entry(key.clone()).or_default();
        let old = row.observed.take();
        let spec_tree = tree.at(path::SPEC).cloned().unwrap_or_default();
        let spec = match &old {
            Some(old) if old.spec_tree == spec_tree => old.spec.clone(),
            _ => Arc::new(Claim::of(tree)),
        };
        // The observed allocation is counted before the assumed one is released: the devices are never free in between.
        let allocation = tree.at(path::ALLOCATION).map(|it| {
            let held = allocated_devices(it);
            ObservedAllocation { numbers: self.inventory.hold(&held.devices), reach: held.node_selector }
        });
        let freed = old.as_ref().is_some_and(|it| it.allocation.is_some()) && allocation.is_none();
        self.release_allocation(old);
        let told = ObservedClaim {
            uid: meta::uid(tree),
            revision: object.revision,
            spec_tree,
            spec,
            deleting: meta::deletion_timestamp(tree).is_some(),
            owner: resource_claim::owner_pod(tree).map(|(_, uid, _)| uid),
            allocation,
            reserved: resource_claim::consumers(tree).into_iter().map(|it| it.uid).collect(),
        };
        if let Some(row) = self.claims.get_mut(&key) {
            row.observed = Some(told);
        }
        let freed = self.settle(&key) || freed;
        self.news(&key, freed)
    }

    pub fn delete_claim(&mut self, key: &ClaimKey) -> RequeueScope {
        self.last_found = None;
        let Some(row) = self.claims.get_mut(key) else { return RequeueScope::default() };
        let old = row.observed.take();
        let freed = old.as_ref().is_some_and(|it| it.allocation.is_some());
        self.release_allocation(old);
        let freed = self.settle(key) || freed;
        self.news(key, freed)
    }

    fn news(&mut self, key: &ClaimKey, everybody: bool) -> RequeueScope {
        let pods = self.waiting.remove(key).unwrap_or_default().into_keys().collect();
        RequeueScope { all: everybody, pods }
    }

    fn release_allocation(&mut self, old: Option<ObservedClaim>) {
        if let Some(given) = old.and_then(|it| it.allocation) {
            self.inventory.release(&given.numbers);
        }
    }

    /// Releases an assumed allocation that can no longer be written, and removes a claim without state. Returns whether
    /// devices became free.
    pub(super) fn settle(&mut self, key: &ClaimKey) -> bool {
        let Some(row) = self.claims.get_mut(key) else { return false };
        let told = row.observed.as_ref();
        if let Some(assumed) = &mut row.assumed {
            // The write has the old resourceVersion as a precondition: it must fail by now.
            let may_come = |revision| told.is_some_and(|it| it.revision == revision);
            assumed.sent = assumed.sent.filter(|revision| may_come(*revision));
        }
        if row.assumed.as_ref().is_none_or(|it| it.sent.is_none()) {
            self.indeterminate_writes.remove(key);
        }
        let written = told.is_some_and(|it| it.allocation.is_some());
        // Written: the observed allocation replaces it. Claim deleted: it can never be written.
        let useless = written || told.is_none();
        let over = row.assumed.take_if(|it| it.sent.is_none() && (useless || it.pods.is_empty()));
        if row.observed.is_none() && row.users.is_empty() {
            self.claims.remove(key);
        }
        let Some(assumed) = over else { return false };
        self.inventory.release(&assumed.numbers);
        !written
    }
}
