//! Splits Rust source into tokens: enough of the language to count with, no more.
//!
//! # Guarantees
//!
//! - Text in strings and comments is never read as code, nor code as text: raw strings, escaped quotes, lifetimes next to
//!   character literals, and nested block comments are handled as in the language.
//! - The lexer accepts any text; an unterminated string or comment extends to the end.
//!
//! # Deliberately absent
//!
//! Operators of several characters, decoded escapes and exact numbers: no measure needs them.

/// The class of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Ident,
    Lifetime,
    Number,
    /// A string literal of any prefix.
    Text,
    Char,
    /// One character of punctuation.
    Punct,
    /// `///` or `/**`: documents the item below it.
    OuterDoc,
    /// `//!` or `/*!`: documents the item around it.
    InnerDoc,
    /// Any other comment.
    Comment,
}

/// A token and the lines it extends over, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RustToken<'a> {
    pub kind: TokenKind,
    /// The source text; of a string literal only what is between the quotes, escapes as written.
    pub text: &'a str,
    pub line: usize,
    pub last_line: usize,
}

impl RustToken<'_> {
    /// Whether this is a comment of any kind.
    pub fn is_comment(&self) -> bool {
        matches!(self.kind, TokenKind::OuterDoc | TokenKind::InnerDoc | TokenKind::Comment)
    }

    /// Whether this is the given keyword, identifier or punctuation.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Ident | TokenKind::Punct) && self.text == text
    }
}

/// Returns all tokens of a file in order.
pub fn tokens(source: &str) -> Vec<RustToken<'_>> {
    let (mut all, mut at, mut line) = (Vec::new(), 0, 0);
    loop {
        let rest = &source[at..];
        let blank = rest.len() - rest.trim_start().len();
        line += newlines(&rest[..blank]);
        at += blank;
        let Some(Lexeme { kind, len, text }) = lexeme(&source[at..]) else { return all };
        let last_line = line + newlines(&source[at..at + len]);
        all.push(RustToken { kind, text, line, last_line });
        (at, line) = (at + len, last_line);
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// A token before its place is known: `len` bytes of source.
struct Lexeme<'a> {
    kind: TokenKind,
    len: usize,
    text: &'a str,
}

/// Reads one token; `rest` does not begin with white space.
fn lexeme(rest: &str) -> Option<Lexeme<'_>> {
    let first = rest.chars().next()?;
    let plain = |kind, len| Lexeme { kind, len, text: &rest[..len] };
    Some(match first {
        '/' if rest.starts_with("//") => {
            plain(line_comment_kind(rest), rest.find('\n').unwrap_or(rest.len()))
        }
        '/' if rest.starts_with("/*") => plain(block_comment_kind(rest), block_comment_len(rest)),
        '\'' => quote(rest, 0),
        'b' if rest.starts_with("b'") => quote(rest, 1),
        '0'..='9' => plain(TokenKind::Number, number_len(rest)),
        _ => match string(rest) {
            Some(string) => string,
            None if is_word(first) => plain(TokenKind::Ident, ident_len(rest)),
            None => plain(TokenKind::Punct, first.len_utf8()),
        },
    })
}

fn line_comment_kind(rest: &str) -> TokenKind {
    match rest {
        _ if rest.starts_with("//!") => TokenKind::InnerDoc,
        _ if rest.starts_with("///") && !rest.starts_with("////") => TokenKind::OuterDoc,
        _ => TokenKind::Comment,
    }
}

fn block_comment_kind(rest: &str) -> TokenKind {
    match rest {
        _ if rest.starts_with("/*!") => TokenKind::InnerDoc,
        _ if rest.starts_with("/**") && !["/***", "/**/"].iter().any(|it| rest.starts_with(it)) => {
            TokenKind::OuterDoc
        }
        _ => TokenKind::Comment,
    }
}

/// The length of a block comment with the block comments nested in it.
fn block_comment_len(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// A character literal or a lifetime; the quote is at byte `quote`.
fn quote(rest: &str, quote: usize) -> Lexeme<'_> {
    let inner = &rest[quote + 1..];
    let mut chars = inner.chars();
    let (first, second) = (chars.next(), chars.next());
    let escaped = first == Some('\\');
    if escaped || second == Some('\'') {
        // The character after a backslash may itself be a quote.
        let skipped =
            first.map_or(0, char::len_utf8) + if escaped { second.map_or(0, char::len_utf8) } else { 0 };
        let len =
            quote + 1 + skipped + inner[skipped..].find('\'').map_or(inner.len() - skipped, |end| end + 1);
        return Lexeme { kind: TokenKind::Char, len, text: &rest[..len] };
    }
    let len = quote + 1 + inner.find(|it| !is_word(it)).unwrap_or(inner.len());
    Lexeme { kind: TokenKind::Lifetime, len, text: &rest[..len] }
}

