//! Gangs: one set of scenarios, played on the embedded server and on real ones with and without the kinds of their own.
//!
//! Everywhere the scheduler is ours: in `muster up`, and in an installed `muster operator` beside a real API server. The
//! nodes are simulated.
//!
//! # Invariants
//!
//! - Scenarios share a plane and never meet: each has a namespace and nodes of its own.
//! - That something has not happened is only looked at after something else has that comes later.

mod forms;
mod look;
mod objects;
pub(crate) mod planes;
mod scenario;
mod stage;

use std::path::{Path, PathBuf};

pub use forms::Form;
pub use planes::Playground;
pub use scenario::{Scenario, load};

use planes::Ground;
use stage::Stage;

/// Where the scenarios are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gangs")
}

/// Plays a scenario; `number` is its place among all scenarios, by which its nodes are named.
pub(crate) fn play(ground: &dyn Ground, number: usize, scenario: &Scenario) -> Result<(), String> {
    let stage = Stage::new(ground, number, scenario)?;
    for (n, step) in scenario.steps.iter().enumerate() {
        stage.perform(step).map_err(|why| format!("step {}: {step:?}: {why}", n + 1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_can_be_read_and_has_a_name_of_its_own() {
        let all = load(&folder()).unwrap();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
    }
}
