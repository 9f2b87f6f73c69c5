//! JobSets over three makers of the port, compared with one another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::planes::Shared;
use super::second::{SecondTries, format_differences};
use super::{Case, Run, Stop, Suite, Summary, names, real_missing};
use crate::clients::skip;
use crate::differential::Server;
use crate::jobsets::alike::Stored;
use crate::jobsets::{Gates, Makers, Place, Scenario, compare, differs, load, play};
use crate::limits::{EMBEDDED, REAL};
use crate::plane::Plane;
use crate::planes::{self, Outside, Planes};

/// How the names of namespaces begin.
const SPACE: &str = "set-";
/// How often a scenario is played again of which two embedded servers store something else: what chance did differs once,
/// what the makers do differs every time.
const AGAIN_MAX: u32 = 2;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobsets")
}

/// The servers of one set of feature gates.
enum Servers {
    /// Ours in process, ours with the operator beside it, and a real one.
    All { pair: Box<Planes>, outside: Outside },
    /// Those of ours alone, where no real one can be had.
    Ours { server: Server, outside: Outside, _plane: Plane },
    /// Those that were there before.
    Given { local: Server, outside: Option<Server>, real: Option<Server> },
}

struct Ground {
    servers: Servers,
    /// Absent where there is only one embedded server.
    stored: Option<Stored>,
}

impl Ground {
    fn start(gates: Gates) -> Result<Ground, String> {
        let servers = Servers::start(gates)?;
        let makers = servers.makers();
        let stored = makers.outside.map(|outside| Stored::new([makers.local, outside])).transpose()?;
        Ok(Ground { servers, stored })
    }
}

impl Servers {
    fn start(gates: Gates) -> Result<Servers, String> {
        if let Some(local) = given("OURS")? {
            return Ok(Servers::Given { local, outside: given("OUTSIDE")?, real: given("REAL")? });
        }
        let outside = Outside::with_jobsets(gates.flag())?;
        if real_missing().is_none() {
            return Ok(Servers::All { pair: Box::new(Planes::with_jobsets(gates.flag())?), outside });
        }
        let plane = planes::with_jobsets(gates.flag())?;
        Ok(Servers::Ours { server: plane.server()?, outside, _plane: plane })
    }

    fn makers(&self) -> Makers<'_> {
        match self {
            Servers::All { pair, outside } => {
                Makers { local: &pair.ours, outside: Some(&outside.server), real: Some(&pair.real) }
            }
            Servers::Ours { server, outside, .. } => {
                Makers { local: server, outside: Some(&outside.server), real: None }
            }
            Servers::Given { local, outside, real } => {
                Makers { local, outside: outside.as_ref(), real: real.as_ref() }
            }
        }
    }
}

fn given(variable: &str) -> Result<Option<Server>, String> {
    std::env::var_os(variable).map(|file| Server::of_kubeconfig(Path::new(&file))).transpose()
}

/// The gates of given servers: `default`, `all` or `claimless`.
fn given_gates() -> Option<Gates> {
    std::env::var_os("OURS")?;
    match std::env::var("GATES").as_deref() {
        Ok("all") => Some(Gates::All),
        Ok("claimless") => Some(Gates::Claimless),
        _ => Some(Gates::Default),
    }
}

/// A suite for each set of feature gates: they are flags of every process of a plane, so that each set has its own planes.
pub fn suites() -> Result<Vec<Suite>, String> {
    let mut all = load(&folder())?;
    // The others are played under virtual time alone.
    all.retain(|it| it.is_for(Place::Embedded) || it.is_for(Place::Real));
    Ok(Gates::ALL.map(|gates| suite(gates, &all)).into())
}

fn suite(gates: Gates, all: &[Scenario]) -> Suite {
    let ground = Shared::new("the planes of JobSets", move || Ground::start(gates));
    let tries = SecondTries::default();
    let those = all.iter().enumerate().filter(|(_, it)| it.gates == gates);
    let cases = those.map(|(n, scenario)| case(&ground, &tries, n, scenario.clone())).collect();
    let mine: Vec<Scenario> = all.iter().filter(|it| it.gates == gates).cloned().collect();
    Suite {
        label: format!("jobsets with {gates:?} feature gates"),
        cases,
        finish: Box::new(move |summary| finish(&ground, &mine, summary)),
    }
}

fn case(ground: &Arc<Shared<Ground>>, tries: &SecondTries, n: usize, scenario: Scenario) -> Case {
    let (ground, tries) = (ground.clone(), tries.clone());
    let name = names::name(&["jobsets", &scenario.file, &scenario.name]);
    let other_gates = given_gates().filter(|gates| *gates != scenario.gates);
    let skip = match other_gates {
        Some(gates) => Some(format!("the given servers have {gates:?} feature gates")),
        None => real_missing().filter(|_| !scenario.is_for(Place::Embedded)),
    };
    let limit = if real_missing().is_some() { &EMBEDDED } else { &REAL };
    Case::new(name, limit, skip, move |run| one(ground.get(run)?, &tries, run, n, &scenario))
}

