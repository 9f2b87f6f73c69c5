//! Random runs of users, kubelets, the queue and controller crashes.

use muster_tree::{Tree, tree};

use super::stories::create;
use super::world::{Lost, World};

const SEEDS: u64 = 200;
const ACTS: usize = 60;

/// A seeded random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const SETS: &str =
    "[{name: a},{name: bs,count: 2,template: {spec: {containers: [{name: c, requests: {cpu: 1}}]}}}]";

/// A pod of a random dialect; sometimes an invalid one.
fn short(mode: u64, dice: &mut Dice) -> Tree {
    let cpu = if dice.below(8) == 0 { "2" } else { "1" };
    let retriable = if dice.below(20) == 0 { "false" } else { "true" };
    let role = if dice.below(2) == 0 { "a" } else { "b" };
    let size = match mode {
        0 => tree!({}),
        1 => tree!({"group": "g", "count": (2 + u32::from(dice.below(20) == 0))}),
        2 => tree!({"group": "g", "total": 2}),
        3 => tree!({"group": "g", "total": 2, "fast": "true"}),
        4 => tree!({"group": "g", "roles": 2, "role": role, "roleCount": (if role == "a" { 1 } else { 2 })}),
        _ if role == "a" => tree!({"group": "g", "role": "a", "sets": SETS}),
        _ => tree!({"group": "g", "role": "b"}),
    };
    size.merge(&tree!({"cpu": cpu, "retriable": retriable}))
}

fn some(dice: &mut Dice, all: &[String]) -> Option<String> {
    let sides = u64::try_from(all.len()).ok().filter(|it| *it > 0)?;
    all.get(usize::try_from(dice.below(sides)).unwrap()).cloned()
}

fn act(world: &mut World, mode: u64, born: &mut u32, dice: &mut Dice) {
    let pods: Vec<String> = world.pods.keys().cloned().collect();
    let workloads: Vec<String> = world.workloads.keys().cloned().collect();
    let (pod, workload) = (some(dice, &pods), some(dice, &workloads));
    match (dice.below(17), pod, workload) {
        (0..=2, _, _) if pods.len() < 8 => {
            *born += 1;
            let short = short(mode, dice);
            create(world, &short, &[&format!("p{born}")]);
        }
        (3 | 4, _, _) => world.kubelet(),
        (5, Some(pod), _) if world.is_running(&pod) => world.end(&pod, "Succeeded"),
        (6, Some(pod), _) if world.is_running(&pod) => world.end(&pod, "Failed"),
        (7, Some(pod), _) => world.delete(&pod),
        (8 | 9, _, Some(workload)) => {
            world.admit(&workload, 99);
        }
        (10, _, Some(workload)) if world.workload(&workload).has_quota() && dice.below(3) == 0 => {
            world.tell(&workload, "Evicted", true, "Preempted", "for somebody");
        }
        (11, _, Some(workload)) if dice.below(8) == 0 => world.delete_workload(&workload),
        (12, _, _) if dice.below(3) == 0 => world.stall(),
        (13, _, _) => world.catch_up(),
        (14, _, _) => world.dies_before = Some(world.writes + usize::try_from(dice.below(4)).unwrap()),
        (15, _, _) => world.loses_next = Some(if dice.below(2) == 0 { Lost::Call } else { Lost::Reply }),
        _ => {
            world.look_once();
        }
    }
    world.check();
}

/// Whatever happens, never more pods run than were admitted, it becomes quiet, and once everything is deleted nothing
/// is stuck.
///
/// Shows: 976-52, 976-53, 976-63, 976-65.
#[test]
fn random_runs_never_over_admit_or_get_stuck() {
    for seed in 0..SEEDS {
        let mut dice = Dice(seed);
        let mode = dice.below(6);
        let (mut world, mut born) = (World::default(), 0);
        for _ in 0..ACTS {
            act(&mut world, mode, &mut born, &mut dice);
        }
        world.catch_up();
        world.dies_before = None;
        world.loses_next = None;
        world.settle();
        world.check();
        for round in 0..3 {
            world.pods.keys().cloned().collect::<Vec<_>>().iter().for_each(|pod| world.delete(pod));
            world.kubelet();
            world.now += 60;
            world.settle();
            if round == 1 && matches!(mode, 2 | 3) {
                // A stopped pod waits for its replacement; a user that wants none deletes the Workload.
                world
                    .workloads
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .iter()
                    .for_each(|it| world.delete_workload(it));
                world.settle();
            }
        }
        let left: Vec<&String> = world.pods.keys().chain(world.workloads.keys()).collect();
        assert!(left.is_empty(), "seed {seed}, mode {mode}: {left:?} are stuck: {:#?}", world.pods);
        assert!(!world.remembers(), "seed {seed}");
    }
}
