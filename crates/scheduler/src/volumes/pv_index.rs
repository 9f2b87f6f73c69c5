//! PersistentVolumes indexed by `claimRef` and by storage class, so that matching a claim does not scan all volumes.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

use super::facts::{ClaimFacts, ClaimKey, VolumeFacts};

#[derive(Debug, Default)]
pub struct PvIndex {
    all: BTreeMap<Text, VolumeFacts>,
    /// Volumes without `claimRef`, by storage class.
    open: BTreeMap<Text, BTreeSet<Text>>,
    /// Volumes with `claimRef`, by claim.
    meant: BTreeMap<ClaimKey, BTreeSet<Text>>,
}

impl PvIndex {
    #[must_use]
    pub fn get(&self, name: &Text) -> Option<&VolumeFacts> {
        self.all.get(name)
    }

    /// Replaces a volume (`None` deletes it) and returns the old one.
    pub fn put(&mut self, name: &Text, facts: Option<VolumeFacts>) -> Option<VolumeFacts> {
        let old = self.all.remove(name);
        match &old {
            Some(VolumeFacts { reserved: Some(reserved), .. }) => {
                drop_from(&mut self.meant, &reserved.key, name);
            }
            Some(old) => drop_from(&mut self.open, &old.class, name),
            None => {}
        }
        if let Some(facts) = facts {
            let names = match &facts.reserved {
                Some(reserved) => self.meant.entry(reserved.key.clone()).or_default(),
                None => self.open.entry(facts.class.clone()).or_default(),
            };
            names.insert(name.clone());
            self.all.insert(name.clone(), facts);
        }
        old
    }

    /// The volumes whose `claimRef` names a claim.
    pub fn reserved_for(&self, claim: &ClaimKey) -> impl Iterator<Item = &Text> {
        self.meant.get(claim).into_iter().flatten()
    }

    /// The volumes that may match a claim: reserved ones first, then unreserved ones of its class.
    pub fn candidates(&self, claim: &ClaimFacts) -> impl Iterator<Item = &VolumeFacts> {
        let open = self.open.get(claim.class()).into_iter().flatten();
        self.reserved_for(&claim.key).chain(open).filter_map(|name| self.all.get(name))
    }
}

fn drop_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Text>>, at: &K, name: &Text) {
    if let Some(names) = index.get_mut(at) {
        names.remove(name);
        if names.is_empty() {
            index.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::{Tree, tree};

    use super::*;

    fn volume(name: &str, spec: &Tree) -> VolumeFacts {
        VolumeFacts::of(
            &tree!({"metadata": {"name": name}, "spec": spec.clone(), "status": {"phase": "Available"}}),
        )
    }

    #[test]
    fn a_claim_finds_reserved_volumes_and_available_ones_of_its_class() {
        let mut shelf = PvIndex::default();
        let for_c = tree!({"storageClassName": "other", "claimRef": {"namespace": "ns", "name": "c"}});
        let for_d = tree!({"storageClassName": "x", "claimRef": {"namespace": "ns", "name": "d"}});
        let of = |class: &str| tree!({"storageClassName": class});
        for (name, spec) in [("a", of("x")), ("b", of("y")), ("mine", for_c), ("theirs", for_d.clone())] {
            shelf.put(&name.into(), Some(volume(name, &spec)));
        }
        let claim = ClaimFacts::of(
            &tree!({"metadata": {"namespace": "ns", "name": "c"}, "spec": {"storageClassName": "x"}}),
        );
        let found = |shelf: &PvIndex| shelf.candidates(&claim).map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(found(&shelf), ["mine", "a"]);
        shelf.put(&"a".into(), Some(volume("a", &for_d)));
        assert_eq!(found(&shelf), ["mine"], "it was given to another");
        shelf.put(&"a".into(), Some(volume("a", &of("x"))));
        shelf.put(&"mine".into(), None);
        assert_eq!(found(&shelf), ["a"], "one came back, the other is gone");
    }
}
