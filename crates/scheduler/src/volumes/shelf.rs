//! Volumes by what claims look for: those that are meant for a claim, and free ones by class.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Text;

use super::facts::{ClaimFacts, ClaimKey, VolumeFacts};

/// All volumes there are.
#[derive(Debug, Default)]
pub struct Shelf {
    all: BTreeMap<Text, VolumeFacts>,
    /// Those that are nobody's, by class.
    open: BTreeMap<Text, BTreeSet<Text>>,
    /// Those that are meant for a claim.
    meant: BTreeMap<ClaimKey, BTreeSet<Text>>,
}

impl Shelf {
    /// The volume of a name.
    #[must_use]
    pub fn get(&self, name: &Text) -> Option<&VolumeFacts> {
        self.all.get(name)
    }

    /// Puts a volume in the place of the former one of its name (`None`: it is gone), which is returned.
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

    /// The volumes that are meant for a claim.
    pub fn meant_for(&self, claim: &ClaimKey) -> impl Iterator<Item = &Text> {
        self.meant.get(claim).into_iter().flatten()
    }

    /// The volumes that may serve a claim: those that are meant for it, and those of its class that are nobody's.
    pub fn candidates(&self, claim: &ClaimFacts) -> impl Iterator<Item = &VolumeFacts> {
        let open = self.open.get(claim.class()).into_iter().flatten();
        self.meant_for(&claim.key).chain(open).filter_map(|name| self.all.get(name))
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
    fn a_claim_finds_what_is_meant_for_it_and_what_is_free_of_its_class() {
        let mut shelf = Shelf::default();
        let for_c = tree!({"storageClassName": "other", "claimRef": {"namespace": "ns", "name": "c"}});
        let for_d = tree!({"storageClassName": "x", "claimRef": {"namespace": "ns", "name": "d"}});
        let of = |class: &str| tree!({"storageClassName": class});
        for (name, spec) in [("a", of("x")), ("b", of("y")), ("mine", for_c), ("theirs", for_d.clone())] {
            shelf.put(&name.into(), Some(volume(name, &spec)));
        }
        let claim = ClaimFacts::of(
            &tree!({"metadata": {"namespace": "ns", "name": "c"}, "spec": {"storageClassName": "x"}}),
        );
        let found = |shelf: &Shelf| shelf.candidates(&claim).map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(found(&shelf), ["mine", "a"]);
        shelf.put(&"a".into(), Some(volume("a", &for_d)));
        assert_eq!(found(&shelf), ["mine"], "it was given to another");
        shelf.put(&"a".into(), Some(volume("a", &of("x"))));
        shelf.put(&"mine".into(), None);
        assert_eq!(found(&shelf), ["a"], "one came back, the other is gone");
    }
}
