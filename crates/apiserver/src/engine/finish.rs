//! What follows from a commit, and what goes along with one.

use muster_schema::object::Object;
use muster_store::{Change, Expect, Key, Write};
use muster_tree::{Text, Tree, tree};

use super::Engine;
use super::metadata::{Identity, born};
use super::prepare::Ask;
use super::write::{Prepared, Touched};
use crate::crds::DEFINITIONS;

impl Engine {
    /// Called once for every durable commit, before its callers hear of it.
    pub(crate) fn committed(&self, touched: &Touched) {
        let defines = touched.put.iter().chain(touched.deleted.iter().map(|(key, _)| key));
        if defines.into_iter().any(|key| key.resource == DEFINITIONS) {
            self.reload_custom();
        }
        for (key, last) in &touched.deleted {
            if key.resource == "services" {
                self.inner.addresses.release(last);
            }
        }
        self.sweep_custom(touched);
        self.recount_quotas(touched);
    }
}

impl Ask<'_> {
    /// A namespace is born with its first account and the certificate by which its pods know the server.
    pub(super) fn with_companions(&self, prepared: Prepared) -> Prepared {
        let is_namespace = self.place.resource.group.is_empty() && self.place.resource.plural == "namespaces";
        let Prepared::Writes(mut plan) = prepared else {
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
        Prepared::Writes(plan)
    }

    fn companion(&self, storage: &str, namespace: &Text, name: &str, body: &Tree) -> Option<Write> {
        let key = Key { resource: Text::from(storage), namespace: namespace.clone(), name: Text::from(name) };
        if self.engine.store().newest(&key).is_some() {
            return None;
        }
        let who = Identity {
            namespace: namespace.clone(),
            name: key.name.clone(),
            uid: self.engine.inner.uids.next(self.now, &*self.engine.inner.entropy),
            created: self.now,
            generation: None,
        };
        let change = Change::Put(Object::new(born(body, &who)));
        Some(Write { key, expect: Expect::Absent, change })
    }
}
