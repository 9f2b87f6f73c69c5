//! Every scenario of the YAML folders as a test of its own: found by its name, counted and failing alone.
//!
//! A [`Suite`] is the scenarios of one dialect on one plane. `tests/scenarios/main.rs` gives its cases to the test harness.
//!
//! # Guarantees
//!
//! - A plane is started by the first case that needs it, shared by all others that do, and ends with the last of them.
//! - What can only be judged over all cases of a suite (an entry of a list that nothing needed, too few requests) is judged
//!   when the last one ended, and only if all of them ran and passed.

mod corpus;
mod differential;
mod gangs;
mod jobsets;
mod lives;
pub mod names;
mod placements;
mod planes;
mod played;
mod random;
mod run;
mod second;
mod simulated;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clients::note;
use crate::limits::{Limit, Stream};
use crate::real;

pub use run::{Outcome, Run, Stop};

/// What a case does.
type Play = Box<dyn Fn(&Run) -> Result<(), Stop> + Send>;
/// Judges a suite whose cases have all ended; returns lines for the notes, or what is wrong with the suite as a whole.
type Finish = Box<dyn Fn(&Summary) -> Result<Vec<String>, String> + Send + Sync>;

/// Cases that are judged together.
pub struct Suite {
    /// The dialect, and the plane where the dialect has a suite for each.
    label: String,
    cases: Vec<Case>,
    finish: Finish,
}

/// One scenario on one plane, or over all planes that it compares.
pub struct Case {
    name: String,
    limit: &'static Limit,
    /// Why it cannot run here.
    skip: Option<String>,
    play: Play,
}

/// How the cases of a suite ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// All cases that the suite has, chosen or not.
    pub total: usize,
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed.
    pub failed: usize,
    /// Cases that cannot run here.
    pub skipped: usize,
    /// Second tries that cases needed.
    pub second_tries: usize,
}

impl Summary {
    /// Whether every case of the suite ran and passed.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.passed == self.total
    }

    fn add(&mut self, outcome: &Outcome, second_tries: usize) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
        self.second_tries += second_tries;
    }
}

impl Case {
    fn new(
        name: String,
        limit: &'static Limit,
        skip: Option<String>,
        play: impl Fn(&Run) -> Result<(), Stop> + Send + 'static,
    ) -> Case {
        Case { name, limit, skip, play: Box::new(play) }
    }
}

/// What is wrong with suites as a whole.
pub type Problems = Arc<Mutex<Vec<String>>>;

/// A suite whose cases are under way.
struct UnderWay {
    label: String,
    finish: Finish,
    /// Cases that have not ended, and what came of the others.
    state: Mutex<(usize, Summary)>,
    problems: Problems,
}

impl UnderWay {
    fn ended(&self, outcome: &Outcome, second_tries: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        state.1.add(outcome, second_tries);
        let (left, summary) = *state;
        drop(state);
        if left == 0 {
            self.finish(&summary);
        }
    }

    fn finish(&self, summary: &Summary) {
        let Summary { total, passed, failed, skipped, second_tries } = summary;
        note(&format!(
            "{}: {passed} of {total} scenarios passed, {failed} failed, {skipped} skipped; {second_tries} second tries",
            self.label
        ));
        match (self.finish)(summary) {
            Ok(lines) => lines.iter().for_each(|line| note(&format!("{}: {line}", self.label))),
            Err(problem) => {
                let problem = format!("{}: {problem}", self.label);
                self.problems.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
            }
        }
    }
}

/// A case that will run.
pub struct Chosen {
    case: Case,
    suite: Arc<UnderWay>,
}

impl Chosen {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.case.name
    }

    /// Waits for a slot of its group and runs it.
    #[must_use]
    pub fn run(self) -> Outcome {
        let Case { name, limit, skip, play } = &self.case;
        let (outcome, second_tries) = match skip {
            Some(reason) => (run::skipped(name, reason), 0),
            None => {
                let _slot = limit.take();
                run::play(name, play)
            }
        };
        self.suite.ended(&outcome, second_tries);
        outcome
    }
}

/// The suites of all dialects.
///
/// # Errors
/// Scenarios that cannot be read.
pub fn all() -> Result<Vec<Suite>, String> {
    let suites = [
        jobsets::suites()?,
        lives::suites()?,
        gangs::suites()?,
        played::suites()?,
        quiet_pair()?,
        placements::suites(),
        corpus::suites()?,
        simulated::suites()?,
    ];
    Ok(suites.into_iter().flatten().collect())
}

/// Both compare answers alone, and share a pair of planes.
fn quiet_pair() -> Result<Vec<Suite>, String> {
    let pair = differential::pair();
    Ok(vec![differential::suite(&pair)?, random::suite(&pair)?])
}

