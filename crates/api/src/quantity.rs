//! Resource quantities: `500m`, `2Gi`, `1e3`, with the values that upstream's `resource.Quantity` gives them.
//!
//! # Deliberately absent
//!
//! Upstream's overflow: a quantity beyond 64 bits wraps around there and saturates here.

use std::borrow::Cow;

use muster_tree::Tree;

/// The text of a quantity field: a JSON number is a quantity too, and `null` is `0`.
#[must_use]
pub fn text(field: &Tree) -> Cow<'_, str> {
    match field {
        Tree::Text(text) => Cow::Borrowed(text),
        Tree::Null => Cow::Borrowed("0"),
        other => Cow::Owned(other.to_json()),
    }
}

/// Parses a quantity into thousandths, rounded up and saturating; `None` if it is malformed.
#[must_use]
pub fn milli(text: &str) -> Option<i64> {
    scaled(text, NANO / 1000)
}

/// Parses a quantity into whole units, rounded up and saturating; `None` if it is malformed.
#[must_use]
pub fn whole(text: &str) -> Option<i64> {
    scaled(text, NANO)
}

/// Parses a quantity into billionths, rounded up and saturating; `None` if it is malformed.
#[must_use]
pub fn nano(text: &str) -> Option<i64> {
    scaled(text, 1)
}

/// Number of billionths in one unit.
const NANO: i128 = 1_000_000_000;
/// Digits after the decimal point that are kept; further digits round up.
const NANO_DIGITS: i64 = 9;
/// Number of decimal digits of an `i128`.
const DIGITS_MAX: i64 = 39;

fn scaled(text: &str, unit: i128) -> Option<i64> {
    let nanos = nanos(text)?;
    let size = nanos / unit + if nanos % unit == 0 { 0 } else { nanos.signum() };
    i64::try_from(size.clamp(i64::MIN.into(), i64::MAX.into())).ok()
}

/// Parses a quantity into billionths, rounded away from zero as upstream does and saturating; `None` if it is malformed.
///
/// Any number of digits is accepted: a quantity that the API server accepts and this function does not would be
/// consumed by pods without being counted against quota.
#[must_use]
pub fn nanos(text: &str) -> Option<i128> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // At least one digit and at most one decimal point.
    if number.len() == number.matches('.').count() || fraction.contains('.') {
        return None;
    }
    let (kibis, tens) = scale(suffix)?;
    let mut digits: Vec<u32> = whole.chars().chain(fraction.chars()).filter_map(|c| c.to_digit(10)).collect();
    // Scaled in decimal digits, so that no intermediate value overflows.
    (0..kibis).for_each(|_| multiply_by_1024(&mut digits));
    let size = shifted(&digits, i64::from(tens) + NANO_DIGITS - i64::try_from(fraction.len()).ok()?);
    Some(if text.starts_with('-') { -size } else { size })
}

fn multiply_by_1024(digits: &mut Vec<u32>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        carry += *digit * 1024;
        *digit = carry % 10;
        carry /= 10;
    }
    while carry > 0 {
        digits.insert(0, carry % 10);
        carry /= 10;
    }
}

/// The number of these digits, shifted left by `places` decimal places, rounded up.
fn shifted(digits: &[u32], places: i64) -> i128 {
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let kept = usize::try_from(count.saturating_add(places).clamp(0, count)).unwrap_or(0);
    let (kept, cut) = digits.split_at(kept);
    let add = |size: i128, digit: &u32| size.saturating_mul(10).saturating_add(i128::from(*digit));
    let size = kept.iter().fold(0, add);
    let size = (0..places.min(DIGITS_MAX)).fold(size, |size, _| size.saturating_mul(10));
    size.saturating_add(i128::from(cut.iter().any(|digit| *digit != 0)))
}

/// The multiplier of a suffix, as a power of 1024 and a power of ten.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    match suffix {
        "" => Some((0, 0)),
        "n" => Some((0, -9)),
        "u" => Some((0, -6)),
        "m" => Some((0, -3)),
        "k" => Some((0, 3)),
        "M" => Some((0, 6)),
        "G" => Some((0, 9)),
        "T" => Some((0, 12)),
        "P" => Some((0, 15)),
        "E" => Some((0, 18)),
        "Ki" => Some((1, 0)),
        "Mi" => Some((2, 0)),
        "Gi" => Some((3, 0)),
        "Ti" => Some((4, 0)),
        "Pi" => Some((5, 0)),
        "Ei" => Some((6, 0)),
        _ => Some((0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (text, want_milli, want_whole) in [
            ("1", Some(1000), Some(1)),
            ("500m", Some(500), Some(1)),
            ("1.5", Some(1500), Some(2)),
            ("0.1", Some(100), Some(1)),
            ("2Gi", Some(2 << 40).map(|_: i64| 2_147_483_648_000), Some(2_147_483_648)),
            ("1e3", Some(1_000_000), Some(1000)),
            ("1E3", Some(1_000_000), Some(1000)),
            ("2E", Some(i64::MAX), Some(2_000_000_000_000_000_000)),
            ("20E", Some(i64::MAX), Some(i64::MAX)),
            ("-9e20", Some(i64::MIN), Some(i64::MIN)),
            ("9999999999999999999999999e20", Some(i64::MAX), Some(i64::MAX)),
            ("100n", Some(1), Some(1)),
            ("-2", Some(-2000), Some(-2)),
            ("-1.5", Some(-1500), Some(-2)),
            ("0", Some(0), Some(0)),
            (".5", Some(500), Some(1)),
            ("", None, None),
            ("1x", None, None),
            ("m", None, None),
            ("1.2.3", None, None),
            (".", None, None),
            ("+", None, None),
            ("1e1.5", None, None),
            ("1e", None, None),
            ("1e4294967297", None, None),
            ("1 Gi", None, None),
        ] {
            assert_eq!((milli(text), whole(text)), (want_milli, want_whole), "{text:?}");
        }
    }

    /// The expectations are what `resource.Quantity` of k8s.io/apimachinery v0.37.1 reads.
    #[test]
    fn any_number_of_digits_is_read() {
        for (text, want) in [
            ("8.0000000000000000000000000", 8 * NANO),
            ("8.00000000000000000000000001", 8 * NANO + 1),
            ("0.0000000000000000000000001", 1),
            ("-0.0000000000000001", -1),
            ("00000000000000000000000000008", 8 * NANO),
            ("100000000000000000000000000000000000000000000000000e-50", NANO),
            ("1e-30", 1),
            ("0e99999", 0),
            ("1e+3", 1000 * NANO),
            ("5.", 5 * NANO),
            (" 8 ", 8 * NANO),
            (".5Gi", 536_870_912 * NANO),
            ("0.1Ki", 102 * NANO + 400_000_000),
            ("1.1111111111111111111111111Gi", 1_193_046_471_111_111_112),
            ("1Ei", 1_152_921_504_606_846_976 * NANO),
            ("99999999999999999999", 99_999_999_999_999_999_999 * NANO),
        ] {
            assert_eq!(nanos(text), Some(want), "{text:?}");
        }
        for text in ["1e2000000000", "1e30", "9999999999999999999999999999999999999999999999Ei"] {
            assert_eq!(milli(text), Some(i64::MAX), "{text:?}");
        }
    }
}
