//! TrainJob scenarios (`tests/trains`), run on the embedded server and on a real one with an installed operator.
//!
//! # Invariants
//!
//! - Each scenario has its own runtime, so that changes do not affect others.
//! - Stored timestamps prove that an action is not early; a late action is not a failure.

mod deadline_load;
mod scenario;
mod shorthand;

use std::path::{Path, PathBuf};

pub use deadline_load::{DeadlineLoad, WatchedChange, watch_until_deleted};
pub use scenario::load;

use crate::differential::ApiClient;
use crate::scenario_runner::{self, Dialect};

/// Steps act on the TrainJob of the scenario unless they name another object.
pub const DIALECT: Dialect = Dialect { subject: ("TrainJob", shorthand::JOB), space: "train" };
/// The directory of the scenarios.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("trains")
}

/// Runs a scenario given as text, which may continue an earlier one in the same namespace.
pub fn run_scenario(server: &ApiClient, text: &str, namespace: &str) -> Result<(), String> {
    scenario_runner::run_scenario(server, DIALECT, &scenario::written(text)?, namespace)
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
