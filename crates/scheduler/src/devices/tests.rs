//! Invariants of the plugin: with events in any order no device has two holders, and a rollback leaves no trace.

use std::collections::BTreeMap;

use muster_api::client::ApiObject;
use muster_api::node::{NodeFacts, simulated_node};
use muster_devices::{DeviceId, allocated_devices};
use muster_tree::{Text, Tree, tree};
use proptest::prelude::*;

use super::*;

const NODES: usize = 2;
const DEVICES: usize = 3;
const CLAIMS: usize = 5;
const PODS: usize = 6;

#[derive(Debug, Clone)]
enum Op {
    /// Tries to put a pod on a node.
    Put(usize, usize),
    Take(usize),
    /// The devices of a claim are sent, and the answer is lost.
    Send(usize),
    /// What was sent arrives.
    Arrive(usize),
    /// A claim is given back.
    Free(usize),
    /// A claim is deleted and created again.
    Anew(usize),
    Gone(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..PODS, 0..NODES).prop_map(|(pod, node)| Op::Put(pod, node)),
        2 => (0..PODS).prop_map(Op::Take),
        2 => (0..CLAIMS).prop_map(Op::Send),
        2 => (0..CLAIMS).prop_map(Op::Arrive),
        1 => (0..CLAIMS).prop_map(Op::Free),
        1 => (0..CLAIMS).prop_map(Op::Anew),
        1 => (0..CLAIMS).prop_map(Op::Gone),
    ]
}

struct Bench {
    book: DynamicResources,
    /// What the server holds.
    server: BTreeMap<usize, ApiObject>,
    /// Allocations under way, with the revision they mean.
    under_way: BTreeMap<usize, (Tree, u64)>,
    on: BTreeMap<usize, usize>,
    revision: u64,
    keys: Vec<PodKey>,
    wants: Vec<PodResourceClaims>,
}

fn node(n: usize) -> NodeFacts {
    NodeFacts::of(&simulated_node(&format!("n{n}").into(), &tree!({})))
}

fn key(claim: usize) -> ClaimKey {
    ("ns".into(), format!("c{claim}").into())
}

impl Bench {
    fn new() -> Bench {
        let mut book = DynamicResources::default();
        for n in 0..NODES {
            let devices = (0..DEVICES).map(|d| tree!({"name": format!("d{d}")}));
            let name = format!("n{n}");
            book.update_slice(&tree!({"metadata": {"name": &name}, "spec": {"driver": "x", "nodeName": &name,
                "pool": {"name": &name, "generation": 1, "resourceSliceCount": 1}, "devices": Tree::list(devices)}}));
        }
        book.update_class(&tree!({"metadata": {"name": "gpu"}, "spec": {}}));
        // Pods share claims: pod n wants the claims n and n + 1.
        let want = |n: usize| ResourceClaimRef::Claim { name: key(n % CLAIMS).1, owned: false };
        let wants =
            |n: usize| PodResourceClaims { uid: format!("u{n}").into(), claims: vec![want(n), want(n + 1)] };
        let mut bench = Bench {
            book,
            server: BTreeMap::new(),
            under_way: BTreeMap::new(),
            on: BTreeMap::new(),
            revision: 1,
            keys: (0..PODS).map(|n| ("ns".into(), format!("p{n}").into())).collect(),
            wants: (0..PODS).map(wants).collect(),
        };
        (0..CLAIMS).for_each(|claim| bench.make(claim));
        bench
    }

    fn make(&mut self, claim: usize) {
        self.revision += 1;
        let count = if claim.is_multiple_of(2) { 1 } else { 2 };
        let ask = tree!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
        let tree = tree!({"metadata": {"name": key(claim).1, "namespace": "ns", "uid": format!("{}", self.revision)},
            "spec": {"devices": {"requests": [{"name": "g", "exactly": ask}]}}});
        self.write(claim, tree);
    }

    fn write(&mut self, claim: usize, tree: Tree) {
        self.revision += 1;
        let object = ApiObject { tree, revision: self.revision };
        self.server.insert(claim, object.clone());
        self.book.update_claim(&object);
    }

