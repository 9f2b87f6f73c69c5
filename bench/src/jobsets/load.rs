//! What is asked of a controller, and what it took.

use std::time::{Duration, Instant};

use muster_api::consts::jobset as words;
use muster_tree::{Tree, tree};

use super::calls::{Calls, Count};
use super::follow::{Follow, Seen};
use super::planes::Plane;
use crate::measure::{await_quiet, cpu_of, resident_of};

/// A phase that takes longer has failed, and those after it are not tried.
pub const PHASE_MAX: Duration = Duration::from_secs(300);
/// The name of the only replicatedJob.
const GROUP: &str = "workers";
const SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// How many JobSets, and of how many Jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub sets: usize,
    pub jobs_each: usize,
}

/// What is done to all JobSets at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Until all Jobs are there.
    Create,
    /// One Job of each fails; until all Jobs of the next attempt are there.
    Restart,
    /// Until all Jobs are suspended.
    Suspend,
    Resume,
}

/// The figures of one controller in one phase.
pub struct Row {
    pub who: &'static str,
    pub load: Load,
    pub phase: Phase,
    /// None if it took longer than [`PHASE_MAX`].
    pub wall: Option<Duration>,
    /// What the API server counted until the controller was quiet again.
    pub count: Count,
    pub calls: Calls,
    /// CPU of the controller, and of the whole of our plane if it is embedded.
    pub cpu: Duration,
    /// CPU of the server and its store, where they are others.
    pub server_cpu: Option<Duration>,
    pub resident: u64,
}

impl Load {
    /// For figures to quote.
    pub const FULL: [Load; 2] = [Load { sets: 1_000, jobs_each: 4 }, Load { sets: 1, jobs_each: 2_000 }];
    /// To see that it works, and for profiles.
    pub const QUICK: [Load; 2] = [Load { sets: 100, jobs_each: 4 }, Load { sets: 1, jobs_each: 200 }];

    fn jobs(self) -> usize {
        self.sets * self.jobs_each
    }
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::Create, Phase::Restart, Phase::Suspend, Phase::Resume];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Restart => "restart",
            Phase::Suspend => "suspend",
            Phase::Resume => "resume",
        }
    }

    /// What is sent for a JobSet: always one request.
    fn request(self, load: Load, n: usize) -> (String, &'static str, Tree) {
        let name = format!("set-{n:05}");
        let suspend = |it: bool| (format!("PATCH {SETS}/{name}"), MERGE, tree!({"spec": {"suspend": it}}));
        match self {
            Phase::Create => (format!("POST {SETS}"), JSON, jobset(&name, "default", load.jobs_each)),
            Phase::Restart => (format!("PATCH {JOBS}/{name}-{GROUP}-0/status"), MERGE, failed()),
            Phase::Suspend => suspend(true),
            Phase::Resume => suspend(false),
        }
    }

    fn is_over(self, load: Load, seen: &Seen) -> bool {
        match self {
            Phase::Create => seen.of_attempt(0) == load.jobs(),
            Phase::Restart => seen.of_attempt(1) == load.jobs(),
            Phase::Suspend => seen.suspended() == load.jobs(),
            Phase::Resume => seen.suspended() == 0 && seen.of_attempt(1) == load.jobs(),
        }
    }
}

/// A JobSet as admission leaves it: no webhook is there to default it.
pub fn jobset(name: &str, namespace: &str, jobs: usize) -> Tree {
    let container = tree!({"name": "main", "image": "train", "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}}});
    let pod = tree!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    tree!({"apiVersion": words::API_VERSION, "kind": words::KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "network": {"enableDNSHostnames": true, "publishNotReadyAddresses": true},
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "failurePolicy": {"maxRestarts": 5, "restartStrategy": "Recreate"},
            "replicatedJobs": [{"name": GROUP, "groupName": "default", "replicas": jobs as i64, "template": {"spec": {
                "completionMode": "Indexed", "parallelism": 1, "completions": 1, "backoffLimit": 0,
                "template": pod}}}]}})
}

/// The status of a Job with a failed pod.
fn failed() -> Tree {
    let at = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| {
        tree!({"type": kind, "status": "True", "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit",
            "lastProbeTime": at, "lastTransitionTime": at})
    };
    let conditions = Tree::list([condition("FailureTarget"), condition("Failed")]);
    tree!({"status": {"startTime": at, "failed": 1, "conditions": conditions}})
}

/// Runs all phases on one plane.
pub fn play(plane: &Plane, load: Load) -> Vec<Row> {
    let follow = Follow::start(&plane.target);
    let mut rows = Vec::new();
    for phase in Phase::ALL {
        let row = measure(plane, &follow, load, phase);
        let took = row.wall.map_or_else(|| format!("not within {PHASE_MAX:?}"), |it| format!("{it:.1?}"));
        eprintln!("  {:<8} {took}", phase.name());
        let failed = row.wall.is_none();
        rows.push(row);
        if failed {
            break;
        }
    }
    rows
}

fn measure(plane: &Plane, follow: &Follow, load: Load, phase: Phase) -> Row {
    let server_cpu = || plane.server.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let count = plane.count();
    let (cpu, server) = (cpu_of(plane.controller), server_cpu());
    let began = Instant::now();
    plane.target.send_all(load.sets, |n| vec![phase.request(load, n)]);
    let over = follow.until(began + PHASE_MAX, |seen| phase.is_over(load, seen));
    await_quiet(plane.controller);
    let (cpu, server) = (cpu_of(plane.controller) - cpu, server_cpu() - server);
    let count = plane.count().since(&count);
    // One request for each JobSet was our own.
    let own = if plane.is_embedded() { 0 } else { load.sets as u64 };
    Row {
        who: plane.name,
        load,
        phase,
        wall: over.map(|over| over - began),
        calls: count.calls(phase, own),
        count,
        cpu,
        server_cpu: (!plane.is_embedded()).then_some(server),
        resident: resident_of(plane.controller),
    }
}
