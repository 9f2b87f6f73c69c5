//! Quantities: `500m`, `2Gi`, `1e3`. Parsed once, at the cache's edge.

/// Reads a quantity in thousandths, rounded up; `None` when it is not one. What does not fit is the most that does.
#[must_use]
pub fn milli(text: &str) -> Option<i64> {
    scaled(text, 1000)
}

/// Reads a quantity in whole units, rounded up; `None` when it is not one. What does not fit is the most that does.
#[must_use]
pub fn whole(text: &str) -> Option<i64> {
    scaled(text, 1)
}

/// Reads a quantity in billionths, rounded up; `None` when it is not one. What does not fit is the most that does.
#[must_use]
pub fn nano(text: &str) -> Option<i64> {
    scaled(text, 1_000_000_000)
}

/// The most digits a quantity may have; more cannot be told apart in 64 bits anyway.
const DIGITS_MAX: usize = 25;

fn scaled(text: &str, unit: i128) -> Option<i64> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 || digits.len() > DIGITS_MAX || fraction.contains('.') {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (times, over) = factor(suffix)?;
    let over = over.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let product = mantissa.saturating_mul(times).saturating_mul(unit);
    let size = if negative { -(product / over) } else { product.saturating_add(over - 1) / over };
    i64::try_from(size.clamp(i64::MIN.into(), i64::MAX.into())).ok()
}

/// What a suffix multiplies with, as a fraction.
fn factor(suffix: &str) -> Option<(i128, i128)> {
    let binary = |n: u32| Some((1024_i128.pow(n), 1));
    let decimal = |n: u32| Some((10_i128.pow(n), 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => exponent(suffix.strip_prefix(['e', 'E'])?),
    }
}

fn exponent(text: &str) -> Option<(i128, i128)> {
    let power: i32 = text.parse().ok()?;
    let size = 10_i128.checked_pow(power.unsigned_abs()).filter(|_| power.abs() <= 20)?;
    Some(if power < 0 { (1, size) } else { (size, 1) })
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
            ("0", Some(0), Some(0)),
            (".5", Some(500), Some(1)),
            ("", None, None),
            ("1x", None, None),
            ("m", None, None),
            ("1.2.3", None, None),
        ] {
            assert_eq!((milli(text), whole(text)), (want_milli, want_whole), "{text:?}");
        }
    }
}
