//! A number decides what is played; see [`crate::seeds`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use muster_sim::{FaultCounts, Faults, World};

use super::laws::Seen;
use super::{KINDS, Kind, NODES, TRAINED, Town};
use crate::scenario::Scenario;
use crate::seeds::{Sum, asked_for, is_all, note, number, of_seed, play, play_all, range};

/// Seeds in a plain `cargo test`.
const SEEDS: u64 = 64;
const SEEDS_TRAINED: u64 = 6;
/// So many that everything happens.
const MANY: u64 = 500;

/// What all worlds together came to.
#[derive(Default)]
struct Tally {
    seen: Seen,
    done: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn tell(&self) -> String {
        let rows = self.seen.rows().into_iter().chain(self.done.iter().map(|(what, count)| (*what, *count)));
        rows.map(|(what, count)| format!("  {what:<32} {count:>8}\n")).collect()
    }
}

fn scenarios(kinds: &[Kind], tally: &Arc<Mutex<Tally>>) -> Vec<Scenario> {
    let one = |kind: Kind| {
        let tally = tally.clone();
        let plays = move |world: &mut World, faults: Faults, seed: u64| {
            let mut town = Town::new(world, kind, seed);
            town.play(faults);
            let mut tally = tally.lock().unwrap();
            tally.seen += town.watch.seen;
            town.done.iter().for_each(|(what, count)| *tally.done.entry(*what).or_default() += count);
        };
        Scenario {
            says: kind.says.to_owned(),
            nodes: NODES,
            told: Some(Box::new(move |seed| kind.told(seed))),
            plays: Box::new(plays),
        }
    };
    kinds.iter().copied().map(one).collect()
}

#[test]
fn nothing_goes_wrong() {
    let all = [scenarios(&KINDS, &Arc::default()), scenarios(&TRAINED, &Arc::default())];
    for (seed, scenario) in (0..).zip(all.into_iter().flatten()) {
        let outcome = play(&scenario, seed, Faults::none());
        assert_eq!(outcome.problem, None, "{}", scenario.says);
        assert_eq!(outcome.happened, FaultCounts::default(), "{}", scenario.says);
    }
}

/// Quota does not drift: under any fault the counted usage equals the admitted usage, and no limit is exceeded.
#[test]
fn whatever_happens_nobody_has_more_than_there_is() {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let all = asked_for(scenarios(&KINDS, &tally));
    #[expect(clippy::disallowed_methods, reason = "tells how long real time it took; nothing depends on it")]
    let began = Instant::now();
    let seeds = range(SEEDS);
    let sum: Sum = play_all(&all, " queues", seeds.clone());
    let told = sum.tell(all.len(), began.elapsed().as_secs_f64());
    let tally = tally.lock().unwrap();
    println!("{told}{}", tally.tell());
    note(&told);
    assert!(sum.problems.is_empty(), "{}", sum.problems.join("\n\n"));
    if is_all(&seeds, MANY) {
        let rows: Vec<(&str, u64)> = sum.happened.rows().into_iter().chain(tally.seen.rows()).collect();
        assert!(rows.iter().all(|(_, count)| *count > 0), "everything did happen: {rows:?}");
    }
}

/// The same where TrainJobs are among what waits.
#[test]
fn whatever_happens_to_train_jobs_nobody_has_more_than_there_is() {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let all = asked_for(scenarios(&TRAINED, &tally));
    let sum: Sum = play_all(&all, " trained-queues", range(SEEDS_TRAINED));
    println!("{}", tally.lock().unwrap().tell());
    assert!(sum.problems.is_empty(), "{}", sum.problems.join("\n\n"));
}

#[test]
fn one_seed_is_one_world() {
    let all = scenarios(&KINDS, &Arc::default());
    let hash = |seed| play(of_seed(&all, seed), seed, Faults::of_seed(seed)).hash;
    assert_eq!(hash(7), hash(7));
}

#[test]
#[ignore = "plays the one seed that MUSTER_SEED says, for `cargo xtask sim queues --seed`"]
fn this_one() {
    play_one(&KINDS);
}

#[test]
#[ignore = "plays the one seed that MUSTER_SEED says, for `cargo xtask sim trained-queues --seed`"]
fn this_one_with_train_jobs() {
    play_one(&TRAINED);
}

#[expect(clippy::print_stdout, reason = "whoever asks for one seed reads what happened")]
fn play_one(kinds: &[Kind]) {
    let all = asked_for(scenarios(kinds, &Arc::default()));
    let seed = number("MUSTER_SEED").expect("MUSTER_SEED says which");
    let (scenario, faults) = (of_seed(&all, seed), Faults::of_seed(seed));
    let outcome = play(scenario, seed, faults);
    outcome.story.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {}\n{faults:?}", scenario.says);
    println!("{} writes, hash {:016x}", outcome.records, outcome.hash);
    assert_eq!(outcome.problem.as_deref().unwrap_or_default(), "", "seed {seed}, {}", scenario.says);
}
