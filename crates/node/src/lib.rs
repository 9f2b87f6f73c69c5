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
//! - A node carries the mark of whoever simulates it. A node with another mark, or none, is left alone, unless it is
//!   a simulated one whose lease is over.
//!
//! # Deliberately absent
//!
//! Processes, probes, mounts (volumes are made by [`provision`], and nobody enters them). A pod that is deleted stops at once, whatever its grace.

mod addresses;
pub mod folders;
mod life;
pub mod local;
pub mod plane;
pub mod provision;
pub mod published;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::event::{About, Event, Severity};
use muster_api::lease::{self, NODE_LEASE_RENEW};
use muster_api::node::Machine;
use muster_api::paths::{node as node_path, pod as pod_path};
use muster_api::pod_status::Addresses;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Target, Uid};
use muster_api::time::Time;
use muster_api::words::{NODE_LEASES, managers, reasons};
use muster_api::{kinds, meta, node, pod_status};
use muster_control::{Caches, Controller, Key, Plan, Seen, Step, Wake};
use muster_tree::{Text, Tree, tree};

use crate::addresses::Pool;
use crate::life::{Memory, Move};

/// Leases are renewed a little before they are due, so that a slow turn does not make them late.
const RENEW_EARLY: Duration = Duration::from_millis(100);

/// A node of ours.
#[derive(Debug)]
struct Own {
    manifest: Tree,
    address: Text,
}

/// The simulated nodes.
#[derive(Debug)]
pub struct SimNodes {
    /// What tells our nodes from those of another simulator.
    mark: Text,
    /// Nodes by name.
    nodes: BTreeMap<Text, Own>,
    /// How many more are to be found names for.
    nameless: usize,
    /// The next name to try, where any free name will do.
    next_name: Option<usize>,
    addresses: Pool,
    memory: BTreeMap<Uid, Memory>,
}

impl SimNodes {
    /// `count` equal nodes with the first free names of `sim-0`, `sim-1`, … Nodes with this `mark` are taken up again.
    #[must_use]
    pub fn count(count: usize, mark: &str) -> SimNodes {
        SimNodes { nameless: count, next_name: Some(0), ..SimNodes::of([], mark) }
    }

    /// One simulated node for each Node manifest.
    pub fn of(manifests: impl IntoIterator<Item = Tree>, mark: &str) -> SimNodes {
        let mut it = SimNodes {
            mark: Text::from(mark),
            nodes: BTreeMap::new(),
            nameless: 0,
            next_name: None,
            addresses: Pool::default(),
            memory: BTreeMap::new(),
        };
        manifests.into_iter().for_each(|manifest| it.add(&manifest));
        it
    }

    fn add(&mut self, manifest: &Tree) {
        let at = self.nodes.len();
        let address = Text::from(format!("10.{}.{}.{}", 128 + at / 65_536, at / 256 % 256, at % 256));
        let host = node::with_host(manifest);
        let manifest = host.merge(&node::simulated_by(&self.mark));
        self.nodes.insert(meta::name(&manifest), Own { manifest, address });
    }

    /// Finds free names for nodes that have none.
    fn name_nodes(&mut self, caches: &Caches, now: Time) -> Vec<Key> {
        let mut keys = Vec::new();
        while self.nameless > 0
            && let Some(number) = self.next_name
        {
            let name = Text::from(format!("sim-{number}"));
            self.next_name = Some(number + 1);
            let key = Key::new(&kinds::NODES, &Text::new(), &name);
            let free = caches.find(&key).is_none_or(|live| self.may_take(live, caches, now));
            if free && !self.nodes.contains_key(&name) {
                self.add(&node::simulated(&name, &capacity()));
                self.nameless -= 1;
                keys.push(key);
            }
        }
        keys
    }

