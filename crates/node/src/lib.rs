//! The node side of the cluster: simulated nodes and the kubelet of this host, as controllers of the shared runtime.
//!
//! [`SimulatedNodes`] keeps a Node object and a Lease for each simulated node. A pod bound to such a node goes
//! through the phases that its annotations request, and its status has the form that a kubelet writes.
//!
//! # Guarantees
//!
//! - The next step of a simulated pod follows from its status, its annotations and the time. In-memory state only
//!   adds fractions of a second, which a status timestamp cannot hold.
//! - A pod in a terminal phase is not updated again, except to complete its deletion.
//! - The final delete carries the UID as a precondition.
//! - A simulated Node carries the ID of its simulator in an annotation. A Node with another ID, or none, is not
//!   adopted, except a simulated node with an expired Lease.
//!
//! # Deliberately absent
//!
//! Processes, probes and mounts (the [`provisioner`] creates volumes that no process opens). A deleted pod terminates
//! at once, whatever its grace period.

pub mod control_plane;
pub mod local;
mod pod_ip_pool;
pub mod provisioner;
pub mod resource_slices;
mod simulated_pod;
pub mod volume_dirs;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
    Uid,
};
use muster_api::consts::{NODE_LEASES, managers, reasons};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::lease::{self, NODE_LEASE_RENEW};
use muster_api::node::MachineInfo;
use muster_api::paths::{node as node_path, pod as pod_path};
use muster_api::pod_status::PodAddresses;
use muster_api::time::Time;
use muster_api::{kinds, meta, node, pod_status};
use muster_control::{Caches, Controller, ObjectKey, ReconcileRequest, Reconciled, Step, WatchEvent};
use muster_tree::{Text, Tree, tree};

use crate::pod_ip_pool::PodIpPool;
use crate::simulated_pod::{SimulatedPodState, SimulatedStep};

/// Leases are renewed this much before they are due, so that a late reconcile does not let them expire.
const RENEW_EARLY: Duration = Duration::from_millis(100);

/// A Node that this simulator manages.
#[derive(Debug)]
struct ManagedNode {
    manifest: Tree,
    address: Text,
}

#[derive(Debug)]
pub struct SimulatedNodes {
    /// The ID of this simulator, stored in the annotation of each Node it manages.
    mark: Text,
    nodes: BTreeMap<Text, ManagedNode>,
    /// Nodes that still need a free name.
    unnamed: usize,
    /// The next index of `sim-<index>` to try; `None` when manifests fix the names.
    next_name: Option<usize>,
    addresses: PodIpPool,
    memory: BTreeMap<Uid, SimulatedPodState>,
}

impl SimulatedNodes {
    /// `count` identical nodes that take the first free names of `sim-0`, `sim-1`, … Nodes with this `mark` are
    /// adopted.
    #[must_use]
    pub fn count(count: usize, mark: &str) -> SimulatedNodes {
        SimulatedNodes { unnamed: count, next_name: Some(0), ..SimulatedNodes::of([], mark) }
    }

    /// One simulated node for each Node manifest.
    pub fn of(manifests: impl IntoIterator<Item = Tree>, mark: &str) -> SimulatedNodes {
        let mut it = SimulatedNodes {
            mark: Text::from(mark),
            nodes: BTreeMap::new(),
            unnamed: 0,
            next_name: None,
            addresses: PodIpPool::default(),
            memory: BTreeMap::new(),
        };
        manifests.into_iter().for_each(|manifest| it.add(&manifest));
        it
    }

    fn add(&mut self, manifest: &Tree) {
        let at = self.nodes.len();
        let address = Text::from(format!("10.{}.{}.{}", 128 + at / 65_536, at / 256 % 256, at % 256));
        let host = node::with_hostname_label(manifest);
        let manifest = host.merge(&node::simulated_node_patch(&self.mark));
        self.nodes.insert(meta::name(&manifest), ManagedNode { manifest, address });
    }

