//! The status of a Pod as the kubelet writes it, for local and for simulated pods.

use muster_tree::{Text, Tree, tree};

use crate::condition::{self, DesiredCondition};
use crate::consts::{conditions, reasons};
use crate::meta;
use crate::paths::{condition as condition_path, container_status, pod as path};
use crate::pod::{self, PodPhase};
use crate::time::Time;

/// The addresses of a running pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodAddresses {
    /// IP address of the node.
    pub host: Text,
    /// IP address of the pod.
    pub pod: Text,
}

/// The common state of all containers of a simulated pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are start, end, exit code and restart count of the containers")]
pub enum SimulatedContainers {
    Creating,
    Running {
        since: Time,
        /// How often they were restarted.
        restarts: i64,
    },
    Waiting {
        since: Time,
        until: Time,
        code: i64,
        /// How often they were restarted.
        restarts: i64,
    },
    Ended {
        since: Time,
        until: Time,
        code: i64,
        /// How often they were restarted.
        restarts: i64,
    },
    DeadlineExceeded {
        since: Time,
        until: Time,
        /// How often they were restarted.
        restarts: i64,
    },
}

/// `status.message` of a pod that exceeded `activeDeadlineSeconds`, upstream's text.
pub const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
/// Exit code of a process that was terminated by SIGTERM (128 + 15).
pub const CODE_TERMINATED: i64 = 143;

impl SimulatedContainers {
    /// Phase of a pod with its containers in this state.
    #[must_use]
    pub fn phase(&self) -> PodPhase {
        match self {
            SimulatedContainers::Creating => PodPhase::Pending,
            SimulatedContainers::Running { .. } | SimulatedContainers::Waiting { .. } => PodPhase::Running,
            SimulatedContainers::Ended { code: 0, .. } => PodPhase::Succeeded,
            SimulatedContainers::Ended { .. } | SimulatedContainers::DeadlineExceeded { .. } => {
                PodPhase::Failed
            }
        }
    }
}

/// Reads start time, restart count and whether the containers run from the status of a simulated pod; lets a restarted
/// simulator resume it.
#[must_use]
pub fn read_simulated(pod: &Tree) -> Option<(Time, i64, bool)> {
    let first = pod.items_at(path::CONTAINER_STATUSES).first()?;
    let restarts = first.int_at(container_status::RESTARTS).unwrap_or(0);
    match Time::of(first.at(container_status::STARTED)) {
        Some(since) => Some((since, restarts, true)),
        None => Some((Time::of(first.at(&["lastState", "terminated", "finishedAt"]))?, restarts, false)),
    }
}

/// A strategic merge patch of the status of a simulated pod; all its containers have the same state.
#[must_use]
pub fn simulated_patch(pod: &Tree, addresses: &PodAddresses, doing: &SimulatedContainers, now: Time) -> Tree {
    let containers = pod::containers(pod).map(|(name, image)| simulated(pod, name, image, doing));
    let (reason, message) = match doing {
        SimulatedContainers::DeadlineExceeded { .. } => (reasons::DEADLINE_EXCEEDED, DEADLINE_MESSAGE),
        _ => ("", ""),
    };
    let report = PodStatusReport {
        phase: doing.phase(),
        reason: reason.into(),
        message: message.into(),
        sandbox: !doing.phase().is_terminal() && !matches!(doing, SimulatedContainers::Creating),
        containers: containers.collect(),
        ..PodStatusReport::default()
    };
    report.patch(pod, addresses, now)
}

/// The pod status that a kubelet computes, as input of a status patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodStatusReport {
    /// The phase to report in `status.phase`.
    pub phase: PodPhase,
    /// `status.reason`; empty except for failures by the kubelet.
    pub reason: Text,
    /// `status.message`: details of `reason`.
    pub message: Text,
    /// The sandbox and its network exist: condition `PodReadyToStartContainers`.
    pub sandbox: bool,
    /// Init containers and sidecars, in spec order.
    pub inits: Vec<ContainerStatusReport>,
    /// Main containers, in spec order.
    pub containers: Vec<ContainerStatusReport>,
    /// `spec.readinessGates`: condition types that other controllers set.
    pub gates: Vec<Text>,
    /// Reason and message of the `DisruptionTarget` condition.
    pub disruption: Option<(Text, Text)>,
}

