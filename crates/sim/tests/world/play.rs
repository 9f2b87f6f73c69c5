//! A Job whose pods end according to a script, on a node whose kubelet the test implements; a user may interfere.

use std::time::Duration;

use muster_api::client::{ApiObject, RequestVerb};
use muster_api::job::{JobFacts, JobStatus};
use muster_api::kinds;
use muster_api::pod::PodFacts;
use muster_sim::{Faults, SeededRng, World};
use muster_tree::{Tree, tree};

use crate::kubelet::{Asked, End, Ledger};
use crate::scenario::{Scenario, falls_quiet, minutes};
use crate::worlds::job;

/// Kubelet rounds before a Job must have finished.
const ROUNDS_MAX: u32 = 400;
/// Kubelet rounds with faults; afterwards faults are off.
const ROUNDS_WITH_FAULTS: u32 = 40;
/// Minimum of kubelet rounds: users act in them.
const ROUNDS_MIN: u32 = 16;

/// A Job, what happens to it, and how it must end.
#[derive(Clone, Copy)]
pub struct Play {
    /// What, in a sentence.
    pub says: &'static str,
    /// The spec, template left out.
    pub spec: fn() -> Tree,
    pub ends: fn(Asked) -> End,
    /// What the user does in a round.
    pub user: fn(&mut World, &mut Ledger, u32),
    /// The last condition and its reason.
    pub end: (&'static str, &'static str),
    /// What the counts must be.
    pub counts: fn(&Ledger, &JobStatus) -> (u32, u32),
    /// Completed and failed indexes.
    pub indexes: (&'static str, &'static str),
}

/// A play in which nothing happens.
pub const BASE: Play = Play {
    says: "",
    spec: || tree!({}),
    ends: good,
    user: nothing,
    end: ("Complete", "CompletionsReached"),
    counts: |_, _| (0, 0),
    indexes: ("", ""),
};

/// Every pod succeeds as soon as it can.
pub fn good(_: Asked) -> End {
    End::Good
}

fn nothing(_: &mut World, _: &mut Ledger, _: u32) {}

impl From<Play> for Scenario {
    fn from(play: Play) -> Scenario {
        let plays = move |world: &mut World, faults: Faults, seed: u64| {
            let ledger = perform(&play, world, faults, seed);
            check(&play, world, &ledger);
        };
        Scenario { says: play.says.to_owned(), nodes: 0, told: None, plays: Box::new(plays) }
    }
}

/// The node that the kubelet of these plays speaks for; the scheduler leaves it alone.
pub fn add_node(world: &mut World) {
    let node = tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}, "spec": {"unschedulable": true}});
    world.create(&kinds::NODES, &node).unwrap();
}

/// The dice of the kubelet.
pub fn kubelet_dice(seed: u64) -> SeededRng {
    SeededRng::new(seed ^ 0x000c_0ffe_e000)
}

/// The only Job, if it is there.
pub fn the_job(world: &World) -> Option<ApiObject> {
    world.list(&kinds::JOBS).into_iter().next()
}

/// Changes the spec of the only Job.
pub fn patch_job(world: &mut World, spec: &Tree) {
    let job = the_job(world).expect("the Job is there");
    world.send(&kinds::JOBS, &job.tree, RequestVerb::MergePatch(tree!({"spec": spec}))).unwrap();
}

/// Whether the only Job has ended or is gone.
pub fn is_over(world: &World) -> bool {
    the_job(world).is_none_or(|job| JobFacts::of(&job.tree).finished_condition().is_some())
}

/// Plays until the Job has ended or for so many rounds; then without faults until all is said.
fn perform(play: &Play, world: &mut World, faults: Faults, seed: u64) -> Ledger {
    add_node(world);
    let dice = kubelet_dice(seed);
    let mut ledger = Ledger::default();
    world.create(&kinds::JOBS, &job("j", &(play.spec)(), &tree!({}))).unwrap();
    for round in 0..ROUNDS_MAX {
        let faults = if round < ROUNDS_WITH_FAULTS { faults } else { Faults::none() };
        world.run(faults, Duration::from_secs(3));
        (play.user)(world, &mut ledger, round);
        ledger.act(world, &dice, play.ends);
        if round >= ROUNDS_MIN && is_over(world) {
            break;
        }
    }
    world.run(Faults::none(), minutes(30));
    ledger.take_in_missed(world);
    ledger
}

fn check(play: &Play, world: &mut World, ledger: &Ledger) {
    let job = JobFacts::of(&the_job(world).expect("the Job is there").tree);
    let end =
        job.finished_condition().map(|c| (c.str_at(&["type"]).to_owned(), c.str_at(&["reason"]).to_owned()));
    let end = end.as_ref().map(|(kind, reason)| (kind.as_str(), reason.as_str()));
    assert_eq!(end, Some(play.end), "{:#?}\n{ledger:#?}", job.status);
    let (succeeded, failed) = (play.counts)(ledger, &job.status);
    assert_eq!((job.status.succeeded, job.status.failed), (succeeded, failed), "{ledger:#?}");
    let indexes = (job.status.completed_indexes.as_str(), job.status.failed_indexes.as_deref().unwrap_or(""));
    assert_eq!(indexes, play.indexes);
    let left = (job.status.active, job.status.ready.unwrap_or(0), job.status.terminating.unwrap_or(0));
    assert_eq!(left, (0, 0, 0), "nothing is left at work: {:#?}", job.status);
    let held = world.list(&kinds::PODS).into_iter().map(|pod| PodFacts::of(&pod.tree));
    assert_eq!(held.filter(|pod| pod.has_tracking_finalizer).count(), 0, "no pod is held");
    falls_quiet(world);
}
