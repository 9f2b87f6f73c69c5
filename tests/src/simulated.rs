//! Runs scenarios on a simulated control plane: the embedded server, its controllers and its nodes in one thread, under a virtual clock.
//!
//! # Guarantees
//!
//! - A scenario that waits for minutes takes milliseconds: time advances only while nothing else can happen.
//! - Each scenario has a control plane of its own and runs deterministically.
//! - Requests take the code path of HTTP connections, without a connection.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use muster_jobset::FeatureGates as SetGates;
use muster_sim::{Faults, InProcessRequest, NodeFleet, Setup, World, administrator};
use muster_tree::Tree;

use crate::control_plane::ControlPlane;
use crate::differential::{HttpAnswer, RequestStep};
use crate::gangs::environment::{GangControlPlane, create_foreign_crds, manifests, prepare};
use crate::gangs::{self, GangApiVariant};
use crate::jobsets::{self, Environment, GateSet};
use crate::scenario_runner::{self, Dialect, StepScenario};
use crate::{pod_queueing, trainjobs};

/// As many nodes as the embedded server of TrainJob and queue scenarios has.
const NODES: usize = 30;
/// As many nodes as the embedded server of JobSet scenarios has.
const JOBSET_NODES: usize = 100;
/// Startup time: nodes register and become ready, discovery runs, caches sync.
const START: Duration = Duration::from_secs(5);
/// Time for controllers to discover new CRDs.
const DISCOVERY: Duration = Duration::from_secs(1);
/// The only seed: fault injection belongs to the simulator's own tests.
const SEED: u64 = 1;
/// User agent, the same as that of the HTTP client of scenarios.
const AGENT: &str = "judge/1";

/// A simulated control plane.
pub struct SimulatedControlPlane {
    world: RefCell<World>,
}

