//! Runs scenarios against both servers and reports the differences.
//!
//! # Invariants
//!
//! - Each scenario has a namespace of its own on each server. Scenarios that also write cluster-scoped objects run sequentially; all
//!   others run in parallel.
//! - The report does not depend on the order in which scenarios finish.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::client::{ApiClient, HttpAnswer, run_scenario};
use super::compare::{Difference, KnownDifference, compare};
use super::normalise::Normaliser;
use super::scenario::{RequestScenario, RequestStep, load};

/// Scenarios that run in parallel: most of their time is spent waiting for watches to time out.
const LANES: usize = 4;
/// A run with fewer requests proves too little and fails.
const REQUESTS_MIN: usize = 200;
/// A run with fewer kinds proves too little and fails.
const KINDS_MIN: usize = 12;

/// A difference and the request that showed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub scenario: String,
    /// Step number, from 1.
    pub step: usize,
    pub call: String,
    pub difference: Difference,
}

/// Result of a run.
#[derive(Debug, Clone, Default)]
pub struct DifferentialReport {
    pub requests: usize,
    pub scenarios: usize,
    /// Resources that the requests addressed.
    pub kinds: BTreeSet<String>,
    /// Differences that the list of known differences covers.
    pub known: usize,
    /// Entries in that list.
    pub listed: usize,
    /// Entries that matched no difference.
    pub stale: Vec<KnownDifference>,
    /// Differences that are not listed.
    pub found: Vec<Finding>,
}

impl fmt::Display for DifferentialReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = "";
        for finding in &self.found {
            if finding.scenario != last {
                writeln!(f, "{}", finding.scenario)?;
                last = &finding.scenario;
            }
            writeln!(f, "  {}. {}\n    {}", finding.step, finding.call, finding.difference)?;
        }
        write!(
            f,
            "{} scenarios, {} requests over {} kinds compared; {} differences by {} listed reasons, {} new ones",
            self.scenarios,
            self.requests,
            self.kinds.len(),
            self.known,
            self.listed,
            self.found.len()
        )
    }
}

impl DifferentialReport {
    /// Fails on unlisted differences, on stale entries, and on a run that compared too little.
    pub fn check(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        if !self.found.is_empty() {
            problems.push("the servers differ".to_owned());
        }
        for known in &self.stale {
            let place = format!("{} {}", known.scenario, known.path);
            problems.push(format!(
                "differences.yaml lists {:?}, which no longer differs: delete the entry",
                place.trim()
            ));
        }
        if self.requests < REQUESTS_MIN || self.kinds.len() < KINDS_MIN {
            problems.push(format!("fewer than {REQUESTS_MIN} requests over {KINDS_MIN} kinds"));
        }
        if problems.is_empty() { Ok(()) } else { Err(format!("{self}\n{}", problems.join("\n"))) }
    }
}

/// Accumulates the results of scenarios and which listed differences they matched.
#[derive(Debug)]
pub struct DifferenceTally {
    report: DifferentialReport,
    known: Vec<KnownDifference>,
    /// Per listed difference: whether a scenario matched it.
    used: Vec<bool>,
}

impl DifferenceTally {
    /// Reads the list of known differences of a directory.
    pub fn new(folder: &Path) -> Result<DifferenceTally, String> {
        let known = known_differences(folder)?;
        let report = DifferentialReport { listed: known.len(), ..DifferentialReport::default() };
        Ok(DifferenceTally { report, used: vec![false; known.len()], known })
    }

    /// Adds the result of a scenario; returns its unlisted differences.
    pub fn add(&mut self, scenario: &RequestScenario, differences: Vec<Finding>) -> Vec<Finding> {
        let report = &mut self.report;
        report.scenarios += 1;
        report.requests += scenario.steps.len();
        report.kinds.extend(scenario.steps.iter().filter_map(RequestStep::resource));
        let mut new = Vec::new();
        for finding in differences {
            let covers = |i: &usize| self.known[*i].covers(&finding.scenario, &finding.difference);
            let covering: Vec<usize> = (0..self.known.len()).filter(covers).collect();
            covering.iter().for_each(|i| self.used[*i] = true);
            if covering.is_empty() {
                new.push(finding);
            } else {
                report.known += 1;
            }
        }
        report.found.extend(new.iter().cloned());
        new
    }

