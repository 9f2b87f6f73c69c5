//! Indexes of claims by volume, storage class and pod.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::ApiObject;
use muster_api::consts::storage;
use muster_api::meta;
use muster_api::time::Time;
use muster_scheduler::volumes::{ClaimFacts, ClaimKey, PvIndex, StorageClassFacts, VolumeFacts};
use muster_tree::Text;

/// Indexes over the volume caches.
#[derive(Debug, Default)]
pub struct Known {
    /// Volumes.
    pub volumes: PvIndex,
    /// Classes by name.
    pub classes: BTreeMap<Text, StorageClassFacts>,
    /// Default storage classes, by creation time and then by name in reverse order.
    defaults: BTreeMap<Text, Time>,
    /// Unbound claims, by class.
    pending: BTreeMap<Text, BTreeSet<ClaimKey>>,
    /// Claims that name a volume.
    naming: BTreeMap<Text, BTreeSet<ClaimKey>>,
    /// The indexed class and volume of each claim.
    claims: BTreeMap<ClaimKey, (Option<Text>, Text)>,
    /// Pods that use a claim.
    users: BTreeMap<ClaimKey, BTreeSet<Text>>,
}

impl Known {
    /// A claim changed.
    pub fn claim(&mut self, key: &ClaimKey, after: Option<&ApiObject>) {
        if let Some((class, volume)) = self.claims.remove(key) {
            drop_from(&mut self.pending, &class.unwrap_or_default(), key);
            drop_from(&mut self.naming, &volume, key);
        }
        let Some(facts) = after.map(|it| ClaimFacts::of(&it.tree)) else { return };
        if !facts.is_bound() {
            let class = facts.class.clone().unwrap_or_default();
            self.pending.entry(class).or_default().insert(key.clone());
        }
        if !facts.volume.is_empty() {
            self.naming.entry(facts.volume.clone()).or_default().insert(key.clone());
        }
        self.claims.insert(key.clone(), (facts.class, facts.volume));
    }

    /// A volume changed; returns the class of the claims that it may match now.
    pub fn volume(&mut self, name: &Text, after: Option<&ApiObject>) -> Option<Text> {
        let facts = after.map(|it| VolumeFacts::of(&it.tree));
        let old = self.volumes.put(name, facts);
        let facts = self.volumes.get(name)?;
        let free = facts.available && facts.reserved.is_none() && old.as_ref() != Some(facts);
        free.then(|| facts.class.clone())
    }

    /// A class changed.
    pub fn class(&mut self, name: &Text, after: Option<&ApiObject>) {
        self.classes.remove(name);
        self.defaults.remove(name);
        if let Some(class) = after {
            self.classes.insert(name.clone(), StorageClassFacts::of(&class.tree));
            if meta::annotation(&class.tree, storage::DEFAULT_CLASS) == Some("true") {
                self.defaults.insert(name.clone(), meta::creation_timestamp(&class.tree).unwrap_or_default());
            }
        }
    }

    /// The default storage class: the newest one, then the first by name, as upstream.
    pub fn default_class(&self) -> Option<&Text> {
        let mut best: Option<(&Text, &Time)> = None;
        for (name, made) in &self.defaults {
            if best.is_none_or(|(_, youngest)| made > youngest) {
                best = Some((name, made));
            }
        }
        best.map(|(name, _)| name)
    }

    /// Unbound claims of this class or without a class.
    pub fn pending(&self, class: Option<&Text>) -> impl Iterator<Item = &ClaimKey> {
        let none = Text::new();
        let of = |class: &Text| self.pending.get(class).into_iter().flatten();
        class.map(of).into_iter().flatten().chain(of(&none))
    }

    /// Claims that name a volume.
    pub fn naming(&self, volume: &Text) -> impl Iterator<Item = &ClaimKey> {
        self.naming.get(volume).into_iter().flatten()
    }

    /// The pods that use a claim.
    pub fn users(&self, namespace: &Text, claim: &Text) -> impl Iterator<Item = &Text> {
        self.users.get(&(namespace.clone(), claim.clone())).into_iter().flatten()
    }

    /// A pod uses a claim.
    pub fn r#use(&mut self, namespace: &Text, claim: &Text, pod: &Text) {
        self.users.entry((namespace.clone(), claim.clone())).or_default().insert(pod.clone());
    }

    /// A pod no longer uses a claim.
    pub fn unuse(&mut self, namespace: &Text, claim: &Text, pod: &Text) {
        drop_from(&mut self.users, &(namespace.clone(), claim.clone()), pod);
    }
}

fn drop_from<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, at: &K, value: &V) {
    if let Some(all) = index.get_mut(at) {
        all.remove(value);
        if all.is_empty() {
            index.remove(at);
        }
    }
}
