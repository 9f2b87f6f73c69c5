//! The TrainJobs and runtimes of the stories, and how they ended.

use muster_api::time::Time;
use muster_api::train::consts::{API_VERSION, CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, conditions, labels};
use muster_api::train::kinds::CLUSTER_TRAINING_RUNTIMES;
use muster_api::{meta, paths};
use muster_control::ControlLoop;
use muster_trainer::controller::metrics::Value;
use muster_tree::{Text, Tree, tree};

use super::Stage;
use crate::scenario::find;

/// A runtime whose nodes finish after a few seconds.
pub const QUICK: &str = "quick";
/// A runtime with nodes that never finish.
pub const LONG: &str = "long";
/// A runtime with nodes that fail.
pub const BROKEN: &str = "broken";
/// A runtime with JobSets that are deleted as soon as they finish.
pub const BRIEF: &str = "brief";
/// A runtime with a launcher and nodes that never finish.
pub const MPI: &str = "mpi";
/// A runtime with gang scheduling.
pub const GANG: &str = "gang";

/// A name with which no pod could be called.
pub const TOO_LONG: &str = "a-name-that-leaves-no-room-for-the-names-of-any-of-its-pods";

/// A TrainJob of two nodes.
pub fn job(name: &str, runtime: &str, spec: &Tree) -> Tree {
    tree!({"apiVersion": API_VERSION, "kind": TRAIN_JOB, "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": 2}}})
    .merge(&tree!({"spec": spec}))
}

pub fn runtimes() -> Vec<Tree> {
    let torch = || tree!({"numNodes": 1, "torch": {}});
    let nodes = |seconds, code| vec![step("node", "trainer", seconds, code)];
    let mpi = tree!({"numNodes": 1, "mpi": {"numProcPerNode": 1, "runLauncherAsNode": false}});
    let launched = vec![step("launcher", "trainer", 6, 0), step("node", "", 100_000, 0)];
    let succeeds = tree!({"successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]}});
    let gang = runtime(GANG, torch(), nodes(6, 0), &tree!({}));
    vec![
        runtime(QUICK, torch(), nodes(6, 0), &tree!({})),
        runtime(LONG, torch(), nodes(100_000, 0), &tree!({})),
        runtime(BROKEN, torch(), nodes(3, 1), &tree!({})),
        runtime(BRIEF, torch(), nodes(6, 0), &tree!({"ttlSecondsAfterFinished": 0})),
        runtime(MPI, mpi, launched, &succeeds),
        gang.with(&["spec", "podGroupPolicy"], tree!({"workload": {}})),
    ]
}

fn runtime(name: &str, policy: Tree, jobs: Vec<Tree>, more: &Tree) -> Tree {
    let set = tree!({"replicatedJobs": Tree::list(jobs)}).merge(more);
    tree!({"apiVersion": API_VERSION, "kind": CLUSTER_TRAINING_RUNTIME, "metadata": {"name": name},
        "spec": {"mlPolicy": policy, "template": {"spec": set}}})
}

/// A step of training; the first failure of a pod is that of its Job.
fn step(name: &str, ancestor: &str, seconds: u32, code: u32) -> Tree {
    let notes = tree!({"muster.dev/sim-run-seconds": seconds.to_string(), "muster.dev/sim-exit-code": code.to_string()});
    let labels = if ancestor.is_empty() { tree!({}) } else { Tree::map([(labels::ANCESTOR, ancestor)]) };
    tree!({"name": name, "template": {"metadata": {"labels": labels}, "spec": {"backoffLimit": 0,
        "template": {"metadata": {"annotations": notes}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "node", "image": "i", "command": ["true"]}]}}}}})
}

/// A metric of the controller, summed over namespaces.
pub fn number(control: &ControlLoop, name: &str, now: Time) -> u64 {
    let all = control.collect_metrics(now).training.samples(now);
    let count = |value: Value| match value {
        Value::Count(count) => count,
        Value::Spans(spans) => spans.count(),
        Value::Gauge(_) => panic!("{name} is no count"),
    };
    all.into_iter().filter(|it| it.name == name).map(|it| count(it.value)).sum()
}

impl Stage<'_> {
    /// How a TrainJob ended: the type and the reason.
    pub fn ended(&self, name: &str) -> (Text, Text) {
        let status = self.facts(name).status;
        let end = [conditions::COMPLETE, conditions::FAILED].into_iter().find(|kind| status.holds(kind));
        let end = end.unwrap_or_else(|| panic!("{name} has not ended: {status:?}"));
        let reason = status.condition(end).map(|it| it.text_at(paths::condition::REASON));
        (end.into(), reason.unwrap_or_default())
    }

    pub fn is_complete(&self, name: &str) {
        assert_eq!(self.ended(name).0, conditions::COMPLETE, "{name}");
    }

    /// It was active for too long.
    pub fn is_overdue(&self, name: &str) {
        assert!(self.facts(name).status.is_overdue(), "{name}: {:?}", self.facts(name).status);
    }

    /// Deletes a runtime, or creates it again.
    pub fn toggle_runtime(&mut self, name: &str) {
        match find(self.world, &CLUSTER_TRAINING_RUNTIMES, name) {
            Some(there) => {
                self.remove(
                    &CLUSTER_TRAINING_RUNTIMES,
                    &there.tree,
                    muster_api::client::DeletionPropagation::Background,
                );
            }
            None => {
                let runtime = runtimes().into_iter().find(|it| meta::name(it) == name).unwrap();
                self.world.create(&CLUSTER_TRAINING_RUNTIMES, &runtime).unwrap();
            }
        }
    }
}
