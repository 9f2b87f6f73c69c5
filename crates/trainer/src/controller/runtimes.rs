//! Removes the finalizer that earlier releases set on runtimes: with snapshots a runtime can be deleted while it is
//! in use.

use muster_api::meta;
use muster_api::train::consts::IN_USE;
use muster_tree::Tree;

/// The merge patch that removes the finalizer; `None` if it is not set. It replaces the whole list: the request needs
/// the resource version as a precondition.
#[must_use]
pub fn remove_finalizer_patch(runtime: &Tree) -> Option<Tree> {
    meta::has_finalizer(runtime, IN_USE).then(|| meta::remove_finalizer_merge_patch(runtime, IN_USE))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn only_that_finalizer_is_taken_off() {
        let held =
            tree!({"metadata": {"finalizers": ["trainer.kubeflow.org/resource-in-use", "other.io/x"]}});
        let freed = held.merge(&remove_finalizer_patch(&held).unwrap());
        assert_eq!(freed, tree!({"metadata": {"finalizers": ["other.io/x"]}}));
        assert_eq!(remove_finalizer_patch(&freed), None);
    }
}
