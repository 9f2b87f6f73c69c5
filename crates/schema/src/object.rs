//! An object as it is stored: the tree, who owns which fields, and its revision, side by side.

use std::sync::Arc;

use muster_tree::{Text, Tree};

/// A stored object.
///
/// `metadata.resourceVersion` and `metadata.managedFields` are not in the tree: a write that changes neither
/// spec nor status leaves the very same tree, and equal ownership is shared between objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The object in its storage version, without `metadata.resourceVersion` and `metadata.managedFields`.
    pub tree: Tree,
    /// Who owns which fields.
    pub managed: Arc<[Managed]>,
    /// The revision of its last change; 0 before it is stored.
    pub revision: u64,
}

/// One entry of `metadata.managedFields`.
#[derive(Debug, Clone, PartialEq)]
pub struct Managed {
    /// Who.
    pub manager: Text,
    /// Whether by apply; otherwise by update.
    pub applied: bool,
    /// The version in which the fields are named.
    pub api_version: Text,
    /// The subresource written through; empty for the main one.
    pub subresource: Text,
    /// When, RFC 3339.
    pub time: Text,
    /// The fields, in the FieldsV1 form (`{"f:spec":{...}}`), as a shared tree.
    pub fields: Tree,
}

impl Object {
    /// An object that is not stored yet and that nobody owns.
    #[must_use]
    pub fn new(tree: Tree) -> Self {
        Self { tree, managed: Arc::from([]), revision: 0 }
    }

    /// The whole object as clients see it.
    #[must_use]
    pub fn whole(&self) -> Tree {
        let meta = self.tree.get("metadata").cloned().unwrap_or_else(Tree::empty_map);
        let mut meta = meta.with_key("resourceVersion", Tree::from(self.revision.to_string()));
        if !self.managed.is_empty() {
            meta = meta.with_key("managedFields", Tree::list(self.managed.iter().map(Managed::to_tree)));
        }
        self.tree.with_key("metadata", meta)
    }

    /// Takes a whole object apart; the opposite of [`Object::whole`].
    #[must_use]
    pub fn of_whole(whole: &Tree) -> Self {
        let revision = whole.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
        let managed = whole.items_at(&["metadata", "managedFields"]).iter().map(Managed::of_tree).collect();
        let tree = whole.without(&["metadata", "resourceVersion"]).without(&["metadata", "managedFields"]);
        Self { tree, managed, revision }
    }
}

impl Managed {
    /// This entry as it stands in `metadata.managedFields`.
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
        let object = Object::of_whole(&whole);
        assert_eq!(object.tree, tree!({"kind": "Job", "metadata": {"name": "a"}}));
        assert_eq!(object.revision, 7);
        assert_eq!(object.whole(), whole);
    }
}
