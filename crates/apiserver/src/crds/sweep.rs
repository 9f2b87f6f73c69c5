//! What follows from changes of definitions: their objects go before them, and names become free.

use std::sync::Arc;

use muster_store::{Key, Range};
use muster_tree::{Text, Tree, tree};

use super::definition::{CLEANUP, with_acceptance};
use super::{DEFINITIONS, is_true};
use crate::engine::{Engine, Touched};
use crate::kinds::Look;
use crate::registry::Resource;
use crate::request::{
    Body, DeleteOptions, ListOptions, Patch, Target, User, WriteAct, WriteOptions, WriteRequest,
};

impl Engine {
    /// Goes on with what waited for this commit: deletions of definitions, and names that were taken.
    pub(crate) fn sweep_custom(&self, touched: &Touched) {
        for key in touched.put.iter().filter(|key| key.resource == DEFINITIONS) {
            let Some(definition) = self.newest(key) else {
                continue;
            };
            if is_true(&definition.tree, "Terminating") {
                self.empty(&definition.tree);
            } else if definition.tree.items_at(&["status", "conditions"]).is_empty() {
                self.offer_names(definition.tree.str_at(&["spec", "group"]));
            }
        }
        if touched.deleted.is_empty() {
            return;
        }
        let registry = self.registry();
        for (key, last) in &touched.deleted {
            if key.resource == DEFINITIONS {
                self.offer_names(last.str_at(&["spec", "group"]));
            }
            let dying = |r: &&Arc<Resource>| r.storage == key.resource && r.strategy.refuses_creates();
            if let Some(resource) = registry.all().iter().filter(|r| r.custom).find(dying) {
                self.finish_if_empty(&resource.storage);
            }
        }
    }

    /// Deletes all objects of a definition that is going away.
    fn empty(&self, definition: &Tree) {
        let name = definition.text_at(&["metadata", "name"]);
        let (group, plural) =
            (definition.text_at(&["spec", "group"]), definition.text_at(&["spec", "names", "plural"]));
        let registry = self.registry();
        let served =
            registry.resource(&group, &plural).and_then(|r| r.versions.iter().find(|v| v.served).cloned());
        let objects = self.all(&name);
        if let Some(version) = served.filter(|_| !objects.is_empty()) {
            let target = Target { group, version: version.name, resource: plural, ..Target::default() };
            let act = WriteAct::DeleteCollection(DeleteOptions::default(), ListOptions::default());
            self.send(target, act);
        }
        self.finish_if_empty(&name);
    }

    fn finish_if_empty(&self, name: &Text) {
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
            tree!({"metadata": {"uid": definition.tree.text_at(&["metadata", "uid"]), "finalizers": others}});
        let body = Body { tree: patch, duplicates: Vec::new() };
        self.send(definition_target(name, ""), WriteAct::Patch(Patch::Merge(body)));
    }

    /// Definitions that waited for names of this group look again.
    fn offer_names(&self, group: &str) {
        let mut all: Vec<Tree> = self.all(DEFINITIONS).into_iter().map(|object| object.tree).collect();
        for at in 0..all.len() {
            let definition = &all[at];
            if definition.str_at(&["spec", "group"]) != group || is_true(definition, "NamesAccepted") {
                continue;
            }
            let now = with_acceptance(definition, &all, self.clock().now());
            let before = std::mem::replace(&mut all[at], now);
            let definition = &all[at];
            let Some(status) =
                definition.get("status").filter(|status| before.get("status") != Some(*status))
            else {
                continue;
            };
            let body = Body { tree: tree!({"status": status}), duplicates: Vec::new() };
            let target = definition_target(&definition.text_at(&["metadata", "name"]), "status");
            self.send(target, WriteAct::Patch(Patch::Merge(body)));
        }
    }

    fn send(&self, target: Target, act: WriteAct) {
        let options = WriteOptions { field_manager: Text::from("kube-apiserver"), ..WriteOptions::default() };
        let user = User {
            name: Text::from("system:apiserver"),
            groups: vec![Text::from("system:masters")],
            ..User::default()
        };
        let (resource, name) = (target.resource.clone(), target.name.clone());
        let done = move |result: Result<_, crate::Status>| {
            if let Err(status) = result {
                tracing::warn!(%resource, %name, message = %status.message, "while a definition goes away");
            }
        };
        self.write(WriteRequest { target, act, options, user }, Box::new(done));
    }
}

fn definition_target(name: &Text, subresource: &str) -> Target {
    Target {
        group: Text::from("apiextensions.k8s.io"),
        version: Text::from("v1"),
        resource: Text::from("customresourcedefinitions"),
        namespace: Text::new(),
        name: name.clone(),
        subresource: Text::from(subresource),
    }
}
