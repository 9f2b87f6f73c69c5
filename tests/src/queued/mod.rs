//! Plain pods in queues: one set of scenarios, played on the embedded server and on a real one with an installed operator.
//!
//! Scenarios are made of the steps of [`lives`](crate::lives), most of them in few words (`words`). Each has a namespace, a
//! queue, a ClusterQueue and a flavor of its own, so that all are played side by side.
//!
//! # Invariants
//!
//! - Nothing that belongs to no namespace is shared: it carries the name of the namespace of its scenario.
//! - What happens by the clock alone is waited for, never counted on.

mod scenario;
mod tenants;
mod words;

use std::path::{Path, PathBuf};

pub use scenario::load;
pub use tenants::Space;

use crate::played::{self, Playground, Scenario, Theme};

pub(crate) const THEME: Theme = Theme { subject: ("LocalQueue", "q"), space: "queue" };
/// What a real plane needs beside our operator.
const CONTROLLERS: [&str; 6] = ["gc", "namespace", "job", "podgc", "node", "role"];

/// Where the scenarios are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("queues")
}

/// A real server with its own scheduler and controllers of Jobs, simulated nodes, and the operator as it is installed.
pub fn real() -> Result<Playground, String> {
    Playground::real(&CONTROLLERS, |_| Ok(()))
}

/// Plays all scenarios that this plane can play and whose name contains `filter`; how many, and what went wrong.
#[must_use]
pub fn judge(ground: &Playground, scenarios: &[Scenario], filter: &str) -> (usize, Vec<String>) {
    played::judge(ground, THEME, scenarios, filter)
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
