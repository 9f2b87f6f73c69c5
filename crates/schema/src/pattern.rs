//! The `pattern` of schemas: regular expressions in Go's syntax (RE2), translated for the `regex` crate.

use regex::{Regex, RegexBuilder};

use crate::node::Bounds;

/// Largest size of a compiled pattern in bytes: bounds the memory that a tenant's CRD can take.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Compiles a pattern.
///
/// # Errors
/// Returns the syntax error.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern)).size_limit(PATTERN_BYTES_MAX).build().map_err(|e| {
        let text = e.to_string();
        text.rsplit("error: ").next().unwrap_or(&text).trim().to_owned()
    })
}

/// Returns whether `text` matches the pattern of these bounds; an invalid pattern matches everything.
pub(crate) fn matches(bounds: &Bounds, text: &str) -> bool {
    let ready = bounds.matcher.get_or_init(|| compile(bounds.pattern.as_deref().unwrap_or_default()).ok());
    ready.as_ref().is_none_or(|regex| regex.is_match(text))
}

/// Translates the syntax: in Go, classes such as `\d` are ASCII only, and `[`, `&&`, `--` and `~~` within brackets are
/// literals.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut inside = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => escape(chars.next(), &mut out),
            '[' if !inside => {
                inside = true;
                out.push('[');
                // At the start of a class, `^` negates and `]` is a literal.
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() != Some(&':') => out.push_str("\\["),
            '[' => copy_named(&mut chars, &mut out),
            ']' => {
                inside = false;
                out.push(']');
            }
            '&' | '~' if inside => {
                out.push('\\');
                out.push(c);
            }
            '-' if inside && chars.peek() == Some(&'-') => out.push_str("\\-"),
            other => out.push(other),
        }
    }
    out
}

fn escape(c: Option<char>, out: &mut String) {
    match c {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
        Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
        Some(other) => {
            out.push('\\');
            out.push(other);
        }
        None => out.push('\\'),
    }
}

/// Copies a named class such as `[:alpha:]`; its opening bracket is consumed already.
fn copy_named(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    out.push('[');
    for c in chars.by_ref() {
        out.push(c);
        if c == ']' {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, want) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "٣", false),
            (r"^[\w.]+$", "a_b.c", true),
            (r"^[[]x$", "[x", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]+$", "b", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[[:alpha:]_]+$", "ab_", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), want, "{pattern} on {text}");
        }
        assert!(compile("(").is_err());
    }

    #[test]
    fn a_pattern_has_a_bound() {
        assert!(compile("((((a{100}){100}){100}){100})").is_err());
    }
}
