//! Pods in queues and TrainJobs, on the embedded server and on a real one.

use std::sync::{Arc, Mutex, PoisonError};

use super::shared_environment::SharedEnvironment;
use super::{Case, CaseError, CaseRun, Suite, names, real_cluster_unavailable};
use crate::jobsets::Environment;
use crate::limits::{EMBEDDED, Limit, REAL};
use crate::scenario_runner::{Dialect, ScenarioEnvironment, StepScenario, run_scenario, skipped_on_real};
use crate::trainjobs::DeadlineLoad;
use crate::{pod_queueing, trainjobs};

/// Lines of the operator log that a failure shows.
const LOG_LINES: usize = 30;
/// Number of TrainJobs with both a deadline and a TTL.
const CROWD: usize = 100;

type SharedScenarioEnvironment = Arc<SharedEnvironment<ScenarioEnvironment>>;

/// A suite per dialect and environment. Both dialects share their environments without interference.
///
/// Shows: 976-69, 2899-62.
pub fn suites() -> Result<Vec<Suite>, String> {
    let (queues, jobs) =
        (pod_queueing::load(&pod_queueing::folder())?, trainjobs::load(&trainjobs::folder())?);
    let mut all = Vec::new();
    for place in [Environment::Embedded, Environment::Real] {
        let environment = match place {
            Environment::Real => SharedEnvironment::new("the real server", ScenarioEnvironment::real),
            _ => SharedEnvironment::new("the embedded server", ScenarioEnvironment::embedded),
        };
        all.push(suite("queues", place, &environment, pod_queueing::DIALECT, &queues));
        let mut suite = suite("trains", place, &environment, trainjobs::DIALECT, &jobs);
        add_load_cases(&mut suite, place, &environment);
        all.push(suite);
    }
    Ok(all)
}

fn word(place: Environment) -> &'static str {
    match place {
        Environment::Embedded => "embedded",
        Environment::Real => "real",
        Environment::Simulated => "simulated",
    }
}

fn limit(place: Environment) -> (&'static Limit, Option<String>) {
    if place == Environment::Embedded { (&EMBEDDED, None) } else { (&REAL, real_cluster_unavailable()) }
}

fn suite(
    dialect: &'static str,
    place: Environment,
    environment: &SharedScenarioEnvironment,
    theme: Dialect,
    scenarios: &[StepScenario],
) -> Suite {
    let (limit, skip) = limit(place);
    let played = scenarios.iter().enumerate().filter(|(_, it)| it.is_for(place));
    let cases = played.map(|(n, scenario)| {
        let (environment, scenario) = (environment.clone(), scenario.clone());
        let name = names::name(&[dialect, &scenario.file, word(place), &scenario.name]);
        Case::new(name, limit, skip.clone(), move |run| {
            on(&environment, run, |environment| {
                let namespace = format!("{}-{n}-{}", theme.space, std::process::id());
                run_scenario(&environment.server, theme, &scenario, &namespace)
            })
        })
    });
    let absent = if place == Environment::Real { skipped_on_real(scenarios) } else { Vec::new() };
    let finish = move |_: &_| {
        let line = format!("{} scenarios do not run there: {}", absent.len(), absent.join("; "));
        Ok(if absent.is_empty() { Vec::new() } else { vec![line] })
    };
    Suite {
        label: format!("{dialect} on the {} plane", word(place)),
        cases: cases.collect(),
        finish: Box::new(finish),
    }
}

/// Runs a scenario; a failure includes the end of the operator log.
fn on(
    environment: &SharedScenarioEnvironment,
    run: &CaseRun,
    scenario: impl Fn(&ScenarioEnvironment) -> Result<(), String>,
) -> Result<(), CaseError> {
    let environment = environment.get(run)?;
    scenario(environment)
        .map_err(|why| CaseError::Failed(format!("{why}\n{}", last_lines(&environment.operator_log()))))
}

/// Returns the last lines of a log.
pub(super) fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Adds the cases of many TrainJobs at once, and of one that is watched.
fn add_load_cases(suite: &mut Suite, place: Environment, environment: &SharedScenarioEnvironment) {
    let (limit, skip) = limit(place);
    let name = |sentence: &str| names::name(&["trains", "crowd", word(place), sentence]);
    let watched = environment.clone();
    suite.cases.push(Case::new(
        name("a watch delivers the completion before the deletion"),
        limit,
        skip.clone(),
        move |run| on(&watched, run, watch_delivers_completion_before_deletion),
    ));
    let (crowded, late) = (environment.clone(), Arc::new(Mutex::new(None)));
    let result = late.clone();
    suite.cases.push(Case::new(
        name("a hundred TrainJobs with a deadline and a TTL"),
        limit,
        skip,
        move |run| {
            on(&crowded, run, |environment| {
                let line = deadlines_and_ttls_of_100_trainjobs(environment)?;
                *late.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
                Ok(())
            })
        },
    ));
    let finish = std::mem::replace(&mut suite.finish, Box::new(|_| Ok(Vec::new())));
    suite.finish = Box::new(move |summary| {
        let mut lines = finish(summary)?;
        lines.extend(result.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Ok(lines)
    });
}

/// A hundred TrainJobs fail by their deadlines, none early, and are deleted with their dependents.
///
/// Shows: 2899-39, 2899-47.
fn deadlines_and_ttls_of_100_trainjobs(environment: &ScenarioEnvironment) -> Result<String, String> {
    let crowd = DeadlineLoad {
        server: &environment.server,
        namespace: "a-hundred",
        count: CROWD,
        deadline_secs: 5,
        ttl_secs: 3,
    };
    let late = crowd.run()?;
    Ok(format!(
        "of {CROWD} TrainJobs with both fields, the worst failed {} s after its deadline and was deleted {} s after its TTL",
        late.deadline.as_secs(),
        late.ttl.as_secs()
    ))
}

/// A watch delivers the terminal condition before the deletion, even with a TTL of zero.
///
/// Shows: 2899-13.
fn watch_delivers_completion_before_deletion(environment: &ScenarioEnvironment) -> Result<(), String> {
    let seen = trainjobs::watch_until_deleted(&environment.server, "watched")?;
    let end = seen.iter().position(|it| it.complete && !it.deleting && it.change == "MODIFIED");
    let gone = seen.iter().position(|it| it.change == "DELETED");
    if end.is_some() && end < gone { Ok(()) } else { Err(format!("{seen:?}")) }
}
