//! What a pod may look at: the objects of the caches, and the machine.

use muster_api::paths::pod as pod_path;
use muster_api::port::Uid;
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_control::{Caches, Seen};
use muster_tree::{Text, Tree};

use super::Setup;
use super::dns::Book;
use super::dress::{self, House, Lookup, Resolver};
use super::machine::Machine;
use super::ring::Ring;

/// Where a step of a pod happens.
pub struct Place<'a> {
    /// The node.
    pub setup: &'a Setup,
    /// The machine.
    pub machine: &'a mut dyn Machine,
    /// Where news come from.
    pub ring: &'a std::sync::Arc<Ring>,
    /// All objects.
    pub caches: &'a Caches,
    /// The time.
    pub now: Time,
}

/// Objects of the caches, and the tokens that came.
pub struct Cached<'a> {
    caches: &'a Caches,
    setup: &'a Setup,
    ring: &'a Ring,
    now: Time,
}

impl<'a> Place<'a> {
    /// What other objects say.
    #[must_use]
    pub fn lookup(&self) -> Cached<'a> {
        Cached { caches: self.caches, setup: self.setup, ring: self.ring, now: self.now }
    }

    /// Where a pod with this address lives.
    #[must_use]
    pub fn house<'b>(&'b self, lookup: &'b Cached<'_>, address: &Text) -> House<'b> {
        House {
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

    /// The text of a pod's hosts file.
    #[must_use]
    pub fn hosts(&self, pod: &Tree, address: &str) -> String {
        let namespace = meta::namespace(pod);
        dress::hosts(pod, address, &self.lookup().neighbours(&namespace))
    }
}

impl Cached<'_> {
    fn object(&self, kind: &muster_api::port::Kind, namespace: &Text, name: &Text) -> Option<Tree> {
        self.caches.get(kind, namespace, name).map(|object| object.tree.clone())
    }

    /// Names of pods and services, and their addresses.
    fn neighbours(&self, namespace: &Text) -> Vec<(Vec<String>, String)> {
        let services = self.services(namespace);
        let pods = self.caches.all(&kinds::PODS).map(|object| &object.tree);
        let pods = pods.filter(|pod| meta::namespace(pod) == *namespace);
        let pods: Vec<(Tree, Text)> = pods.map(|pod| (pod.clone(), pod.text_at(pod_path::POD_IP))).collect();
        dress::neighbours(namespace, &services, &pods)
    }
}

impl Lookup for Cached<'_> {
    fn config_map(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.object(&kinds::CONFIG_MAPS, namespace, name)
    }

    fn secret(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.object(&kinds::SECRETS, namespace, name)
    }

    fn claim(&self, namespace: &Text, name: &Text) -> Option<Tree> {
        self.object(&kinds::CLAIMS, namespace, name)
    }

    fn volume(&self, name: &Text) -> Option<Tree> {
        self.object(&kinds::VOLUMES, &Text::new(), name)
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
        known.map(|(token, _)| token)
    }

    fn resolver(&self) -> Option<Resolver> {
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
        found.inspect_err(|error| tracing::warn!(%pod, port, %error, "no port of this machine for it")).ok()
    }
}

/// Puts all names of now into the book.
pub fn fill(book: &Book, caches: &Caches) {
    let services = caches.all(&kinds::SERVICES).map(|it| it.tree.clone()).collect();
    let pods = caches.all(&kinds::PODS).map(|it| (it.tree.clone(), it.tree.text_at(pod_path::POD_IP)));
    book.set(services, pods.collect());
}

/// Whether a change of a pod or service may change names of others.
#[must_use]
pub fn names_changed(seen: &Seen<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.before, seen.after) else {
        return true;
    };
    if seen.key.kind == kinds::SERVICES {
        return true;
    }
    let ready = |pod: &Tree| muster_api::pod::PodFacts::of(pod).ready;
    before.tree.str_at(pod_path::POD_IP) != after.tree.str_at(pod_path::POD_IP)
        || ready(&before.tree) != ready(&after.tree)
}
