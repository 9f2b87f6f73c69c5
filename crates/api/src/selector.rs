//! Label selectors.

use muster_tree::{Text, Tree};

use crate::meta;
use crate::paths::{label_expression, meta as meta_path, selector as path};

/// What an object's labels must be: a value that can be compared, so that equal ones are counted once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Selector {
    /// `None` selects nothing, an empty list everything.
    terms: Option<Vec<Term>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Term {
    In(Text, Vec<Text>),
    NotIn(Text, Vec<Text>),
    Exists(Text),
    Absent(Text),
    /// An operator we do not know: nothing fits.
    Never,
}

impl Selector {
    /// Reads `matchLabels` and `matchExpressions`; no tree at all selects nothing.
    #[must_use]
    pub fn of(tree: Option<&Tree>) -> Selector {
        let terms = tree.filter(|tree| tree.is_map()).map(|tree| {
            let equal = tree.entries_at(path::LABELS).iter();
            let equal = equal
                .map(|(key, value)| Term::In(key.clone(), value.as_text().cloned().into_iter().collect()));
            equal.chain(tree.items_at(path::EXPRESSIONS).iter().map(term)).collect()
        });
        Selector { terms }
    }

    /// Whether it selects an object.
    #[must_use]
    pub fn selects(&self, object: &Tree) -> bool {
        let labels = object.at(meta_path::LABELS).unwrap_or(&Tree::Null);
        self.fits(|key| labels.get(key).and_then(Tree::as_text))
    }

    /// Whether it selects an object with these labels, which are sorted by key.
    #[must_use]
    pub fn selects_labels(&self, labels: &[(Text, Text)]) -> bool {
        self.fits(|key| find_label(labels, key))
    }

    fn fits<'a>(&self, value: impl Fn(&Text) -> Option<&'a Text>) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.iter().all(|term| term.fits(&value)))
    }

    /// Whether nothing is asked at all.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.terms.as_ref().is_some_and(Vec::is_empty)
    }

    /// Also asks for this very value, or for any other, unless the selector selects nothing anyway.
    pub fn add(&mut self, key: &Text, value: &Text, same: bool) {
        let (key, values) = (key.clone(), vec![value.clone()]);
        if let Some(terms) = &mut self.terms {
            terms.push(if same { Term::In(key, values) } else { Term::NotIn(key, values) });
        }
    }

    /// The labels it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.terms.iter().flatten().filter_map(|term| match term {
            Term::In(key, _) | Term::NotIn(key, _) | Term::Exists(key) | Term::Absent(key) => Some(key),
            Term::Never => None,
        })
    }

    /// Whether two objects look the same to every selector.
    #[must_use]
    pub fn same_labels(one: &Tree, other: &Tree) -> bool {
        one.at(meta_path::LABELS) == other.at(meta_path::LABELS)
            && meta::namespace(one) == meta::namespace(other)
    }
}

/// The value of a label among labels that are sorted by key.
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
    fn what_is_selected() {
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
            let selector = Selector::of(Some(&selector));
            assert_eq!(selector.selects(&object), want, "{says}");
            assert_eq!(selector.selects_labels(&labels), want, "{says}, of a list");
        }
        assert!(!Selector::of(None).selects(&object), "no selector selects nothing");
    }
}
