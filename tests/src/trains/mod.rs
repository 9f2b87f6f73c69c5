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
use crate::gangs::planes::define_foreign;
use crate::played::{self, Playground, Scenario, Theme};

pub(crate) const THEME: Theme = Theme { subject: ("TrainJob", words::JOB), space: "train" };
/// What a real plane needs beside our operator.
const CONTROLLERS: [&str; 8] =
    ["gc", "namespace", "job", "podgc", "node", "volume", "resourceclaim", "podgroup"];

/// Where the scenarios are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("trains")
}

/// `muster up`, which also knows the groups of other schedulers.
pub fn embedded() -> Result<Playground, String> {
    let ground = Playground::embedded()?;
    define_foreign(&ground.server)?;
    Ok(ground)
}

/// A real server with its own scheduler and controllers of Jobs, volumes and claims, simulated nodes, and the operator as it is
/// installed.
pub fn real() -> Result<Playground, String> {
    Playground::real(&CONTROLLERS, |real| define_foreign(&real.server))
}

/// Plays all scenarios that this plane can play and whose name contains `filter`; how many, and what went wrong.
#[must_use]
pub fn judge(ground: &Playground, scenarios: &[Scenario], filter: &str) -> (usize, Vec<String>) {
    played::judge(ground, THEME, scenarios, filter)
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
