//! The status of a Pod as a kubelet writes it.

use muster_tree::{Text, Tree, tree};

use crate::condition::{self, Wanted};
use crate::meta;
use crate::paths::{condition as condition_path, container_status, pod as path};
use crate::pod::{self, Phase};
use crate::time::Time;
use crate::words::{conditions, reasons};

/// Where a pod runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The node's address.
    pub host: Text,
    /// The pod's address.
    pub pod: Text,
}

/// What all containers of a pod are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Being made.
    Creating,
    /// Running since then.
    Running {
        /// Since when.
        since: Time,
        /// How often they were restarted.
        restarts: i64,
    },
    /// Waiting to be restarted.
    Waiting {
        /// When they began.
        since: Time,
        /// When they ended.
        until: Time,
        /// With which code.
        code: i64,
        /// How often they were restarted.
        restarts: i64,
    },
    /// Ended for good.
    Ended {
        /// When they began.
        since: Time,
        /// When they ended.
        until: Time,
        /// With which code.
        code: i64,
        /// How often they were restarted.
        restarts: i64,
    },
    /// Ended because the pod was active for longer than its `activeDeadlineSeconds`.
    DeadlineExceeded {
        /// When they began.
        since: Time,
        /// When they ended.
        until: Time,
        /// How often they were restarted.
        restarts: i64,
    },
}

/// The message of a pod that was active for too long.
pub const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
/// The code of a process that ended by SIGTERM.
pub const CODE_TERMINATED: i64 = 143;

impl Doing {
    /// The phase of the pod.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self {
            Doing::Creating => Phase::Pending,
            Doing::Running { .. } | Doing::Waiting { .. } => Phase::Running,
            Doing::Ended { code: 0, .. } => Phase::Succeeded,
            Doing::Ended { .. } | Doing::DeadlineExceeded { .. } => Phase::Failed,
        }
    }
}

/// When the containers began, how often they were restarted, and whether they run; read back from a status.
#[must_use]
pub fn read(pod: &Tree) -> Option<(Time, i64, bool)> {
    let first = pod.items_at(path::CONTAINER_STATUSES).first()?;
    let restarts = first.int_at(container_status::RESTARTS).unwrap_or(0);
    match Time::of(first.at(container_status::STARTED)) {
        Some(since) => Some((since, restarts, true)),
        None => Some((Time::of(first.at(&["lastState", "terminated", "finishedAt"]))?, restarts, false)),
    }
}

/// A strategic patch of `status` for a pod all of whose containers do the same.
#[must_use]
pub fn patch(pod: &Tree, addresses: &Addresses, doing: &Doing, now: Time) -> Tree {
    let containers = pod::containers(pod).map(|(name, image)| simulated(pod, name, image, doing));
    let (reason, message) = match doing {
        Doing::DeadlineExceeded { .. } => (reasons::DEADLINE_EXCEEDED, DEADLINE_MESSAGE),
        _ => ("", ""),
    };
    let report = Report {
        phase: doing.phase(),
        reason: reason.into(),
        message: message.into(),
        sandbox: !doing.phase().ended() && !matches!(doing, Doing::Creating),
        containers: containers.collect(),
        ..Report::default()
    };
    report.patch(pod, addresses, now)
}

/// All that a kubelet tells of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Phase.
    pub phase: Phase,
    /// Why it is in this phase; empty for the usual.
    pub reason: Text,
    /// The same in a sentence.
    pub message: Text,
    /// Whether the place where containers run is made.
    pub sandbox: bool,
    /// Init containers and sidecars.
    pub inits: Vec<ContainerReport>,
    /// The others.
    pub containers: Vec<ContainerReport>,
    /// Conditions that others must set before it is ready.
    pub gates: Vec<Text>,
    /// Why the pod has to go through no fault of its own: reason and message.
    pub disruption: Option<(Text, Text)>,
}

/// What a kubelet tells of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerReport {
    /// Name.
    pub name: Text,
    /// Image.
    pub image: Text,
    /// Which run of it; empty when there was none.
    pub id: Text,
    /// Whether it can serve; of an init container, whether it is done.
    pub ready: bool,
    /// Whether it has come up; of an init container that runs to its end, nothing.
    pub started: Option<bool>,
    /// How often it was restarted.
    pub restarts: i64,
    /// How it is.
    pub state: ContainerState,
    /// How the run before ended.
    pub last: Option<Terminated>,
    /// Whether it counts as initialized; of no meaning for main containers.
    pub initialized: bool,
    /// Whether it stays beside the main containers.
    pub sidecar: bool,
}

/// How a container is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// It does not run.
    Waiting {
        /// Why.
        reason: Text,
        /// The same in a sentence; may be empty.
        message: Text,
    },
    /// It runs since then.
    Running(Time),
    /// It ended.
    Ended(Terminated),
}

