//! A stored object: its tree, managed fields and revision.

use std::sync::Arc;

use muster_tree::{Text, Tree};

/// A stored object.
///
/// `metadata.resourceVersion` and `metadata.managedFields` are not in the tree, so that a write without changes leaves
/// the same tree, and equal managed fields are shared between objects.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredObject {
    /// The object in its storage version, without `metadata.resourceVersion` and `metadata.managedFields`.
    pub tree: Tree,
    /// `metadata.managedFields`, in upstream's order.
    pub managed: Arc<[Managed]>,
    /// `metadata.resourceVersion`: revision of the last change; 0 before the object is stored.
    pub revision: u64,
}

/// One entry of `metadata.managedFields`.
#[derive(Debug, Clone, PartialEq)]
pub struct Managed {
    /// Name of the field manager.
    pub manager: Text,
    /// `operation: Apply`; otherwise `Update`.
    pub applied: bool,
    /// `apiVersion` that the fields refer to.
    pub api_version: Text,
    /// Subresource of the write; empty for the main resource.
    pub subresource: Text,
    /// Time of the last change, RFC 3339.
    pub time: Text,
    /// `fieldsV1` (`{"f:spec":{...}}`), as a shared tree.
    pub fields: Tree,
}

impl StoredObject {
    /// A new object without managed fields and revision.
    #[must_use]
    pub fn new(tree: Tree) -> Self {
        Self { tree, managed: Arc::from([]), revision: 0 }
    }

    /// The object as clients receive it, with `resourceVersion` and `managedFields`.
    #[must_use]
    pub fn whole(&self) -> Tree {
        let meta = self.tree.get("metadata").cloned().unwrap_or_else(Tree::empty_map);
        let mut meta = meta.with_key("resourceVersion", Tree::from(self.revision.to_string()));
        if !self.managed.is_empty() {
            meta = meta.with_key("managedFields", Tree::list(self.managed.iter().map(Managed::to_tree)));
        }
        self.tree.with_key("metadata", meta)
    }

    /// Splits an object off the wire; the inverse of [`StoredObject::whole`].
    #[must_use]
    pub fn of_whole(whole: &Tree) -> Self {
        let revision = whole.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
        let managed = whole.items_at(&["metadata", "managedFields"]).iter().map(Managed::of_tree).collect();
        let tree = whole.without(&["metadata", "resourceVersion"]).without(&["metadata", "managedFields"]);
        Self { tree, managed, revision }
    }
}

impl Managed {
    /// The entry as an API value.
    #[must_use]
    pub fn to_tree(&self) -> Tree {
        let mut entries = vec![
            ("apiVersion", Tree::from(&self.api_version)),
            ("fieldsType", Tree::from("FieldsV1")),
            ("fieldsV1", self.fields.clone()),
            ("manager", Tree::from(&self.manager)),
            ("operation", Tree::from(if self.applied { "Apply" } else { "Update" })),
        ];
        if !self.subresource.is_empty() {
            entries.push(("subresource", Tree::from(&self.subresource)));
        }
        if !self.time.is_empty() {
            entries.push(("time", Tree::from(&self.time)));
        }
        Tree::map(entries)
    }

    /// Reads an entry of `metadata.managedFields`.
    #[must_use]
    pub fn of_tree(tree: &Tree) -> Self {
        Self {
            manager: tree.text_at(&["manager"]),
            applied: tree.str_at(&["operation"]) == "Apply",
            api_version: tree.text_at(&["apiVersion"]),
            subresource: tree.text_at(&["subresource"]),
            time: tree.text_at(&["time"]),
            fields: tree.get("fieldsV1").cloned().unwrap_or_else(Tree::empty_map),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn an_object_is_taken_apart_and_put_together_again() {
        let whole = tree!({"kind": "Job", "metadata": {
            "name": "a", "resourceVersion": "7",
            "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "batch/v1", "time": "t",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}, "subresource": "status"}],
        }});
        let object = StoredObject::of_whole(&whole);
        assert_eq!(object.tree, tree!({"kind": "Job", "metadata": {"name": "a"}}));
        assert_eq!(object.revision, 7);
        assert_eq!(object.whole(), whole);
    }
}
