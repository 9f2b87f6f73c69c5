//! Shares: how much of what could be lent a node has borrowed, by its weight.
//!
//! # Invariants
//!
//! - Shares are compared exactly, as fractions: equal shares are equal, however they came about.
//! - A node within its own quota has no share; so has a root, which has nobody to borrow from.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::amount::{minus, plus};
use super::spec::WEIGHT_ONE;
use super::tree::{NodeId, QuotaTree, Usage};

/// The reported value of a share that nothing exceeds.
pub const INFINITE: i64 = i64::MAX;

/// A node's share, in thousandths of what its parent can lend, divided by its weight.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Borrows with a weight of zero: above every share of a node that weighs something.
    infinite: bool,
    over: u128,
    under: u128,
}

impl Share {
    /// No share.
    pub const NONE: Share = Share { infinite: false, over: 0, under: 1 };

    /// The share of a node.
    #[must_use]
    pub fn of(tree: &QuotaTree, usage: &Usage, node: NodeId) -> Share {
        let Some(parent) = tree.nodes[node].parent else { return Share::NONE };
        let mut by_resource: BTreeMap<&str, (u128, i64)> = BTreeMap::new();
        for (pair, (_, resource)) in tree.pairs.iter().enumerate() {
            let beyond = minus(tree.used(usage, node, pair), tree.subtree_quota(node, pair)).max(0);
            let (borrowed, lendable) = by_resource.entry(resource).or_default();
            *borrowed += u128::from(beyond.unsigned_abs());
            *lendable = plus(*lendable, tree.potential(parent, pair));
        }
        let parts = by_resource.values().filter(|(_, lendable)| *lendable > 0);
        let highest = parts
            .map(|&(borrowed, lendable)| Share {
                infinite: false,
                over: borrowed * 1000,
                under: u128::from(lendable.unsigned_abs()),
            })
            .max()
            .unwrap_or(Share::NONE);
        highest.weighted(tree.nodes[node].weight)
    }

    fn weighted(self, weight: u64) -> Share {
        match weight {
            _ if self.over == 0 => Share::NONE,
            0 => Share { infinite: true, ..self },
            _ => Share {
                over: self.over * u128::from(WEIGHT_ONE),
                under: self.under * u128::from(weight),
                ..self
            },
        }
    }

    /// The value that a status shows: rounded up, the largest number if there is no end to it.
    #[must_use]
    pub fn reported(self) -> i64 {
        if self.infinite {
            INFINITE
        } else {
            i64::try_from(self.over.div_ceil(self.under)).unwrap_or(INFINITE)
        }
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        self.infinite
            .cmp(&other.infinite)
            .then_with(|| compare((self.over, self.under), (other.over, other.under)))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

/// Compares two fractions by their whole parts, then by what is left, turned upside down: products of large numbers
/// would not fit.
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
