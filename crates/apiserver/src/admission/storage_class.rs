//! The DefaultStorageClass plugin: sets the default class of claims without one.

use muster_api::time::Time;
use muster_tree::Tree;

use super::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, BUILTIN, Operation};

pub(super) struct DefaultStorageClass;

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

impl AdmissionPlugin for DefaultStorageClass {
    fn name(&self) -> &str {
        BUILTIN[2]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let is_claim = request.is("", "persistentvolumeclaims");
        let (Operation::Create, true, Some(tree)) = (request.operation, is_claim, request.object) else {
            return AdmissionDecision::allow();
        };
        // An empty name means no class.
        if tree.at(&["spec", "storageClassName"]).is_some() {
            return AdmissionDecision::allow();
        }
        let classes = request.lister.all("storageclasses.storage.k8s.io");
        let defaults = classes.iter().map(|class| &class.tree).filter(|class| is_default(class));
        // Of several defaults the newest wins, then the first by name; as upstream.
        let age = |class: &&Tree| {
            (
                Time::of(class.at(&["metadata", "creationTimestamp"])),
                std::cmp::Reverse(class.text_at(&["metadata", "name"])),
            )
        };
        match defaults.max_by_key(age) {
            Some(class) => AdmissionDecision::change(
                tree.with(&["spec", "storageClassName"], class.text_at(&["metadata", "name"])),
            ),
            None => AdmissionDecision::allow(),
        }
    }
}

fn is_default(class: &Tree) -> bool {
    class.str_at(&["metadata", "annotations", IS_DEFAULT]) == "true"
}
