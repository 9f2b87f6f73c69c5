//! The row of a Pod: its STATUS combines phase, conditions and container states, as in kubectl's printer.

use muster_tree::{Text, Tree, tree};

use super::age;
use super::cells::{NONE, Row, cells};
use crate::registry::Resource;

/// `status.reason` of a pod on a lost node.
const NODE_LOST: &str = "NodeLost";

pub(super) fn cells(row: &Row<'_>) -> Vec<Tree> {
    let summary = summarize(row);
    let pod = row.object;
    let ip = pod.items_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    cells![
        row.name(),
        format!("{}/{}", summary.ready, summary.containers),
        summary.word.as_str(),
        restarts(&summary, row),
        row.age(),
        if ip.is_empty() { NONE } else { ip },
        row.text_or(&["spec", "nodeName"], NONE),
        row.text_or(&["status", "nominatedNodeName"], NONE),
        readiness_gates(row),
    ]
}

/// Row conditions: terminated pods are marked, so that clients can hide them.
pub(super) fn row_conditions(resource: &Resource, object: &Tree) -> Option<Tree> {
    if resource.kind != "Pod" || !resource.group.is_empty() {
        return None;
    }
    let message = match object.str_at(&["status", "phase"]) {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    let reason = object.text_at(&["status", "phase"]);
    Some(tree!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// Facts from container statuses.
struct ContainerSummary {
    word: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    /// The last termination before a restart.
    restarted: Option<Text>,
}

impl ContainerSummary {
    fn count_restarts(&mut self, status: &Tree) {
        self.restarts += status.int_at(&["restartCount"]).unwrap_or(0);
        let ended = status.at(&["lastState", "terminated", "finishedAt"]).and_then(Tree::as_text);
        // RFC 3339 in UTC with whole seconds sorts as text.
        if ended > self.restarted.as_ref() {
            self.restarted = ended.cloned();
        }
    }
}

fn summarize(row: &Row<'_>) -> ContainerSummary {
    let pod = row.object;
    let sidecars = pod.items_at(&["spec", "initContainers"]).iter().filter(|c| is_sidecar(c)).count();
    let mut summary = ContainerSummary {
        word: initial_status(row),
        ready: 0,
        containers: pod.items_at(&["spec", "containers"]).len() + sidecars,
        restarts: 0,
        restarted: None,
    };
    let initializing = summarize_init(pod, &mut summary);
    // A restarted init container does not hide the state of running containers.
    if !initializing || row.holds("Initialized") {
        summarize_main(row, &mut summary);
    }
    let ended = matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed");
    if row.is_deleting() && pod.str_at(&["status", "reason"]) == NODE_LOST {
        summary.word = "Unknown".to_owned();
    } else if row.is_deleting() && !ended {
        summary.word = "Terminating".to_owned();
    }
    summary
}

/// STATUS before container states are considered.
fn initial_status(row: &Row<'_>) -> String {
    if row.condition("PodScheduled").is_some_and(|c| c.str_at(&["reason"]) == "SchedulingGated") {
        return "SchedulingGated".to_owned();
    }
    let phase = row.text(&["status", "phase"]);
    row.text_or(&["status", "reason"], &phase).to_string()
}

/// Evaluates init containers up to the first that is not done; returns whether there is one.
fn summarize_init(pod: &Tree, summary: &mut ContainerSummary) -> bool {
    let specs = pod.items_at(&["spec", "initContainers"]);
    for (at, status) in pod.items_at(&["status", "initContainerStatuses"]).iter().enumerate() {
        summary.count_restarts(status);
        let terminated = status.at(&["state", "terminated"]);
        let sidecar = specs.iter().find(|s| s.get("name") == status.get("name")).is_some_and(is_sidecar);
        if terminated.is_some_and(|t| t.int_at(&["exitCode"]).unwrap_or(0) == 0) {
            continue;
        }
        if sidecar && status.bool_at(&["started"]) == Some(true) {
            summary.ready += usize::from(status.bool_at(&["ready"]) == Some(true));
            continue;
        }
        let waiting = status.str_at(&["state", "waiting", "reason"]);
        summary.word = match terminated {
            Some(terminated) => format!("Init:{}", termination_reason(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{at}/{}", specs.len()),
        };
        return true;
    }
    false
}

/// Evaluates regular containers, last first: the first one's reason wins.
fn summarize_main(row: &Row<'_>, summary: &mut ContainerSummary) {
    let pod = row.object;
    // Once initialized, only sidecars count.
    (summary.restarts, summary.restarted) = (0, None);
    let specs = pod.items_at(&["spec", "initContainers"]);
    for status in pod.items_at(&["status", "initContainerStatuses"]) {
        if specs.iter().find(|s| s.get("name") == status.get("name")).is_some_and(is_sidecar) {
            summary.count_restarts(status);
        }
    }
    let (mut running, mut error) = (false, None);
    // In reverse, as upstream: the reason of the first container is written last and wins.
    for status in pod.items_at(&["status", "containerStatuses"]).iter().rev() {
        summary.count_restarts(status);
        let waiting = status.str_at(&["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            summary.word = waiting.to_owned();
        } else if let Some(terminated) = status.at(&["state", "terminated"]) {
            summary.word = termination_reason(terminated);
            if terminated.int_at(&["exitCode"]).unwrap_or(0) != 0 {
                error = Some(summary.word.clone());
            }
        } else if status.bool_at(&["ready"]) == Some(true) && status.at(&["state", "running"]).is_some() {
            running = true;
            summary.ready += 1;
        }
    }
    // A pod with running containers is not Completed, whatever its first container's state is.
    if summary.word == "Completed" {
        summary.word = match error {
            _ if running && row.holds("Ready") => "Running".to_owned(),
            Some(error) => error,
            None if running => "NotReady".to_owned(),
            None => "Completed".to_owned(),
        };
    }
}

/// The termination reason, else signal, else exit code.
fn termination_reason(terminated: &Tree) -> String {
    let reason = terminated.str_at(&["reason"]);
    let signal = terminated.int_at(&["signal"]).unwrap_or(0);
    match reason {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", terminated.int_at(&["exitCode"]).unwrap_or(0)),
        _ => reason.to_owned(),
    }
}

fn is_sidecar(container: &Tree) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

fn restarts(summary: &ContainerSummary, row: &Row<'_>) -> String {
    match &summary.restarted {
        Some(when) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, age::since(Some(&Tree::from(when)), row.now))
        }
        _ => summary.restarts.to_string(),
    }
}

fn readiness_gates(row: &Row<'_>) -> String {
    let gates = row.object.items_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| row.holds(gate.str_at(&["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}
