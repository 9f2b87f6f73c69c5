//! Deserialises `tests/corpus/*.yaml`: objects that violate validation rules.

use std::path::Path;

use muster_tree::Tree;
use serde::Deserialize;

use super::rules::RuleLocation;
use crate::yaml_documents;

/// The cases of one or more kinds with the same schema.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusGroup {
    /// File name without number and extension.
    #[serde(skip)]
    pub file: String,
    /// Kinds to which all cases apply.
    pub kinds: Vec<String>,
    /// API versions to run, unless a case lists fewer.
    pub versions: Vec<String>,
    /// Storage version during the run; as published when empty. Conversion is `None`, so fields that the storage version lacks are
    /// dropped.
    #[serde(default)]
    pub stored: String,
    /// A valid object that both servers must accept. Cases are patches of it.
    pub base: Tree,
    #[serde(default)]
    pub cases: Vec<CorpusCase>,
    /// Rules that no object can violate alone.
    #[serde(default)]
    pub unbreakable: Vec<Unbreakable>,
}

/// Requests, the last of which violates a rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusCase {
    /// Location of the rule, as in [`RuleLocation::at`].
    pub at: String,
    /// Message of the CEL rule.
    #[serde(default)]
    pub breaks: String,
    /// Where no CEL rule is violated: the schema keyword that is, or what must be accepted.
    #[serde(default)]
    pub says: String,
    /// Whether the last request must succeed.
    #[serde(default)]
    pub accepted: bool,
    /// Restricts the versions of the group.
    #[serde(default)]
    pub versions: Vec<String>,
    /// Why the server reports other causes beside the CEL rule.
    #[serde(default)]
    pub with_others: String,
    /// Requests. If the first is no create, the base is created before it.
    #[serde(rename = "do")]
    pub requests: Vec<CorpusRequest>,
}

/// One request: exactly one patch, applied by [`patched`] to the base or to the answer of the previous request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusRequest {
    #[serde(default)]
    pub create: Option<Tree>,
    #[serde(default)]
    pub update: Option<Tree>,
    #[serde(default)]
    pub status: Option<Tree>,
}

impl CorpusRequest {
    /// Returns the patch, the HTTP method and the subresource path.
    pub fn parts(&self) -> Result<(&Tree, &'static str, &'static str), String> {
        match (&self.create, &self.update, &self.status) {
            (Some(patch), None, None) => Ok((patch, "POST", "")),
            (None, Some(patch), None) => Ok((patch, "PUT", "")),
            (None, None, Some(patch)) => Ok((patch, "PUT", "/status")),
            _ => Err("a request is one of create, update and status".to_owned()),
        }
    }
}

/// A rule that no object can violate without violating another one first.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unbreakable {
    /// Location of the rule.
    pub at: String,
    pub message: String,
    /// Restricts the versions of the group.
    #[serde(default)]
    pub versions: Vec<String>,
    /// Which other rule rejects every such object.
    pub why: String,
}

impl CorpusGroup {
    pub fn versions_of<'a>(&'a self, case: &'a CorpusCase) -> &'a [String] {
        if case.versions.is_empty() { &self.versions } else { &case.versions }
    }

    /// Returns every rule that the group covers, once per version.
    #[must_use]
    pub fn rule_locations(&self) -> Vec<RuleLocation> {
        let broken = self.cases.iter().filter(|case| !case.breaks.is_empty());
        let broken = broken.map(|case| (&case.at, &case.breaks, self.versions_of(case)));
        let unbreakable = self.unbreakable.iter().map(|rule| {
            let versions = if rule.versions.is_empty() { &self.versions } else { &rule.versions };
            (&rule.at, &rule.message, versions.as_slice())
        });
        let all: Vec<_> = broken.chain(unbreakable).collect();
        let mut places = Vec::new();
        for kind in &self.kinds {
            for (at, message, versions) in &all {
                places.extend(versions.iter().map(|version| RuleLocation {
                    kind: kind.clone(),
                    version: version.clone(),
                    at: (*at).clone(),
                    message: (*message).clone(),
                }));
            }
        }
        places
    }
}

/// Reads the groups of a directory in file name order. A file is a stream of YAML documents, one group each.
pub fn load(folder: &Path) -> Result<Vec<CorpusGroup>, String> {
    let all = yaml_documents::load_with_files(folder)?;
    Ok(all.into_iter().map(|(file, group)| CorpusGroup { file, ..group }).collect())
}

/// Applies a patch: a JSON merge patch in which a map with numeric keys patches single items of a list, so that a case need not
/// repeat the list.
#[must_use]
pub fn patched(tree: &Tree, patch: &Tree) -> Tree {
    if !patch.is_map() {
        return patch.clone();
    }
    if tree.is_list() {
        let mut items = tree.items().to_vec();
        for (index, change) in patch.entries() {
            let index: usize = index.parse().expect("a list is patched by index");
            let old = items.get(index).cloned().unwrap_or_default();
            items.resize(items.len().max(index + 1), Tree::Null);
            items[index] = patched(&old, change);
        }
        return Tree::list(items);
    }
    let mut made = if tree.is_map() { tree.clone() } else { Tree::empty_map() };
    for (key, change) in patch.entries() {
        made = match (change, made.get(key)) {
            (Tree::Null, _) => made.without_key(key),
            (_, old) => made.with_key(key, patched(old.unwrap_or(&Tree::Null), change)),
        };
    }
    made
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn a_patch_changes_fields_and_single_items() {
        let base = tree!({"a": {"b": 1, "c": 2}, "list": [{"x": 1, "y": 2}]});
        for (name, patch, want) in [
            (
                "a field is set",
                tree!({"a": {"b": 3}}),
                tree!({"a": {"b": 3, "c": 2}, "list": [{"x": 1, "y": 2}]}),
            ),
            (
                "a field is removed",
                tree!({"a": {"b": null}}),
                tree!({"a": {"c": 2}, "list": [{"x": 1, "y": 2}]}),
            ),
            (
                "one item changes, one is added",
                tree!({"a": null, "list": {"0": {"x": null}, "1": {"z": 1}}}),
                tree!({"list": [{"y": 2}, {"z": 1}]}),
            ),
            ("a list is replaced", tree!({"a": null, "list": []}), tree!({"list": []})),
        ] {
            assert_eq!(patched(&base, &patch), want, "{name}");
        }
    }
}
