//! Objects that break rules, as they stand in `tests/corpus/*.yaml`.

use std::path::Path;

use muster_tree::Tree;
use serde::Deserialize;

use super::rules::Place;
use crate::documents;

/// All cases of a kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The file it stands in, without number and extension.
    #[serde(skip)]
    pub file: String,
    /// The kinds: what is said below holds for each.
    pub kinds: Vec<String>,
    /// The versions that are played, unless a case says less.
    pub versions: Vec<String>,
    /// The version that is stored meanwhile; as published when empty. Without a conversion, what the stored version
    /// does not know is lost.
    #[serde(default)]
    pub stored: String,
    /// A valid object, which both servers must take; cases are patches of it.
    pub base: Tree,
    /// What breaks rules.
    #[serde(default)]
    pub cases: Vec<Case>,
    /// Rules that no object can break.
    #[serde(default)]
    pub unbreakable: Vec<Unbreakable>,
}

/// Requests of which the last breaks a rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The place of the rule, as in [`Place::at`].
    pub at: String,
    /// The message of a CEL rule.
    #[serde(default)]
    pub breaks: String,
    /// For what is no CEL rule: the keyword of the schema that is broken, or what shall be accepted.
    #[serde(default)]
    pub says: String,
    /// Whether the last request is fine.
    #[serde(default)]
    pub accepted: bool,
    /// Only these versions.
    #[serde(default)]
    pub versions: Vec<String>,
    /// Why other complaints come with that of a CEL rule.
    #[serde(default)]
    pub with_others: String,
    /// What is sent. A create of the base comes first if none is named.
    #[serde(rename = "do")]
    pub requests: Vec<Request>,
}

/// One request: exactly one patch, in the sense of [`patched`], of the base or of what the request before answered.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Creates the object.
    #[serde(default)]
    pub create: Option<Tree>,
    /// Replaces it.
    #[serde(default)]
    pub update: Option<Tree>,
    /// Replaces its status.
    #[serde(default)]
    pub status: Option<Tree>,
}

impl Request {
    /// (patch, method, what comes after the path of the object).
    pub fn parts(&self) -> Result<(&Tree, &'static str, &'static str), String> {
        match (&self.create, &self.update, &self.status) {
            (Some(patch), None, None) => Ok((patch, "POST", "")),
            (None, Some(patch), None) => Ok((patch, "PUT", "")),
            (None, None, Some(patch)) => Ok((patch, "PUT", "/status")),
            _ => Err("a request is one of create, update and status".to_owned()),
        }
    }
}

/// A rule that cannot be broken alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unbreakable {
    /// The place of the rule.
    pub at: String,
    /// Its message.
    pub message: String,
    /// Only in these versions.
    #[serde(default)]
    pub versions: Vec<String>,
    /// What keeps every such object out before.
    pub why: String,
}

impl Group {
    /// The versions in which a case is played.
    pub fn versions_of<'a>(&'a self, case: &'a Case) -> &'a [String] {
        if case.versions.is_empty() { &self.versions } else { &case.versions }
    }

    /// Every rule that is spoken of, once per version.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
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
                places.extend(versions.iter().map(|version| Place {
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

/// Reads the groups of a folder, in order of file names. A file is a stream of YAML documents, one group each.
pub fn load(folder: &Path) -> Result<Vec<Group>, String> {
    let all = documents::load_with_files(folder)?;
    Ok(all.into_iter().map(|(file, group)| Group { file, ..group }).collect())
}

/// A tree with a patch on it. As a merge patch, but a map whose keys are numbers changes single items of a list, so
/// that a case need not repeat the list.
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
        for (says, patch, want) in [
            (
                "a field is set",
                tree!({"a": {"b": 3}}),
                tree!({"a": {"b": 3, "c": 2}, "list": [{"x": 1, "y": 2}]}),
            ),
            ("a field goes", tree!({"a": {"b": null}}), tree!({"a": {"c": 2}, "list": [{"x": 1, "y": 2}]})),
            (
                "one item changes, one is added",
                tree!({"a": null, "list": {"0": {"x": null}, "1": {"z": 1}}}),
                tree!({"list": [{"y": 2}, {"z": 1}]}),
            ),
            ("a list is replaced", tree!({"a": null, "list": []}), tree!({"list": []})),
        ] {
            assert_eq!(patched(&base, &patch), want, "{says}");
        }
    }
}
