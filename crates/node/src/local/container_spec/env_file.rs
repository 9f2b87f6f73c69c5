//! Parser of `fileKeyRef` files: `NAME='value'` assignments.
//!
//! Values are in single quotes, may span lines and have no escapes. `#` starts a comment.

/// The value of a key; `None` if the file does not set it. The first assignment wins.
pub(super) fn find(text: &str, key: &str) -> Result<Option<String>, String> {
    let mut lines = text.lines().zip(1..);
    while let Some((line, at)) = lines.next() {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| Err(format!("invalid environment variable format at line {at}: {what}"));
        let Some((name, rest)) = line.split_once('=') else { return wrong("missing '='") };
        if name.trim_end_matches([' ', '\t']).is_empty() {
            return wrong("empty variable name");
        }
        if name.ends_with([' ', '\t']) {
            return wrong("whitespace before '=' is not allowed");
        }
        // As in a shell, a space after `=` means an empty value.
        let value = if rest.starts_with([' ', '\t']) {
            String::new()
        } else {
            let Some(rest) = rest.strip_prefix('\'') else {
                return wrong("value must be enclosed in single quotes");
            };
            quoted(rest, at, &mut lines)?
        };
        if name == key {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Reads up to the closing quote.
fn quoted<'a>(
    first: &'a str,
    began: usize,
    lines: &mut impl Iterator<Item = (&'a str, usize)>,
) -> Result<String, String> {
    let mut value = String::new();
    let (mut line, mut at) = (first, began);
    loop {
        if let Some((end, after)) = line.split_once('\'') {
            value.push_str(end);
            let after = after.trim_start_matches([' ', '\t']);
            if !after.is_empty() && !after.starts_with('#') {
                return Err(format!(
                    "invalid environment variable format at line {at}: unexpected content after closing quote"
                ));
            }
            return Ok(value);
        }
        value.push_str(line);
        value.push('\n');
        (line, at) = lines.next().ok_or_else(|| {
            format!("invalid environment variable format starting at line {began}: unclosed single quote")
        })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (says, text, want) in [
            ("plain", "A='x'", Ok(Some("x"))),
            ("among others", "# first\n\n  B='no'\n\tA='x' # why\n", Ok(Some("x"))),
            ("absent", "B='x'\n", Ok(None)),
            ("nothing means anything within", "A='$(B) \"\\n # '", Ok(Some("$(B) \"\\n # "))),
            ("several lines", "B='1\n2'\nA='x\ny\n'", Ok(Some("x\ny\n"))),
            ("a blank after the sign", "A= 'x'", Ok(Some(""))),
            ("the first one counts", "A='x'\nA='y'", Ok(Some("x"))),
            ("no sign", "oops\n", Err("at line 1: missing '='")),
            ("no name", "\n='x'\n", Err("at line 2: empty variable name")),
            ("a blank before the sign", "A ='x'", Err("at line 1: whitespace before '=' is not allowed")),
            ("no quotes", "A=x", Err("at line 1: value must be enclosed in single quotes")),
            ("more after the quote", "B='1\n2'x", Err("at line 2: unexpected content after closing quote")),
            ("not closed", "\nA='x\n", Err("starting at line 2: unclosed single quote")),
        ] {
            let found = find(text, "A");
            match want {
                Ok(want) => assert_eq!(found, Ok(want.map(str::to_owned)), "{says}"),
                Err(want) => {
                    assert!(found.clone().is_err_and(|why| why.ends_with(want)), "{says}: {found:?}");
                }
            }
        }
    }
}
