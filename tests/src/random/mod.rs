//! Random sequences of writes, the same to both servers: POST, PUT, the four patch types, applies by several managers
//! and status writes on one object, with so few keys and values that they meet.
//!
//! # Invariants
//!
//! - A sequence is a function of its kind and its seed. A seed that showed a difference shows it again.
//! - What differs is made shorter before it is shown, and shown as a scenario that may be kept in `tests/scenarios`.

mod chance;
mod patch;
mod sequence;
mod shape;

use std::path::PathBuf;
use std::sync::Mutex;

use crate::differential::{Finding, Known, Scenario, Server, differences, known, play};

pub use chance::Chance;
pub use sequence::{Kind, kinds};
pub use shape::{Keyed, Shape};

/// How many sequences are played at the same time.
const LANES: usize = 4;

/// The two servers, and what may differ between them.
pub struct Bench<'a> {
    ours: &'a Server,
    real: &'a Server,
    known: Vec<Known>,
}

/// Where the kinds stand.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("random")
}

/// Creates the CRDs of the kinds that have one, on both servers.
pub fn define(ours: &Server, real: &Server, kinds: &[Kind]) -> Result<(), String> {
    for kind in kinds.iter().filter(|kind| kind.definition.is_some()) {
        let steps = kind.definition_steps();
        let make = Scenario { name: "definition".to_owned(), steps, ..Scenario::default() };
        for server in [ours, real] {
            play(server, &make, "definitions")?;
        }
    }
    Ok(())
}

impl<'a> Bench<'a> {
    /// Two servers that know the kinds (see [`define`]).
    pub fn new(ours: &'a Server, real: &'a Server) -> Result<Self, String> {
        let known = known(&folder().with_file_name("scenarios"))?;
        Ok(Self { ours, real, known })
    }

    /// Plays these seeds of each kind; one text for each that differs, and how many requests were compared.
    pub fn run(&self, kinds: &[Kind], seeds: &[u64]) -> Result<(Vec<String>, usize), String> {
        let all: Vec<(&Kind, u64)> = seeds.iter().flat_map(|seed| kinds.iter().map(|k| (k, *seed))).collect();
        let queue = Mutex::new(all.iter());
        let (problems, requests) = (Mutex::new(Vec::new()), Mutex::new(0));
        let lane = || -> Result<(), String> {
            let next = || queue.lock().expect("no lane panics while it holds the queue").next();
            while let Some((kind, seed)) = next() {
                *requests.lock().expect("no lane panics while it counts") += kind.sequence(*seed).steps.len();
                if let Some(text) = self.play(kind, *seed)? {
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

    /// Plays the sequence of one seed; the text of it if it differs.
    pub fn play(&self, kind: &Kind, seed: u64) -> Result<Option<String>, String> {
        let scenario = kind.sequence(seed);
        if self.differ(&scenario)?.is_empty() { Ok(None) } else { self.explain(kind, &scenario).map(Some) }
    }

    fn differ(&self, scenario: &Scenario) -> Result<Vec<Finding>, String> {
        let mut found = differences(self.ours, self.real, scenario)?;
        found.retain(|finding| !self.known.iter().any(|k| k.covers(&finding.scenario, &finding.difference)));
        Ok(found)
    }

    /// The shortest sequence that still differs, as a scenario to keep, and how it differs.
    fn explain(&self, kind: &Kind, scenario: &Scenario) -> Result<String, String> {
        let mut short = scenario.clone();
        // What comes after the first difference is not needed for it.
        let first = self.differ(&short)?.first().map_or(short.steps.len(), |finding| finding.step);
        short.steps.truncate(first);
        for at in (0..short.steps.len()).rev() {
            let mut shorter = short.clone();
            shorter.steps.remove(at);
            if !self.differ(&shorter)?.is_empty() {
                short = shorter;
            }
        }
        let found = self.differ(&short)?;
        let told = found.iter().map(|finding| format!("# step {}: {}", finding.step, finding.difference));
        let told = told.collect::<Vec<_>>().join("\n").replace('\n', "\n# ").replace("# # ", "# ");
        Ok(format!("{}{told}\n", kind.standing_alone(&short).to_yaml()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_sequence_again_and_another_seed_another() {
        for kind in kinds(&folder()).unwrap() {
            let text = |seed| kind.sequence(seed).to_yaml();
            assert_eq!(text(7), text(7), "{}", kind.name());
            assert_ne!(text(7), text(8), "{}", kind.name());
        }
    }
}
