//! TrainJobs under faults and user actions.
//!
//! A story starts with TrainJobs, users act in each round, and then every TrainJob must reach the expected end.
//! `laws` reads everything that was ever written and says what must never have been.

mod laws;
mod stories;
mod strikes;
mod things;
mod times;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::{DeletionPropagation, Kind, RequestVerb, Uid};
use muster_api::gang_objects::{self, GangSupport};
use muster_api::train::TrainJobFacts;
use muster_api::train::consts::TRAIN_JOB;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS};
use muster_api::{kinds, meta};
use muster_control::training::{DeadlineClock, TrainJobControllerConfig};
use muster_node::control_plane::{ControllerOptions, TrainingOptions};
use muster_sim::{Faults, SeededRng, World};
use muster_tree::{Text, Tree, tree};

use crate::jobsets::Trouble;
use crate::scenario::{Scenario, find, is_quiet_for, minutes};
use laws::Laws;

/// Nodes of every story.
pub const NODES: usize = 2;
/// Rounds in which users do something.
const ROUNDS: u32 = 8;

/// TrainJobs, what users do to them, and how they end.
#[derive(Clone, Copy)]
pub struct Story {
    /// What, in a sentence.
    pub says: &'static str,
    /// From when on deadlines count.
    pub clock: DeadlineClock,
    /// What there is at first.
    pub begin: fn(&mut Stage<'_>),
    /// What users do in a round.
    pub user: fn(&mut Stage<'_>, u32),
    /// How long it takes from then on.
    pub takes: Duration,
    /// How it must have ended.
    pub end: fn(&mut Stage<'_>),
}

/// Where a story is played.
pub struct Stage<'a> {
    pub world: &'a mut World,
    pub dice: SeededRng,
    /// TrainJobs that users deleted.
    pub deleted: BTreeSet<Uid>,
}

/// The stories as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let one = |story: Story| {
        let plays = move |world: &mut World, faults: Faults, seed: u64| {
            perform(&story, world, Trouble::of(faults), seed);
        };
        Scenario {
            says: story.says.to_owned(),
            nodes: NODES,
            told: Some(Box::new(move |seed| told(story.clock, seed))),
            plays: Box::new(plays),
        }
    };
    stories::all().into_iter().map(one).collect()
}

/// Controller settings with TrainJobs.
pub fn told(clock: DeadlineClock, seed: u64) -> ControllerOptions {
    let settings = TrainJobControllerConfig { clock, ..TrainJobControllerConfig::default() };
    let entropy = Arc::new(SeededRng::new(seed ^ 0x7a11));
    ControllerOptions {
        training: Some(TrainingOptions { settings, entropy }),
        ..ControllerOptions::default()
    }
}

/// Runs a story to its end, deletes everything and checks that nothing is left.
pub fn perform(story: &Story, world: &mut World, trouble: Trouble, seed: u64) {
    let mut stage = Stage { world, dice: SeededRng::new(seed ^ 0x0007_2a14), deleted: BTreeSet::new() };
    for runtime in things::runtimes() {
        stage.world.create(&CLUSTER_TRAINING_RUNTIMES, &runtime).unwrap();
    }
    (story.begin)(&mut stage);
    for round in 0..ROUNDS {
        let time = Duration::from_millis(500 + stage.dice.next() % 3_000);
        stage.world.run(trouble.faults, time);
        (story.user)(&mut stage, round);
    }
    stage.world.run(trouble.faults, Duration::from_secs(20));
    stage.world.run(Faults::none(), story.takes);
    stage.obeyed(story.clock, trouble);
    settled(stage.world);
    (story.end)(&mut stage);
    is_quiet_for(stage.world, minutes(2));
    clear_away(&mut stage, story.clock, trouble);
}

/// Invariants of an idle world: deleted TrainJobs leave no objects, and nothing runs past `activeDeadlineSeconds`.
fn settled(world: &World) {
    let jobs = world.list(&TRAIN_JOBS);
    for kind in made_kinds() {
        for (name, owner) in made(world, kind) {
            let job = jobs.iter().find(|it| meta::uid(&it.tree) == owner);
            let job = job.unwrap_or_else(|| panic!("{} {name} has lost its TrainJob", kind.plural));
            let overdue = TrainJobFacts::of(&job.tree).status.is_overdue();
            assert!(!overdue || *kind != kinds::JOBSETS, "{name} was active for too long and has its JobSet");
        }
    }
    let sets: BTreeSet<Uid> = world.list(&kinds::JOBSETS).iter().map(|it| meta::uid(&it.tree)).collect();
    for job in world.list(&kinds::JOBS) {
        let owner = meta::controller_of(&job.tree).expect("all Jobs here are of JobSets").uid;
        assert!(sets.contains(&owner), "{} has lost its JobSet", meta::name(&job.tree));
    }
}

