//! Runtimes: nothing holds them any more, since every TrainJob keeps what it was made of.

use muster_api::meta;
use muster_api::train::words::IN_USE;
use muster_tree::Tree;

/// A merge patch that takes off what earlier releases held runtimes with; none when nothing does. Wants a revision guard.
#[must_use]
pub fn release(runtime: &Tree) -> Option<Tree> {
    meta::has_finalizer(runtime, IN_USE).then(|| meta::without_finalizer(runtime, IN_USE))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn only_that_finalizer_is_taken_off() {
        let held =
            tree!({"metadata": {"finalizers": ["trainer.kubeflow.org/resource-in-use", "other.io/x"]}});
        let freed = held.merge(&release(&held).unwrap());
        assert_eq!(freed, tree!({"metadata": {"finalizers": ["other.io/x"]}}));
        assert_eq!(release(&freed), None);
    }
}
