//! Simulated nodes by the thousand, as a controller over the same loop.
//!
//! Each node is an ordinary Node object with a lease that is renewed; each pod bound to it goes through its life
//! as its annotations say, and its status reads as a real kubelet would have written it.
//!
//! # Invariants
//!
//! - What a pod does next follows from its status, its annotations and the time. Memory only adds fractions of
//!   seconds, which a status cannot hold.
//! - A pod that has ended is never touched again, except to finish its deletion.
//! - The last delete names the UID.
//!
//! # Deliberately absent
//!
//! Processes, volumes, probes. A pod that is deleted stops at once, whatever its grace.

mod addresses;
mod life;
pub mod plane;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::lease::{self, NODE_LEASE_RENEW};
use muster_api::paths::{node as node_path, pod as pod_path};
use muster_api::pod_status::Addresses;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Target, Uid};
use muster_api::time::Time;
use muster_api::words::{NODE_LEASES, managers};
use muster_api::{kinds, meta, node, pod_status};
use muster_control::{Caches, Controller, Key, Plan, Seen, Step, Wake};
use muster_tree::{Text, Tree, tree};

use crate::addresses::Pool;
use crate::life::{Memory, Move};

/// Leases are renewed a little before they are due, so that a slow turn does not make them late.
const RENEW_EARLY: Duration = Duration::from_millis(100);

/// The simulated nodes.
#[derive(Debug)]
pub struct SimNodes {
    /// Node manifests by name.
    nodes: BTreeMap<Text, Tree>,
    addresses: Pool,
    memory: BTreeMap<Uid, Memory>,
}

impl SimNodes {
    /// `count` equal nodes called `sim-0`, `sim-1`, …
    #[must_use]
    pub fn count(count: usize) -> SimNodes {
        let capacity = capacity();
        let names = (0..count).map(|n| Text::from(format!("sim-{n}")));
        SimNodes::of(names.map(|name| node::simulated(&name, &capacity)))
    }

    /// One simulated node for each Node manifest.
    pub fn of(manifests: impl IntoIterator<Item = Tree>) -> SimNodes {
        let nodes = manifests.into_iter().map(|node| (meta::name(&node), node)).collect();
        SimNodes { nodes, addresses: Pool::default(), memory: BTreeMap::new() }
    }

    fn host(&self, node: &Text) -> Text {
        let at = self.nodes.keys().position(|name| name == node).unwrap_or(0);
        Text::from(format!("10.{}.{}.{}", 128 + at / 65_536, at / 256 % 256, at % 256))
    }

    fn plan_node(&self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let Some(manifest) = self.nodes.get(&key.name) else {
            return Plan::nothing();
        };
        let Some(live) = caches.find(key) else {
            let create = call(key.target(Part::Main), Guard::default(), Act::Create(manifest.clone()));
            return Plan::of(vec![Step::One(create)]);
        };
        let mut steps = Vec::new();
        if !node::is_ready(&live.tree) {
            let capacity = manifest.at(node_path::CAPACITY).or(manifest.at(node_path::ALLOCATABLE));
            let capacity = capacity.cloned().unwrap_or_else(Tree::empty_map);
            let status = node::ready_status(&live.tree, &capacity, &self.host(&key.name), now);
            steps.push(Step::One(call(key.target(Part::Status), uid_guard(live), Act::Strategic(status))));
        }
        let (renewal, next) = renew(key, live, caches, now);
        steps.extend(renewal.map(Step::One));
        Plan::of(steps).again(next)
    }

    fn plan_pod(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let Some(pod) = caches.find(key) else {
            return Plan::nothing();
        };
        let uid = meta::uid(&pod.tree);
        let node = pod.tree.text_at(pod_path::NODE_NAME);
        if !self.nodes.contains_key(&node) {
            return Plan::nothing();
        }
        let next = life::next(&pod.tree, self.memory.entry(uid.clone()).or_default(), now);
        match next {
            Move::Rest => {
                self.memory.remove(&uid);
                Plan::nothing()
            }
            Move::Wait(until) => Plan::nothing().again(until),
            Move::Show(doing) => {
                let known = pod.tree.text_at(pod_path::POD_IP);
                let ip = if known.is_empty() { self.addresses.take(&uid) } else { known };
                let at = Addresses { host: self.host(&node), pod: ip };
                let patch = pod_status::patch(&pod.tree, &at, &doing, now);
                let write = call(key.target(Part::Status), uid_guard(pod), Act::Strategic(patch));
                Plan::of(vec![Step::One(write)])
            }
            Move::Bury => {
                let act = Act::Delete { cascade: Cascade::Background, grace_secs: Some(0) };
                Plan::of(vec![Step::One(call(key.target(Part::Main), uid_guard(pod), act))])
            }
        }
    }
}

impl Controller for SimNodes {
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NODES.clone(), kinds::PODS.clone(), kinds::LEASES.clone()]
    }

    fn starts(&mut self) -> Vec<Key> {
        self.nodes.keys().map(|name| Key::new(&kinds::NODES, &Text::new(), name)).collect()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::NODES && self.nodes.contains_key(&seen.key.name) {
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let tree = &seen.newest().tree;
        if !self.nodes.contains_key(tree.str_at(pod_path::NODE_NAME)) {
            return Vec::new();
        }
        let uid = meta::uid(tree);
        if seen.after.is_none() {
            self.addresses.give_back(&uid);
            self.memory.remove(&uid);
            return Vec::new();
        }
        self.addresses.known(&uid, tree.str_at(pod_path::POD_IP));
        vec![seen.key.clone().into()]
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        if key.kind == kinds::NODES {
            self.plan_node(key, caches, now)
        } else {
            self.plan_pod(key, caches, now)
        }
    }
}

/// What a simulated node has, unless its manifest says otherwise.
fn capacity() -> Tree {
    tree!({"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "500Gi"})
}

/// The call that keeps a node's lease alive, if it is time, and when the next one is due.
fn renew(key: &Key, node: &Object, caches: &Caches, now: Time) -> (Option<Call>, Time) {
    let target = Target {
        kind: kinds::LEASES.clone(),
        namespace: Text::from(NODE_LEASES),
        name: key.name.clone(),
        part: Part::Main,
    };
    let uid = meta::uid(&node.tree);
    let next = now + (NODE_LEASE_RENEW - RENEW_EARLY);
    let Some(known) = caches.get(&kinds::LEASES, &target.namespace, &target.name) else {
        let made = lease::of_node(&key.name, &uid, now);
        return (Some(call(target, Guard::default(), Act::Create(made))), next);
    };
    let due = lease::renewed(&known.tree).unwrap_or_default() + (NODE_LEASE_RENEW - RENEW_EARLY);
    if due > now {
        return (None, due);
    }
    // A node that was made anew takes over the lease of its namesake.
    let patch = if lease::is_owned_by(&known.tree, &uid) {
        lease::renewal(now)
    } else {
        lease::of_node(&key.name, &uid, now)
    };
    (Some(call(target, uid_guard(known), Act::Merge(patch))), next)
}

fn uid_guard(object: &Object) -> Guard {
    Guard { uid: Some(meta::uid(&object.tree)), revision: None }
}

fn call(on: Target, guard: Guard, act: Act) -> Call {
    Call { by: managers::KUBELET.clone(), on, guard, act }
}
