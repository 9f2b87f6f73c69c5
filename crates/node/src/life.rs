//! What a simulated pod does next.
//!
//! # Guarantees
//!
//! - A pod with `restartPolicy: Always` and without annotations about its run runs until it is deleted; any other one
//!   ends after a second.
//! - `activeDeadlineSeconds` counts from `status.startTime`, also when it is set or lowered while the pod runs.

use std::time::Duration;

use muster_api::meta;
use muster_api::paths::pod as path;
use muster_api::pod::Phase;
use muster_api::pod_status::{self, CODE_TERMINATED, Doing};
use muster_api::time::Time;
use muster_api::words::annotations;
use muster_tree::Tree;

/// The pause before a first restart.
const RESTART_BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// The longest pause before a restart.
const RESTART_BACKOFF_MAX: Duration = Duration::from_secs(300);

/// Times of a pod finer than its status can say.
#[derive(Debug, Default, Clone, Copy)]
pub struct Memory {
    bound: Option<Time>,
    running: Option<(Time, i64)>,
    stopped: Option<(Time, i64)>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Nothing, ever.
    Rest,
    /// Nothing until then.
    Wait(Time),
    /// Write a status.
    Show(Doing),
    /// Finish the deletion.
    Bury,
}

/// Decides.
pub fn next(pod: &Tree, memory: &mut Memory, now: Time) -> Move {
    let phase = Phase::of(pod.str_at(path::PHASE));
    if meta::deleting(pod).is_some() {
        return match phase.ended() {
            false => Move::Show(ended(pod, memory, now, CODE_TERMINATED)),
            // With no grace left the server removes it as soon as nobody holds it.
            true if meta::grace_secs(pod) == 0 => Move::Rest,
            true => Move::Bury,
        };
    }
    let deadline = deadline(pod);
    match (phase, pod_status::read(pod)) {
        _ if phase.ended() => return Move::Rest,
        _ if deadline.is_some_and(|at| now >= at) => return Move::Show(exceeded(pod, memory, now)),
        _ => {}
    }
    match (planned(pod, phase, memory, now), deadline) {
        (Move::Wait(later), Some(at)) => Move::Wait(later.min(at)),
        (Move::Rest, Some(at)) => Move::Wait(at),
        (planned, _) => planned,
    }
}

/// When the pod has been active for too long. It is active from its start time on.
fn deadline(pod: &Tree) -> Option<Time> {
    let secs = pod.int_at(path::DEADLINE).and_then(|secs| u64::try_from(secs).ok())?;
    Some(Time::of(pod.at(path::START_TIME))? + Duration::from_secs(secs))
}

/// The next move of a pod that has neither ended nor been deleted, its deadline apart.
fn planned(pod: &Tree, phase: Phase, memory: &mut Memory, now: Time) -> Move {
    match (phase, pod_status::read(pod)) {
        (Phase::Running, Some((since, restarts, true))) => run(pod, memory, since, restarts, now),
        (Phase::Running, Some((until, restarts, false))) => restart(memory, until, restarts, now),
        _ => start(pod, memory, now),
    }
}

fn start(pod: &Tree, memory: &mut Memory, now: Time) -> Move {
    let begun = Time::of(pod.at(path::START_TIME));
    let bound = *memory.bound.get_or_insert(begun.unwrap_or(now));
    let ready = bound + seconds(pod, annotations::SIM_START_SECONDS, 0.0);
    match (now >= ready, begun) {
        (true, _) => {
            memory.running = Some((now, 0));
            Move::Show(Doing::Running { since: now, restarts: 0 })
        }
        (false, None) => Move::Show(Doing::Creating),
        (false, Some(_)) => Move::Wait(ready),
    }
}