/// Plays a scenario over all makers; then both embedded servers must store the same of it.
fn one(ground: &Ground, tries: &SecondTries, run: &Run, n: usize, scenario: &Scenario) -> Result<(), Stop> {
    let makers = ground.servers.makers();
    let space = |end: &str| format!("{SPACE}{n}-{}{end}", std::process::id());
    let tried = |number: u32| space(if number == 0 { "" } else { "-second" });
    let second = tries.play(run, &scenario.name, |number| {
        let again = if number == 0 { scenario.clone() } else { scenario.once_more() };
        compare(makers, &again, &tried(number))
    })?;
    let (Some(stored), Some(outside)) = (&ground.stored, makers.outside) else { return Ok(()) };
    if !scenario.chance.is_empty() || !scenario.is_for(Place::Embedded) {
        return Ok(());
    }
    let both = [makers.local, outside];
    let mut found = stored.differences(both, &tried(u32::from(second)))?;
    for round in 1..=AGAIN_MAX {
        if found.is_empty() {
            break;
        }
        eprintln!("stored otherwise: {}: {}", scenario.name, format_differences(&found));
        run.count_second_try();
        let namespace = space(&format!("-again-{round}"));
        play_on(both, &scenario.once_more(), &namespace)?;
        found = stored.differences(both, &namespace)?;
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Stop::Failed(format!("two embedded servers store:\n  {}", format_differences(&found))))
}

fn play_on([local, outside]: [&Server; 2], scenario: &Scenario, namespace: &str) -> Result<(), String> {
    std::thread::scope(|scope| {
        let here = scope.spawn(|| play(local, scenario, namespace));
        let there = play(outside, scenario, namespace);
        there.and(here.join().unwrap_or_else(|_| Err("playing it panicked".to_owned())))
    })
}

/// What belongs to no scenario must be stored alike as well; and what stays different on a real server is listed.
fn finish(ground: &Shared<Ground>, scenarios: &[Scenario], summary: &Summary) -> Result<Vec<String>, String> {
    let Some(ground) = ground.if_started() else { return Ok(Vec::new()) };
    let makers = ground.servers.makers();
    let count = 1 + usize::from(makers.outside.is_some()) + usize::from(makers.real.is_some());
    let mut lines = vec![format!("{} scenarios over {count} makers", summary.passed)];
    if makers.real.is_none() {
        skip(
            "jobsets beside a real server",
            &real_missing().unwrap_or_else(|| "REAL is not given".to_owned()),
        );
    }
    if let (true, Some(stored), Some(outside)) = (summary.is_whole(), &ground.stored, makers.outside) {
        let found = stored.differences_elsewhere([makers.local, outside], |name| name.starts_with(SPACE))?;
        if !found.is_empty() {
            return Err(format!(
                "two embedded servers store, outside of scenarios:\n  {}",
                format_differences(&found)
            ));
        }
    }
    if summary.is_whole() && makers.real.is_some() {
        lines.extend(what_differs(scenarios));
    }
    Ok(lines)
}

/// What is not compared with a real server, with the reasons.
fn what_differs(scenarios: &[Scenario]) -> Vec<String> {
    let absent = scenarios.iter().filter(|it| !it.is_for(Place::Real)).map(|it| (it, &it.because));
    let chance = scenarios.iter().filter(|it| !it.chance.is_empty()).map(|it| (it, &it.chance));
    let line = |what: &str, those: Vec<(&Scenario, &String)>| {
        let reasons: Vec<String> = those.iter().map(|(it, why)| format!("{:?}: {why}", it.name)).collect();
        format!("{} scenarios {what}: {}", reasons.len(), reasons.join("; "))
    };
    let lines = [
        ("are not played beside the real server", absent.collect::<Vec<_>>()),
        ("end by chance and are not compared", chance.collect()),
    ];
    let lines = lines.into_iter().filter(|(_, those)| !those.is_empty());
    let mut lines: Vec<String> = lines.map(|(what, those)| line(what, those)).collect();
    // The list is the same for all suites: the largest one shows it.
    if scenarios.iter().any(|it| it.gates != Gates::Default) {
        return lines;
    }
    let parts = differs::PARTS.iter().map(|part| {
        let kind = if part.kind.is_empty() { "all kinds" } else { part.kind };
        format!("{kind}: {} ({})", part.what, part.why)
    });
    lines.push(format!("not compared with the real server: {}", parts.collect::<Vec<_>>().join("; ")));
    lines
}
