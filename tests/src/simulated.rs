//! Scenarios on a simulated control plane: the embedded server, its controllers and its nodes in one thread, under a
//! virtual clock.
//!
//! # Guarantees
//!
//! - A scenario that waits for minutes takes milliseconds: time passes only while nothing else can happen.
//! - Each scenario has a plane of its own. The same scenario happens in the same way in every run.
//! - Requests are read and answered by the code that serves connections, without a connection.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use muster_jobset::Gates as SetGates;
use muster_sim::{Faults, Fleet, Raw, Setup, World, administrator};
use muster_tree::Tree;

use crate::control_plane::ControlPlane;
use crate::differential::{Answer, Step};
use crate::gangs::planes::{Ground, define_foreign, manifests, prepare};
use crate::gangs::{self, Form};
use crate::jobsets::{self, Gates, Place};
use crate::played::{self, Scenario, Theme};
use crate::{queued, trains};

/// As many nodes as the embedded plane of TrainJobs and queues has.
const NODES: usize = 30;
/// As many as that of JobSets has.
const JOBSET_NODES: usize = 100;
/// What the first seconds are for: nodes register and become ready, kinds are found, caches are filled.
const START: Duration = Duration::from_secs(5);
/// How long controllers have to find new kinds.
const DISCOVERY: Duration = Duration::from_secs(1);
/// The one seed: faults are the business of the simulator's own tests.
const SEED: u64 = 1;
/// The name of the client, as the HTTP client of scenarios says it.
const AGENT: &str = "judge/1";

/// A simulated control plane.
pub struct Simulated {
    world: RefCell<World>,
}

impl Simulated {
    /// One as `muster up` would be with so many simulated nodes, once all of them are ready.
    ///
    /// # Errors
    /// They do not become ready.
    pub fn start(nodes: Fleet, gates: SetGates) -> Result<Simulated, String> {
        let count = match &nodes {
            Fleet::Count(count) => *count,
            Fleet::Manifests(manifests) => manifests.len(),
        };
        let simulated = Simulated { world: RefCell::new(World::begin(SEED, Setup::up(SEED, nodes, gates))) };
        simulated.pause(START);
        let all = simulated.get("/api/v1/nodes")?.body;
        let ready = all.items_at(&["items"]).iter().filter(|node| is_ready(node)).count();
        if ready == count { Ok(simulated) } else { Err(format!("{ready} of {count} nodes are ready")) }
    }
}

fn is_ready(node: &Tree) -> bool {
    let is = |it: &Tree| it.str_at(&["type"]) == "Ready" && it.str_at(&["status"]) == "True";
    node.items_at(&["status", "conditions"]).iter().any(is)
}

impl ControlPlane for Simulated {
    fn send(&self, method: &str, path: &str, step: &Step, body: Vec<u8>) -> Result<Answer, String> {
        let content_type = if body.is_empty() { "" } else { step.content_type() };
        let raw = Raw { method, path, content_type, user_agent: AGENT, body: &body, user: administrator() };
        let answered = self.world.borrow_mut().request(&raw);
        let media = "application/json".to_owned();
        Ok(Answer { code: answered.code, warnings: answered.warnings, media, body: answered.body })
    }

    fn pause(&self, time: Duration) {
        self.world.borrow_mut().run(Faults::none(), time);
    }
}

/// A scenario of any dialect.
pub struct Case {
    /// The folder of the scenario.
    pub dialect: &'static str,
    /// The file of the scenario, without its number and extension.
    pub file: String,
    /// What it shows, as a sentence.
    pub name: String,
    play: Play,
}

type Play = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl Case {
    fn new<S: Send + Sync + 'static>(
        dialect: &'static str,
        (file, name): (&str, &str),
        scenario: S,
        play: fn(&S) -> Result<(), String>,
    ) -> Case {
        Case {
            dialect,
            file: file.to_owned(),
            name: name.to_owned(),
            play: Box::new(move || play(&scenario)),
        }
    }

    /// Plays it on a plane of its own.
    ///
    /// # Errors
    /// What does not come as it is written.
    pub fn play(&self) -> Result<(), String> {
        (self.play)()
    }
}

