//! Validation of string values by the `format` of their schema.
//!
//! An unknown format accepts every value, as upstream does.

mod net;
mod numbers;
mod times;

use base64::Engine;
use muster_tree::Tree;

pub(crate) use self::times::go_duration_nanos;
pub use self::times::{TimeLayout, go_time};

/// Returns whether `text` has this format; `None` if the format is unknown.
pub(crate) fn matches(format: &str, text: &str) -> Option<bool> {
    Some(match format {
        "date-time" | "datetime" => times::is_date_time(text),
        "date" => times::is_date(text),
        "duration" => times::is_duration(text),
        "uuid" => is_uuid(text, None, false),
        "uuid3" => is_uuid(text, Some(b'3'), false),
        "uuid4" => is_uuid(text, Some(b'4'), true),
        "uuid5" => is_uuid(text, Some(b'5'), true),
        "ipv4" => net::is_ipv4(text),
        "ipv6" => net::is_ipv6(text),
        "cidr" => net::is_cidr(text),
        "mac" => net::is_mac(text),
        "hostname" => net::is_hostname(text),
        "email" => net::is_email(text),
        "uri" => net::is_request_uri(text),
        "byte" => is_base64(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn" => numbers::is_isbn10(text) || numbers::is_isbn13(text),
        "isbn10" => numbers::is_isbn10(text),
        "isbn13" => numbers::is_isbn13(text),
        "creditcard" => numbers::is_credit_card(text),
        "ssn" => numbers::is_ssn(text),
        "hexcolor" => numbers::is_hex_color(text),
        "rgbcolor" => numbers::is_rgb_color(text),
        "password" => true,
        "k8s-short-name" => text.len() <= 63 && is_label(text),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(is_label),
        _ => return None,
    })
}

/// Lower-case letters, digits and inner dashes.
fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(inner)
        && bytes.last().copied().is_some_and(inner)
        && bytes.iter().all(|b| inner(*b) || *b == b'-')
}

/// 32 hex digits with optional dashes at the usual places; some versions have a fixed digit and a variant.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut hex = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(hex.len(), 8 | 12 | 16 | 20) => {}
            b if b.is_ascii_hexdigit() && hex.len() < 32 => hex.push(b.to_ascii_lowercase()),
            _ => return false,
        }
    }
    hex.len() == 32
        && !text.contains("--")
        && version.is_none_or(|digit| hex[12] == digit)
        && (!variant || b"89ab".contains(&hex[16]))
}

/// Base64 of the standard alphabet with padding; the empty text is none.
fn is_base64(text: &str) -> bool {
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

/// Validates base64 in a `byte` field of a built-in kind; line breaks are allowed there.
#[must_use]
pub fn base64_error(text: &str) -> Option<String> {
    let decode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.decode(bytes).err();
    let error = if text.contains(['\r', '\n']) {
        decode(&text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect::<Vec<_>>())?
    } else {
        decode(text.as_bytes())?
    };
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
        _ => text.len() / 4 * 4,
    };
    Some(format!("illegal base64 data at input byte {at}"))
}

const QUANTITY_FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const QUANTITY_NUMBER: &str = "unable to parse numeric part of quantity";
const QUANTITY_SUFFIX: &str = "unable to parse quantity's suffix";

/// Validates a quantity field: a number, or a string with optional surrounding spaces.
pub fn quantity_field(field: &Tree) -> Result<(), &'static str> {
    match field {
        Tree::Null | Tree::Int(_) | Tree::Float(_) => Ok(()),
        Tree::Text(text) => quantity(text.trim()),
        other => quantity(&other.to_json()),
    }
}

/// Validates a quantity such as `1500m`, `2Gi` or `1e3`.
pub fn quantity(text: &str) -> Result<(), &'static str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    if number.is_empty() {
        return Err(QUANTITY_FORM);
    }
    if number.matches('.').count() > 1 || number == "." {
        return Err(QUANTITY_NUMBER);
    }
    match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" => Ok(()),
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => Ok(()),
        _ => exponent(suffix),
    }
}

fn exponent(suffix: &str) -> Result<(), &'static str> {
    let digits = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let letters = &suffix[..suffix.len() - digits.len()];
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QUANTITY_FORM);
    }
    let is_exponent = matches!(letters, "e" | "E") && !digits.is_empty() && digits.parse::<i32>().is_ok();
    if is_exponent { Ok(()) } else { Err(QUANTITY_SUFFIX) }
}

#[cfg(test)]
#[path = "formats/tests.rs"]
mod tests;
