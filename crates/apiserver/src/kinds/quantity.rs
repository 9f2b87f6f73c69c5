//! Amounts of resources: `500m`, `2Gi`, `1e3`.

use std::sync::OnceLock;

use muster_schema::node::{NodeId, Shape};
use muster_schema::table::Table;
use muster_tree::Tree;

/// An amount in billionths. Saturates far beyond anything real.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub i128);

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Reads an amount; `None` when it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Quantity> {
        let end =
            text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '+' | '-' | '.')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (negative, digits) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (scale, tens) = scale(suffix)?;
        let value = fixed(whole, fraction, tens)?.saturating_mul(scale);
        Some(Quantity(if negative { -value } else { value }))
    }

    /// The amount in a field: text or a number.
    #[must_use]
    pub fn of(value: &Tree) -> Option<Quantity> {
        match value {
            Tree::Text(text) => Quantity::parse(text),
            Tree::Int(n) => Some(Quantity(i128::from(*n).saturating_mul(NANO))),
            _ => None,
        }
    }

    /// Whether this is a whole number.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }

    /// Nothing at all.
    pub const ZERO: Quantity = Quantity(0);
}

/// The tree with every amount in its one form (`1000m` is `1`, `2048Mi` is `2Gi`).
#[must_use]
pub fn canonical(table: &'static Table, id: NodeId, tree: &Tree) -> Tree {
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

/// Which nodes have an amount at or below them. Types may be recursive, so this settles step by step.
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

/// One amount in its one form; anything else as it is.
fn form(value: &Tree) -> Tree {
    let Some(amount) = Quantity::of(value) else {
        return value.clone();
    };
    let text = value.as_str().unwrap_or_default();
    // An exponent stays as it was written.
    if text.contains(['e', 'E']) && !text.ends_with('E') && !text.ends_with("Ei") {
        return value.clone();
    }
    let new = if text.ends_with('i') && amount.0.abs() >= 1024 * NANO {
        binary(amount.0)
    } else {
        decimal(amount.0)
    };
    if new == text { value.clone() } else { Tree::from(new) }
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

/// (factor, power of ten) of a suffix.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    let binary = |power: u32| Some((1_i128 << (10 * power), 0));
    match suffix {
        "" => Some((1, 0)),
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        other => other.strip_prefix(['e', 'E'])?.parse().ok().filter(|n: &i32| n.abs() <= 18).map(|n| (1, n)),
    }
}

/// `whole.fraction * 10^tens` in billionths; digits beyond those are rounded up.
fn fixed(whole: &str, fraction: &str, tens: i32) -> Option<i128> {
    let mut value: i128 = 0;
    let mut left = 9 + tens;
    let mut lost = false;
    for digit in whole.bytes() {
        value =
            value.saturating_mul(10).saturating_add(i128::from(digit.checked_sub(b'0').filter(|d| *d < 10)?));
    }
    for digit in fraction.bytes() {
        let digit = digit.checked_sub(b'0').filter(|d| *d < 10)?;
        if left > 0 {
            value = value.saturating_mul(10).saturating_add(i128::from(digit));
            left -= 1;
        } else {
            lost |= digit != 0;
        }
    }
    for _ in 0..left.max(0) {
        value = value.saturating_mul(10);
    }
    for _ in left..0 {
        lost |= value % 10 != 0;
        value /= 10;
    }
    Some(value + i128::from(lost))
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
        ] {
            assert_eq!(Quantity::parse(text), Some(Quantity(want)), "{text}");
        }
        for bad in ["", "x", "1x", "1 Gi", "."] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
    }
}
