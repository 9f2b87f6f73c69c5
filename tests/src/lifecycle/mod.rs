//! Lifecycle differential: Jobs and other objects under our controllers and under the upstream ones, with the same simulated nodes.
//!
//! A scenario is a Job, or any objects, and steps; the upstream controllers define the expected result. Both control planes run it in a
//! namespace of its own. Afterwards everything that is deterministic is compared: a Job with its pods and events (`job_snapshot`), or
//! all objects (`namespace_snapshot`).

mod assertions;
pub(crate) mod job_snapshot;
pub(crate) mod jobset_shorthand;
pub(crate) mod namespace_snapshot;
pub(crate) mod objects;
mod scenario;
pub(crate) mod scenario_run;

use muster_tree::Tree;

pub use scenario::{LifecycleScenario, ScenarioStep, load};

use crate::differential::{ApiClient, Difference, compare_trees};

/// Comparisons before a difference counts: controllers may still be writing.
pub(crate) const RECOMPARES_MAX: u32 = 5;
/// Interval between two comparisons.
pub(crate) const RECOMPARE_INTERVAL: std::time::Duration = std::time::Duration::from_secs(2);

/// A scenario as it runs on our control plane, and on the real one.
pub type ScenarioPair = (LifecycleScenario, LifecycleScenario);

/// Runs a scenario on both control planes, in namespaces of this name, and returns the differences.
pub fn compare(
    ours: &ApiClient,
    real: &ApiClient,
    (scenario, real_life): &ScenarioPair,
    namespace: &str,
) -> Result<Vec<Difference>, String> {
    let both = |look: &(dyn Fn(&ApiClient, &LifecycleScenario) -> Result<Tree, String> + Sync)| {
        std::thread::scope(|scope| {
            let here = scope.spawn(|| look(ours, scenario));
            let there = look(real, real_life);
            (here.join().unwrap_or_else(|_| Err("the scenario panicked".to_owned())), there)
        })
    };
    let played = both(&|server, scenario| {
        scenario_run::run_scenario(server, scenario, namespace).map(|()| Tree::Null)
    });
    let mut found = combine(played)?;
    for _ in 0..RECOMPARES_MAX {
        found = combine(both(&|server, scenario| snapshot(server, scenario, namespace)))?;
        if found.is_empty() {
            break;
        }
        // Controllers of a loaded control plane may still be writing.
        std::thread::sleep(RECOMPARE_INTERVAL);
    }
    Ok(found)
}

/// Combines the results of both control planes.
fn combine(both: (Result<Tree, String>, Result<Tree, String>)) -> Result<Vec<Difference>, String> {
    match both {
        (Ok(here), Ok(there)) => Ok(compare_trees(&here, &there)),
        (Err(why), Ok(_)) => Err(format!("only ours fails: {why}")),
        (Ok(_), Err(why)) => Err(format!("only the real one fails: {why}")),
        (Err(why), Err(_)) => Err(format!("both fail: {why}")),
    }
}

/// Reads the objects after a scenario, once they are stable.
fn snapshot(server: &ApiClient, scenario: &LifecycleScenario, namespace: &str) -> Result<Tree, String> {
    let look = if scenario.objects.is_empty() {
        job_snapshot::job_snapshot
    } else {
        namespace_snapshot::namespace_snapshot
    };
    job_snapshot::wait_until_stable(|| look(server, namespace))
}
