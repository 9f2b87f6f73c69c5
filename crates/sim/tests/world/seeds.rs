//! A seed selects the scenario and the faults; each seed is reproducible.
//!
//! `cargo xtask sim` runs a thousand seeds in release mode and prints the faults. It sets these variables:
//! `MUSTER_SEEDS` (number of seeds), `MUSTER_SEEDS_FROM` (the first), `MUSTER_SEED` (only this one), `MUSTER_SIM_ONLY`
//! (scenarios whose name contains this), `MUSTER_SIM_STORY` (print the timeline).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use muster_sim::{FaultCounts, Faults};

use crate::scenario::{self, Scenario};

/// Seeds in `cargo test`: about twenty seconds on two cores in a debug build.
const SEEDS: u64 = 1_000;

/// The variable that chooses scenarios.
const ONLY: &str = "MUSTER_SIM_ONLY";

/// The result of one seed.
pub struct Outcome {
    pub hash: u64,
    pub happened: FaultCounts,
    pub records: usize,
    pub story: Vec<String>,
    pub problem: Option<String>,
}

/// A number from an environment variable.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The selected scenarios; all by default. With a selection a seed stands for another scenario than without.
pub fn asked_for(mut all: Vec<Scenario>) -> Vec<Scenario> {
    if let Ok(words) = std::env::var(ONLY) {
        all.retain(|it| it.says.contains(&words));
        assert!(!all.is_empty(), "no scenario says {words:?}");
    }
    all
}

/// The range of selected seeds.
pub fn range(many: u64) -> std::ops::Range<u64> {
    let from = number("MUSTER_SEEDS_FROM").unwrap_or(0);
    from..from + number("MUSTER_SEEDS").unwrap_or(many)
}

/// Whether all scenarios and seeds run, so that totals can be checked.
pub fn is_all(seeds: &std::ops::Range<u64>, many: u64) -> bool {
    std::env::var_os(ONLY).is_none() && seeds.end - seeds.start >= many
}

/// The scenario of a seed.
pub fn of_seed(all: &[Scenario], seed: u64) -> &Scenario {
    &all[usize::try_from(seed % all.len() as u64).unwrap()]
}

/// Runs one seed and catches a failure.
pub fn play(scenario: &Scenario, seed: u64, faults: Faults) -> Outcome {
    let mut world = scenario.world(seed);
    let played = catch_unwind(AssertUnwindSafe(|| (scenario.plays)(&mut world, faults, seed)));
    let problem = played.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("{}\nrefusals: {:#?}", text.unwrap_or_default(), world.recent_errors())
    });
    let story = if std::env::var_os("MUSTER_SIM_STORY").is_some() { world.timeline() } else { Vec::new() };
    Outcome {
        hash: world.hash(),
        happened: world.fault_counts(),
        records: world.records().len(),
        story,
        problem,
    }
}

/// What came of many seeds.
#[derive(Default)]
pub struct Sum {
    seeds: u64,
    records: usize,
    pub happened: FaultCounts,
    pub problems: Vec<String>,
}

impl Sum {
    fn add(&mut self, scenario: &Scenario, which: &str, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.records += outcome.records;
        self.happened += outcome.happened;
        if let Some(problem) = &outcome.problem {
            let only = std::env::var(ONLY).map(|words| format!(" --only '{words}'")).unwrap_or_default();
            let again = format!("play it again: cargo xtask sim{which} --seed {seed}{only} -v");
            self.problems.push(format!("seed {seed}, {}: {problem}\n{again}", scenario.says));
        }
    }

    pub fn tell(&self, scenarios: usize, took_secs: f64) -> String {
        let (seeds, records) = (self.seeds, self.records);
        let mut told = format!(
            "{seeds} seeds of {scenarios} scenarios, {records} writes, {} failed, {took_secs:.1} s\n",
            self.problems.len()
        );
        for (what, count) in self.happened.rows() {
            told += &format!("  {what:<32} {count:>8}\n");
        }
        told
    }
}

/// Plays seeds on all cores; `which` is the word by which `cargo xtask sim` plays one of them again.
pub fn play_all(all: &[Scenario], which: &str, seeds: std::ops::Range<u64>) -> Sum {
    let (next, sum) = (AtomicU64::new(seeds.start), Mutex::new(Sum::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let scenario = of_seed(all, seed);
                    let outcome = play(scenario, seed, Faults::of_seed(seed));
                    sum.lock().unwrap().add(scenario, which, seed, &outcome);
                }
            });
        }
    });
    sum.into_inner().unwrap()
}

/// Prints past the capture of libtest, which hides the output of passing tests.
pub fn note(text: &str) {
    use std::io::Write;
    if let Some(path) = std::env::var_os("MUSTER_TEST_NOTES") {
        let file = std::fs::File::options().create(true).append(true).open(path);
        writeln!(file.unwrap(), "sim: {}", text.lines().next().unwrap_or_default()).unwrap();
    }
}

#[test]
fn nothing_goes_wrong() {
    for scenario in scenario::all() {
        let outcome = play(&scenario, 1, Faults::none());
        assert_eq!(outcome.problem, None, "{}", scenario.says);
        assert_eq!(outcome.happened, FaultCounts::default(), "{}", scenario.says);
    }
}

#[test]
fn whatever_happens_all_comes_right_and_falls_quiet() {
    let all = asked_for(scenario::all());
    #[expect(clippy::disallowed_methods, reason = "tells how long real time it took; nothing depends on it")]
    let began = Instant::now();
    let seeds = range(SEEDS);
    let sum = play_all(&all, "", seeds.clone());
    let told = sum.tell(all.len(), began.elapsed().as_secs_f64());
    println!("{told}");
    note(&told);
    assert!(sum.problems.is_empty(), "{}", sum.problems.join("\n\n"));
    if is_all(&seeds, SEEDS) {
        let rows = sum.happened.rows();
        assert!(rows.iter().all(|(_, count)| *count > 0), "every fault did happen: {rows:?}");
    }
}

#[test]
fn one_seed_is_one_world() {
    let all = scenario::all();
    let hash = |seed| play(of_seed(&all, seed), seed, Faults::of_seed(seed)).hash;
    let first = hash(7);
    assert_eq!(first, hash(7), "in one process");
    assert_ne!(first, hash(7 + all.len() as u64), "the hash sees something");
    let me = std::env::current_exe().unwrap();
    for seed in [7, 20] {
        let mut other = std::process::Command::new(&me);
        other.args(["--exact", "seeds::this_one", "--ignored", "--nocapture"]);
        let output = other.env("MUSTER_SEED", seed.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let want = format!("hash {:016x}", hash(seed));
        assert!(said.contains(&want), "in another process: {want} not in {said}");
    }
}

#[test]
#[ignore = "plays the one seed that MUSTER_SEED says, for `cargo xtask sim --seed`"]
fn this_one() {
    let all = asked_for(scenario::all());
    let seed = number("MUSTER_SEED").expect("MUSTER_SEED says which");
    let (scenario, faults) = (of_seed(&all, seed), Faults::of_seed(seed));
    let outcome = play(scenario, seed, faults);
    outcome.story.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {}\n{faults:?}", scenario.says);
    println!("{} writes, hash {:016x}", outcome.records, outcome.hash);
    println!("{:?}", outcome.happened);
    assert_eq!(outcome.problem.as_deref().unwrap_or_default(), "", "seed {seed}, {}", scenario.says);
}
