//! What can be played in a world, with any faults and any seed, and must come out right.

use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Kind, Object};
use muster_api::{job::JobFacts, meta};
use muster_node::plane::Told;
use muster_sim::{Faults, World, heartbeat};

use crate::{
    crowd, devices, edits, gangs, garbage, jobsets, lasting, nodes, policies, processes, training, volumes,
    worlds,
};

/// Plays in a world with these faults; the seed is for dice of its own. Panics when something comes out wrong.
pub type Plays = Box<dyn Fn(&mut World, Faults, u64) + Send + Sync>;

/// What controllers are told.
pub type Tells = Box<dyn Fn(u64) -> Told + Send + Sync>;

/// One thing that can happen.
pub struct Scenario {
    /// What, in a sentence.
    pub says: String,
    /// How many simulated nodes there are.
    pub nodes: usize,
    /// What controllers are told, by the seed; as always where nothing is said.
    pub told: Option<Tells>,
    /// How it goes.
    pub plays: Plays,
}

impl Scenario {
    /// A scenario of one function.
    pub fn new(says: &str, nodes: usize, plays: fn(&mut World, Faults, u64)) -> Scenario {
        Scenario { says: says.to_owned(), nodes, told: None, plays: Box::new(plays) }
    }

    /// The world in which it happens.
    pub fn world(&self, seed: u64) -> World {
        match &self.told {
            Some(told) => World::told(seed, self.nodes, told(seed)),
            None => World::new(seed, self.nodes),
        }
    }
}

/// Everything that can be played.
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

/// So many minutes.
pub fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// The object of this name, wherever it is.
pub fn find(world: &World, kind: &Kind, name: &str) -> Option<Object> {
    world.all(kind).into_iter().find(|it| meta::name(&it.tree) == name)
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
