//! Claims as the book knows them: what they say, and what is assumed beside that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::node_terms::Terms;
use muster_api::paths::resource_claim as path;
use muster_api::port::{Object, Revision, Uid};
use muster_api::{claim, meta};
use muster_devices::{Allocation, Claim, Number, held};
use muster_tree::Tree;

use super::{ClaimKey, Devices, News};
use crate::pod::PodKey;
use crate::world::PodId;

/// One claim.
#[derive(Debug, Default)]
pub(super) struct ClaimRow {
    /// What it says; `None` when it is not there.
    pub(super) told: Option<Told>,
    /// What we decided and have not heard yet.
    pub(super) assumed: Option<Assumed>,
    /// Pods that we put on nodes and that use it.
    pub(super) users: BTreeMap<PodId, PodKey>,
}

/// What a claim says.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) uid: Uid,
    pub(super) revision: Revision,
    pub(super) spec_tree: Tree,
    pub(super) spec: Arc<Claim>,
    pub(super) deleting: bool,
    /// The pod it was made for.
    pub(super) owner: Option<Uid>,
    pub(super) allocation: Option<Given>,
    /// For whom it is reserved.
    pub(super) reserved: Vec<Uid>,
}

/// What was given to it.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) numbers: Vec<Number>,
    /// From where it can be used; `None` for everywhere.
    pub(super) reach: Option<Terms>,
}

/// What we decided to give to it.
#[derive(Debug)]
pub(super) struct Assumed {
    pub(super) allocation: Allocation,
    pub(super) numbers: Vec<Number>,
    /// The pods that rely on it.
    pub(super) pods: BTreeSet<PodId>,
    /// The revision of the claim for which it was sent and may yet be written.
    pub(super) sent: Option<Revision>,
}

impl ClaimRow {
    /// From where its devices can be used, `Some(None)` being everywhere; `None` while it has none.
    pub(super) fn reach(&self) -> Option<Option<&Terms>> {
        let told = self.told.as_ref().and_then(|it| it.allocation.as_ref()).map(|it| it.reach.as_ref());
        told.or_else(|| self.assumed.as_ref().map(|it| it.allocation.held.reach.as_ref()))
    }
}

impl Devices {
    /// A claim is there, or changed.
    pub fn claim(&mut self, object: &Object) -> News {
        self.draft = None;
        let tree = &object.tree;
        let key = (meta::namespace(tree), meta::name(tree));
        if self.claims.get(&key).and_then(|row| row.told.as_ref()).is_some_and(|it| it.uid != meta::uid(tree))
        {
            self.claim_gone(&key);
        }
        let row = self.claims.entry(key.clone()).or_default();
        let old = row.told.take();
        let spec_tree = tree.at(path::SPEC).cloned().unwrap_or_default();
        let spec = match &old {
            Some(old) if old.spec_tree == spec_tree => old.spec.clone(),
            _ => Arc::new(Claim::of(tree)),
        };
        // What is held stays held while it changes from assumed to told.
        let allocation = tree.at(path::ALLOCATION).map(|it| {
            let held = held(it);
            Given { numbers: self.inventory.take(&held.devices), reach: held.reach }
        });
        let freed = old.as_ref().is_some_and(|it| it.allocation.is_some()) && allocation.is_none();
        self.let_go(old);
        let told = Told {
            uid: meta::uid(tree),
            revision: object.revision,
            spec_tree,
            spec,
            deleting: meta::deleting(tree).is_some(),
            owner: claim::made_for(tree).map(|(_, uid, _)| uid),
            allocation,
            reserved: claim::consumers(tree).into_iter().map(|it| it.uid).collect(),
        };
        if let Some(row) = self.claims.get_mut(&key) {
            row.told = Some(told);
        }
        let freed = self.settle(&key) || freed;
        self.news(&key, freed)
    }

    /// A claim is gone.
    pub fn claim_gone(&mut self, key: &ClaimKey) -> News {
        self.draft = None;
        let Some(row) = self.claims.get_mut(key) else { return News::default() };
        let old = row.told.take();
        let freed = old.as_ref().is_some_and(|it| it.allocation.is_some());
        self.let_go(old);
        let freed = self.settle(key) || freed;
        self.news(key, freed)
    }

    fn news(&mut self, key: &ClaimKey, everybody: bool) -> News {
        let pods = self.waiting.remove(key).unwrap_or_default().into_keys().collect();
        News { everybody, pods }
    }

    fn let_go(&mut self, old: Option<Told>) {
        if let Some(given) = old.and_then(|it| it.allocation) {
            self.inventory.give_back(&given.numbers);
        }
    }

    /// Gives back what is assumed of a claim and can be had by nobody any more; forgets a claim of which nothing is
    /// left to know. Whether devices became free.
    pub(super) fn settle(&mut self, key: &ClaimKey) -> bool {
        let Some(row) = self.claims.get_mut(key) else { return false };
        let told = row.told.as_ref();
        if let Some(assumed) = &mut row.assumed {
            // What was meant for another state of the claim cannot be written any more.
            let may_come = |revision| told.is_some_and(|it| it.revision == revision);
            assumed.sent = assumed.sent.filter(|revision| may_come(*revision));
        }
        if row.assumed.as_ref().is_none_or(|it| it.sent.is_none()) {
            self.unsure.remove(key);
        }
        let written = told.is_some_and(|it| it.allocation.is_some());
        let useless = written || told.is_none();
        let over = row.assumed.take_if(|it| it.sent.is_none() && (useless || it.pods.is_empty()));
        if row.told.is_none() && row.users.is_empty() {
            self.claims.remove(key);
        }
        let Some(assumed) = over else { return false };
        self.inventory.give_back(&assumed.numbers);
        !written
    }
}