/// A string literal with any of the prefixes `b`, `c` and `r`, if one begins here.
fn string(rest: &str) -> Option<Lexeme<'_>> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let raw = prefix.ends_with('r');
    if !after[hashes..].starts_with('"') || (hashes > 0 && !raw) {
        return None;
    }
    let begin = prefix.len() + hashes + 1;
    let inner = &rest[begin..];
    let closing = format!("\"{}", "#".repeat(hashes));
    let end = if raw { inner.find(&closing) } else { unescaped_quote(inner) };
    let text = &inner[..end.unwrap_or(inner.len())];
    let len = (begin + text.len() + closing.len()).min(rest.len());
    Some(Lexeme { kind: TokenKind::Text, len, text })
}

fn unescaped_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn number_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let part = |at: usize| {
        bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_' || bytes[at] == b'.' && digit(at + 1)
    };
    (0..rest.len()).find(|at| !part(*at)).unwrap_or(rest.len())
}

fn ident_len(rest: &str) -> usize {
    let raw = if rest.starts_with("r#") { 2 } else { 0 };
    raw + rest[raw..].find(|it| !is_word(it)).unwrap_or(rest.len() - raw)
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

#[cfg(test)]
mod tests {
    use super::TokenKind::{Char, Comment, Ident, InnerDoc, Lifetime, Number, OuterDoc, Punct, Text};
    use super::*;

    #[test]
    fn each_literal_and_comment_is_one_token() {
        let cases: &[(&str, &[(TokenKind, &str)])] = &[
            ("a b_1", &[(Ident, "a"), (Ident, "b_1")]),
            (r#""a // b""#, &[(Text, "a // b")]),
            (r#""a \" b" c"#, &[(Text, r#"a \" b"#), (Ident, "c")]),
            (r#""\\" c"#, &[(Text, r"\\"), (Ident, "c")]),
            ("r\"\\\" c", &[(Text, "\\"), (Ident, "c")]),
            ("r##\"a \"# b\"## c", &[(Text, "a \"# b"), (Ident, "c")]),
            ("br#\"a\"# b\"c\" c\"d\"", &[(Text, "a"), (Text, "c"), (Text, "d")]),
            ("r#type", &[(Ident, "r#type")]),
            ("'a' 'b", &[(Char, "'a'"), (Lifetime, "'b")]),
            (
                r"'\'' '\\' '\u{1f}' b'\n'",
                &[(Char, r"'\''"), (Char, r"'\\'"), (Char, r"'\u{1f}'"), (Char, r"b'\n'")],
            ),
            ("'\"' 'é' '{'", &[(Char, "'\"'"), (Char, "'é'"), (Char, "'{'")]),
            ("<'a>'", &[(Punct, "<"), (Lifetime, "'a"), (Punct, ">"), (Lifetime, "'")]),
            (
                "1..2 3.5 0x_f",
                &[
                    (Number, "1"),
                    (Punct, "."),
                    (Punct, "."),
                    (Number, "2"),
                    (Number, "3.5"),
                    (Number, "0x_f"),
                ],
            ),
            ("/* a /* b */ c */ d", &[(Comment, "/* a /* b */ c */"), (Ident, "d")]),
            (
                "/// a\n//! b\n// \"c\n//// d",
                &[(OuterDoc, "/// a"), (InnerDoc, "//! b"), (Comment, "// \"c"), (Comment, "//// d")],
            ),
            (
                "/** a */ /*! b */ /**/ /*** c */",
                &[(OuterDoc, "/** a */"), (InnerDoc, "/*! b */"), (Comment, "/**/"), (Comment, "/*** c */")],
            ),
        ];
        for (source, want) in cases {
            let got: Vec<_> = tokens(source).iter().map(|it| (it.kind, it.text)).collect();
            assert_eq!(got, *want, "{source}");
        }
    }

    #[test]
    fn unterminated_literals_extend_to_the_end() {
        for source in ["\"a", "r#\"a\"", "/* a", "'\\", "b'"] {
            assert_eq!(tokens(source).len(), 1, "{source}");
        }
    }

    #[test]
    fn tokens_have_the_lines_they_extend_over() {
        let lines: Vec<_> =
            tokens("a\n\"b\nc\" /*\n*/\n d").iter().map(|it| (it.line, it.last_line)).collect();
        assert_eq!(lines, [(0, 0), (1, 2), (2, 3), (4, 4)]);
    }
}
