//! The book of volumes: who has which, and who may have which where.
//!
//! A pod that is put on a node takes for each claim without a volume either a free volume or the promise that one is
//! made there. Both count at once, before anybody has written anything: the next pod finds them taken.
//!
//! # Invariants
//!
//! - [`Volumes::take`] undoes [`Volumes::put`] exactly: a cycle that fails is undone in reverse.
//! - A volume is promised to one claim at most, and a claim is promised one volume or one node.
//! - Pods that share a claim share what it is promised.
//!
//! # Deliberately absent
//!
//! Disks that pods name without a claim, and capacities that drivers publish: nobody here has either.

mod facts;
mod find;
mod fit;
mod shelf;
mod wants;

use std::collections::BTreeMap;

use muster_api::node::NodeFacts;
use muster_tree::Text;

use crate::asker::Asker as AnyAsker;
use crate::pod::PodKey;
use crate::world::PodId;

pub use facts::{ClaimFacts, ClaimKey, ClassFacts, Reserved, VolumeFacts};
pub use fit::{From, best, has_modes};
pub use shelf::Shelf;
pub use wants::{Wants, Wrong};

/// A pod that asks for volumes.
pub type Asker<'a> = AnyAsker<'a, Wants>;

/// What has to be so before a pod may be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// The volume is given to the claim.
    Bind {
        /// The claim.
        claim: ClaimKey,
        /// The volume.
        volume: Text,
    },
    /// A volume is made for the claim.
    Provision {
        /// The claim.
        claim: ClaimKey,
        /// For pods on this node.
        node: Text,
    },
    /// What was promised cannot be had any more.
    Hopeless,
}

/// What a claim is promised.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Promise {
    /// This volume.
    Volume(Text),
    /// A volume that is made for this node.
    Made(Text),
}

/// A promise, and the pods that rely on it.
#[derive(Debug)]
struct Promised {
    what: Promise,
    pods: Vec<PodKey>,
    /// Whoever was to make the volume gave up.
    failed: bool,
}

/// A pod that is where it is.
#[derive(Debug)]
struct Placed {
    node: Text,
    /// Claims that it relies on a promise for.
    promised: Vec<ClaimKey>,
    /// Whether it cannot have what it wants there.
    hopeless: bool,
}

/// The book.
#[derive(Debug, Default)]
pub struct Volumes {
    claims: BTreeMap<ClaimKey, ClaimFacts>,
    volumes: Shelf,
    classes: BTreeMap<Text, ClassFacts>,
    /// How many volumes of a driver a node may have, by node and driver.
    limits: BTreeMap<Text, BTreeMap<Text, i64>>,
    placed: BTreeMap<PodId, Placed>,
    /// How many pods use a claim, by node: only of placed pods.
    users: BTreeMap<ClaimKey, BTreeMap<Text, i32>>,
    promises: BTreeMap<ClaimKey, Promised>,
    /// Volumes that are promised.
    taken: BTreeMap<Text, ClaimKey>,
}

impl Volumes {
    /// A claim is there or changed (`None`: is gone); whether that may help anybody.
    pub fn claim(&mut self, key: &ClaimKey, facts: Option<ClaimFacts>) -> bool {
        let before = self.claims.get(key);
        if before == facts.as_ref() {
            return false;
        }
        let given_up = before.is_some_and(|it| !it.node.is_empty())
            && facts.as_ref().is_none_or(|it| it.node.is_empty() && !it.is_bound());
        if given_up && let Some(promised) = self.promises.get_mut(key) {
            promised.failed = true;
        }
        replace(&mut self.claims, key, facts)
    }

    /// A volume is there or changed (`None`: is gone); whether that may help anybody.
    pub fn volume(&mut self, name: &Text, facts: Option<VolumeFacts>) -> bool {
        let there = facts.is_some();
        let same = self.volumes.get(name) == facts.as_ref();
        if !same {
            self.volumes.put(name, facts);
        }
        there && !same
    }

    /// A storage class is there or changed (`None`: is gone); whether that may help anybody.
    pub fn class(&mut self, name: &Text, facts: Option<ClassFacts>) -> bool {
        replace(&mut self.classes, name, facts)
    }

