//! JobSets in scenarios: what the specification says of them, shown from outside over three makers of the port.
//!
//! A scenario says what it expects, step by step; each plane has to satisfy it on its own. What is left at the end is
//! compared as well, so that what no step speaks of is the same everywhere: two embedded servers, one that runs JobSets
//! itself and one beside which `muster operator` does, must store the very same (`stored`); with a real server all is
//! compared that does not depend on whose controllers are quicker (`picture`).

mod alike;
pub mod differs;
mod picture;
pub(crate) mod scenario;
mod stored;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_tree::Tree;

pub use scenario::{Gates, Place, Scenario, load};
pub use stored::{Stores, stores};

use crate::control_plane::ControlPlane;
use crate::differential::{Difference, Server, compare_trees};
use crate::lives::act::Stage;
use crate::lives::{LOOK_PAUSE, LOOKS_MAX, try_again, view};

/// Scenarios played at the same time: they mostly wait.
const AT_ONCE: usize = 16;

/// How the namespace of a scenario ends that is played once more because the planes differed: stores are compared by the
/// first one.
const SECOND: &str = "-second";

/// What a scenario came to: what differs between the planes, or why it could not be played.
pub type Verdict = (String, Result<Vec<Difference>, String>);

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

/// Plays scenarios over all makers. Each has a namespace of its own, with the same name everywhere.
#[must_use]
pub fn judge(makers: Makers<'_>, scenarios: &[Scenario]) -> Vec<Verdict> {
    let all: Vec<usize> = (0..scenarios.len()).collect();
    let played = each(&all, |n| compare(makers, &scenarios[n], &space(n, 0)));
    let mut verdicts: Vec<Verdict> = scenarios.iter().map(|it| it.name.clone()).zip(played).collect();
    try_again(&mut verdicts, |n| {
        compare(makers, &scenarios[n].once_more(), &format!("{}{SECOND}", space(n, 0)))
    });
    verdicts
        .into_iter()
        .chain(makers.outside.map(|outside| alike::judge(makers.local, outside, scenarios)))
        .collect()
}

/// The namespace of a scenario that is played for the first time, or once more.
fn space(n: usize, round: u32) -> String {
    let again = if round == 0 { String::new() } else { format!("-again-{round}") };
    format!("set-{n}-{}{again}", std::process::id())
}

/// What comes of each, several at once.
pub(crate) fn each<T: Send>(all: &[usize], play: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(n) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let came = play(*n);
                    done.lock().expect("no thread panics with it").push((*n, came));
                }
            });
        }
    });
    let mut all = done.into_inner().expect("no thread panics with it");
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, came)| came).collect()
}

fn compare(makers: Makers<'_>, scenario: &Scenario, namespace: &str) -> Result<Vec<Difference>, String> {
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
