//! Formats of numbers with a check digit, and of colours.

/// Ten digits of a book number, the last of which may be `X`.
pub(super) fn is_isbn10(text: &str) -> bool {
    let bytes = without_marks(text);
    let [head @ .., last] = bytes.as_slice() else {
        return false;
    };
    let last = if *last == b'X' { Some(10) } else { digit(*last) };
    let (Some(last), Some(head)) = (last, digits(head)) else {
        return false;
    };
    let sum: u32 = head.iter().zip(1..).map(|(d, weight)| d * weight).sum();
    head.len() == 9 && (sum + 10 * last).is_multiple_of(11)
}

/// Thirteen digits of a book number.
pub(super) fn is_isbn13(text: &str) -> bool {
    let Some(all) = digits(&without_marks(text)) else {
        return false;
    };
    let sum: u32 = all.iter().zip([1, 3].into_iter().cycle()).map(|(d, weight)| d * weight).sum();
    all.len() == 13 && sum.is_multiple_of(10)
}

/// A card number of a known issuer with a valid check digit; other characters are ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| number.starts_with(p));
    let known = match number.len() {
        13 => starts(&["4"]),
        14 => starts(&["300", "301", "302", "303", "304", "305", "36", "38"]),
        15 => starts(&["34", "37", "2131", "1800"]),
        16 => starts(&["4", "51", "52", "53", "54", "55", "6011", "65", "35"]),
        _ => false,
    };
    let sum: u32 = number.bytes().rev().filter_map(digit).enumerate().map(|(i, d)| luhn(i, d)).sum();
    known && sum.is_multiple_of(10)
}

fn luhn(place: usize, digit: u32) -> u32 {
    match (place % 2, digit * 2) {
        (0, _) => digit,
        (_, twice) if twice > 9 => twice - 9,
        (_, twice) => twice,
    }
}

/// `123-45-6789`, parted by dashes or blanks.
pub(super) fn is_ssn(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(at, byte)| match at {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

/// Three or six hex digits, with or without `#`.
pub(super) fn is_hex_color(text: &str) -> bool {
    let hex = text.strip_prefix('#').unwrap_or(text);
    matches!(hex.len(), 3 | 6) && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A colour in the form `rgb(1, 2, 255)`.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|t| t.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    let byte = |p: &&str| (*p == "0" || !p.starts_with(['0', '+'])) && p.parse::<u8>().is_ok();
    parts.len() == 3 && parts.iter().all(byte)
}

fn without_marks(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| *b != b'-' && !b.is_ascii_whitespace()).collect()
}

fn digits(bytes: &[u8]) -> Option<Vec<u32>> {
    bytes.iter().map(|b| digit(*b)).collect()
}

fn digit(byte: u8) -> Option<u32> {
    byte.is_ascii_digit().then(|| u32::from(byte - b'0'))
}
