//! What is measured of comments.

use super::lexer::{RustToken, TokenKind};

/// Words for people, or for components as if they were people. The house style names the API object or the component instead.
/// Words that are also plain technical English are not listed: `says`, `waits`, and `whose` ("pods whose node is deleted").
const PEOPLE: [&str; 28] = [
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "farewell",
    "he",
    "hear",
    "heard",
    "hears",
    "her",
    "him",
    "his",
    "nobody",
    "she",
    "somebody",
    "someone",
    "stranger",
    "strangers",
    "tell",
    "telling",
    "tells",
    "told",
    "wear",
    "wears",
    "who",
    "whoever",
    "whom",
    "worn",
];

/// A documentation comment of so few words repeats the name below it more often than not.
const SHORT_WORDS_MAX: usize = 3;

/// Counts of comments; they can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommentFacts {
    /// Documentation comments; consecutive lines are one.
    pub docs: usize,
    pub doc_lines: usize,
    /// Documentation comments of three words or fewer.
    pub short_docs: usize,
    /// Lines with a comment that is no documentation.
    pub inline_lines: usize,
    /// Lines of both kinds with a word of [`PEOPLE`].
    pub people_lines: usize,
}

impl CommentFacts {
    /// Counts the comments of a file, given in order.
    pub fn of(comments: &[RustToken<'_>]) -> CommentFacts {
        let mut facts = CommentFacts::default();
        for comment in comments {
            let lines = comment.last_line - comment.line + 1;
            *(if is_doc(comment) { &mut facts.doc_lines } else { &mut facts.inline_lines }) += lines;
            facts.people_lines += comment.text.lines().filter(|line| words(line).any(is_of_people)).count();
        }
        for doc in docs(comments) {
            facts.docs += 1;
            facts.short_docs +=
                usize::from(doc.iter().map(|it| prose_words(it.text)).sum::<usize>() <= SHORT_WORDS_MAX);
        }
        facts
    }

    /// The sum of two counts.
    pub fn plus(self, other: CommentFacts) -> CommentFacts {
        CommentFacts {
            docs: self.docs + other.docs,
            doc_lines: self.doc_lines + other.doc_lines,
            short_docs: self.short_docs + other.short_docs,
            inline_lines: self.inline_lines + other.inline_lines,
            people_lines: self.people_lines + other.people_lines,
        }
    }
}

fn is_doc(comment: &RustToken<'_>) -> bool {
    comment.kind != TokenKind::Comment
}

/// Groups the documentation on consecutive lines.
fn docs<'a>(comments: &'a [RustToken<'a>]) -> impl Iterator<Item = &'a [RustToken<'a>]> {
    let continues = |a: &RustToken<'_>, b: &RustToken<'_>| a.kind == b.kind && a.last_line + 1 == b.line;
    comments.chunk_by(continues).filter(|group| is_doc(&group[0]))
}

/// Counts what white space separates, without marks such as `///` and `-`.
fn prose_words(text: &str) -> usize {
    text.split_whitespace().filter(|it| it.contains(char::is_alphanumeric)).count()
}

/// Whole words; an identifier with underscores is one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_')
}

fn is_of_people(word: &str) -> bool {
    PEOPLE.iter().any(|it| it.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::super::lexer;
    use super::*;

    fn of(source: &str) -> CommentFacts {
        let comments: Vec<_> = lexer::tokens(source).into_iter().filter(RustToken::is_comment).collect();
        CommentFacts::of(&comments)
    }

    #[test]
    fn documentation_on_consecutive_lines_is_one_comment() {
        let facts = of(
            "//! A b c d.\n//!\n//! E.\n\n/// The name.\npub name: u8,\n/// The size in\n/// bytes.\nsize: u8,\n",
        );
        assert_eq!((facts.docs, facts.doc_lines, facts.short_docs, facts.inline_lines), (3, 6, 1, 0));
    }

    #[test]
    fn each_line_of_an_inline_comment_counts() {
        let facts = of("// a\n// b\nc(); // d\n/* e\nf */");
        assert_eq!((facts.docs, facts.inline_lines), (0, 5));
    }

    #[test]
    fn people_are_whole_words_in_comments() {
        let cases = [
            ("// Whoever asks is told.", 1),
            ("/// He's gone.\n/// The leader.", 1),
            ("/* nobody\nheard\nthe header */", 2),
            ("// `who_waits` is a function", 0),
            ("let who = \"nobody\";", 0),
        ];
        for (source, want) in cases {
            assert_eq!(of(source).people_lines, want, "{source}");
        }
    }
}
