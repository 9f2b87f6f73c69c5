//! Validation of names. Label keys and values are validated by [`selector`](crate::selector).
//!
//! Each function returns upstream's error messages; an empty list means that the name is valid.

use crate::error::FieldError;

/// Largest length of a DNS label.
pub const LABEL_MAX: usize = 63;
/// Largest length of a DNS subdomain.
pub const SUBDOMAIN_MAX: usize = 253;
/// Largest length of a `managedBy` value.
const MANAGER_MAX: usize = 63;
/// Characters allowed in the path of a `managedBy` value, besides letters and digits.
const PATH_SIGNS: &[u8] = b"/-._~%!$&'()*+,;=:";

const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const WORD_WORDS: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_WORDS: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const PATH_WORDS: &str = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().is_some_and(|b| is_lower(*b)) && bytes.last().is_some_and(|b| is_lower(*b));
    ends && bytes.iter().all(|b| is_lower(*b) || *b == b'-')
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Validates a DNS label (RFC 1123).
#[must_use]
pub fn label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    if !is_label(text) {
        let words = if text.split('.').all(is_label) { "must not contain dots" } else { LABEL_WORDS };
        wrong.push(words.to_owned());
    }
    wrong
}

/// Validates a DNS label that starts with a letter (RFC 1035).
#[must_use]
pub fn word(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(WORD_WORDS.to_owned());
    }
    wrong
}

/// Validates a DNS subdomain (RFC 1123).
#[must_use]
pub fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(too_long(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(is_label) {
        wrong.push(SUBDOMAIN_WORDS.to_owned());
    }
    wrong
}

/// Validates a name that only has to be a URL path segment, as RBAC names are.
#[must_use]
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let bad = ["/", "%"].into_iter().filter(|part| text.contains(part));
    bad.map(|part| format!("may not contain '{part}'")).collect()
}

/// Validates a `managedBy` value: a domain-prefixed path.
#[must_use]
pub fn manager(at: &str, name: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (domain, path) = name.split_once('/').unwrap_or((name, ""));
    if name.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if domain.is_empty() || path.is_empty() {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(at, name, why));
    } else {
        errors.extend(subdomain(domain).into_iter().map(|why| FieldError::invalid(at, domain, why)));
        if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || PATH_SIGNS.contains(&byte)) {
            errors.push(FieldError::invalid(at, path, PATH_WORDS));
        }
    }
    if name.len() > MANAGER_MAX {
        errors.push(FieldError::too_long(at, MANAGER_MAX));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_and_wrong_names() {
        let long = "a".repeat(64);
        for (check, text, right) in [
            (label as fn(&str) -> Vec<String>, "my-name", true),
            (label, "a.b", false),
            (label, "-a", false),
            (label, "", false),
            (label, &long, false),
            (word, "a-1", true),
            (word, "1-a", false),
            (word, "a.b", false),
            (subdomain, "a.b-c.d", true),
            (subdomain, "a..b", false),
            (subdomain, "A", false),
            (path_segment, "system:node", true),
            (path_segment, "a/b", false),
            (path_segment, "..", false),
        ] {
            assert_eq!(check(text).is_empty(), right, "{text:?}: {:?}", check(text));
        }
    }

    #[test]
    fn managers() {
        for (name, want) in [
            ("acme.io/foo", vec![]),
            ("", vec!["m: Required value"]),
            ("acme.io", vec!["such as \"acme.io/foo\""]),
            ("/foo", vec!["such as \"acme.io/foo\""]),
            ("Acme/f o", vec!["\"Acme\": a lowercase RFC 1123 subdomain", "\"f o\": Invalid path"]),
            (&format!("a/{}", "b".repeat(62)), vec!["m: Too long: may not be more than 63 bytes"]),
        ] {
            let errors = manager("m", name);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts.len(), want.len(), "{name}: {texts:?}");
            assert!(texts.iter().zip(&want).all(|(text, words)| text.contains(words)), "{texts:?}");
        }
    }
}
