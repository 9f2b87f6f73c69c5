//! Random sequences of writes, the same to both servers: POST, PUT, the four patch types, applies by several managers and status writes
//! on one object, with so few keys and values that they conflict.
//!
//! # Invariants
//!
//! - A sequence is a function of its kind and its seed, so a difference is reproducible.
//! - A failing sequence is shrunk, then printed as a scenario for `tests/scenarios`.

mod patch;
mod rng;
mod sequence;
mod shape;

use std::path::PathBuf;
use std::sync::Mutex;

use crate::differential::{
    ApiClient, Finding, KnownDifference, RequestScenario, differences, known_differences, run_scenario,
};

pub use rng::SeededRng;
pub use sequence::{RandomKind, kinds};
pub use shape::{KeyedList, ValueShape};

/// Sequences that run in parallel.
const LANES: usize = 4;

/// Two servers and the known differences between them.
pub struct RandomComparison<'a> {
    ours: &'a ApiClient,
    real: &'a ApiClient,
    known: Vec<KnownDifference>,
}

/// The directory of the kinds.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("random")
}

pub fn create_crds(ours: &ApiClient, real: &ApiClient, kinds: &[RandomKind]) -> Result<(), String> {
    for kind in kinds.iter().filter(|kind| kind.definition.is_some()) {
        let steps = kind.definition_steps();
        let make = RequestScenario { name: "definition".to_owned(), steps, ..RequestScenario::default() };
        for server in [ours, real] {
            run_scenario(server, &make, "definitions")?;
        }
    }
    Ok(())
}

impl<'a> RandomComparison<'a> {
    /// Uses two servers that serve the kinds (see [`create_crds`]).
    pub fn new(ours: &'a ApiClient, real: &'a ApiClient) -> Result<Self, String> {
        let known = known_differences(&folder().with_file_name("scenarios"))?;
        Ok(Self { ours, real, known })
    }

    /// Runs these seeds of each kind; returns one scenario per failing sequence, and the number of compared requests.
    pub fn run(&self, kinds: &[RandomKind], seeds: &[u64]) -> Result<(Vec<String>, usize), String> {
        let all: Vec<(&RandomKind, u64)> =
            seeds.iter().flat_map(|seed| kinds.iter().map(|k| (k, *seed))).collect();
        let queue = Mutex::new(all.iter());
        let (problems, requests) = (Mutex::new(Vec::new()), Mutex::new(0));
        let lane = || -> Result<(), String> {
            let next = || queue.lock().expect("no lane panics while it holds the queue").next();
            while let Some((kind, seed)) = next() {
                *requests.lock().expect("no lane panics while it counts") += kind.sequence(*seed).steps.len();
                if let Some(text) = self.run_seed(kind, *seed)? {
                    problems.lock().expect("no lane panics while it holds the list").push(text);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
            lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
        })?;
        let problems = problems.into_inner().expect("no lane panicked");
        Ok((problems, requests.into_inner().expect("no lane panicked")))
    }

    /// Runs the sequence of one seed; returns the shrunk scenario if the servers differ.
    pub fn run_seed(&self, kind: &RandomKind, seed: u64) -> Result<Option<String>, String> {
        let scenario = kind.sequence(seed);
        if self.new_differences(&scenario)?.is_empty() {
            Ok(None)
        } else {
            self.shrink(kind, &scenario).map(Some)
        }
    }

    fn new_differences(&self, scenario: &RequestScenario) -> Result<Vec<Finding>, String> {
        let mut found = differences(self.ours, self.real, scenario)?;
        found.retain(|finding| !self.known.iter().any(|k| k.covers(&finding.scenario, &finding.difference)));
        Ok(found)
    }

    /// Removes steps while the servers still differ, and formats the result as a scenario.
    fn shrink(&self, kind: &RandomKind, scenario: &RequestScenario) -> Result<String, String> {
        let mut short = scenario.clone();
        // Steps after the first difference cannot have caused it.
        let first = self.new_differences(&short)?.first().map_or(short.steps.len(), |finding| finding.step);
        short.steps.truncate(first);
        for at in (0..short.steps.len()).rev() {
            let mut shorter = short.clone();
            shorter.steps.remove(at);
            if !self.new_differences(&shorter)?.is_empty() {
                short = shorter;
            }
        }
        let found = self.new_differences(&short)?;
        let lines = found.iter().map(|finding| format!("# step {}: {}", finding.step, finding.difference));
        let lines = lines.collect::<Vec<_>>().join("\n").replace('\n', "\n# ").replace("# # ", "# ");
        Ok(format!("{}{lines}\n", kind.self_contained(&short).to_yaml()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_a_function_of_its_seed() {
        for kind in kinds(&folder()).unwrap() {
            let text = |seed| kind.sequence(seed).to_yaml();
            assert_eq!(text(7), text(7), "{}", kind.name());
            assert_ne!(text(7), text(8), "{}", kind.name());
        }
    }
}
