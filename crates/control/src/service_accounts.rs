//! The service account controller: every namespace has the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.
//!
//! The API server creates both with the namespace; the controller restores them after a deletion or change.

use muster_api::client::{
    ApiObject, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::consts::{DEFAULT_ACCOUNT, ROOT_CA, managers};
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree, tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// The service account controller.
#[derive(Debug, Default)]
pub struct ServiceAccountController {
    root_ca: Text,
}

impl ServiceAccountController {
    /// A controller that publishes this CA certificate of the API server, in PEM.
    #[must_use]
    pub fn new(root_ca: Text) -> ServiceAccountController {
        ServiceAccountController { root_ca }
    }

    fn certificate(&self, namespace: &Text, caches: &Caches) -> Option<ApiRequest> {
        let data = tree!({"ca.crt": &self.root_ca});
        let Some(live) = caches.get(&kinds::CONFIG_MAPS, namespace, &Text::from(ROOT_CA)) else {
            let made = tree!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "namespace": namespace}, "data": data});
            return Some(create(&kinds::CONFIG_MAPS, namespace, ROOT_CA, made));
        };
        (live.tree.get("data") != Some(&data)).then(|| ApiRequest {
            field_manager: managers::ROOT_CA.clone(),
            target: meta::target(&kinds::CONFIG_MAPS, &live.tree, Subresource::Main),
            preconditions: guard(live),
            verb: RequestVerb::MergePatch(tree!({"data": data})),
        })
    }
}

impl Controller for ServiceAccountController {
    fn name(&self) -> &'static str {
        "serviceaccount"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NAMESPACES.clone(), kinds::SERVICE_ACCOUNTS.clone(), kinds::CONFIG_MAPS.clone()]
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        let namespace = match &seen.key {
            key if key.kind == kinds::NAMESPACES => key.name.clone(),
            key if key.kind == kinds::SERVICE_ACCOUNTS && key.name == DEFAULT_ACCOUNT => {
                key.namespace.clone()
            }
            key if key.kind == kinds::CONFIG_MAPS && key.name == ROOT_CA => key.namespace.clone(),
            _ => return Vec::new(),
        };
        vec![ObjectKey::new(&kinds::NAMESPACES, &Text::new(), &namespace).into()]
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _now: Time) -> Reconciled {
        let active =
            caches.find(key).is_some_and(|namespace| meta::deletion_timestamp(&namespace.tree).is_none());
        if !active {
            return Reconciled::done();
        }
        let account = caches.get(&kinds::SERVICE_ACCOUNTS, &key.name, &Text::from(DEFAULT_ACCOUNT));
        let missing = account.is_none().then(|| {
            let made = tree!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": DEFAULT_ACCOUNT, "namespace": &key.name}});
            create(&kinds::SERVICE_ACCOUNTS, &key.name, DEFAULT_ACCOUNT, made)
        });
        let certificate = self.certificate(&key.name, caches);
        Reconciled::with_steps(missing.into_iter().chain(certificate).map(Step::Request).collect())
    }
}

fn create(kind: &Kind, namespace: &Text, name: &str, made: Tree) -> ApiRequest {
    let by = if *kind == kinds::CONFIG_MAPS { &managers::ROOT_CA } else { &managers::ACCOUNTS };
    let on = RequestTarget {
        kind: kind.clone(),
        namespace: namespace.clone(),
        name: name.into(),
        subresource: Subresource::Main,
    };
    ApiRequest {
        field_manager: by.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(made),
    }
}

fn guard(object: &ApiObject) -> Preconditions {
    Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) }
}
