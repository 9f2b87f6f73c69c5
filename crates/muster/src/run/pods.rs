//! Reads one pod: its state, why it does not run, exit codes of its containers, which container runs have a log. Pure.

use muster_api::consts::{conditions, labels};
use muster_api::paths::{condition as condition_path, container_status, pod as path};
use muster_api::pod::PodPhase;
use muster_api::time::Time;
use muster_api::{condition, meta};
use muster_tree::{Text, Tree};

/// Waiting reasons of the normal start of a container.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The state of a pod, as progress shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodStage {
    /// Not scheduled.
    Waiting,
    /// Scheduled, but not all containers run.
    Starting,
    Running,
    Finished,
    Failed,
}

impl PodStage {
    /// All states, in the order of the pod lifecycle.
    pub const ALL: [PodStage; 5] =
        [PodStage::Waiting, PodStage::Starting, PodStage::Running, PodStage::Finished, PodStage::Failed];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PodStage::Waiting => "waiting",
            PodStage::Starting => "starting",
            PodStage::Running => "running",
            PodStage::Finished => "finished",
            PodStage::Failed => "failed",
        }
    }

    #[must_use]
    pub fn of(pod: &Tree) -> PodStage {
        match PodPhase::of(pod.str_at(path::PHASE)) {
            PodPhase::Succeeded => PodStage::Finished,
            PodPhase::Failed => PodStage::Failed,
            PodPhase::Running | PodPhase::Unknown if waiting(pod).is_none() => PodStage::Running,
            _ if pod.str_at(path::NODE_NAME).is_empty() => PodStage::Waiting,
            _ => PodStage::Starting,
        }
    }
}

/// Why a pod does not run yet, from its conditions and container statuses, else from its last warning event.
#[must_use]
pub fn waiting_reason(pod: &Tree, warning: Option<&str>) -> Option<String> {
    match PodStage::of(pod) {
        PodStage::Waiting => unscheduled(pod).or_else(|| warning.map(str::to_owned)),
        PodStage::Starting => unstarted(pod)
            .map(|(reason, message)| reason_text(&reason, &message))
            .or_else(|| warning.map(str::to_owned)),
        _ => None,
    }
}

/// The waiting reason and message of a scheduled pod that does not run.
#[must_use]
pub fn unstarted(pod: &Tree) -> Option<(String, String)> {
    let starting = PodStage::of(pod) == PodStage::Starting;
    waiting(pod).filter(|(reason, _)| starting && !USUAL.contains(&reason.as_str()))
}

fn unscheduled(pod: &Tree) -> Option<String> {
    let scheduled = condition::find(pod.items_at(path::CONDITIONS), conditions::POD_SCHEDULED)?;
    let (reason, message) =
        (scheduled.str_at(condition_path::REASON), scheduled.str_at(condition_path::MESSAGE));
    (scheduled.str_at(condition_path::STATUS) == "False").then(|| reason_text(reason, message))
}

/// Reason and message of the first waiting container.
fn waiting(pod: &Tree) -> Option<(String, String)> {
    let first = statuses(pod).find_map(|status| status.at(&["state", "waiting"]))?;
    Some((first.str_at(&["reason"]).to_owned(), first.str_at(&["message"]).to_owned()))
}

fn statuses(pod: &Tree) -> impl Iterator<Item = &Tree> {
    pod.items_at(path::INIT_STATUSES).iter().chain(pod.items_at(path::CONTAINER_STATUSES))
}

/// Reason and message as one text.
#[must_use]
pub fn reason_text(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// The exit of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerExit {
    pub container: Text,
    pub code: i64,
    /// The reason, such as `Error` or `OOMKilled`.
    pub reason: Text,
    /// The termination message, which may be empty.
    pub message: Text,
}

/// Waiting reasons that the kubelet retries, but that need another client to create or correct something.
const BLOCKED_REASONS: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
];

/// Whether a pod is blocked on something that only another client can correct, such as a missing Secret or image.
#[must_use]
pub fn is_blocked(pod: &Tree) -> bool {
    let waiting = |status: &Tree| status.at(&["state", "waiting"]).cloned();
    statuses(pod).filter_map(waiting).any(|waiting| {
        // The kubelet also reports a missing volume source as ContainerCreating, but with a message. Without one the
        // start makes progress.
        let says = !waiting.str_at(&["message"]).is_empty();
        let reason = waiting.str_at(&["reason"]);
        BLOCKED_REASONS.contains(&reason) || reason == "ContainerCreating" && says
    })
}

/// The containers of a pod that exited with an error. `ContainerStatusUnknown` is not an exit: the container never ran
/// or was lost with its node.
#[must_use]
pub fn failed_exits(pod: &Tree) -> Vec<ContainerExit> {
    exits(pod).filter(|exit| exit.reason != "ContainerStatusUnknown").collect()
}

