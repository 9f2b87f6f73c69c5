//! Tables: objects as rows of cells, for `kubectl get`.
//!
//! A built-in kind has a column specification in `kinds` and a function that renders the cells of one object; a
//! custom resource has its CRD's printer columns. All columns are sent, wide ones with priority 1: the client
//! selects.
//!
//! # Invariants
//!
//! - Each row has one cell per column.
//! - Cells are a function of the object and `now`.
//!
//! # Deliberately absent
//!
//! Descriptions of columns: no client shows them.

mod access;
mod age;
mod cells;
mod cluster;
mod custom;
mod devices;
pub mod json_path;
mod kinds;
mod network;
mod pod;
mod storage;
mod workloads;

use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

use crate::registry::Resource;
use crate::status::Status;
use cells::Row;

/// `includeObject`: the object in each row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses the query parameter; empty means the default.
    ///
    /// # Errors
    ///
    /// 400 for any other value.
    pub fn parse(word: &str) -> Result<IncludeObject, Status> {
        match word {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "None" => Ok(IncludeObject::None),
            "Object" => Ok(IncludeObject::Object),
            _ => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {word:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// `metadata` of a list or Table.
#[derive(Debug, Clone, Default)]
pub struct ListMeta {
    /// Of the list, or of the object when there is just one.
    pub resource_version: Text,
    /// Empty on the last page.
    pub continue_token: Text,
    pub remaining: Option<usize>,
    /// Whether an empty `continue` is serialized, as in lists of custom resources.
    pub says_the_end: bool,
}

impl ListMeta {
    #[must_use]
    pub fn to_tree(&self) -> Tree {
        let mut entries = vec![("resourceVersion", Tree::from(&self.resource_version))];
        if self.says_the_end || !self.continue_token.is_empty() {
            entries.push(("continue", Tree::from(&self.continue_token)));
        }
        if let Some(count) = self.remaining {
            entries.push(("remainingItemCount", Tree::from(i64::try_from(count).unwrap_or(i64::MAX))));
        }
        Tree::map(entries)
    }
}

/// Renders objects, which are in the wire form of `resource.versions[version]`.
#[must_use]
pub fn table(
    resource: &Resource,
    version: usize,
    objects: &[Tree],
    include: IncludeObject,
    now: Time,
    meta: &ListMeta,
) -> Tree {
    let (columns, rows) = if resource.custom {
        let made = custom::Columns::of(&resource.versions[version]);
        (made.definitions(), objects.iter().map(|o| made.cells(o, now)).collect())
    } else {
        built_in(resource, version, objects, now)
    };
    let rows = objects.iter().zip(rows).map(|(object, cells)| {
        let row = tree!({"cells": cells, "object": included(object, include)});
        match pod::row_conditions(resource, object) {
            Some(conditions) => row.with(&["conditions"], conditions),
            None => row,
        }
    });
    tree!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta.to_tree(),
        "columnDefinitions": columns,
        "rows": Tree::list(rows),
    })
}

/// The Table of a Scale.
#[must_use]
pub fn scale(object: &Tree, include: IncludeObject, now: Time) -> Tree {
    let (columns, cells) = kinds::scale(&Row { object, all: &[], now });
    let meta = ListMeta {
        resource_version: object.text_at(&["metadata", "resourceVersion"]),
        ..ListMeta::default()
    };
    tree!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta.to_tree(),
        "columnDefinitions": columns,
        "rows": [{"cells": cells, "object": included(object, include)}],
    })
}

fn built_in(resource: &Resource, version: usize, objects: &[Tree], now: Time) -> (Tree, Vec<Vec<Tree>>) {
    let kind = kinds::find(&resource.group, &resource.versions[version].name, &resource.kind);
    let columns = kinds::definitions(kind.columns);
    let rows = objects.iter().map(|object| (kind.cells)(&Row { object, all: objects, now })).collect();
    (columns, rows)
}

fn included(object: &Tree, include: IncludeObject) -> Tree {
    match include {
        IncludeObject::None => Tree::Null,
        IncludeObject::Metadata => partial_metadata(object),
        IncludeObject::Object => object.clone(),
    }
}

/// `PartialObjectMetadata` of an object in wire form.
#[must_use]
pub fn partial_metadata(object: &Tree) -> Tree {
    let meta = object.get("metadata").cloned().unwrap_or_else(Tree::empty_map);
    tree!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta})
}

/// `PartialObjectMetadataList` of objects in wire form.
#[must_use]
pub fn partial_metadata_list(objects: &[Tree], meta: &ListMeta) -> Tree {
    tree!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta.to_tree(),
        "items": Tree::list(objects.iter().map(partial_metadata)),
    })
}

#[cfg(test)]
mod tests;