    /// How many volumes of which driver a node may have; whether that may help anybody.
    pub fn limits(&mut self, node: &Text, limits: Option<BTreeMap<Text, i64>>) -> bool {
        replace(&mut self.limits, node, limits)
    }

    /// The pods that rely on what a claim is promised.
    #[must_use]
    pub fn waiting_for(&self, claim: &ClaimKey) -> &[PodKey] {
        self.promises.get(claim).map(|it| it.pods.as_slice()).unwrap_or_default()
    }

    /// The claim that a volume is promised to.
    #[must_use]
    pub fn promised_to(&self, volume: &Text) -> Option<&ClaimKey> {
        self.taken.get(volume)
    }

    /// The pod is taken to be on the node of this name; its facts are known when we chose it.
    pub fn put(&mut self, asker: &Asker<'_>, node: &Text, facts: Option<&NodeFacts>) {
        if asker.wants.is_empty() {
            return;
        }
        let chosen = facts.filter(|_| !asker.bound);
        let found = chosen.map_or(Ok(Vec::new()), |facts| self.promises_for(asker, facts));
        // Whoever was put there before something changed is looked at again before it is bound.
        let hopeless = found.is_err();
        let found = found.unwrap_or_default();
        let promised = found.iter().map(|(claim, _)| claim.clone()).collect();
        for (claim, what) in found {
            if let Promise::Volume(volume) = &what {
                self.taken.insert(volume.clone(), claim.clone());
            }
            let entry = self.promises.entry(claim);
            let entry = entry.or_insert_with(|| Promised { what, pods: Vec::new(), failed: false });
            entry.pods.push(asker.key.clone());
        }
        self.placed.insert(asker.id, Placed { node: node.clone(), promised, hopeless });
        self.count(asker, node, 1);
    }

    /// The reverse of [`Volumes::put`].
    pub fn take(&mut self, asker: &Asker<'_>) {
        let Some(placed) = self.placed.remove(&asker.id) else { return };
        self.count(asker, &placed.node, -1);
        for claim in placed.promised {
            let promised = self.promises.get_mut(&claim).expect("a pod relies on a promise that is there");
            let at = promised.pods.iter().rposition(|pod| pod == asker.key);
            promised.pods.remove(at.expect("a pod that relies on a promise is on its list"));
            if promised.pods.is_empty() {
                if let Promise::Volume(volume) = &promised.what {
                    self.taken.remove(volume);
                }
                self.promises.remove(&claim);
            }
        }
    }

    /// As if the pod were there (`sign` 1) or not (-1), while it is tried who might make room.
    pub fn pretend(&mut self, asker: &Asker<'_>, sign: i32) {
        let node = self.placed.get(&asker.id).map(|it| it.node.clone()).unwrap_or_default();
        self.count(asker, &node, sign);
    }

    /// What has to be so before the pod may be bound.
    #[must_use]
    pub fn errands(&self, asker: &Asker<'_>) -> Vec<Errand> {
        let Some(placed) = self.placed.get(&asker.id) else { return Vec::new() };
        if placed.hopeless {
            return vec![Errand::Hopeless];
        }
        placed.promised.iter().filter_map(|claim| self.errand(claim)).collect()
    }

    fn errand(&self, key: &ClaimKey) -> Option<Errand> {
        let promised = self.promises.get(key)?;
        let Some(claim) = self.claims.get(key).filter(|it| !it.deleting && !promised.failed) else {
            return Some(Errand::Hopeless);
        };
        match &promised.what {
            Promise::Volume(volume) if claim.is_bound() && claim.volume != *volume => Some(Errand::Hopeless),
            _ if claim.is_bound() => None,
            Promise::Volume(volume) => Some(Errand::Bind { claim: key.clone(), volume: volume.clone() }),
            Promise::Made(node) => Some(Errand::Provision { claim: key.clone(), node: node.clone() }),
        }
    }

    fn count(&mut self, asker: &Asker<'_>, node: &Text, sign: i32) {
        for want in &asker.wants.claims {
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

/// Puts a fact in the place of another; whether it is another one. What goes helps nobody.
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
