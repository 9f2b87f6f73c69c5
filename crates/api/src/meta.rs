//! Object metadata: accessors, owner references, finalizers, and the patches that change them.

use muster_tree::{Text, Tree, tree};

use crate::client::{Kind, RequestTarget, Subresource, Uid};
use crate::paths::{meta as path, owner};
use crate::time::Time;

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror metav1.OwnerReference")]
pub struct OwnerReference {
    pub api_version: Text,
    pub kind: Text,
    /// Name of the owner, in the namespace of the dependent or cluster-scoped.
    pub name: Text,
    pub uid: Uid,
    /// The managing controller; at most one owner has it.
    pub controller: bool,
    /// Foreground deletion of the owner waits for this dependent.
    pub block_owner_deletion: bool,
}

impl OwnerReference {
    /// Reads an entry of `metadata.ownerReferences`.
    #[must_use]
    pub fn of(tree: &Tree) -> OwnerReference {
        OwnerReference {
            api_version: tree.text_at(owner::API_VERSION),
            kind: tree.text_at(owner::KIND),
            name: tree.text_at(owner::NAME),
            uid: tree.text_at(owner::UID),
            controller: tree.bool_at(owner::CONTROLLER) == Some(true),
            block_owner_deletion: tree.bool_at(owner::BLOCKS) == Some(true),
        }
    }

    /// An owner reference with `controller` and `blockOwnerDeletion` set.
    #[must_use]
    pub fn controller_reference(api_version: &str, kind: &str, name: &Text, uid: &Uid) -> Tree {
        tree!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true})
    }

    /// API group of the owner; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// `metadata.name`; empty when absent.
#[must_use]
pub fn name(object: &Tree) -> Text {
    object.text_at(path::NAME)
}

/// `metadata.namespace`; empty when cluster-scoped.
#[must_use]
pub fn namespace(object: &Tree) -> Text {
    object.text_at(path::NAMESPACE)
}

/// `metadata.uid`; empty when absent.
#[must_use]
pub fn uid(object: &Tree) -> Uid {
    object.text_at(path::UID)
}

/// All entries of `metadata.ownerReferences`.
pub fn owner_references(object: &Tree) -> impl Iterator<Item = OwnerReference> + '_ {
    object.items_at(path::OWNERS).iter().map(OwnerReference::of)
}

/// The owner reference with `controller: true`, as `metav1.GetControllerOf` returns it.
#[must_use]
pub fn controller_of(object: &Tree) -> Option<OwnerReference> {
    let is = |tree: &&Tree| tree.bool_at(owner::CONTROLLER) == Some(true);
    object.items_at(path::OWNERS).iter().find(is).map(OwnerReference::of)
}

/// Returns whether this finalizer is present.
#[must_use]
pub fn has_finalizer(object: &Tree, finalizer: &str) -> bool {
    object.items_at(path::FINALIZERS).iter().any(|item| item.as_str() == Some(finalizer))
}

/// Returns whether any finalizer is present.
#[must_use]
pub fn has_finalizers(object: &Tree) -> bool {
    !object.items_at(path::FINALIZERS).is_empty()
}

/// `metadata.creationTimestamp`; `None` if it is absent or malformed.
#[must_use]
pub fn creation_timestamp(object: &Tree) -> Option<Time> {
    Time::of(object.at(path::CREATED))
}

/// `metadata.deletionTimestamp`: when the grace period of a delete ends; `None` for an object that was not deleted.
#[must_use]
pub fn deletion_timestamp(object: &Tree) -> Option<Time> {
    Time::of(object.at(path::DELETED))
}

/// `metadata.deletionGracePeriodSeconds`; 0 when absent.
#[must_use]
pub fn deletion_grace_secs(object: &Tree) -> i64 {
    object.int_at(path::GRACE).unwrap_or(0)
}

/// The value of a label.
#[must_use]
pub fn label<'a>(object: &'a Tree, name: &str) -> Option<&'a str> {
    object.at(path::LABELS)?.get(name)?.as_str()
}

/// The value of an annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Tree, name: &str) -> Option<&'a str> {
    object.at(path::ANNOTATIONS)?.get(name)?.as_str()
}

/// A merge patch that removes a finalizer. It replaces the list, so it needs a resource version precondition.
#[must_use]
pub fn remove_finalizer_merge_patch(object: &Tree, finalizer: &str) -> Tree {
    let items = object.items_at(path::FINALIZERS).iter();
    let left: Vec<Tree> = items.filter(|item| item.as_str() != Some(finalizer)).cloned().collect();
    Tree::Null.with(path::FINALIZERS, if left.is_empty() { Tree::Null } else { Tree::list(left) })
}

/// A strategic merge patch that removes a finalizer and tolerates concurrent changes of the list.
#[must_use]
pub fn remove_finalizer_strategic_patch(finalizer: &str) -> Tree {
    tree!({"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}})
}

/// A merge patch that keeps only the owner references that `keep` accepts; needs a resource version precondition.
#[must_use]
pub fn retain_owners_patch(object: &Tree, mut keep: impl FnMut(&OwnerReference) -> bool) -> Tree {
    let items = object.items_at(path::OWNERS).iter();
    let left: Vec<Tree> = items.filter(|item| keep(&OwnerReference::of(item))).cloned().collect();
    Tree::Null.with(path::OWNERS, if left.is_empty() { Tree::Null } else { Tree::list(left) })
}

/// The object, or one of its subresources, as the target of a request.
#[must_use]
pub fn target(kind: &Kind, object: &Tree, part: Subresource) -> RequestTarget {
    RequestTarget { kind: kind.clone(), namespace: namespace(object), name: name(object), subresource: part }
}

/// `apiVersion` of objects of this resource: `group/version`, or `version` in the core group.
#[must_use]
pub fn api_version(kind: &Kind) -> Text {
    if kind.group.is_empty() {
        kind.version.clone()
    } else {
        Text::from(format!("{}/{}", kind.group, kind.version))
    }
}

/// `kind` of an object; empty when absent.
#[must_use]
pub fn kind_name(object: &Tree) -> Text {
    object.text_at(&["kind"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_leave_the_rest_alone() {
        let object = tree!({"metadata": {"finalizers": ["a", "b"], "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "2"}]}});
        let without = object.merge(&remove_finalizer_merge_patch(&object, "a"));
        assert!(!has_finalizer(&without, "a") && has_finalizer(&without, "b"));
        assert!(!has_finalizers(&without.merge(&remove_finalizer_merge_patch(&without, "b"))));
        let kept = object.merge(&retain_owners_patch(&object, |owner| owner.uid == "2"));
        assert_eq!(owner_references(&kept).map(|owner| owner.name).collect::<Vec<_>>(), ["p"]);
        assert_eq!(controller_of(&object).map(|owner| owner.group().to_owned()), Some("batch".to_owned()));
        assert_eq!(controller_of(&kept), None);
    }
}