fn run(pod: &Tree, memory: &mut Memory, shown: Time, restarts: i64, now: Time) -> Move {
    if is_endless(pod) {
        return Move::Rest;
    }
    let since = exact(memory.running, shown, restarts);
    let end = since + seconds(pod, annotations::SIM_RUN_SECONDS, 1.0);
    if now < end {
        return Move::Wait(end);
    }
    let code =
        meta::annotation(pod, annotations::SIM_EXIT_CODE).and_then(|text| text.parse().ok()).unwrap_or(0);
    let again = match pod.str_at(path::RESTART_POLICY) {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    };
    if again {
        memory.stopped = Some((now, restarts));
        return Move::Show(Doing::Waiting { since, until: now, code, restarts });
    }
    Move::Show(ended(pod, memory, now, code))
}

/// Whether nothing says that the containers end: what is restarted always is meant to stay.
fn is_endless(pod: &Tree) -> bool {
    let ends = [annotations::SIM_RUN_SECONDS, annotations::SIM_EXIT_CODE];
    !matches!(pod.str_at(path::RESTART_POLICY), "Never" | "OnFailure")
        && ends.iter().all(|annotation| meta::annotation(pod, annotation).is_none())
}

fn restart(memory: &mut Memory, shown: Time, restarts: i64, now: Time) -> Move {
    let until = exact(memory.stopped, shown, restarts);
    let doublings = u32::try_from(restarts).unwrap_or(0).min(10);
    let again = until + RESTART_BACKOFF_FIRST.saturating_mul(1 << doublings).min(RESTART_BACKOFF_MAX);
    if now < again {
        return Move::Wait(again);
    }
    memory.running = Some((now, restarts + 1));
    Move::Show(Doing::Running { since: now, restarts: restarts + 1 })
}

fn ended(pod: &Tree, memory: &Memory, now: Time, code: i64) -> Doing {
    let (shown, restarts, _) = pod_status::read(pod).unwrap_or((now, 0, false));
    Doing::Ended { since: exact(memory.running, shown, restarts), until: now, code, restarts }
}

fn exceeded(pod: &Tree, memory: &Memory, now: Time) -> Doing {
    let (shown, restarts, _) = pod_status::read(pod).unwrap_or((now, 0, false));
    Doing::DeadlineExceeded { since: exact(memory.running, shown, restarts), until: now, restarts }
}

/// The remembered instant, if it is the one that is shown; else the shown one.
fn exact(remembered: Option<(Time, i64)>, shown: Time, restarts: i64) -> Time {
    let same =
        |(at, number): &(Time, i64)| *number == restarts && at.whole_seconds() == shown.whole_seconds();
    remembered.filter(same).map_or(shown, |(at, _)| at)
}

/// The longest time an annotation can ask for: a year.
const SECONDS_MAX: f64 = 31_536_000.0;

