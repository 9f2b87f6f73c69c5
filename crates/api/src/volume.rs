//! Volumes and claims: what controllers write of them.
//!
//! All are merge patches of the main object or of its status, and want a revision guard.

use muster_tree::{Text, Tree, tree};

use crate::meta;
use crate::paths::{claim, meta as meta_path, storage_class, volume};
use crate::port::Object;
use crate::words::{labels, storage};

/// The name of the volume that is made for a claim: made twice, it meets itself.
#[must_use]
pub fn made_name(claim: &Tree) -> Text {
    Text::from(format!("{MADE}{}", meta::uid(claim)))
}

/// How the names of volumes begin that were made for claims.
pub const MADE: &str = "pvc-";

/// Fields of a volume's spec that do not say where it is.
pub const NOT_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// A reference to a claim, as volumes carry it.
#[must_use]
pub fn reference(claim: &Object) -> Tree {
    tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta::namespace(&claim.tree),
        "name": meta::name(&claim.tree), "uid": meta::uid(&claim.tree), "resourceVersion": claim.revision.to_string()})
}

/// Gives a volume to a claim; `by_us` when its author had not meant it for that claim.
#[must_use]
pub fn give(claim: &Object, by_us: bool) -> Tree {
    let patch = Tree::Null.with(volume::CLAIM, reference(claim));
    if by_us { patch.merge(&annotated(&[storage::BOUND_BY_CONTROLLER])) } else { patch }
}

/// Takes a volume back from its claim. One that its author meant for the claim stays meant for it.
#[must_use]
pub fn take_back(tree: &Tree) -> Tree {
    if meta::annotation(tree, storage::BOUND_BY_CONTROLLER).is_none() {
        return Tree::Null.with(volume::CLAIM_UID, Tree::Null);
    }
    // Not by a merge: that would take the nulls for what they ask for.
    annotation(storage::BOUND_BY_CONTROLLER, None).with(volume::CLAIM, Tree::Null)
}

/// Names a claim's volume, and says that the binding is complete; `by_us` when the claim had not named it itself.
#[must_use]
pub fn name_volume(name: &Text, by_us: bool) -> Tree {
    let complete = annotated(&[storage::BIND_COMPLETED]);
    if !by_us {
        return complete;
    }
    complete.merge(&annotated(&[storage::BOUND_BY_CONTROLLER])).with(claim::VOLUME, name)
}

/// An annotation, or its end.
#[must_use]
pub fn annotation(key: &str, value: Option<&str>) -> Tree {
    let value = value.map_or(Tree::Null, Tree::from);
    Tree::Null.with(meta_path::ANNOTATIONS, Tree::map([(key, value)]))
}

fn annotated(keys: &[&str]) -> Tree {
    keys.iter().fold(Tree::Null, |patch, key| patch.merge(&annotation(key, Some(storage::YES))))
}

/// Who shall make a claim's volume.
#[must_use]
pub fn wanted_from(provisioner: &str) -> Tree {
    annotation(storage::PROVISIONER, Some(provisioner))
        .merge(&annotation(storage::OLD_PROVISIONER, Some(provisioner)))
}

/// The class of a claim that named none.
#[must_use]
pub fn classed(class: &Text) -> Tree {
    Tree::Null.with(claim::CLASS, class)
}

/// One more finalizer.
#[must_use]
pub fn protected(tree: &Tree, finalizer: &str) -> Tree {
    let all = tree.items_at(meta_path::FINALIZERS).iter().cloned().chain([Tree::from(finalizer)]);
    Tree::Null.with(meta_path::FINALIZERS, Tree::list(all))
}

/// The status of a volume in this phase.
#[must_use]
pub fn in_phase(phase: &str, message: &str) -> Tree {
    let message = if message.is_empty() { Tree::Null } else { Tree::from(message) };
    tree!({"status": {"phase": phase, "message": message}})
}

/// The status of a claim without a volume, if it has another one.
#[must_use]
pub fn without_volume(tree: &Tree, phase: &str) -> Option<Tree> {
    let stale = [claim::CAPACITY, claim::GIVEN_MODES, claim::GIVEN_ATTRIBUTES];
    let clear = stale.iter().filter(|path| tree.at(path).is_some());
    let patch = clear.fold(Tree::Null, |patch, path| patch.with(path, Tree::Null));
    if tree.str_at(claim::PHASE) == phase && patch.is_null() {
        return None;
    }
    Some(patch.with(claim::PHASE, phase))
}

