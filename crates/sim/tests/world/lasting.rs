//! Deletion of Jobs, with each propagation policy or by TTL: no pod keeps a finalizer.

use std::time::Duration;

use muster_api::client::{DeletionPropagation, RequestVerb};
use muster_api::{kinds, meta};
use muster_sim::{Faults, World};
use muster_tree::tree;

use crate::kubelet::{End, Ledger};
use crate::play::{add_node, good, is_over, kubelet_dice, the_job};
use crate::scenario::{Scenario, falls_quiet};
use crate::worlds::job;

/// The ends of Jobs as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let deleted =
        [DeletionPropagation::Background, DeletionPropagation::Foreground, DeletionPropagation::Orphan].map(
            |cascade| Scenario {
                says: format!("a Job deleted with {cascade:?} leaves no pod with a finalizer"),
                nodes: 0,
                told: None,
                plays: Box::new(move |world, faults, seed| deletion(world, faults, seed, cascade)),
            },
        );
    let ttl = [0, 10].map(|secs| Scenario {
        says: format!("a finished Job is deleted after {secs} seconds with its pods"),
        nodes: 0,
        told: None,
        plays: Box::new(move |world, faults, seed| time_to_live(world, faults, seed, secs)),
    });
    let again = Scenario::new("a Job of the same name has nothing to do with the old one", 0, namesake);
    deleted.into_iter().chain(ttl).chain([again]).collect()
}

fn delete(world: &mut World, cascade: DeletionPropagation) {
    if let Some(job) = the_job(world) {
        let act = RequestVerb::Delete { propagation_policy: cascade, grace_secs: None };
        world.send(&kinds::JOBS, &job.tree, act).unwrap();
    }
}

fn deletion(world: &mut World, faults: Faults, seed: u64, cascade: DeletionPropagation) {
    add_node(world);
    let dice = kubelet_dice(seed);
    let mut ledger = Ledger::default();
    let spec = tree!({"completions": 4, "parallelism": 3});
    world.create(&kinds::JOBS, &job("j", &spec, &tree!({}))).unwrap();
    for round in 0..12 {
        world.run(faults, Duration::from_secs(2));
        if round == 5 {
            delete(world, cascade);
        }
        ledger.act(world, &dice, |asked| if asked.ended_before == 0 { End::Good } else { End::Later });
    }
    for _ in 0..20 {
        world.run(Faults::none(), Duration::from_secs(30));
        ledger.act(world, &dice, |_| End::Later);
    }
    assert!(the_job(world).is_none(), "the Job is gone");
    let pods = world.list(&kinds::PODS);
    assert!(pods.iter().all(|pod| meta::owner_references(&pod.tree).next().is_none()), "{pods:#?}");
    assert!(pods.iter().all(|pod| !meta::has_finalizers(&pod.tree)), "{pods:#?}");
    assert_eq!(pods.is_empty(), cascade != DeletionPropagation::Orphan, "{}", pods.len());
    falls_quiet(world);
}

fn time_to_live(world: &mut World, faults: Faults, seed: u64, secs: i64) {
    add_node(world);
    let dice = kubelet_dice(seed);
    let mut ledger = Ledger::default();
    let spec = tree!({"completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": secs});
    world.create(&kinds::JOBS, &job("j", &spec, &tree!({}))).unwrap();
    for round in 0..80 {
        let faults = if round < 40 { faults } else { Faults::none() };
        world.run(faults, Duration::from_secs(3));
        ledger.act(world, &dice, good);
        if the_job(world).is_none() {
            break;
        }
    }
    world.run(Faults::none(), Duration::from_secs(120));
    assert_eq!(ledger.pods.len(), 3, "each was made once: {ledger:#?}");
    assert!(the_job(world).is_none(), "the Job is gone");
    assert!(world.list(&kinds::PODS).is_empty(), "and so are its pods");
    falls_quiet(world);
}

fn namesake(world: &mut World, faults: Faults, seed: u64) {
    add_node(world);
    let dice = kubelet_dice(seed);
    let mut ledger = Ledger::default();
    let made = job("j", &tree!({"completions": 2, "parallelism": 2}), &tree!({}));
    world.create(&kinds::JOBS, &made).unwrap();
    world.run(faults, Duration::from_secs(4));
    delete(world, DeletionPropagation::Background);
    let old = world.create(&kinds::JOBS, &made).map(|job| meta::uid(&job.tree));
    let young = old.expect("a Job deleted in the background is gone at once");
    for round in 0..60 {
        let faults = if round < 30 { faults } else { Faults::none() };
        world.run(faults, Duration::from_secs(3));
        ledger.act(world, &dice, |asked| if asked.round > 6 { End::Good } else { End::Later });
        if is_over(world) {
            break;
        }
    }
    world.run(Faults::none(), Duration::from_secs(600));
    let status = crate::scenario::job_facts(world, "j").status;
    assert_eq!((status.succeeded, status.failed), (2, 0), "{status:#?}");
    let own =
        |pod: &muster_api::client::ApiObject| meta::controller_of(&pod.tree).is_some_and(|o| o.uid == young);
    let pods = world.list(&kinds::PODS);
    assert!(pods.len() == 2 && pods.iter().all(own), "pods of the old Job are gone: {pods:#?}");
    falls_quiet(world);
}
