//! PersistentVolumeClaims, volumes and the pods that use them, under faults.
//!
//! At any time: a volume has one claim at most, a claim for one pod has one pod at most, no claim loses its volume, and no
//! pod on a node loses its claim. In the end nothing is left of what was deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{ApiObject, DeletionPropagation, Kind, RequestVerb};
use muster_api::paths::{claim as claim_path, pod as pod_path, volume as volume_path};
use muster_api::pod::{self, PodPhase};
use muster_api::{kinds, meta};
use muster_sim::{Faults, SeededRng, World};
use muster_tree::{Text, Tree, tree};

use crate::crowd::delete_one;
use crate::scenario::{Scenario, falls_quiet, minutes};

/// Rounds with a user action.
const ROUNDS: u32 = 14;
/// The time between two of them.
const ROUND: Duration = Duration::from_secs(4);
/// Volumes of the class without a provisioner.
const FEW: usize = 3;

/// What can be played.
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("claims are created and deleted with their pods", 3, come_and_go),
        Scenario::new("few volumes and many claims", 2, few_volumes),
    ]
}

fn claim(name: &str, class: &str, mode: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"storageClassName": class, "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn pod(name: &str, volume: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
            "annotations": {"muster.dev/sim-run-seconds": "20"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}], "volumes": Tree::list([volume.clone()])}})
}

fn of_claim(name: &str) -> Tree {
    tree!({"name": "v", "persistentVolumeClaim": {"claimName": name}})
}

