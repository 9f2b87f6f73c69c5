//! Nodes that are deleted, stop reporting and return, and the EndpointSlices of Services.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{ApiError, ApiObject, DeletionPropagation, RequestVerb, Uid};
use muster_api::pod::{PodFacts, PodPhase};
use muster_api::{kinds, meta, node};
use muster_sim::{Faults, World};
use muster_tree::{Text, tree};

use crate::scenario::{Scenario, falls_quiet, find, job_facts, minutes};
use crate::worlds::job;

/// Nodes in trouble as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("pods of a deleted node fail once and are replaced", 3, deleted_node),
        Scenario::new("nodes vanish one after another while pods run", 4, vanishing_nodes),
        Scenario::new(
            "an unreachable node is tainted and its pods are evicted after their toleration",
            3,
            silent_nodes,
        ),
    ]
}

fn delete(
    world: &mut World,
    kind: &muster_api::client::Kind,
    object: &ApiObject,
) -> Result<ApiObject, ApiError> {
    world.send(
        kind,
        &object.tree,
        RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None },
    )
}

/// A Job of indexed pods of two minutes, which are running.
fn busy(world: &mut World, faults: Faults, pods: i64) {
    let long = tree!({"muster.dev/sim-run-seconds": "120"});
    let spec =
        tree!({"parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 99});
    world.create(&kinds::JOBS, &job("long", &spec, &long)).unwrap();
    world.run(faults, Duration::from_secs(20));
}

/// Pods that ended badly at any time, and those that ended well.
fn ended(world: &mut World) -> (u32, u32) {
    let mut ends: BTreeMap<Uid, PodPhase> = BTreeMap::new();
    for (_, record) in world.records().iter().filter(|(_, record)| record.key.resource == "pods") {
        let facts = PodFacts::of(&record.shown().tree);
        if facts.phase.is_terminal() {
            let first = *ends.entry(facts.uid).or_insert(facts.phase);
            assert_eq!(first, facts.phase, "{} ended twice", facts.name);
        }
    }
    let count = |phase| u32::try_from(ends.values().filter(|end| **end == phase).count()).unwrap();
    (count(PodPhase::Failed), count(PodPhase::Succeeded))
}

/// Every pod that ever ended was counted once, and each index is done.
fn all_counted(world: &mut World, pods: u32) {
    let status = job_facts(world, "long").status;
    assert_eq!(status.succeeded, pods, "{status:#?}");
    let (failed, succeeded) = ended(world);
    assert_eq!(status.failed + status.succeeded, failed + succeeded, "each counts once: {status:#?}");
    // A deleted pod counts as failed, although its kubelet, which did not observe the deletion, may report success.
    assert!(status.failed >= failed, "{failed} pods failed: {status:#?}");
    assert_eq!((status.active, status.uncounted_failed.len(), status.uncounted_succeeded.len()), (0, 0, 0));
    let held = world.list(&kinds::PODS).into_iter().filter(|pod| meta::has_finalizers(&pod.tree));
    assert_eq!(held.count(), 0, "no pod is held");
}

fn deleted_node(world: &mut World, faults: Faults, _: u64) {
    busy(world, faults, 6);
    // Under faults a node may have been late.
    world.run(Faults::none(), Duration::from_secs(20));
    let node = find(world, &kinds::NODES, "sim-1").unwrap();
    let pods = world.list(&kinds::PODS);
    let on_it = pods.iter().filter(|pod| pod.tree.str_at(&["spec", "nodeName"]) == "sim-1").count();
    delete(world, &kinds::NODES, &node).unwrap();
    world.run(faults, minutes(5));
    world.run(Faults::none(), minutes(60));
    all_counted(world, 6);
    if faults == Faults::none() {
        // A crashed simulator creates its Node again, possibly before the node controller notices.
        assert_eq!(ended(world).0, u32::try_from(on_it).unwrap(), "those on the node failed");
    }
    falls_quiet(world);
}

fn vanishing_nodes(world: &mut World, faults: Faults, _: u64) {
    busy(world, faults, 8);
    for name in ["sim-0", "sim-3", "sim-2"] {
        if let Some(node) = find(world, &kinds::NODES, name) {
            delete(world, &kinds::NODES, &node).unwrap();
        }
        world.run(faults, Duration::from_secs(45));
    }
    world.run(Faults::none(), minutes(90));
    all_counted(world, 8);
    falls_quiet(world);
}

fn silent_nodes(world: &mut World, faults: Faults, _: u64) {
    busy(world, faults, 6);
    world.run(Faults::none(), Duration::from_secs(20));
    world.pause_nodes(true);
    world.run(faults, Duration::from_secs(80));
    let silent = find(world, &kinds::NODES, "sim-0").unwrap();
    let taints: Vec<&str> =
        silent.tree.items_at(&["spec", "taints"]).iter().map(|t| t.str_at(&["effect"])).collect();
    assert_eq!(taints, ["NoSchedule", "NoExecute"]);
    assert!(!node::is_ready(&silent.tree));
    let deleted = |world: &World| {
        world.list(&kinds::PODS).iter().filter(|pod| meta::deletion_timestamp(&pod.tree).is_some()).count()
    };
    assert_eq!(deleted(world), 0, "five minutes are tolerated by default");
    world.run(faults, minutes(7));
    assert_eq!(deleted(world), 6, "{:#?}", world.recent_errors());
    world.pause_nodes(false);
    world.run(faults, minutes(5));
    world.run(Faults::none(), minutes(30));
    let back = find(world, &kinds::NODES, "sim-0").unwrap();
    assert!(node::is_ready(&back.tree) && back.tree.items_at(&["spec", "taints"]).is_empty());
    all_counted(world, 6);
    falls_quiet(world);
}

#[test]
fn a_deleted_pod_without_a_node_ends() {
    let mut world = World::new(5, 0);
    world.create(&kinds::JOBS, &job("long", &tree!({}), &tree!({}))).unwrap();
    world.run(Faults::none(), Duration::from_secs(5));
    let pods = world.list(&kinds::PODS);
    assert_eq!(pods.len(), 1);
    let suspend = RequestVerb::MergePatch(tree!({"spec": {"suspend": true}}));
    let made = find(&world, &kinds::JOBS, "long").unwrap();
    world.send(&kinds::JOBS, &made.tree, suspend).unwrap();
    world.run(Faults::none(), minutes(2));
    assert!(world.list(&kinds::PODS).is_empty(), "{:#?}", world.recent_errors());
    assert_eq!(job_facts(&world, "long").status.active, 0);
}

fn endpoints(world: &World, service: &str) -> Vec<(Text, bool)> {
    let slices = world.list(&kinds::ENDPOINT_SLICES);
    let of_service =
        slices.iter().filter(|it| meta::label(&it.tree, "kubernetes.io/service-name") == Some(service));
    let all = of_service.flat_map(|it| it.tree.items_at(&["endpoints"]).to_vec());
    let mut told: Vec<(Text, bool)> =
        all.map(|e| (e.text_at(&["hostname"]), e.bool_at(&["conditions", "ready"]) == Some(true))).collect();
    told.sort();
    told
}

#[test]
fn slices_tell_which_pods_stand_behind_a_service() {
    for (seed, faults) in [(0, Faults::none()), (1, Faults::all()), (2, Faults::all())] {
        let says = format!("seed {seed}");
        let mut world = World::new(seed, 3);
        let service = tree!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
            "spec": {"clusterIP": "None", "selector": {"app": "a"}, "ports": [{"port": 80}]}});
        let service = world.create(&kinds::SERVICES, &service).unwrap();
        world.run(faults, Duration::from_secs(2));
        let spec = tree!({"parallelism": 130, "completions": 130, "completionMode": "Indexed",
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"subdomain": "s"}}});
        let made = job("long", &spec, &tree!({"muster.dev/sim-run-seconds": "100"}));
        world.create(&kinds::JOBS, &made).unwrap();
        world.run(faults, Duration::from_secs(30));
        world.run(Faults::none(), Duration::from_secs(20));
        let there = endpoints(&world, "s");
        assert_eq!(there.len(), 130, "{says}: {:#?}", world.recent_errors());
        assert!(there.iter().all(|(_, ready)| *ready), "{says}");
        assert_eq!(there[0].0, "long-0", "{says}: pods are named by their host names");
        let sizes = world.list(&kinds::ENDPOINT_SLICES);
        assert!(sizes.iter().all(|it| it.tree.items_at(&["endpoints"]).len() <= 100), "{says}");
        world.run(Faults::none(), minutes(10));
        assert_eq!(endpoints(&world, "s"), [], "{says}: pods that have ended serve nothing");
        assert_eq!(world.list(&kinds::ENDPOINT_SLICES).len(), 1, "{says}: one empty slice stays");
        falls_quiet(&mut world);
        delete(&mut world, &kinds::SERVICES, &service).unwrap();
        world.run(Faults::none(), minutes(1));
        assert!(world.list(&kinds::ENDPOINT_SLICES).is_empty(), "{says}: slices go with their Service");
    }
}

