//! Listers of a pod sync: objects from the cache, tokens, and the host.

use muster_api::client::Uid;
use muster_api::paths::pod as pod_path;
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_control::{Caches, WatchEvent};
use muster_tree::{Text, Tree};

use super::LocalKubeletConfig;
use super::container_spec::{self, ClusterDns, PodContext, PodObjectLister};
use super::dns::Book;
use super::host::NodeHost;
use super::pleg::PodEvents;

/// Everything a pod sync can access.
pub struct SyncContext<'a> {
    pub setup: &'a LocalKubeletConfig,
    pub machine: &'a mut dyn NodeHost,
    /// Events and tokens of the pods.
    pub ring: &'a std::sync::Arc<PodEvents>,
    pub caches: &'a Caches,
    pub now: Time,
}

/// Lists objects from the controller's cache, and the tokens that have arrived.
pub struct CacheLister<'a> {
    caches: &'a Caches,
    setup: &'a LocalKubeletConfig,
    ring: &'a PodEvents,
    now: Time,
}

impl<'a> SyncContext<'a> {
    /// The lister of other objects.
    #[must_use]
    pub fn lookup(&self) -> CacheLister<'a> {
        CacheLister { caches: self.caches, setup: self.setup, ring: self.ring, now: self.now }
    }

    /// The context in which the spec of a pod with this IP is generated.
    #[must_use]
    pub fn house<'b>(&'b self, lookup: &'b CacheLister<'_>, address: &Text) -> PodContext<'b> {
        PodContext {
            patient: true,
            layout: self.machine.layout(),
            lookup,
            pod_address: address.clone(),
            node_address: self.setup.told.address.clone(),
            allocatable: self.setup.told.capacity.clone(),
            isolation: self.setup.isolation,
            images: self.setup.images,
            server: self.setup.server.clone(),
            search_path: self.setup.search_path.clone(),
            user: self.setup.user,
        }
    }

    /// The content of a pod's `/etc/hosts`.
    #[must_use]
    pub fn hosts(&self, pod: &Tree, address: &str) -> String {
        let namespace = meta::namespace(pod);
        container_spec::hosts(pod, address, &self.lookup().neighbours(&namespace))
    }
}

impl CacheLister<'_> {
    fn object(&self, kind: &muster_api::client::Kind, namespace: &Text, name: &Text) -> Option<Tree> {
        self.caches.get(kind, namespace, name).map(|object| object.tree.clone())
    }

    /// Hostnames of the pods behind headless Services of a namespace, and their IPs.
    fn neighbours(&self, namespace: &Text) -> Vec<(Vec<String>, String)> {
        let services = self.services(namespace);
        let pods = self.caches.all(&kinds::PODS).map(|object| &object.tree);
        let pods = pods.filter(|pod| meta::namespace(pod) == *namespace);
        let pods: Vec<(Tree, Text)> = pods.map(|pod| (pod.clone(), pod.text_at(pod_path::POD_IP))).collect();
        container_spec::neighbours(namespace, &services, &pods)
    }
}

impl PodObjectLister for CacheLister<'_> {
    fn config_map(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.object(&kinds::CONFIG_MAPS, namespace, name)
    }

    fn secret(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.object(&kinds::SECRETS, namespace, name)
    }

    fn claim(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.object(&kinds::PERSISTENT_VOLUME_CLAIMS, namespace, name)
    }

    fn volume(&self, name: &Text) -> Option<Tree> {
        self.object(&kinds::PERSISTENT_VOLUMES, &Text::new(), name)
    }

    fn services(&self, namespace: &Text) -> Vec<Tree> {
        let all = self.caches.all(&kinds::SERVICES).map(|object| &object.tree);
        all.filter(|service| meta::namespace(service) == *namespace).cloned().collect()
    }

    fn resource_claim(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.object(&kinds::RESOURCE_CLAIMS, namespace, name)
    }

    fn token(&self, pod: &Tree, audience: &str, expires_secs: i64) -> Option<Text> {
        let uid = meta::uid(pod);
        let known = self.ring.token(&uid, audience);
        let old = known.as_ref().is_none_or(|(_, refresh)| *refresh <= self.now);
        if old
            && let Some(ask) = &self.setup.ask_token
            && self.ring.may_ask(&uid, audience, self.now)
        {
            ask(pod, audience, expires_secs, self.now);
        }
        // The old token stays in use until the new one arrives.
        known.map(|(token, _)| token)
    }

    fn resolver(&self) -> Option<ClusterDns> {
        self.setup.names.as_ref().map(|(_, resolver)| resolver.clone())
    }

    fn address_of(&self, host: &str, namespace: &Text) -> Option<Text> {
        let all = self.neighbours(namespace);
        let found = all.iter().find(|(names, _)| names.iter().any(|name| name == host));
        found.map(|(_, address)| Text::from(address.as_str()))
    }

    fn pod_at(&self, address: &Text) -> Option<Uid> {
        let mut here = self.caches.on_node(&self.setup.name);
        here.find(|pod| pod.tree.str_at(pod_path::POD_IP) == address.as_str()).map(|pod| meta::uid(&pod.tree))
    }

    fn port_of(&self, pod: &Uid, port: u16) -> Option<u16> {
        let found = self.setup.ports.as_ref()?.of(pod, port);
        found.inspect_err(|error| tracing::warn!(%pod, port, %error, "failed to allocate a host port")).ok()
    }
}

/// Replaces the content of the DNS zone by the cached Services and pods.
pub fn update_zone(book: &Book, caches: &Caches) {
    let services = caches.all(&kinds::SERVICES).map(|it| it.tree.clone()).collect();
    let pods = caches.all(&kinds::PODS).map(|it| (it.tree.clone(), it.tree.text_at(pod_path::POD_IP)));
    book.set(services, pods.collect());
}

/// Whether a change of a pod or Service can change hostnames of other pods.
#[must_use]
pub fn changes_hostnames(seen: &WatchEvent<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.old, seen.new) else {
        return true;
    };
    if seen.key.kind == kinds::SERVICES {
        return true;
    }
    let ready = |pod: &Tree| muster_api::pod::PodFacts::of(pod).ready;
    before.tree.str_at(pod_path::POD_IP) != after.tree.str_at(pod_path::POD_IP)
        || ready(&before.tree) != ready(&after.tree)
}
