//! Pods in queues and TrainJobs, on the embedded server and on a real one.

use std::sync::{Arc, Mutex, PoisonError};

use super::planes::Shared;
use super::{Case, Run, Stop, Suite, names, real_missing};
use crate::jobsets::Place;
use crate::limits::{EMBEDDED, Limit, REAL};
use crate::played::{Playground, Scenario, Theme, left_out, play};
use crate::trains::Crowd;
use crate::{queued, trains};

/// The last lines of a log that a failure shows.
const LOG_LINES: usize = 30;
/// TrainJobs that have both a deadline and a time to live.
const CROWD: usize = 100;

type Ground = Arc<Shared<Playground>>;

/// A suite for each dialect and plane. Both dialects share their planes: neither looks at what the other makes.
///
/// Shows: 976-69, 2899-62.
pub fn suites() -> Result<Vec<Suite>, String> {
    let (queues, jobs) = (queued::load(&queued::folder())?, trains::load(&trains::folder())?);
    let mut all = Vec::new();
    for place in [Place::Embedded, Place::Real] {
        let ground = match place {
            Place::Real => Shared::new("the real plane", Playground::real),
            _ => Shared::new("the embedded plane", Playground::embedded),
        };
        all.push(suite("queues", place, &ground, queued::THEME, &queues));
        let mut suite = suite("trains", place, &ground, trains::THEME, &jobs);
        add_crowds(&mut suite, place, &ground);
        all.push(suite);
    }
    Ok(all)
}

fn word(place: Place) -> &'static str {
    match place {
        Place::Embedded => "embedded",
        Place::Real => "real",
        Place::Simulated => "simulated",
    }
}

fn limit(place: Place) -> (&'static Limit, Option<String>) {
    if place == Place::Embedded { (&EMBEDDED, None) } else { (&REAL, real_missing()) }
}

fn suite(
    dialect: &'static str,
    place: Place,
    ground: &Ground,
    theme: Theme,
    scenarios: &[Scenario],
) -> Suite {
    let (limit, skip) = limit(place);
    let played = scenarios.iter().enumerate().filter(|(_, it)| it.is_for(place));
    let cases = played.map(|(n, scenario)| {
        let (ground, scenario) = (ground.clone(), scenario.clone());
        let name = names::name(&[dialect, &scenario.file, word(place), &scenario.name]);
        Case::new(name, limit, skip.clone(), move |run| {
            on(&ground, run, |ground| {
                let namespace = format!("{}-{n}-{}", theme.space, std::process::id());
                play(&ground.server, theme, &scenario, &namespace)
            })
        })
    });
    let absent = if place == Place::Real { left_out(scenarios) } else { Vec::new() };
    let finish = move |_: &_| {
        let line = format!("{} scenarios are not played there: {}", absent.len(), absent.join("; "));
        Ok(if absent.is_empty() { Vec::new() } else { vec![line] })
    };
    Suite {
        label: format!("{dialect} on the {} plane", word(place)),
        cases: cases.collect(),
        finish: Box::new(finish),
    }
}

/// Plays on a plane; a failure shows what its operator logged last.
fn on(ground: &Ground, run: &Run, play: impl Fn(&Playground) -> Result<(), String>) -> Result<(), Stop> {
    let ground = ground.get(run)?;
    play(ground).map_err(|why| Stop::Failed(format!("{why}\n{}", last_lines(&ground.complaints()))))
}

/// The end of a log.
pub(super) fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Cases of many TrainJobs at once and of one that is watched.
fn add_crowds(suite: &mut Suite, place: Place, ground: &Ground) {
    let (limit, skip) = limit(place);
    let name = |sentence: &str| names::name(&["trains", "crowd", word(place), sentence]);
    let watched = ground.clone();
    suite.cases.push(Case::new(name("watchers see the end"), limit, skip.clone(), move |run| {
        on(&watched, run, watchers_see_the_end)
    }));
    let (crowded, late) = (ground.clone(), Arc::new(Mutex::new(None)));
    let told = late.clone();
    suite.cases.push(Case::new(name("a hundred with both fields"), limit, skip, move |run| {
        on(&crowded, run, |ground| {
            let line = a_hundred_with_both_fields(ground)?;
            *late.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            Ok(())
        })
    }));
    let finish = std::mem::replace(&mut suite.finish, Box::new(|_| Ok(Vec::new())));
    suite.finish = Box::new(move |summary| {
        let mut lines = finish(summary)?;
        lines.extend(told.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Ok(lines)
    });
}

/// A hundred TrainJobs fail by their deadlines, none early, and are deleted with all that they made.
///
/// Shows: 2899-39, 2899-47.
fn a_hundred_with_both_fields(ground: &Playground) -> Result<String, String> {
    let crowd =
        Crowd { server: &ground.server, namespace: "a-hundred", count: CROWD, deadline_secs: 5, ttl_secs: 3 };
    let late = crowd.live()?;
    Ok(format!(
        "of {CROWD} TrainJobs with both fields, the worst failed {} s after its deadline and was deleted {} s after its time to live",
        late.deadline.as_secs(),
        late.ttl.as_secs()
    ))
}

/// A watch delivers the terminal condition before the deletion, even if no time lies between them.
///
/// Shows: 2899-13.
fn watchers_see_the_end(ground: &Playground) -> Result<(), String> {
    let seen = trains::seen(&ground.server, "watched")?;
    let end = seen.iter().position(|it| it.complete && !it.going && it.change == "MODIFIED");
    let gone = seen.iter().position(|it| it.change == "DELETED");
    if end.is_some() && end < gone { Ok(()) } else { Err(format!("{seen:?}")) }
}
