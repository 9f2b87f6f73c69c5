//! Real planes on which operators come and go, and the small JobSets that they are watched with.

use std::time::Duration;

use muster_tree::{Tree, tree};

use crate::differential::{Answer, Server, Step};
use crate::plane;
use crate::real::{Disk, Real};

/// The Lease that operators stand for.
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-operator";
/// JobSets, Jobs, Pods and Services of the namespace that everything happens in.
pub const SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
/// See [`SETS`].
pub const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// See [`SETS`].
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// See [`SETS`].
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Jobs of a small JobSet.
pub const JOBS_EACH: usize = 2;

/// How often one looks for what is waited for, and how long apart.
const LOOKS: u32 = 1800;
const PAUSE: Duration = Duration::from_millis(200);

/// A plane that knows JobSets, with these controllers. The definition comes first: the garbage collector looks only now
/// and then for new kinds.
pub fn plane(controllers: &[&str]) -> Result<Real, String> {
    let binary = plane::binary()?;
    plane_with(|real| real.define_jobsets(&binary), controllers)
}

/// The same, with another definition of JobSets.
pub fn plane_with(
    define: impl FnOnce(&Real) -> Result<(), String>,
    controllers: &[&str],
) -> Result<Real, String> {
    let mut real = Real::start_without_controllers(Disk::Unsynced)?;
    define(&real)?;
    let others: Vec<&str> = controllers.iter().copied().filter(|name| *name != "scheduler").collect();
    real.start_controllers(&others)?;
    if controllers.len() > others.len() {
        real.start_scheduler()?;
    }
    Ok(real)
}

/// A small JobSet: [`JOBS_EACH`] Jobs of one pod that runs for long and is not tried again.
#[must_use]
pub fn small(name: &str, more: &Tree) -> Tree {
    let jobs = replicated("w", JOBS_EACH);
    let spec = tree!({"failurePolicy": {"maxRestarts": 3}, "replicatedJobs": [jobs]});
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
        "spec": spec.merge(more)})
}

/// One replicated Job of such a JobSet.
#[must_use]
pub fn replicated(name: &str, replicas: usize) -> Tree {
    let pod = tree!({"metadata": {"annotations": {"muster.dev/sim-run-seconds": "3600"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = tree!({"backoffLimit": 0, "parallelism": 1, "completions": 1, "template": pod});
    tree!({"name": name, "replicas": i64::try_from(replicas).unwrap_or(1), "template": {"spec": job}})
}

/// Creates an object; the answer, whatever it is.
pub fn post(server: &Server, path: &str, object: &Tree) -> Result<Answer, String> {
    server.send("POST", path, &Step::default(), object.to_json_bytes())
}

/// Patches an object; the answer, whatever it is.
pub fn patch(server: &Server, path: &str, sort: &str, object: &Tree) -> Result<Answer, String> {
    let step = Step { kind: sort.into(), ..Step::default() };
    server.send("PATCH", path, &step, object.to_json_bytes())
}

/// Creates small JobSets, which must be accepted.
pub fn create(server: &Server, names: &[String]) {
    for name in names {
        let made = post(server, SETS, &small(name, &tree!({}))).expect("the server answers");
        assert_eq!(made.code, 201, "{name}: {}", made.body.to_json());
    }
}

/// What is at a path.
#[must_use]
pub fn items(server: &Server, path: &str) -> Vec<Tree> {
    let answer = server.get(path).expect("the server answers");
    assert_eq!(answer.code, 200, "{path}: {}", answer.body.to_json());
    answer.body.items_at(&["items"]).to_vec()
}

/// Looks until all is as it should be; `look` says what is not.
pub fn wait_for(what: &str, mut look: impl FnMut() -> Result<(), String>) {
    let mut last = String::new();
    for _ in 0..LOOKS {
        match look() {
            Ok(()) => return,
            Err(why) => last = why,
        }
        std::thread::sleep(PAUSE);
    }
    panic!("never seen: {what}; last: {last}");
}

/// Who holds the Lease.
#[must_use]
pub fn holder(server: &Server) -> String {
    let lease = server.get(LEASE).expect("the server answers").body;
    lease.str_at(&["spec", "holderIdentity"]).to_owned()
}

/// The name of an object.
#[must_use]
pub fn name(object: &Tree) -> &str {
    object.str_at(&["metadata", "name"])
}

/// A label of an object in the words of JobSets.
#[must_use]
pub fn label<'a>(object: &'a Tree, label: &str) -> &'a str {
    object.str_at(&["metadata", "labels", &format!("jobset.sigs.k8s.io/{label}")])
}

/// Ends a pod as a node would whose container ended so.
pub fn end(server: &Server, pod: &Tree, exit: i64) {
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
