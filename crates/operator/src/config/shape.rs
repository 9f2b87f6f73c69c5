//! Table-driven schemas for configuration documents, and their validation.
//!
//! # Guarantees
//!
//! - A key that the tables do not name is an error at any depth, except below [`Shape::Anything`].
//! - All problems are reported at once, each with its path and line.
//!
//! # Deliberately absent
//!
//! Defaults, and rules between keys: the reader of a document applies them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use muster_tree::{Lines, Tree};

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Bool,
    /// An integer in this inclusive range.
    Whole(i64, i64),
    Number,
    Text,
    Word(&'static [&'static str]),
    /// A positive duration: `90s`, `1h30m`.
    Span,
    /// A duration, possibly zero.
    Pause,
    /// An IP address; empty means all addresses.
    Host,
    Address,
    /// `ADDRESS:PORT`, `:PORT` for all addresses, or `0` for none.
    Bind,
    List(&'static Shape),
    /// A map with arbitrary keys.
    Map(&'static Shape),
    Fields(&'static [Field]),
    Anything,
}

#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub effect: KeyEffect,
}

/// Whether a key has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEffect {
    /// It has, or keys below it have.
    Used,
    /// It has none, for this reason.
    Ignored(&'static str),
}

/// A key with an effect.
pub const fn used(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, effect: KeyEffect::Used }
}

/// A key without an effect, and why.
pub const fn ignored(name: &'static str, shape: Shape, why: &'static str) -> Field {
    Field { name, shape, effect: KeyEffect::Ignored(why) }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    pub path: String,
    /// The problem and its remedy.
    pub message: String,
}

impl ConfigProblem {
    pub fn at(path: impl Into<String>, words: impl Into<String>) -> ConfigProblem {
        ConfigProblem { path: path.into(), message: words.into() }
    }

    /// An invalid value, in the message format of the API server.
    pub fn value(path: impl Into<String>, value: &Tree, words: &str) -> ConfigProblem {
        ConfigProblem::at(path, format!("Invalid value: {}: {words}", value.to_json()))
    }

    /// The message with the line, if it is known.
    pub fn with_line(&self, lines: &Lines) -> String {
        // A missing key has no line of its own: the nearest parent has.
        let mut path = self.path.as_str();
        loop {
            if let Some(line) = lines.get(path) {
                return format!("line {line}: {}: {}", self.path, self.message);
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return format!("{}: {}", self.path, self.message),
            }
        }
    }
}

/// Collects the problems of `tree` at `path`.
pub fn check(shape: &Shape, tree: &Tree, path: &str, wrong: &mut Vec<ConfigProblem>) {
    // `null` counts as unset.
    if tree.is_null() {
        return;
    }
    match shape {
        Shape::Fields(fields) if tree.is_map() => {
            for (key, value) in tree.entries() {
                match fields.iter().find(|field| field.name == key.as_str()) {
                    Some(field) => check(&field.shape, value, &below(path, key), wrong),
                    None => wrong.push(ConfigProblem::at(below(path, key), unknown(key, fields))),
                }
            }
        }
        Shape::Map(shape) if tree.is_map() => {
            tree.entries().iter().for_each(|(key, value)| check(shape, value, &below(path, key), wrong));
        }
        Shape::List(shape) if tree.is_list() => {
            for (at, item) in tree.items().iter().enumerate() {
                check(shape, item, &format!("{path}[{at}]"), wrong);
            }
        }
        _ => wrong.extend(expected(shape, tree).map(|words| ConfigProblem::value(path, tree, &words))),
    }
}

