//! The objects that every cluster starts with.

use std::collections::BTreeSet;
use std::sync::mpsc;

use muster_store::{Change, Durability, Expect, Key, Object, Write};
use muster_tree::{Text, Tree, tree};

use super::Engine;
use crate::kinds::Look;
use crate::request::{Body, Patch, Target, User, WriteAct, WriteOptions, WriteRequest};
use crate::status::Status;

/// Who writes what every server has.
pub(crate) const MANAGER: &str = "kube-apiserver";

const NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "kube-node-lease", "muster-system"];

impl Engine {
    /// Creates what is missing. Nobody waits: later writes see what is still on its way to the disk.
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
            "provisioner": "muster.dev/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        });
        self.ensure("storage.k8s.io", "v1", "storageclasses", class);
    }

    /// Installs the definitions that come with the server, or brings them up to date. This waits, so that their
    /// objects are served from the first request on.
    pub(super) fn install(&self) {
        let (told, all_done) = mpsc::channel::<()>();
        for definition in &self.inner.options.definitions {
            let name = definition.text_at(&["metadata", "name"]);
            let target = Target {
                name: name.clone(),
                ..collection("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            };
            let body = Body { tree: definition.clone(), duplicates: Vec::new() };
            let told = told.clone();
            let act = WriteAct::Patch(Patch::Apply { body, force: true });
            self.write_own(MANAGER, target, act, move |refused| {
                if let Some(status) = refused {
                    tracing::error!(%name, message = %status.message, "definition that comes with the server");
                }
                drop(told);
            });
        }
        drop(told);
        // Ends when the last write has been answered.
        all_done.iter().for_each(drop);
    }

    /// Ends gangs whose namespace went while their kinds were not served: nobody saw them to take them along.
    pub(super) fn collect_homeless(&self) {
        let namespaces: BTreeSet<Text> = self.all("namespaces").iter().map(name_of).collect();
        for storage in self.inner.options.gangs.stored() {
            for object in self.all(&storage) {
                let namespace = object.tree.text_at(&["metadata", "namespace"]);
                if namespaces.contains(&namespace) {
                    continue;
                }
                let expect = Expect::Revision(object.revision);
                let key = Key { resource: storage.clone(), namespace, name: name_of(&object) };
                tracing::info!(resource = %key.resource, namespace = %key.namespace, name = %key.name, "its namespace is gone");
                let write = Write { key, expect, change: Change::Delete(object) };
                // Overtaken by nobody: no request has been taken yet.
                self.store().accept(vec![write], Durability::Wait, Box::new(|_| {}));
            }
        }
    }

    fn ensure(&self, group: &str, version: &str, plural: &str, tree: Tree) {
        let name = tree.text_at(&["metadata", "name"]);
        let target = collection(group, version, plural);
        let act = WriteAct::Create(Body { tree, duplicates: Vec::new() });
        let plural = Text::from(plural);
        self.write_own(MANAGER, target, act, move |refused| {
            if let Some(status) = refused.filter(|status| status.reason != "AlreadyExists") {
                tracing::error!(%plural, %name, message = %status.message, "bootstrap object");
            }
        });
    }

    /// A write of the server itself, under this name; `done` hears why it was refused.
    pub(crate) fn write_own(
        &self,
        by: &str,
        target: Target,
        act: WriteAct,
        done: impl FnOnce(Option<Status>) + Send + 'static,
    ) {
        let options = WriteOptions { field_manager: Text::from(by), ..WriteOptions::default() };
        let user = User {
            name: Text::from("system:apiserver"),
            groups: vec![Text::from("system:masters")],
            ..User::default()
        };
        self.write(WriteRequest { target, act, options, user }, Box::new(|result| done(result.err())));
    }
}

fn name_of(object: &Object) -> Text {
    object.tree.text_at(&["metadata", "name"])
}

fn collection(group: &str, version: &str, plural: &str) -> Target {
    Target {
        group: Text::from(group),
        version: Text::from(version),
        resource: Text::from(plural),
        ..Target::default()
    }
}
