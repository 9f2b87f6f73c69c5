//! Nodes that vanish, fall silent and come back, and what stands behind Services, in a whole world.

use std::time::Duration;

use muster_api::job::JobFacts;
use muster_api::port::{Act, Cascade, Object, Refusal};
use muster_api::{kinds, meta, node};
use muster_sim::{Faults, World, heartbeat};
use muster_tree::{Text, tree};

use crate::worlds::{job, minutes};

fn delete(world: &mut World, kind: &muster_api::port::Kind, object: &Object) -> Result<Object, Refusal> {
    world.call(kind, &object.tree, Act::Delete { cascade: Cascade::Background, grace_secs: None })
}

fn find(world: &World, kind: &muster_api::port::Kind, name: &str) -> Option<Object> {
    world.all(kind).into_iter().find(|it| meta::name(&it.tree) == name)
}

fn the_job(world: &World) -> JobFacts {
    JobFacts::of(&find(world, &kinds::JOBS, "long").expect("the Job is there").tree)
}

/// Six pods of two minutes on three nodes, all running.
fn busy(seed: u64, faults: Faults) -> World {
    let mut world = World::new(seed, 3);
    let long = tree!({"muster.dev/sim-run-seconds": "120"});
    let spec = tree!({"parallelism": 6, "completions": 6, "completionMode": "Indexed"});
    world.create(&kinds::JOBS, &job("long", &spec, &long)).unwrap();
    world.run(faults, Duration::from_secs(20));
    world
}

fn assert_quiet(world: &mut World, says: &str) {
    world.writes();
    world.run(Faults::none(), minutes(10));
    let writes = world.writes();
    let others: Vec<_> = writes.iter().filter(|(resource, _)| **resource != heartbeat()).collect();
    assert!(others.is_empty(), "{says}: {others:?}");
}

#[test]
fn pods_of_a_deleted_node_fail_once_and_are_made_anew() {
    for (seed, faults) in [(0, Faults::none()), (1, Faults::all()), (2, Faults::all()), (3, Faults::all())] {
        let says = format!("seed {seed}");
        let mut world = busy(seed, faults);
        let node = find(&world, &kinds::NODES, "sim-1").unwrap();
        let on_it = world
            .all(&kinds::PODS)
            .iter()
            .filter(|p| p.tree.str_at(&["spec", "nodeName"]) == "sim-1")
            .count();
        assert!(on_it > 0, "{says}: some pods run there");
        delete(&mut world, &kinds::NODES, &node).unwrap();
        world.run(faults, minutes(5));
        world.run(Faults::none(), minutes(60));
        let status = the_job(&world).status;
        assert_eq!(status.succeeded, 6, "{says}: {status:?} {:#?}", world.refusals());
        if faults == Faults::none() {
            assert_eq!(status.failed, u32::try_from(on_it).unwrap(), "{says}: each lost pod counts once");
        }
        assert_quiet(&mut world, &says);
    }
}

#[test]
fn a_silent_node_is_tainted_and_its_pods_go_after_their_toleration() {
    for (seed, faults) in [(0, Faults::none()), (1, Faults::all()), (2, Faults::all())] {
        let says = format!("seed {seed}");
        let mut world = busy(seed, faults);
        world.silence_nodes(true);
        world.run(faults, Duration::from_secs(60));
        let silent = find(&world, &kinds::NODES, "sim-0").unwrap();
        let taints: Vec<&str> =
            silent.tree.items_at(&["spec", "taints"]).iter().map(|t| t.str_at(&["effect"])).collect();
        assert_eq!(taints, ["NoSchedule", "NoExecute"], "{says}");
        assert!(!node::is_ready(&silent.tree), "{says}");
        let deleted = |world: &World| {
            world.all(&kinds::PODS).iter().filter(|pod| meta::deleting(&pod.tree).is_some()).count()
        };
        assert_eq!(deleted(&world), 0, "{says}: five minutes are tolerated by default");
        world.run(faults, minutes(6));
        assert_eq!(deleted(&world), 6, "{says}: {:#?}", world.refusals());
        world.silence_nodes(false);
        world.run(faults, minutes(5));
        world.run(Faults::none(), minutes(30));
        let back = find(&world, &kinds::NODES, "sim-0").unwrap();
        assert!(node::is_ready(&back.tree) && back.tree.items_at(&["spec", "taints"]).is_empty(), "{says}");
        assert_eq!(the_job(&world).status.succeeded, 6, "{says}: {:#?}", world.refusals());
        assert_quiet(&mut world, &says);
    }
}

#[test]
fn a_deleted_pod_without_a_node_ends() {
    let mut world = World::new(5, 0);
    world.create(&kinds::JOBS, &job("long", &tree!({}), &tree!({}))).unwrap();
    world.run(Faults::none(), Duration::from_secs(5));
    let pods = world.all(&kinds::PODS);
    assert_eq!(pods.len(), 1);
    let suspend = Act::Merge(tree!({"spec": {"suspend": true}}));
    let made = find(&world, &kinds::JOBS, "long").unwrap();
    world.call(&kinds::JOBS, &made.tree, suspend).unwrap();
    world.run(Faults::none(), minutes(2));
    assert!(world.all(&kinds::PODS).is_empty(), "{:#?}", world.refusals());
    assert_eq!(the_job(&world).status.active, 0);
}

fn endpoints(world: &World, service: &str) -> Vec<(Text, bool)> {
    let slices = world.all(&kinds::ENDPOINT_SLICES);
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
        assert_eq!(there.len(), 130, "{says}: {:#?}", world.refusals());
        assert!(there.iter().all(|(_, ready)| *ready), "{says}");
        assert_eq!(there[0].0, "long-0", "{says}: pods are named by their host names");
        let sizes = world.all(&kinds::ENDPOINT_SLICES);
        assert!(sizes.iter().all(|it| it.tree.items_at(&["endpoints"]).len() <= 100), "{says}");
        world.run(Faults::none(), minutes(10));
        assert_eq!(endpoints(&world, "s"), [], "{says}: pods that have ended serve nothing");
        assert_eq!(world.all(&kinds::ENDPOINT_SLICES).len(), 1, "{says}: one empty slice stays");
        assert_quiet(&mut world, &says);
        delete(&mut world, &kinds::SERVICES, &service).unwrap();
        world.run(Faults::none(), minutes(1));
        assert!(world.all(&kinds::ENDPOINT_SLICES).is_empty(), "{says}: slices go with their Service");
    }
}

#[test]
fn what_every_namespace_has_comes_back() {
    let mut world = World::new(9, 0);
    world.run(Faults::none(), Duration::from_secs(1));
    for (kind, name) in [(&kinds::SERVICE_ACCOUNTS, "default"), (&kinds::CONFIG_MAPS, "kube-root-ca.crt")] {
        let here = |world: &World| {
            world
                .all(kind)
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
    world.call(&kinds::CONFIG_MAPS, &map.tree, Act::Merge(tree!({"data": {"ca.crt": "mine"}}))).unwrap();
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
            .all(&kinds::NODES)
            .iter()
            .filter(|it| node::is_ready(&it.tree))
            .map(|it| meta::name(&it.tree))
            .collect();
        let want = if taken { ["sim-1", "sim-2"] } else { ["sim-0", "sim-1"] };
        assert_eq!(ready, want, "{says}");
    }
}
