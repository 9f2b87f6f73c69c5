//! Scenarios: run in a world with any faults and any seed, and must hold their invariants.

use std::time::Duration;

use muster_api::client::{ApiObject, Kind};
use muster_api::kinds;
use muster_api::{job::JobFacts, meta};
use muster_node::control_plane::ControllerOptions;
use muster_sim::{Faults, World, heartbeat};

use crate::{
    crowd, devices, edits, gangs, garbage, jobsets, lasting, nodes, policies, processes, training, volumes,
    worlds,
};

/// Runs a scenario with these faults; the seed is for a random generator of its own. Panics if an invariant fails.
pub type Plays = Box<dyn Fn(&mut World, Faults, u64) + Send + Sync>;

/// Controller settings for a seed.
pub type Tells = Box<dyn Fn(u64) -> ControllerOptions + Send + Sync>;

pub struct Scenario {
    /// Its name, a sentence.
    pub says: String,
    /// Number of simulated nodes.
    pub nodes: usize,
    /// Controller settings by seed; `None` for the defaults.
    pub told: Option<Tells>,
    pub plays: Plays,
}

impl Scenario {
    /// A scenario of one function.
    pub fn new(says: &str, nodes: usize, plays: fn(&mut World, Faults, u64)) -> Scenario {
        Scenario { says: says.to_owned(), nodes, told: None, plays: Box::new(plays) }
    }

    /// The world it runs in.
    pub fn world(&self, seed: u64) -> World {
        match &self.told {
            Some(told) => World::with_settings(seed, self.nodes, told(seed)),
            None => World::new(seed, self.nodes),
        }
    }
}

pub fn all() -> Vec<Scenario> {
    let parts = [
        policies::scenarios(),
        lasting::scenarios(),
        edits::scenarios(),
        worlds::scenarios(),
        garbage::scenarios(),
        nodes::scenarios(),
        processes::scenarios(),
        crowd::scenarios(),
        devices::scenarios(),
        gangs::scenarios(),
        volumes::scenarios(),
        jobsets::scenarios(),
        training::scenarios(),
    ];
    parts.into_iter().flatten().collect()
}

pub fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// The object of this name, wherever it is.
pub fn find(world: &World, kind: &Kind, name: &str) -> Option<ApiObject> {
    world.list(kind).into_iter().find(|it| meta::name(&it.tree) == name)
}

/// What is to be known of the Job of this name.
pub fn job_facts(world: &World, name: &str) -> JobFacts {
    let job = find(world, &kinds::JOBS, name);
    JobFacts::of(&job.unwrap_or_else(|| panic!("no job {name}")).tree)
}

/// Nothing is written any more, except that nodes are alive.
pub fn falls_quiet(world: &mut World) {
    is_quiet_for(world, minutes(10));
}

/// Nothing is written for so long, except that nodes are alive.
pub fn is_quiet_for(world: &mut World, time: Duration) {
    world.writes();
    world.run(Faults::none(), time);
    let writes = world.writes();
    let others: Vec<_> = writes.iter().filter(|(resource, _)| **resource != heartbeat()).collect();
    assert!(others.is_empty(), "a steady world writes nothing but leases: {others:?}");
}