    /// Assigns free names to the unnamed nodes.
    fn name_nodes(&mut self, caches: &Caches, now: Time) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        while self.unnamed > 0
            && let Some(number) = self.next_name
        {
            let name = Text::from(format!("sim-{number}"));
            self.next_name = Some(number + 1);
            let key = ObjectKey::new(&kinds::NODES, &Text::new(), &name);
            let free = caches.find(&key).is_none_or(|live| self.may_adopt(live, caches, now));
            if free && !self.nodes.contains_key(&name) {
                self.add(&node::simulated_node(&name, &capacity()));
                self.unnamed -= 1;
                keys.push(key);
            }
        }
        keys
    }

    fn may_adopt(&self, live: &ApiObject, caches: &Caches, now: Time) -> bool {
        let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &meta::name(&live.tree));
        match node::simulator_id(&live.tree) {
            Some(mark) if *mark == *self.mark => true,
            Some(_) => lease.is_none_or(|lease| lease::is_expired(&lease.tree, now)),
            None => false,
        }
    }

    /// Gives up a name that a foreign Node holds. Unnamed nodes take the next free name; a manifest with a taken name
    /// only gets a warning event on the foreign Node.
    fn give_up_name(&mut self, key: &ObjectKey, live: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        self.nodes.remove(&key.name);
        if self.next_name.is_none() {
            return Reconciled::with_steps(vec![Step::Event(name_taken(live))]);
        }
        self.unnamed += 1;
        Reconciled { enqueue: self.name_nodes(caches, now), ..Reconciled::done() }
    }

    fn reconcile_node(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let Some(own) = self.nodes.get(&key.name) else {
            return Reconciled::done();
        };
        let Some(live) = caches.find(key) else {
            let create = call(
                key.target(Subresource::Main),
                Preconditions::default(),
                RequestVerb::Create(own.manifest.clone()),
            );
            return Reconciled::with_steps(vec![Step::Request(create)]);
        };
        if node::simulator_id(&live.tree) != Some(self.mark.as_str()) {
            if !self.may_adopt(live, caches, now) {
                let live = live.clone();
                return self.give_up_name(key, &live, caches, now);
            }
            let guard = Preconditions { revision: Some(live.revision), ..uid_guard(live) };
            // Of two simulators that adopt at once, the revision precondition makes one fail.
            let take = RequestVerb::MergePatch(node::simulated_node_patch(&self.mark));
            return Reconciled::with_steps(vec![Step::Request(call(
                key.target(Subresource::Main),
                guard,
                take,
            ))]);
        }
        let mut steps = Vec::new();
        if !node::is_ready(&live.tree) {
            let manifest = &own.manifest;
            let capacity = manifest.at(node_path::CAPACITY).or(manifest.at(node_path::ALLOCATABLE));
            let capacity = capacity.cloned().unwrap_or_else(Tree::empty_map);
            let status = MachineInfo::simulated(capacity, &own.address).ready_status(&live.tree, now);
            steps.push(Step::Request(call(
                key.target(Subresource::Status),
                uid_guard(live),
                RequestVerb::StrategicMergePatch(status),
            )));
        }
        let (renewal, next) = renew(key, live, caches, now);
        steps.extend(renewal.map(Step::Request));
        Reconciled::with_steps(steps).requeue_at(next)
    }

    fn reconcile_pod(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let Some(pod) = caches.find(key) else {
            return Reconciled::done();
        };
        let uid = meta::uid(&pod.tree);
        let node = pod.tree.text_at(pod_path::NODE_NAME);
        let Some(own) = self.nodes.get(&node) else {
            return Reconciled::done();
        };
        let next = simulated_pod::next(&pod.tree, self.memory.entry(uid.clone()).or_default(), now);
        match next {
            SimulatedStep::Finished => {
                self.memory.remove(&uid);
                Reconciled::done()
            }
            SimulatedStep::RequeueAt(until) => Reconciled::done().requeue_at(until),
            SimulatedStep::UpdateStatus(doing) => {
                let known = pod.tree.text_at(pod_path::POD_IP);
                let ip = if known.is_empty() { self.addresses.allocate(&uid) } else { known };
                let at = PodAddresses { host: own.address.clone(), pod: ip };
                let patch = pod_status::simulated_patch(&pod.tree, &at, &doing, now);
                // The revision precondition prevents a second terminal status when another client ended the pod
                // meanwhile.
                let guard = Preconditions { revision: Some(pod.revision), ..uid_guard(pod) };
                let write =
                    call(key.target(Subresource::Status), guard, RequestVerb::StrategicMergePatch(patch));
                Reconciled::with_steps(vec![Step::Request(write)])
            }
            SimulatedStep::Delete => {
                let act = RequestVerb::Delete {
                    propagation_policy: DeletionPropagation::Background,
                    grace_secs: Some(0),
                };
                Reconciled::with_steps(vec![Step::Request(call(
                    key.target(Subresource::Main),
                    uid_guard(pod),
                    act,
                ))])
            }
        }
    }
}

impl Controller for SimulatedNodes {
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NODES.clone(), kinds::PODS.clone(), kinds::LEASES.clone()]
    }

    fn initial_requests(&mut self, caches: &Caches, now: Time) -> Vec<ObjectKey> {
        self.name_nodes(caches, now);
        let nodes = self.nodes.keys().map(|name| ObjectKey::new(&kinds::NODES, &Text::new(), name));
        // Pods reach the cache before the nodes have names, so their watch events mapped to no node.
        let pods = self.nodes.keys().flat_map(|name| caches.on_node(name));
        let mut keys: Vec<ObjectKey> = nodes.collect();
        for pod in pods {
            self.addresses.occupy(&meta::uid(&pod.tree), pod.tree.str_at(pod_path::POD_IP));
            keys.push(ObjectKey::of(&kinds::PODS, &pod.tree));
        }
        keys
    }

    /// Releases the Leases, so that the next simulator can adopt the nodes at once.
    fn on_shutdown(&mut self, caches: &Caches) -> Vec<ApiRequest> {
        let release = |name: &Text| {
            let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), name)?;
            let on = meta::target(&kinds::LEASES, &lease.tree, Subresource::Main);
            Some(call(on, uid_guard(lease), RequestVerb::MergePatch(lease::release())))
        };
        self.nodes.keys().filter_map(release).collect()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        if seen.key.kind == kinds::NODES && self.nodes.contains_key(&seen.key.name) {
            if seen.new.is_none() {
                // As with a kubelet, a Node deleted by a client is not registered again before the next start.
                self.nodes.remove(&seen.key.name);
            }
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let tree = &seen.latest().tree;
        if !self.nodes.contains_key(tree.str_at(pod_path::NODE_NAME)) {
            return Vec::new();
        }
        let uid = meta::uid(tree);
        if seen.new.is_none() {
            self.addresses.release(&uid);
            self.memory.remove(&uid);
            return Vec::new();
        }
        self.addresses.occupy(&uid, tree.str_at(pod_path::POD_IP));
        vec![seen.key.clone().into()]
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        if key.kind == kinds::NODES {
            self.reconcile_node(key, caches, now)
        } else {
            self.reconcile_pod(key, caches, now)
        }
    }
}

