//! How many calls a JobSet takes: each Job one create and one delete per attempt, a claim one of each, and few statuses.

use std::time::Duration;

use muster_api::consts::managers;
use muster_api::kinds;
use muster_sim::{Faults, RequestCounts, SeededRng, World};
use muster_tree::{Tree, tree};

use super::sets::{claiming, jobs, mounting, policy, set, volume};
use super::{NODES, Stage};
use crate::devices;
use crate::scenario::minutes;

/// Statuses of a JobSet of a thousand Jobs that is restarted once, at most.
const STATUSES_MAX: u64 = 60;

/// Runs a JobSet with one restart and counts the requests.
fn lived(nodes: usize, made: &Tree) -> (World, RequestCounts) {
    let mut world = World::new(1, nodes);
    devices::declare(&mut world);
    world.run(Faults::none(), Duration::from_secs(30));
    world.requests();
    let mut stage = Stage { world: &mut world, dice: SeededRng::new(1), notes: Vec::new() };
    stage.create(made);
    stage.world.run(Faults::none(), Duration::from_secs(15));
    stage.spoil();
    stage.world.run(Faults::none(), minutes(5));
    assert_eq!((stage.terminal("s").as_str(), stage.facts("s").status.restarts), ("Completed", 1));
    let calls = world.requests();
    (world, calls)
}

fn sent(calls: &RequestCounts, by: &str, what: &str) -> u64 {
    calls.iter().filter(|((who, did), _)| (by.is_empty() || who == by) && did == what).map(|(_, n)| n).sum()
}

/// Shows: 572-01.
#[test]
fn a_thousand_jobs_take_one_create_and_one_delete_each() {
    let all: Vec<Tree> = ["a", "b", "c", "d"]
        .map(|name| jobs(name, 250, 60))
        .iter()
        .map(|it| it.merge(&tree!({"template": {"spec": {"parallelism": 1, "completions": 1}}})))
        .collect();
    let (mut world, calls) = lived(12, &set("s", &all, &policy(1, "Recreate", &[])));
    let told: RequestCounts =
        calls.iter().filter(|((by, _), _)| *by == managers::JOBSET).map(|(k, n)| (k.clone(), *n)).collect();
    println!("{told:#?}");
    let own = |what: &str| sent(&calls, &managers::JOBSET, what);
    assert_eq!(own("create jobs"), 2 * 1000, "one for each Job and attempt");
    assert_eq!(own("delete jobs"), 1000, "one for each Job of the attempt that is over; ended ones stay");
    assert_eq!(own("create services"), 1);
    assert_eq!(own("patch jobs") + own("patch jobs/status"), 0, "a Job that is made right is not touched");
    let statuses = own("patch jobsets/status");
    assert!(statuses <= STATUSES_MAX, "{statuses} statuses");
    let volumes = calls.keys().filter(|(_, what)| what.ends_with("persistentvolumeclaims")).count();
    assert_eq!(volumes, 0, "nobody asks for volumes");
    world.run(Faults::none(), minutes(10));
    let later = world.requests();
    assert!(
        later.keys().all(|(_, what)| what == "patch leases"),
        "nothing changed, nothing is asked: {later:?}"
    );
}

/// Shows: 572-21, 762-51.
#[test]
fn a_claim_takes_one_create_and_one_delete() {
    let a = claiming(&mounting(&jobs("a", 3, 60), &["cache", "keep"]), 1, "OnJobCompletion");
    let volumes = Tree::list([volume("cache", "Delete"), volume("keep", "Retain")]);
    let more = policy(1, "Recreate", &[]).merge(&tree!({"volumeClaimPolicies": volumes}));
    let (world, calls) = lived(NODES, &set("s", &[a], &more));
    let own = |what: &str| sent(&calls, &managers::JOBSET, what);
    assert_eq!(own("create persistentvolumeclaims"), 2, "once in the life of a JobSet: {calls:#?}");
    assert_eq!(own("create resourceclaims"), 2 * 3, "one for each Job and attempt");
    assert_eq!(sent(&calls, "", "delete resourceclaims"), 2 * 3, "{calls:#?}");
    assert_eq!(world.list(&kinds::RESOURCE_CLAIMS).len(), 0);
}
