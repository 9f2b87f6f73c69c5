//! Plain pods in queues: one set of scenarios, played on the embedded server and on a real one with an installed operator.
//!
//! Scenarios are made of the steps of [`lives`](crate::lives), most of them in few words (`words`). Each has a namespace, a
//! queue, a ClusterQueue and a flavor of its own, so that all are played side by side.
//!
//! # Invariants
//!
//! - Nothing that belongs to no namespace is shared: it carries the name of the namespace of its scenario.
//! - What happens by the clock alone is waited for, never counted on.

mod planes;
mod scenario;
mod tenants;
mod words;

use std::path::{Path, PathBuf};

pub use planes::Playground;
pub use scenario::{Scenario, load};
pub use tenants::Space;

use crate::jobsets::{Place, each};
use crate::lives::act::Stage;

/// Where the scenarios are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("queues")
}

/// Plays all scenarios that this plane can play and whose name contains `filter`; how many, and what went wrong.
#[must_use]
pub fn judge(ground: &Playground, scenarios: &[Scenario], filter: &str) -> (usize, Vec<String>) {
    let is_chosen = |n: &usize| scenarios[*n].is_for(ground.place) && scenarios[*n].name.contains(filter);
    let chosen: Vec<usize> = (0..scenarios.len()).filter(is_chosen).collect();
    let played = each(&chosen, |n| {
        let played = play(ground, &scenarios[n], &format!("queue-{n}-{}", std::process::id()));
        played.map_err(|why| format!("{:?}: {}: {why}", ground.place, scenarios[n].name))
    });
    (chosen.len(), played.into_iter().filter_map(Result::err).collect())
}

fn play(ground: &Playground, scenario: &Scenario, namespace: &str) -> Result<(), String> {
    let stage = Stage::new(&ground.server, namespace, ("LocalQueue", "q"))?;
    stage.play(&scenario.objects(), &scenario.steps)
}

/// What scenarios are not played on a real plane, with the reasons.
#[must_use]
pub fn left_out(scenarios: &[Scenario]) -> Vec<String> {
    let absent = scenarios.iter().filter(|it| !it.is_for(Place::Real));
    absent.map(|it| format!("{:?}: {}", it.name, it.because)).collect()
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
