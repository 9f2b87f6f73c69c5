//! Compares what two embedded servers store after the same scenarios.
//!
//! # Invariants
//!
//! - The objects of a scenario are compared right after it, in its namespace; all other objects once, after the last scenario.

use super::{ServedKinds, StoredObjects};
use crate::differential::{ApiClient, Difference, compare_trees};
use crate::lifecycle::RECOMPARE_INTERVAL;

/// Comparisons before a difference counts: controllers may still be writing.
const POLLS_MAX: u32 = 5;

/// The kinds that two embedded servers serve.
pub struct StoreComparison([ServedKinds; 2]);

impl StoreComparison {
    /// Reads the discovery of both servers; CRDs must be established before.
    pub fn new([local, outside]: [&ApiClient; 2]) -> Result<StoreComparison, String> {
        Ok(StoreComparison([ServedKinds::of(local)?, ServedKinds::of(outside)?]))
    }

    /// Returns the differences in a namespace and among the cluster-scoped objects that carry its name, after giving controllers time to
    /// converge.
    pub fn differences(&self, servers: [&ApiClient; 2], namespace: &str) -> Result<Vec<Difference>, String> {
        compare_until_equal(|| {
            let of = |n: usize| self.0[n].of_namespace(servers[n], namespace);
            Ok(compare_trees(&of(0)?, &of(1)?))
        })
    }

    /// Returns the differences outside the namespaces of scenarios, which are those that `is_scenario` accepts.
    pub fn differences_elsewhere(
        &self,
        servers: [&ApiClient; 2],
        is_scenario: impl Fn(&str) -> bool,
    ) -> Result<Vec<Difference>, String> {
        compare_until_equal(|| {
            let of = |n: usize| self.0[n].stores(servers[n]);
            Ok(compared(&of(0)?, &of(1)?, &is_scenario))
        })
    }
}

fn compare_until_equal(
    compare: impl Fn() -> Result<Vec<Difference>, String>,
) -> Result<Vec<Difference>, String> {
    let mut found = compare()?;
    for _ in 1..POLLS_MAX {
        if found.is_empty() {
            break;
        }
        std::thread::sleep(RECOMPARE_INTERVAL);
        found = compare()?;
    }
    Ok(found)
}

fn compared(
    here: &StoredObjects,
    there: &StoredObjects,
    is_scenario: &impl Fn(&str) -> bool,
) -> Vec<Difference> {
    let of = |stores: &StoredObjects, name: &str| stores.get(name).cloned().unwrap_or_default();
    let mut spaces: Vec<&String> =
        here.keys().chain(there.keys()).filter(|name| !is_scenario(name)).collect();
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
    fn objects_outside_of_scenarios_are_compared() {
        let stores = |pairs: &[(&str, i64)]| -> StoredObjects {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), tree!({"a": Tree::from(*value)}))).collect()
        };
        let (here, there) =
            (stores(&[("", 1), ("set-1", 1), ("x", 1)]), stores(&[("", 2), ("set-1", 2), ("x", 1)]));
        let found = compared(&here, &there, &|name: &str| name.starts_with("set-"));
        assert_eq!(found.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["\"\": .a"]);
    }
}
