//! What one pod tells people: how it stands, why it waits, how its containers ended, which runs have a log.

use muster_api::paths::{condition as condition_path, container_status, pod as path};
use muster_api::pod::Phase;
use muster_api::time::Time;
use muster_api::words::{conditions, labels};
use muster_api::{condition, meta};
use muster_tree::{Text, Tree};

/// Reasons of waiting containers that every pod goes through.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// How a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It has no node.
    Waiting,
    /// It has one, and not all containers run.
    Starting,
    /// Its containers run.
    Running,
    /// It ended well.
    Finished,
    /// It did not.
    Failed,
}

impl Standing {
    /// All, in the order of a life.
    pub const ALL: [Standing; 5] =
        [Standing::Waiting, Standing::Starting, Standing::Running, Standing::Finished, Standing::Failed];

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Standing::Waiting => "waiting",
            Standing::Starting => "starting",
            Standing::Running => "running",
            Standing::Finished => "finished",
            Standing::Failed => "failed",
        }
    }

    /// How this pod stands.
    #[must_use]
    pub fn of(pod: &Tree) -> Standing {
        match Phase::of(pod.str_at(path::PHASE)) {
            Phase::Succeeded => Standing::Finished,
            Phase::Failed => Standing::Failed,
            Phase::Running | Phase::Unknown if waiting(pod).is_none() => Standing::Running,
            _ if pod.str_at(path::NODE_NAME).is_empty() => Standing::Waiting,
            _ => Standing::Starting,
        }
    }
}

/// Why a pod does not run yet, if it says so.
#[must_use]
pub fn why(pod: &Tree, warning: Option<&str>) -> Option<String> {
    match Standing::of(pod) {
        Standing::Waiting => unscheduled(pod).or_else(|| warning.map(str::to_owned)),
        Standing::Starting => unstarted(pod)
            .map(|(reason, message)| words(&reason, &message))
            .or_else(|| warning.map(str::to_owned)),
        _ => None,
    }
}

/// Why a pod that has a node does not run, if it says so: reason and message.
#[must_use]
pub fn unstarted(pod: &Tree) -> Option<(String, String)> {
    let starting = Standing::of(pod) == Standing::Starting;
    waiting(pod).filter(|(reason, _)| starting && !USUAL.contains(&reason.as_str()))
}

fn unscheduled(pod: &Tree) -> Option<String> {
    let scheduled = condition::find(pod.items_at(path::CONDITIONS), conditions::POD_SCHEDULED)?;
    let (reason, message) =
        (scheduled.str_at(condition_path::REASON), scheduled.str_at(condition_path::MESSAGE));
    (scheduled.str_at(condition_path::STATUS) == "False").then(|| words(reason, message))
}

/// Reason and message of the first waiting container.
fn waiting(pod: &Tree) -> Option<(String, String)> {
    let first = statuses(pod).find_map(|status| status.at(&["state", "waiting"]))?;
    Some((first.str_at(&["reason"]).to_owned(), first.str_at(&["message"]).to_owned()))
}

fn statuses(pod: &Tree) -> impl Iterator<Item = &Tree> {
    pod.items_at(path::INIT_STATUSES).iter().chain(pod.items_at(path::CONTAINER_STATUSES))
}

/// A reason and a message as one sentence.
#[must_use]
pub fn words(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The container.
    pub container: Text,
    /// Its exit code.
    pub code: i64,
    /// The reason, such as `Error` or `OOMKilled`.
    pub reason: Text,
    /// Its last words, if it left some.
    pub message: Text,
}

/// Reasons of containers that wait for something which only somebody from outside can give them.
const HELD: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
];

