//! Gang scheduling scenarios (`tests/gangs`): one set, run on the embedded server and on real servers with and without the upstream API.
//!
//! The scheduler is always ours: in `muster up`, or in an installed `muster operator` beside a real API server. The nodes are simulated.
//!
//! # Invariants
//!
//! - Scenarios share a control plane without interference: each has its own namespace and nodes.
//! - The absence of an effect is checked only after a later effect has been observed.

mod api_variant;
mod assertions;
pub(crate) mod environment;
mod objects;
mod scenario;
mod scenario_run;

use std::path::{Path, PathBuf};

pub use api_variant::GangApiVariant;
pub use environment::GangEnvironment;
pub use scenario::{GangScenario, load};

use environment::GangControlPlane;
use scenario_run::GangScenarioRun;

/// The directory of the scenarios.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gangs")
}

/// Runs a scenario; `number` is its index among all scenarios, which names its nodes.
pub(crate) fn run_scenario(
    environment: &dyn GangControlPlane,
    number: usize,
    scenario: &GangScenario,
) -> Result<(), String> {
    let stage = GangScenarioRun::new(environment, number, scenario)?;
    for (n, step) in scenario.steps.iter().enumerate() {
        stage.perform(step).map_err(|why| format!("step {}: {step:?}: {why}", n + 1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_valid_and_have_unique_names() {
        let all = load(&folder()).unwrap();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
    }
}
