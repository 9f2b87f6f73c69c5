//! The objects to send: runtimes, TrainJobs, and the final status of JobSets without a controller.

use muster_api::consts::annotations::SIM_RUN_SECONDS;
use muster_api::consts::jobset::conditions as set;
use muster_api::time::Time;
use muster_api::train::consts::{API_VERSION, CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, labels, names};
use muster_tree::{Tree, tree};

/// The path of the group.
pub const ROOT: &str = "/apis/trainer.kubeflow.org/v1alpha1";
/// The path of the group of JobSets.
pub const SETS_ROOT: &str = "/apis/jobset.x-k8s.io/v1alpha2";
/// The beginning of a TrainJob's name, which its JobSet has, too; its number follows.
const NAME: &str = "train-";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// A request: the call, the media type of its body, and the body.
pub type Request = (String, &'static str, Tree);

/// The runtime of a scene: how long its pods run where pods are simulated.
#[derive(Clone, Copy)]
pub struct Runtime {
    pub name: &'static str,
    pub run_seconds: &'static str,
}

impl Runtime {
    /// Pods that end at once.
    pub const BRIEF: Runtime = Runtime { name: "brief", run_seconds: "0.1" };
    /// Pods that never end.
    pub const ENDLESS: Runtime = Runtime { name: "endless", run_seconds: "86400" };

    pub fn request(self) -> Request {
        let container = tree!({"name": names::NODE, "image": "train", "command": ["python", "train.py"],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
        let pod = tree!({"metadata": {"annotations": Tree::map([(SIM_RUN_SECONDS, self.run_seconds)])},
            "spec": {"restartPolicy": "Never", "containers": [container]}});
        let job = tree!({"name": names::NODE, "template": {
            "metadata": {"labels": Tree::map([(labels::ANCESTOR, names::TRAINER)])}, "spec": {"template": pod}}});
        let runtime = tree!({"apiVersion": API_VERSION, "kind": CLUSTER_TRAINING_RUNTIME,
            "metadata": {"name": self.name},
            "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}}});
        (format!("POST {ROOT}/clustertrainingruntimes"), JSON, runtime)
    }
}

/// What a TrainJob asks for.
#[derive(Clone, Copy)]
pub struct Wish {
    pub runtime: Runtime,
    pub ttl_secs: u32,
    pub deadline_secs: u32,
    pub suspended: bool,
}

impl Wish {
    pub fn request(self, n: usize, space: &str) -> Request {
        let job = tree!({"apiVersion": API_VERSION, "kind": TRAIN_JOB,
            "metadata": {"name": name(n), "namespace": space},
            "spec": {"runtimeRef": {"name": self.runtime.name}, "suspend": self.suspended,
                "trainer": {"numNodes": 1, "env": [{"name": "RUN", "value": n.to_string()}]},
                "ttlSecondsAfterFinished": i64::from(self.ttl_secs),
                "activeDeadlineSeconds": i64::from(self.deadline_secs)}});
        (format!("POST {ROOT}/namespaces/{space}/trainjobs"), JSON, job)
    }
}

/// The n-th TrainJob is resumed.
pub fn resumed(n: usize, space: &str) -> Request {
    let path = format!("PATCH {ROOT}/namespaces/{space}/trainjobs/{}", name(n));
    (path, MERGE, tree!({"spec": {"suspend": false}}))
}

/// The JobSet of the n-th TrainJob is done since then, as its controller would write it.
pub fn completed(n: usize, space: &str, since: Time) -> Request {
    let condition = tree!({"type": set::COMPLETED, "status": "True", "reason": "AllJobsCompleted",
        "message": "jobset completed successfully", "lastTransitionTime": since.to_seconds_text()});
    let jobs =
        tree!({"name": names::NODE, "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0});
    let status =
        tree!({"conditions": [condition], "terminalState": set::COMPLETED, "replicatedJobsStatus": [jobs]});
    let path = format!("PATCH {SETS_ROOT}/namespaces/{space}/jobsets/{}/status", name(n));
    (path, MERGE, tree!({"status": status}))
}

pub fn space(name: &str) -> Request {
    let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    ("POST /api/v1/namespaces".to_owned(), JSON, space)
}

/// Where TrainJobs live: the first of them all in one namespace, the others in small ones.
#[derive(Clone, Copy)]
pub struct Spaces {
    pub crowded: usize,
    pub small: usize,
}

impl Spaces {
    /// The namespace of the n-th TrainJob.
    pub fn of(self, n: usize) -> String {
        if n < self.crowded { "crowded".to_owned() } else { format!("small-{:02}", n % self.small) }
    }

    pub fn requests(self) -> Vec<Request> {
        let small = (0..self.small).map(|n| space(&format!("small-{n:02}")));
        std::iter::once(space("crowded")).chain(small).collect()
    }
}

fn name(n: usize) -> String {
    format!("{NAME}{n:06}")
}

/// The number of the TrainJob, or JobSet, of an event.
pub fn number(event: &str) -> Option<usize> {
    const BEGIN: &str = "\"name\":\"train-";
    let from = event.find(BEGIN)? + BEGIN.len();
    event[from..].split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_of_the_job_it_names() {
        let (_, _, job) = Wish { runtime: Runtime::BRIEF, ttl_secs: 60, deadline_secs: 60, suspended: false }
            .request(4711, "crowded");
        let event = tree!({"type": "ADDED", "object": job}).to_json();
        assert_eq!(number(&event), Some(4711));
        assert_eq!(number(r#"{"type":"BOOKMARK","object":{}}"#), None);
    }

    #[test]
    fn a_part_lives_in_one_namespace_and_the_rest_in_small_ones() {
        let spaces = Spaces { crowded: 2, small: 3 };
        let all: Vec<String> = (0..5).map(|n| spaces.of(n)).collect();
        assert_eq!(all, ["crowded", "crowded", "small-02", "small-00", "small-01"]);
        assert_eq!(spaces.requests().len(), 4);
    }
}