/// Capacity of a simulated node without a manifest.
fn capacity() -> Tree {
    tree!({"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "500Gi"})
}

/// Returns the Lease renewal if it is due, and the time of the next one.
fn renew(key: &ObjectKey, node: &ApiObject, caches: &Caches, now: Time) -> (Option<ApiRequest>, Time) {
    let target = RequestTarget {
        kind: kinds::LEASES.clone(),
        namespace: Text::from(NODE_LEASES),
        name: key.name.clone(),
        subresource: Subresource::Main,
    };
    let uid = meta::uid(&node.tree);
    let next = now + (NODE_LEASE_RENEW - RENEW_EARLY);
    let Some(known) = caches.get(&kinds::LEASES, &target.namespace, &target.name) else {
        let made = lease::of_node(&key.name, &uid, now);
        return (Some(call(target, Preconditions::default(), RequestVerb::Create(made))), next);
    };
    let due = lease::renewed(&known.tree).unwrap_or_default() + (NODE_LEASE_RENEW - RENEW_EARLY);
    if due > now {
        return (None, due);
    }
    // A recreated Node adopts the Lease of its predecessor (other UID); a restarted simulator takes back the Lease it
    // released.
    let patch = if lease::is_owned_by(&known.tree, &uid) && lease::is_held(&known.tree) {
        lease::renewal(now)
    } else {
        lease::of_node(&key.name, &uid, now)
    };
    (Some(call(target, uid_guard(known), RequestVerb::MergePatch(patch))), next)
}

fn name_taken(node: &ApiObject) -> Event {
    let message = "Not simulated: this node is somebody else's. Give the manifest another name, or delete this node first";
    Event {
        action: Text::new(),
        reporting_controller: managers::KUBELET.clone(),
        regarding: ObjectReference::of(&kinds::NODES, "Node", &node.tree),
        event_type: EventType::Warning,
        reason: reasons::NAME_TAKEN.into(),
        message: message.into(),
    }
}

fn uid_guard(object: &ApiObject) -> Preconditions {
    Preconditions { uid: Some(meta::uid(&object.tree)), revision: None }
}

fn call(on: RequestTarget, guard: Preconditions, act: RequestVerb) -> ApiRequest {
    ApiRequest { field_manager: managers::KUBELET.clone(), target: on, preconditions: guard, verb: act }
}

#[cfg(test)]
mod tests {
    use muster_api::client::WatchBatch;
    use muster_control::ControlLoop;
    use muster_control::{RuntimeInput, RuntimeOptions, RuntimeOutput};

    use super::*;

    #[test]
    fn a_manifest_with_a_taken_name_emits_an_event_on_the_foreign_node() {
        let taken = tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine", "uid": "u"}});
        let nodes = SimulatedNodes::of([node::simulated_node(&"mine".into(), &capacity())], "me");
        let mut it = ControlLoop::new(vec![Box::new(nodes)], &[], RuntimeOptions::default());
        let mut outputs = Vec::new();
        for (kind, objects) in [
            (&kinds::PODS, vec![]),
            (&kinds::LEASES, vec![]),
            (&kinds::NODES, vec![ApiObject { tree: taken, revision: 7 }]),
        ] {
            outputs.extend(
                it.handle(RuntimeInput::Watched(kind.clone(), WatchBatch::Restarted(objects)), Time(0)),
            );
        }
        let sent = outputs.iter().filter_map(|output| match output {
            RuntimeOutput::Send(_, calls) => Some(calls.as_slice().to_vec()),
            _ => None,
        });
        let sent: Vec<ApiRequest> = sent.flatten().collect();
        let [ApiRequest { verb: RequestVerb::Create(event), .. }] = &sent[..] else {
            panic!("one event and nothing else: {sent:#?}")
        };
        assert_eq!(event.str_at(&["reason"]), "NameTaken");
        assert_eq!(event.str_at(&["involvedObject", "name"]), "mine");
    }
}
