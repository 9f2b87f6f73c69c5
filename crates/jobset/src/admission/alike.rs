//! Whether two trees mean the same to a client that reads objects into types and writes them back.
//!
//! Such a client leaves out what is empty and writes quantities in their shortest form. What it did not mean to
//! change must not be taken for a change.

use muster_api::quantity;
use muster_tree::Tree;

/// Maps and records that mean the same when empty as when absent; others, such as selectors, do not.
const HOLLOW: [&str; 8] =
    ["annotations", "labels", "limits", "matchLabels", "metadata", "nodeSelector", "requests", "resources"];

/// Switches and numbers that mean the same when off or zero as when absent; of others absent means something else.
const OFF: [&str; 9] = [
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
];

/// Where empty text is a choice.
const CHOSEN: &str = "storageClassName";

/// Whether they mean the same.
pub(super) fn is_alike(one: &Tree, other: &Tree) -> bool {
    if one.same_branch(other) {
        return true;
    }
    match (one, other) {
        (Tree::Map(_), Tree::Map(_)) => {
            let keys = one.entries().iter().chain(other.entries()).map(|(key, _)| key.as_str());
            keys.into_iter().all(|key| is_alike_at(key, said(one, key), said(other, key)))
        }
        (Tree::List(_), Tree::List(_)) => {
            let (one, other) = (one.items(), other.items());
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_alike(a, b))
        }
        _ => one == other,
    }
}

fn is_alike_at(key: &str, one: &Tree, other: &Tree) -> bool {
    match key {
        "requests" | "limits" => is_same_quantities(one, other),
        _ => is_alike(one, other),
    }
}

/// A field; what says nothing is as good as none.
fn said<'a>(map: &'a Tree, key: &str) -> &'a Tree {
    map.get(key).filter(|it| !is_silent(key, it)).unwrap_or(&Tree::Null)
}

fn is_silent(key: &str, tree: &Tree) -> bool {
    match tree {
        Tree::Text(text) => text.is_empty() && key != CHOSEN,
        Tree::Bool(false) | Tree::Int(0) => OFF.contains(&key),
        Tree::List(_) => tree.is_empty(),
        Tree::Map(_) => HOLLOW.contains(&key) && tree.entries().iter().all(|(key, it)| is_silent(key, it)),
        other => other.is_null(),
    }
}

/// Whether two maps of quantities have the same values.
pub(super) fn is_same_quantities(one: &Tree, other: &Tree) -> bool {
    let (one, other) = (one.entries(), other.entries());
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.0 == b.0 && value(&a.1) == value(&b.1))
}

/// A quantity by value. Thousandths run out where whole units do not, so both count.
fn value(tree: &Tree) -> (Option<(i64, i64)>, Option<&Tree>) {
    let text = match tree {
        Tree::Text(text) => text.to_string(),
        Tree::Int(number) => number.to_string(),
        other => return (None, Some(other)),
    };
    match (quantity::milli(&text), quantity::whole(&text)) {
        (Some(milli), Some(whole)) => (Some((milli, whole)), None),
        _ => (None, Some(tree)),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn what_is_said_counts_and_not_how() {
        for (says, one, other, alike) in [
            ("the same", tree!({"a": [1, {"b": 2}]}), tree!({"a": [1, {"b": 2}]}), true),
            ("an empty list", tree!({"a": []}), tree!({}), true),
            ("null", tree!({"a": null}), tree!({}), true),
            ("a record with nothing in it", tree!({"metadata": {"labels": {}}}), tree!({}), true),
            (
                "one that typed clients write",
                tree!({"metadata": {"creationTimestamp": null}}),
                tree!({}),
                true,
            ),
            ("a selector of everything", tree!({"namespaceSelector": {}}), tree!({}), false),
            ("empty text", tree!({"value": ""}), tree!({}), true),
            ("no class at all", tree!({"storageClassName": ""}), tree!({}), false),
            ("what is off by default", tree!({"readOnly": false}), tree!({}), true),
            ("what is on by default", tree!({"enableServiceLinks": false}), tree!({}), false),
            ("none, where absent means one", tree!({"replicas": 0}), tree!({}), false),
            ("another number", tree!({"a": 1}), tree!({"a": 2}), false),
            ("one more", tree!({"a": [1]}), tree!({"a": [1, 1]}), false),
            ("another order", tree!({"a": [1, 2]}), tree!({"a": [2, 1]}), false),
            ("half a core", tree!({"requests": {"cpu": "0.5"}}), tree!({"requests": {"cpu": "500m"}}), true),
            ("as a number", tree!({"limits": {"cpu": 1}}), tree!({"limits": {"cpu": "1"}}), true),
            ("more", tree!({"limits": {"cpu": "1"}}), tree!({"limits": {"cpu": "2"}}), false),
            ("of something else", tree!({"limits": {"cpu": "1"}}), tree!({"limits": {"gpu": "1"}}), false),
            ("a quantity elsewhere", tree!({"env": "0.5"}), tree!({"env": "500m"}), false),
        ] {
            assert_eq!(is_alike(&one, &other), alike, "{says}");
            assert_eq!(is_alike(&other, &one), alike, "{says}, the other way round");
        }
    }
}
