//! The row of a Pod: its one word of status is read from phase, conditions and container states together.

use muster_tree::{Text, Tree, tree};

use super::age;
use super::cells::{NONE, Row, cells};
use crate::registry::Resource;

/// `status.reason` of a pod whose node no longer answers.
const NODE_LOST: &str = "NodeLost";

pub(super) fn cells(row: &Row<'_>) -> Vec<Tree> {
    let told = tell(row);
    let pod = row.object;
    let ip = pod.items_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    cells![
        row.name(),
        format!("{}/{}", told.ready, told.containers),
        told.word.as_str(),
        restarts(&told, row),
        row.age(),
        if ip.is_empty() { NONE } else { ip },
        row.text_or(&["spec", "nodeName"], NONE),
        row.text_or(&["status", "nominatedNodeName"], NONE),
        readiness_gates(row),
    ]
}

/// `conditions` of a row: a pod that ended is marked, so that clients can hide it.
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

/// What the containers tell about their pod.
struct Told {
    word: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    /// When a container last ended before it was started again.
    restarted: Option<Text>,
}

impl Told {
    fn count_restarts(&mut self, status: &Tree) {
        self.restarts += status.int_at(&["restartCount"]).unwrap_or(0);
        let ended = status.at(&["lastState", "terminated", "finishedAt"]).and_then(Tree::as_text);
        // RFC 3339 in UTC with whole seconds: text order is time order.
        if ended > self.restarted.as_ref() {
            self.restarted = ended.cloned();
        }
    }
}

fn tell(row: &Row<'_>) -> Told {
    let pod = row.object;
    let sidecars = pod.items_at(&["spec", "initContainers"]).iter().filter(|c| is_sidecar(c)).count();
    let mut told = Told {
        word: first_word(row),
        ready: 0,
        containers: pod.items_at(&["spec", "containers"]).len() + sidecars,
        restarts: 0,
        restarted: None,
    };
    let initializing = tell_init(pod, &mut told);
    if !initializing || row.holds("Initialized") {
        tell_main(row, &mut told);
    }
    let ended = matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed");
    if row.is_deleting() && pod.str_at(&["status", "reason"]) == NODE_LOST {
        told.word = "Unknown".to_owned();
    } else if row.is_deleting() && !ended {
        told.word = "Terminating".to_owned();
    }
    told
}

/// The word before containers are looked at.
fn first_word(row: &Row<'_>) -> String {
    if row.condition("PodScheduled").is_some_and(|c| c.str_at(&["reason"]) == "SchedulingGated") {
        return "SchedulingGated".to_owned();
    }
    let phase = row.text(&["status", "phase"]);
    row.text_or(&["status", "reason"], &phase).to_string()
}

/// Walks the init containers up to the first that is not done; returns whether there is one.
fn tell_init(pod: &Tree, told: &mut Told) -> bool {
    let specs = pod.items_at(&["spec", "initContainers"]);
    for (at, status) in pod.items_at(&["status", "initContainerStatuses"]).iter().enumerate() {
        told.count_restarts(status);
        let terminated = status.at(&["state", "terminated"]);
        let sidecar = specs.iter().find(|s| s.get("name") == status.get("name")).is_some_and(is_sidecar);
        if terminated.is_some_and(|t| t.int_at(&["exitCode"]).unwrap_or(0) == 0) {
            continue;
        }
        if sidecar && status.bool_at(&["started"]) == Some(true) {
            told.ready += usize::from(status.bool_at(&["ready"]) == Some(true));
            continue;
        }
        let waiting = status.str_at(&["state", "waiting", "reason"]);
        told.word = match terminated {
            Some(terminated) => format!("Init:{}", end_word(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{at}/{}", specs.len()),
        };
        return true;
    }
    false
}

/// Walks the containers proper, last first: the first one's word wins.
fn tell_main(row: &Row<'_>, told: &mut Told) {
    let pod = row.object;
    // Only sidecars go on counting once the pod is initialized.
    (told.restarts, told.restarted) = (0, None);
    let specs = pod.items_at(&["spec", "initContainers"]);
    for status in pod.items_at(&["status", "initContainerStatuses"]) {
        if specs.iter().find(|s| s.get("name") == status.get("name")).is_some_and(is_sidecar) {
            told.count_restarts(status);
        }
    }
    let (mut running, mut error) = (false, None);
    for status in pod.items_at(&["status", "containerStatuses"]).iter().rev() {
        told.count_restarts(status);
        let waiting = status.str_at(&["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            told.word = waiting.to_owned();
        } else if let Some(terminated) = status.at(&["state", "terminated"]) {
            told.word = end_word(terminated);
            if terminated.int_at(&["exitCode"]).unwrap_or(0) != 0 {
                error = Some(told.word.clone());
            }
        } else if status.bool_at(&["ready"]) == Some(true) && status.at(&["state", "running"]).is_some() {
            running = true;
            told.ready += 1;
        }
    }
    if told.word == "Completed" {
        told.word = match error {
            _ if running && row.holds("Ready") => "Running".to_owned(),
            Some(error) => error,
            None if running => "NotReady".to_owned(),
            None => "Completed".to_owned(),
        };
    }
}

/// How a container ended: its reason, else its signal, else its exit code.
fn end_word(terminated: &Tree) -> String {
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

fn restarts(told: &Told, row: &Row<'_>) -> String {
    match &told.restarted {
        Some(when) if told.restarts != 0 => {
            format!("{} ({} ago)", told.restarts, age::since(Some(&Tree::from(when)), row.now))
        }
        _ => told.restarts.to_string(),
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