/// How a run of a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminated {
    /// Which run.
    pub id: Text,
    /// When it began.
    pub since: Option<Time>,
    /// When it ended.
    pub until: Option<Time>,
    /// With which code.
    pub code: i64,
    /// By which signal.
    pub signal: Option<i64>,
    /// Why.
    pub reason: Text,
    /// Last words; may be empty.
    pub message: Text,
}

impl Report {
    /// A strategic patch of `status`.
    #[must_use]
    pub fn patch(&self, pod: &Tree, addresses: &Addresses, now: Time) -> Tree {
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
        let start = Time::of(pod.at(path::START_TIME)).unwrap_or(now);
        let statuses = |list: &[ContainerReport]| Tree::list(list.iter().map(ContainerReport::tree));
        let mut status = tree!({
            "phase": self.phase.word(), "observedGeneration": generation,
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
            Phase::Succeeded => {
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
            Phase::Succeeded => return because(reasons::POD_COMPLETED),
            Phase::Failed => return because(reasons::POD_FAILED),
            _ => {}
        }
        let beside = self.inits.iter().filter(|it| it.sidecar);
        let unready = beside.chain(&self.containers).filter(|it| !it.ready);
        let names: Vec<&str> = unready.map(|it| it.name.as_str()).collect();
        if names.is_empty() {
            return Condition::plain(kind, true);
        }
        let message = format!("containers with unready status: [{}]", names.join(" "));
        Condition { message, ..because(reasons::CONTAINERS_NOT_READY) }
    }

    /// Ready, if the conditions of others are.
    fn gated(&self, known: &[Tree]) -> Condition {
        let open = self.gates.iter().filter(|gate| !condition::holds(known, gate));
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

impl ContainerReport {
    fn tree(&self) -> Tree {
        let state = match &self.state {
            ContainerState::Waiting { reason, message } if message.is_empty() => {
                tree!({"waiting": {"reason": reason}})
            }
            ContainerState::Waiting { reason, message } => {
                tree!({"waiting": {"reason": reason, "message": message}})
            }
            ContainerState::Running(since) => tree!({"running": {"startedAt": since.to_seconds_text()}}),
            ContainerState::Ended(end) => end.tree(),
        };
        let last = self.last.as_ref().map_or_else(Tree::empty_map, Terminated::tree);
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

impl Terminated {
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

/// The conditions that a kubelet writes, that of the scheduler among them.
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

    fn as_wanted(&self) -> Wanted<'_> {
        Wanted { kind: self.kind, holds: self.holds, reason: &self.reason, message: &self.message }
    }
}

/// Empty reasons and messages are left out, as they are on the wire; one that was there before has to be taken away.
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

fn simulated(pod: &Tree, name: Text, image: Text, doing: &Doing) -> ContainerReport {
    let id = Text::from(format!("sim://{}/{name}", meta::uid(pod)));
    let ended = |since: Time, until: Time, code: i64| Terminated {
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
        Doing::Creating => (waiting(reasons::CONTAINER_CREATING, ""), 0, None),
        Doing::Running { since, restarts } => (ContainerState::Running(since), restarts, None),
        Doing::Waiting { since, until, code, restarts } => {
            let why = waiting(reasons::CRASH_LOOP, "the container is restarted after a pause");
            (why, restarts, Some(ended(since, until, code)))
        }
        Doing::Ended { since, until, code, restarts } => {
            (ContainerState::Ended(ended(since, until, code)), restarts, None)
        }
        Doing::DeadlineExceeded { since, until, restarts } => {
            (ContainerState::Ended(ended(since, until, CODE_TERMINATED)), restarts, None)
        }
    };
    let runs = matches!(doing, Doing::Running { .. });
    let id = if matches!(doing, Doing::Creating) { Text::new() } else { id };
    ContainerReport {
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
    fn conditions_by_what_the_containers_do() {
        let pod = tree!({"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}});
        let at = |secs: i64| Time(secs * 1_000_000);
        let (since, until, restarts) = (at(1), at(2), 0);
        for (doing, phase, ready, reason) in [
            (Doing::Creating, "Pending", "False", "ContainersNotReady"),
            (Doing::Running { since, restarts }, "Running", "True", ""),
            (Doing::Ended { since, until, code: 0, restarts }, "Succeeded", "False", "PodCompleted"),
            (Doing::Ended { since, until, code: 3, restarts }, "Failed", "False", "PodFailed"),
        ] {
            let addresses = Addresses { host: "1".into(), pod: "2".into() };
            let patch = patch(&pod, &addresses, &doing, at(3));
            let all = patch.items_at(path::CONDITIONS);
            let found = condition::find(all, conditions::READY).unwrap();
            assert_eq!(patch.str_at(path::PHASE), phase);
            assert_eq!((found.str_at(&["status"]), found.str_at(&["reason"])), (ready, reason), "{doing:?}");
            assert_eq!(all.len(), 5, "the scheduler's condition stays");
            let read = read(&pod.merge(&patch));
            assert_eq!(read, matches!(doing, Doing::Running { .. }).then_some((since, 0, true)));
        }
    }
}