/// The message for a value of the wrong type.
fn expected(shape: &Shape, tree: &Tree) -> Option<String> {
    let text = tree.as_str();
    let (fine, words) = match shape {
        Shape::Bool => (tree.as_bool().is_some(), "must be true or false".to_owned()),
        Shape::Whole(from, to) => {
            (tree.as_int().is_some_and(|it| (*from..=*to).contains(&it)), range(*from, *to))
        }
        Shape::Number => {
            let number = tree.as_float().or_else(|| tree.as_int().map(|it| it as f64));
            (number.is_some_and(|it| it >= 0.0), "must be greater than or equal to 0".to_owned())
        }
        Shape::Text => (text.is_some(), "must be a string; put it in quotes".to_owned()),
        Shape::Word(words) => {
            (text.is_some_and(|it| words.contains(&it)), format!("must be one of {}", words.join(", ")))
        }
        Shape::Span => (
            text.and_then(span).is_some_and(|it| !it.is_zero()),
            "must be a positive duration such as 90s, 10m or 1h30m".to_owned(),
        ),
        Shape::Pause => {
            (text.and_then(span).is_some(), "must be a duration such as 90s, 10m or 1h30m".to_owned())
        }
        Shape::Host => (
            text.is_some_and(|it| it.is_empty() || it.parse::<IpAddr>().is_ok()),
            "must be an IP address such as 0.0.0.0: names are not resolved".to_owned(),
        ),
        Shape::Address => (
            text.is_some_and(|it| it.parse::<SocketAddr>().is_ok()),
            "must be an address and a port such as 127.0.0.1:8080".to_owned(),
        ),
        Shape::Bind => (
            text.and_then(bind).is_some(),
            "must be an address and a port such as 127.0.0.1:8080, :8080 for all addresses, or 0 for none"
                .to_owned(),
        ),
        Shape::List(_) => (false, "must be a list".to_owned()),
        Shape::Map(_) | Shape::Fields(_) => (false, "must be a map".to_owned()),
        Shape::Anything => (true, String::new()),
    };
    (!fine).then_some(words)
}

fn range(from: i64, to: i64) -> String {
    match (from, to) {
        (1, i64::MAX) => "must be greater than 0".to_owned(),
        (from, i64::MAX) => format!("must be greater than or equal to {from}"),
        (from, to) => format!("must be between {from} and {to}"),
    }
}

/// Parses `90s`, `10m`, `1h30m`.
pub fn span(text: &str) -> Option<Duration> {
    let span: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(span).ok()
}

