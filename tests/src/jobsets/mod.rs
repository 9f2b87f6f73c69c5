//! JobSets in scenarios: what the specification says of them, shown from outside on both planes.
//!
//! A scenario says what it expects, step by step; each plane has to satisfy it on its own. What is left at the end is
//! compared between the planes as well, as far as it does not depend on chance and on the clock, so that what no step
//! speaks of is the same in both places.

mod picture;
mod scenario;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_tree::Tree;

pub use scenario::{Gates, Place, Scenario, load};

use crate::differential::{Difference, Server, compare_trees};
use crate::lives::act::Stage;
use crate::lives::{LOOK_PAUSE, LOOKS_MAX, view};

/// Scenarios played at the same time: they mostly wait.
const AT_ONCE: usize = 16;

/// What a scenario came to: what differs between the planes, or why it could not be played.
pub type Verdict = (String, Result<Vec<Difference>, String>);

/// Plays scenarios on our plane and, where there is one, on a real one. Each has a namespace of its own.
#[must_use]
pub fn judge(ours: &Server, real: Option<&Server>, scenarios: &[Scenario]) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let verdicts: Mutex<Vec<(usize, Verdict)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((n, scenario)) = take(scenarios, &next) {
                    let namespace = format!("set-{n}-{}", std::process::id());
                    let verdict = (scenario.name.clone(), compare(ours, real, scenario, &namespace));
                    verdicts.lock().expect("no thread panics with it").push((n, verdict));
                }
            });
        }
    });
    let mut all = verdicts.into_inner().expect("no thread panics with it");
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, verdict)| verdict).collect()
}

fn take<'a>(all: &'a [Scenario], next: &AtomicUsize) -> Option<(usize, &'a Scenario)> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    all.get(n).map(|scenario| (n, scenario))
}

fn compare(
    ours: &Server,
    real: Option<&Server>,
    scenario: &Scenario,
    namespace: &str,
) -> Result<Vec<Difference>, String> {
    let (here, there) = std::thread::scope(|scope| {
        let here = scope.spawn(|| scenario.is_for(Place::Embedded).then(|| left(ours, scenario, namespace)));
        let real = real.filter(|_| scenario.is_for(Place::Real));
        let there = real.map(|real| left(real, scenario, namespace));
        (here.join().unwrap_or_else(|_| Some(Err("playing it panicked".to_owned()))), there)
    });
    let here = here.transpose().map_err(|why| format!("on the embedded plane: {why}"));
    let there = there.transpose().map_err(|why| format!("on the real plane: {why}"));
    match (here, there) {
        (Ok(Some(here)), Ok(Some(there))) if scenario.chance.is_empty() => {
            let found = compare_trees(&here, &there);
            real.map_or(Ok(found.clone()), |real| looked_at_again(found, ours, real, namespace))
        }
        (Ok(_), Ok(_)) => Ok(Vec::new()),
        (Err(here), Err(there)) => Err(format!("{here}\n  {there}")),
        (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

/// What still differs when controllers of a busy plane had time to add something.
fn looked_at_again(
    mut found: Vec<Difference>,
    ours: &Server,
    real: &Server,
    namespace: &str,
) -> Result<Vec<Difference>, String> {
    let look = |server| view::settled(|| picture::picture(server, namespace));
    for _ in 0..LOOKS_MAX {
        if found.is_empty() {
            break;
        }
        std::thread::sleep(LOOK_PAUSE);
        found = compare_trees(&look(ours)?, &look(real)?);
    }
    Ok(found)
}

/// Plays a scenario on one plane.
pub fn play(server: &Server, scenario: &Scenario, namespace: &str) -> Result<(), String> {
    let stage = Stage::new(server, namespace, scenario::SUBJECT)?;
    stage.play(&scenario.objects(), &scenario.steps)
}

/// Plays a scenario on one plane and returns what is left of it.
fn left(server: &Server, scenario: &Scenario, namespace: &str) -> Result<Tree, String> {
    play(server, scenario, namespace)?;
    view::settled(|| picture::picture(server, namespace))
}
