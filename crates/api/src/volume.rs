//! Merge patches of PersistentVolumes and PersistentVolumeClaims.
//!
//! Each is a patch of the main object or of its status and needs a resource version precondition.

use muster_tree::{Text, Tree, tree};

use crate::client::ApiObject;
use crate::consts::{labels, storage};
use crate::meta;
use crate::paths::{claim, meta as meta_path, storage_class, volume};

/// Name of the PV provisioned for a PVC. It derives from the UID, so that a retried create fails instead of provisioning
/// a second volume.
#[must_use]
pub fn made_name(claim: &Tree) -> Text {
    Text::from(format!("{MADE}{}", meta::uid(claim)))
}

/// Name prefix of provisioned PVs, upstream's.
pub const MADE: &str = "pvc-";

/// Fields of `spec` of a PV that are not its volume source.
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

/// `spec.claimRef` of a PV.
#[must_use]
pub fn reference(claim: &ApiObject) -> Tree {
    tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta::namespace(&claim.tree),
        "name": meta::name(&claim.tree), "uid": meta::uid(&claim.tree), "resourceVersion": claim.revision.to_string()})
}

/// Binds a PV to a PVC; `by_us` if the author had not pre-bound it.
#[must_use]
pub fn bind_patch(claim: &ApiObject, by_us: bool) -> Tree {
    let patch = Tree::Null.with(volume::CLAIM, reference(claim));
    if by_us { patch.merge(&annotated(&[storage::BOUND_BY_CONTROLLER])) } else { patch }
}

/// Unbinds a PV from its PVC. A PV that its author pre-bound keeps the reference without the UID.
#[must_use]
pub fn unbind_patch(tree: &Tree) -> Tree {
    if meta::annotation(tree, storage::BOUND_BY_CONTROLLER).is_none() {
        return Tree::Null.with(volume::CLAIM_UID, Tree::Null);
    }
    // Built in one step: merging two patches would apply the nulls instead of keeping them.
    annotation(storage::BOUND_BY_CONTROLLER, None).with(volume::CLAIM, Tree::Null)
}

/// Completes the binding of a PVC to this PV; `by_us` if the PVC had not named it itself.
#[must_use]
pub fn name_volume(name: &Text, by_us: bool) -> Tree {
    let complete = annotated(&[storage::BIND_COMPLETED]);
    if !by_us {
        return complete;
    }
    complete.merge(&annotated(&[storage::BOUND_BY_CONTROLLER])).with(claim::VOLUME, name)
}

/// Sets an annotation, or removes it with `None`.
#[must_use]
pub fn annotation(key: &str, value: Option<&str>) -> Tree {
    let value = value.map_or(Tree::Null, Tree::from);
    Tree::Null.with(meta_path::ANNOTATIONS, Tree::map([(key, value)]))
}

fn annotated(keys: &[&str]) -> Tree {
    keys.iter().fold(Tree::Null, |patch, key| patch.merge(&annotation(key, Some(storage::YES))))
}

/// Requests a volume for a PVC from this provisioner.
#[must_use]
pub fn set_provisioner(provisioner: &str) -> Tree {
    annotation(storage::PROVISIONER, Some(provisioner))
        .merge(&annotation(storage::OLD_PROVISIONER, Some(provisioner)))
}

/// Sets the default StorageClass of a PVC that names none.
#[must_use]
pub fn set_storage_class(class: &Text) -> Tree {
    Tree::Null.with(claim::CLASS, class)
}

/// Appends a finalizer to the list.
#[must_use]
pub fn protected(tree: &Tree, finalizer: &str) -> Tree {
    let all = tree.items_at(meta_path::FINALIZERS).iter().cloned().chain([Tree::from(finalizer)]);
    Tree::Null.with(meta_path::FINALIZERS, Tree::list(all))
}

/// The status of a PV in this phase.
#[must_use]
pub fn in_phase(phase: &str, message: &str) -> Tree {
    let message = if message.is_empty() { Tree::Null } else { Tree::from(message) };
    tree!({"status": {"phase": phase, "message": message}})
}

/// The status of a PVC without a volume; `None` if it has that status already.
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

/// The status of a PVC bound to this PV; `None` if it has that status already. `capacity` is set only on binding: during
/// an expansion the PV grows before the file system does.
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

/// The PVC of an ephemeral volume, from the template in the pod.
#[must_use]
pub fn claim_for(pod: &Tree, name: &Text, template: &Tree) -> Tree {
    let kept = |path: &[&str]| template.at(path).cloned().unwrap_or_default();
    let owner = meta::OwnerReference::controller_reference("v1", "Pod", &meta::name(pod), &meta::uid(pod));
    let made = tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": meta::namespace(pod), "ownerReferences": [owner]},
        "spec": kept(&["spec"])});
    let made = made.with_option(meta_path::LABELS, template.at(meta_path::LABELS).cloned());
    made.with_option(meta_path::ANNOTATIONS, template.at(meta_path::ANNOTATIONS).cloned())
}

/// The PV of a host directory, provisioned for a PVC of this class; with node affinity unless all nodes share the host.
#[must_use]
pub fn host_path_volume(claim: &ApiObject, class: &Tree, path: &str, node: Option<&Text>) -> Tree {
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

    fn claim() -> ApiObject {
        let tree = tree!({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"}});
        ApiObject { tree, revision: 7 }
    }

    #[test]
    fn a_volume_is_given_and_taken_back() {
        let free = tree!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}}});
        let given = free.merge(&bind_patch(&claim(), true));
        assert_eq!(given.str_at(volume::CLAIM_UID), "u");
        let back = given.merge(&unbind_patch(&given));
        assert!(
            back.at(volume::CLAIM).is_none()
                && meta::annotation(&back, storage::BOUND_BY_CONTROLLER).is_none()
        );
        let meant = free.merge(&bind_patch(&claim(), false));
        let back = meant.merge(&unbind_patch(&meant));
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