    fn may_take(&self, live: &Object, caches: &Caches, now: Time) -> bool {
        let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &meta::name(&live.tree));
        match node::simulator(&live.tree) {
            Some(mark) if *mark == *self.mark => true,
            Some(_) => lease.is_none_or(|lease| lease::is_over(&lease.tree, now)),
            None => false,
        }
    }

    /// A name that is somebody else's is left to them. Nodes that only want some name get another one; of a manifest
    /// that cannot be had, the node tells.
    fn yield_name(&mut self, key: &Key, live: &Object, caches: &Caches, now: Time) -> Plan {
        self.nodes.remove(&key.name);
        if self.next_name.is_none() {
            return Plan::of(vec![Step::Note(name_taken(live))]);
        }
        self.nameless += 1;
        Plan { wake: self.name_nodes(caches, now), ..Plan::nothing() }
    }

    fn plan_node(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let Some(own) = self.nodes.get(&key.name) else {
            return Plan::nothing();
        };
        let Some(live) = caches.find(key) else {
            let create = call(key.target(Part::Main), Guard::default(), Act::Create(own.manifest.clone()));
            return Plan::of(vec![Step::One(create)]);
        };
        if node::simulator(&live.tree) != Some(self.mark.as_str()) {
            if !self.may_take(live, caches, now) {
                let live = live.clone();
                return self.yield_name(key, &live, caches, now);
            }
            let guard = Guard { revision: Some(live.revision), ..uid_guard(live) };
            let take = Act::Merge(node::simulated_by(&self.mark));
            return Plan::of(vec![Step::One(call(key.target(Part::Main), guard, take))]);
        }
        let mut steps = Vec::new();
        if !node::is_ready(&live.tree) {
            let manifest = &own.manifest;
            let capacity = manifest.at(node_path::CAPACITY).or(manifest.at(node_path::ALLOCATABLE));
            let capacity = capacity.cloned().unwrap_or_else(Tree::empty_map);
            let status = Machine::simulated(capacity, &own.address).ready_status(&live.tree, now);
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
        let Some(own) = self.nodes.get(&node) else {
            return Plan::nothing();
        };
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
                let at = Addresses { host: own.address.clone(), pod: ip };
                let patch = pod_status::patch(&pod.tree, &at, &doing, now);
                // Had somebody else ended the pod meanwhile, it would end twice.
                let guard = Guard { revision: Some(pod.revision), ..uid_guard(pod) };
                let write = call(key.target(Part::Status), guard, Act::Strategic(patch));
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

    fn starts(&mut self, caches: &Caches, now: Time) -> Vec<Key> {
        self.name_nodes(caches, now);
        let nodes = self.nodes.keys().map(|name| Key::new(&kinds::NODES, &Text::new(), name));
        // Pods came to the caches before the nodes had their names.
        let pods = self.nodes.keys().flat_map(|name| caches.on_node(name));
        let mut keys: Vec<Key> = nodes.collect();
        for pod in pods {
            self.addresses.known(&meta::uid(&pod.tree), pod.tree.str_at(pod_path::POD_IP));
            keys.push(Key::of(&kinds::PODS, &pod.tree));
        }
        keys
    }

    /// The leases go back, so that the next simulator can take the nodes up at once.
    fn farewell(&mut self, caches: &Caches) -> Vec<Call> {
        let release = |name: &Text| {
            let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), name)?;
            let on = meta::target(&kinds::LEASES, &lease.tree, Part::Main);
            Some(call(on, uid_guard(lease), Act::Merge(lease::release())))
        };
        self.nodes.keys().filter_map(release).collect()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::NODES && self.nodes.contains_key(&seen.key.name) {
            if seen.after.is_none() {
                // Somebody deleted it: as with a real kubelet it stays away until the next start.
                self.nodes.remove(&seen.key.name);
            }
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
    // A node that was made anew takes over the lease of its namesake, one that comes back the lease it gave back.
    let patch = if lease::is_owned_by(&known.tree, &uid) && lease::is_held(&known.tree) {
        lease::renewal(now)
    } else {
        lease::of_node(&key.name, &uid, now)
    };
    (Some(call(target, uid_guard(known), Act::Merge(patch))), next)
}

fn name_taken(node: &Object) -> Event {
    let message = "Not simulated: this node is somebody else's. Give the manifest another name, or delete this node first";
    Event {
        action: Text::new(),
        by: managers::KUBELET.clone(),
        about: About::of(&kinds::NODES, "Node", &node.tree),
        severity: Severity::Warning,
        reason: reasons::NAME_TAKEN.into(),
        message: message.into(),
    }
}

fn uid_guard(object: &Object) -> Guard {
    Guard { uid: Some(meta::uid(&object.tree)), revision: None }
}

fn call(on: Target, guard: Guard, act: Act) -> Call {
    Call { by: managers::KUBELET.clone(), on, guard, act }
}

#[cfg(test)]
mod tests {
    use muster_api::port::Batch;
    use muster_control::Loop;
    use muster_control::{Input, LoopOptions, Output};

    use super::*;

    #[test]
    fn a_manifest_whose_name_is_taken_is_told_on_that_node() {
        let taken = tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine", "uid": "u"}});
        let nodes = SimNodes::of([node::simulated(&"mine".into(), &capacity())], "me");
        let mut it = Loop::new(vec![Box::new(nodes)], &[], LoopOptions::default());
        let mut outputs = Vec::new();
        for (kind, objects) in [
            (&kinds::PODS, vec![]),
            (&kinds::LEASES, vec![]),
            (&kinds::NODES, vec![Object { tree: taken, revision: 7 }]),
        ] {
            outputs.extend(it.on(Input::Changed(kind.clone(), Batch::Reset(objects)), Time(0)));
        }
        let sent = outputs.iter().filter_map(|output| match output {
            Output::Send(_, calls) => Some(calls.as_slice().to_vec()),
            _ => None,
        });
        let sent: Vec<Call> = sent.flatten().collect();
        let [Call { act: Act::Create(event), .. }] = &sent[..] else {
            panic!("one event and nothing else: {sent:#?}")
        };
        assert_eq!(event.str_at(&["reason"]), "NameTaken");
        assert_eq!(event.str_at(&["involvedObject", "name"]), "mine");
    }
}