#[test]
fn default_objects_of_a_namespace_are_restored() {
    let mut world = World::new(9, 0);
    world.run(Faults::none(), Duration::from_secs(1));
    for (kind, name) in [(&kinds::SERVICE_ACCOUNTS, "default"), (&kinds::CONFIG_MAPS, "kube-root-ca.crt")] {
        let here = |world: &World| {
            world
                .list(kind)
                .into_iter()
                .find(|it| meta::name(&it.tree) == name && meta::namespace(&it.tree) == "default")
        };
        let old = here(&world).unwrap_or_else(|| panic!("{name} is there"));
        delete(&mut world, kind, &old).unwrap();
        world.run(Faults::none(), Duration::from_secs(5));
        let new = here(&world).unwrap_or_else(|| panic!("{name} is back"));
        assert_ne!(meta::uid(&old.tree), meta::uid(&new.tree));
    }
    let map = find(&world, &kinds::CONFIG_MAPS, "kube-root-ca.crt").unwrap();
    world
        .send(&kinds::CONFIG_MAPS, &map.tree, RequestVerb::MergePatch(tree!({"data": {"ca.crt": "mine"}})))
        .unwrap();
    world.run(Faults::none(), Duration::from_secs(5));
    let mended = find(&world, &kinds::CONFIG_MAPS, "kube-root-ca.crt").unwrap();
    assert_eq!(mended.tree.at(&["data"]), Some(&tree!({"ca.crt": ""})));
}

#[test]
fn simulated_nodes_leave_the_names_of_others_alone() {
    for (says, annotations, taken) in [
        ("a node that nobody simulates", tree!({}), true),
        ("one of another simulator without a lease", tree!({"muster.dev/simulated": "other"}), false),
        ("one of ours", tree!({"muster.dev/simulated": "sim"}), false),
    ] {
        let mut world = World::new(1, 2);
        let node = tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "sim-0", "annotations": annotations}});
        world.create(&kinds::NODES, &node).unwrap();
        world.run(Faults::none(), Duration::from_secs(5));
        let ready: Vec<Text> = world
            .list(&kinds::NODES)
            .iter()
            .filter(|it| node::is_ready(&it.tree))
            .map(|it| meta::name(&it.tree))
            .collect();
        let want = if taken { ["sim-1", "sim-2"] } else { ["sim-0", "sim-1"] };
        assert_eq!(ready, want, "{says}");
    }
}
