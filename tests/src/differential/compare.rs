//! Finds what differs between two normalised answers.

use std::fmt;

use muster_tree::{Tree, from_tree};
use serde::Deserialize;

use super::play::Answer;

/// One place where the two servers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// `code`, `warnings`, `media` or a path into the body such as `body.spec.ports[0].nodePort`.
    pub path: String,
    /// What our server said.
    pub ours: Tree,
    /// What the real one said.
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

/// A difference that stays, and why.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Start of the path; `[]` stands for any index.
    pub path: String,
    /// Only in scenarios whose name contains this; everywhere when empty.
    #[serde(default)]
    pub scenario: String,
    /// Why it stays.
    pub reason: String,
    /// Which clients could notice.
    pub clients: String,
}

impl Known {
    /// Reads the list of differences that stay.
    pub fn load(text: &str) -> Result<Vec<Known>, String> {
        let list = Tree::parse_yaml(text).map_err(|e| e.to_string())?;
        from_tree(&list).map_err(|e| e.to_string())
    }

    /// Whether this entry speaks of a difference in this scenario.
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

/// Everything that differs.
#[must_use]
pub fn compare(ours: &Answer, real: &Answer) -> Vec<Difference> {
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

/// Everything that differs between two trees.
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

    fn answer(body: Tree) -> Answer {
        Answer { code: 200, warnings: vec![], media: "application/json".into(), body }
    }

    #[test]
    fn a_known_difference_covers_its_path_at_any_index_and_nothing_else() {
        let text = "[{path: 'body.rows[].cells', scenario: tables, reason: r, clients: c}]";
        let known = &Known::load(text).unwrap()[0];
        let at = |path: &str| Difference { path: path.into(), ours: Tree::Null, real: Tree::from(1) };
        assert!(known.covers("tables of Jobs", &at("body.rows[12].cells[0]")));
        assert!(!known.covers("tables of Jobs", &at("body.rows[12].object")));
        assert!(!known.covers("Jobs", &at("body.rows[12].cells")));
    }

    #[test]
    fn the_judge_sees_a_missing_default_and_a_wrong_order() {
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
