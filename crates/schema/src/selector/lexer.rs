//! The lexer of label selectors.

use std::iter::Peekable;
use std::vec::IntoIter;

/// One token, with its text for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    /// The text as messages show it.
    pub(super) fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

/// The tokens of a selector; after the last one comes [`Token::End`] for ever.
pub(super) struct Tokens<'a>(Peekable<IntoIter<Token<'a>>>);

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut all = Vec::new();
        let mut rest = text.trim_start_matches(is_space);
        while !rest.is_empty() {
            let (token, len) = first(rest);
            all.push(token);
            rest = rest[len..].trim_start_matches(is_space);
        }
        Self(all.into_iter().peekable())
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        self.0.next().unwrap_or(Token::End)
    }

    pub(super) fn peek(&mut self) -> Token<'a> {
        self.0.peek().copied().unwrap_or(Token::End)
    }
}

fn first(rest: &str) -> (Token<'_>, usize) {
    let len = match rest.as_bytes() {
        [b'=', b'=', ..] | [b'!', b'=', ..] => 2,
        _ if rest.starts_with(is_symbol) => 1,
        _ => {
            let len = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            return (Token::Word(&rest[..len]), len);
        }
    };
    (Token::Symbol(&rest[..len]), len)
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}
