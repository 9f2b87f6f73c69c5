//! Escaping of field names in CEL, and field paths.

/// Words that CEL keeps for itself; a field of such a name can also be written between double underscores.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Substitutions in names that are not words of CEL.
const ESCAPES: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// Whether the name is a word of CEL.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The name of a field as a rule spells it.
pub(super) fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    // All substitutions read the original text, so the underscores go first.
    ESCAPES.iter().fold(name.to_owned(), |text, (plain, escaped)| text.replace(plain, escaped))
}

/// The name of the field that a rule spells so.
pub(super) fn unescape(name: &str) -> String {
    let inner = name.strip_prefix("__").and_then(|n| n.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| is_reserved(word)) {
        return word.to_owned();
    }
    ESCAPES.iter().rev().fold(name.to_owned(), |text, (plain, escaped)| text.replace(escaped, plain))
}

/// The names in a field path such as `.spec['a.b'].c`; `None` when it is not one.
pub(crate) fn field_path_steps(path: &str) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let mut rest = path.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']")?;
            steps.push(name.to_owned());
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            steps.push(after[..end].to_owned());
            rest = &after[end..];
        }
    }
    (!steps.is_empty() && steps.iter().all(|s| !s.is_empty())).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_in_and_come_back() {
        for (name, escaped) in [
            ("plain", "plain"),
            ("one_two", "one_two"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("x__y", "x__underscores__y"),
            ("namespace", "__namespace__"),
            ("int", "int"),
        ] {
            assert_eq!(escape(name), escaped);
            assert_eq!(unescape(escaped), name);
        }
    }

    #[test]
    fn paths_of_fields_are_read() {
        let steps = |path| field_path_steps(path).map(|s| s.join("|"));
        assert_eq!(steps(".a.b").as_deref(), Some("a|b"));
        assert_eq!(steps("['a.b'].c").as_deref(), Some("a.b|c"));
        assert_eq!(steps("a"), None);
        assert_eq!(steps(""), None);
        assert_eq!(steps(".a..b"), None);
    }
}
