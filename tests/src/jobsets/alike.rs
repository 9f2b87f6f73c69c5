//! Whether two embedded servers on which the same scenarios were played store the same.
//!
//! # Invariants
//!
//! - A scenario of which something else is stored is played again, on both: what chance did differs once, what the makers
//!   do differs every time. How often that was needed is told.

use std::collections::BTreeMap;

use super::{Place, SECOND, Scenario, Stores, Verdict, each, play, space, stores};
use crate::clients::note;
use crate::differential::{Difference, Server, compare_trees};
use crate::lives::LOOK_PAUSE;

/// How often a scenario is played again of which something else is stored.
const AGAIN_MAX: u32 = 2;
/// How often one looks until nothing changes any more.
const LOOKS: u32 = 5;

/// What differs between two stores, by namespace.
type Found = BTreeMap<String, Vec<Difference>>;

/// Compares both stores as a whole.
pub fn judge(local: &Server, outside: &Server, scenarios: &[Scenario]) -> Verdict {
    ("what two embedded servers store".to_owned(), compare(local, outside, scenarios))
}

fn compare(local: &Server, outside: &Server, scenarios: &[Scenario]) -> Result<Vec<Difference>, String> {
    let all = 0..scenarios.len();
    let stands = |n: &usize| scenarios[*n].chance.is_empty() && scenarios[*n].is_for(Place::Embedded);
    let (mut doubtful, left_out): (Vec<usize>, Vec<usize>) = all.partition(stands);
    let left_out: Vec<String> = left_out.into_iter().map(|n| space(n, 0)).collect();
    let counts = |name: &str| !name.ends_with(SECOND) && !left_out.iter().any(|it| it == name);
    let mut found = differences(local, outside, counts)?;
    let mut told = Vec::new();
    for round in 0..AGAIN_MAX {
        doubtful.retain(|n| found.contains_key(&space(*n, round)));
        let of = |n: &usize| found.get(&space(*n, round)).map(|it| titled(&scenarios[*n].name, it));
        doubtful.iter().filter_map(of).flatten().for_each(|it| eprintln!("stored otherwise: {it}"));
        // What belongs to no scenario cannot be played again.
        doubtful.iter().for_each(|n| drop(found.remove(&space(*n, round))));
        told.extend(found.iter().flat_map(|(name, all)| titled(name, all)));
        if doubtful.is_empty() {
            return Ok(told);
        }
        play_again(local, outside, scenarios, &doubtful, round + 1)?;
        let those: Vec<String> = doubtful.iter().map(|n| space(*n, round + 1)).collect();
        found = differences(local, outside, |name| those.iter().any(|it| it == name))?;
    }
    let last = |n: &usize| found.get(&space(*n, AGAIN_MAX)).map(|it| titled(&scenarios[*n].name, it));
    told.extend(doubtful.iter().filter_map(last).flatten());
    Ok(told)
}

fn titled(title: &str, found: &[Difference]) -> Vec<Difference> {
    let title = |it: &Difference| Difference { path: format!("{title}: {}", it.path), ..it.clone() };
    found.iter().map(title).collect()
}

/// Plays scenarios on both servers in new namespaces.
fn play_again(
    local: &Server,
    outside: &Server,
    scenarios: &[Scenario],
    those: &[usize],
    round: u32,
) -> Result<(), String> {
    note(&format!(
        "jobsets: {} scenarios played again, since chance may have stored something else",
        those.len()
    ));
    let played = each(those, |n| {
        let again = scenarios[n].once_more();
        let one = |server| play(server, &again, &space(n, round));
        std::thread::scope(|scope| {
            let here = scope.spawn(|| one(local));
            one(outside).and(here.join().unwrap_or_else(|_| Err("playing it panicked".to_owned())))
        })
    });
    played.into_iter().collect()
}

/// What still differs in the namespaces that `counts` when controllers had time to end what they began.
fn differences(local: &Server, outside: &Server, counts: impl Fn(&str) -> bool) -> Result<Found, String> {
    let mut found = Found::new();
    for _ in 0..LOOKS {
        found = compared(&stores(local)?, &stores(outside)?);
        found.retain(|name, _| counts(name));
        if found.is_empty() {
            break;
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(found)
}

fn compared(here: &Stores, there: &Stores) -> Found {
    let of = |stores: &Stores, name: &str| stores.get(name).cloned().unwrap_or_default();
    let spaces = here.keys().chain(there.keys());
    let all = spaces.map(|name| (name.clone(), compare_trees(&of(here, name), &of(there, name))));
    all.filter(|(_, found)| !found.is_empty()).collect()
}
