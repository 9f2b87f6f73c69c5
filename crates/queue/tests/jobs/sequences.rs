//! Full lifecycles of queued jobs.

use muster_api::meta;
use muster_tree::{Tree, tree};

use super::trainjob::{ours, trainjob};
use super::world::World;

const STARTED: &str = "2026-01-01T00:00:00Z";

fn job(spec: &Tree, annotations: &Tree) -> Tree {
    tree!({"kind": "Job", "metadata": {"name": "j", "namespace": "n", "uid": "u", "annotations": annotations,
            "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"suspend": true, "parallelism": 3, "completions": 3, "template": {
            "metadata": {"labels": {"app": "x", "controller-uid": "u"}},
            "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": "4"}}}]}}}})
    .merge(&tree!({"spec": spec}))
}

fn jobset() -> Tree {
    let replicated = |name: &str, replicas: u32| {
        tree!({"name": name, "replicas": replicas, "template": {"spec": {"parallelism": 2, "completions": 2,
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}})
    };
    tree!({"kind": "JobSet", "metadata": {"name": "j", "namespace": "n", "uid": "u",
            "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"suspend": true, "replicatedJobs": [(replicated("driver", 1)), (replicated("worker", 3))]}})
}

/// What the job's own controller writes when the job runs or stops.
struct Controller {
    runs: Tree,
    stops: Tree,
    ends: Tree,
}

fn of_job() -> Controller {
    Controller {
        runs: tree!({"startTime": STARTED, "active": 3, "ready": 3}),
        stops: tree!({"active": null, "ready": null}),
        ends: tree!({"active": null, "succeeded": 3, "conditions": [{"type": "Complete", "status": "True", "message": "well done"}]}),
    }
}

fn of_jobset() -> Controller {
    let told = |active: u32| {
        tree!({"replicatedJobsStatus": [{"name": "driver", "active": active, "ready": active},
            {"name": "worker", "active": (3 * active), "ready": (3 * active)}]})
    };
    Controller {
        runs: told(1),
        stops: told(0),
        ends: told(0)
            .merge(&tree!({"conditions": [{"type": "Completed", "status": "True", "message": "well done"}]})),
    }
}

/// How writes are performed.
type Settle = fn(&mut World);

/// The node selector of the first template; for a TrainJob, of our entry.
fn selector(job: &Tree) -> Tree {
    if job.str_at(&["kind"]) == "TrainJob" {
        return ours(job)[0].at(&["template", "spec", "template", "spec", "nodeSelector"]).cloned().unwrap();
    }
    let template = match job.str_at(&["kind"]) {
        "Job" => job.at(&["spec", "template"]).cloned(),
        _ => job.items_at(&["spec", "replicatedJobs"])[0].at(&["template", "spec", "template"]).cloned(),
    };
    template.unwrap().at(&["spec", "nodeSelector"]).cloned().unwrap_or_default()
}

fn is_suspended(world: &World) -> bool {
    world.job().bool_at(&["spec", "suspend"]) == Some(true)
}

fn has(world: &World, words: &str) -> bool {
    world.events.iter().any(|it| it == words)
}

/// From pending to finished, with an eviction in between. Returns the final world.
fn live(job: &Tree, controller: &Controller, partial: Option<u32>, settle: Settle) -> World {
    let mut world = World::of(job);
    settle(&mut world);
    let workload = world.workload().clone();
    assert_eq!(workload.str_at(&["spec", "queueName"]), "q");
    assert!(is_suspended(&world), "nothing starts without a share");
    settle(&mut world);
    assert_eq!(world.workloads.len(), 1, "and nothing is made twice");

    world.admit("reserved", partial);
    settle(&mut world);
    assert!(!is_suspended(&world), "admitted, so it runs");
    assert_eq!(selector(world.job()).str_at(&["pool"]), "reserved");
    world.status(&controller.runs);
    settle(&mut world);
    assert!(!is_suspended(&world), "and goes on running");

    world.evict();
    settle(&mut world);
    assert!(is_suspended(&world), "evicted, so it stops");
    assert!(
        world.workload().at(&["status", "admission"]).is_some(),
        "its share is held while pods are active"
    );
    world.status(&controller.stops);
    settle(&mut world);
    assert!(world.workload().at(&["status", "admission"]).is_none(), "and free when they are gone");
    let spec = |job: &Tree| job.get("spec").cloned();
    assert_eq!(spec(world.job()), spec(job), "the job is as its user wrote it");
    assert_eq!(meta::annotation(world.job(), "kueue.x-k8s.io/stopping"), None);

    world.admit("spot", partial);
    settle(&mut world);
    assert!(!is_suspended(&world));
    assert_eq!(selector(world.job()).str_at(&["pool"]), "spot", "another flavor, nothing left of the first");
    world.status(&controller.runs);
    settle(&mut world);
    world.status(&controller.ends);
    settle(&mut world);
    let finished = world.workload().to_json();
    assert!(finished.contains(r#""type":"Finished""#) && finished.contains("well done"), "{finished}");
    assert!(!meta::has_finalizers(world.workload()), "nothing keeps it");
    assert_eq!(meta::uid(world.workload()), "wl-1", "one Workload, from beginning to end");
    world
}

const WAYS: [(&str, Settle); 3] = [
    ("in peace", World::settle),
    ("with a crash after each write", World::settle_with_crashes),
    ("with every write twice", World::settle_twice),
];

fn all_ways(job: &Tree, controller: &Controller, partial: Option<u32>, look: impl Fn(&str, &World)) {
    let mut ends = Vec::new();
    for (says, settle) in WAYS {
        let world = live(job, controller, partial, settle);
        look(says, &world);
        ends.push((world.job.clone(), world.workloads));
    }
    assert!(ends.windows(2).all(|two| two[0] == two[1]), "all ways lead to the same end");
}

#[test]
fn job_lifecycle() {
    all_ways(&job(&tree!({}), &tree!({})), &of_job(), None, |says, world| {
        assert_eq!(world.job().int_at(&["spec", "parallelism"]), Some(3), "{says}");
    });
    let world = live(&job(&tree!({}), &tree!({})), &of_job(), None, World::settle);
    assert_eq!(
        world.events,
        [
            "CreatedWorkload: Created Workload: n/job-j-5cf3c",
            "Started: Admitted by clusterQueue cq",
            "Stopped: Preempted to accommodate another",
            "Started: Admitted by clusterQueue cq",
            "FinishedWorkload: Workload 'n/job-j-5cf3c' is declared finished",
        ]
    );
}

#[test]
fn indexed_job_lifecycle() {
    let indexed = job(&tree!({"completionMode": "Indexed"}), &tree!({}));
    let mut controller = of_job();
    controller.ends = controller.ends.merge(&tree!({"completedIndexes": "0-2"}));
    all_ways(&indexed, &controller, None, |_, _| {});
}

#[test]
fn partially_admitted_job_lifecycle() {
    let least = tree!({"kueue.x-k8s.io/job-min-parallelism": "1"});
    all_ways(&job(&tree!({"completions": 9}), &least), &of_job(), Some(2), |says, world| {
        assert_eq!(world.job().int_at(&["spec", "parallelism"]), Some(2), "{says}: as many as were admitted");
        assert_eq!(world.job().int_at(&["spec", "completions"]), Some(9), "{says}: all the work is done");
    });
}

#[test]
fn indexed_job_with_completions_equal_parallelism_lifecycle() {
    let follow = tree!({"kueue.x-k8s.io/job-min-parallelism": "1",
        "kueue.x-k8s.io/job-completions-equal-parallelism": "true"});
    all_ways(&job(&tree!({"completionMode": "Indexed"}), &follow), &of_job(), Some(2), |says, world| {
        let size = |key| world.job().int_at(&["spec", key]);
        assert_eq!((size("parallelism"), size("completions")), (Some(2), Some(2)), "{says}");
    });
}

#[test]
fn jobset_lifecycle() {
    all_ways(&jobset(), &of_jobset(), None, |says, world| {
        let pods = world.job().items_at(&["spec", "replicatedJobs"])[1].at(&["template", "spec", "template"]);
        let label = pods.and_then(|it| meta::label(it, "kueue.x-k8s.io/podset").map(str::to_owned));
        assert_eq!(label.as_deref(), Some("worker"), "{says}");
    });
}

fn of_trainjob() -> Controller {
    let told = |active: u32| {
        let node = tree!({"name": "node", "active": active, "ready": active});
        tree!({"jobsStatus": [{"name": "dataset-initializer", "succeeded": 1},
            {"name": "model-initializer", "succeeded": 1}, node]})
    };
    Controller {
        runs: told(1),
        stops: told(0),
        ends: told(0)
            .merge(&tree!({"conditions": [{"type": "Complete", "status": "True", "message": "well done"}]})),
    }
}

#[test]
fn trainjob_lifecycle() {
    let job = trainjob("steps", &tree!([{"manager": "acme.io/x", "time": STARTED}]));
    all_ways(&job, &of_trainjob(), None, |says, world| {
        let entries = world.job().items_at(&["spec", "runtimePatches"]);
        assert_eq!(entries.len(), 2, "{says}");
        assert_eq!(entries[0].str_at(&["manager"]), "acme.io/x", "{says}: what is others' stays as it is");
        let node = ours(world.job()).remove(2);
        let labels = node.at(&["template", "spec", "template", "metadata", "labels"]);
        assert_eq!(labels.unwrap().str_at(&["kueue.x-k8s.io/podset"]), "node", "{says}");
    });
    let world = live(&job, &of_trainjob(), None, World::settle);
    let owner = world.workload().items_at(&["metadata", "ownerReferences"])[0].clone();
    assert_eq!(owner.str_at(&["apiVersion"]), "trainer.kubeflow.org/v1alpha1");
    assert_eq!((owner.str_at(&["kind"]), owner.str_at(&["uid"])), ("TrainJob", "u"));
    assert_eq!(meta::name(world.workload()), "trainjob-j-1e79f");
    assert_eq!(
        world.events,
        [
            "CreatedWorkload: Created Workload: n/trainjob-j-1e79f",
            "Started: Admitted by clusterQueue cq",
            "Stopped: Preempted to accommodate another",
            "Started: Admitted by clusterQueue cq",
            "FinishedWorkload: Workload 'n/trainjob-j-1e79f' is declared finished",
        ]
    );
}

#[test]
fn changed_pending_job_updates_its_workload() {
    let mut world = World::of(&job(&tree!({}), &tree!({})));
    world.settle();
    let wider = world.job().with(&["spec", "parallelism"], 2);
    world.job = Some(wider);
    world.settle();
    assert_eq!(world.workload().items_at(&["spec", "podSets"])[0].int_at(&["count"]), Some(2));
    assert_eq!(meta::uid(world.workload()), "wl-1", "the same one");
    assert!(has(&world, "UpdatedWorkload: Updated not matching Workload for suspended job: n/job-j-5cf3c"));
}

#[test]
fn changed_job_with_quota_gets_a_new_workload() {
    let mut world = World::of(&job(&tree!({}), &tree!({})));
    world.settle();
    world.admit("reserved", None);
    world.settle();
    world.status(&tree!({"startTime": STARTED, "active": 3}));
    let changed = world.job().with(&["spec", "parallelism"], 2);
    world.job = Some(changed);
    world.settle();
    assert!(is_suspended(&world), "it stops first");
    assert_eq!(meta::uid(world.workload()), "wl-1", "and its pods keep their share");
    let words = "Stopped: No matching Workload; restoring pod templates according to existent Workload";
    assert!(has(&world, words), "{:?}", world.events);
    world.status(&tree!({"active": null}));
    world.settle();
    assert_eq!(meta::uid(world.workload()), "wl-2");
    assert_eq!(world.workload().items_at(&["spec", "podSets"])[0].int_at(&["count"]), Some(2));
    assert_eq!(selector(world.job()), tree!({"disk": "ssd"}));
}

#[test]
fn deleted_workload_stops_its_job_and_is_recreated() {
    let mut world = World::of(&job(&tree!({}), &tree!({})));
    world.settle();
    world.admit("reserved", None);
    world.settle();
    world.status(&tree!({"startTime": STARTED, "active": 3}));
    let name = meta::name(world.workload());
    world.change(&name, |it| it.with(&["metadata", "deletionTimestamp"], STARTED));
    world.settle();
    assert!(is_suspended(&world) && has(&world, "Stopped: Workload is deleted"));
    assert_eq!(meta::uid(world.workload()), "wl-1", "held while pods are active");
    world.status(&tree!({"active": null}));
    world.settle();
    assert_eq!(meta::uid(world.workload()), "wl-2", "made anew");
}

#[test]
fn workloads_of_deleted_jobs_are_finished() {
    let mut world = World::of(&job(&tree!({}), &tree!({})));
    world.settle();
    world.job = None;
    world.settle();
    assert!(world.workload().to_json().contains("OwnerNotFound"));
    assert!(!meta::has_finalizers(world.workload()));
}

#[test]
fn reclaimable_pods_never_decrease() {
    let mut world = World::of(&job(&tree!({}), &tree!({})));
    world.settle();
    world.admit("reserved", None);
    world.settle();
    let told =
        |world: &World| world.workload().at(&["status", "reclaimablePods"]).cloned().unwrap_or_default();
    world.status(&tree!({"startTime": STARTED, "active": 1, "succeeded": 2}));
    world.settle();
    assert_eq!(told(&world), tree!([{"name": "main", "count": 2}]));
    world.status(&tree!({"succeeded": 1}));
    world.settle();
    assert_eq!(
        told(&world),
        tree!([{"name": "main", "count": 2}]),
        "what was given back cannot be had again"
    );
}