/// All scenarios that are played under virtual time.
///
/// # Errors
/// A file that cannot be read.
pub fn cases() -> Result<Vec<Case>, String> {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobsets");
    let here = |it: &Scenario| it.is_for(Place::Simulated);
    let trains = trains::load(&trains::folder())?.into_iter().filter(here);
    let queues = queued::load(&queued::folder())?.into_iter().filter(here);
    let sets = jobsets::load(&sets)?.into_iter().filter(|it| it.is_for(Place::Simulated));
    let gangs = gangs::load(&gangs::folder())?.into_iter().filter(|it| it.plays_on(Form::Embedded));
    let trains = trains.map(|it| Case::new("trains", (&it.file.clone(), &it.name.clone()), it, play_train));
    let queues = queues.map(|it| Case::new("queues", (&it.file.clone(), &it.name.clone()), it, play_queued));
    let sets = sets.map(|it| Case::new("jobsets", (&it.file.clone(), &it.name.clone()), it, play_jobset));
    let gangs = gangs.map(|it| Case::new("gangs", (&it.file.clone(), &it.name.clone()), it, play_gang));
    Ok(trains.chain(queues).chain(sets).chain(gangs).collect())
}

/// Plays a scenario of TrainJobs.
///
/// # Errors
/// What does not come as it is written.
pub fn play_train(scenario: &Scenario) -> Result<(), String> {
    let plane = Simulated::start(Fleet::Count(NODES), SetGates::default())?;
    define_foreign(&plane)?;
    // Controllers have found the new kinds before the scenario begins.
    plane.pause(DISCOVERY);
    play(&plane, trains::THEME, scenario)
}

/// Plays a scenario of plain pods in queues.
///
/// # Errors
/// What does not come as it is written.
pub fn play_queued(scenario: &Scenario) -> Result<(), String> {
    let plane = Simulated::start(Fleet::Count(NODES), SetGates::default())?;
    play(&plane, queued::THEME, scenario)
}

fn play(plane: &Simulated, theme: Theme, scenario: &Scenario) -> Result<(), String> {
    played::play(plane, theme, scenario, theme.space)
}

/// Plays a scenario of JobSets under the feature gates that it needs.
///
/// # Errors
/// What does not come as it is written.
pub fn play_jobset(scenario: &jobsets::Scenario) -> Result<(), String> {
    let plane = Simulated::start(Fleet::Count(JOBSET_NODES), set_gates(scenario.gates))?;
    jobsets::play(&plane, scenario, "set")
}

/// Plays a scenario of gangs, spelled as the embedded server spells them.
///
/// # Errors
/// What does not come as it is written.
pub fn play_gang(scenario: &gangs::Scenario) -> Result<(), String> {
    let nodes = Fleet::Manifests(manifests(0, scenario, false));
    let plane = Simulated::start(nodes, SetGates::default())?;
    prepare(&plane, Form::Embedded)?;
    // The scheduler has found the new kinds before the scenario begins: it would not wait for the groups of a pod otherwise.
    plane.pause(DISCOVERY);
    gangs::play(&plane, 0, scenario)
}

impl Ground for Simulated {
    fn plane(&self) -> &dyn ControlPlane {
        self
    }

    fn form(&self) -> Form {
        Form::Embedded
    }

    fn join(&self, number: usize, scenario: &gangs::Scenario) -> Result<(), String> {
        self.world.borrow_mut().add_nodes(manifests(number, scenario, true));
        Ok(())
    }
}

fn set_gates(gates: Gates) -> SetGates {
    let all = SetGates { in_place_restart: true, restart_job: true, elastic: true, claim_templates: true };
    match gates {
        Gates::Default => SetGates::default(),
        Gates::All => all,
        Gates::Claimless => SetGates { claim_templates: false, ..all },
    }
}
