//! Reads one source file into the facts that are measured, with test items left out.
//!
//! # Guarantees
//!
//! - Pure: the same text gives the same facts.
//!
//! # Deliberately absent
//!
//! Macro expansion and name resolution: an item that a macro generates is not seen, and a type is known by the name at its
//! definition.

use super::comments::CommentFacts;
use super::lexer::{self, RustToken, TokenKind};
use super::test_items::{after_group, nesting, test_items};

/// What is measured of one file. Lines are counted from 1.
#[derive(Debug, Default)]
pub struct FileFacts {
    /// Lines of all sorts, blank ones among them.
    pub lines: usize,
    /// Lines with code on them.
    pub code_lines: usize,
    pub comments: CommentFacts,
    /// The length of each function with a body, in lines.
    pub function_lines: Vec<usize>,
    /// Occurrences of `Result<_, String>`.
    pub string_results: usize,
    pub types: Vec<TypeDefinition>,
    /// String literals.
    pub literals: Vec<Literal>,
    /// Test modules in files of their own: name and `#[path]`.
    pub test_modules: Vec<(String, Option<String>)>,
}

/// The definition of a struct, enum, trait or type alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDefinition {
    pub name: String,
    /// `pub` without a restriction.
    pub public: bool,
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    pub text: String,
    pub line: usize,
}

/// Scans the text of a file.
pub fn scan(source: &str) -> FileFacts {
    let all = lexer::tokens(source);
    let items = test_items(&all);
    let of_tests: usize = items.iter().map(|it| span(&all[it.tokens.clone()])).sum();
    let in_product = |at: &usize| !items.iter().any(|it| it.tokens.contains(at));
    let tokens: Vec<RustToken<'_>> = (0..all.len()).filter(in_product).map(|at| all[at]).collect();
    let (comments, code): (Vec<_>, Vec<_>) = tokens.into_iter().partition(RustToken::is_comment);
    let modules = items.into_iter().filter_map(|it| it.module);
    FileFacts {
        lines: source.lines().count().saturating_sub(of_tests),
        code_lines: distinct_lines(&code),
        comments: CommentFacts::of(&comments),
        function_lines: function_lines(&code),
        string_results: string_results(&code),
        types: types(&code),
        literals: literals(&code),
        test_modules: modules.map(|it| (it.name.to_owned(), it.path.map(str::to_owned))).collect(),
    }
}

