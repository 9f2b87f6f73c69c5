//! Computes a JSON patch (RFC 6902) from one tree to another, for the responses of mutating webhooks.
//!
//! # Guarantees
//!
//! - Applying the patch to the old tree gives the new one, with [`crate::json_patch::apply`] or any implementation of
//!   the RFC.
//! - Only `add`, `remove` and `replace` are used.
//!
//! # Deliberately absent
//!
//! Minimal patches: a list is replaced as a whole if its length changes.

use muster_tree::{Tree, tree};

/// The operations from `old` to `new`, as a list; empty if they are equal.
#[must_use]
pub fn between(old: &Tree, new: &Tree) -> Tree {
    let mut operations = Vec::new();
    compare(old, new, "", &mut operations);
    Tree::list(operations)
}

fn compare(old: &Tree, new: &Tree, path: &str, operations: &mut Vec<Tree>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Tree::Map(_), Tree::Map(_)) => maps(old, new, path, operations),
        (Tree::List(_), Tree::List(_)) if old.items().len() == new.items().len() => {
            for (index, (old, new)) in old.items().iter().zip(new.items()).enumerate() {
                compare(old, new, &format!("{path}/{index}"), operations);
            }
        }
        _ => operations.push(tree!({"op": "replace", "path": path, "value": new.clone()})),
    }
}

fn maps(old: &Tree, new: &Tree, path: &str, operations: &mut Vec<Tree>) {
    for (key, _) in old.entries().iter().filter(|(key, _)| new.get(key).is_none()) {
        operations.push(tree!({"op": "remove", "path": below(path, key)}));
    }
    for (key, value) in new.entries() {
        match old.get(key) {
            Some(before) => compare(before, value, &below(path, key), operations),
            None => operations.push(tree!({"op": "add", "path": below(path, key), "value": value.clone()})),
        }
    }
}

/// Appends a key to a JSON pointer, with `~` and `/` escaped.
fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json_patch;

    #[test]
    fn only_differing_fields_are_reported() {
        for (says, old, new, want) in [
            ("nothing differs", tree!({"a": 1}), tree!({"a": 1}), "[]"),
            (
                "a key more",
                tree!({"spec": {"a": 1}}),
                tree!({"spec": {"a": 1, "b": {"c": true}}}),
                r#"[{"op":"add","path":"/spec/b","value":{"c":true}}]"#,
            ),
            ("a key less", tree!({"a": 1, "b": 2}), tree!({"a": 1}), r#"[{"op":"remove","path":"/b"}]"#),
            (
                "another value deep inside",
                tree!({"a": [{"b": 1}, {"b": 2}]}),
                tree!({"a": [{"b": 1}, {"b": 3}]}),
                r#"[{"op":"replace","path":"/a/1/b","value":3}]"#,
            ),
            (
                "a list grows",
                tree!({"a": [1]}),
                tree!({"a": [1, 2]}),
                r#"[{"op":"replace","path":"/a","value":[1,2]}]"#,
            ),
            (
                "keys with signs of pointers",
                tree!({"a": {"x": 1}}),
                tree!({"a": {"x": 1, "b/c~d": "e"}}),
                r#"[{"op":"add","path":"/a/b~1c~0d","value":"e"}]"#,
            ),
            (
                "null is a value",
                tree!({"a": null}),
                tree!({"a": 1}),
                r#"[{"op":"replace","path":"/a","value":1}]"#,
            ),
        ] {
            assert_eq!(between(&old, &new).to_json(), want, "{says}");
        }
    }

    fn any_tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            Just(Tree::Null),
            any::<bool>().prop_map(Tree::Bool),
            "[a-c]{0,2}".prop_map(Tree::from)
        ];
        leaf.prop_recursive(4, 48, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::list),
                prop::collection::vec(("[a-c/~]{1,2}", inner), 0..5).prop_map(Tree::map),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_leads_from_one_to_the_other(old in any_tree(), new in any_tree()) {
            let wrap = |tree: Tree| tree!({"root": tree});
            let (old, new) = (wrap(old), wrap(new));
            let reached = json_patch::apply(&old, &between(&old, &new)).expect("what is found fits");
            prop_assert_eq!(reached, new);
        }
    }
}
