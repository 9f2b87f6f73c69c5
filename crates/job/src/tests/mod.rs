//! What a Job needs next, as tables. Here: the builders they share.

mod basics;
mod claims;
mod failures;
mod gangs;
mod indexed;
mod successes;

use std::collections::BTreeSet;

use muster_api::job_pod::new_pod;
use muster_api::paths::{job as path, meta as meta_path, pod as pod_path};
use muster_tree::{Tree, tree};

use super::*;

fn at(secs: i64) -> Time {
    Time(1_700_000_000_000_000 + secs * 1_000_000)
}

fn job(spec: Tree) -> Tree {
    let base = tree!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 1, "selector": {}, "template": {"spec": {"restartPolicy": "Never"}}}});
    base.merge(&tree!({"spec": spec}))
}

/// A Job that has begun.
fn begun(spec: Tree) -> Tree {
    job(spec).with(path::STATUS, tree!({"startTime": at(0).to_seconds_text(), "uncountedTerminatedPods": {}}))
}

fn pod(job: &Tree, name: &str, phase: &str, index: Option<u32>) -> Tree {
    let made = new_pod(job, &NewPod { index, suffix: "x".into(), index_failures: None });
    let stamp = at(1).to_seconds_text();
    made.with(meta_path::NAME, name)
        .with(meta_path::UID, format!("uid-{name}"))
        .with(meta_path::CREATED, stamp)
        .with(pod_path::PHASE, phase)
        .with(pod_path::NODE_NAME, "n")
}

fn look(job: &Tree, pods: &[Tree], now: Time) -> Vec<JobAction> {
    let facts = JobFacts::of(job);
    let pods: Vec<JobPod> = pods.iter().map(|pod| JobPod::of(pod, &facts)).collect();
    decide(&facts, &pods, &[], &BackoffRecord::default(), now).steps
}

fn decide(
    job: &JobFacts,
    pods: &[JobPod],
    orphans: &[JobPod],
    backoff_record: &BackoffRecord,
    now: Time,
) -> JobReconciliation {
    let names: BTreeSet<Text> = pods.iter().map(|pod| pod.name.clone()).collect();
    let taken = |name: &Text| names.contains(name);
    reconcile(&JobSnapshot {
        job,
        pods,
        orphans,
        backoff_record,
        name_in_use: &taken,
        groups: None,
        create_failed: false,
        now,
    })
}

/// The actions in short: what, and how many.
fn short(steps: &[JobAction]) -> Vec<String> {
    let words = |step: &JobAction| match step {
        JobAction::Adopt(pods) => format!("adopt {}", names(pods)),
        JobAction::ReleaseOwnership(pods) => format!("let go {}", names(pods)),
        JobAction::CreateGangObject { object, .. } => {
            format!("make {} {}", object.str_at(&["kind"]), muster_api::meta::name(object))
        }
        JobAction::ResizeGang { object, .. } => format!("resize {}", muster_api::meta::name(&object.tree)),
        JobAction::CreatePods(pods) => {
            let indexes: Vec<String> =
                pods.iter().filter_map(|pod| pod.index).map(|i| i.to_string()).collect();
            format!("create {} [{}]", pods.len(), indexes.join(","))
        }
        JobAction::DeletePods(pods) => format!("delete {}", names(pods)),
        JobAction::DeleteUncounted(pods) => format!("discard {}", names(pods)),
        JobAction::RemoveFinalizer(pods) => format!("release {}", names(pods)),
        JobAction::UpdateStatus(_) => "write".to_owned(),
        JobAction::Event(_, reason, _) => format!("note {reason}"),
        JobAction::RequeueAt(time) => format!("again {}", (time.0 - at(0).0) / 1_000_000),
        JobAction::DeleteJob => "delete job".to_owned(),
    };
    steps.iter().map(words).collect()
}

fn names(pods: &[PodRef]) -> String {
    pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(",")
}

fn written(steps: &[JobAction]) -> Tree {
    let status = steps.iter().find_map(|step| match step {
        JobAction::UpdateStatus(status) => Some(status.tree(&Tree::Null)),
        _ => None,
    });
    status.unwrap_or_else(|| panic!("no status in {steps:?}"))
}

fn condition_types(status: &Tree) -> Vec<&str> {
    status.items_at(&["conditions"]).iter().map(|c| c.str_at(&["type"])).collect()
}

/// Runs a Job by hand: applies what the actions say to the trees, as the controller and the API server would.
struct World {
    job: Tree,
    pods: Vec<Tree>,
    now: Time,
}

impl World {
    fn look(&mut self) -> Vec<JobAction> {
        let steps = look(&self.job, &self.pods, self.now);
        for step in &steps {
            self.apply(step);
        }
        steps
    }

    fn apply(&mut self, step: &JobAction) {
        match step {
            JobAction::CreatePods(new) => {
                let count = self.pods.len();
                let names = new.iter().enumerate().map(|(n, _)| format!("p{}", count + n));
                let made: Vec<Tree> = names.map(|name| pod(&self.job, &name, "Running", None)).collect();
                self.pods.extend(made);
            }
            JobAction::UpdateStatus(status) => {
                self.job = self.job.with(path::STATUS, status.tree(&Tree::Null));
            }
            JobAction::RemoveFinalizer(pods) => {
                let released = |pod: &Tree| pods.iter().any(|one| one.uid == muster_api::meta::uid(pod));
                for pod in self.pods.iter_mut().filter(|pod| released(pod)) {
                    *pod = pod.without(meta_path::FINALIZERS);
                }
            }
            JobAction::DeletePods(pods) => {
                self.pods.retain(|pod| !pods.iter().any(|one| one.uid == muster_api::meta::uid(pod)));
            }
            _ => {}
        }
    }

    fn set_phase(&mut self, at: usize, phase: &str) {
        self.pods[at] = self.pods[at].with(pod_path::PHASE, phase);
    }

    fn status(&self) -> &Tree {
        self.job.at(path::STATUS).unwrap()
    }
}
