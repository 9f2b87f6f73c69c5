//! Label selectors of specs (`matchLabels` and `matchExpressions`).

use muster_tree::{Text, Tree};

use crate::meta;
use crate::paths::{label_expression, meta as meta_path, selector as path};

/// A label selector. Equal selectors compare equal, so that their matches can be cached by selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LabelSelector {
    /// `None` matches nothing, an empty list everything, as upstream's nil and empty selectors do.
    terms: Option<Vec<Term>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Term {
    In(Text, Vec<Text>),
    NotIn(Text, Vec<Text>),
    Exists(Text),
    Absent(Text),
    /// An unknown operator: matches nothing.
    Never,
}

impl LabelSelector {
    /// Reads `matchLabels` and `matchExpressions`; an absent selector matches nothing.
    #[must_use]
    pub fn of(tree: Option<&Tree>) -> LabelSelector {
        let terms = tree.filter(|tree| tree.is_map()).map(|tree| {
            let equal = tree.entries_at(path::LABELS).iter();
            let equal = equal
                .map(|(key, value)| Term::In(key.clone(), value.as_text().cloned().into_iter().collect()));
            equal.chain(tree.items_at(path::EXPRESSIONS).iter().map(term)).collect()
        });
        LabelSelector { terms }
    }

    /// Returns whether the labels of an object match.
    #[must_use]
    pub fn matches(&self, object: &Tree) -> bool {
        let labels = object.at(meta_path::LABELS).unwrap_or(&Tree::Null);
        self.fits(|key| labels.get(key).and_then(Tree::as_text))
    }

    /// Returns whether these labels, sorted by key, match.
    #[must_use]
    pub fn matches_labels(&self, labels: &[(Text, Text)]) -> bool {
        self.fits(|key| find_label(labels, key))
    }

    fn fits<'a>(&self, value: impl Fn(&Text) -> Option<&'a Text>) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.iter().all(|term| term.fits(&value)))
    }

    /// Returns whether the selector is present and empty, so that it matches every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.terms.as_ref().is_some_and(Vec::is_empty)
    }

    /// Adds a requirement for exactly this value (`same`) or for any other; no effect on a selector that matches nothing.
    pub fn add(&mut self, key: &Text, value: &Text, same: bool) {
        let (key, values) = (key.clone(), vec![value.clone()]);
        if let Some(terms) = &mut self.terms {
            terms.push(if same { Term::In(key, values) } else { Term::NotIn(key, values) });
        }
    }

    /// Keys of all requirements.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.terms.iter().flatten().filter_map(|term| match term {
            Term::In(key, _) | Term::NotIn(key, _) | Term::Exists(key) | Term::Absent(key) => Some(key),
            Term::Never => None,
        })
    }

    /// Returns whether two objects have equal labels and namespaces, so that no selector distinguishes them.
    #[must_use]
    pub fn same_labels(one: &Tree, other: &Tree) -> bool {
        one.at(meta_path::LABELS) == other.at(meta_path::LABELS)
            && meta::namespace(one) == meta::namespace(other)
    }
}

/// Finds a label in labels that are sorted by key.
#[must_use]
pub fn find_label<'a>(labels: &'a [(Text, Text)], key: &str) -> Option<&'a Text> {
    labels.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok().map(|at| &labels[at].1)
}

fn term(tree: &Tree) -> Term {
    let key = tree.text_at(label_expression::KEY);
    let values =
        tree.items_at(label_expression::VALUES).iter().filter_map(|v| v.as_text().cloned()).collect();
    match tree.str_at(label_expression::OPERATOR) {
        "In" => Term::In(key, values),
        "NotIn" => Term::NotIn(key, values),
        "Exists" => Term::Exists(key),
        "DoesNotExist" => Term::Absent(key),
        _ => Term::Never,
    }
}

impl Term {
    fn fits<'a>(&self, value: impl Fn(&Text) -> Option<&'a Text>) -> bool {
        match self {
            Term::In(key, values) => value(key).is_some_and(|value| values.contains(value)),
            // NotIn also matches objects without the label, as upstream does.
            Term::NotIn(key, values) => value(key).is_none_or(|value| !values.contains(value)),
            Term::Exists(key) => value(key).is_some(),
            Term::Absent(key) => value(key).is_none(),
            Term::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn selector_matching() {
        let object = tree!({"metadata": {"labels": {"app": "a", "tier": "1"}}});
        let labels = [("app".into(), "a".into()), ("tier".into(), "1".into())];
        for (says, selector, want) in [
            ("nothing is asked", tree!({}), true),
            ("equal", tree!({"matchLabels": {"app": "a"}}), true),
            ("other value", tree!({"matchLabels": {"app": "b"}}), false),
            ("all must fit", tree!({"matchLabels": {"app": "a", "x": "y"}}), false),
            (
                "in",
                tree!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["b", "a"]}]}),
                true,
            ),
            (
                "not in",
                tree!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}),
                false,
            ),
            (
                "not in, absent",
                tree!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["a"]}]}),
                true,
            ),
            ("exists", tree!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            (
                "does not exist",
                tree!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
            ("no such operator", tree!({"matchExpressions": [{"key": "tier", "operator": "Like"}]}), false),
        ] {
            let selector = LabelSelector::of(Some(&selector));
            assert_eq!(selector.matches(&object), want, "{says}");
            assert_eq!(selector.matches_labels(&labels), want, "{says}, of a list");
        }
        assert!(!LabelSelector::of(None).matches(&object), "no selector selects nothing");
    }
}