fn seconds(pod: &Tree, annotation: &str, default: f64) -> Duration {
    let asked = meta::annotation(pod, annotation).and_then(|text| text.parse::<f64>().ok());
    Duration::from_secs_f64(asked.filter(|secs| secs.is_finite()).unwrap_or(default).clamp(0.0, SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use muster_api::pod_status::{Addresses, patch};
    use muster_tree::tree;

    use super::*;

    fn at(millis: i64) -> Time {
        Time(1_700_000_000_000_000 + millis * 1000)
    }

    /// Lets a pod live and writes down what it shows and when.
    fn live(annotations: Tree, restart: &str, until: i64) -> Vec<(i64, String)> {
        let mut pod = tree!({"metadata": {"name": "p", "uid": "u", "annotations": annotations},
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}});
        let (mut memory, mut now, mut shown) = (Memory::default(), at(250), Vec::new());
        while now <= at(until) {
            match next(&pod, &mut memory, now) {
                Move::Wait(later) => now = later,
                Move::Show(doing) => {
                    let addresses = Addresses { host: "h".into(), pod: "p".into() };
                    pod = pod.merge(&patch(&pod, &addresses, &doing, now));
                    let restarts = pod_status::read(&pod).map_or(0, |(_, restarts, _)| restarts);
                    shown.push(((now.0 - at(0).0) / 1000, format!("{} {restarts}", doing.phase().word())));
                }
                Move::Rest | Move::Bury => break,
            }
        }
        shown
    }

    #[test]
    fn lives() {
        let told = |list: &[(i64, &str)]| {
            list.iter().map(|(at, what)| (*at, (*what).to_owned())).collect::<Vec<_>>()
        };
        let run = |secs: &str| tree!({"muster.dev/sim-run-seconds": secs});
        assert_eq!(live(tree!({}), "Never", 60_000), told(&[(250, "Running 0"), (1250, "Succeeded 0")]));
        assert_eq!(live(run("0.1"), "Never", 60_000), told(&[(250, "Running 0"), (350, "Succeeded 0")]));
        let slow = tree!({"muster.dev/sim-start-seconds": "2", "muster.dev/sim-exit-code": "3"});
        let want = [(250, "Pending 0"), (2250, "Running 0"), (3250, "Failed 0")];
        assert_eq!(live(slow.clone(), "Never", 60_000), told(&want));
        let fails = tree!({"muster.dev/sim-exit-code": "1"});
        let want = [(250, "Running 0"), (1250, "Running 0"), (11_250, "Running 1"), (12_250, "Running 1")];
        assert_eq!(live(fails, "OnFailure", 20_000), told(&want), "a pause of ten seconds, then twenty");
        assert_eq!(live(run("nonsense"), "Never", 60_000).len(), 2, "what cannot be read is the default");
    }

    #[test]
    fn what_is_restarted_always_runs_until_it_is_deleted() {
        let running = [(250, "Running 0".to_owned())];
        assert_eq!(live(tree!({}), "Always", 600_000), running);
        assert_eq!(live(tree!({}), "", 600_000), running, "Always is the default");
        let run = tree!({"muster.dev/sim-run-seconds": "2"});
        let want = [(250, "Running 0"), (2_250, "Running 0"), (12_250, "Running 1"), (14_250, "Running 1")];
        let want = want.map(|(at, what)| (at, what.to_owned()));
        assert_eq!(live(run, "Always", 20_000), want, "with a time of its own it is restarted");
        let fails = tree!({"muster.dev/sim-exit-code": "1"});
        assert_eq!(live(fails, "Always", 20_000).len(), 4, "one that fails is restarted, too");
    }

    #[test]
    fn a_deadline_counts_whenever_it_is_set() {
        let pod = tree!({"metadata": {"uid": "u"}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "startTime": at(0).to_seconds_text(), "containerStatuses":
                [{"name": "c", "restartCount": 0, "state": {"running": {"startedAt": at(0).to_seconds_text()}}}]}});
        let mut memory = Memory::default();
        assert_eq!(next(&pod, &mut memory, at(60_000)), Move::Rest);
        let limited = pod.with(path::DEADLINE, 90);
        assert_eq!(next(&limited, &mut memory, at(60_000)), Move::Wait(at(90_000)));
        let lowered = pod.with(path::DEADLINE, 30);
        let Move::Show(doing) = next(&lowered, &mut memory, at(60_000)) else { panic!("its time is over") };
        let addresses = Addresses { host: "h".into(), pod: "p".into() };
        let shown = pod.merge(&patch(&lowered, &addresses, &doing, at(60_000)));
        let words = ["phase", "reason", "message"].map(|key| shown.str_at(&["status", key]).to_owned());
        let message = "Pod was active on the node longer than the specified deadline";
        assert_eq!(words, ["Failed", "DeadlineExceeded", message]);
        assert_eq!(next(&shown, &mut memory, at(70_000)), Move::Rest, "it has ended");
    }

    #[test]
    fn a_deleted_pod_ends_and_is_buried_once() {
        let pod = tree!({"metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
            "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}});
        let mut memory = Memory::default();
        let Move::Show(doing) = next(&pod, &mut memory, at(0)) else { panic!() };
        assert_eq!(doing.phase(), Phase::Failed);
        let ended = pod.with(path::PHASE, "Failed");
        assert_eq!(next(&ended, &mut memory, at(0)), Move::Bury);
        let released = ended.with(&["metadata", "deletionGracePeriodSeconds"], 0);
        assert_eq!(next(&released, &mut memory, at(0)), Move::Rest);
    }
}
