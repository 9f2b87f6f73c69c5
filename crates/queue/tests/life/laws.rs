//! Properties of the Workload reconciler under random events: no leaked quota, no stuck Workload.

use muster_api::queue::consts::conditions;
use muster_queue::reconcilers::transitions::{is_queueable, is_schedulable};
use muster_tree::{Tree, tree};

use super::world::{Crash, World};

const SEEDS: u64 = 200;
const EVENTS: usize = 40;
/// Bound on the rounds until a Workload can be nominated again.
const ROUNDS_MAX: usize = 6;

/// A seeded random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let n = u64::try_from(all.len()).expect("a few");
        all[usize::try_from(self.below(n)).expect("a small number")]
    }
}

fn world(dice: &mut Dice) -> Tree {
    let limit = if dice.below(2) == 0 { Tree::Null } else { tree!(2) };
    let longest = if dice.below(3) == 0 { tree!(500) } else { Tree::Null };
    let checks = if dice.below(2) == 0 { tree!([{"name": "a"}]) } else { tree!([]) };
    tree!({"settings": {"ready": {"timeout": 300, "recovery": 100, "limit": limit}},
        "workload": {"spec": {"maximumExecutionTimeSeconds": longest}},
        "cluster": {"spec": {"admissionChecksStrategy": {"admissionChecks": checks}}}})
}

fn stop_cluster(policy: &str) -> Tree {
    let active = if policy == "None" { "True" } else { "False" };
    tree!({"cluster": {"spec": {"stopPolicy": policy}, "status": {"conditions": [{"type": "Active", "status": active}]}}})
}

/// A random event for a Workload in its current state.
fn event(dice: &mut Dice, world: &World, secs: i64) -> Tree {
    let it = world.facts();
    let policy = dice.of(&["None", "None", "Hold", "HoldAndDrain"]);
    let check = |state: &str| tree!({"check": (format!("a={state} @{secs} \"m\" after 30"))});
    match dice.below(12) {
        0 | 1 if is_schedulable(&it, world.now) && world.is_running() => tree!({"reserve": "default"}),
        2 if is_queueable(&it) => tree!({"refuse": {"why": "WaitingForQuota", "message": "no quota"}}),
        3 => tree!({"preempt": {"why": "InClusterQueue", "path": "/cq", "by": {"metadata": {"uid": "p"}}}}),
        4 | 5 => tree!({"release": "possible"}),
        6 => tree!({"ready": (dice.below(2) == 0)}),
        7 => check(dice.of(&["Ready", "Ready", "Pending", "Retry", "Rejected"])),
        8 => tree!({"workload": {"spec": {"active": (dice.below(3) > 0)}}}),
        9 => tree!({"local": {"spec": {"stopPolicy": policy}}}),
        10 => stop_cluster(policy),
        _ => tree!({}),
    }
}

fn assert_lawful(world: &World, says: &str) {
    let it = world.facts();
    let reason = it.condition(conditions::EVICTED).filter(|it| it.holds).map(|it| it.reason.to_string());
    assert_eq!(it.has_quota(), it.admission.is_some(), "a share and what it is of: {says}");
    assert!(it.has_quota() || !it.is_admitted(), "nobody runs without a share: {says}");
    assert!(!it.has_quota() || it.requests.is_empty(), "requests are those of who waits: {says}");
    assert!(!it.holds(conditions::DEACTIVATION_TARGET), "it was deactivated: {says}");
    if !it.active {
        assert!(reason.is_some_and(|it| it.starts_with("Deactivated")), "it has to leave: {says}");
        assert!(it.requeue.is_none(), "it does not want to come back: {says}");
        assert!(it.has_quota() || !is_schedulable(&it, world.now), "it does not queue: {says}");
    }
    assert!(it.evictions.iter().all(|it| it.count > 0), "{says}");
}

/// Performs everything the Workload is waiting for.
fn good_luck(world: &mut World, secs: i64) {
    let all = [
        tree!({"local": {"spec": {"stopPolicy": "None"}}}),
        stop_cluster("None"),
        tree!({"workload": {"spec": {"active": true}}}),
        tree!({"check": (format!("a=Ready @{secs} \"m\""))}),
        tree!({"release": "possible"}),
    ];
    for what in all {
        world.play(&tree!({"at": secs, "do": what}), Crash::Never);
    }
}

#[test]
fn random_events_never_leak_quota_or_block_a_workload() {
    let mut admitted = 0;
    for seed in 0..SEEDS {
        let mut dice = Dice(seed);
        let case = world(&mut dice);
        let [mut calm, mut troubled] = [World::of(&case), World::of(&case)];
        let mut secs = 0;
        let mut story = Vec::new();
        for _ in 0..EVENTS {
            secs += i64::try_from(dice.below(90)).expect("a small number");
            let step = tree!({"at": secs, "do": (event(&mut dice, &calm, secs))});
            story.push(step.to_json());
            let says = || format!("seed {seed}: {story:#?}");
            calm.play(&step, Crash::Never);
            troubled.play(&step, Crash::AfterEachWrite);
            assert_lawful(&calm, &says());
            assert_eq!(calm.workload, troubled.workload, "{}", says());
            admitted += u32::from(calm.facts().is_admitted());
        }
        let has_chance =
            |world: &World| is_schedulable(&world.facts(), world.now) || world.facts().is_admitted();
        let found = (0..ROUNDS_MAX).any(|_| {
            secs += 4000;
            good_luck(&mut calm, secs);
            has_chance(&calm)
        });
        assert!(found, "it waits for nothing: seed {seed}: {story:#?}\n{}", calm.workload.to_yaml());
    }
    assert!(admitted > 100, "the stories are about something");
}
