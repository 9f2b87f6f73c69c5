//! Saturating arithmetic of amounts, and their formatting as quantities.
//!
//! # Guarantees
//!
//! - Nothing overflows: sums saturate, and [`UNLIMITED`] absorbs.

use super::spec::UNLIMITED;

#[must_use]
pub fn plus(a: i64, b: i64) -> i64 {
    if a == UNLIMITED || b == UNLIMITED { UNLIMITED } else { a.saturating_add(b) }
}

/// [`UNLIMITED`] minus anything is [`UNLIMITED`].
#[must_use]
pub fn minus(a: i64, b: i64) -> i64 {
    if a == UNLIMITED { UNLIMITED } else { a.saturating_sub(b) }
}

#[must_use]
pub fn times(each: i64, count: i64) -> i64 {
    each.saturating_mul(count)
}

/// `total * part / whole`, rounded down, without overflow in between.
#[must_use]
pub fn prorate(total: i64, part: i64, whole: i64) -> i64 {
    let exact = i128::from(total) * i128::from(part) / i128::from(whole.max(1));
    i64::try_from(exact).unwrap_or(UNLIMITED)
}

/// Formats an amount as a quantity in the shortest exact form.
#[must_use]
pub fn quantity_string(resource: &str, amount: i64) -> String {
    if resource == "cpu" {
        return if amount % 1000 == 0 { decimal(amount / 1000) } else { format!("{amount}m") };
    }
    let binary =
        resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
    if binary && amount.unsigned_abs() >= 1024 { scaled(amount, 1024, &BINARY) } else { decimal(amount) }
}

const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn decimal(amount: i64) -> String {
    scaled(amount, 1000, &DECIMAL)
}

/// Uses the largest suffix that leaves an integer.
fn scaled(amount: i64, base: i64, suffixes: &[&str]) -> String {
    let (mut left, mut level) = (amount, 0);
    while left != 0 && left % base == 0 && level + 1 < suffixes.len() {
        left /= base;
        level += 1;
    }
    format!("{left}{}", suffixes[level])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short_and_exact() {
        for (resource, amount, want) in [
            ("cpu", 0, "0"),
            ("cpu", 1500, "1500m"),
            ("cpu", 2000, "2"),
            ("cpu", 2_000_000, "2k"),
            ("cpu", 2_500_000, "2500"),
            ("memory", 1000, "1k"),
            ("memory", 1023, "1023"),
            ("memory", 1024, "1Ki"),
            ("memory", 1536, "1536"),
            ("memory", 3 << 30, "3Gi"),
            ("memory", 2_000_000, "2000000"),
            ("hugepages-2Mi", 2 << 20, "2Mi"),
            ("ephemeral-storage", 1 << 40, "1Ti"),
            ("nvidia.com/gpu", 8, "8"),
            ("nvidia.com/gpu", 4000, "4k"),
            ("pods", 10, "10"),
        ] {
            assert_eq!(quantity_string(resource, amount), want, "{resource} {amount}");
        }
    }

    #[test]
    fn unlimited_absorbs() {
        assert_eq!(plus(UNLIMITED, -5), UNLIMITED);
        assert_eq!(minus(UNLIMITED, 7), UNLIMITED);
        assert_eq!(plus(UNLIMITED - 1, 7), UNLIMITED);
        assert_eq!(times(i64::MAX / 2, 3), UNLIMITED);
        assert_eq!(prorate(i64::MAX, 3, 4), i64::MAX / 4 * 3 + 2);
    }
}
