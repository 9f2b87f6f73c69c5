//! Accessors of a CRD schema. A keyword of the wrong type reads as absent: the decoder has rejected it before.

use muster_tree::{Text, Tree};

pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";
pub(super) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
pub(super) const LIST_TYPE: &str = "x-kubernetes-list-type";
pub(super) const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
pub(super) const MAP_TYPE: &str = "x-kubernetes-map-type";
pub(crate) const RULES: &str = "x-kubernetes-validations";

/// Keys of an object that say what it is, and not what is wished.
pub(super) const META_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The text under `key`; empty when absent.
pub(super) fn text<'t>(schema: &'t Tree, key: &str) -> &'t str {
    schema.str_at(&[key])
}

/// Whether a flag is set.
pub(super) fn flag(schema: &Tree, key: &str) -> bool {
    schema.bool_at(&[key]) == Some(true)
}

/// The fields declared in `properties`.
pub(super) fn properties(schema: &Tree) -> &[(Text, Tree)] {
    schema.entries_at(&["properties"])
}

/// The schema of the items, when there is one schema.
pub(super) fn items(schema: &Tree) -> Option<&Tree> {
    schema.get("items").filter(|items| items.is_map())
}

/// The schema of free keys; `None` also when any value is allowed there.
pub(super) fn additional(schema: &Tree) -> Option<&Tree> {
    schema.get("additionalProperties").filter(|a| a.is_map())
}

/// Whether free keys with any value are allowed explicitly.
pub(super) fn allows_any(schema: &Tree) -> bool {
    flag(schema, "additionalProperties")
}

/// The default; `null` is none.
pub(super) fn default(schema: &Tree) -> Option<&Tree> {
    schema.get("default").filter(|d| !d.is_null())
}

/// The clauses of `allOf`, `anyOf` and `oneOf`, and `not`, each with its path below `path`.
pub(super) fn clauses<'t>(schema: &'t Tree, path: &str) -> Vec<(String, &'t Tree)> {
    let mut all = Vec::new();
    for word in ["anyOf", "allOf", "oneOf"] {
        let found = schema.items_at(&[word]).iter().enumerate();
        all.extend(found.map(|(i, clause)| (format!("{path}.{word}[{i}]"), clause)));
    }
    all.extend(schema.get("not").filter(|n| n.is_map()).map(|not| (format!("{path}.not"), not)));
    all
}

/// The path of a field's schema.
pub(super) fn property_path(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

/// Whether this is the one place where types may stand in a clause: `anyOf: [{type: integer}, {type: string}]`.
pub(super) fn is_int_or_string(clauses: &[Tree]) -> bool {
    let only = |clause: &Tree, word: &str| clause.entries().len() == 1 && text(clause, "type") == word;
    matches!(clauses, [a, b] if only(a, "integer") && only(b, "string"))
}
