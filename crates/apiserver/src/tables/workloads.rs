//! Rows of workload kinds.

use muster_api::time::Time;
use muster_tree::Tree;

use super::age;
use super::cells::{NONE, Row, UNSET, cells, containers, labels, plain, selector};

const POD_SPEC: &[&str] = &["spec", "template", "spec"];

pub(super) fn job(row: &Row<'_>) -> Vec<Tree> {
    let [names, images] = containers(row.object.at(POD_SPEC));
    cells![
        row.name(),
        job_status(row),
        completions(row),
        job_duration(row),
        row.age(),
        names,
        images,
        selector(row.object.at(&["spec", "selector"])),
    ]
}

fn job_status(row: &Row<'_>) -> &'static str {
    for end in ["Complete", "Failed"] {
        if row.holds(end) {
            return end;
        }
    }
    if row.is_deleting() {
        return "Terminating";
    }
    for word in ["Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        if row.holds(word) {
            return word;
        }
    }
    "Running"
}

fn completions(row: &Row<'_>) -> String {
    let succeeded = row.int(&["status", "succeeded"]);
    let parallelism = row.int(&["spec", "parallelism"]);
    match row.object.int_at(&["spec", "completions"]) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn job_duration(row: &Row<'_>) -> String {
    let at = |key| Time::of(row.object.at(&["status", key]));
    match at("startTime") {
        Some(start) => age::span(start, at("completionTime").unwrap_or(row.now)),
        None => String::new(),
    }
}

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Tree> {
    let job = row.object.at(&["spec", "jobTemplate"]);
    let [names, images] = containers(job.and_then(|job| job.at(POD_SPEC)));
    let last = row.object.at(&["status", "lastScheduleTime"]);
    let suspended = match row.object.bool_at(&["spec", "suspend"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    cells![
        row.name(),
        row.text(&["spec", "schedule"]),
        row.text_or(&["spec", "timeZone"], NONE),
        suspended,
        row.count(&["status", "active"]),
        last.map_or(NONE.to_owned(), |_| row.since(&["status", "lastScheduleTime"])),
        row.age(),
        names,
        images,
        selector(job.and_then(|job| job.at(&["spec", "selector"]))),
    ]
}

pub(super) fn deployment(row: &Row<'_>) -> Vec<Tree> {
    let [names, images] = containers(row.object.at(POD_SPEC));
    cells![
        row.name(),
        ready_of_wanted(row),
        row.int(&["status", "updatedReplicas"]),
        row.int(&["status", "availableReplicas"]),
        row.age(),
        names,
        images,
        selector(row.object.at(&["spec", "selector"])),
    ]
}

pub(super) fn replica_set(row: &Row<'_>) -> Vec<Tree> {
    replicas(row, selector(row.object.at(&["spec", "selector"])))
}

/// The selector is a plain label map.
pub(super) fn replication_controller(row: &Row<'_>) -> Vec<Tree> {
    replicas(row, labels(row.object.at(&["spec", "selector"])))
}

fn replicas(row: &Row<'_>, selector: String) -> Vec<Tree> {
    let [names, images] = containers(row.object.at(POD_SPEC));
    cells![
        row.name(),
        row.int(&["spec", "replicas"]),
        row.int(&["status", "replicas"]),
        row.int(&["status", "readyReplicas"]),
        row.age(),
        names,
        images,
        selector,
    ]
}

pub(super) fn stateful_set(row: &Row<'_>) -> Vec<Tree> {
    let [names, images] = containers(row.object.at(POD_SPEC));
    cells![row.name(), ready_of_wanted(row), row.age(), names, images]
}

fn ready_of_wanted(row: &Row<'_>) -> String {
    format!("{}/{}", row.int(&["status", "readyReplicas"]), row.int(&["spec", "replicas"]))
}

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Tree> {
    let [names, images] = containers(row.object.at(POD_SPEC));
    cells![
        row.name(),
        row.int(&["status", "desiredNumberScheduled"]),
        row.int(&["status", "currentNumberScheduled"]),
        row.int(&["status", "numberReady"]),
        row.int(&["status", "updatedNumberScheduled"]),
        row.int(&["status", "numberAvailable"]),
        labels(row.object.at(&["spec", "template", "spec", "nodeSelector"])),
        row.age(),
        names,
        images,
        selector(row.object.at(&["spec", "selector"])),
    ]
}

pub(super) fn pod_template(row: &Row<'_>) -> Vec<Tree> {
    let [names, images] = containers(row.object.at(&["template", "spec"]));
    cells![row.name(), names, images, labels(row.object.at(&["template", "metadata", "labels"]))]
}

pub(super) fn controller_revision(row: &Row<'_>) -> Vec<Tree> {
    let owners = row.object.items_at(&["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true));
    let owner = owner.map_or(NONE.to_owned(), |owner| {
        let group =
            owner.str_at(&["apiVersion"]).split_once('/').map_or(String::new(), |(g, _)| format!(".{g}"));
        format!("{}{group}/{}", owner.str_at(&["kind"]).to_lowercase(), owner.str_at(&["name"]))
    });
    cells![row.name(), owner, row.int(&["revision"]), row.age()]
}

pub(super) fn disruption_budget(row: &Row<'_>) -> Vec<Tree> {
    let bound = |key| row.object.at(&["spec", key]).map_or("N/A".to_owned(), plain);
    cells![
        row.name(),
        bound("minAvailable"),
        bound("maxUnavailable"),
        row.int(&["status", "disruptionsAllowed"]),
        row.age(),
    ]
}
