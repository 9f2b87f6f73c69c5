//! Pods compete for the devices of a few nodes, with claims of their own and shared ones.
//!
//! Invariants: no device is in two allocations, no pod is bound before its claims are allocated and reserved for it, and
//! after all pods are deleted no generated claim and no allocated device is left.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{DeletionPropagation, RequestVerb, Uid};
use muster_api::pod::PodFacts;
use muster_api::{kinds, meta, resource_claim};
use muster_sim::{Faults, SeededRng, World};
use muster_store::Record;
use muster_tree::{Text, Tree, tree};

use crate::crowd;
use crate::scenario::{Scenario, falls_quiet, minutes};

/// Rounds in which something happens.
const ROUNDS: usize = 10;
/// Devices of a node.
const DEVICES: usize = 3;
pub const NODES: usize = 3;
/// Claims that pods share.
const SHARED: usize = 3;
const DRIVER: &str = "gpu.example.com";

/// Crowds of devices as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("pods crowd the devices of three nodes", NODES, |world, faults, seed| {
            crowd_devices(world, faults, seed, false);
        }),
        Scenario::new("pods crowd the devices of three nodes that vanish", NODES, |world, faults, seed| {
            crowd_devices(world, faults, seed, true);
        }),
    ]
}

fn crowd_devices(world: &mut World, faults: Faults, seed: u64, nodes_vanish: bool) {
    let dice = SeededRng::new(seed ^ 0x00de_71ce);
    set_up(world);
    world.run(Faults::none(), minutes(1));
    for round in 0..ROUNDS {
        for n in 0..1 + dice.below(3) {
            world.create(&kinds::PODS, &pod(&format!("p{round}-{n}"), &dice)).unwrap();
        }
        // Often shorter than a reply takes: a pod deleted now may have requests in flight.
        world.run(faults, Duration::from_millis(dice.next() % 4_000));
        if dice.one_in(2) {
            delete_one(world, &dice);
        }
        if nodes_vanish && dice.one_in(4) && world.list(&kinds::NODES).len() > 1 {
            crowd::delete_one(world, &kinds::NODES, &dice);
        }
    }
    world.run(faults, minutes(2));
    world.run(Faults::none(), minutes(60));
    let waits = |pod: &&muster_api::client::ApiObject| !PodFacts::of(&pod.tree).phase.is_terminal();
    let waiting: Vec<Text> =
        world.list(&kinds::PODS).iter().filter(waits).map(|pod| meta::name(&pod.tree)).collect();
    assert!(waiting.is_empty(), "nobody waits for ever: {waiting:?}");
    while !world.list(&kinds::PODS).is_empty() {
        delete_one(world, &dice);
    }
    world.run(faults, minutes(1));
    world.run(Faults::none(), minutes(10));
    Check::default().read(world.records());
    for left in world.list(&kinds::RESOURCE_CLAIMS) {
        assert!(
            resource_claim::owner_pod(&left.tree).is_none(),
            "{} was made for a pod",
            meta::name(&left.tree)
        );
        assert_eq!(left.tree.at(&["status", "allocation"]), None, "{} has devices", meta::name(&left.tree));
    }
    falls_quiet(world);
}

/// Declares the devices of all nodes, and their class.
pub fn declare(world: &mut World) {
    for n in 0..NODES {
        let name = format!("sim-{n}");
        let devices = (0..DEVICES)
            .map(|d| tree!({"name": format!("d{d}"), "attributes": {"even": {"bool": d % 2 == 0}}}));
        let slice = tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": &name},
            "spec": {"driver": DRIVER, "nodeName": &name, "devices": Tree::list(devices),
                "pool": {"name": &name, "generation": 1, "resourceSliceCount": 1}}});
        world.create(&kinds::RESOURCE_SLICES, &slice).unwrap();
    }
    let expression = format!("device.driver == \"{DRIVER}\"");
    let class = tree!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    world.create(&kinds::DEVICE_CLASSES, &class).unwrap();
}

fn set_up(world: &mut World) {
    declare(world);
    for (name, count) in [("one", 1), ("two", 2)] {
        let template = tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"spec": asks(count)}});
        world.create(&kinds::RESOURCE_CLAIM_TEMPLATES, &template).unwrap();
    }
    for n in 0..SHARED {
        let shared = tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": format!("shared-{n}"), "namespace": "default"}, "spec": asks(1)});
        world.create(&kinds::RESOURCE_CLAIMS, &shared).unwrap();
    }
}

/// A claim spec for this many devices.
pub fn asks(count: i64) -> Tree {
    tree!({"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu", "count": count}}]}})
}

fn pod(name: &str, dice: &SeededRng) -> Tree {
    let shared = || tree!({"name": "s", "resourceClaimName": format!("shared-{}", dice.below(SHARED))});
    let own = |name: &str, template: &str| tree!({"name": name, "resourceClaimTemplateName": template});
    let claims = match dice.below(5) {
        0 | 1 => vec![own("a", "one")],
        2 => vec![own("a", "two")],
        3 => vec![shared()],
        _ => vec![own("a", "one"), own("b", "one")],
    };
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
            "annotations": {"muster.dev/sim-run-seconds": (5 + dice.below(30)).to_string()}},
        "spec": {"restartPolicy": "Never", "resourceClaims": Tree::list(claims),
            "containers": [{"name": "c", "image": "i", "command": ["true"]}]}})
}

fn delete_one(world: &mut World, dice: &SeededRng) {
    let all = world.list(&kinds::PODS);
    if all.is_empty() {
        return;
    }
    let act =
        RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: Some(0) };
    world.send(&kinds::PODS, &all[dice.below(all.len())].tree, act).unwrap();
}

/// Replays the history and tracks the allocated devices.
#[derive(Default)]
pub struct Check {
    claims: BTreeMap<Text, Tree>,
    bound: BTreeMap<Uid, Text>,
}

impl Check {
    pub fn read<Time>(&mut self, records: &[(Time, Record)]) {
        for (_, record) in records {
            match record.key.resource.as_str() {
                it if it.starts_with("resourceclaims") => self.claim(record),
                "pods" => self.pod(record),
                _ => {}
            }
        }
    }

    fn claim(&mut self, record: &Record) {
        let name = meta::name(&record.shown().tree);
        match &record.after {
            None => self.claims.remove(&name),
            Some(after) => self.claims.insert(name, after.tree.clone()),
        };
        let mut holders: BTreeMap<String, &Text> = BTreeMap::new();
        for (name, claim) in &self.claims {
            for device in claim.items_at(&["status", "allocation", "devices", "results"]) {
                let id = format!("{}/{}", device.str_at(&["pool"]), device.str_at(&["device"]));
                let other = holders.insert(id.clone(), name);
                assert_eq!(other, None, "{id} is given to {name} too");
            }
        }
    }

    fn pod(&mut self, record: &Record) {
        let pod = &record.shown().tree;
        let (uid, node) = (meta::uid(pod), pod.text_at(&["spec", "nodeName"]));
        if node.is_empty() || record.after.is_none() {
            return;
        }
        let before = self.bound.insert(uid.clone(), node.clone());
        assert!(before.as_ref().is_none_or(|it| *it == node), "a pod has one node");
        if before.is_some() {
            return;
        }
        for named in resource_claim::pod_claims(pod) {
            let name = named.claim.expect("a bound pod has its claims");
            let claim = &self.claims[&name];
            assert!(claim.at(&["status", "allocation"]).is_some(), "{name} has devices");
            let reserved = resource_claim::consumers(claim).iter().any(|it| it.uid == uid);
            assert!(reserved, "{name} is reserved for {}", meta::name(pod));
        }
    }
}
