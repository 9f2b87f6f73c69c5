//! A claim that names no storage class gets the default one.

use muster_api::time::Time;
use muster_tree::Tree;

use super::{AdmissionRequest, BUILTIN, Hook, Operation, Verdict};

pub(super) struct DefaultStorageClass;

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

impl Hook for DefaultStorageClass {
    fn name(&self) -> &str {
        BUILTIN[2]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let is_claim = request.is("", "persistentvolumeclaims");
        let (Operation::Create, true, Some(tree)) = (request.operation, is_claim, request.object) else {
            return Verdict::allow();
        };
        // An empty name is a choice: no class at all.
        if tree.at(&["spec", "storageClassName"]).is_some() {
            return Verdict::allow();
        }
        let classes = request.look.all("storageclasses.storage.k8s.io");
        let defaults = classes.iter().map(|class| &class.tree).filter(|class| is_default(class));
        // Of several defaults the youngest counts, then the first by name.
        let age = |class: &&Tree| {
            (
                Time::of(class.at(&["metadata", "creationTimestamp"])),
                std::cmp::Reverse(class.text_at(&["metadata", "name"])),
            )
        };
        match defaults.max_by_key(age) {
            Some(class) => Verdict::change(
                tree.with(&["spec", "storageClassName"], class.text_at(&["metadata", "name"])),
            ),
            None => Verdict::allow(),
        }
    }
}

fn is_default(class: &Tree) -> bool {
    class.str_at(&["metadata", "annotations", IS_DEFAULT]) == "true"
}
