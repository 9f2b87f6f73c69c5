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
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use forms::Form;
pub use planes::Playground;
pub use scenario::{Scenario, load};

use planes::Ground;
use stage::Stage;

/// Scenarios played at the same time on one plane: they mostly wait.
const AT_ONCE: usize = 8;

/// Where the scenarios are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gangs")
}

/// Plays all scenarios that this plane can play and whose name contains `filter`; how many, and what went wrong.
pub fn judge(ground: &Playground, scenarios: &[Scenario], filter: &str) -> (usize, Vec<String>) {
    let form = ground.form;
    let chosen: Vec<(usize, &Scenario)> = scenarios
        .iter()
        .enumerate()
        .filter(|(_, it)| it.plays_on(form) && it.name.contains(filter))
        .collect();
    let next = AtomicUsize::new(0);
    let wrong: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((number, scenario)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = play(ground, *number, scenario) {
                        let line = format!("{form:?}: {}: {why}", scenario.name);
                        wrong.lock().expect("no thread panics with it").push(line);
                    }
                }
            });
        }
    });
    (chosen.len(), wrong.into_inner().expect("no thread panics with it"))
}

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