fn exits(pod: &Tree) -> impl Iterator<Item = ContainerExit> + '_ {
    let ended = |status: &Tree| {
        let ended =
            status.at(&["state", "terminated"]).or_else(|| status.at(&["lastState", "terminated"]))?;
        let code = ended.int_at(&["exitCode"]).unwrap_or(0);
        (code != 0).then(|| ContainerExit {
            container: status.text_at(container_status::NAME),
            code,
            reason: ended.text_at(&["reason"]),
            message: ended.text_at(&["message"]),
        })
    };
    statuses(pod).filter_map(ended)
}

/// The time when the last container terminated.
#[must_use]
pub fn ended_at(pod: &Tree) -> Option<Time> {
    statuses(pod).filter_map(|status| Time::of(status.at(&["state", "terminated", "finishedAt"]))).max()
}

/// Whether a pod was deleted before it terminated. `deletionTimestamp` is the deadline, so the delete request came the
/// grace period before it.
#[must_use]
pub fn was_deleted_early(pod: &Tree) -> bool {
    let Some(gone_by) = meta::deletion_timestamp(pod) else { return false };
    let asked_at = gone_by.0.saturating_sub(meta::deletion_grace_secs(pod).saturating_mul(1_000_000));
    ended_at(pod).is_none_or(|ended| asked_at <= ended.0)
}

/// The completion index of a pod, if its Job is Indexed.
#[must_use]
pub fn rank(pod: &Tree) -> Option<&str> {
    meta::annotation(pod, labels::COMPLETION_INDEX).or_else(|| meta::label(pod, labels::COMPLETION_INDEX))
}

/// The reason in the pod status, such as `DeadlineExceeded` or `Evicted`; empty if there is none.
#[must_use]
pub fn reason(pod: &Tree) -> String {
    reason_text(pod.str_at(&["status", "reason"]), pod.str_at(&["status", "message"]))
}

/// One run of a container that has a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRun {
    pub container: Text,
    /// The restart count of this run, from 0.
    pub attempt: i64,
    /// Whether it is the run before the current one (`previous=true` of the log request).
    pub previous: bool,
}

/// The container runs that have a log on the server, oldest first.
#[must_use]
pub fn runs(pod: &Tree) -> Vec<ContainerRun> {
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
            all.push(ContainerRun { container: container.clone(), attempt: attempt - 1, previous: true });
        }
        // During CrashLoopBackOff the current log is still that of the terminated run.
        if now || earlier {
            all.push(ContainerRun { container, attempt, previous: false });
        }
    }
    all
}

/// Whether the pod has several containers, so that log lines need the container name.
#[must_use]
pub fn has_several(pod: &Tree) -> bool {
    pod.items_at(path::CONTAINERS).len() + pod.items_at(path::INIT_CONTAINERS).len() > 1
}

/// The grace period of the pod, in seconds.
#[must_use]
pub fn grace_secs(pod: &Tree) -> u64 {
    let own = pod.int_at(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    let deleted = meta::deletion_timestamp(pod).map(|_| meta::deletion_grace_secs(pod));
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
            ("new", pod("", "Pending", tree!([])), None, PodStage::Waiting, None),
            ("no node", refused, None, PodStage::Waiting, Some("Unschedulable: 0/1 nodes")),
            ("usual", pod("n", "Pending", waits("ContainerCreating", "")), None, PodStage::Starting, None),
            (
                "usual with a warning",
                pod("n", "Pending", waits("ContainerCreating", "")),
                Some("FailedMount: no such folder"),
                PodStage::Starting,
                Some("FailedMount: no such folder"),
            ),
            (
                "a container that cannot start",
                pod("n", "Pending", waits("CreateContainerConfigError", "no command")),
                Some("old news"),
                PodStage::Starting,
                Some("CreateContainerConfigError: no command"),
            ),
            (
                "crashing",
                pod("n", "Running", waits("CrashLoopBackOff", "")),
                None,
                PodStage::Starting,
                Some("CrashLoopBackOff"),
            ),
            ("running", pod("n", "Running", runs), Some("x"), PodStage::Running, None),
            ("ended", pod("n", "Succeeded", tree!([])), Some("x"), PodStage::Finished, None),
            ("failed", pod("n", "Failed", tree!([])), None, PodStage::Failed, None),
        ] {
            assert_eq!(PodStage::of(&pod), standing, "{says}");
            assert_eq!(super::waiting_reason(&pod, warning).as_deref(), why, "{says}");
        }
    }

    #[test]
    fn runs_with_a_log() {
        let run = |attempt, previous| ContainerRun { container: "c".into(), attempt, previous };
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
        let found: Vec<String> = failed_exits(&pod("n", "Failed", statuses))
            .iter()
            .map(|exit| format!("{} {} {}", exit.container, exit.code, exit.reason))
            .collect();
        assert_eq!(found, ["bad 3 Error", "again 137 OOMKilled"]);
    }
}
