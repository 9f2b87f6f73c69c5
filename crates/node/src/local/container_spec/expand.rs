//! `$(VAR)` in commands, arguments, variables and parts of volumes.

/// Puts values in place of `$(NAME)`. What has no value stays as it is written; `$$` is a `$` that begins nothing.
pub(super) fn expand(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        match rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            Some((name, after)) => {
                out.push_str(&value(name).unwrap_or_else(|| format!("$({name})")));
                rest = after;
            }
            None => out.push('$'),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Doubling every sign protects any text, and a text without signs needs no protection.
        #[test]
        fn a_protected_text_comes_back(text in ".*") {
            prop_assert_eq!(expand(&text.replace('$', "$$"), |_| Some("value".to_owned())), text);
        }
    }

    #[test]
    fn references() {
        let value = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "B" => Some("$(A)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (says, text, want) in [
            ("a value", "$(A)", "a"),
            ("amid text", "x-$(A)-$(A)y", "x-a-ay"),
            ("an unknown name stays", "$(NONE)", "$(NONE)"),
            ("a value is not looked through again", "$(B)", "$(A)"),
            ("an empty value is a value", "<$(EMPTY)>", "<>"),
            ("doubled: not a reference", "$$(A)", "$(A)"),
            ("doubled twice", "$$$$(A)", "$$(A)"),
            ("three: one and a reference", "$$$(A)", "$a"),
            ("not closed", "$(A", "$(A"),
            ("not closed, then closed", "$(A$(A)", "$(A$(A)"),
            ("braces are the shell's", "${A}$A", "${A}$A"),
            ("at the end", "cost: 5$", "cost: 5$"),
            ("nothing in it", "$()", "$()"),
            ("letters of several bytes", "ä$ü$(A)ß", "ä$üaß"),
        ] {
            assert_eq!(expand(text, value), want, "{says}");
        }
    }
}
