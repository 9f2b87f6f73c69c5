//! JobSet scenarios over three implementations of the API port, compared with one another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::retries::{RetryBudget, format_differences};
use super::shared_environment::SharedEnvironment;
use super::{Case, CaseError, CaseRun, Suite, SuiteSummary, names, real_cluster_unavailable};
use crate::clients::skip;
use crate::differential::ApiClient;
use crate::embedded_server::EmbeddedServer;
use crate::jobsets::store_comparison::StoreComparison;
use crate::jobsets::{
    Environment, GateSet, JobSetScenario, PortBackends, compare, ignored_parts, load, run_scenario,
};
use crate::limits::{EMBEDDED, REAL};
use crate::server_pair::{self, EmbeddedWithOperator, ServerPair};

/// Prefix of namespace names.
const SPACE: &str = "set-";
/// Reruns of a scenario after which two embedded servers store different objects: nondeterministic differences disappear, real ones
/// persist.
const AGAIN_MAX: u32 = 2;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobsets")
}

/// The servers of a set of feature gates.
enum Servers {
    /// Controller in process, operator beside an embedded server, and a real server.
    All {
        pair: Box<ServerPair>,
        outside: EmbeddedWithOperator,
    },
    /// Without a real server, where none can run.
    Ours {
        server: ApiClient,
        outside: EmbeddedWithOperator,
        _plane: EmbeddedServer,
    },
    Given {
        local: ApiClient,
        outside: Option<ApiClient>,
        real: Option<ApiClient>,
    },
}

struct JobSetEnvironment {
    servers: Servers,
    /// `None` with only one embedded server.
    stored: Option<StoreComparison>,
}

impl JobSetEnvironment {
    fn start(gates: GateSet) -> Result<JobSetEnvironment, String> {
        let servers = Servers::start(gates)?;
        let makers = servers.backends();
        let stored =
            makers.outside.map(|outside| StoreComparison::new([makers.local, outside])).transpose()?;
        Ok(JobSetEnvironment { servers, stored })
    }
}

impl Servers {
    fn start(gates: GateSet) -> Result<Servers, String> {
        if let Some(local) = existing_server("OURS")? {
            return Ok(Servers::Given {
                local,
                outside: existing_server("OUTSIDE")?,
                real: existing_server("REAL")?,
            });
        }
        let outside = EmbeddedWithOperator::with_jobsets(gates.flag())?;
        if real_cluster_unavailable().is_none() {
            return Ok(Servers::All { pair: Box::new(ServerPair::with_jobsets(gates.flag())?), outside });
        }
        let plane = server_pair::with_jobsets(gates.flag())?;
        Ok(Servers::Ours { server: plane.server()?, outside, _plane: plane })
    }

    fn backends(&self) -> PortBackends<'_> {
        match self {
            Servers::All { pair, outside } => {
                PortBackends { local: &pair.ours, outside: Some(&outside.server), real: Some(&pair.real) }
            }
            Servers::Ours { server, outside, .. } => {
                PortBackends { local: server, outside: Some(&outside.server), real: None }
            }
            Servers::Given { local, outside, real } => {
                PortBackends { local, outside: outside.as_ref(), real: real.as_ref() }
            }
        }
    }
}

fn existing_server(variable: &str) -> Result<Option<ApiClient>, String> {
    std::env::var_os(variable).map(|file| ApiClient::of_kubeconfig(Path::new(&file))).transpose()
}

/// Feature gates of existing servers: `default`, `all` or `claimless`.
fn existing_gates() -> Option<GateSet> {
    std::env::var_os("OURS")?;
    match std::env::var("GATES").as_deref() {
        Ok("all") => Some(GateSet::All),
        Ok("claimless") => Some(GateSet::Claimless),
        _ => Some(GateSet::Default),
    }
}

/// A suite per set of feature gates: they are flags of every process, so each set has its own servers.
pub fn suites() -> Result<Vec<Suite>, String> {
    let mut all = load(&folder())?;
    // The others run only under virtual time.
    all.retain(|it| it.is_for(Environment::Embedded) || it.is_for(Environment::Real));
    Ok(GateSet::ALL.map(|gates| suite(gates, &all)).into())
}

fn suite(gates: GateSet, all: &[JobSetScenario]) -> Suite {
    let environment =
        SharedEnvironment::new("the servers of JobSets", move || JobSetEnvironment::start(gates));
    let tries = RetryBudget::default();
    let those = all.iter().enumerate().filter(|(_, it)| it.gates == gates);
    let cases = those.map(|(n, scenario)| case(&environment, &tries, n, scenario.clone())).collect();
    let mine: Vec<JobSetScenario> = all.iter().filter(|it| it.gates == gates).cloned().collect();
    Suite {
        label: format!("jobsets with {gates:?} feature gates"),
        cases,
        finish: Box::new(move |summary| finish(&environment, &mine, summary)),
    }
}

