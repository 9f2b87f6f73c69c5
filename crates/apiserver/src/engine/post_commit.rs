//! Post-commit hooks, and objects that are created together with a namespace.

use muster_schema::object::StoredObject;
use muster_store::{ExpectedRevision, Key, Mutation, Write};
use muster_tree::{Text, Tree, tree};

use super::ApiEngine;
use super::metadata::{ServerMetadata, with_server_metadata};
use super::prepare::WriteContext;
use super::write::{CommittedKeys, PreparedWrite};
use crate::crds::DEFINITIONS;

impl ApiEngine {
    /// Runs once per durable commit, before its callers get their replies.
    pub(crate) fn after_commit(&self, touched: &CommittedKeys) {
        let defines = touched.put.iter().chain(touched.deleted.iter().map(|(key, _)| key));
        if defines.into_iter().any(|key| key.resource == DEFINITIONS) {
            self.reload_custom();
        }
        for (key, last) in &touched.deleted {
            // Released when the delete is durable, not before: the write may still fail.
            if key.resource == "services" {
                self.inner.addresses.release(last);
            }
        }
        self.sweep_custom(touched);
        self.recount_quotas(touched);
    }
}

impl WriteContext<'_> {
    /// Creates the `default` ServiceAccount and `kube-root-ca.crt` in the transaction of their namespace, so that
    /// pods can start at once.
    pub(super) fn with_companions(&self, prepared: PreparedWrite) -> PreparedWrite {
        let is_namespace = self.place.resource.group.is_empty() && self.place.resource.plural == "namespaces";
        let PreparedWrite::Writes(mut plan) = prepared else {
            return prepared;
        };
        if is_namespace && let Some(namespace) = plan.writes.first().map(|write| write.key.name.clone()) {
            let account = tree!({"apiVersion": "v1", "kind": "ServiceAccount"});
            let authority = tree!({"apiVersion": "v1", "kind": "ConfigMap",
                "data": {"ca.crt": &self.engine.inner.options.root_ca}});
            let both =
                [("serviceaccounts", "default", account), ("configmaps", "kube-root-ca.crt", authority)];
            let both = both
                .into_iter()
                .filter_map(|(storage, name, body)| self.companion(storage, &namespace, name, &body));
            plan.writes.extend(both);
        }
        PreparedWrite::Writes(plan)
    }

    fn companion(&self, storage: &str, namespace: &Text, name: &str, body: &Tree) -> Option<Write> {
        let key = Key { resource: Text::from(storage), namespace: namespace.clone(), name: Text::from(name) };
        // A restored namespace may already have it.
        if self.engine.store().newest(&key).is_some() {
            return None;
        }
        let who = ServerMetadata {
            namespace: namespace.clone(),
            name: key.name.clone(),
            uid: self.engine.inner.uids.next(self.now, &*self.engine.inner.entropy),
            created: self.now,
            generation: None,
        };
        let change = Mutation::Put(StoredObject::new(with_server_metadata(body, &who)));
        Some(Write { key, expect: ExpectedRevision::Absent, change })
    }
}