/// Parses a bind address as controller-runtime does; `Some(None)` means disabled.
pub fn bind(text: &str) -> Option<Option<SocketAddr>> {
    if text == "0" {
        return Some(None);
    }
    if let Some(port) = text.strip_prefix(':') {
        return Some(Some((Ipv4Addr::UNSPECIFIED, port.parse().ok()?).into()));
    }
    text.parse().ok().map(Some)
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn unknown(key: &str, fields: &[Field]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
    let near = names.iter().map(|name| (distance(key, name), *name)).min();
    // Two typos in a short word make it another word.
    let near = near.filter(|(far, name)| *far <= 2 && *far * 2 < name.len());
    let hint = near.map_or(String::new(), |(_, name)| format!("did you mean `{name}`? "));
    format!("unknown key; {hint}known are {}", names.join(", "))
}

/// The Levenshtein distance, ignoring case.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = before + usize::from(a != *b);
            before = row[j + 1];
            row[j + 1] = replaced.min(before + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

/// The warning about keys of a document without an effect, grouped by reason; `None` when there are none.
pub fn ignored_keys(name: &str, shape: &Shape, tree: &Tree) -> Option<String> {
    let mut all: Vec<(&'static str, Vec<String>)> = Vec::new();
    walk(shape, tree, "", &mut all);
    let parts = all.iter().map(|(why, paths)| format!("{}: {why}", paths.join(", ")));
    let line = parts.collect::<Vec<_>>().join("; ");
    (!line.is_empty()).then(|| format!("{name}: {line}"))
}

fn walk(shape: &Shape, tree: &Tree, path: &str, all: &mut Vec<(&'static str, Vec<String>)>) {
    let Shape::Fields(fields) = shape else { return };
    for field in *fields {
        let Some(value) = tree.get(field.name) else { continue };
        let path = below(path, field.name);
        match field.effect {
            KeyEffect::Used => walk(&field.shape, value, &path, all),
            KeyEffect::Ignored(why) => match all.iter_mut().find(|(it, _)| *it == why) {
                Some((_, paths)) => paths.push(path),
                None => all.push((why, vec![path])),
            },
        }
    }
}

/// Every key path of a table, down to lists and free maps.
#[cfg(test)]
pub fn paths(fields: &[Field]) -> Vec<String> {
    let below = |field: &Field| match field.shape {
        Shape::Fields(fields) => {
            paths(fields).into_iter().map(|path| format!("{}.{path}", field.name)).collect()
        }
        _ => vec![field.name.to_owned()],
    };
    fields.iter().flat_map(below).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    const INNER: [Field; 2] =
        [used("listen", Shape::Address), ignored("certDir", Shape::Text, "no directory")];
    const ALL: [Field; 9] = [
        used("webhook", Shape::Fields(&INNER)),
        used("ports", Shape::List(&Shape::Whole(1, 65535))),
        used("gates", Shape::Map(&Shape::Bool)),
        used("word", Shape::Word(&["a", "b"])),
        used("time", Shape::Span),
        used("many", Shape::Whole(1, i64::MAX)),
        used("qps", Shape::Number),
        used("bind", Shape::Bind),
        ignored("later", Shape::Anything, "kept for later"),
    ];

    fn wrong(tree: &Tree) -> Vec<String> {
        let mut wrong = Vec::new();
        check(&Shape::Fields(&ALL), tree, "", &mut wrong);
        wrong.iter().map(|it| it.with_line(&Lines::new())).collect()
    }

    #[test]
    fn problems_have_a_path_and_a_remedy() {
        for (says, tree, words) in [
            (
                "all is fine",
                tree!({"webhook": {"listen": "127.0.0.1:1"}, "ports": [1], "gates": {"A": true}}),
                "",
            ),
            ("anything goes", tree!({"later": {"a": [1]}, "time": "1h30m", "bind": ":8080", "qps": 1.5}), ""),
            ("a key without a value", tree!({"time": null}), ""),
            (
                "a key that is nearly right",
                tree!({"webhook": {"Listn": "x"}}),
                "webhook.Listn: unknown key; did you mean `listen`? known are listen, certDir",
            ),
            ("a key that is nothing", tree!({"x": 1}), "x: unknown key; known are webhook, ports"),
            ("an address without a port", tree!({"webhook": {"listen": "a"}}), "such as 127.0.0.1:8080"),
            (
                "a port too large",
                tree!({"ports": [1, 70000]}),
                "ports[1]: Invalid value: 70000: must be between 1 and 65535",
            ),
            (
                "no bool",
                tree!({"gates": {"A": "yes"}}),
                "gates.A: Invalid value: \"yes\": must be true or false",
            ),
            ("no list", tree!({"ports": 1}), "ports: Invalid value: 1: must be a list"),
            ("no map", tree!({"webhook": []}), "webhook: Invalid value: []: must be a map"),
            ("another word", tree!({"word": "c"}), "must be one of a, b"),
            ("no duration", tree!({"time": "soon"}), "must be a positive duration such as 90s"),
            ("zero", tree!({"time": "0s"}), "must be a positive duration"),
            ("a negative duration", tree!({"time": "-1s"}), "must be a positive duration"),
            ("too few", tree!({"many": 0}), "must be greater than 0"),
            ("less than none", tree!({"qps": (-1)}), "must be greater than or equal to 0"),
            ("nowhere to listen", tree!({"bind": "here:80"}), "0 for none"),
        ] {
            let told = wrong(&tree);
            match words {
                "" => assert!(told.is_empty(), "{says}: {told:?}"),
                words => assert!(told.len() == 1 && told[0].contains(words), "{says}: {told:?}"),
            }
        }
        assert_eq!(wrong(&tree!({"x": 1, "time": 1, "ports": ["a"]})).len(), 3, "all at once");
    }

    #[test]
    fn a_problem_has_the_line_of_its_key_or_of_the_nearest_parent() {
        let lines: Lines = [("a".to_owned(), 3), ("a.b".to_owned(), 4)].into();
        for (path, want) in [
            ("a.b", "line 4: a.b: no"),
            ("a.c", "line 3: a.c: no"),
            ("a.b[0].d", "line 4: a.b[0].d: no"),
            ("x", "x: no"),
        ] {
            assert_eq!(ConfigProblem::at(path, "no").with_line(&lines), want);
        }
    }

    #[test]
    fn ignored_keys_are_grouped_by_reason() {
        let all = Shape::Fields(&ALL);
        let tree = tree!({"webhook": {"listen": "x", "certDir": "d"}, "later": {"a": 1}, "many": 1});
        let told = ignored_keys("kueue", &all, &tree).unwrap();
        assert_eq!(told, "kueue: webhook.certDir: no directory; later: kept for later");
        assert_eq!(ignored_keys("kueue", &all, &tree!({"many": 1})), None);
    }
}
