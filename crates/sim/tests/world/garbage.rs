//! The garbage collector and the namespace controller, in a whole world.

use std::time::Duration;

use muster_api::port::{Act, Cascade, Kind, Object, Refusal};
use muster_api::{kinds, meta};
use muster_sim::{Faults, World};
use muster_tree::{Text, Tree, tree};

use crate::worlds::{job, minutes};

fn config_maps() -> Kind {
    Kind { group: Text::new(), version: "v1".into(), plural: "configmaps".into() }
}

fn config_map(name: &str, owners: &[(&Object, bool)]) -> Tree {
    let owners = owners.iter().map(|(owner, blocks)| {
        tree!({"apiVersion": "v1", "kind": "ConfigMap", "name": meta::name(&owner.tree), "uid": meta::uid(&owner.tree),
            "blockOwnerDeletion": *blocks})
    });
    tree!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": Tree::list(owners)}})
}

fn delete(world: &mut World, kind: &Kind, object: &Object, cascade: Cascade) -> Result<Object, Refusal> {
    world.call(kind, &object.tree, Act::Delete { cascade, grace_secs: None })
}

fn names(world: &World, kind: &Kind, namespace: &str) -> Vec<Text> {
    let all = world.all(kind);
    let here = all.iter().filter(|object| meta::namespace(&object.tree) == namespace);
    here.map(|object| meta::name(&object.tree)).filter(|name| name != "kube-root-ca.crt").collect()
}

/// An owner, a dependent that blocks, one that does not, and one that has another owner too.
fn family(world: &mut World) -> Object {
    let kind = config_maps();
    let owner = world.create(&kind, &config_map("owner", &[])).unwrap();
    let other = world.create(&kind, &config_map("other", &[])).unwrap();
    world.create(&kind, &config_map("blocking", &[(&owner, true)])).unwrap();
    let plain = world.create(&kind, &config_map("plain", &[(&owner, false)])).unwrap();
    world.create(&kind, &config_map("grandchild", &[(&plain, false)])).unwrap();
    world.create(&kind, &config_map("shared", &[(&owner, true), (&other, false)])).unwrap();
    owner
}

#[test]
fn three_policies() {
    for (cascade, faults, left) in [
        (Cascade::Background, Faults::none(), vec!["other", "shared"]),
        (Cascade::Foreground, Faults::none(), vec!["other", "shared"]),
        (Cascade::Orphan, Faults::none(), vec!["blocking", "grandchild", "other", "plain", "shared"]),
        (Cascade::Background, Faults::all(), vec!["other", "shared"]),
        (Cascade::Foreground, Faults::all(), vec!["other", "shared"]),
        (Cascade::Orphan, Faults::all(), vec!["blocking", "grandchild", "other", "plain", "shared"]),
    ] {
        for seed in 0..5 {
            let mut world = World::new(seed, 1);
            let owner = family(&mut world);
            world.run(faults, Duration::from_secs(2));
            delete(&mut world, &config_maps(), &owner, cascade).unwrap();
            world.run(faults, minutes(2));
            world.run(Faults::none(), minutes(2));
            assert_eq!(
                names(&world, &config_maps(), "default"),
                left,
                "{cascade:?}, {faults:?}, seed {seed}"
            );
            let shared = world.all(&config_maps());
            let shared = shared.iter().find(|object| meta::name(&object.tree) == "shared").unwrap();
            let owners: Vec<Text> = meta::owners(&shared.tree).map(|owner| owner.name).collect();
            assert_eq!(owners, ["other"], "{cascade:?}: the absent owner is forgotten");
        }
    }
}

#[test]
fn a_deleted_job_takes_its_pods_along() {
    for cascade in [Cascade::Background, Cascade::Foreground] {
        for seed in 0..5 {
            let mut world = World::new(seed, 2);
            let long = tree!({"muster.dev/sim-run-seconds": "600"});
            let made = job("long", &tree!({"parallelism": 3, "completions": 3}), &long);
            let made = world.create(&kinds::JOBS, &made).unwrap();
            world.run(Faults::all(), Duration::from_secs(20));
            assert_eq!(names(&world, &kinds::PODS, "default").len(), 3, "{cascade:?} seed {seed}");
            delete(&mut world, &kinds::JOBS, &made, cascade).unwrap();
            world.run(Faults::all(), minutes(2));
            world.run(Faults::none(), minutes(2));
            assert_eq!(names(&world, &kinds::JOBS, "default"), [""; 0], "{cascade:?} seed {seed}");
            assert_eq!(names(&world, &kinds::PODS, "default"), [""; 0], "{cascade:?} seed {seed}");
        }
    }
}

#[test]
fn an_orphaned_pod_runs_on_without_its_finalizer() {
    let mut world = World::new(3, 2);
    let made = job("long", &tree!({}), &tree!({"muster.dev/sim-run-seconds": "600"}));
    let made = world.create(&kinds::JOBS, &made).unwrap();
    world.run(Faults::none(), Duration::from_secs(5));
    delete(&mut world, &kinds::JOBS, &made, Cascade::Orphan).unwrap();
    world.run(Faults::none(), minutes(1));
    let pods = world.all(&kinds::PODS);
    assert_eq!((pods.len(), meta::owners(&pods[0].tree).count()), (1, 0));
    assert!(names(&world, &kinds::JOBS, "default").is_empty());
}

#[test]
fn a_deleted_namespace_is_emptied_and_goes() {
    for seed in 0..5 {
        let mut world = World::new(seed, 2);
        let space = world.create(
            &kinds::NAMESPACES,
            &tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
        );
        let space = space.unwrap();
        let long = tree!({"muster.dev/sim-run-seconds": "600"});
        let made = job("long", &tree!({"parallelism": 2, "completions": 2}), &long);
        world.create(&kinds::JOBS, &made.with(&["metadata", "namespace"], "team")).unwrap();
        world.create(&config_maps(), &config_map("stays", &[])).unwrap();
        world.run(Faults::all(), Duration::from_secs(10));
        delete(&mut world, &kinds::NAMESPACES, &space, Cascade::Background).unwrap();
        world.run(Faults::all(), minutes(2));
        world.run(Faults::none(), minutes(2));
        for kind in [&kinds::JOBS, &kinds::PODS, &kinds::EVENTS, &config_maps()] {
            assert!(
                names(&world, kind, "team").is_empty(),
                "seed {seed}: {} {:#?}",
                kind.plural,
                world.refusals()
            );
        }
        let left = names(&world, &kinds::NAMESPACES, "");
        assert!(!left.contains(&"team".into()), "seed {seed}: {left:?} {:#?}", world.refusals());
        assert_eq!(names(&world, &config_maps(), "default"), ["stays"]);
    }
}