/// Whether a pod waits for what only somebody from outside can give it: a command, an object that it names.
#[must_use]
pub fn is_held(pod: &Tree) -> bool {
    let waiting = |status: &Tree| status.at(&["state", "waiting"]).cloned();
    statuses(pod).filter_map(waiting).any(|waiting| {
        // A container that is merely being made has nothing to say.
        let says = !waiting.str_at(&["message"]).is_empty();
        let reason = waiting.str_at(&["reason"]);
        HELD.contains(&reason) || reason == "ContainerCreating" && says
    })
}

/// The containers of a pod that ended badly; those that never ran have no end.
#[must_use]
pub fn bad_exits(pod: &Tree) -> Vec<Exit> {
    exits(pod).filter(|exit| exit.reason != "ContainerStatusUnknown").collect()
}

fn exits(pod: &Tree) -> impl Iterator<Item = Exit> + '_ {
    let ended = |status: &Tree| {
        let ended =
            status.at(&["state", "terminated"]).or_else(|| status.at(&["lastState", "terminated"]))?;
        let code = ended.int_at(&["exitCode"]).unwrap_or(0);
        (code != 0).then(|| Exit {
            container: status.text_at(container_status::NAME),
            code,
            reason: ended.text_at(&["reason"]),
            message: ended.text_at(&["message"]),
        })
    };
    statuses(pod).filter_map(ended)
}

/// When the last of its containers ended.
#[must_use]
pub fn ended_at(pod: &Tree) -> Option<Time> {
    statuses(pod).filter_map(|status| Time::of(status.at(&["state", "terminated", "finishedAt"]))).max()
}

/// Whether a pod was deleted before it ended.
#[must_use]
pub fn was_stopped(pod: &Tree) -> bool {
    let Some(gone_by) = meta::deleting(pod) else { return false };
    let asked_at = gone_by.0.saturating_sub(meta::grace_secs(pod).saturating_mul(1_000_000));
    ended_at(pod).is_none_or(|ended| asked_at <= ended.0)
}

/// Which of several like it a pod is, where they are counted.
#[must_use]
pub fn rank(pod: &Tree) -> Option<&str> {
    meta::annotation(pod, labels::COMPLETION_INDEX).or_else(|| meta::label(pod, labels::COMPLETION_INDEX))
}

/// Why the pod as a whole failed, if it says so itself: `DeadlineExceeded`, `Evicted`.
#[must_use]
pub fn reason(pod: &Tree) -> String {
    words(pod.str_at(&["status", "reason"]), pod.str_at(&["status", "message"]))
}

/// One run of a container that has, or had, something to say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The container.
    pub container: Text,
    /// Which run of it, from 0.
    pub attempt: i64,
    /// Whether it is the one before the present one.
    pub previous: bool,
}

/// The runs whose logs can be read now, in order.
#[must_use]
pub fn runs(pod: &Tree) -> Vec<Run> {
    let mut all = Vec::new();
    for status in statuses(pod) {
        let container = status.text_at(container_status::NAME);
        let attempt = status.int_at(container_status::RESTARTS).unwrap_or(0);
        let there = |what: &str| status.at(&["state", what]).is_some_and(|it| !it.is_null());
        let earlier = status.at(&["lastState", "terminated"]).is_some_and(|it| !it.is_null());
        let never = status.str_at(&["state", "terminated", "reason"]) == "ContainerStatusUnknown"
            && status.str_at(&["containerID"]).is_empty();
        let now = there("running") || there("terminated") && !never;
        if now && earlier && attempt > 0 {
            all.push(Run { container: container.clone(), attempt: attempt - 1, previous: true });
        }
        // While it waits for its restart, the log is that of the run that ended.
        if now || earlier {
            all.push(Run { container, attempt, previous: false });
        }
    }
    all
}

/// Whether the pod has more than one container: then lines say which one speaks.
#[must_use]
pub fn has_several(pod: &Tree) -> bool {
    pod.items_at(path::CONTAINERS).len() + pod.items_at(path::INIT_CONTAINERS).len() > 1
}

