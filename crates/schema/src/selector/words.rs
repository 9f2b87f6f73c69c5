//! Validation of label keys and values, with upstream's messages.

use crate::names;

const NAME_LEN_MAX: usize = 63;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a label key; empty when nothing is.
#[must_use]
pub fn label_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            problems.extend(prefix_problems(prefix).into_iter().map(|p| format!("prefix part {p}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > NAME_LEN_MAX {
        problems.push(format!("name part must be no more than {NAME_LEN_MAX} bytes"));
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    problems
}

/// What is wrong with a label value; empty when nothing is.
#[must_use]
pub fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > NAME_LEN_MAX {
        problems.push(format!("must be no more than {NAME_LEN_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(VALUE_RULE.into());
    }
    problems
}

fn prefix_problems(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["must be non-empty".into()];
    }
    names::subdomain(prefix)
}

fn is_name(name: &str) -> bool {
    is_enclosed(name, |b| b.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether the first and last byte are both of a kind.
fn is_enclosed(text: &str, of_kind: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| of_kind(*b)) && bytes.last().is_some_and(|b| of_kind(*b))
}
