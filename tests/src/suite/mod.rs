//! Makes every scenario of the YAML directories a test with a name of its own.
//!
//! A [`Suite`] is the scenarios of one dialect in one environment. `tests/scenarios/main.rs` passes its cases to the test harness.
//!
//! # Guarantees
//!
//! - An environment is started by the first case that needs it, shared by all others, and stopped with the last of them.
//! - Checks over all cases of a suite (stale entries of a list, too few requests) run after its last case, and only if all of them ran
//!   and passed.

mod corpus;
mod differential;
mod gangs;
mod jobsets;
mod lifecycle;
pub mod names;
mod placements;
mod random;
mod retries;
mod run;
mod scenarios;
mod shared_environment;
mod simulated;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clients::note;
use crate::limits::{Limit, LimitStream};
use crate::real;

pub use run::{CaseError, CaseOutcome, CaseRun};

/// The body of a case.
type CaseFn = Box<dyn Fn(&CaseRun) -> Result<(), CaseError> + Send>;
/// Checks a suite after its last case; returns lines for the notes, or the problem of the suite as a whole.
type Finish = Box<dyn Fn(&SuiteSummary) -> Result<Vec<String>, String> + Send + Sync>;

/// Cases that are checked together.
pub struct Suite {
    /// Dialect, and environment if the dialect has several.
    label: String,
    cases: Vec<Case>,
    finish: Finish,
}

/// One scenario in one environment, or compared over several.
pub struct Case {
    name: String,
    limit: &'static Limit,
    skip: Option<String>,
    body: CaseFn,
}

/// Counts of a suite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SuiteSummary {
    /// All cases of the suite, selected or not.
    pub total: usize,
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Retries that cases needed.
    pub retries: usize,
}

impl SuiteSummary {
    #[must_use]
    pub fn all_passed(&self) -> bool {
        self.passed == self.total
    }

    fn add(&mut self, outcome: &CaseOutcome, retries: usize) {
        match outcome {
            CaseOutcome::Passed => self.passed += 1,
            CaseOutcome::Failed(_) => self.failed += 1,
            CaseOutcome::Skipped(_) => self.skipped += 1,
        }
        self.retries += retries;
    }
}

impl Case {
    fn new(
        name: String,
        limit: &'static Limit,
        skip: Option<String>,
        body: impl Fn(&CaseRun) -> Result<(), CaseError> + Send + 'static,
    ) -> Case {
        Case { name, limit, skip, body: Box::new(body) }
    }
}

/// Problems of suites as a whole.
pub type SuiteProblems = Arc<Mutex<Vec<String>>>;

/// A suite with running cases.
struct RunningSuite {
    label: String,
    finish: Finish,
    /// Number of unfinished cases, and the counts of the finished ones.
    state: Mutex<(usize, SuiteSummary)>,
    problems: SuiteProblems,
}

impl RunningSuite {
    fn case_finished(&self, outcome: &CaseOutcome, retries: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        state.1.add(outcome, retries);
        let (left, summary) = *state;
        drop(state);
        if left == 0 {
            self.finish(&summary);
        }
    }