    #[must_use]
    pub fn report(&self) -> DifferentialReport {
        let stale = self.known.iter().zip(&self.used).filter(|(_, used)| !**used);
        DifferentialReport { stale: stale.map(|(known, _)| known.clone()).collect(), ..self.report.clone() }
    }
}

/// Runs the scenarios of a directory whose name contains `filter`.
pub fn compare_scenarios(
    ours: &ApiClient,
    real: &ApiClient,
    folder: &Path,
    filter: &str,
) -> Result<DifferentialReport, String> {
    let chosen: Vec<RequestScenario> =
        load(folder)?.into_iter().filter(|s| s.name.contains(filter)).collect();
    let mut tally = DifferenceTally::new(folder)?;
    for (scenario, differences) in chosen.iter().zip(run_all(ours, real, &chosen)) {
        tally.add(scenario, differences?);
    }
    Ok(tally.report())
}

/// Reads `differences.yaml` of a directory.
pub fn known_differences(folder: &Path) -> Result<Vec<KnownDifference>, String> {
    let list = folder.join("differences.yaml");
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    KnownDifference::load(&text)
}

type Outcome = Result<Vec<Finding>, String>;

/// Runs all scenarios, several at a time; returns the outcomes in the order of the scenarios.
fn run_all(ours: &ApiClient, real: &ApiClient, scenarios: &[RequestScenario]) -> Vec<Outcome> {
    let (inside, outside): (Vec<usize>, Vec<usize>) =
        (0..scenarios.len()).partition(|i| scenarios[*i].is_namespaced());
    // The sequential unit takes longest, so it starts first.
    let queue =
        Mutex::new([vec![outside], inside.into_iter().map(|i| vec![i]).collect()].concat().into_iter());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                let next = || queue.lock().expect("no lane panics while it holds the queue").next();
                while let Some(unit) = next() {
                    for i in unit {
                        let outcome = differences(ours, real, &scenarios[i]);
                        outcomes.lock().expect("no lane panics while it holds the list").push((i, outcome));
                    }
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no lane panicked");
    outcomes.sort_by_key(|(i, _)| *i);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs one scenario on both servers in parallel and returns all differences, listed or not.
pub fn differences(ours: &ApiClient, real: &ApiClient, scenario: &RequestScenario) -> Outcome {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let n = RUNS.fetch_add(1, Ordering::Relaxed);
    let namespace = |plane: &str| format!("{plane}-{}-{n}", std::process::id());
    let (here, there) = std::thread::scope(|scope| {
        let there = scope.spawn(|| answers(real, scenario, &namespace("real")));
        (answers(ours, scenario, &namespace("ours")), there.join().expect("a scenario does not panic"))
    });
    Ok(findings(scenario, &here?, &there?))
}

fn findings(scenario: &RequestScenario, ours: &[HttpAnswer], real: &[HttpAnswer]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (i, (step, (a, b))) in scenario.steps.iter().zip(ours.iter().zip(real)).enumerate() {
        let differences = compare(a, b).into_iter().filter(|d| !step.code_only || d.path == "code");
        found.extend(differences.map(|difference| Finding {
            scenario: scenario.name.clone(),
            step: i + 1,
            call: step.call.clone(),
            difference,
        }));
    }
    found
}

fn answers(
    server: &ApiClient,
    scenario: &RequestScenario,
    namespace: &str,
) -> Result<Vec<HttpAnswer>, String> {
    let mut normaliser = Normaliser::new(namespace);
    let played = run_scenario(server, scenario, namespace).map_err(|e| format!("{}: {e}", scenario.name))?;
    Ok(played.iter().map(|answer| normaliser.answer(answer)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enough() -> DifferentialReport {
        let kinds = (0..KINDS_MIN).map(|n| n.to_string()).collect();
        DifferentialReport { requests: REQUESTS_MIN, kinds, ..DifferentialReport::default() }
    }

    #[test]
    fn a_run_fails_on_too_few_requests_and_on_stale_entries() {
        assert_eq!(enough().check(), Ok(()));
        assert!(DifferentialReport { requests: REQUESTS_MIN - 1, ..enough() }.check().is_err());
        assert!(DifferentialReport { kinds: BTreeSet::new(), ..enough() }.check().is_err());
        let stale = KnownDifference::load("[{path: body.x, reason: r, clients: c}]").unwrap();
        let refusal = DifferentialReport { stale, ..enough() }.check().unwrap_err();
        assert!(refusal.contains("body.x"), "{refusal}");
    }
}
