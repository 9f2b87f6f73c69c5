//! Decides the next step of a simulated pod.
//!
//! # Guarantees
//!
//! - A pod with `restartPolicy: Always` and no run annotations runs until it is deleted; any other pod terminates
//!   after one second.
//! - `activeDeadlineSeconds` counts from `status.startTime`, also if it is set or lowered while the pod runs.

use std::time::Duration;

use muster_api::consts::annotations;
use muster_api::meta;
use muster_api::paths::pod as path;
use muster_api::pod::PodPhase;
use muster_api::pod_status::{self, CODE_TERMINATED, SimulatedContainers};
use muster_api::time::Time;
use muster_tree::Tree;

/// CrashLoopBackOff of a kubelet: starts at 10 s and doubles with each restart, up to 5 minutes.
const RESTART_BACKOFF_FIRST: Duration = Duration::from_secs(10);
const RESTART_BACKOFF_MAX: Duration = Duration::from_secs(300);

/// Timestamps of a pod in microseconds; its status holds whole seconds.
#[derive(Debug, Default, Clone, Copy)]
pub struct SimulatedPodState {
    bound: Option<Time>,
    running: Option<(Time, i64)>,
    stopped: Option<(Time, i64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulatedStep {
    Finished,
    RequeueAt(Time),
    UpdateStatus(SimulatedContainers),
    Delete,
}

pub fn next(pod: &Tree, memory: &mut SimulatedPodState, now: Time) -> SimulatedStep {
    let phase = PodPhase::of(pod.str_at(path::PHASE));
    if meta::deletion_timestamp(pod).is_some() {
        return match phase.is_terminal() {
            false => SimulatedStep::UpdateStatus(ended(pod, memory, now, CODE_TERMINATED)),
            // With a grace period of zero the API server removes the object once its finalizers are gone.
            true if meta::deletion_grace_secs(pod) == 0 => SimulatedStep::Finished,
            true => SimulatedStep::Delete,
        };
    }
    let deadline = deadline(pod);
    match (phase, pod_status::read_simulated(pod)) {
        _ if phase.is_terminal() => return SimulatedStep::Finished,
        _ if deadline.is_some_and(|at| now >= at) => {
            return SimulatedStep::UpdateStatus(exceeded(pod, memory, now));
        }
        _ => {}
    }
    match (planned(pod, phase, memory, now), deadline) {
        (SimulatedStep::RequeueAt(later), Some(at)) => SimulatedStep::RequeueAt(later.min(at)),
        (SimulatedStep::Finished, Some(at)) => SimulatedStep::RequeueAt(at),
        (planned, _) => planned,
    }
}

/// When `activeDeadlineSeconds` expires, counted from `status.startTime`.
fn deadline(pod: &Tree) -> Option<Time> {
    let secs = pod.int_at(path::DEADLINE).and_then(|secs| u64::try_from(secs).ok())?;
    Some(Time::of(pod.at(path::START_TIME))? + Duration::from_secs(secs))
}

/// The next step of a running pod that is not being deleted, without regard to its deadline.
fn planned(pod: &Tree, phase: PodPhase, memory: &mut SimulatedPodState, now: Time) -> SimulatedStep {
    match (phase, pod_status::read_simulated(pod)) {
        (PodPhase::Running, Some((since, restarts, true))) => run(pod, memory, since, restarts, now),
        (PodPhase::Running, Some((until, restarts, false))) => restart(memory, until, restarts, now),
        _ => start(pod, memory, now),
    }
}

fn start(pod: &Tree, memory: &mut SimulatedPodState, now: Time) -> SimulatedStep {
    let begun = Time::of(pod.at(path::START_TIME));
    // The start delay counts from `status.startTime`, or from the first sync.
    let bound = *memory.bound.get_or_insert(begun.unwrap_or(now));
    let ready = bound + seconds(pod, annotations::SIM_START_SECONDS, 0.0);
    match (now >= ready, begun) {
        (true, _) => {
            memory.running = Some((now, 0));
            SimulatedStep::UpdateStatus(SimulatedContainers::Running { since: now, restarts: 0 })
        }
        (false, None) => SimulatedStep::UpdateStatus(SimulatedContainers::Creating),
        (false, Some(_)) => SimulatedStep::RequeueAt(ready),
    }
}

fn run(pod: &Tree, memory: &mut SimulatedPodState, shown: Time, restarts: i64, now: Time) -> SimulatedStep {
    if is_endless(pod) {
        return SimulatedStep::Finished;
    }
    let since = exact(memory.running, shown, restarts);
    let end = since + seconds(pod, annotations::SIM_RUN_SECONDS, 1.0);
    if now < end {
        return SimulatedStep::RequeueAt(end);
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
        return SimulatedStep::UpdateStatus(SimulatedContainers::Waiting {
            since,
            until: now,
            code,
            restarts,
        });
    }
    SimulatedStep::UpdateStatus(ended(pod, memory, now, code))
}

/// Whether no annotation ends the containers and the restart policy is `Always`.
fn is_endless(pod: &Tree) -> bool {
    let ends = [annotations::SIM_RUN_SECONDS, annotations::SIM_EXIT_CODE];
    !matches!(pod.str_at(path::RESTART_POLICY), "Never" | "OnFailure")
        && ends.iter().all(|annotation| meta::annotation(pod, annotation).is_none())
}

fn restart(memory: &mut SimulatedPodState, shown: Time, restarts: i64, now: Time) -> SimulatedStep {
    let until = exact(memory.stopped, shown, restarts);
    // Bounded exponent: the cap applies long before the shift could overflow.
    let doublings = u32::try_from(restarts).unwrap_or(0).min(10);
    let again = until + RESTART_BACKOFF_FIRST.saturating_mul(1 << doublings).min(RESTART_BACKOFF_MAX);
    if now < again {
        return SimulatedStep::RequeueAt(again);
    }
    memory.running = Some((now, restarts + 1));
    SimulatedStep::UpdateStatus(SimulatedContainers::Running { since: now, restarts: restarts + 1 })
}

fn ended(pod: &Tree, memory: &SimulatedPodState, now: Time, code: i64) -> SimulatedContainers {
    let (shown, restarts, _) = pod_status::read_simulated(pod).unwrap_or((now, 0, false));
    SimulatedContainers::Ended { since: exact(memory.running, shown, restarts), until: now, code, restarts }
}

fn exceeded(pod: &Tree, memory: &SimulatedPodState, now: Time) -> SimulatedContainers {
    let (shown, restarts, _) = pod_status::read_simulated(pod).unwrap_or((now, 0, false));
    SimulatedContainers::DeadlineExceeded {
        since: exact(memory.running, shown, restarts),
        until: now,
        restarts,
    }
}

/// The remembered timestamp if it matches the one in the status (same restart count, same second), else the latter.
fn exact(remembered: Option<(Time, i64)>, shown: Time, restarts: i64) -> Time {
    let same =
        |(at, number): &(Time, i64)| *number == restarts && at.whole_seconds() == shown.whole_seconds();
    remembered.filter(same).map_or(shown, |(at, _)| at)
}

/// Maximum of a duration annotation: one year.
const SECONDS_MAX: f64 = 31_536_000.0;

fn seconds(pod: &Tree, annotation: &str, default: f64) -> Duration {
    let asked = meta::annotation(pod, annotation).and_then(|text| text.parse::<f64>().ok());
    Duration::from_secs_f64(asked.filter(|secs| secs.is_finite()).unwrap_or(default).clamp(0.0, SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use muster_api::pod_status::{PodAddresses, simulated_patch};
    use muster_tree::tree;

    use super::*;

    fn at(millis: i64) -> Time {
        Time(1_700_000_000_000_000 + millis * 1000)
    }

    /// Lets a pod live and writes down what it shows and when.
    fn live(annotations: Tree, restart: &str, until: i64) -> Vec<(i64, String)> {
        let mut pod = tree!({"metadata": {"name": "p", "uid": "u", "annotations": annotations},
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}});
        let (mut memory, mut now, mut shown) = (SimulatedPodState::default(), at(250), Vec::new());
        while now <= at(until) {
            match next(&pod, &mut memory, now) {
                SimulatedStep::RequeueAt(later) => now = later,
                SimulatedStep::UpdateStatus(doing) => {
                    let addresses = PodAddresses { host: "h".into(), pod: "p".into() };
                    pod = pod.merge(&simulated_patch(&pod, &addresses, &doing, now));
                    let restarts = pod_status::read_simulated(&pod).map_or(0, |(_, restarts, _)| restarts);
                    shown.push(((now.0 - at(0).0) / 1000, format!("{} {restarts}", doing.phase().as_str())));
                }
                SimulatedStep::Finished | SimulatedStep::Delete => break,
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
        let mut memory = SimulatedPodState::default();
        assert_eq!(next(&pod, &mut memory, at(60_000)), SimulatedStep::Finished);
        let limited = pod.with(path::DEADLINE, 90);
        assert_eq!(next(&limited, &mut memory, at(60_000)), SimulatedStep::RequeueAt(at(90_000)));
        let lowered = pod.with(path::DEADLINE, 30);
        let SimulatedStep::UpdateStatus(doing) = next(&lowered, &mut memory, at(60_000)) else {
            panic!("its time is over")
        };
        let addresses = PodAddresses { host: "h".into(), pod: "p".into() };
        let shown = pod.merge(&simulated_patch(&lowered, &addresses, &doing, at(60_000)));
        let words = ["phase", "reason", "message"].map(|key| shown.str_at(&["status", key]).to_owned());
        let message = "Pod was active on the node longer than the specified deadline";
        assert_eq!(words, ["Failed", "DeadlineExceeded", message]);
        assert_eq!(next(&shown, &mut memory, at(70_000)), SimulatedStep::Finished, "it has ended");
    }

    #[test]
    fn a_deleted_pod_ends_and_is_buried_once() {
        let pod = tree!({"metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
            "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}});
        let mut memory = SimulatedPodState::default();
        let SimulatedStep::UpdateStatus(doing) = next(&pod, &mut memory, at(0)) else { panic!() };
        assert_eq!(doing.phase(), PodPhase::Failed);
        let ended = pod.with(path::PHASE, "Failed");
        assert_eq!(next(&ended, &mut memory, at(0)), SimulatedStep::Delete);
        let released = ended.with(&["metadata", "deletionGracePeriodSeconds"], 0);
        assert_eq!(next(&released, &mut memory, at(0)), SimulatedStep::Finished);
    }
}
