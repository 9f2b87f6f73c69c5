//! Labels and what selects them.
//!
//! Labels are sorted lists of pairs; a selector is a value that can be compared, so that equal ones are counted once.

use muster_api::paths::{label_expression, selector as path};
use muster_tree::{Text, Tree};

/// Labels, sorted by key.
pub type Labels = Vec<(Text, Text)>;

/// The labels in a tree.
#[must_use]
pub fn read(entries: &[(Text, Tree)]) -> Labels {
    entries.iter().filter_map(|(key, value)| Some((key.clone(), value.as_text()?.clone()))).collect()
}

/// The value of a label.
#[must_use]
pub fn find<'a>(labels: &'a [(Text, Text)], key: &str) -> Option<&'a Text> {
    labels.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok().map(|at| &labels[at].1)
}

/// What labels must be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    /// `None` selects nothing, an empty list everything.
    wants: Option<Vec<Want>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Want {
    In(Text, Vec<Text>),
    NotIn(Text, Vec<Text>),
    Exists(Text),
    Absent(Text),
    /// An operator that is not known: nothing fits.
    Never,
}

impl Selector {
    /// Reads `matchLabels` and `matchExpressions`; no tree at all selects nothing.
    #[must_use]
    pub fn of(tree: Option<&Tree>) -> Selector {
        let wants = tree.filter(|tree| tree.is_map()).map(|tree| {
            let equal = tree.entries_at(path::LABELS).iter();
            let equal = equal.map(|(k, v)| Want::In(k.clone(), v.as_text().cloned().into_iter().collect()));
            equal.chain(tree.items_at(path::EXPRESSIONS).iter().map(read_want)).collect()
        });
        Selector { wants }
    }

    /// Whether it selects an object with these labels.
    #[must_use]
    pub fn selects(&self, labels: &[(Text, Text)]) -> bool {
        self.wants.as_ref().is_some_and(|wants| wants.iter().all(|want| want.fits(labels)))
    }

    /// Whether nothing is asked at all.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.wants.as_ref().is_some_and(Vec::is_empty)
    }

    /// Also asks for this very value, or for any other, unless the selector selects nothing anyway.
    pub fn add(&mut self, key: &Text, value: &Text, same: bool) {
        let (key, values) = (key.clone(), vec![value.clone()]);
        if let Some(wants) = &mut self.wants {
            wants.push(if same { Want::In(key, values) } else { Want::NotIn(key, values) });
        }
    }

    /// The labels it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.wants.iter().flatten().filter_map(|want| match want {
            Want::In(key, _) | Want::NotIn(key, _) | Want::Exists(key) | Want::Absent(key) => Some(key),
            Want::Never => None,
        })
    }
}

impl Want {
    fn fits(&self, labels: &[(Text, Text)]) -> bool {
        match self {
            Want::In(key, values) => find(labels, key).is_some_and(|value| values.contains(value)),
            Want::NotIn(key, values) => find(labels, key).is_none_or(|value| !values.contains(value)),
            Want::Exists(key) => find(labels, key).is_some(),
            Want::Absent(key) => find(labels, key).is_none(),
            Want::Never => false,
        }
    }
}

fn read_want(tree: &Tree) -> Want {
    let key = tree.text_at(label_expression::KEY);
    let values = texts(tree.items_at(label_expression::VALUES));
    match tree.str_at(label_expression::OPERATOR) {
        "In" => Want::In(key, values),
        "NotIn" => Want::NotIn(key, values),
        "Exists" => Want::Exists(key),
        "DoesNotExist" => Want::Absent(key),
        _ => Want::Never,
    }
}

/// The texts of a list.
#[must_use]
pub fn texts(items: &[Tree]) -> Vec<Text> {
    items.iter().filter_map(|item| item.as_text().cloned()).collect()
}