/// Kinds of the child objects of TrainJobs.
fn made_kinds() -> Vec<&'static Kind> {
    let gangs = gang_objects::kinds(GangSupport::default());
    [&kinds::JOBSETS, &kinds::CONFIG_MAPS, &kinds::SECRETS].into_iter().chain(gangs).collect()
}

/// All objects of a kind that a TrainJob controls: names and the UID of that.
fn made(world: &World, kind: &Kind) -> Vec<(Text, Uid)> {
    let owned = world.list(kind).into_iter().filter_map(|it| {
        let owner = meta::controller_of(&it.tree).filter(|owner| owner.kind == TRAIN_JOB)?;
        Some((meta::name(&it.tree), owner.uid))
    });
    owned.collect()
}

/// Deletes all TrainJobs: nothing is left.
fn clear_away(stage: &mut Stage<'_>, clock: DeadlineClock, trouble: Trouble) {
    for job in stage.world.list(&TRAIN_JOBS) {
        stage.delete(&meta::name(&job.tree));
    }
    stage.world.run(trouble.faults, Duration::from_secs(20));
    stage.world.run(Faults::none(), minutes(2));
    stage.obeyed(clock, trouble);
    let world = &stage.world;
    for kind in [&TRAIN_JOBS, &kinds::JOBSETS, &kinds::JOBS, &kinds::PODS] {
        let left: Vec<Text> = world.list(kind).iter().map(|it| meta::name(&it.tree)).collect();
        assert!(left.is_empty(), "{} are left: {left:?}", kind.plural);
    }
    for kind in made_kinds() {
        assert_eq!(made(world, kind), [], "{} are left", kind.plural);
    }
    let services = world.list(&kinds::SERVICES);
    assert!(services.iter().all(|it| meta::controller_of(&it.tree).is_none()), "Services are left");
    is_quiet_for(stage.world, minutes(1));
}

impl Stage<'_> {
    /// Nothing was ever written that must not be, and what was counted is what happened.
    pub fn obeyed(&mut self, clock: DeadlineClock, trouble: Trouble) {
        let laws = Laws::new(clock, trouble, self.deleted.clone());
        let seen = laws.read(self.world.records());
        let is_exact = self.world.fault_counts().crashes == 0;
        let now = self.world.now();
        for (name, happened) in seen.counts() {
            let told = things::number(self.world.control(), name, now);
            assert!(
                told == happened || (!is_exact && told < happened),
                "{name}: {told}, and {happened} happened"
            );
        }
    }

    /// What is to be known of a TrainJob.
    pub fn facts(&self, name: &str) -> TrainJobFacts {
        let job = find(self.world, &TRAIN_JOBS, name);
        TrainJobFacts::of(&job.unwrap_or_else(|| panic!("no TrainJob {name}")).tree)
    }

    /// Whether a TrainJob is there.
    pub fn has(&self, name: &str) -> bool {
        find(self.world, &TRAIN_JOBS, name).is_some()
    }

    /// Creates a TrainJob of this runtime; rejected while one of the same name is terminating.
    pub fn submit(&mut self, name: &str, runtime: &str, spec: &Tree) {
        let _ = self.world.create(&TRAIN_JOBS, &things::job(name, runtime, spec));
    }

    /// Changes the spec of a TrainJob, if it is there.
    pub fn patch(&mut self, name: &str, spec: &Tree) {
        if let Some(job) = find(self.world, &TRAIN_JOBS, name) {
            self.world.send(&TRAIN_JOBS, &job.tree, RequestVerb::MergePatch(tree!({"spec": spec}))).unwrap();
        }
    }

    /// Deletes a TrainJob, what it owns first or afterwards.
    pub fn delete(&mut self, name: &str) {
        let cascade = if self.dice.one_in(2) {
            DeletionPropagation::Foreground
        } else {
            DeletionPropagation::Background
        };
        if let Some(job) = find(self.world, &TRAIN_JOBS, name) {
            self.deleted.insert(meta::uid(&job.tree));
            self.remove(&TRAIN_JOBS, &job.tree, cascade);
        }
    }

    pub fn remove(&mut self, kind: &Kind, object: &Tree, cascade: DeletionPropagation) {
        self.world
            .send(kind, object, RequestVerb::Delete { propagation_policy: cascade, grace_secs: None })
            .unwrap();
    }
}
