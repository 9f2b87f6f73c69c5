//! The service account controller: every namespace has its `default` account and the authority's certificate.
//!
//! The API server makes both with the namespace; this puts back what somebody deleted or changed.

use muster_api::port::{Act, Call, Guard, Kind, Object, Part, Target};
use muster_api::time::Time;
use muster_api::words::{DEFAULT_ACCOUNT, ROOT_CA, managers};
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree, tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// The service account controller.
#[derive(Debug, Default)]
pub struct Accounts {
    root_ca: Text,
}

impl Accounts {
    /// Publishes this certificate of the authority that signed the server's.
    #[must_use]
    pub fn new(root_ca: Text) -> Accounts {
        Accounts { root_ca }
    }

    fn certificate(&self, namespace: &Text, caches: &Caches) -> Option<Call> {
        let data = tree!({"ca.crt": &self.root_ca});
        let Some(live) = caches.get(&kinds::CONFIG_MAPS, namespace, &Text::from(ROOT_CA)) else {
            let made = tree!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "namespace": namespace}, "data": data});
            return Some(create(&kinds::CONFIG_MAPS, namespace, ROOT_CA, made));
        };
        (live.tree.get("data") != Some(&data)).then(|| Call {
            by: managers::ROOT_CA.clone(),
            on: meta::target(&kinds::CONFIG_MAPS, &live.tree, Part::Main),
            guard: guard(live),
            act: Act::Merge(tree!({"data": data})),
        })
    }
}

impl Controller for Accounts {
    fn name(&self) -> &'static str {
        "serviceaccount"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NAMESPACES.clone(), kinds::SERVICE_ACCOUNTS.clone(), kinds::CONFIG_MAPS.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let namespace = match &seen.key {
            key if key.kind == kinds::NAMESPACES => key.name.clone(),
            key if key.kind == kinds::SERVICE_ACCOUNTS && key.name == DEFAULT_ACCOUNT => {
                key.namespace.clone()
            }
            key if key.kind == kinds::CONFIG_MAPS && key.name == ROOT_CA => key.namespace.clone(),
            _ => return Vec::new(),
        };
        vec![Key::new(&kinds::NAMESPACES, &Text::new(), &namespace).into()]
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _now: Time) -> Plan {
        let active = caches.find(key).is_some_and(|namespace| meta::deleting(&namespace.tree).is_none());
        if !active {
            return Plan::nothing();
        }
        let account = caches.get(&kinds::SERVICE_ACCOUNTS, &key.name, &Text::from(DEFAULT_ACCOUNT));
        let missing = account.is_none().then(|| {
            let made = tree!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": DEFAULT_ACCOUNT, "namespace": &key.name}});
            create(&kinds::SERVICE_ACCOUNTS, &key.name, DEFAULT_ACCOUNT, made)
        });
        let certificate = self.certificate(&key.name, caches);
        Plan::of(missing.into_iter().chain(certificate).map(Step::One).collect())
    }
}

fn create(kind: &Kind, namespace: &Text, name: &str, made: Tree) -> Call {
    let by = if *kind == kinds::CONFIG_MAPS { &managers::ROOT_CA } else { &managers::ACCOUNTS };
    let on = Target { kind: kind.clone(), namespace: namespace.clone(), name: name.into(), part: Part::Main };
    Call { by: by.clone(), on, guard: Guard::default(), act: Act::Create(made) }
}

fn guard(object: &Object) -> Guard {
    Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) }
}
