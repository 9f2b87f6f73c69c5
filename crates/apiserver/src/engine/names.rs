//! What names may look like. Keys and values of labels are checked by the schema's selectors.
//!
//! Each check answers with what is wrong; nothing means right.

/// Longest DNS label.
pub(crate) const LABEL_MAX: usize = 63;
/// Longest DNS subdomain.
pub(crate) const SUBDOMAIN_MAX: usize = 253;

const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const WORD_WORDS: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_WORDS: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

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

/// What is wrong with a DNS label.
pub(crate) fn label(text: &str) -> Vec<String> {
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

/// What is wrong with a DNS label that must begin with a letter.
pub(crate) fn word(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(too_long(LABEL_MAX));
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(WORD_WORDS.to_owned());
    }
    wrong
}

/// What is wrong with a DNS subdomain.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(too_long(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(is_label) {
        wrong.push(SUBDOMAIN_WORDS.to_owned());
    }
    wrong
}

/// What is wrong with a name that only has to fit into a path.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let bad = ["/", "%"].into_iter().filter(|part| text.contains(part));
    bad.map(|part| format!("may not contain '{part}'")).collect()
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
}
