//! JobSets under faults and user actions.
//!
//! A story starts with JobSets, users act in each round, and then every JobSet must reach the expected end.
//! `history` reads everything that was ever written and says what must never have been.

mod budget;
mod gangs;
mod history;
mod sets;
mod stories;
mod strikes;

use std::time::Duration;

use muster_api::client::{DeletionPropagation, Kind, RequestVerb};
use muster_api::consts::jobset as words;
use muster_api::gang_objects::{self, GangSupport};
use muster_api::jobset::JobSetFacts;
use muster_api::{kinds, meta};
use muster_sim::{Faults, STALL_SECS_MAX, SeededRng, World};
use muster_tree::Text;

use crate::devices;
use crate::scenario::{Scenario, find, is_quiet_for, minutes};
use history::History;
pub use sets::{mounting, volume};

/// Nodes of every story.
pub const NODES: usize = 2;
/// Rounds in which users do something.
pub const ROUNDS: u32 = 10;

/// JobSets, what users do to them, and how they end.
#[derive(Clone, Copy)]
pub struct Story {
    /// What, in a sentence.
    pub says: &'static str,
    /// What there is at first.
    pub begin: fn(&mut Stage<'_>),
    /// What users do in a round.
    pub user: fn(&mut Stage<'_>, u32),
    /// What they do in the end, so that all can end.
    pub last: fn(&mut Stage<'_>),
    /// How it must have ended.
    pub end: fn(&mut Stage<'_>),
}

/// Where a story is played.
pub struct Stage<'a> {
    pub world: &'a mut World,
    pub dice: SeededRng,
    /// What a story remembers.
    pub notes: Vec<Text>,
}

/// What may happen in a story beside what users do.
#[derive(Clone, Copy)]
pub struct Trouble {
    pub faults: Faults,
    /// How long a change may stay unobserved.
    pub unseen: Duration,
    /// Whether requests of a crashed loop may be executed late: what they create is cleaned up, but it was created.
    pub late_calls: bool,
    /// How long it takes until nothing happens any more.
    pub calms: Duration,
}

impl Trouble {
    pub fn of(faults: Faults) -> Trouble {
        // A watch that stalls again before it is read is rare; thrice in a row it does not happen.
        let unseen = if faults == Faults::none() { 0 } else { 3 * STALL_SECS_MAX };
        Trouble { faults, unseen: Duration::from_secs(unseen), late_calls: false, calms: minutes(4) }
    }
}

/// The stories as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let one = |story: Story| {
        let plays = move |world: &mut World, faults: Faults, seed: u64| {
            perform(&story, world, Trouble::of(faults), seed);
        };
        Scenario { says: story.says.to_owned(), nodes: NODES, told: None, plays: Box::new(plays) }
    };
    stories::all().into_iter().map(one).collect()
}

/// Runs a story to its end, deletes everything and checks that nothing is left.
pub fn perform(story: &Story, world: &mut World, trouble: Trouble, seed: u64) {
    let dice = SeededRng::new(seed ^ 0x0070_b5e7);
    let mut stage = Stage { world, dice, notes: Vec::new() };
    (story.begin)(&mut stage);
    for round in 0..ROUNDS {
        let time = Duration::from_millis(500 + stage.dice.next() % 3_000);
        stage.world.run(trouble.faults, time);
        (story.user)(&mut stage, round);
    }
    (story.last)(&mut stage);
    stage.world.run(trouble.faults, Duration::from_secs(20));
    stage.world.run(Faults::none(), trouble.calms);
    History::new(trouble).read(stage.world.records());
    devices::Check::default().read(stage.world.records());
    settled(stage.world);
    (story.end)(&mut stage);
    is_quiet_for(stage.world, trouble.calms);
    clear_away(&mut stage, trouble);
}

/// What holds when nothing happens any more: no Job without its JobSet, none that works for one that has ended, no
/// claim without its Job.
fn settled(world: &World) {
    let sets = world.list(&kinds::JOBSETS);
    let jobs = world.list(&kinds::JOBS);
    for job in &jobs {
        let name = meta::name(&job.tree);
        let owner = meta::controller_of(&job.tree).expect("all Jobs here are of JobSets").uid;
        let set = sets.iter().find(|it| meta::uid(&it.tree) == owner);
        let set = JobSetFacts::of(&set.unwrap_or_else(|| panic!("{name} has lost its JobSet")).tree);
        let over = muster_api::job::JobFacts::of(&job.tree).finished_condition().is_some();
        assert!(
            over || set.status.terminal_condition().is_none(),
            "{name} works for a JobSet that has ended"
        );
        assert_eq!(meta::deletion_timestamp(&job.tree), None, "{name} does not go");
    }
    for claim in of_sets(world, &kinds::RESOURCE_CLAIMS) {
        let owner = claim.owner.as_ref().expect("claims of JobSets have owners");
        let job = jobs.iter().find(|it| meta::uid(&it.tree) == *owner);
        assert!(job.is_some(), "{} has lost its Job", claim.name);
    }
}

/// A child object of a JobSet.
pub struct Made {
    pub name: Text,
    /// The UID of its controller.
    pub owner: Option<Text>,
}

/// All objects of a kind that say they are of a JobSet.
pub fn of_sets(world: &World, kind: &Kind) -> Vec<Made> {
    let all = world.list(kind).into_iter().map(|it| it.tree);
    all.filter(|it| meta::label(it, words::NAME).is_some())
        .map(|it| Made { name: meta::name(&it), owner: meta::controller_of(&it).map(|owner| owner.uid) })
        .collect()
}

/// Deletes all JobSets: nothing is left but what is to be kept.
fn clear_away(stage: &mut Stage<'_>, trouble: Trouble) {
    for set in stage.world.list(&kinds::JOBSETS) {
        stage.delete(&meta::name(&set.tree));
    }
    stage.world.run(trouble.faults, Duration::from_secs(20));
    stage.world.run(Faults::none(), minutes(2));
    let world = &stage.world;
    for kind in [&kinds::JOBSETS, &kinds::JOBS, &kinds::PODS] {
        let left: Vec<Text> = world.list(kind).iter().map(|it| meta::name(&it.tree)).collect();
        assert!(left.is_empty(), "{} are left: {left:?}", kind.plural);
    }
    for kind in [&kinds::RESOURCE_CLAIMS, &kinds::PERSISTENT_VOLUME_CLAIMS] {
        let left: Vec<Made> = of_sets(world, kind);
        assert!(left.iter().all(|it| it.owner.is_none()), "{} are left", kind.plural);
    }
    for kind in gang_objects::kinds(GangSupport::default()) {
        let left: Vec<Text> = world.list(kind).iter().map(|it| meta::name(&it.tree)).collect();
        assert!(left.is_empty(), "{} are left: {left:?}", kind.plural);
    }
    let services = world.list(&kinds::SERVICES);
    assert!(services.iter().all(|it| meta::controller_of(&it.tree).is_none()), "Services are left");
    History::new(trouble).read(stage.world.records());
    is_quiet_for(stage.world, minutes(1));
}

impl Stage<'_> {
    /// Deletes a JobSet, its Jobs first or afterwards.
    pub fn delete(&mut self, name: &str) {
        let cascade = if self.dice.one_in(2) {
            DeletionPropagation::Foreground
        } else {
            DeletionPropagation::Background
        };
        if let Some(set) = find(self.world, &kinds::JOBSETS, name) {
            let act = RequestVerb::Delete { propagation_policy: cascade, grace_secs: None };
            self.world.send(&kinds::JOBSETS, &set.tree, act).unwrap();
        }
    }

    /// What is to be known of a JobSet.
    pub fn facts(&self, name: &str) -> JobSetFacts {
        let set = find(self.world, &kinds::JOBSETS, name);
        JobSetFacts::of(&set.unwrap_or_else(|| panic!("no JobSet {name}")).tree)
    }

    /// How a JobSet ended.
    pub fn terminal(&self, name: &str) -> Text {
        self.facts(name).status.terminal
    }
}
