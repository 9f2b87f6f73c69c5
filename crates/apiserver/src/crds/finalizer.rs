//! The CRD finalizer and naming controllers: deletes objects of terminating CRDs, and accepts names that became free.

use std::sync::Arc;

use muster_store::{Key, Range};
use muster_tree::{Text, Tree, tree};

use super::strategy::{CLEANUP, with_acceptance};
use super::{DEFINITIONS, is_true};
use crate::engine::{ApiEngine, CommittedKeys};
use crate::kinds::ObjectLister;
use crate::registry::Resource;
use crate::request::{
    DeleteOptions, ListOptions, Patch, RequestBody, ResourcePath, UserInfo, WriteAct, WriteOptions,
    WriteRequest,
};

impl ApiEngine {
    /// Continues deletions of CRDs, and name acceptance, after a commit.
    pub(crate) fn sweep_custom(&self, touched: &CommittedKeys) {
        for key in touched.put.iter().filter(|key| key.resource == DEFINITIONS) {
            let Some(definition) = self.newest(key) else {
                continue;
            };
            if is_true(&definition.tree, "Terminating") {
                self.delete_instances(&definition.tree);
            } else if definition.tree.items_at(&["status", "conditions"]).is_empty() {
                self.retry_name_acceptance(definition.tree.str_at(&["spec", "group"]));
            }
        }
        if touched.deleted.is_empty() {
            return;
        }
        let registry = self.registry();
        for (key, last) in &touched.deleted {
            if key.resource == DEFINITIONS {
                self.retry_name_acceptance(last.str_at(&["spec", "group"]));
            }
            let dying = |r: &&Arc<Resource>| r.storage == key.resource && r.strategy.rejects_creates();
            if let Some(resource) = registry.all().iter().filter(|r| r.custom).find(dying) {
                self.remove_finalizer_if_empty(&resource.storage);
            }
        }
    }

    /// Deletes all objects of a terminating CRD.
    fn delete_instances(&self, definition: &Tree) {
        let name = definition.text_at(&["metadata", "name"]);
        let (group, plural) =
            (definition.text_at(&["spec", "group"]), definition.text_at(&["spec", "names", "plural"]));
        let registry = self.registry();
        let served =
            registry.resource(&group, &plural).and_then(|r| r.versions.iter().find(|v| v.served).cloned());
        // Finalizers of the objects may delay this: the CRD's own finalizer is removed by the commit that deletes the
        // last one.
        let objects = self.all(&name);
        if let Some(version) = served.filter(|_| !objects.is_empty()) {
            let target =
                ResourcePath { group, version: version.name, resource: plural, ..ResourcePath::default() };
            let act = WriteAct::DeleteCollection(DeleteOptions::default(), ListOptions::default());
            self.write_crd(target, act);
        }
        self.remove_finalizer_if_empty(&name);
    }

    fn remove_finalizer_if_empty(&self, name: &Text) {
        let range = Range { limit: Some(1), ..Range::default() };
        let left = self.store().list(name, &range).map_or(0, |page| page.objects.len());
        let key = Key { resource: Text::from(DEFINITIONS), namespace: Text::new(), name: name.clone() };
        let Some(definition) = self.newest(&key).filter(|_| left == 0) else {
            return;
        };
        let finalizers = definition.tree.items_at(&["metadata", "finalizers"]);
        if !finalizers.iter().any(|f| f.as_str() == Some(CLEANUP)) {
            return;
        }
        let others: Vec<Tree> = finalizers.iter().filter(|f| f.as_str() != Some(CLEANUP)).cloned().collect();
        let patch =
            // The UID guards against a CRD that was recreated meanwhile.
            tree!({"metadata": {"uid": definition.tree.text_at(&["metadata", "uid"]), "finalizers": others}});
        let body = RequestBody { tree: patch, duplicates: Vec::new() };
        self.write_crd(definition_target(name, ""), WriteAct::Patch(Patch::Merge(body)));
    }

    /// Retries name acceptance of CRDs in this group.
    fn retry_name_acceptance(&self, group: &str) {
        let mut all: Vec<Tree> = self.all(DEFINITIONS).into_iter().map(|object| object.tree).collect();
        for at in 0..all.len() {
            let definition = &all[at];
            if definition.str_at(&["spec", "group"]) != group || is_true(definition, "NamesAccepted") {
                continue;
            }
            // Earlier acceptances of this loop count: of two CRDs that wait for one name only the first gets it.
            let now = with_acceptance(definition, &all, self.clock().now());
            let before = std::mem::replace(&mut all[at], now);
            let definition = &all[at];
            let Some(status) =
                definition.get("status").filter(|status| before.get("status") != Some(*status))
            else {
                continue;
            };
            let body = RequestBody { tree: tree!({"status": status}), duplicates: Vec::new() };
            let target = definition_target(&definition.text_at(&["metadata", "name"]), "status");
            self.write_crd(target, WriteAct::Patch(Patch::Merge(body)));
        }
    }

    fn write_crd(&self, target: ResourcePath, act: WriteAct) {
        let options = WriteOptions { field_manager: Text::from("kube-apiserver"), ..WriteOptions::default() };
        let user = UserInfo {
            name: Text::from("system:apiserver"),
            groups: vec![Text::from("system:masters")],
            ..UserInfo::default()
        };
        let (resource, name) = (target.resource.clone(), target.name.clone());
        let done = move |result: Result<_, crate::Status>| {
            if let Err(status) = result {
                tracing::warn!(%resource, %name, error = %status.message, "CRD finalization failed");
            }
        };
        self.write(WriteRequest { target, act, options, user }, Box::new(done));
    }
}

fn definition_target(name: &Text, subresource: &str) -> ResourcePath {
    ResourcePath {
        group: Text::from("apiextensions.k8s.io"),
        version: Text::from("v1"),
        resource: Text::from("customresourcedefinitions"),
        namespace: Text::new(),
        name: name.clone(),
        subresource: Text::from(subresource),
    }
}