/// The status of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatusReport {
    /// Name of the container in the spec.
    pub name: Text,
    /// Image as in the spec.
    pub image: Text,
    /// `containerID` of the current run; empty before the first one.
    pub id: Text,
    /// Ready to serve; for an init container: completed.
    pub ready: bool,
    /// Startup probe and `postStart` hook are done; `None` for an init container that runs to completion.
    pub started: Option<bool>,
    /// Number of restarts so far: `restartCount`.
    pub restarts: i64,
    /// Its current state: `state`.
    pub state: ContainerState,
    /// `lastState`: how the previous run terminated.
    pub last: Option<TerminatedState>,
    /// Counts as initialized for the `Initialized` condition; ignored for main containers.
    pub initialized: bool,
    /// An init container with `restartPolicy: Always`.
    pub sidecar: bool,
}

/// `state` of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// Not running: being created, or waiting for a restart.
    Waiting {
        /// Reason, for example `CrashLoopBackOff`.
        reason: Text,
        /// The same in a sentence; may be empty.
        message: Text,
    },
    /// Running since this time.
    Running(Time),
    /// The last run terminated and no restart is due.
    Terminated(TerminatedState),
}

/// `state.terminated`: how a run of a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminatedState {
    /// `containerID` of the run.
    pub id: Text,
    /// `startedAt`; `None` when the kubelet does not know.
    pub since: Option<Time>,
    /// `finishedAt`; `None` when the kubelet does not know.
    pub until: Option<Time>,
    /// Exit code of the process.
    pub code: i64,
    /// Signal that killed the process.
    pub signal: Option<i64>,
    /// `reason`, for example `Completed`, `Error` or `OOMKilled`.
    pub reason: Text,
    /// Termination message; may be empty.
    pub message: Text,
}

impl PodStatusReport {
    /// A strategic merge patch of `status`, with the conditions that the kubelet owns.
    #[must_use]
    pub fn patch(&self, pod: &Tree, addresses: &PodAddresses, now: Time) -> Tree {
        let mut all = pod.items_at(path::CONDITIONS).to_vec();
        let generation = pod.int_at(&["metadata", "generation"]).unwrap_or(1);
        for wanted in self.conditions(&all) {
            condition::set(&mut all, &wanted.as_wanted(), now);
        }
        let known = pod.items_at(path::CONDITIONS);
        let tidy = |c: &Tree| match OWN_CONDITIONS.contains(&c.str_at(condition_path::TYPE)) {
            true => without_blanks(c, condition::find(known, c.str_at(condition_path::TYPE)))
                .with(&["observedGeneration"], generation)
                .with(condition_path::PROBED, Tree::Null),
            false => c.clone(),
        };
        // startTime is set once and survives restarts of the kubelet.
        let start = Time::of(pod.at(path::START_TIME)).unwrap_or(now);
        let statuses =
            |list: &[ContainerStatusReport]| Tree::list(list.iter().map(ContainerStatusReport::tree));
        let mut status = tree!({
            "phase": self.phase.as_str(), "observedGeneration": generation,
            "conditions": Tree::list(all.iter().map(tidy)),
            "containerStatuses": statuses(&self.containers),
            "hostIP": &addresses.host, "hostIPs": [{"ip": &addresses.host}],
            "podIP": &addresses.pod, "podIPs": [{"ip": &addresses.pod}],
            "startTime": start.to_seconds_text()});
        if !self.inits.is_empty() {
            status = status.with(&["initContainerStatuses"], statuses(&self.inits));
        }
        for (key, text) in [("reason", &self.reason), ("message", &self.message)] {
            if !text.is_empty() {
                status = status.with(&[key], text);
            }
        }
        tree!({"status": status})
    }

    fn conditions(&self, known: &[Tree]) -> Vec<Condition> {
        use conditions::{CONTAINERS_READY, READY, READY_TO_START};
        let sandbox = Condition::plain(READY_TO_START, self.sandbox);
        let ready = self.ready(CONTAINERS_READY);
        let pod_ready = if ready.holds { self.gated(known) } else { self.ready(READY) };
        let disruption = self.disruption.as_ref().map(|(reason, message)| Condition {
            kind: conditions::DISRUPTION_TARGET,
            holds: true,
            reason: reason.clone(),
            message: message.to_string(),
        });
        let mut all = vec![sandbox, self.initialized(), pod_ready, ready];
        all.extend(disruption);
        all
    }