    fn ask<T>(
        &mut self,
        pod: usize,
        question: impl FnOnce(&mut DynamicResources, &DeviceClaimingPod<'_>) -> T,
    ) -> T {
        let asker = DeviceClaimingPod {
            id: u32::try_from(pod).unwrap(),
            key: &self.keys[pod],
            claims: &self.wants[pod],
            bound: false,
        };
        question(&mut self.book, &asker)
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Put(pod, at) if !self.on.contains_key(pod) => {
                let node = node(*at);
                let fits = self.ask(*pod, |book, asker| {
                    let fits = book.pre_filter_error(asker).is_none() && book.filter(asker, &node).is_none();
                    if fits {
                        book.assume(asker, &node.name, Some(&node));
                    }
                    fits
                });
                if fits {
                    self.on.insert(*pod, *at);
                }
            }
            Op::Take(pod) if self.on.remove(pod).is_some() => {
                self.ask(*pod, DynamicResources::forget);
            }
            Op::Send(claim) => self.send(*claim),
            Op::Arrive(claim) => {
                if let Some((allocation, revision)) = self.under_way.remove(claim)
                    && let Some(object) = self.server.get(claim).filter(|it| it.revision == revision)
                {
                    let tree = object.tree.with(&["status", "allocation"], allocation);
                    self.write(*claim, tree);
                }
            }
            Op::Free(claim) => {
                if let Some(object) = self.server.get(claim) {
                    let tree = object.tree.without(&["status"]);
                    self.write(*claim, tree);
                }
            }
            Op::Anew(claim) => self.make(*claim),
            Op::Gone(claim) => {
                self.server.remove(claim);
                self.book.delete_claim(&key(*claim));
            }
            _ => {}
        }
        self.check();
    }

    fn send(&mut self, claim: usize) {
        for pod in self.on.keys().copied().collect::<Vec<_>>() {
            for errand in self.ask(pod, |book, asker| book.prebind_tasks(asker)) {
                if errand.claim == key(claim)
                    && let ClaimAction::Allocate(allocation) = errand.action
                {
                    let revision = self.server[&claim].revision;
                    self.book.allocation_sent(&errand.claim, revision);
                    self.under_way.insert(claim, (allocation, revision));
                }
            }
        }
    }

    /// What the server holds, what is under way and may arrive, and what is assumed: no device twice.
    fn check(&self) {
        let mut holders: BTreeMap<DeviceId, Text> = BTreeMap::new();
        let mut hold = |claim: &Text, allocation: &Tree| {
            for device in allocated_devices(allocation).devices {
                let before = holders.insert(device.clone(), claim.clone());
                assert!(before.is_none_or(|it| it == *claim), "{device} has two holders");
                assert_eq!(self.book.inventory.holders(&device), 1, "{device}");
            }
        };
        for (claim, object) in &self.server {
            if let Some(allocation) = object.tree.at(&["status", "allocation"]) {
                hold(&key(*claim).1, allocation);
            }
        }
        for (claim, (allocation, revision)) in &self.under_way {
            if self.server.get(claim).is_some_and(|it| it.revision == *revision) {
                hold(&key(*claim).1, allocation);
            }
        }
        for (key, row) in &self.book.claims {
            if let Some(assumed) = &row.assumed {
                hold(&key.1, &assumed.allocation.tree);
            }
        }
        assert_eq!(self.book.held(), holders.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_device_has_two_holders_and_undoing_leaves_nothing(ops in prop::collection::vec(op(), 1..80)) {
        let mut bench = Bench::new();
        ops.iter().for_each(|op| bench.play(op));
        (0..PODS).for_each(|pod| bench.play(&Op::Take(pod)));
        (0..CLAIMS).for_each(|claim| bench.play(&Op::Gone(claim)));
        prop_assert_eq!(bench.book.held(), 0);
        prop_assert!(bench.book.claims.is_empty() && bench.book.nodes.is_empty());
    }

    #[test]
    fn taking_back_at_once_leaves_the_book_as_it_was(ops in prop::collection::vec(op(), 1..40), pod in 0..PODS) {
        let mut bench = Bench::new();
        ops.iter().for_each(|op| bench.play(op));
        let before = (bench.book.held(), format!("{:?}", bench.book.claims));
        if !bench.on.contains_key(&pod) {
            bench.play(&Op::Put(pod, 0));
            bench.play(&Op::Take(pod));
        }
        prop_assert_eq!(before, (bench.book.held(), format!("{:?}", bench.book.claims)));
    }
}