impl SimulatedControlPlane {
    /// Starts the equivalent of `muster up` with these nodes and waits until all are ready.
    ///
    /// # Errors
    /// The nodes do not become ready.
    pub fn start(nodes: NodeFleet, gates: SetGates) -> Result<SimulatedControlPlane, String> {
        let count = match &nodes {
            NodeFleet::Count(count) => *count,
            NodeFleet::Manifests(manifests) => manifests.len(),
        };
        let simulated = SimulatedControlPlane {
            world: RefCell::new(World::from_setup(SEED, Setup::up(SEED, nodes, gates))),
        };
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

impl ControlPlane for SimulatedControlPlane {
    fn send(
        &self,
        method: &str,
        path: &str,
        step: &RequestStep,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, String> {
        let content_type = if body.is_empty() { "" } else { step.content_type() };
        let raw = InProcessRequest {
            method,
            path,
            content_type,
            user_agent: AGENT,
            body: &body,
            user: administrator(),
        };
        let answered = self.world.borrow_mut().request(&raw);
        let media = "application/json".to_owned();
        Ok(HttpAnswer { code: answered.code, warnings: answered.warnings, media, body: answered.body })
    }

    fn pause(&self, time: Duration) {
        self.world.borrow_mut().run(Faults::none(), time);
    }
}

/// A scenario of any dialect.
pub struct SimulatedCase {
    pub dialect: &'static str,
    /// File name without number and extension.
    pub file: String,
    /// What it proves, as a sentence.
    pub name: String,
    run: RunScenario,
}

type RunScenario = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl SimulatedCase {
    fn new<S: Send + Sync + 'static>(
        dialect: &'static str,
        (file, name): (&str, &str),
        scenario: S,
        run: fn(&S) -> Result<(), String>,
    ) -> SimulatedCase {
        SimulatedCase {
            dialect,
            file: file.to_owned(),
            name: name.to_owned(),
            run: Box::new(move || run(&scenario)),
        }
    }

    /// Runs the case on a new control plane.
    ///
    /// # Errors
    /// The failed step.
    pub fn run(&self) -> Result<(), String> {
        (self.run)()
    }
}

/// Reads all scenarios that run under virtual time.
///
/// # Errors
/// A file that cannot be read.
pub fn cases() -> Result<Vec<SimulatedCase>, String> {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobsets");
    let here = |it: &StepScenario| it.is_for(Environment::Simulated);
    let trains = trainjobs::load(&trainjobs::folder())?.into_iter().filter(here);
    let queues = pod_queueing::load(&pod_queueing::folder())?.into_iter().filter(here);
    let sets = jobsets::load(&sets)?.into_iter().filter(|it| it.is_for(Environment::Simulated));
    let gangs = gangs::load(&gangs::folder())?.into_iter().filter(|it| it.runs_on(GangApiVariant::Embedded));
    let trains = trains.map(|it| {
        SimulatedCase::new("trains", (&it.file.clone(), &it.name.clone()), it, run_trainjob_scenario)
    });
    let queues = queues
        .map(|it| SimulatedCase::new("queues", (&it.file.clone(), &it.name.clone()), it, run_pod_scenario));
    let sets = sets.map(|it| {
        SimulatedCase::new("jobsets", (&it.file.clone(), &it.name.clone()), it, run_jobset_scenario)
    });
    let gangs = gangs
        .map(|it| SimulatedCase::new("gangs", (&it.file.clone(), &it.name.clone()), it, run_gang_scenario));
    Ok(trains.chain(queues).chain(sets).chain(gangs).collect())
}

/// Runs a TrainJob scenario.
///
/// # Errors
/// The failed step.
pub fn run_trainjob_scenario(scenario: &StepScenario) -> Result<(), String> {
    let plane = SimulatedControlPlane::start(NodeFleet::Count(NODES), SetGates::default())?;
    create_foreign_crds(&plane)?;
    // Controllers must discover the new CRDs before the scenario starts.
    plane.pause(DISCOVERY);
    run(&plane, trainjobs::DIALECT, scenario)
}

/// Runs a scenario of plain pods in queues.
///
/// # Errors
/// The failed step.
pub fn run_pod_scenario(scenario: &StepScenario) -> Result<(), String> {
    let plane = SimulatedControlPlane::start(NodeFleet::Count(NODES), SetGates::default())?;
    run(&plane, pod_queueing::DIALECT, scenario)
}

fn run(plane: &SimulatedControlPlane, theme: Dialect, scenario: &StepScenario) -> Result<(), String> {
    scenario_runner::run_scenario(plane, theme, scenario, theme.space)
}

/// Runs a JobSet scenario under its feature gates.
///
/// # Errors
/// The failed step.
pub fn run_jobset_scenario(scenario: &jobsets::JobSetScenario) -> Result<(), String> {
    let plane = SimulatedControlPlane::start(NodeFleet::Count(JOBSET_NODES), set_gates(scenario.gates))?;
    jobsets::run_scenario(&plane, scenario, "set")
}

/// Runs a gang scenario with the embedded server's API.
///
/// # Errors
/// The failed step.
pub fn run_gang_scenario(scenario: &gangs::GangScenario) -> Result<(), String> {
    let nodes = NodeFleet::Manifests(manifests(0, scenario, false));
    let plane = SimulatedControlPlane::start(nodes, SetGates::default())?;
    prepare(&plane, GangApiVariant::Embedded)?;
    // The scheduler must discover the new CRDs before the scenario starts; otherwise it would not wait for the groups of pods.
    plane.pause(DISCOVERY);
    gangs::run_scenario(&plane, 0, scenario)
}

impl GangControlPlane for SimulatedControlPlane {
    fn plane(&self) -> &dyn ControlPlane {
        self
    }

    fn form(&self) -> GangApiVariant {
        GangApiVariant::Embedded
    }

    fn add_nodes(&self, number: usize, scenario: &gangs::GangScenario) -> Result<(), String> {
        self.world.borrow_mut().add_nodes(manifests(number, scenario, true));
        Ok(())
    }
}

fn set_gates(gates: GateSet) -> SetGates {
    let all = SetGates { in_place_restart: true, restart_job: true, elastic: true, claim_templates: true };
    match gates {
        GateSet::Default => SetGates::default(),
        GateSet::All => all,
        GateSet::Claimless => SetGates { claim_templates: false, ..all },
    }
}