    fn initialized(&self) -> Condition {
        let kind = conditions::INITIALIZED;
        let left: Vec<&str> =
            self.inits.iter().filter(|it| !it.initialized).map(|it| it.name.as_str()).collect();
        match self.phase {
            PodPhase::Succeeded => {
                Condition { reason: reasons::POD_COMPLETED.into(), ..Condition::plain(kind, true) }
            }
            _ if left.is_empty() => Condition::plain(kind, true),
            _ => Condition {
                kind,
                holds: false,
                reason: reasons::CONTAINERS_NOT_INITIALIZED.into(),
                message: format!("containers with incomplete status: [{}]", left.join(" ")),
            },
        }
    }

    fn ready(&self, kind: &'static str) -> Condition {
        let because = |reason: &str| Condition { reason: reason.into(), ..Condition::plain(kind, false) };
        match self.phase {
            PodPhase::Succeeded => return because(reasons::POD_COMPLETED),
            PodPhase::Failed => return because(reasons::POD_FAILED),
            _ => {}
        }
        // Sidecars count for readiness, init containers do not.
        let beside = self.inits.iter().filter(|it| it.sidecar);
        let unready = beside.chain(&self.containers).filter(|it| !it.ready);
        let names: Vec<&str> = unready.map(|it| it.name.as_str()).collect();
        if names.is_empty() {
            return Condition::plain(kind, true);
        }
        let message = format!("containers with unready status: [{}]", names.join(" "));
        Condition { message, ..because(reasons::CONTAINERS_NOT_READY) }
    }

    /// The `Ready` condition of a pod with ready containers: `False` while a readiness gate is not `True`.
    fn gated(&self, known: &[Tree]) -> Condition {
        let open = self.gates.iter().filter(|gate| !condition::is_true(known, gate));
        let told = open.map(|gate| match condition::find(known, gate) {
            None => format!("corresponding condition of pod readiness gate \"{gate}\" does not exist."),
            Some(it) => {
                let is = it.str_at(condition_path::STATUS);
                format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {is}")
            }
        });
        let told: Vec<String> = told.collect();
        match told.is_empty() {
            true => Condition::plain(conditions::READY, true),
            false => Condition {
                kind: conditions::READY,
                holds: false,
                reason: reasons::READINESS_GATES_NOT_READY.into(),
                message: told.join(", "),
            },
        }
    }
}

impl ContainerStatusReport {
    fn tree(&self) -> Tree {
        let state = match &self.state {
            ContainerState::Waiting { reason, message } if message.is_empty() => {
                tree!({"waiting": {"reason": reason}})
            }
            ContainerState::Waiting { reason, message } => {
                tree!({"waiting": {"reason": reason, "message": message}})
            }
            ContainerState::Running(since) => tree!({"running": {"startedAt": since.to_seconds_text()}}),
            ContainerState::Terminated(end) => end.tree(),
        };
        let last = self.last.as_ref().map_or_else(Tree::empty_map, TerminatedState::tree);
        // A container that never ran has no image ID.
        let image_id = if self.id.is_empty() { Text::new() } else { self.image.clone() };
        let mut tree = tree!({"name": &self.name, "image": &self.image, "imageID": image_id, "lastState": last,
            "ready": self.ready, "restartCount": self.restarts, "state": state});
        if let Some(started) = self.started {
            tree = tree.with(&["started"], started);
        }
        if !self.id.is_empty() {
            tree = tree.with(&["containerID"], &self.id);
        }
        tree
    }
}

impl TerminatedState {
    fn tree(&self) -> Tree {
        let time = |at: Option<Time>| at.map_or(Tree::Null, |at| Tree::from(at.to_seconds_text()));
        let mut tree = tree!({"exitCode": self.code, "reason": &self.reason, "startedAt": time(self.since),
            "finishedAt": time(self.until)});
        if let Some(signal) = self.signal {
            tree = tree.with(&["signal"], signal);
        }
        for (key, text) in [("containerID", &self.id), ("message", &self.message)] {
            if !text.is_empty() {
                tree = tree.with(&[key], text);
            }
        }
        tree!({"terminated": tree})
    }
}

/// Condition types with empty fields and generation maintained by the kubelet, `PodScheduled` included.
const OWN_CONDITIONS: &[&str] = &[
    conditions::POD_SCHEDULED,
    conditions::READY_TO_START,
    conditions::INITIALIZED,
    conditions::READY,
    conditions::CONTAINERS_READY,
    conditions::DISRUPTION_TARGET,
];