/// The cases whose names are chosen, in the order in which they start; and where suites report what is wrong with them.
pub fn choose(suites: Vec<Suite>, is_chosen: impl Fn(&str) -> bool) -> (Vec<Chosen>, Problems) {
    let problems = Problems::default();
    let mut all = Vec::new();
    for Suite { label, mut cases, finish } in suites {
        let total = cases.len();
        cases.retain(|case| is_chosen(&case.name));
        let state = Mutex::new((cases.len(), Summary { total, ..Summary::default() }));
        let suite = Arc::new(UnderWay { label, finish, state, problems: problems.clone() });
        all.extend(cases.into_iter().map(|case| Chosen { case, suite: suite.clone() }));
    }
    (interleaved(all), problems)
}

/// Cases of one stream keep their order, so that few planes are there at the same time; the streams advance alike, so that
/// no thread waits for a slot of one stream while slots of another are free.
fn interleaved(cases: Vec<Chosen>) -> Vec<Chosen> {
    let mut counts: BTreeMap<Stream, usize> = BTreeMap::new();
    for case in &cases {
        *counts.entry(case.case.limit.stream()).or_default() += 1;
    }
    let mut seen: BTreeMap<Stream, usize> = BTreeMap::new();
    let mut placed: Vec<(f64, Chosen)> = cases
        .into_iter()
        .map(|case| {
            let stream = case.case.limit.stream();
            let at = seen.entry(stream).or_default();
            *at += 1;
            (*at as f64 / counts[&stream] as f64, case)
        })
        .collect();
    placed.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    placed.into_iter().map(|(_, case)| case).collect()
}

/// Why no real plane can be had here, if so: none can be started and none is given.
fn real_missing() -> Option<String> {
    if std::env::var_os("REAL").is_some() { None } else { real::missing() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::limits::{EMBEDDED, REAL};

    fn case(name: &str, limit: &'static Limit, outcome: Result<(), &'static str>) -> Case {
        Case::new(name.to_owned(), limit, None, move |_| outcome.map_err(Stop::from))
    }

    fn suite(cases: Vec<Case>) -> Suite {
        let finish = |summary: &Summary| {
            if summary.is_whole() { Err("it is whole".to_owned()) } else { Ok(Vec::new()) }
        };
        Suite { label: "a suite".to_owned(), cases, finish: Box::new(finish) }
    }

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let suites = all().unwrap();
        let names: Vec<&str> = suites.iter().flat_map(|it| &it.cases).map(|it| it.name.as_str()).collect();
        let mut seen = BTreeSet::new();
        let twice: Vec<&&str> = names.iter().filter(|name| !seen.insert(**name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    /// Fewer cases than these of a dialect show too little.
    #[test]
    fn no_dialect_has_lost_its_scenarios() {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for case in all().unwrap().iter().flat_map(|it| &it.cases) {
            let dialect = case.name.split('/').next().unwrap_or_default().to_owned();
            *counts.entry(dialect).or_default() += 1;
        }
        for (dialect, min) in [
            ("jobsets", 400),
            ("lives", 190),
            ("gangs", 560),
            ("queues", 530),
            ("trains", 530),
            ("differential", 110),
            ("random", 48),
            ("placements", 31),
            ("corpus", 15),
        ] {
            let count = counts.get(dialect).copied().unwrap_or(0);
            assert!(count >= min, "{dialect}: {count} of at least {min}");
        }
    }

    #[test]
    fn a_suite_is_judged_when_all_its_cases_have_passed() {
        let ended = |chosen: fn(&str) -> bool, last: Result<(), &'static str>| {
            let cases = vec![case("a", &EMBEDDED, Ok(())), case("b", &EMBEDDED, last)];
            let (cases, problems) = choose(vec![suite(cases)], chosen);
            cases.into_iter().for_each(|case| drop(case.run()));
            problems.lock().unwrap().clone()
        };
        assert_eq!(ended(|_| true, Ok(())), ["a suite: it is whole"]);
        assert!(ended(|name| name == "a", Ok(())).is_empty());
        assert!(ended(|_| true, Err("it fails")).is_empty());
    }

    #[test]
    fn streams_advance_alike_and_keep_their_order() {
        let names =
            |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        let of = |names: &[String], limit: &'static Limit| -> Vec<Case> {
            names.iter().map(|name| case(name, limit, Ok(()))).collect()
        };
        let suites = vec![suite(of(&names("e", 4), &EMBEDDED)), suite(of(&names("r", 2), &REAL))];
        let (cases, _) = choose(suites, |_| true);
        let order: Vec<&str> = cases.iter().map(Chosen::name).collect();
        assert_eq!(order, ["e0", "e1", "r0", "e2", "e3", "r1"]);
    }
}