fn ephemeral() -> Tree {
    tree!({"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "local-path",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}})
}

fn delete(world: &mut World, kind: &Kind, object: &ApiObject) {
    let act = RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
    // Another client may have deleted it first.
    let _ = world.send(kind, &object.tree, act);
}

fn any(world: &World, dice: &SeededRng, kind: &Kind) -> Option<ApiObject> {
    let mut all = world.list(kind);
    (!all.is_empty()).then(|| all.remove(dice.below(all.len())))
}

/// What users do in one round.
fn act(world: &mut World, dice: &SeededRng, round: u32) {
    const MODES: [&str; 3] = ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"];
    match dice.below(6) {
        0 | 1 => {
            let made = claim(&format!("c{round}"), "local-path", MODES[dice.below(MODES.len())]);
            world.create(&kinds::PERSISTENT_VOLUME_CLAIMS, &made).unwrap();
        }
        2 => {
            world.create(&kinds::PODS, &pod(&format!("e{round}"), &ephemeral())).unwrap();
        }
        3 => {
            if let Some(claim) = any(world, dice, &kinds::PERSISTENT_VOLUME_CLAIMS) {
                delete(world, &kinds::PERSISTENT_VOLUME_CLAIMS, &claim);
            }
        }
        4 => {
            if let Some(pod) = any(world, dice, &kinds::PODS) {
                delete(world, &kinds::PODS, &pod);
            }
        }
        _ => {}
    }
    // Every round a pod uses a claim that exists, is terminating, or is missing.
    let name = any(world, dice, &kinds::PERSISTENT_VOLUME_CLAIMS)
        .map_or_else(|| "none".into(), |it| meta::name(&it.tree));
    for n in 0..=dice.below(2) {
        world.create(&kinds::PODS, &pod(&format!("p{round}-{n}"), &of_claim(&name))).unwrap();
    }
}

fn come_and_go(world: &mut World, faults: Faults, seed: u64) {
    let dice = SeededRng::new(seed ^ 0x5701_a6e0);
    for round in 0..ROUNDS {
        act(world, &dice, round);
        if dice.one_in(6) && world.list(&kinds::NODES).len() > 1 {
            delete_one(world, &kinds::NODES, &dice);
        }
        world.run(faults, ROUND);
        check(world);
    }
    world.run(Faults::none(), minutes(15));
    check(world);
    for kind in [&kinds::PODS, &kinds::PERSISTENT_VOLUME_CLAIMS] {
        for object in world.list(kind) {
            delete(world, kind, &object);
        }
    }
    world.run(Faults::none(), minutes(10));
    let left = |kind: &Kind| world.list(kind).iter().map(|it| meta::name(&it.tree)).collect::<Vec<_>>();
    let none: Vec<Text> = Vec::new();
    assert_eq!(
        (left(&kinds::PERSISTENT_VOLUME_CLAIMS), left(&kinds::PERSISTENT_VOLUMES)),
        (none.clone(), none),
        "all is given back"
    );
    falls_quiet(world);
}

fn few_volumes(world: &mut World, faults: Faults, _seed: u64) {
    let class = tree!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "few"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    world.create(&kinds::STORAGE_CLASSES, &class).unwrap();
    for n in 0..FEW {
        let volume = tree!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("v{n}")},
            "spec": {"storageClassName": "few", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/v"}}});
        world.create(&kinds::PERSISTENT_VOLUMES, &volume).unwrap();
    }
    for n in 0..FEW + 2 {
        world
            .create(&kinds::PERSISTENT_VOLUME_CLAIMS, &claim(&format!("c{n}"), "few", "ReadWriteOnce"))
            .unwrap();
        world.create(&kinds::PODS, &pod(&format!("p{n}"), &of_claim(&format!("c{n}")))).unwrap();
        world.run(faults, ROUND);
        check(world);
    }
    world.run(Faults::none(), minutes(15));
    check(world);
    let bound = world
        .list(&kinds::PERSISTENT_VOLUME_CLAIMS)
        .iter()
        .filter(|it| it.tree.str_at(claim_path::PHASE) == "Bound")
        .count();
    let placed =
        world.list(&kinds::PODS).iter().filter(|it| !it.tree.str_at(pod_path::NODE_NAME).is_empty()).count();
    assert_eq!((bound, placed), (FEW, FEW), "each volume serves one");
    falls_quiet(world);
}

/// What holds at any time.
fn check(world: &World) {
    let claims = world.list(&kinds::PERSISTENT_VOLUME_CLAIMS);
    let mut claimed: BTreeMap<Text, Text> = BTreeMap::new();
    for claim in &claims {
        let (name, volume) = (meta::name(&claim.tree), claim.tree.text_at(claim_path::VOLUME));
        assert_ne!(claim.tree.str_at(claim_path::PHASE), "Lost", "{name} lost {volume}");
        if !volume.is_empty() {
            let other = claimed.insert(volume.clone(), name.clone());
            assert_eq!(other, None, "{volume} has two claims, one is {name}");
        }
    }
    for volume in world.list(&kinds::PERSISTENT_VOLUMES) {
        let name = meta::name(&volume.tree);
        let uid = volume.tree.text_at(volume_path::CLAIM_UID);
        let owner = claims.iter().find(|it| meta::uid(&it.tree) == uid).map(|it| meta::name(&it.tree));
        if let Some((says, owner)) = claimed.get(&name).zip(owner) {
            assert_eq!(*says, owner, "{name} and its claim mean each other");
        }
    }
    check_pods(world, &claims);
}

fn check_pods(world: &World, claims: &[ApiObject]) {
    let mut users: BTreeMap<Text, Text> = BTreeMap::new();
    let at_work = |it: &ApiObject| {
        !it.tree.str_at(pod_path::NODE_NAME).is_empty()
            && !PodPhase::of(it.tree.str_at(pod_path::PHASE)).is_terminal()
            && meta::deletion_timestamp(&it.tree).is_none()
    };
    for it in world.list(&kinds::PODS).iter().filter(|it| at_work(it)) {
        for used in pod::volume_claims(&it.tree) {
            let name = meta::name(&it.tree);
            let claim = claims.iter().find(|it| meta::name(&it.tree) == used.claim);
            let claim = claim.unwrap_or_else(|| panic!("{name} lost its claim {}", used.claim));
            let once = claim
                .tree
                .items_at(claim_path::MODES)
                .iter()
                .any(|it| it.as_str() == Some("ReadWriteOncePod"));
            let other = users.insert(used.claim.clone(), name.clone());
            assert!(!once || other.is_none(), "{} is used by {name} and {other:?}", used.claim);
        }
    }
}
