//! Paths of fields as messages format them: `.spec.containers[name="a"].image`.

use muster_tree::{Text, Tree};

use super::{children, is_empty, is_member};

/// The path of every field in the set: first those of a place, then those below it.
#[must_use]
pub fn paths(set: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    collect(set, "", &mut all);
    all
}

fn collect(set: &Tree, prefix: &str, all: &mut Vec<String>) {
    let mut elements: Vec<(String, &Tree)> =
        children(set).map(|(key, below)| (format!("{prefix}{}", shown(key)), below)).collect();
    if elements.iter().any(|(path, _)| path.ends_with(']')) {
        // `k:{"port":80}` comes before `k:{"port":8080}` in a set, but not in the order of text.
        elements.sort_by_cached_key(|(path, _)| natural(path));
    }
    all.extend(elements.iter().filter(|(_, below)| is_member(below)).map(|(path, _)| path.clone()));
    for (path, below) in elements.iter().filter(|(_, below)| !is_empty(below)) {
        collect(below, path, all);
    }
}

fn shown(key: &Text) -> String {
    let parse = |json: &str| Tree::parse(json.as_bytes()).unwrap_or_default();
    match key.split_once(':') {
        Some(("k", json)) => {
            let fields = parse(json);
            let fields = fields.entries().iter().map(|(name, value)| format!("{name}={}", quoted(value)));
            format!("[{}]", fields.collect::<Vec<_>>().join(","))
        }
        Some(("v", json)) => format!("[={}]", quoted(&parse(json))),
        Some((_, name)) => format!(".{name}"),
        None => format!(".{key}"),
    }
}

fn quoted(value: &Tree) -> String {
    match value {
        Tree::Text(text) => format!("{:?}", text.as_str()),
        other => other.to_json(),
    }
}

/// A key by which numbers inside text sort as numbers.
fn natural(path: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[words..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - words);
        let number = rest[words..words + digits].parse().unwrap_or(u64::MAX);
        parts.push((0, rest[..words].to_owned()));
        parts.push((number, String::new()));
        rest = &rest[words + digits..];
    }
    parts
}
