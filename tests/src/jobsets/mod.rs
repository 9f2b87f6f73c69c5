//! JobSet scenarios (`tests/jobsets`), run over three implementations of the API port.
//!
//! Every environment must satisfy the steps of a scenario on its own. The resulting objects are compared as well, which covers what no
//! step asserts: two embedded servers, one with the controller in process and one with `muster operator` beside it, must store equal
//! objects (`stored`); with a real server everything is compared that does not depend on the timing of its controllers (`snapshot`).

pub mod ignored_parts;
pub(crate) mod scenario;
mod snapshot;
pub mod store_comparison;
mod stored_objects;

use muster_tree::Tree;

pub use scenario::{Environment, GateSet, JobSetScenario, load};
pub use stored_objects::{ServedKinds, StoredObjects};

use crate::control_plane::ControlPlane;
use crate::differential::{ApiClient, Difference, compare_trees};
use crate::lifecycle::scenario_run::ScenarioRun;
use crate::lifecycle::{RECOMPARE_INTERVAL, RECOMPARES_MAX, job_snapshot};

/// One server per implementation of the API port that the JobSet controller uses.
#[derive(Clone, Copy)]
pub struct PortBackends<'a> {
    /// The controller runs in the process of the embedded server.
    pub local: &'a ApiClient,
    /// The controller runs in an operator beside an embedded server.
    pub outside: Option<&'a ApiClient>,
    /// The controller runs in an operator beside a real server.
    pub real: Option<&'a ApiClient>,
}

/// Runs a scenario on all its environments, in namespaces of this name; returns the differences between the embedded and the real server.
pub fn compare(
    makers: PortBackends<'_>,
    scenario: &JobSetScenario,
    namespace: &str,
) -> Result<Vec<Difference>, String> {
    let embedded = |server| {
        scenario.is_for(Environment::Embedded).then(|| run_and_snapshot(server, scenario, namespace))
    };
    let real = makers.real.filter(|_| scenario.is_for(Environment::Real));
    let (here, outside, there) = std::thread::scope(|scope| {
        let here = scope.spawn(|| embedded(makers.local));
        let outside = makers.outside.map(|outside| scope.spawn(move || embedded(outside)));
        let there = real.map(|real| run_and_snapshot(real, scenario, namespace));
        let joined = |played: std::thread::ScopedJoinHandle<'_, _>| {
            played.join().unwrap_or_else(|_| Some(Err("the scenario panicked".to_owned())))
        };
        (joined(here), outside.and_then(joined), there)
    });
    let failed =
        [("in process", &here), ("beside an embedded server", &outside), ("beside a real server", &there)];
    let failed = failed.into_iter().filter_map(|(place, played)| match played {
        Some(Err(why)) => Some(format!("{place}: {why}")),
        _ => None,
    });
    let failed = failed.collect::<Vec<_>>();
    match (here, there, real) {
        _ if !failed.is_empty() => Err(failed.join("\n  ")),
        (Some(Ok(here)), Some(Ok(there)), Some(real)) if scenario.chance.is_empty() => {
            recompare(compare_trees(&here, &there), makers.local, real, namespace)
        }
        _ => Ok(Vec::new()),
    }
}

/// Compares again while there are differences: controllers of a loaded server may still be writing.
fn recompare(
    mut found: Vec<Difference>,
    ours: &ApiClient,
    real: &ApiClient,
    namespace: &str,
) -> Result<Vec<Difference>, String> {
    let look = |server| job_snapshot::wait_until_stable(|| snapshot::snapshot(server, namespace));
    for _ in 0..RECOMPARES_MAX {
        if found.is_empty() {
            break;
        }
        std::thread::sleep(RECOMPARE_INTERVAL);
        found = compare_trees(&look(ours)?, &look(real)?);
    }
    Ok(found)
}

/// Runs a scenario on one control plane.
pub fn run_scenario(
    plane: &dyn ControlPlane,
    scenario: &JobSetScenario,
    namespace: &str,
) -> Result<(), String> {
    let stage = ScenarioRun::new(plane, namespace, scenario::SUBJECT)?;
    stage.run(&scenario.objects(), &scenario.steps)
}

/// Runs a scenario on one control plane and returns the resulting objects.
fn run_and_snapshot(server: &ApiClient, scenario: &JobSetScenario, namespace: &str) -> Result<Tree, String> {
    run_scenario(server, scenario, namespace)?;
    job_snapshot::wait_until_stable(|| snapshot::snapshot(server, namespace))
}
