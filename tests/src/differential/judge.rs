//! Plays every scenario on both servers and gathers the verdict.

use std::fmt;
use std::path::Path;

use super::compare::{Difference, Known, compare};
use super::normalise::Normaliser;
use super::play::{Answer, Server, play};
use super::scenario::{Scenario, load};

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// Requests sent to each server.
    pub requests: usize,
    /// Scenarios played.
    pub scenarios: usize,
    /// Differences that stand in the list of known ones.
    pub known: usize,
    /// (scenario, step counted from 1, request, difference) for every other.
    pub found: Vec<(String, usize, String, Difference)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = String::new();
        for (scenario, step, call, difference) in &self.found {
            if *scenario != last {
                writeln!(f, "{scenario}")?;
                last.clone_from(scenario);
            }
            writeln!(f, "  {step}. {call}\n    {difference}")?;
        }
        write!(
            f,
            "{} scenarios, {} requests compared, {} known differences, {} new ones",
            self.scenarios,
            self.requests,
            self.known,
            self.found.len()
        )
    }
}

/// Plays the scenarios of a folder whose name contains `filter`.
pub fn judge(ours: &Server, real: &Server, folder: &Path, filter: &str) -> Result<Report, String> {
    let list = folder.join("differences.yaml");
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let known = Known::load(&text)?;
    let mut report = Report::default();
    let chosen = load(folder)?.into_iter().filter(|s| s.name.contains(filter));
    for (n, scenario) in chosen.enumerate() {
        let namespace = |plane: &str| format!("{plane}-{}-{n}", std::process::id());
        let here = answers(ours, &scenario, &namespace("ours"))?;
        let there = answers(real, &scenario, &namespace("real"))?;
        report.add(&scenario, &here, &there, &known);
    }
    Ok(report)
}

fn answers(server: &Server, scenario: &Scenario, namespace: &str) -> Result<Vec<Answer>, String> {
    let mut normaliser = Normaliser::new(namespace);
    Ok(play(server, scenario, namespace)?.iter().map(|answer| normaliser.answer(answer)).collect())
}

impl Report {
    fn add(&mut self, scenario: &Scenario, ours: &[Answer], real: &[Answer], known: &[Known]) {
        self.scenarios += 1;
        self.requests += scenario.steps.len();
        for (i, (step, (a, b))) in scenario.steps.iter().zip(ours.iter().zip(real)).enumerate() {
            for difference in compare(a, b).into_iter().filter(|d| !step.code_only || d.path == "code") {
                if known.iter().any(|k| k.covers(&scenario.name, &difference)) {
                    self.known += 1;
                } else {
                    self.found.push((scenario.name.clone(), i + 1, step.call.clone(), difference));
                }
            }
        }
    }
}
