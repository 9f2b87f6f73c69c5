//! JobSets in scenarios: what the specification says of them, shown from outside over three makers of the port.
//!
//! A scenario says what it expects, step by step; each plane has to satisfy it on its own. What is left at the end is
//! compared as well, so that what no step speaks of is the same everywhere: two embedded servers, one that runs JobSets
//! itself and one beside which `muster operator` does, must store the very same (`stored`); with a real server all is
//! compared that does not depend on whose controllers are quicker (`picture`).

pub mod alike;
pub mod differs;
mod picture;
pub(crate) mod scenario;
mod stored;

use muster_tree::Tree;

pub use scenario::{Gates, Place, Scenario, load};
pub use stored::{Kinds, Stores};

use crate::control_plane::ControlPlane;
use crate::differential::{Difference, Server, compare_trees};
use crate::lives::act::Stage;
use crate::lives::{LOOK_PAUSE, LOOKS_MAX, view};

/// Where scenarios are played: one server for each maker of the port that the JobSet controller uses.
#[derive(Clone, Copy)]
pub struct Makers<'a> {
    /// The controller is in the process of the embedded server.
    pub local: &'a Server,
    /// The controller is beside an embedded server.
    pub outside: Option<&'a Server>,
    /// The controller is beside a real server.
    pub real: Option<&'a Server>,
}

/// Plays a scenario over all makers that it is for, in namespaces of this name; what differs between the embedded server and
/// the real one.
pub fn compare(makers: Makers<'_>, scenario: &Scenario, namespace: &str) -> Result<Vec<Difference>, String> {
    let embedded = |server| scenario.is_for(Place::Embedded).then(|| left(server, scenario, namespace));
    let real = makers.real.filter(|_| scenario.is_for(Place::Real));
    let (here, outside, there) = std::thread::scope(|scope| {
        let here = scope.spawn(|| embedded(makers.local));
        let outside = makers.outside.map(|outside| scope.spawn(move || embedded(outside)));
        let there = real.map(|real| left(real, scenario, namespace));
        let joined = |played: std::thread::ScopedJoinHandle<'_, _>| {
            played.join().unwrap_or_else(|_| Some(Err("playing it panicked".to_owned())))
        };
        (joined(here), outside.and_then(joined), there)
    });
    let failed =
        [("in process", &here), ("beside an embedded server", &outside), ("beside a real server", &there)];
    let failed = failed.into_iter().filter_map(|(place, played)| match played {
        Some(Err(why)) => Some(format!("{place}: {why}")),
        _ => None,
    });
    let failed = failed.collect::<Vec<_>>();
    match (here, there, real) {
        _ if !failed.is_empty() => Err(failed.join("\n  ")),
        (Some(Ok(here)), Some(Ok(there)), Some(real)) if scenario.chance.is_empty() => {
            looked_at_again(compare_trees(&here, &there), makers.local, real, namespace)
        }
        _ => Ok(Vec::new()),
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
pub fn play(plane: &dyn ControlPlane, scenario: &Scenario, namespace: &str) -> Result<(), String> {
    let stage = Stage::new(plane, namespace, scenario::SUBJECT)?;
    stage.play(&scenario.objects(), &scenario.steps)
}

/// Plays a scenario on one plane and returns what is left of it.
fn left(server: &Server, scenario: &Scenario, namespace: &str) -> Result<Tree, String> {
    play(server, scenario, namespace)?;
    view::settled(|| picture::picture(server, namespace))
}