    fn finish(&self, summary: &SuiteSummary) {
        let SuiteSummary { total, passed, failed, skipped, retries } = summary;
        note(&format!(
            "{}: {passed} of {total} scenarios passed, {failed} failed, {skipped} skipped; {retries} retries",
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

/// A case to run.
pub struct SelectedCase {
    case: Case,
    suite: Arc<RunningSuite>,
}

impl SelectedCase {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.case.name
    }

    /// Waits for a slot of the group and runs the case.
    #[must_use]
    pub fn run(self) -> CaseOutcome {
        let Case { name, limit, skip, body } = &self.case;
        let (outcome, retries) = match skip {
            Some(reason) => (run::skipped(name, reason), 0),
            None => {
                let _slot = limit.take();
                run::run_case(name, body)
            }
        };
        self.suite.case_finished(&outcome, retries);
        outcome
    }
}

/// The suites of all dialects.
///
/// # Errors
/// An invalid scenario.
pub fn all() -> Result<Vec<Suite>, String> {
    let suites = [
        jobsets::suites()?,
        lifecycle::suites()?,
        gangs::suites()?,
        scenarios::suites()?,
        response_comparisons()?,
        placements::suites(),
        corpus::suites()?,
        simulated::suites()?,
    ];
    Ok(suites.into_iter().flatten().collect())
}

/// Both compare only answers, and share a pair of servers.
fn response_comparisons() -> Result<Vec<Suite>, String> {
    let pair = differential::pair();
    Ok(vec![differential::suite(&pair)?, random::suite(&pair)?])
}

/// Returns the selected cases in start order, and the list to which suites add their problems.
pub fn select(suites: Vec<Suite>, is_chosen: impl Fn(&str) -> bool) -> (Vec<SelectedCase>, SuiteProblems) {
    let problems = SuiteProblems::default();
    let mut all = Vec::new();
    for Suite { label, mut cases, finish } in suites {
        let total = cases.len();
        cases.retain(|case| is_chosen(&case.name));
        let state = Mutex::new((cases.len(), SuiteSummary { total, ..SuiteSummary::default() }));
        let suite = Arc::new(RunningSuite { label, finish, state, problems: problems.clone() });
        all.extend(cases.into_iter().map(|case| SelectedCase { case, suite: suite.clone() }));
    }
    (interleaved(all), problems)
}

/// Cases of one stream keep their order, so that few environments run at the same time; the streams advance in parallel, so that no
/// thread waits for a slot of one stream while slots of another are free.
fn interleaved(cases: Vec<SelectedCase>) -> Vec<SelectedCase> {
    let mut counts: BTreeMap<LimitStream, usize> = BTreeMap::new();
    for case in &cases {
        *counts.entry(case.case.limit.stream()).or_default() += 1;
    }
    let mut seen: BTreeMap<LimitStream, usize> = BTreeMap::new();
    let mut placed: Vec<(f64, SelectedCase)> = cases
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

/// Returns the reason why there is no real server, if any: none can be started and none is configured.
fn real_cluster_unavailable() -> Option<String> {
    if std::env::var_os("REAL").is_some() { None } else { real::missing() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::limits::{EMBEDDED, REAL};

    fn case(name: &str, limit: &'static Limit, outcome: Result<(), &'static str>) -> Case {
        Case::new(name.to_owned(), limit, None, move |_| outcome.map_err(CaseError::from))
    }

    fn suite(cases: Vec<Case>) -> Suite {
        let finish = |summary: &SuiteSummary| {
            if summary.all_passed() { Err("all passed".to_owned()) } else { Ok(Vec::new()) }
        };
        Suite { label: "a suite".to_owned(), cases, finish: Box::new(finish) }
    }

    #[test]
    fn case_names_are_unique() {
        let suites = all().unwrap();
        let names: Vec<&str> = suites.iter().flat_map(|it| &it.cases).map(|it| it.name.as_str()).collect();
        let mut seen = BTreeSet::new();
        let twice: Vec<&&str> = names.iter().filter(|name| !seen.insert(**name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    /// Minimum number of cases per dialect.
    #[test]
    fn every_dialect_has_its_scenarios() {
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
    fn a_suite_is_checked_after_all_its_cases_passed() {
        let ended = |chosen: fn(&str) -> bool, last: Result<(), &'static str>| {
            let cases = vec![case("a", &EMBEDDED, Ok(())), case("b", &EMBEDDED, last)];
            let (cases, problems) = select(vec![suite(cases)], chosen);
            cases.into_iter().for_each(|case| drop(case.run()));
            problems.lock().unwrap().clone()
        };
        assert_eq!(ended(|_| true, Ok(())), ["a suite: all passed"]);
        assert!(ended(|name| name == "a", Ok(())).is_empty());
        assert!(ended(|_| true, Err("it fails")).is_empty());
    }

    #[test]
    fn streams_advance_in_parallel_and_keep_their_order() {
        let names =
            |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        let of = |names: &[String], limit: &'static Limit| -> Vec<Case> {
            names.iter().map(|name| case(name, limit, Ok(()))).collect()
        };
        let suites = vec![suite(of(&names("e", 4), &EMBEDDED)), suite(of(&names("r", 2), &REAL))];
        let (cases, _) = select(suites, |_| true);
        let order: Vec<&str> = cases.iter().map(SelectedCase::name).collect();
        assert_eq!(order, ["e0", "e1", "r0", "e2", "e3", "r1"]);
    }
}
