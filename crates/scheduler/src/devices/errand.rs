//! What has to be written before a pod with claims may be bound: devices into claims, then who uses them.

use muster_api::port::{Revision, Uid};
use muster_tree::Tree;

use super::{Asker, ClaimKey, Devices};

/// What has to be so before a pod may be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// Which claim.
    pub claim: ClaimKey,
    /// What about it.
    pub does: Does,
}

/// What is to be done about a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// It is given this allocation, and reserved for the pod.
    Give(Tree),
    /// It is reserved for the pod.
    Reserve,
    /// It is not what it was when the node was chosen: that has to be done anew.
    Lost,
}

impl Devices {
    /// What has to be so before the pod may be bound.
    #[must_use]
    pub fn errands(&self, asker: &Asker<'_>) -> Vec<Errand> {
        if asker.wants.claims.iter().any(|want| self.is_missing(asker, want)) {
            let lost = asker.claim_keys().into_iter().take(1);
            return lost.map(|claim| Errand { claim, does: Does::Lost }).collect();
        }
        let errand = |claim: ClaimKey| Some(Errand { does: self.errand(asker, &claim)?, claim });
        asker.claim_keys().into_iter().filter_map(errand).collect()
    }

    fn errand(&self, asker: &Asker<'_>, key: &ClaimKey) -> Option<Does> {
        let (Some(row), Some(spot)) = (self.claims.get(key), self.spots.get(&asker.id)) else {
            return Some(Does::Lost);
        };
        let told = row.told.as_ref()?;
        match (&told.allocation, &row.assumed) {
            (Some(given), _) if given.reach.as_ref().is_some_and(|terms| !terms.matches(spot)) => {
                Some(Does::Lost)
            }
            (Some(_), _) if told.reserved.contains(&asker.wants.uid) => None,
            (Some(_), _) => Some(Does::Reserve),
            (None, Some(assumed)) if assumed.pods.contains(&asker.id) => {
                let reach = assumed.allocation.held.reach.as_ref();
                let fits = reach.is_none_or(|terms| terms.matches(spot));
                Some(if fits { Does::Give(assumed.allocation.tree.clone()) } else { Does::Lost })
            }
            (None, _) => Some(Does::Lost),
        }
    }

    /// Devices are about to be written into this revision of a claim.
    pub fn sent(&mut self, key: &ClaimKey, revision: Revision) {
        if let Some(assumed) = self.claims.get_mut(key).and_then(|row| row.assumed.as_mut()) {
            assumed.sent = Some(revision);
            self.unsure.insert(key.clone());
        }
    }

    /// Claims of which we do not know whether devices were given to them, and that no pod waits for any more.
    pub fn doubtful(&self) -> impl Iterator<Item = &ClaimKey> {
        self.unsure.iter().filter(|key| {
            let assumed = self.claims.get(*key).and_then(|row| row.assumed.as_ref());
            assumed.is_some_and(|it| it.sent.is_some() && it.pods.is_empty())
        })
    }

    /// They can never be written.
    pub fn unsent(&mut self, key: &ClaimKey) -> super::News {
        if let Some(assumed) = self.claims.get_mut(key).and_then(|row| row.assumed.as_mut()) {
            assumed.sent = None;
        }
        super::News { everybody: self.settle(key), pods: Vec::new() }
    }

    /// The pods on nodes of ours that use a claim.
    #[must_use]
    pub fn users(&self, key: &ClaimKey) -> Vec<crate::pod::PodKey> {
        self.claims.get(key).map(|row| row.users.values().cloned().collect()).unwrap_or_default()
    }

    /// A claim of a refused pod with devices, given or perhaps given, that nobody uses and that keep the pod from some
    /// nodes: `is_everywhere` says whether terms match all nodes.
    pub fn useless(
        &self,
        asker: &Asker<'_>,
        is_everywhere: impl Fn(&muster_api::node_terms::Terms) -> bool,
    ) -> Option<ClaimKey> {
        asker.claim_keys().into_iter().find(|key| {
            let row = &self.claims.get(key);
            let Some(told) = row.and_then(|row| row.told.as_ref()) else { return false };
            // Pods that wait for a node themselves have no use for it either.
            let waits =
                |uid: &Uid| self.waiting.get(key).is_some_and(|pods| pods.values().any(|it| it == uid));
            let mine = told.reserved.iter().all(|uid| *uid == asker.wants.uid || waits(uid));
            let used = row.is_some_and(|row| !row.users.is_empty());
            let reach = row.and_then(super::claims::ClaimRow::reach).flatten();
            mine && !used && reach.is_some_and(|terms| !is_everywhere(terms))
        })
    }
}
