//! The book of devices: who has which, and who may have which where.
//!
//! What claims say is the truth; what we decided but nobody has written yet is assumed beside it. The search itself
//! is the inventory's (`muster_devices`).
//!
//! # Invariants
//!
//! - [`Devices::take`] undoes [`Devices::put`] exactly: a cycle that fails is undone in reverse.
//! - A device is held by one claim at most, told or assumed; administrators hold nothing.
//! - Devices that may have been written into a claim, by a call whose answer we do not know, stay that claim's until
//!   the claim is heard of again: nobody else is given them meanwhile.
//! - A claim that several pods share is given devices once; those who come later go where these can be used.
//!
//! # Deliberately absent
//!
//! Preemption: a device becomes free when its claim is given back, which takes longer than an eviction. So no node is
//! ever cleared for the sake of devices.

mod claims;
mod errand;
mod wants;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use muster_api::claim::CONSUMERS_MAX;
use muster_api::node::NodeFacts;
use muster_api::port::Uid;
use muster_devices::{Allocation, Claim, Class, Inventory, Trouble};
use muster_tree::{Text, Tree};

use crate::asker::Asker as AnyAsker;
use crate::pod::PodKey;
use crate::reason::Reason;
use crate::world::PodId;

pub use errand::{Does, Errand};
pub use wants::{Want, Wants};

use claims::{Assumed, ClaimRow};

/// A pod that asks for devices.
pub type Asker<'a> = AnyAsker<'a, Wants>;
/// A claim by namespace and name.
pub type ClaimKey = (Text, Text);

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It has no such devices left.
    Nothing,
    /// The devices of a claim cannot be used from there.
    Elsewhere,
    /// It has none, and some pools contradict themselves.
    Invalid,
    /// No answer could be found; [`Devices::broken`] has the words.
    Broken,
}

impl Wrong {
    /// In words.
    #[must_use]
    pub fn reason(self) -> Reason {
        Reason::Claims(Text::from(match self {
            Wrong::Nothing | Wrong::Broken => "cannot allocate all claims",
            Wrong::Elsewhere => "resourceclaim not available on the node",
            Wrong::Invalid => "invalid resource pools were encountered",
        }))
    }

    /// Whether evicting pods there could help.
    #[must_use]
    pub fn resolvable(self) -> bool {
        false
    }
}

/// Whom a change may help.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Everybody who waits for devices.
    pub everybody: bool,
    /// These pods.
    pub pods: Vec<PodKey>,
}

/// The book.
#[derive(Debug, Default)]
pub struct Devices {
    inventory: Inventory,
    claims: BTreeMap<ClaimKey, ClaimRow>,
    /// Claims to which devices were sent and that have not been heard of since.
    unsure: BTreeSet<ClaimKey>,
    /// Pods that were refused or gated, by the claims they want.
    waiting: BTreeMap<ClaimKey, BTreeMap<PodKey, Uid>>,
    /// Where pods are that we chose the node for.
    spots: HashMap<PodId, Arc<NodeFacts>>,
    broken: Option<Text>,
    /// The last thing found: choosing a node and taking it search once.
    draft: Option<(PodId, Text, Vec<Allocation>)>,
}

impl Devices {
    /// A slice is there, or changed.
    pub fn slice(&mut self, tree: &Tree) -> News {
        self.draft = None;
        self.inventory.slice(tree);
        News { everybody: true, pods: Vec::new() }
    }

    /// A slice is gone. That helps nobody, except where two slices contradicted each other.
    pub fn slice_gone(&mut self, name: &Text) -> News {
        self.draft = None;
        self.inventory.slice_gone(name);
        News { everybody: true, pods: Vec::new() }
    }

    /// A class is there, or changed.
    pub fn class(&mut self, tree: &Tree) -> News {
        self.draft = None;
        self.inventory.class(Class::of(tree));
        News { everybody: true, pods: Vec::new() }
    }

    /// A class is gone.
    pub fn class_gone(&mut self, name: &Text) -> News {
        self.draft = None;
        self.inventory.class_gone(name);
        News::default()
    }

    /// Whether the pod is not even looked at yet: a claim of it is not there, or going. The real scheduler says nothing
    /// of such a pod. Whoever asks is told when one of its claims changes.
    pub fn gate(&mut self, asker: &Asker<'_>) -> bool {
        self.draft = None;
        for want in &asker.wants.claims {
            if let Want::Claim { name, .. } = want {
                let key = (asker.key.0.clone(), name.clone());
                let pods = self.waiting.entry(key).or_default();
                pods.insert(asker.key.clone(), asker.wants.uid.clone());
            }
        }
        asker.wants.claims.iter().any(|want| self.is_missing(asker, want))
    }

    fn is_missing(&self, asker: &Asker<'_>, want: &Want) -> bool {
        let Want::Claim { name, owned } = want else { return true };
        let told = self.claims.get(&(asker.key.0.clone(), name.clone())).and_then(|row| row.told.as_ref());
        told.is_none_or(|it| it.deleting || (*owned && it.owner.as_ref() != Some(&asker.wants.uid)))
    }

