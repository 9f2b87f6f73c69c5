//! Inputs and helpers of the cell functions in [`super::kinds`].

use std::collections::BTreeSet;

use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::age;

/// Placeholder for a missing reference, name or address.
pub(super) const NONE: &str = "<none>";
/// Placeholder for an unset optional field.
pub(super) const UNSET: &str = "<unset>";

/// Cells of a row, from anything that becomes a tree.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(muster_tree::Tree::from($cell)),*] };
}
pub(super) use cells;

/// One object to render.
pub(super) struct Row<'a> {
    pub object: &'a Tree,
    /// All objects of the table: the default StorageClass is determined among them.
    pub all: &'a [Tree],
    /// The reference time of ages.
    pub now: Time,
}

impl<'a> Row<'a> {
    pub fn name(&self) -> Text {
        self.object.text_at(&["metadata", "name"])
    }

    pub fn age(&self) -> String {
        self.since(&["metadata", "creationTimestamp"])
    }

    /// The instant of creation, as kinds without columns of their own show it.
    pub fn created(&self) -> Tree {
        self.object.at(&["metadata", "creationTimestamp"]).cloned().unwrap_or_default()
    }

    /// The time since the instant at `path`.
    pub fn since(&self, path: &[&str]) -> String {
        age::since(self.object.at(path), self.now)
    }

    /// The text at `path`; empty when absent.
    pub fn text(&self, path: &[&str]) -> Text {
        self.object.text_at(path)
    }

    /// The text at `path`, or `other` when it is absent or empty.
    pub fn text_or(&self, path: &[&str], other: &str) -> Text {
        let text = self.object.text_at(path);
        if text.is_empty() { Text::from(other) } else { text }
    }

    /// The whole number at `path`; 0 when absent.
    pub fn int(&self, path: &[&str]) -> i64 {
        self.object.int_at(path).unwrap_or(0)
    }

    /// The boolean at `path`; false when absent.
    pub fn is(&self, path: &[&str]) -> bool {
        self.object.bool_at(path).unwrap_or(false)
    }

    /// The number of items or entries at `path`.
    pub fn count(&self, path: &[&str]) -> i64 {
        let len = self.object.items_at(path).len() + self.object.entries_at(path).len();
        i64::try_from(len).unwrap_or(i64::MAX)
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.object.at(&["metadata", "deletionTimestamp"]).is_some()
    }

    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&'a Tree> {
        condition(self.object, kind)
    }

    /// Whether the condition of this type is `True`.
    pub fn holds(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|c| c.str_at(&["status"]) == "True")
    }
}

/// The condition of this type in `status.conditions`.
pub(super) fn condition<'a>(object: &'a Tree, kind: &str) -> Option<&'a Tree> {
    object.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == kind)
}

/// Names and images of the containers of a pod spec.
pub(super) fn containers(pod_spec: Option<&Tree>) -> [String; 2] {
    let all = pod_spec.map(|spec| spec.items_at(&["containers"])).unwrap_or_default();
    [join(all, "name"), join(all, "image")]
}

/// Joins the text under `key` of each item.
pub(super) fn join(items: &[Tree], key: &str) -> String {
    let words: Vec<&str> = items.iter().map(|item| item.str_at(&[key])).collect();
    words.join(",")
}

pub(super) fn words(items: &[Tree]) -> String {
    let words: Vec<&str> = items.iter().filter_map(Tree::as_str).collect();
    words.join(",")
}

/// Labels as `k=v,l=w`; `<none>` without any.
pub(super) fn labels(map: Option<&Tree>) -> String {
    let entries = map.map(Tree::entries).unwrap_or_default();
    let all: Vec<String> =
        entries.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    if all.is_empty() { NONE.to_owned() } else { all.join(",") }
}

/// A label selector in the form of the query parameter; `<none>` when it selects everything.
pub(super) fn selector(selector: Option<&Tree>) -> String {
    let Some(selector) = selector else { return NONE.to_owned() };
    let mut terms: Vec<(String, String)> = Vec::new();
    for (key, value) in selector.entries_at(&["matchLabels"]) {
        terms.push((key.to_string(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for term in selector.items_at(&["matchExpressions"]) {
        let key = term.str_at(&["key"]);
        let values: BTreeSet<&str> = term.items_at(&["values"]).iter().filter_map(Tree::as_str).collect();
        let values = values.into_iter().collect::<Vec<_>>().join(",");
        let text = match term.str_at(&["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), text));
    }
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    let texts: Vec<String> = terms.into_iter().map(|(_, text)| text).collect();
    if texts.is_empty() { NONE.to_owned() } else { texts.join(",") }
}

/// At most three values and the number of others.
pub(super) fn at_most_three(all: &[String], none: &str) -> String {
    const SHOWN_MAX: usize = 3;
    match all.len() {
        0 => none.to_owned(),
        1..=SHOWN_MAX => all.join(","),
        more => format!("{} + {} more...", all[..SHOWN_MAX].join(","), more - SHOWN_MAX),
    }
}

pub(super) fn plain(value: &Tree) -> String {
    value.as_str().map_or_else(|| value.to_json(), str::to_owned)
}
