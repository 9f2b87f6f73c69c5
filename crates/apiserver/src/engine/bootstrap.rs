//! The objects that every cluster starts with.

use muster_tree::{Text, Tree, tree};

use super::Engine;
use crate::request::{Body, Target, User, WriteAct, WriteOptions, WriteRequest};

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

    fn ensure(&self, group: &str, version: &str, plural: &str, tree: Tree) {
        let name = tree.text_at(&["metadata", "name"]);
        let target = Target {
            group: Text::from(group),
            version: Text::from(version),
            resource: Text::from(plural),
            ..Target::default()
        };
        let options = WriteOptions { field_manager: Text::from("kube-apiserver"), ..WriteOptions::default() };
        let user = User {
            name: Text::from("system:apiserver"),
            uid: Text::new(),
            groups: vec![Text::from("system:masters")],
        };
        let act = WriteAct::Create(Body { tree, duplicates: Vec::new() });
        let plural = Text::from(plural);
        let done = move |result: Result<_, crate::Status>| match result {
            Err(status) if status.reason != "AlreadyExists" => {
                tracing::error!(%plural, %name, message = %status.message, "bootstrap object");
            }
            _ => {}
        };
        self.write(WriteRequest { target, act, options, user }, Box::new(done));
    }
}
