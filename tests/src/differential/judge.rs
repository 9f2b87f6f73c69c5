//! Plays scenarios on both servers and gathers the verdict.
//!
//! # Invariants
//!
//! - Each scenario has a namespace of its own on each server. Those that also touch what has no namespace are played
//!   one after the other; all others share the remaining lanes.
//! - The report does not depend on which scenario ended first.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::compare::{Difference, Known, compare};
use super::normalise::Normaliser;
use super::play::{Answer, Server, play};
use super::scenario::{Scenario, Step, load};

/// How many scenarios are played at the same time: most of their time is spent waiting for watches to end.
const LANES: usize = 4;
/// The fewest requests that make a verdict.
const REQUESTS_MIN: usize = 200;
/// The fewest kinds that make a verdict.
const KINDS_MIN: usize = 12;

/// One difference, and where it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The scenario's name.
    pub scenario: String,
    /// The step, counted from 1.
    pub step: usize,
    /// The request.
    pub call: String,
    /// What differs.
    pub difference: Difference,
}

/// What came out.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Requests sent to each server.
    pub requests: usize,
    /// Scenarios played.
    pub scenarios: usize,
    /// Resources the requests were about.
    pub kinds: BTreeSet<String>,
    /// Differences that stand in the list of known ones.
    pub known: usize,
    /// Entries of that list.
    pub listed: usize,
    /// Entries of that list that covered nothing.
    pub stale: Vec<Known>,
    /// Every other difference.
    pub found: Vec<Finding>,
}

impl fmt::Display for Report {
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

impl Report {
    /// What the suite as a whole is held to: nothing new, nothing listed in vain, and enough of it.
    pub fn verdict(&self) -> Result<(), String> {
        let mut problems = Vec::new();
        if !self.found.is_empty() {
            problems.push("the servers differ".to_owned());
        }
        for known in &self.stale {
            let place = format!("{} {}", known.scenario, known.path);
            problems
                .push(format!("differences.yaml lists {:?}, which differs no more: remove it", place.trim()));
        }
        if self.requests < REQUESTS_MIN || self.kinds.len() < KINDS_MIN {
            problems.push(format!("fewer than {REQUESTS_MIN} requests over {KINDS_MIN} kinds"));
        }
        if problems.is_empty() { Ok(()) } else { Err(format!("{self}\n{}", problems.join("\n"))) }
    }
}

/// Adds up what scenarios came to, and which of the listed differences they showed.
#[derive(Debug)]
pub struct Tally {
    report: Report,
    known: Vec<Known>,
    /// For each listed difference, whether a scenario showed it.
    used: Vec<bool>,
}

impl Tally {
    /// With the differences that this folder lists.
    pub fn new(folder: &Path) -> Result<Tally, String> {
        let known = known(folder)?;
        let report = Report { listed: known.len(), ..Report::default() };
        Ok(Tally { report, used: vec![false; known.len()], known })
    }

    /// Adds a scenario that was played; returns those of its differences that are not listed.
    pub fn add(&mut self, scenario: &Scenario, differences: Vec<Finding>) -> Vec<Finding> {
        let report = &mut self.report;
        report.scenarios += 1;
        report.requests += scenario.steps.len();
        report.kinds.extend(scenario.steps.iter().filter_map(Step::resource));
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

    /// What all of them came to.
    #[must_use]
    pub fn report(&self) -> Report {
        let stale = self.known.iter().zip(&self.used).filter(|(_, used)| !**used);
        Report { stale: stale.map(|(known, _)| known.clone()).collect(), ..self.report.clone() }
    }
}

/// Plays the scenarios of a folder whose name contains `filter`.
pub fn judge(ours: &Server, real: &Server, folder: &Path, filter: &str) -> Result<Report, String> {
    let chosen: Vec<Scenario> = load(folder)?.into_iter().filter(|s| s.name.contains(filter)).collect();
    let mut tally = Tally::new(folder)?;
    for (scenario, differences) in chosen.iter().zip(play_all(ours, real, &chosen)) {
        tally.add(scenario, differences?);
    }
    Ok(tally.report())
}

/// The differences that stay, as a folder lists them.
pub fn known(folder: &Path) -> Result<Vec<Known>, String> {
    let list = folder.join("differences.yaml");
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    Known::load(&text)
}

type Outcome = Result<Vec<Finding>, String>;

/// Plays all of them, several at a time; the outcomes in the order of the scenarios.
fn play_all(ours: &Server, real: &Server, scenarios: &[Scenario]) -> Vec<Outcome> {
    let (inside, outside): (Vec<usize>, Vec<usize>) =
        (0..scenarios.len()).partition(|i| scenarios[*i].stays_inside());
    // The long one first.
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

/// Plays one scenario on both servers at the same time; what differs, listed or not.
pub fn differences(ours: &Server, real: &Server, scenario: &Scenario) -> Outcome {
    static PLAYED: AtomicUsize = AtomicUsize::new(0);
    let n = PLAYED.fetch_add(1, Ordering::Relaxed);
    let namespace = |plane: &str| format!("{plane}-{}-{n}", std::process::id());
    let (here, there) = std::thread::scope(|scope| {
        let there = scope.spawn(|| answers(real, scenario, &namespace("real")));
        (answers(ours, scenario, &namespace("ours")), there.join().expect("playing does not panic"))
    });
    Ok(findings(scenario, &here?, &there?))
}

fn findings(scenario: &Scenario, ours: &[Answer], real: &[Answer]) -> Vec<Finding> {
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

fn answers(server: &Server, scenario: &Scenario, namespace: &str) -> Result<Vec<Answer>, String> {
    let mut normaliser = Normaliser::new(namespace);
    let played = play(server, scenario, namespace).map_err(|e| format!("{}: {e}", scenario.name))?;
    Ok(played.iter().map(|answer| normaliser.answer(answer)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enough() -> Report {
        let kinds = (0..KINDS_MIN).map(|n| n.to_string()).collect();
        Report { requests: REQUESTS_MIN, kinds, ..Report::default() }
    }

    #[test]
    fn the_verdict_is_red_for_too_little_and_for_entries_that_cover_nothing() {
        assert_eq!(enough().verdict(), Ok(()));
        assert!(Report { requests: REQUESTS_MIN - 1, ..enough() }.verdict().is_err());
        assert!(Report { kinds: BTreeSet::new(), ..enough() }.verdict().is_err());
        let stale = Known::load("[{path: body.x, reason: r, clients: c}]").unwrap();
        let refusal = Report { stale, ..enough() }.verdict().unwrap_err();
        assert!(refusal.contains("body.x"), "{refusal}");
    }
}
