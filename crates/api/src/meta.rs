//! Facts that every object has: its names, owners, finalizers and times.

use muster_tree::{Text, Tree, tree};

use crate::paths::{meta as path, owner};
use crate::port::{Kind, Part, Target, Uid};
use crate::time::Time;

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion` of the owner.
    pub api_version: Text,
    /// `kind` of the owner.
    pub kind: Text,
    /// Its name, in the namespace of the dependent or cluster-scoped.
    pub name: Text,
    /// Its UID.
    pub uid: Uid,
    /// Whether it manages the dependent.
    pub controller: bool,
    /// Whether the owner's foreground deletion waits for the dependent.
    pub blocks: bool,
}

impl Owner {
    /// Reads an entry.
    #[must_use]
    pub fn of(tree: &Tree) -> Owner {
        Owner {
            api_version: tree.text_at(owner::API_VERSION),
            kind: tree.text_at(owner::KIND),
            name: tree.text_at(owner::NAME),
            uid: tree.text_at(owner::UID),
            controller: tree.bool_at(owner::CONTROLLER) == Some(true),
            blocks: tree.bool_at(owner::BLOCKS) == Some(true),
        }
    }

    /// This entry as a tree: a controller that blocks.
    #[must_use]
    pub fn controller_tree(api_version: &str, kind: &str, name: &Text, uid: &Uid) -> Tree {
        tree!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true})
    }

    /// The API group of the owner.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// `metadata.name`.
#[must_use]
pub fn name(object: &Tree) -> Text {
    object.text_at(path::NAME)
}

/// `metadata.namespace`; empty when cluster-scoped.
#[must_use]
pub fn namespace(object: &Tree) -> Text {
    object.text_at(path::NAMESPACE)
}

/// `metadata.uid`.
#[must_use]
pub fn uid(object: &Tree) -> Uid {
    object.text_at(path::UID)
}

/// The owners.
pub fn owners(object: &Tree) -> impl Iterator<Item = Owner> + '_ {
    object.items_at(path::OWNERS).iter().map(Owner::of)
}

/// The owner that manages this object.
#[must_use]
pub fn controller(object: &Tree) -> Option<Owner> {
    let is = |tree: &&Tree| tree.bool_at(owner::CONTROLLER) == Some(true);
    object.items_at(path::OWNERS).iter().find(is).map(Owner::of)
}

/// Whether a finalizer is there.
#[must_use]
pub fn has_finalizer(object: &Tree, finalizer: &str) -> bool {
    object.items_at(path::FINALIZERS).iter().any(|item| item.as_str() == Some(finalizer))
}

/// Whether there are finalizers.
#[must_use]
pub fn has_finalizers(object: &Tree) -> bool {
    !object.items_at(path::FINALIZERS).is_empty()
}

/// When the object was created.
#[must_use]
pub fn created(object: &Tree) -> Option<Time> {
    Time::of(object.at(path::CREATED))
}

/// When the object is (or was) to be gone, if somebody deleted it.
#[must_use]
pub fn deleting(object: &Tree) -> Option<Time> {
    Time::of(object.at(path::DELETED))
}

/// The grace of a delete in seconds.
#[must_use]
pub fn grace_secs(object: &Tree) -> i64 {
    object.int_at(path::GRACE).unwrap_or(0)
}

/// A label.
#[must_use]
pub fn label<'a>(object: &'a Tree, name: &str) -> Option<&'a str> {
    object.at(path::LABELS)?.get(name)?.as_str()
}

/// An annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Tree, name: &str) -> Option<&'a str> {
    object.at(path::ANNOTATIONS)?.get(name)?.as_str()
}

/// A merge patch that leaves all finalizers but one; wants a revision guard.
#[must_use]
pub fn without_finalizer(object: &Tree, finalizer: &str) -> Tree {
    let items = object.items_at(path::FINALIZERS).iter();
    let left: Vec<Tree> = items.filter(|item| item.as_str() != Some(finalizer)).cloned().collect();
    Tree::Null.with(path::FINALIZERS, if left.is_empty() { Tree::Null } else { Tree::list(left) })
}

/// A strategic patch that takes one finalizer away, whatever else happens to the list.
#[must_use]
pub fn finalizer_removal(finalizer: &str) -> Tree {
    tree!({"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}})
}

/// A merge patch that leaves only the owners `keep` wants; wants a revision guard.
#[must_use]
pub fn with_owners(object: &Tree, mut keep: impl FnMut(&Owner) -> bool) -> Tree {
    let items = object.items_at(path::OWNERS).iter();
    let left: Vec<Tree> = items.filter(|item| keep(&Owner::of(item))).cloned().collect();
    Tree::Null.with(path::OWNERS, if left.is_empty() { Tree::Null } else { Tree::list(left) })
}

/// A part of an object as the target of a call.
#[must_use]
pub fn target(kind: &Kind, object: &Tree, part: Part) -> Target {
    Target { kind: kind.clone(), namespace: namespace(object), name: name(object), part }
}

/// `apiVersion` as objects of a kind write it.
#[must_use]
pub fn api_version(kind: &Kind) -> Text {
    if kind.group.is_empty() {
        kind.version.clone()
    } else {
        Text::from(format!("{}/{}", kind.group, kind.version))
    }
}

/// What an object says it is.
#[must_use]
pub fn kind_word(object: &Tree) -> Text {
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
        let without = object.merge(&without_finalizer(&object, "a"));
        assert!(!has_finalizer(&without, "a") && has_finalizer(&without, "b"));
        assert!(!has_finalizers(&without.merge(&without_finalizer(&without, "b"))));
        let kept = object.merge(&with_owners(&object, |owner| owner.uid == "2"));
        assert_eq!(owners(&kept).map(|owner| owner.name).collect::<Vec<_>>(), ["p"]);
        assert_eq!(controller(&object).map(|owner| owner.group().to_owned()), Some("batch".to_owned()));
        assert_eq!(controller(&kept), None);
    }
}
