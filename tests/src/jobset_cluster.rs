//! Real control planes for tests that start and stop operators, and small JobSets to observe them with.

use std::time::Duration;

use muster_tree::{Tree, tree};

use crate::differential::{ApiClient, HttpAnswer, RequestStep};
use crate::embedded_server;
use crate::real::{Disk, RealCluster};

/// The Lease of leader election.
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-operator";
/// Collection paths in the namespace that all tests use.
pub const JOBSETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
pub const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Number of Jobs of a small JobSet.
pub const JOBS_EACH: usize = 2;

/// Polls until a condition holds, and the interval between them: six minutes in total.
const POLLS_MAX: u32 = 1800;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Starts a control plane with the JobSet CRD and these controllers. The CRD is created first: the garbage collector refreshes discovery
/// rarely.
pub fn jobset_cluster(controllers: &[&str]) -> Result<RealCluster, String> {
    let binary = embedded_server::binary()?;
    jobset_cluster_with(|real| real.create_jobset_crd(&binary), controllers)
}

/// Like [`jobset_cluster`], with another JobSet CRD.
pub fn jobset_cluster_with(
    define: impl FnOnce(&RealCluster) -> Result<(), String>,
    controllers: &[&str],
) -> Result<RealCluster, String> {
    let mut real = RealCluster::start_without_controllers(Disk::Unsynced)?;
    define(&real)?;
    let others: Vec<&str> = controllers.iter().copied().filter(|name| *name != "scheduler").collect();
    real.start_controllers(&others)?;
    if controllers.len() > others.len() {
        real.start_scheduler()?;
    }
    Ok(real)
}

/// Builds a JobSet with [`JOBS_EACH`] Jobs of one long-running pod, with backoff limit 0.
#[must_use]
pub fn small_jobset(name: &str, more: &Tree) -> Tree {
    let jobs = replicated_job("w", JOBS_EACH);
    let spec = tree!({"failurePolicy": {"maxRestarts": 3}, "replicatedJobs": [jobs]});
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": spec.merge(more)})
}

/// Builds a replicatedJob of such a JobSet.
#[must_use]
pub fn replicated_job(name: &str, replicas: usize) -> Tree {
    let pod = tree!({"metadata": {"annotations": {"muster.dev/sim-run-seconds": "3600"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = tree!({"backoffLimit": 0, "parallelism": 1, "completions": 1, "template": pod});
    tree!({"name": name, "replicas": i64::try_from(replicas).unwrap_or(1), "template": {"spec": job}})
}

/// Creates an object and returns the answer, which may be an error.
pub fn post(server: &ApiClient, path: &str, object: &Tree) -> Result<HttpAnswer, String> {
    server.send("POST", path, &RequestStep::default(), object.to_json_bytes())
}

/// Patches an object and returns the answer, which may be an error.
pub fn patch(server: &ApiClient, path: &str, sort: &str, object: &Tree) -> Result<HttpAnswer, String> {
    let step = RequestStep { kind: sort.into(), ..RequestStep::default() };
    server.send("PATCH", path, &step, object.to_json_bytes())
}

/// Creates small JobSets and asserts success.
pub fn create_jobsets(server: &ApiClient, names: &[String]) {
    for name in names {
        let made = post(server, JOBSETS, &small_jobset(name, &tree!({}))).expect("the server answers");
        assert_eq!(made.code, 201, "{name}: {}", made.body.to_json());
    }
}

/// Lists the objects at a path.
#[must_use]
pub fn items(server: &ApiClient, path: &str) -> Vec<Tree> {
    let answer = server.get(path).expect("the server answers");
    assert_eq!(answer.code, 200, "{path}: {}", answer.body.to_json());
    answer.body.items_at(&["items"]).to_vec()
}

/// Polls until `look` succeeds; its error is the observed state.
pub fn wait_for(what: &str, mut look: impl FnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..POLLS_MAX {
        match look() {
            Ok(()) => return,
            Err(why) => last = why,
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    panic!("{what}: timed out; last: {last}");
}

/// Returns the holder identity of the Lease.
#[must_use]
pub fn lease_holder(server: &ApiClient) -> String {
    let lease = server.get(LEASE).expect("the server answers").body;
    lease.str_at(&["spec", "holderIdentity"]).to_owned()
}

#[must_use]
pub fn name(object: &Tree) -> &str {
    object.str_at(&["metadata", "name"])
}

/// Returns a `jobset.sigs.k8s.io/` label of an object.
#[must_use]
pub fn jobset_label<'a>(object: &'a Tree, label: &str) -> &'a str {
    object.str_at(&["metadata", "labels", &format!("jobset.sigs.k8s.io/{label}")])
}

/// Sets the status of a pod as a kubelet does when its container terminates.
pub fn terminate_pod(server: &ApiClient, pod: &Tree, exit: i64) {
    const WHEN: &str = "2026-01-01T00:00:00Z";
    let (phase, reason) = if exit == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    let state =
        tree!({"terminated": {"exitCode": exit, "reason": reason, "startedAt": WHEN, "finishedAt": WHEN}});
    let status = tree!({"status": {"phase": phase, "containerStatuses": [{"name": "c", "image": "i", "imageID": "",
        "ready": false, "restartCount": 0, "state": state}]}});
    let path = format!("{PODS}/{}/status", name(pod));
    let done = patch(server, &path, "strategic", &status).expect("the server answers");
    assert_eq!(done.code, 200, "{}", done.body.to_json());
}
