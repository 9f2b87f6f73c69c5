//! `PreBind` of `DynamicResources`: writes the allocation and `reservedFor` of each claim.

use muster_api::client::{Revision, Uid};
use muster_tree::Tree;

use super::{ClaimKey, DeviceClaimingPod, DynamicResources};

/// A write of `PreBind` about a ResourceClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimBindTask {
    pub claim: ClaimKey,
    pub action: ClaimAction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAction {
    /// Write this allocation and reserve the claim for the pod.
    Allocate(Tree),
    /// Add the pod to `status.reservedFor`.
    Reserve,
    /// The claim changed since the node was selected: the pod must be scheduled again.
    Stale,
}

impl DynamicResources {
    /// The writes that must succeed before the pod is bound.
    #[must_use]
    pub fn prebind_tasks(&self, asker: &DeviceClaimingPod<'_>) -> Vec<ClaimBindTask> {
        if asker.claims.claims.iter().any(|want| self.is_missing(asker, want)) {
            let lost = asker.claim_keys().into_iter().take(1);
            return lost.map(|claim| ClaimBindTask { claim, action: ClaimAction::Stale }).collect();
        }
        let errand =
            |claim: ClaimKey| Some(ClaimBindTask { action: self.claim_action(asker, &claim)?, claim });
        asker.claim_keys().into_iter().filter_map(errand).collect()
    }

    fn claim_action(&self, asker: &DeviceClaimingPod<'_>, key: &ClaimKey) -> Option<ClaimAction> {
        let (Some(row), Some(spot)) = (self.claims.get(key), self.nodes.get(&asker.id)) else {
            return Some(ClaimAction::Stale);
        };
        let told = row.observed.as_ref()?;
        match (&told.allocation, &row.assumed) {
            (Some(given), _) if given.reach.as_ref().is_some_and(|terms| !terms.matches(spot)) => {
                Some(ClaimAction::Stale)
            }
            (Some(_), _) if told.reserved.contains(&asker.claims.uid) => None,
            (Some(_), _) => Some(ClaimAction::Reserve),
            (None, Some(assumed)) if assumed.pods.contains(&asker.id) => {
                let reach = assumed.allocation.devices.node_selector.as_ref();
                let fits = reach.is_none_or(|terms| terms.matches(spot));
                Some(if fits {
                    ClaimAction::Allocate(assumed.allocation.tree.clone())
                } else {
                    ClaimAction::Stale
                })
            }
            (None, _) => Some(ClaimAction::Stale),
        }
    }

    /// An allocation is sent for this resourceVersion of a claim.
    pub fn allocation_sent(&mut self, key: &ClaimKey, revision: Revision) {
        if let Some(assumed) = self.claims.get_mut(key).and_then(|row| row.assumed.as_mut()) {
            assumed.sent = Some(revision);
            self.indeterminate_writes.insert(key.clone());
        }
    }

    /// Claims with an indeterminate allocation write that no pod waits for.
    pub fn indeterminate(&self) -> impl Iterator<Item = &ClaimKey> {
        self.indeterminate_writes.iter().filter(|key| {
            let assumed = self.claims.get(*key).and_then(|row| row.assumed.as_ref());
            assumed.is_some_and(|it| it.sent.is_some() && it.pods.is_empty())
        })
    }

    /// The allocation was definitely not written.
    pub fn allocation_not_written(&mut self, key: &ClaimKey) -> super::RequeueScope {
        if let Some(assumed) = self.claims.get_mut(key).and_then(|row| row.assumed.as_mut()) {
            assumed.sent = None;
        }
        super::RequeueScope { all: self.settle(key), pods: Vec::new() }
    }

    /// The pods that this scheduler placed and that use a claim.
    #[must_use]
    pub fn users(&self, key: &ClaimKey) -> Vec<crate::pod::PodKey> {
        self.claims.get(key).map(|row| row.users.values().cloned().collect()).unwrap_or_default()
    }

    /// A claim of an unschedulable pod that is allocated (or may be), used by no pod, and excludes some nodes.
    /// `is_everywhere` returns whether terms match all nodes.
    pub fn deallocatable(
        &self,
        asker: &DeviceClaimingPod<'_>,
        is_everywhere: impl Fn(&muster_api::node_selector::NodeSelector) -> bool,
    ) -> Option<ClaimKey> {
        asker.claim_keys().into_iter().find(|key| {
            let row = &self.claims.get(key);
            let Some(told) = row.and_then(|row| row.observed.as_ref()) else { return false };
            // A reservation for a pending pod does not use the devices.
            let waits =
                |uid: &Uid| self.waiting.get(key).is_some_and(|pods| pods.values().any(|it| it == uid));
            let mine = told.reserved.iter().all(|uid| *uid == asker.claims.uid || waits(uid));
            let used = row.is_some_and(|row| !row.users.is_empty());
            let reach = row.and_then(super::claims::ClaimEntry::reach).flatten();
            mine && !used && reach.is_some_and(|terms| !is_everywhere(terms))
        })
    }
}
