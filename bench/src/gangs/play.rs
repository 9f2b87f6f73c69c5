//! Plays a scene and takes the time of each decision.

use std::time::Duration;

use muster_api::time::Time;
use muster_scheduler::{
    GroupKey, GroupOutcome, GroupReadiness, GroupStatus, Pod, PodKey, Scheduler, SchedulingOutcome, Stats,
};
use muster_tree::{Text, Tree};

use super::scene::{Scene, gang_name};
use crate::measure::{Moment, Took};

/// The simulated time until victims are deleted and no backoff is left, in microseconds.
const MINUTE: i64 = 60_000_000;
/// Passes of a round: a gang has its nodes, is refused, or waits for victims and then has its nodes.
const PASSES: usize = 2;

/// A line of the table.
pub struct Row {
    pub scene: Scene,
    /// What was decided about, where a scene has two lines.
    pub pass: Pass,
    /// CPU time to add all pods to the scheduler.
    pub feed: Duration,
    /// Of each decision, CPU time, sorted.
    pub cpu: Vec<Duration>,
    /// Of each decision, time on the clock, sorted.
    pub wall: Vec<Duration>,
    pub placed: usize,
    pub refused: usize,
    pub evicted: usize,
    /// How placing went, in all passes.
    pub stats: Stats,
}

/// When decisions were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Only,
    Choosing,
    Placing,
}

impl Row {
    /// CPU time for each pod that was decided about.
    pub fn micros_per_pod(&self) -> f64 {
        self.cpu.iter().sum::<Duration>().as_secs_f64() * 1e6 / (self.placed + self.refused) as f64
    }
}

/// Decisions of one pass over all rounds.
#[derive(Default)]
struct Tally {
    cpu: Vec<Duration>,
    wall: Vec<Duration>,
    placed: usize,
    refused: usize,
    evicted: usize,
}

impl Tally {
    fn add(&mut self, took: &Took, outcome: &GroupOutcome) {
        self.cpu.push(took.cpu);
        self.wall.push(took.wall);
        self.placed += outcome.scheduled.len();
        self.refused += outcome.unschedulable.len();
        self.evicted += outcome.victims.len();
    }
}

pub fn play(scene: &Scene) -> Vec<Row> {
    let mut scheduler = Scheduler::default();
    (0..scene.nodes).for_each(|n| scheduler.update_node(Scene::node(n)));
    let mut stage = Stage { scheduler, now: Time(0), tallies: Default::default(), feed: Duration::ZERO };
    (0..scene.rounds).for_each(|round| stage.round(scene, round));
    let stats = stage.scheduler.stats();
    let made_room = !stage.tallies[1].cpu.is_empty();
    let passes = [if made_room { Pass::Choosing } else { Pass::Only }, Pass::Placing];
    let feed = stage.feed;
    let row = |(mut tally, pass): (Tally, Pass)| {
        tally.cpu.sort_unstable();
        tally.wall.sort_unstable();
        let Tally { cpu, wall, placed, refused, evicted } = tally;
        Row { scene: *scene, pass, feed, cpu, wall, placed, refused, evicted, stats }
    };
    stage.tallies.into_iter().zip(passes).map(row).filter(|row| !row.cpu.is_empty()).collect()
}

struct Stage {
    scheduler: Scheduler,
    now: Time,
    tallies: [Tally; PASSES],
    feed: Duration,
}

impl Stage {
    fn round(&mut self, scene: &Scene, round: usize) {
        let tenants = self.settle(scene);
        let gangs = round * scene.gangs..(round + 1) * scene.gangs;
        let names: Vec<GroupKey> = gangs.clone().map(|gang| of_default(gang_name(gang))).collect();
        let members: Vec<Vec<Tree>> =
            gangs.map(|gang| (0..scene.each).map(|member| scene.member(gang, member)).collect()).collect();
        let began = Moment::now();
        for (name, members) in names.iter().zip(&members) {
            self.scheduler.update_group(name, GroupReadiness::Ready(scene.gang()));
            members.iter().for_each(|tree| _ = self.come(tree, Some(name.clone())));
        }
        self.feed += began.took().cpu;
        for pass in 0..PASSES {
            let victims = self.decide(pass);
            if victims.is_empty() {
                break;
            }
            victims.iter().for_each(|pod| self.scheduler.delete_pod(pod));
            self.now = Time(self.now.0 + MINUTE);
        }
        members.iter().flatten().for_each(|tree| self.scheduler.delete_pod(&key_of(tree)));
        names.iter().for_each(|name| self.scheduler.delete_group(name));
        for (pod, group) in tenants {
            self.scheduler.delete_pod(&pod);
            group.iter().for_each(|group| self.scheduler.delete_group(group));
        }
    }

    /// Puts the pods on the nodes that are there before, and says which they are.
    fn settle(&mut self, scene: &Scene) -> Vec<(PodKey, Option<GroupKey>)> {
        let mut all = Vec::new();
        for (tree, group) in scene.tenants() {
            let group = group.map(of_default);
            if let Some(group) = &group {
                self.scheduler.update_group(group, GroupReadiness::Ready(scene.tenant_group()));
            }
            all.push((self.come(&tree, group.clone()), group));
        }
        all
    }

    fn come(&mut self, tree: &Tree, group: Option<GroupKey>) -> PodKey {
        let pod = Pod { group, ..Pod::of(tree, &["s"]) };
        self.scheduler.update_pod(&pod);
        pod.key
    }

    /// Schedules until no pod is pending; returns the victims.
    fn decide(&mut self, pass: usize) -> Vec<PodKey> {
        let mut victims = Vec::new();
        loop {
            let began = Moment::now();
            let decisions = self.scheduler.schedule(1, self.now);
            let took = began.took();
            let Some(decision) = decisions.into_iter().next() else { return victims };
            let SchedulingOutcome::Group(outcome) = decision.outcome else { continue };
            if matches!(outcome.status, GroupStatus::Held(_)) {
                continue;
            }
            self.tallies[pass].add(&took, &outcome);
            victims.extend(outcome.victims);
        }
    }
}

fn of_default(name: Text) -> GroupKey {
    ("default".into(), name)
}

fn key_of(pod: &Tree) -> PodKey {
    (pod.text_at(&["metadata", "namespace"]), pod.text_at(&["metadata", "name"]))
}
