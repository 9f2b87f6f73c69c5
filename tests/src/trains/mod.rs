//! TrainJobs: one set of scenarios, played on the embedded server and on a real one with an installed operator.
//!
//! # Invariants
//!
//! - Each scenario has a runtime of its own, so that what one changes is nobody else's.
//! - That something is not early is read off stored times; that something is late is nobody's fault.

mod crowd;
mod scenario;
mod words;

use std::path::{Path, PathBuf};

pub use crowd::{Crowd, Seen, seen};
pub use scenario::load;

use crate::differential::Server;
use crate::played::{self, Theme};

/// Steps are about the TrainJob of the scenario unless they name another object.
pub const THEME: Theme = Theme { subject: ("TrainJob", words::JOB), space: "train" };
/// Where the scenarios are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("trains")
}

/// Plays what a text describes, which may go on with what was played before in the same namespace.
pub fn play(server: &Server, text: &str, namespace: &str) -> Result<(), String> {
    played::play(server, THEME, &scenario::written(text)?, namespace)
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