/// The number of lines from the first to the last token.
fn span(tokens: &[RustToken<'_>]) -> usize {
    let ends = tokens.first().zip(tokens.last());
    ends.map_or(0, |(first, last)| last.last_line - first.line + 1)
}

/// The number of lines with at least one of the tokens.
fn distinct_lines(tokens: &[RustToken<'_>]) -> usize {
    let (mut count, mut next) = (0, 0);
    for token in tokens {
        count += (token.last_line + 1).saturating_sub(token.line.max(next));
        next = next.max(token.last_line + 1);
    }
    count
}

fn function_lines(code: &[RustToken<'_>]) -> Vec<usize> {
    let is_function = |at: &usize| code[*at].is("fn") && code[*at + 1].kind == TokenKind::Ident;
    let functions = (0..code.len().saturating_sub(1)).filter(is_function);
    functions.filter_map(|at| Some(span(&code[at..after_group(code, body(code, at)?)]))).collect()
}

/// Returns the opening brace of the function at `at`, unless it is declared without a body.
fn body(code: &[RustToken<'_>], at: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate().skip(at).filter(|(_, it)| it.kind == TokenKind::Punct) {
        match token.text {
            "{" if depth == 0 => return Some(at),
            ";" if depth == 0 => return None,
            other => depth += nesting(other),
        }
    }
    None
}

fn string_results(code: &[RustToken<'_>]) -> usize {
    let starts = code.windows(2).enumerate().filter(|(_, it)| it[0].is("Result") && it[1].is("<"));
    starts.filter(|(at, _)| last_argument(code, at + 1).is_some_and(|it| it.is("String"))).count()
}

/// Returns the last of two or more generic arguments if it is a single token; the opening `<` is at `open`.
fn last_argument<'a>(code: &[RustToken<'a>], open: usize) -> Option<RustToken<'a>> {
    let (mut depth, mut commas) = (0, Vec::new());
    for at in open..code.len() {
        let arrow = at > 0 && (code[at - 1].is("-") || code[at - 1].is("="));
        match code[at].text {
            _ if code[at].kind != TokenKind::Punct => {}
            "<" => depth += 1,
            ">" if !arrow => depth -= 1,
            "," if depth == 1 => commas.push(at),
            other => depth += nesting(other),
        }
        if depth == 0 {
            // The formatter puts a comma behind the last of several lines.
            let trailing = commas.last() == Some(&(at - 1)) && commas.len() > 1;
            let end = if trailing { commas.pop()? } else { at };
            return (commas.last()? + 2 == end).then(|| code[end - 1]);
        }
    }
    None
}

fn types(code: &[RustToken<'_>]) -> Vec<TypeDefinition> {
    let (mut found, mut blocks, mut opens_members) = (Vec::new(), Vec::new(), false);
    for at in 0..code.len() {
        let token = &code[at];
        match token.text {
            _ if !matches!(token.kind, TokenKind::Ident | TokenKind::Punct) => {}
            "{" => blocks.push(std::mem::take(&mut opens_members)),
            "}" => drop(blocks.pop()),
            // An associated type is no definition.
            "type" if blocks.last() == Some(&true) => {}
            "struct" | "enum" | "trait" | "type" => found.extend(definition(code, at)),
            _ => {}
        }
        opens_members |= token.is("trait") || token.is("impl") && begins_item(code, at);
    }
    found
}

/// Whether the token is the first of an item; `impl` in the type of an argument is not.
fn begins_item(code: &[RustToken<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).map(|at| code[at]);
    before.is_none_or(|it| ["{", "}", ";", "]", "unsafe"].iter().any(|text| it.is(text)))
}

fn definition(code: &[RustToken<'_>], keyword: usize) -> Option<TypeDefinition> {
    let name = code.get(keyword + 1).filter(|it| it.kind == TokenKind::Ident)?;
    let public = code[..keyword].iter().rev().find(|it| !it.is("unsafe")).is_some_and(|it| it.is("pub"));
    Some(TypeDefinition { name: name.text.to_owned(), public, line: name.line + 1 })
}

fn literals(code: &[RustToken<'_>]) -> Vec<Literal> {
    let texts = code.iter().filter(|it| it.kind == TokenKind::Text);
    texts.map(|it| Literal { text: it.text.to_owned(), line: it.line + 1 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_lines_from_their_name_to_the_end_of_their_body() {
        let cases: &[(&str, &[usize])] = &[
            ("fn a() {}", &[1]),
            ("/// Doc.\n#[inline]\npub fn a(\n    b: u8,\n) -> [u8; 2] {\n    c\n}\n", &[5]),
            ("trait A {\n    fn a();\n    fn b() {\n    }\n}", &[2]),
            ("fn a() {\n    fn b() {\n    }\n}", &[4, 2]),
            ("type A = fn(u8) -> u8;", &[]),
            ("fn a() {\n    let b = \"}\"; // }\n    '}';\n}", &[4]),
            ("#[cfg(test)]\nmod tests {\n    fn a() {}\n}", &[]),
        ];
        for (source, want) in cases {
            assert_eq!(scan(source).function_lines, *want, "{source}");
        }
    }

    #[test]
    fn results_with_strings_as_errors_are_counted() {
        let cases = [
            ("Result<(), String>", 1),
            ("Result<Vec<u8>, String>", 1),
            ("Result<\n    (u8, u8),\n    String,\n>", 1),
            ("Result<fn(u8) -> u8, String>", 1),
            ("Result<Result<u8, String>, String>", 2),
            ("Result<String>", 0),
            ("Result<String, Error>", 0),
            ("Result<u8, Vec<String>>", 0),
            ("Result<u8, &String>", 0),
            ("\"Result<u8, String>\" // Result<u8, String>", 0),
        ];
        for (source, want) in cases {
            assert_eq!(scan(source).string_results, want, "{source}");
        }
    }

    #[test]
    fn types_are_found_with_their_visibility() {
        let cases: &[(&str, &[(&str, bool)])] = &[
            (
                "pub struct A;\nstruct B(u8);\npub(crate) enum C {}",
                &[("A", true), ("B", false), ("C", false)],
            ),
            ("pub unsafe trait A { type B; }\ntype C = u8;", &[("A", true), ("C", false)]),
            (
                "impl A for B {\n    type C = [u8; 2];\n    fn d() { struct E; type F = u8; }\n}",
                &[("E", false), ("F", false)],
            ),
            ("fn a() -> impl B {\n    type C = u8;\n}", &[("C", false)]),
            ("#[cfg(test)]\nmod tests {\n    pub struct A;\n}", &[]),
            ("macro_rules! a { ($b:ident) => { pub struct $b; } }", &[]),
        ];
        for (source, want) in cases {
            let found = scan(source).types;
            let found: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.public)).collect();
            assert_eq!(found, *want, "{source}");
        }
    }

    #[test]
    fn lines_of_tests_are_left_out() {
        let facts =
            scan("//! Doc.\n\nuse a; // why\nconst B: &str = \"c\nd\";\n\n#[cfg(test)]\nmod tests {\n\n}\n");
        assert_eq!((facts.lines, facts.code_lines), (6, 3));
        assert_eq!(facts.literals, [Literal { text: "c\nd".to_owned(), line: 4 }]);
    }
}
