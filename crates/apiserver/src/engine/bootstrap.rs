//! Bootstrap objects: system namespaces, PriorityClasses, the default StorageClass, CRDs.

use std::collections::BTreeSet;
use std::sync::mpsc;

use muster_api::consts::storage;
use muster_store::{Durability, ExpectedRevision, Key, Mutation, StoredObject, Write};
use muster_tree::{Text, Tree, tree};

use super::ApiEngine;
use crate::kinds::ObjectLister;
use crate::request::{Patch, RequestBody, ResourcePath, UserInfo, WriteAct, WriteOptions, WriteRequest};
use crate::status::Status;

/// The field manager of bootstrap objects.
pub(crate) const MANAGER: &str = "kube-apiserver";

const NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "kube-node-lease", "muster-system"];

impl ApiEngine {
    /// Creates missing bootstrap objects. Does not wait for durability: later writes see the pending ones.
    pub(super) fn bootstrap(&self) {
        for name in NAMESPACES {
            self.ensure("", "v1", "namespaces", tree!({"metadata": {"name": name}}));
        }
        for (name, value) in
            [("system-cluster-critical", 2_000_000_000_i64), ("system-node-critical", 2_000_001_000)]
        {
            let class = tree!({"metadata": {"name": name}, "value": value,
                "description": "Used for parts of the control plane."});
            self.ensure("scheduling.k8s.io", "v1", "priorityclasses", class);
        }
        let class = tree!({
            "metadata": {"name": "local-path",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": storage::LOCAL_PATH,
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        });
        self.ensure("storage.k8s.io", "v1", "storageclasses", class);
    }

    /// Installs or updates the bundled CRDs. Blocks until they are stored, so that their resources are served from
    /// the first request on.
    pub(super) fn install_crds(&self) {
        let (sender, all_done) = mpsc::channel::<()>();
        for definition in &self.inner.options.crds {
            let name = definition.text_at(&["metadata", "name"]);
            let target = ResourcePath {
                name: name.clone(),
                ..collection("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            };
            let body = RequestBody { tree: definition.clone(), duplicates: Vec::new() };
            let sender = sender.clone();
            let act = WriteAct::Patch(Patch::Apply { body, force: true });
            self.write_own(MANAGER, target, act, move |refused| {
                if let Some(status) = refused {
                    tracing::error!(%name, error = %status.message, "cannot install CRD");
                }
                drop(sender);
            });
        }
        drop(sender);
        // Returns when the last clone of the sender is dropped, that is when every write was answered.
        all_done.iter().for_each(drop);
    }

    /// Deletes Workloads and PodGroups of deleted namespaces: while their kinds were not served, the namespace
    /// controller did not see them.
    pub(super) fn gc_orphaned_groups(&self) {
        let namespaces: BTreeSet<Text> = self.all("namespaces").iter().map(name_of).collect();
        for storage in self.inner.options.gangs.stored() {
            for object in self.all(&storage) {
                let namespace = object.tree.text_at(&["metadata", "namespace"]);
                if namespaces.contains(&namespace) {
                    continue;
                }
                // Removed directly, finalizers included: the namespace is already gone.
                let expect = ExpectedRevision::Revision(object.revision);
                let key = Key { resource: storage.clone(), namespace, name: name_of(&object) };
                tracing::info!(resource = %key.resource, namespace = %key.namespace, name = %key.name, "deleting orphaned object: its namespace no longer exists");
                let write = Write { key, expect, change: Mutation::Delete(object) };
                // Cannot conflict: no request has been served yet.
                self.store().accept(vec![write], Durability::Wait, Box::new(|_| {}));
            }
        }
    }

    fn ensure(&self, group: &str, version: &str, plural: &str, tree: Tree) {
        let name = tree.text_at(&["metadata", "name"]);
        let target = collection(group, version, plural);
        let act = WriteAct::Create(RequestBody { tree, duplicates: Vec::new() });
        let plural = Text::from(plural);
        self.write_own(MANAGER, target, act, move |refused| {
            if let Some(status) = refused.filter(|status| status.reason != "AlreadyExists") {
                tracing::error!(%plural, %name, error = %status.message, "cannot create bootstrap object");
            }
        });
    }

    /// A write of the server itself under this field manager; `done` gets the error, if any.
    pub(crate) fn write_own(
        &self,
        by: &str,
        target: ResourcePath,
        act: WriteAct,
        done: impl FnOnce(Option<Status>) + Send + 'static,
    ) {
        let options = WriteOptions { field_manager: Text::from(by), ..WriteOptions::default() };
        let user = UserInfo {
            name: Text::from("system:apiserver"),
            groups: vec![Text::from("system:masters")],
            ..UserInfo::default()
        };
        self.write(WriteRequest { target, act, options, user }, Box::new(|result| done(result.err())));
    }
}

fn name_of(object: &StoredObject) -> Text {
    object.tree.text_at(&["metadata", "name"])
}

fn collection(group: &str, version: &str, plural: &str) -> ResourcePath {
    ResourcePath {
        group: Text::from(group),
        version: Text::from(version),
        resource: Text::from(plural),
        ..ResourcePath::default()
    }
}
