//! Resource quantities: `500m`, `2Gi`, `1e3`.

use std::sync::OnceLock;

use muster_schema::node::{NodeId, Shape};
use muster_schema::table::Table;
use muster_tree::Tree;

/// A quantity in billionths. Saturates far beyond any real value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub i128);

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Parses a quantity; `None` when malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Quantity> {
        muster_api::quantity::nanos(text).map(Quantity)
    }

    /// The quantity of a field: text or a number.
    #[must_use]
    pub fn of(value: &Tree) -> Option<Quantity> {
        match value {
            Tree::Text(text) => Quantity::parse(text),
            Tree::Int(n) => Some(Quantity(i128::from(*n).saturating_mul(NANO))),
            Tree::Float(_) => Quantity::parse(&value.to_json()),
            _ => None,
        }
    }

    /// Whether this is a whole number.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }

    pub const ZERO: Quantity = Quantity(0);
}

/// A quantity with its notation: `1536Mi` stays, instead of `1610612736`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub value: Quantity,
    binary: bool,
}

impl Amount {
    /// Zero, without a notation.
    pub const ZERO: Amount = Amount::whole(0);

    #[must_use]
    pub const fn whole(count: i64) -> Amount {
        Amount { value: Quantity(count as i128 * NANO), binary: false }
    }

    /// The quantity of a field; `None` when malformed.
    #[must_use]
    pub fn of(value: &Tree) -> Option<Amount> {
        let binary = value.as_str().is_some_and(|text| text.ends_with('i'));
        Some(Amount { value: Quantity::of(value)?, binary })
    }

    /// The sum, in the notation of the first nonzero operand, as Go's `Quantity.Add`.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        self.changed(other, self.value.0.saturating_add(other.value.0))
    }

    /// The difference, in the same notation.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        self.changed(other, self.value.0.saturating_sub(other.value.0))
    }

    fn changed(self, other: Amount, value: i128) -> Amount {
        // Zero has no notation of its own: 0 + 512Mi is 512Mi.
        let binary = if self.value == Quantity::ZERO { other.binary } else { self.binary };
        Amount { value: Quantity(value), binary }
    }

    /// Clamps negative values to zero.
    #[must_use]
    pub fn at_least_zero(self) -> Amount {
        Amount { value: self.value.max(Quantity::ZERO), ..self }
    }

    /// Whether the value is positive.
    #[must_use]
    pub fn is_positive(self) -> bool {
        self.value > Quantity::ZERO
    }

    /// Rounds up to an integer.
    #[must_use]
    pub fn rounded_up(self) -> Amount {
        let over = self.value.0.rem_euclid(NANO);
        let value = if over == 0 { self.value.0 } else { self.value.0 - over + NANO };
        Amount { value: Quantity(value), ..self }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.value.0;
        // Below 1Ki binary notation does not exist.
        f.write_str(&if self.binary && nanos.abs() >= 1024 * NANO { binary(nanos) } else { decimal(nanos) })
    }
}

/// Canonicalizes all quantities (`1000m` becomes `1`, `2048Mi` becomes `2Gi`).
#[must_use]
pub fn canonical(table: &'static Table, id: NodeId, tree: &Tree) -> Tree {
    // Computed once: most branches of an object hold no quantity and are returned unchanged.
    static HOLDERS: OnceLock<Vec<bool>> = OnceLock::new();
    let holders = HOLDERS.get_or_init(|| holders(table));
    walk(table, holders, id, tree)
}

fn walk(table: &Table, holders: &[bool], id: NodeId, tree: &Tree) -> Tree {
    if !holders[id.0 as usize] {
        return tree.clone();
    }
    let node = &table.schema.nodes[id.0 as usize];
    match &node.shape {
        _ if node.format == "quantity" => form(tree),
        Shape::Fields(fields) => tree.map_entries(|key, value| {
            let at = fields.binary_search_by(|field| field.name.as_str().cmp(key));
            Some(at.map_or_else(|_| value.clone(), |at| walk(table, holders, fields[at].node, value)))
        }),
        Shape::Map(values) => tree.map_entries(|_, value| Some(walk(table, holders, *values, value))),
        Shape::List(item) => tree.map_items(|_, value| walk(table, holders, *item, value)),
        _ => tree.clone(),
    }
}

/// The schema nodes with a quantity at or below them. Types may be recursive, so this iterates to a fixed point.
fn holders(table: &Table) -> Vec<bool> {
    let nodes = &table.schema.nodes;
    let mut found: Vec<bool> = nodes.iter().map(|node| node.format == "quantity").collect();
    loop {
        let before = found.iter().filter(|is| **is).count();
        for (at, node) in nodes.iter().enumerate() {
            let below = |id: &NodeId| found[id.0 as usize];
            let has = match &node.shape {
                Shape::Fields(fields) => fields.iter().any(|field| below(&field.node)),
                Shape::Map(id) | Shape::List(id) => below(id),
                _ => false,
            };
            found[at] |= has;
        }
        if found.iter().filter(|is| **is).count() == before {
            return found;
        }
    }
}

/// Canonicalizes one quantity; other values are unchanged.
fn form(value: &Tree) -> Tree {
    let Some(amount) = Quantity::of(value) else {
        return value.clone();
    };
    let text = muster_api::quantity::text(value);
    // Exponents keep their notation.
    if text.contains(['e', 'E']) && !text.ends_with('E') && !text.ends_with("Ei") {
        return value.clone();
    }
    let new = if text.ends_with('i') && amount.0.abs() >= 1024 * NANO {
        binary(amount.0)
    } else {
        decimal(amount.0)
    };
    if value.as_str() == Some(new.as_str()) { value.clone() } else { Tree::from(new) }
}

fn decimal(nanos: i128) -> String {
    let mut value = nanos;
    let mut step = 0;
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    while value != 0 && value % 1000 == 0 && step + 1 < SUFFIXES.len() {
        value /= 1000;
        step += 1;
    }
    if value == 0 { "0".to_owned() } else { format!("{value}{}", SUFFIXES[step]) }
}

fn binary(nanos: i128) -> String {
    let mut value = nanos / NANO + i128::from(nanos % NANO > 0);
    let mut step = 0;
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    while value % 1024 == 0 && step + 1 < SUFFIXES.len() {
        value /= 1024;
        step += 1;
    }
    format!("{value}{}", SUFFIXES[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_one_form() {
        for (text, want) in [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("100000", "100k"),
            ("2048Mi", "2Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1e3", "1e3"),
            ("100Mi", "100Mi"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
        ] {
            assert_eq!(form(&Tree::from(text)), Tree::from(want), "{text}");
        }
        assert_eq!(form(&Tree::from(2)), Tree::from("2"));
        assert_eq!(form(&Tree::Float(0.5)), Tree::from("500m"));
    }

    #[test]
    fn amounts() {
        for (text, want) in [
            ("1", NANO),
            ("500m", NANO / 2),
            ("0.5", NANO / 2),
            ("2Ki", 2048 * NANO),
            ("1.5Gi", 3 * 512 * 1024 * 1024 * NANO),
            ("1e3", 1000 * NANO),
            ("1E", 1_000_000_000_000_000_000 * NANO),
            ("-1", -NANO),
            ("100n", 100),
            ("0.1n", 1),
            ("-1e19", -10_000_000_000_000_000_000 * NANO),
            ("8.0000000000000000000000000", 8 * NANO),
        ] {
            assert_eq!(Quantity::parse(text), Some(Quantity(want)), "{text}");
        }
        for bad in ["", "x", "1x", "1 Gi", "."] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
    }
}
