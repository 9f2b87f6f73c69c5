//! Whether two embedded servers on which the same scenarios were played store the same.
//!
//! # Invariants
//!
//! - What a scenario left is compared right after it, in its own namespace; what belongs to no scenario is compared once,
//!   when all have been played.

use super::{Kinds, Stores};
use crate::differential::{Difference, Server, compare_trees};
use crate::lives::LOOK_PAUSE;

/// How often both are read until nothing changes any more.
const LOOKS: u32 = 5;

/// The kinds that each of two embedded servers serves.
pub struct Stored([Kinds; 2]);

impl Stored {
    /// Reads which kinds both serve: CRDs must be there before.
    pub fn new([local, outside]: [&Server; 2]) -> Result<Stored, String> {
        Ok(Stored([Kinds::of(local)?, Kinds::of(outside)?]))
    }

    /// What differs in a namespace, and among the cluster-scoped objects that carry its name, when controllers had time to
    /// end what they began.
    pub fn differences(&self, servers: [&Server; 2], namespace: &str) -> Result<Vec<Difference>, String> {
        looked_at_again(|| {
            let of = |n: usize| self.0[n].of_namespace(servers[n], namespace);
            Ok(compare_trees(&of(0)?, &of(1)?))
        })
    }

    /// What differs outside the namespaces of scenarios, which are those that `is_played` accepts.
    pub fn differences_elsewhere(
        &self,
        servers: [&Server; 2],
        is_played: impl Fn(&str) -> bool,
    ) -> Result<Vec<Difference>, String> {
        looked_at_again(|| {
            let of = |n: usize| self.0[n].stores(servers[n]);
            Ok(compared(&of(0)?, &of(1)?, &is_played))
        })
    }
}

fn looked_at_again(compare: impl Fn() -> Result<Vec<Difference>, String>) -> Result<Vec<Difference>, String> {
    let mut found = compare()?;
    for _ in 1..LOOKS {
        if found.is_empty() {
            break;
        }
        std::thread::sleep(LOOK_PAUSE);
        found = compare()?;
    }
    Ok(found)
}

fn compared(here: &Stores, there: &Stores, is_played: &impl Fn(&str) -> bool) -> Vec<Difference> {
    let of = |stores: &Stores, name: &str| stores.get(name).cloned().unwrap_or_default();
    let mut spaces: Vec<&String> = here.keys().chain(there.keys()).filter(|name| !is_played(name)).collect();
    spaces.sort();
    spaces.dedup();
    let found = spaces.into_iter().flat_map(|name| {
        let found = compare_trees(&of(here, name), &of(there, name));
        found.into_iter().map(move |it| Difference { path: format!("{name:?}: {}", it.path), ..it })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::{Tree, tree};

    use super::*;

    #[test]
    fn what_is_stored_outside_of_scenarios_is_compared() {
        let stores = |pairs: &[(&str, i64)]| -> Stores {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), tree!({"a": Tree::from(*value)}))).collect()
        };
        let (here, there) =
            (stores(&[("", 1), ("set-1", 1), ("x", 1)]), stores(&[("", 2), ("set-1", 2), ("x", 1)]));
        let found = compared(&here, &there, &|name: &str| name.starts_with("set-"));
        assert_eq!(found.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["\"\": .a"]);
    }
}
