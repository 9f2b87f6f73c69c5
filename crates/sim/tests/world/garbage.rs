//! The garbage collector and the namespace controller, in a whole world.

use std::time::Duration;

use muster_api::client::{ApiError, ApiObject, DeletionPropagation, Kind, RequestVerb};
use muster_api::{kinds, meta};
use muster_sim::{Faults, World};
use muster_tree::{Text, Tree, tree};

use crate::scenario::{Scenario, falls_quiet, minutes};
use crate::worlds::job;

/// What is deleted takes along what it should, as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let everyone =
        [DeletionPropagation::Background, DeletionPropagation::Foreground, DeletionPropagation::Orphan];
    let families = everyone.map(|cascade| Scenario {
        says: format!("a family of config maps whose owner is deleted with {cascade:?}"),
        nodes: 1,
        told: None,
        plays: Box::new(move |world, faults, _| deleted_owner(world, faults, cascade)),
    });
    let jobs = [DeletionPropagation::Background, DeletionPropagation::Foreground].map(|cascade| Scenario {
        says: format!("a Job deleted with {cascade:?} takes its running pods along"),
        nodes: 2,
        told: None,
        plays: Box::new(move |world, faults, _| deleted_job(world, faults, cascade)),
    });
    let orphans = Scenario::new("an orphaned pod runs on without its finalizer", 2, orphaned_pod);
    let space = Scenario::new("a deleted namespace is emptied and removed", 2, deleted_namespace);
    families.into_iter().chain(jobs).chain([orphans, space]).collect()
}

fn config_maps() -> Kind {
    Kind { group: Text::new(), version: "v1".into(), plural: "configmaps".into() }
}

fn config_map(name: &str, owners: &[(&ApiObject, bool)]) -> Tree {
    let owners = owners.iter().map(|(owner, blocks)| {
        tree!({"apiVersion": "v1", "kind": "ConfigMap", "name": meta::name(&owner.tree), "uid": meta::uid(&owner.tree),
            "blockOwnerDeletion": *blocks})
    });
    tree!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": Tree::list(owners)}})
}

fn delete(
    world: &mut World,
    kind: &Kind,
    object: &ApiObject,
    cascade: DeletionPropagation,
) -> Result<ApiObject, ApiError> {
    world.send(kind, &object.tree, RequestVerb::Delete { propagation_policy: cascade, grace_secs: None })
}

fn names(world: &World, kind: &Kind, namespace: &str) -> Vec<Text> {
    let all = world.list(kind);
    let here = all.iter().filter(|object| meta::namespace(&object.tree) == namespace);
    here.map(|object| meta::name(&object.tree)).filter(|name| name != "kube-root-ca.crt").collect()
}

/// An owner, a dependent that blocks, one that does not, and one that has another owner too.
fn family(world: &mut World) -> ApiObject {
    let kind = config_maps();
    let owner = world.create(&kind, &config_map("owner", &[])).unwrap();
    let other = world.create(&kind, &config_map("other", &[])).unwrap();
    world.create(&kind, &config_map("blocking", &[(&owner, true)])).unwrap();
    let plain = world.create(&kind, &config_map("plain", &[(&owner, false)])).unwrap();
    world.create(&kind, &config_map("grandchild", &[(&plain, false)])).unwrap();
    world.create(&kind, &config_map("shared", &[(&owner, true), (&other, false)])).unwrap();
    owner
}

fn deleted_owner(world: &mut World, faults: Faults, cascade: DeletionPropagation) {
    let left: &[&str] = match cascade {
        DeletionPropagation::Orphan => &["blocking", "grandchild", "other", "plain", "shared"],
        _ => &["other", "shared"],
    };
    let owner = family(world);
    world.run(faults, Duration::from_secs(2));
    delete(world, &config_maps(), &owner, cascade).unwrap();
    world.run(faults, minutes(2));
    world.run(Faults::none(), minutes(2));
    assert_eq!(names(world, &config_maps(), "default"), left);
    let shared = world.list(&config_maps());
    let shared = shared.iter().find(|object| meta::name(&object.tree) == "shared").unwrap();
    let owners: Vec<Text> = meta::owner_references(&shared.tree).map(|owner| owner.name).collect();
    assert_eq!(owners, ["other"], "the absent owner is forgotten");
    falls_quiet(world);
}

fn deleted_job(world: &mut World, faults: Faults, cascade: DeletionPropagation) {
    let long = tree!({"muster.dev/sim-run-seconds": "600"});
    let made = job("long", &tree!({"parallelism": 3, "completions": 3}), &long);
    let made = world.create(&kinds::JOBS, &made).unwrap();
    world.run(faults, Duration::from_secs(20));
    delete(world, &kinds::JOBS, &made, cascade).unwrap();
    world.run(faults, minutes(2));
    world.run(Faults::none(), minutes(2));
    assert_eq!(names(world, &kinds::JOBS, "default"), [""; 0]);
    assert_eq!(names(world, &kinds::PODS, "default"), [""; 0]);
    falls_quiet(world);
}

fn orphaned_pod(world: &mut World, faults: Faults, _: u64) {
    let made = job("long", &tree!({}), &tree!({"muster.dev/sim-run-seconds": "600"}));
    let made = world.create(&kinds::JOBS, &made).unwrap();
    world.run(Faults::none(), Duration::from_secs(5));
    delete(world, &kinds::JOBS, &made, DeletionPropagation::Orphan).unwrap();
    world.run(faults, minutes(1));
    world.run(Faults::none(), minutes(1));
    let pods = world.list(&kinds::PODS);
    assert_eq!((pods.len(), meta::owner_references(&pods[0].tree).count()), (1, 0));
    assert!(!meta::has_finalizers(&pods[0].tree) && meta::deletion_timestamp(&pods[0].tree).is_none());
    assert!(names(world, &kinds::JOBS, "default").is_empty());
    world.run(Faults::none(), minutes(10));
    falls_quiet(world);
}

fn deleted_namespace(world: &mut World, faults: Faults, _: u64) {
    let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let space = world.create(&kinds::NAMESPACES, &space).unwrap();
    let long = tree!({"muster.dev/sim-run-seconds": "600"});
    let made = job("long", &tree!({"parallelism": 2, "completions": 2}), &long);
    world.create(&kinds::JOBS, &made.with(&["metadata", "namespace"], "team")).unwrap();
    world.create(&config_maps(), &config_map("stays", &[])).unwrap();
    world.run(faults, Duration::from_secs(10));
    delete(world, &kinds::NAMESPACES, &space, DeletionPropagation::Background).unwrap();
    world.run(faults, minutes(2));
    world.run(Faults::none(), minutes(2));
    for kind in [&kinds::JOBS, &kinds::PODS, &kinds::EVENTS, &config_maps()] {
        assert!(names(world, kind, "team").is_empty(), "{}", kind.plural);
    }
    let left = names(world, &kinds::NAMESPACES, "");
    assert!(!left.contains(&"team".into()), "{left:?}");
    assert_eq!(names(world, &config_maps(), "default"), ["stays"]);
    falls_quiet(world);
}