    /// The pod waits for nothing any more.
    pub fn forget(&mut self, asker: &Asker<'_>) {
        for key in asker.claim_keys() {
            if let Some(pods) = self.waiting.get_mut(&key) {
                pods.remove(asker.key);
                if pods.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }

    /// What keeps the pod from every node.
    #[must_use]
    pub fn hold(&self, asker: &Asker<'_>) -> Option<Text> {
        for key in asker.claim_keys() {
            let row = self.claims.get(&key);
            let Some(told) = row.and_then(|row| row.told.as_ref()) else {
                return Some(format!("resourceclaim \"{}\" not found", key.1).into());
            };
            let reserved = told.reserved.contains(&asker.wants.uid);
            if told.reserved.len() >= CONSUMERS_MAX && !reserved {
                return Some("resourceclaim in use".into());
            }
            if row.is_some_and(|row| row.reach().is_some()) {
                continue;
            }
            for ask in told.spec.asks() {
                if !self.inventory.has_class(&ask.class) {
                    let (name, class) = (&ask.name, &ask.class);
                    return Some(format!("request {name}: device class {class} does not exist").into());
                }
            }
        }
        None
    }

    /// What the pod's claims ask for, when that is all that matters of them: none has devices, or anybody's.
    #[must_use]
    pub fn shape(&self, asker: &Asker<'_>) -> Option<Vec<Tree>> {
        let plain = |key: &ClaimKey| {
            let row = self.claims.get(key)?;
            let told = row.told.as_ref().filter(|it| row.reach().is_none() && it.reserved.is_empty())?;
            Some(told.spec_tree.clone())
        };
        asker.claim_keys().iter().map(plain).collect()
    }

    /// What is wrong with a node.
    pub fn wrong(&mut self, asker: &Asker<'_>, node: &NodeFacts) -> Option<Wrong> {
        if let Some((id, name, _)) = &self.draft
            && *id == asker.id
            && *name == node.name
        {
            return None;
        }
        match self.search(asker, node) {
            Ok(found) => {
                self.draft = Some((asker.id, node.name.clone(), found));
                None
            }
            Err(wrong) => Some(wrong),
        }
    }

    /// Whether it depends on the node how good the choices are that the pod's claims get.
    #[must_use]
    pub fn prefers(&self, asker: &Asker<'_>) -> bool {
        asker.claim_keys().iter().filter_map(|key| self.claims.get(key)).any(|row| {
            let lists = |it: &claims::Told| it.spec.requests.iter().any(muster_devices::Request::is_list);
            row.reach().is_none() && row.told.as_ref().is_some_and(lists)
        })
    }

    /// How good the choices are on the node that was just found to do.
    #[must_use]
    pub fn choices(&self, asker: &Asker<'_>) -> i64 {
        let draft = self.draft.as_ref().filter(|(id, ..)| *id == asker.id);
        draft.map_or(0, |(_, _, found)| found.iter().map(|it| it.choices).sum())
    }

    /// Devices for those claims of the pod that have none, in their order.
    fn search(&mut self, asker: &Asker<'_>, node: &NodeFacts) -> Result<Vec<Allocation>, Wrong> {
        let mut open: Vec<Arc<Claim>> = Vec::new();
        let mut elsewhere = false;
        for key in asker.claim_keys() {
            let row = self.claims.get(&key).ok_or(Wrong::Elsewhere)?;
            match row.reach() {
                Some(reach) => elsewhere |= reach.is_some_and(|terms| !terms.matches(node)),
                None => open.push(row.told.as_ref().ok_or(Wrong::Elsewhere)?.spec.clone()),
            }
        }
        let claims: Vec<&Claim> = open.iter().map(AsRef::as_ref).collect();
        let found = if claims.is_empty() { Ok(Vec::new()) } else { self.inventory.find(node, &claims) };
        let found = found.map_err(|trouble| match trouble {
            Trouble::Nothing => Wrong::Nothing,
            Trouble::Invalid => Wrong::Invalid,
            Trouble::Broken(why) => {
                self.broken = Some(why.into());
                Wrong::Broken
            }
        })?;
        if elsewhere { Err(Wrong::Elsewhere) } else { Ok(found) }
    }

    /// Why no answer could be found, once.
    pub fn broken(&mut self) -> Option<Text> {
        self.broken.take()
    }

    /// The pod is taken to be on the node of this name; its facts are known when we chose it. Of a pod that somebody
    /// bound already, its claims say all there is to say.
    pub fn put(&mut self, asker: &Asker<'_>, _node: &Text, facts: Option<&NodeFacts>) {
        let Some(facts) = facts.filter(|_| !asker.bound && !asker.wants.is_empty()) else { return };
        let found = match self.draft.take() {
            Some((id, name, found)) if id == asker.id && name == facts.name => found,
            _ => self.search(asker, facts).unwrap_or_default(),
        };
        self.spots.insert(asker.id, Arc::new(facts.clone()));
        let mut found = found.into_iter();
        for key in asker.claim_keys() {
            let Some(row) = self.claims.get_mut(&key) else { continue };
            if row.reach().is_none()
                && let Some(allocation) = found.next()
            {
                let numbers = self.inventory.take(&allocation.held.devices);
                row.assumed = Some(Assumed { allocation, numbers, pods: BTreeSet::new(), sent: None });
            }
            if let Some(assumed) = &mut row.assumed {
                assumed.pods.insert(asker.id);
            }
            row.users.insert(asker.id, asker.key.clone());
        }
    }

    /// The reverse of [`Devices::put`]; whether somebody may be helped by it.
    pub fn take(&mut self, asker: &Asker<'_>) -> bool {
        self.draft = None;
        if self.spots.remove(&asker.id).is_none() {
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

    /// As if the pod were there (`sign` 1) or not (-1), while it is tried who might make room: devices are not part of
    /// that.
    pub fn pretend(&mut self, _asker: &Asker<'_>, _sign: i32) {}

    /// How many devices are held, told or assumed.
    #[must_use]
    pub fn held(&self) -> usize {
        self.inventory.held()
    }
}

#[cfg(test)]
mod tests;
