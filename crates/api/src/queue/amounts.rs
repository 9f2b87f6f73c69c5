//! Resource amounts as integers (millicores of `cpu`, whole units of everything else) and back to quantities.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};

use crate::node::amounts;

/// Amounts by resource, in the unit of [`amounts`].
pub type Amounts = BTreeMap<Text, i64>;

/// Reads a map of requested or used quantities; see [`amounts`].
#[must_use]
pub fn amounts_of(tree: Option<&Tree>) -> Amounts {
    amounts(tree.map(Tree::entries).unwrap_or_default()).into_iter().collect()
}

/// The amounts as a map of quantities.
#[must_use]
pub fn amounts_tree(amounts: &Amounts) -> Tree {
    Tree::map(amounts.iter().map(|(name, n)| (name.clone(), Tree::from(amount_text(name, *n)))))
}

/// An amount as a canonical quantity: `1500m`, `2`, `512Mi`, `3k`.
#[must_use]
pub fn amount_text(resource: &str, amount: i64) -> String {
    if resource == "cpu" && amount % 1000 != 0 {
        return format!("{amount}m");
    }
    let amount = if resource == "cpu" { amount / 1000 } else { amount };
    let units = if is_binary(resource) { BINARY } else { DECIMAL };
    let fits = |(_, size): &&(&str, i64)| amount != 0 && amount % size == 0;
    match units.iter().find(fits) {
        Some((unit, size)) => format!("{}{unit}", amount / size),
        None => amount.to_string(),
    }
}

const BINARY: &[(&str, i64)] =
    &[("Ei", 1 << 60), ("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
const DECIMAL: &[(&str, i64)] = &[
    ("E", 1_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1000),
];

/// Returns whether upstream formats a resource with binary suffixes.
fn is_binary(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::amount;

    #[test]
    fn a_value_that_is_no_quantity_counts_as_the_most_there_can_be() {
        let read = amounts_of(Some(&muster_tree::tree!({"cpu": "1e1.5", "memory": "1Gi"})));
        assert_eq!(read, [(Text::from("cpu"), i64::MAX), (Text::from("memory"), 1 << 30)].into());
    }

    #[test]
    fn amounts_are_written_as_servers_write_them() {
        for (resource, number, text) in [
            ("cpu", 1500, "1500m"),
            ("cpu", 2000, "2"),
            ("cpu", 5_000_000, "5k"),
            ("cpu", 0, "0"),
            ("memory", 1 << 30, "1Gi"),
            ("memory", 1500, "1500"),
            ("memory", 3 << 20, "3Mi"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("nvidia.com/gpu", 8, "8"),
            ("nvidia.com/gpu", 4000, "4k"),
            ("cpu", -500, "-500m"),
        ] {
            assert_eq!(amount_text(resource, number), text);
            assert_eq!(amount(resource, &text.into()), Some(number), "{text} back");
        }
    }
}