fn case(
    environment: &Arc<SharedEnvironment<JobSetEnvironment>>,
    tries: &RetryBudget,
    n: usize,
    scenario: JobSetScenario,
) -> Case {
    let (environment, tries) = (environment.clone(), tries.clone());
    let name = names::name(&["jobsets", &scenario.file, &scenario.name]);
    let other_gates = existing_gates().filter(|gates| *gates != scenario.gates);
    let skip = match other_gates {
        Some(gates) => Some(format!("the existing servers have {gates:?} feature gates")),
        None => real_cluster_unavailable().filter(|_| !scenario.is_for(Environment::Embedded)),
    };
    let limit = if real_cluster_unavailable().is_some() { &EMBEDDED } else { &REAL };
    Case::new(name, limit, skip, move |run| one(environment.get(run)?, &tries, run, n, &scenario))
}

/// Runs a scenario on all servers; then both embedded servers must store equal objects.
fn one(
    environment: &JobSetEnvironment,
    tries: &RetryBudget,
    run: &CaseRun,
    n: usize,
    scenario: &JobSetScenario,
) -> Result<(), CaseError> {
    let makers = environment.servers.backends();
    let space = |end: &str| format!("{SPACE}{n}-{}{end}", std::process::id());
    let tried = |number: u32| space(if number == 0 { "" } else { "-second" });
    let second = tries.run(run, &scenario.name, |number| {
        let again = if number == 0 { scenario.clone() } else { scenario.for_rerun() };
        compare(makers, &again, &tried(number))
    })?;
    let (Some(stored), Some(outside)) = (&environment.stored, makers.outside) else { return Ok(()) };
    if !scenario.chance.is_empty() || !scenario.is_for(Environment::Embedded) {
        return Ok(());
    }
    let both = [makers.local, outside];
    let mut found = stored.differences(both, &tried(u32::from(second)))?;
    for round in 1..=AGAIN_MAX {
        if found.is_empty() {
            break;
        }
        eprintln!("stored objects differ: {}: {}", scenario.name, format_differences(&found));
        run.count_retry();
        let namespace = space(&format!("-again-{round}"));
        play_on(both, &scenario.for_rerun(), &namespace)?;
        found = stored.differences(both, &namespace)?;
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(CaseError::Failed(format!(
        "two embedded servers store different objects:\n  {}",
        format_differences(&found)
    )))
}

fn play_on(
    [local, outside]: [&ApiClient; 2],
    scenario: &JobSetScenario,
    namespace: &str,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let here = scope.spawn(|| run_scenario(local, scenario, namespace));
        let there = run_scenario(outside, scenario, namespace);
        there.and(here.join().unwrap_or_else(|_| Err("the scenario panicked".to_owned())))
    })
}

/// Compares the objects outside of scenarios, and lists what is not compared with a real server.
fn finish(
    environment: &SharedEnvironment<JobSetEnvironment>,
    scenarios: &[JobSetScenario],
    summary: &SuiteSummary,
) -> Result<Vec<String>, String> {
    let Some(environment) = environment.if_started() else { return Ok(Vec::new()) };
    let makers = environment.servers.backends();
    let count = 1 + usize::from(makers.outside.is_some()) + usize::from(makers.real.is_some());
    let mut lines = vec![format!("{} scenarios over {count} API ports", summary.passed)];
    if makers.real.is_none() {
        skip(
            "jobsets beside a real server",
            &real_cluster_unavailable().unwrap_or_else(|| "REAL is not set".to_owned()),
        );
    }
    if let (true, Some(stored), Some(outside)) = (summary.all_passed(), &environment.stored, makers.outside) {
        let found = stored.differences_elsewhere([makers.local, outside], |name| name.starts_with(SPACE))?;
        if !found.is_empty() {
            return Err(format!(
                "two embedded servers store different objects outside of scenarios:\n  {}",
                format_differences(&found)
            ));
        }
    }
    if summary.all_passed() && makers.real.is_some() {
        lines.extend(excluded_from_comparison(scenarios));
    }
    Ok(lines)
}

/// Lists what is not compared with a real server, with the reasons.
fn excluded_from_comparison(scenarios: &[JobSetScenario]) -> Vec<String> {
    let absent = scenarios.iter().filter(|it| !it.is_for(Environment::Real)).map(|it| (it, &it.because));
    let chance = scenarios.iter().filter(|it| !it.chance.is_empty()).map(|it| (it, &it.chance));
    let line = |what: &str, those: Vec<(&JobSetScenario, &String)>| {
        let reasons: Vec<String> = those.iter().map(|(it, why)| format!("{:?}: {why}", it.name)).collect();
        format!("{} scenarios {what}: {}", reasons.len(), reasons.join("; "))
    };
    let lines = [
        ("do not run beside the real server", absent.collect::<Vec<_>>()),
        ("are nondeterministic and not compared", chance.collect()),
    ];
    let lines = lines.into_iter().filter(|(_, those)| !those.is_empty());
    let mut lines: Vec<String> = lines.map(|(what, those)| line(what, those)).collect();
    // The list is the same for all suites; the largest one prints it.
    if scenarios.iter().any(|it| it.gates != GateSet::Default) {
        return lines;
    }
    let parts = ignored_parts::IGNORED_PARTS.iter().map(|part| {
        let kind = if part.kind.is_empty() { "all kinds" } else { part.kind };
        format!("{kind}: {} ({})", part.what, part.why)
    });
    lines.push(format!("not compared with the real server: {}", parts.collect::<Vec<_>>().join("; ")));
    lines
}