/// The status of a claim with this volume, if it has another one. How much a claim has is said once: the volume may
/// grow before the file system does.
#[must_use]
pub fn with_volume(tree: &Tree, of: &Tree) -> Option<Tree> {
    let kept = |path: &[&str]| of.at(path).cloned().unwrap_or_default();
    let mut patch = Tree::Null;
    if tree.at(claim::GIVEN_MODES) != of.at(volume::MODES) {
        patch = patch.with(claim::GIVEN_MODES, kept(volume::MODES));
    }
    if tree.str_at(claim::PHASE) != "Bound" {
        patch = patch.with(claim::PHASE, "Bound").with(claim::CAPACITY, kept(volume::CAPACITY));
        if of.at(volume::ATTRIBUTES).is_some() {
            patch = patch.with(claim::GIVEN_ATTRIBUTES, kept(volume::ATTRIBUTES));
        }
    }
    (!patch.is_null()).then_some(patch)
}

/// A claim that is made for a volume of one pod, out of the pod's template.
#[must_use]
pub fn claim_for(pod: &Tree, name: &Text, template: &Tree) -> Tree {
    let kept = |path: &[&str]| template.at(path).cloned().unwrap_or_default();
    let owner = meta::Owner::controller_tree("v1", "Pod", &meta::name(pod), &meta::uid(pod));
    let made = tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": meta::namespace(pod), "ownerReferences": [owner]},
        "spec": kept(&["spec"])});
    let made = made.with_option(meta_path::LABELS, template.at(meta_path::LABELS).cloned());
    made.with_option(meta_path::ANNOTATIONS, template.at(meta_path::ANNOTATIONS).cloned())
}

/// A volume that is a folder of this machine, made for a claim of this class; reached from one node or from all.
#[must_use]
pub fn folder(claim: &Object, class: &Tree, path: &str, node: Option<&Text>) -> Tree {
    let tree = &claim.tree;
    let kept = |from: &Tree, path: &[&str]| from.at(path).cloned();
    let made = tree!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": made_name(tree),
            "annotations": Tree::map([(storage::PROVISIONED_BY, storage::LOCAL_PATH)])},
        "spec": {"hostPath": {"path": path, "type": "DirectoryOrCreate"}}});
    let reach = node.map(|node| {
        let here = tree!({"key": labels::HOSTNAME, "operator": "In", "values": Tree::list([node])});
        tree!([{"matchExpressions": [here]}])
    });
    made.with_option(volume::CAPACITY, kept(tree, claim::REQUESTS))
        .with_option(volume::MODES, kept(tree, claim::MODES))
        .with_option(volume::MODE, kept(tree, claim::MODE))
        .with_option(volume::CLASS, Some(Tree::from(meta::name(class))))
        .with_option(volume::POLICY, kept(class, storage_class::RECLAIM))
        .with_option(&["spec", "mountOptions"], kept(class, storage_class::MOUNT_OPTIONS))
        .with_option(volume::AFFINITY, reach)
        .with(volume::CLAIM, reference(claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Object {
        let tree = tree!({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"}});
        Object { tree, revision: 7 }
    }

    #[test]
    fn a_volume_is_given_and_taken_back() {
        let free = tree!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}}});
        let given = free.merge(&give(&claim(), true));
        assert_eq!(given.str_at(volume::CLAIM_UID), "u");
        let back = given.merge(&take_back(&given));
        assert!(
            back.at(volume::CLAIM).is_none()
                && meta::annotation(&back, storage::BOUND_BY_CONTROLLER).is_none()
        );
        let meant = free.merge(&give(&claim(), false));
        let back = meant.merge(&take_back(&meant));
        assert_eq!(
            (back.str_at(volume::CLAIM_NAME), back.str_at(volume::CLAIM_UID)),
            ("c", ""),
            "still meant for it"
        );
    }

    #[test]
    fn the_status_of_a_claim_is_written_once() {
        let of = tree!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}});
        let claim = claim().tree;
        let bound = claim.merge(&with_volume(&claim, &of).expect("it is news"));
        assert_eq!(bound.str_at(claim::PHASE), "Bound");
        assert_eq!(with_volume(&bound, &of), None);
        let lost = bound.merge(&without_volume(&bound, "Lost").expect("it is news"));
        assert!(lost.at(claim::CAPACITY).is_none());
        assert_eq!(without_volume(&lost, "Lost"), None);
    }
}
