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
}

impl Doing {
    /// The phase of the pod.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self {
            Doing::Creating => Phase::Pending,
            Doing::Running { .. } | Doing::Waiting { .. } => Phase::Running,
            Doing::Ended { code: 0, .. } => Phase::Succeeded,
            Doing::Ended { .. } => Phase::Failed,
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

/// A strategic patch of `status`.
#[must_use]
pub fn patch(pod: &Tree, addresses: &Addresses, doing: &Doing, now: Time) -> Tree {
    let mut all = pod.items_at(path::CONDITIONS).to_vec();
    let generation = pod.int_at(&["metadata", "generation"]).unwrap_or(1);
    for wanted in wanted_conditions(pod, doing) {
        condition::set(&mut all, &wanted.as_wanted(), now);
    }
    let tidy = |c: &Tree| {
        without_blanks(c).with(&["observedGeneration"], generation).with(condition_path::PROBED, Tree::Null)
    };
    let statuses = pod::containers(pod).map(|(name, image)| container_status(pod, &name, &image, doing));
    let start = Time::of(pod.at(path::START_TIME)).unwrap_or(now);
    tree!({"status": {
        "phase": doing.phase().word(), "observedGeneration": generation,
        "conditions": Tree::list(all.iter().map(tidy)),
        "containerStatuses": Tree::list(statuses),
        "hostIP": &addresses.host, "hostIPs": [{"ip": &addresses.host}],
        "podIP": &addresses.pod, "podIPs": [{"ip": &addresses.pod}],
        "startTime": start.to_seconds_text()}})
}

struct Condition {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn as_wanted(&self) -> Wanted<'_> {
        Wanted { kind: self.kind, holds: self.holds, reason: self.reason, message: &self.message }
    }
}

fn wanted_conditions(pod: &Tree, doing: &Doing) -> Vec<Condition> {
    let plain = |kind, holds| Condition { kind, holds, reason: "", message: String::new() };
    let because = |kind, reason| Condition { kind, holds: false, reason, message: String::new() };
    let unready = |kind| {
        let names: Vec<Text> = pod::containers(pod).map(|(name, _)| name).collect();
        let message = format!("containers with unready status: [{}]", names.join(" "));
        Condition { kind, holds: false, reason: reasons::CONTAINERS_NOT_READY, message }
    };
    use conditions::{CONTAINERS_READY, INITIALIZED, READY, READY_TO_START};
    let (sandbox, ready): (bool, fn(&'static str) -> Option<&'static str>) = match doing.phase() {
        Phase::Succeeded => (false, |_| Some(reasons::POD_COMPLETED)),
        Phase::Failed => (false, |_| Some(reasons::POD_FAILED)),
        _ => (!matches!(doing, Doing::Creating), |_| None),
    };
    let state = |kind| match (ready(kind), doing) {
        (Some(reason), _) => because(kind, reason),
        (None, Doing::Running { .. }) => plain(kind, true),
        (None, _) => unready(kind),
    };
    let initialized = match doing.phase() {
        Phase::Succeeded => Condition { reason: reasons::POD_COMPLETED, ..plain(INITIALIZED, true) },
        _ => plain(INITIALIZED, true),
    };
    vec![plain(READY_TO_START, sandbox), initialized, state(READY), state(CONTAINERS_READY)]
}

/// Empty reasons and messages are left out, as they are on the wire.
fn without_blanks(condition: &Tree) -> Tree {
    [condition_path::REASON, condition_path::MESSAGE].iter().fold(condition.clone(), |tree, path| {
        if tree.str_at(path).is_empty() { tree.without(path) } else { tree }
    })
}

fn container_status(pod: &Tree, name: &Text, image: &Text, doing: &Doing) -> Tree {
    let id = format!("sim://{}/{name}", meta::uid(pod));
    let ended = |since: Time, until: Time, code: i64| {
        let reason = if code == 0 { reasons::CONTAINER_COMPLETED } else { reasons::CONTAINER_ERROR };
        tree!({"terminated": {"containerID": &id, "exitCode": code, "reason": reason,
            "startedAt": since.to_seconds_text(), "finishedAt": until.to_seconds_text()}})
    };
    let base = tree!({"name": name, "image": image, "imageID": "", "lastState": {}, "ready": false, "started": false,
        "restartCount": 0});
    let known = tree!({"imageID": image, "containerID": &id});
    match *doing {
        Doing::Creating => base.merge(&tree!({"state": {"waiting": {"reason": reasons::CONTAINER_CREATING}}})),
        Doing::Running { since, restarts } => base.merge(&known).merge(&tree!({"ready": true, "started": true,
            "restartCount": restarts, "state": {"running": {"startedAt": since.to_seconds_text()}}})),
        Doing::Waiting { since, until, code, restarts } => base.merge(&known).merge(&tree!({"restartCount": restarts,
            "lastState": ended(since, until, code),
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "the container is restarted after a pause"}}})),
        Doing::Ended { since, until, code, restarts } => base
            .merge(&known)
            .merge(&tree!({"restartCount": restarts, "state": ended(since, until, code)})),
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