struct Condition {
    kind: &'static str,
    holds: bool,
    reason: Text,
    message: String,
}

impl Condition {
    fn plain(kind: &'static str, holds: bool) -> Condition {
        Condition { kind, holds, reason: Text::new(), message: String::new() }
    }

    fn as_wanted(&self) -> DesiredCondition<'_> {
        DesiredCondition {
            condition_type: self.kind,
            status: self.holds,
            reason: &self.reason,
            message: &self.message,
        }
    }
}

/// Omits an empty reason or message, as upstream's `omitempty` does; one that is stored is set to null, because a merge
/// patch keeps what it does not name.
fn without_blanks(condition: &Tree, known: Option<&Tree>) -> Tree {
    [condition_path::REASON, condition_path::MESSAGE].iter().fold(condition.clone(), |tree, path| {
        let was_said = known.is_some_and(|known| !known.str_at(path).is_empty());
        match (tree.str_at(path).is_empty(), was_said) {
            (false, _) => tree,
            (true, true) => tree.with(path, Tree::Null),
            (true, false) => tree.without(path),
        }
    })
}

fn simulated(pod: &Tree, name: Text, image: Text, doing: &SimulatedContainers) -> ContainerStatusReport {
    let id = Text::from(format!("sim://{}/{name}", meta::uid(pod)));
    let ended = |since: Time, until: Time, code: i64| TerminatedState {
        id: id.clone(),
        since: Some(since),
        until: Some(until),
        code,
        signal: None,
        reason: if code == 0 { reasons::CONTAINER_COMPLETED } else { reasons::CONTAINER_ERROR }.into(),
        message: Text::new(),
    };
    let waiting = |reason: &str, message: &str| ContainerState::Waiting {
        reason: reason.into(),
        message: message.into(),
    };
    let (state, restarts, last) = match *doing {
        SimulatedContainers::Creating => (waiting(reasons::CONTAINER_CREATING, ""), 0, None),
        SimulatedContainers::Running { since, restarts } => (ContainerState::Running(since), restarts, None),
        SimulatedContainers::Waiting { since, until, code, restarts } => {
            let why = waiting(reasons::CRASH_LOOP, "the container is restarted after a pause");
            (why, restarts, Some(ended(since, until, code)))
        }
        SimulatedContainers::Ended { since, until, code, restarts } => {
            (ContainerState::Terminated(ended(since, until, code)), restarts, None)
        }
        SimulatedContainers::DeadlineExceeded { since, until, restarts } => {
            (ContainerState::Terminated(ended(since, until, CODE_TERMINATED)), restarts, None)
        }
    };
    let runs = matches!(doing, SimulatedContainers::Running { .. });
    let id = if matches!(doing, SimulatedContainers::Creating) { Text::new() } else { id };
    ContainerStatusReport {
        name,
        image,
        id,
        ready: runs,
        started: Some(runs),
        restarts,
        state,
        last,
        initialized: true,
        sidecar: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_conditions_follow_container_states() {
        let pod = tree!({"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}});
        let at = |secs: i64| Time(secs * 1_000_000);
        let (since, until, restarts) = (at(1), at(2), 0);
        for (doing, phase, ready, reason) in [
            (SimulatedContainers::Creating, "Pending", "False", "ContainersNotReady"),
            (SimulatedContainers::Running { since, restarts }, "Running", "True", ""),
            (
                SimulatedContainers::Ended { since, until, code: 0, restarts },
                "Succeeded",
                "False",
                "PodCompleted",
            ),
            (SimulatedContainers::Ended { since, until, code: 3, restarts }, "Failed", "False", "PodFailed"),
        ] {
            let addresses = PodAddresses { host: "1".into(), pod: "2".into() };
            let patch = simulated_patch(&pod, &addresses, &doing, at(3));
            let all = patch.items_at(path::CONDITIONS);
            let found = condition::find(all, conditions::READY).unwrap();
            assert_eq!(patch.str_at(path::PHASE), phase);
            assert_eq!((found.str_at(&["status"]), found.str_at(&["reason"])), (ready, reason), "{doing:?}");
            assert_eq!(all.len(), 5, "the scheduler's condition stays");
            let read = read_simulated(&pod.merge(&patch));
            assert_eq!(
                read,
                matches!(doing, SimulatedContainers::Running { .. }).then_some((since, 0, true))
            );
        }
    }
}
