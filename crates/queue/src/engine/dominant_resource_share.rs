//! Dominant resource share: how much of the lendable quota a node borrows, divided by its weight.
//!
//! # Guarantees
//!
//! - Shares are compared exactly, as fractions.
//! - A node within its nominal quota has share 0; so has a root, which cannot borrow.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::amount::{minus, plus};
use super::spec::WEIGHT_ONE;
use super::tree::{QuotaNodeId, QuotaTree, Usage};

/// `weightedShare` of a node that borrows with weight 0.
pub const INFINITE: i64 = i64::MAX;

/// Kueue's `dominantResourceShare`: the maximum over all resources of borrowed by lendable quota, in thousandths,
/// divided by the weight.
#[derive(Debug, Clone, Copy)]
pub struct DominantResourceShare {
    /// Borrows with weight 0: above every finite share.
    infinite: bool,
    numerator: u128,
    denominator: u128,
}

impl DominantResourceShare {
    pub const NONE: DominantResourceShare =
        DominantResourceShare { infinite: false, numerator: 0, denominator: 1 };

    /// The share of a node; the largest over all resources.
    #[must_use]
    pub fn of(tree: &QuotaTree, usage: &Usage, node: QuotaNodeId) -> DominantResourceShare {
        let Some(parent) = tree.nodes[node].parent else { return DominantResourceShare::NONE };
        let mut by_resource: BTreeMap<&str, (u128, i64)> = BTreeMap::new();
        for (pair, (_, resource)) in tree.flavor_resources.iter().enumerate() {
            // Borrowed from the parent: usage beyond the node's own subtree quota.
            let beyond = minus(tree.used(usage, node, pair), tree.subtree_quota(node, pair)).max(0);
            let (borrowed, lendable) = by_resource.entry(resource).or_default();
            *borrowed += u128::from(beyond.unsigned_abs());
            // All flavors of a resource count together, as in Kueue.
            *lendable = plus(*lendable, tree.potential_available(parent, pair));
        }
        let parts = by_resource.values().filter(|(_, lendable)| *lendable > 0);
        let highest = parts
            .map(|&(borrowed, lendable)| DominantResourceShare {
                infinite: false,
                numerator: borrowed * 1000,
                denominator: u128::from(lendable.unsigned_abs()),
            })
            .max()
            .unwrap_or(DominantResourceShare::NONE);
        highest.weighted(tree.nodes[node].weight)
    }

    fn weighted(self, weight: u64) -> DominantResourceShare {
        match weight {
            _ if self.numerator == 0 => DominantResourceShare::NONE,
            0 => DominantResourceShare { infinite: true, ..self },
            _ => DominantResourceShare {
                numerator: self.numerator * u128::from(WEIGHT_ONE),
                denominator: self.denominator * u128::from(weight),
                ..self
            },
        }
    }

    /// The value of `weightedShare`: rounded up.
    #[must_use]
    pub fn reported(self) -> i64 {
        if self.infinite {
            INFINITE
        } else {
            i64::try_from(self.numerator.div_ceil(self.denominator)).unwrap_or(INFINITE)
        }
    }
}

impl Ord for DominantResourceShare {
    fn cmp(&self, other: &DominantResourceShare) -> Ordering {
        self.infinite
            .cmp(&other.infinite)
            .then_with(|| compare((self.numerator, self.denominator), (other.numerator, other.denominator)))
    }
}

impl PartialOrd for DominantResourceShare {
    fn partial_cmp(&self, other: &DominantResourceShare) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for DominantResourceShare {
    fn eq(&self, other: &DominantResourceShare) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for DominantResourceShare {}

/// Compares two fractions by their integer parts, then the inverse of the remainders: cross products of large
/// numbers would overflow.
fn compare(mut a: (u128, u128), mut b: (u128, u128)) -> Ordering {
    loop {
        let whole = (a.0 / a.1).cmp(&(b.0 / b.1));
        let (rest_a, rest_b) = (a.0 % a.1, b.0 % b.1);
        match (whole, rest_a, rest_b) {
            (Ordering::Less | Ordering::Greater, _, _) => return whole,
            (Ordering::Equal, 0, 0) => return Ordering::Equal,
            (Ordering::Equal, 0, _) => return Ordering::Less,
            (Ordering::Equal, _, 0) => return Ordering::Greater,
            (Ordering::Equal, _, _) => (a, b) = ((b.1, rest_b), (a.1, rest_a)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_compare_exactly() {
        let big = u128::MAX / 3;
        for (a, b, want) in [
            ((1, 3), (2, 6), Ordering::Equal),
            ((1, 3), (333, 1000), Ordering::Greater),
            ((7, 2), (10, 3), Ordering::Greater),
            ((5, 2), (5, 2), Ordering::Equal),
            ((0, 7), (1, 1000), Ordering::Less),
            ((big, big - 1), (big + 1, big), Ordering::Greater),
            ((big - 1, big), (big, big + 1), Ordering::Less),
        ] {
            assert_eq!(compare(a, b), want, "{a:?} {b:?}");
            assert_eq!(compare(b, a), want.reverse(), "{b:?} {a:?}");
        }
    }
}
