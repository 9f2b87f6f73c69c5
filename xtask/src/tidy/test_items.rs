//! Finds the items that only test builds compile: those below `#[cfg(test)]`, with their documentation and attributes.

use std::ops::Range;

use super::lexer::{RustToken, TokenKind};

/// An item below `#[cfg(test)]`.
#[derive(Debug, PartialEq, Eq)]
pub struct TestItem<'a> {
    /// Its tokens, from the first attribute or documentation comment to the end of its body.
    pub tokens: Range<usize>,
    /// The module without a body that it declares: its source is in another file.
    pub module: Option<TestModule<'a>>,
}

/// A module for tests in a file of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct TestModule<'a> {
    pub name: &'a str,
    /// The value of `#[path = "…"]`.
    pub path: Option<&'a str>,
}

/// Keywords that begin an item, which extends to `;` or the end of its block. Anything else below an attribute is a field, a
/// variant, an arm or an argument, which extends to `,`.
const ITEMS: [&str; 15] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "unsafe",
    "use",
];

/// Returns the test items of a file in order; none lies within another.
pub fn test_items<'a>(tokens: &[RustToken<'a>]) -> Vec<TestItem<'a>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let item = skip_attributes(tokens, at);
        let attributes = &tokens[at..item];
        if is_cfg_test(attributes) {
            let end = end_of_item(tokens, item);
            found.push(TestItem { tokens: at..end, module: module(attributes, &tokens[item..end]) });
            at = end.max(item);
        } else {
            at = item.max(at + 1);
        }
    }
    found
}

/// Returns where the attributes and documentation end that begin at `at`; `at` itself where none begin.
fn skip_attributes(tokens: &[RustToken<'_>], at: usize) -> usize {
    let mut end = at;
    while let Some(token) = tokens.get(end) {
        end = match token.kind {
            TokenKind::OuterDoc => end + 1,
            TokenKind::Comment if end > at => end + 1,
            _ if token.is("#") && tokens.get(end + 1).is_some_and(|it| it.is("[")) => {
                after_group(tokens, end + 1)
            }
            _ => break,
        };
    }
    end
}

/// Whether one of the attributes is `#[cfg(test)]` or demands `test` among other things.
fn is_cfg_test(attributes: &[RustToken<'_>]) -> bool {
    let starts = attributes.windows(3).enumerate().filter(|(_, it)| it[0].is("#") && it[2].is("cfg"));
    let mut conditions = starts.map(|(at, _)| &attributes[at..after_group(attributes, at + 1)]);
    let has = |condition: &[RustToken<'_>], word: &str| condition.iter().any(|it| it.is(word));
    conditions.any(|it| has(it, "test") && !has(it, "not") && !has(it, "any"))
}

/// Returns the end of the group whose opening bracket is at `open`.
pub fn after_group(tokens: &[RustToken<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open).filter(|(_, it)| it.kind == TokenKind::Punct) {
        depth += nesting(token.text);
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// By how much a token changes the depth of brackets.
pub fn nesting(punctuation: &str) -> i32 {
    match punctuation {
        "(" | "[" | "{" => 1,
        ")" | "]" | "}" => -1,
        _ => 0,
    }
}

fn end_of_item(tokens: &[RustToken<'_>], start: usize) -> usize {
    let mut at = skip_visibility(tokens, start);
    let is_item = tokens.get(at).is_some_and(|it| it.kind == TokenKind::Ident && ITEMS.contains(&it.text));
    while let Some(token) = tokens.get(at) {
        match token.text {
            _ if token.kind != TokenKind::Punct => at += 1,
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "{" if is_item => return after_group(tokens, at),
            "(" | "[" | "{" => at = after_group(tokens, at),
            ")" | "]" | "}" => return at,
            _ => at += 1,
        }
    }
    at
}

fn skip_visibility(tokens: &[RustToken<'_>], at: usize) -> usize {
    match (tokens.get(at), tokens.get(at + 1)) {
        (Some(first), Some(second)) if first.is("pub") && second.is("(") => after_group(tokens, at + 1),
        (Some(first), _) if first.is("pub") => at + 1,
        _ => at,
    }
}

fn module<'a>(attributes: &[RustToken<'a>], item: &[RustToken<'a>]) -> Option<TestModule<'a>> {
    let keyword = item.iter().position(|it| it.is("mod"))?;
    let [name, end] = item[keyword + 1..] else { return None };
    let is_path = |it: &[RustToken<'_>]| it[0].is("path") && it[1].is("=");
    let path = attributes.windows(3).find(|it| is_path(it)).map(|it| it[2].text);
    end.is(";").then_some(TestModule { name: name.text, path })
}

#[cfg(test)]
mod tests {
    use super::super::lexer;
    use super::*;

    #[test]
    fn test_items_end_where_the_compiler_ends_them() {
        let cases = [
            ("a; #[cfg(test)] mod tests { fn b() { c } } d", "a ; d"),
            ("/// Doc.\n#[cfg(test)]\n#[allow(x)]\nfn a<T, U>() where T: U { b } c", "c"),
            ("#[cfg(all(test, unix))] use a::{b, c}; d", "; d"),
            ("struct A { #[cfg(test)] b: u8, c: u8 }", "struct A { c : u8 }"),
            ("struct A { #[cfg(test)] pub(crate) b: u8, pub c: u8 }", "struct A { pub c : u8 }"),
            ("struct A { #[cfg(test)] b: u8 } c", "struct A { } c"),
            ("match a { #[cfg(test)] B => { c } , D => e }", "match a { D => e }"),
            ("#[cfg(test)] const A: [u8; 2] = [1, 2]; b", "b"),
            (
                "#[cfg(any(test, unix))] mod a {} #[cfg(not(test))] b",
                "# [ cfg ( any ( test , unix ) ) ] mod a { } # [ cfg ( not ( test ) ) ] b",
            ),
            ("//! Doc.\n#[cfg(test)] mod a; #[test] fn b() {}", "//! Doc. # [ test ] fn b ( ) { }"),
        ];
        for (source, want) in cases {
            let tokens = lexer::tokens(source);
            let items = test_items(&tokens);
            let outside = |at: &usize| !items.iter().any(|it| it.tokens.contains(at));
            let left: Vec<&str> = (0..tokens.len()).filter(outside).map(|at| tokens[at].text).collect();
            assert_eq!(left.join(" ").replace("= >", "=>"), want, "{source}");
        }
    }

    #[test]
    fn modules_in_other_files_are_named() {
        let tokens = lexer::tokens(
            "#[cfg(test)] mod a; #[cfg(test)] #[path = \"b/c.rs\"] pub mod b; #[cfg(test)] mod d {}",
        );
        let modules: Vec<_> = test_items(&tokens).into_iter().filter_map(|it| it.module).collect();
        let want = [TestModule { name: "a", path: None }, TestModule { name: "b", path: Some("b/c.rs") }];
        assert_eq!(modules, want);
    }
}