/// How long the pod may take to end, in seconds.
#[must_use]
pub fn grace_secs(pod: &Tree) -> u64 {
    let own = pod.int_at(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    let deleted = meta::deleting(pod).map(|_| meta::grace_secs(pod));
    u64::try_from(deleted.unwrap_or(own)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn pod(node: &str, phase: &str, statuses: Tree) -> Tree {
        tree!({"spec": {"nodeName": node}, "status": {"phase": phase, "containerStatuses": statuses}})
    }

    #[test]
    fn how_pods_stand_and_why() {
        let waits = |reason: &str, message: &str| tree!([{"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}]);
        let runs = tree!([{"name": "c", "state": {"running": {}}}]);
        let refused = pod("", "Pending", tree!([])).with(
            path::CONDITIONS,
            tree!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]),
        );
        for (says, pod, warning, standing, why) in [
            ("new", pod("", "Pending", tree!([])), None, Standing::Waiting, None),
            ("no node", refused, None, Standing::Waiting, Some("Unschedulable: 0/1 nodes")),
            ("usual", pod("n", "Pending", waits("ContainerCreating", "")), None, Standing::Starting, None),
            (
                "usual with a warning",
                pod("n", "Pending", waits("ContainerCreating", "")),
                Some("FailedMount: no such folder"),
                Standing::Starting,
                Some("FailedMount: no such folder"),
            ),
            (
                "a container that cannot start",
                pod("n", "Pending", waits("CreateContainerConfigError", "no command")),
                Some("old news"),
                Standing::Starting,
                Some("CreateContainerConfigError: no command"),
            ),
            (
                "crashing",
                pod("n", "Running", waits("CrashLoopBackOff", "")),
                None,
                Standing::Starting,
                Some("CrashLoopBackOff"),
            ),
            ("running", pod("n", "Running", runs), Some("x"), Standing::Running, None),
            ("ended", pod("n", "Succeeded", tree!([])), Some("x"), Standing::Finished, None),
            ("failed", pod("n", "Failed", tree!([])), None, Standing::Failed, None),
        ] {
            assert_eq!(Standing::of(&pod), standing, "{says}");
            assert_eq!(super::why(&pod, warning).as_deref(), why, "{says}");
        }
    }

    #[test]
    fn runs_with_a_log() {
        let run = |attempt, previous| Run { container: "c".into(), attempt, previous };
        let (live, ended) = (tree!({"running": {}}), tree!({"terminated": {"exitCode": 1}}));
        let waits = tree!({"waiting": {"reason": "CrashLoopBackOff"}});
        let none = tree!({});
        for (says, state, last, restarts, want) in [
            ("not begun", tree!({"waiting": {}}), &none, 0, vec![]),
            ("first run", live.clone(), &none, 0, vec![run(0, false)]),
            ("over", ended.clone(), &none, 0, vec![run(0, false)]),
            ("second run", live, &ended, 1, vec![run(0, true), run(1, false)]),
            ("waits for its restart", waits, &ended, 0, vec![run(0, false)]),
        ] {
            let statuses =
                tree!([{"name": "c", "restartCount": restarts, "state": state, "lastState": last}]);
            assert_eq!(runs(&pod("n", "Running", statuses)), want, "{says}");
        }
    }

    #[test]
    fn exits() {
        let ended = |code: i64, reason: &str| tree!({"terminated": {"exitCode": code, "reason": reason}});
        let statuses = tree!([
            {"name": "good", "state": ended(0, "Completed")}, {"name": "bad", "state": ended(3, "Error")},
            {"name": "again", "state": {"waiting": {}}, "lastState": ended(137, "OOMKilled")}]);
        let found: Vec<String> = bad_exits(&pod("n", "Failed", statuses))
            .iter()
            .map(|exit| format!("{} {} {}", exit.container, exit.code, exit.reason))
            .collect();
        assert_eq!(found, ["bad 3 Error", "again 137 OOMKilled"]);
    }
}
