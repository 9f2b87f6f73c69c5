//! What a controller keeps of pods: a thousand that are queued, alone and beside fifty thousand that are not, a part of
//! which have ended.
//!
//! Each row is a process of its own that lists the pods into a loop of these controllers, as a watch would.

use std::process::Command;

use muster_api::client::{ApiObject, WatchBatch};
use muster_api::kinds::PODS;
use muster_api::time::Time;
use muster_control::jobsets::{ExclusivePlacementController, FeatureGates, JobSetController};
use muster_control::queueing::{QueueController, QueueControllerConfig};
use muster_control::schedule::SchedulerController;
use muster_control::{ControlLoop, Controller, RuntimeInput, RuntimeOptions};
use muster_tree::{Sharing, Tree, tree};

use crate::api::Options;
use crate::measure::resident;

/// Pods that are queued.
const MANAGED: usize = 1_000;
/// The others, in full and to see that it works.
const FOREIGN_FULL: usize = 50_000;
const FOREIGN_QUICK: usize = 5_000;
/// One in so many of the others has ended.
const ENDED_EVERY: usize = 3;
const SETS: [&str; 3] = ["queue", "queue,jobset", "queue,scheduler"];

/// Runs it and prints it.
pub fn run(options: &Options) {
    let foreign = if options.quick { FOREIGN_QUICK } else { FOREIGN_FULL };
    println!("queues: {MANAGED} queued pods, alone and beside {foreign} others, of which a third have ended");
    println!("  controllers         pods there   pods kept   resident");
    for set in SETS {
        for others in [0, foreign] {
            let me = std::env::current_exe().expect("it has a name");
            let row = Command::new(me).args(["queues-pods", set, &others.to_string()]).output();
            match row {
                Ok(row) if row.status.success() => print!("{}", String::from_utf8_lossy(&row.stdout)),
                _ => eprintln!("  {set} beside {others}: left out"),
            }
        }
    }
}

/// One row, in a process of its own.
pub fn row(set: &str, others: usize) {
    let mut it = ControlLoop::new(controllers(set), &[], RuntimeOptions::default());
    let before = resident();
    let mut sharing = Sharing::default();
    let mut share = |tree: Tree, revision| ApiObject { tree: sharing.share_below(&tree), revision };
    let queued = (0..MANAGED).map(|n| pod(n, true));
    let pods = queued.chain((0..others).map(|n| pod(n, false)));
    let list: Vec<ApiObject> = pods.zip(1..).map(|(tree, revision)| share(tree, revision)).collect();
    it.observe(RuntimeInput::Watched(PODS.clone(), WatchBatch::Restarted(list)), Time(0));
    let resident = resident().saturating_sub(before);
    let (there, kept) = (MANAGED + others, it.caches().count(&PODS));
    println!("  {set:<19} {there:>10} {kept:>11} {:>7.1} MB", resident as f64 / 1e6);
}

fn controllers(set: &str) -> Vec<Box<dyn Controller>> {
    let some = |name: &str| -> Vec<Box<dyn Controller>> {
        match name {
            "queue" => vec![Box::new(QueueController::new(QueueControllerConfig::default()))],
            "jobset" => vec![
                Box::new(JobSetController::new(FeatureGates::default(), None)),
                Box::<ExclusivePlacementController>::default(),
            ],
            _ => vec![Box::<SchedulerController>::default()],
        }
    };
    set.split(',').flat_map(some).collect()
}

/// A pod as clusters have them: everything that differs from pod to pod differs.
fn pod(n: usize, queued: bool) -> Tree {
    let who = if queued { "queued" } else { "other" };
    let ended = !queued && n.is_multiple_of(ENDED_EVERY);
    let phase = if ended { "Succeeded" } else { "Running" };
    let uid = format!("{who}-5f1c8a52-7d1b-4f6c-9c1e-{n:012}");
    let env = Tree::list(
        (0..6).map(|i| tree!({"name": format!("SETTING_{i}"), "value": format!("{who}-{n}-{i}")})),
    );
    let base = tree!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{who}-{n:06}"), "namespace": format!("team-{}", n % 20), "uid": uid.as_str(),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": format!("app-{}", n % 500)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("rs-{}", n % 500),
                "uid": format!("rs-{}", n % 500), "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"nodeName": format!("node-{:04}", n % 1000), "restartPolicy": "Always", "serviceAccountName": "default",
            "containers": [{"name": "main", "image": "registry.example/app:1", "env": env,
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
        "status": {"phase": phase, "podIP": format!("10.{}.{}.{}", n / 65536, n / 256 % 256, n % 256),
            "hostIP": format!("10.200.{}.{}", n % 1000 / 256, n % 256), "startTime": "2026-01-01T00:00:01Z",
            "containerStatuses": [{"name": "main", "ready": (!ended), "restartCount": 0,
                "containerID": format!("containerd://{n:064x}"), "imageID": "registry.example/app@sha256:1"}]}});
    if !queued {
        return base;
    }
    let marks = tree!({"metadata": {"labels": {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "team"},
        "finalizers": ["kueue.x-k8s.io/managed"], "annotations": {"kueue.x-k8s.io/role-hash": "dc85db45"}}});
    base.merge(&marks).without(&["metadata", "ownerReferences"])
}
