//! Compares two normalised answers.

use std::fmt;

use muster_tree::{Tree, from_tree};
use serde::Deserialize;

use super::client::HttpAnswer;

/// A path at which two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// `code`, `warnings`, `media` or a path into the body such as `body.spec.ports[0].nodePort`.
    pub path: String,
    pub ours: Tree,
    pub real: Tree,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n      ours {}\n      real {}", self.path, short(&self.ours), short(&self.real))
    }
}

fn short(tree: &Tree) -> String {
    let text = tree.to_json();
    if text.chars().count() <= 600 { text } else { text.chars().take(600).chain("…".chars()).collect() }
}

/// A difference that is accepted, with the reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// Prefix of the path; `[]` is any index.
    pub path: String,
    /// Restricts the entry to scenarios whose name contains this; all when empty.
    #[serde(default)]
    pub scenario: String,
    pub reason: String,
    /// Which clients may be affected.
    pub clients: String,
}

impl KnownDifference {
    pub fn load(text: &str) -> Result<Vec<KnownDifference>, String> {
        let list = Tree::parse_yaml(text).map_err(|e| e.to_string())?;
        from_tree(&list).map_err(|e| e.to_string())
    }

    /// Whether this entry accepts the difference in this scenario.
    #[must_use]
    pub fn covers(&self, scenario: &str, difference: &Difference) -> bool {
        scenario.contains(&self.scenario) && without_indexes(&difference.path).starts_with(&self.path)
    }
}

fn without_indexes(path: &str) -> String {
    let mut inside = false;
    let kept = path.chars().filter(|c| {
        inside = match c {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        !inside || !c.is_ascii_digit()
    });
    kept.collect()
}

#[must_use]
pub fn compare(ours: &HttpAnswer, real: &HttpAnswer) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut check = |path: &str, ours: Tree, real: Tree| {
        if ours != real {
            found.push(Difference { path: path.to_owned(), ours, real });
        }
    };
    check("code", Tree::from(u32::from(ours.code)), Tree::from(u32::from(real.code)));
    check("media", Tree::from(&ours.media), Tree::from(&real.media));
    check("warnings", Tree::from(ours.warnings.clone()), Tree::from(real.warnings.clone()));
    walk("body", &ours.body, &real.body, &mut found);
    found
}

#[must_use]
pub fn compare_trees(ours: &Tree, real: &Tree) -> Vec<Difference> {
    let mut found = Vec::new();
    walk("", ours, real, &mut found);
    found
}

fn walk(path: &str, ours: &Tree, real: &Tree, found: &mut Vec<Difference>) {
    if ours == real {
        return;
    }
    match (ours, real) {
        (Tree::Map(_), Tree::Map(_)) => {
            let mut keys: Vec<_> =
                ours.entries().iter().chain(real.entries()).map(|(k, _)| k.clone()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let of = |tree: &Tree| tree.get(&key).cloned().unwrap_or(Tree::from("<absent>"));
                walk(&format!("{path}.{key}"), &of(ours), &of(real), found);
            }
        }
        (Tree::List(_), Tree::List(_)) if ours.items().len() == real.items().len() => {
            for (i, (a, b)) in ours.items().iter().zip(real.items()).enumerate() {
                walk(&format!("{path}[{i}]"), a, b, found);
            }
        }
        _ => found.push(Difference { path: path.to_owned(), ours: ours.clone(), real: real.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn answer(body: Tree) -> HttpAnswer {
        HttpAnswer { code: 200, warnings: vec![], media: "application/json".into(), body }
    }

    #[test]
    fn a_known_difference_covers_its_path_at_any_index_and_nothing_else() {
        let text = "[{path: 'body.rows[].cells', scenario: tables, reason: r, clients: c}]";
        let known = &KnownDifference::load(text).unwrap()[0];
        let at = |path: &str| Difference { path: path.into(), ours: Tree::Null, real: Tree::from(1) };
        assert!(known.covers("tables of Jobs", &at("body.rows[12].cells[0]")));
        assert!(!known.covers("tables of Jobs", &at("body.rows[12].object")));
        assert!(!known.covers("Jobs", &at("body.rows[12].cells")));
    }

    #[test]
    fn a_missing_default_and_a_wrong_order_are_found() {
        let real = answer(tree!({"spec": {"a": 1, "list": ["x", "y"]}}));
        assert_eq!(compare(&real, &real), []);
        let missing = compare(&answer(tree!({"spec": {"list": ["x", "y"]}})), &real);
        assert_eq!(missing[0].path, "body.spec.a");
        let order = compare(&answer(tree!({"spec": {"a": 1, "list": ["y", "x"]}})), &real);
        assert_eq!(
            order.iter().map(|d| d.path.as_str()).collect::<Vec<_>>(),
            ["body.spec.list[0]", "body.spec.list[1]"]
        );
    }
}
