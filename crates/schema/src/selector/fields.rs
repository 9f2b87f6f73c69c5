//! Field selectors: `metadata.name=a,status.phase!=Running`.

/// A parsed field selector: all terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    terms: Vec<Term>,
}

/// One term of a field selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The field, e.g. `metadata.name`.
    pub field: String,
    /// Whether the value must be equal; otherwise it must differ.
    pub equal: bool,
    /// The value, with escapes removed.
    pub value: String,
}

impl Fields {
    /// Reads a field selector; the empty text selects everything.
    ///
    /// # Errors
    ///
    /// A message for a 400 answer.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = split_terms(text);
        // Sorted, so that equal selectors are equal and the same mistake gets the same message.
        parts.sort_unstable();
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let terms = parts.map(|part| parse_term(text, part)).collect::<Result<Vec<_>, _>>()?;
        let terms = terms.into_iter().filter(|t| !(t.field.is_empty() && t.value.is_empty())).collect();
        Ok(Self { terms })
    }

    /// All terms, sorted by field.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns whether all terms match; `value_of` returns the value of a field, empty if it is absent.
    #[must_use]
    pub fn matches<V: AsRef<str>>(&self, value_of: impl Fn(&str) -> V) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field).as_ref() == term.value) == term.equal)
    }

    /// The value that a field must have, if the selector says so.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

/// The parts between commas; an escaped comma does not separate.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
    .collect()
}

fn parse_term(whole: &str, term: &str) -> Result<Term, String> {
    let (field, rest, equal) = split_operator(term)
        .ok_or_else(|| format!("invalid selector: '{whole}'; can't understand '{term}'"))?;
    Ok(Term { field: field.into(), equal, value: unescape(rest)? })
}

/// Splits at the first operator.
fn split_operator(term: &str) -> Option<(&str, &str, bool)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        [("!=", false), ("==", true), ("=", true)]
            .into_iter()
            .find_map(|(operator, equal)| Some((field, rest.strip_prefix(operator)?, equal)))
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read() {
        let term = |field: &str, equal, value: &str| Term { field: field.into(), equal, value: value.into() };
        for (text, want) in [
            ("", vec![]),
            (",", vec![]),
            ("metadata.name=a", vec![term("metadata.name", true, "a")]),
            ("metadata.name==a,", vec![term("metadata.name", true, "a")]),
            ("b!=x,a=", vec![term("a", true, ""), term("b", false, "x")]),
            (r"a=x\,y\=z\\", vec![term("a", true, r"x,y=z\")]),
            ("=a", vec![term("", true, "a")]),
            ("a= b", vec![term("a", true, " b")]),
        ] {
            assert_eq!(Fields::parse(text).unwrap().terms, want, "{text}");
        }
    }

    #[test]
    fn mistakes_get_the_known_words() {
        for (text, want) in [
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("metadata.name!a", "invalid selector: 'metadata.name!a'; can't understand 'metadata.name!a'"),
            ("a=b,x in (a)", "invalid selector: 'a=b,x in (a)'; can't understand 'x in (a)'"),
            (r"a=a\", r"invalid field selector: invalid escape sequence: \"),
            (r"a=a\x", r"invalid field selector: invalid escape sequence: \x"),
            ("a=a=b", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(Fields::parse(text), Err(want.into()), "{text}");
        }
    }

    #[test]
    fn all_terms_must_hold() {
        let fields = Fields::parse("a=1,b!=2").unwrap();
        let of = |a: &'static str, b: &'static str| move |f: &str| if f == "a" { a } else { b };
        assert!(fields.matches(of("1", "")));
        assert!(!fields.matches(of("1", "2")));
        assert!(!fields.matches(of("", "3")));
        assert_eq!((fields.exact("a"), fields.exact("b")), (Some("1"), None));
    }
}
