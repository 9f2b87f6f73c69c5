//! TrainJobs: the PodSetInfo is in one entry of `runtimePatches`, and tenants cannot override it.

use std::slice::from_ref;

use muster_queue::jobs::generic_job::{GenericJob, StopProgress};
use muster_queue::jobs::podset_info::PodSetInfo;
use muster_queue::jobs::reconciler::JobReconcilerAction;
use muster_queue::jobs::trainjob::{
    BuiltJobSet, QueuedTrainJob, is_managed_externally, validate_runtime_patches, with_empty_queue_patch,
    without_queue_patch,
};
use muster_trainer::build::{BuildRequest, build};
use muster_tree::{Tree, tree};

use super::text;
use super::world::World;

const OURS: &str = "kueue.x-k8s.io/manager";

/// The runtimes, by name.
fn runtime(name: &str) -> Option<Tree> {
    let job = |name: &str, step: &str, spec: Tree| {
        let own =
            tree!({"containers": [{"name": if step == "trainer" { "node" } else { name }, "image": "i"}]});
        tree!({"name": name, "template": {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}},
            "spec": {"template": {"spec": (own.merge(&spec))}}}})
    };
    let none = Tree::empty_map;
    let wide = tree!({"name": "Extra", "replicas": 3, "template": {"spec": {"parallelism": 2, "completions": 2,
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}});
    let placed = tree!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "schedulingGroup": {"podGroupName": "g"}});
    let (policy, jobs) = match name {
        "plain" => (tree!({"numNodes": 2}), vec![job("node", "trainer", none())]),
        "placed" => (tree!({"numNodes": 2}), vec![job("node", "trainer", placed)]),
        "wide" => (tree!({"numNodes": 1}), vec![job("node", "trainer", none()), wide]),
        "steps" => (
            tree!({"numNodes": 1}),
            vec![
                job("dataset-initializer", "dataset-initializer", none()),
                job("model-initializer", "model-initializer", none()),
                job("node", "trainer", none()),
            ],
        ),
        "mpi" => (
            tree!({"numNodes": 1, "mpi": {"runLauncherAsNode": true}}),
            vec![job("launcher", "trainer", none()), job("node", "", none())],
        ),
        _ => return None,
    };
    Some(tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name}, "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": Tree::list(jobs)}}}}))
}

/// A TrainJob; `runs`: whether its Jobs run, whatever the status says.
pub fn training(object: &Tree, runs: bool) -> QueuedTrainJob<'_> {
    let name = object.str_at(&["spec", "runtimeRef", "name"]);
    let makes = runtime(name).ok_or_else(|| format!("runtime '{name}' not found")).and_then(|runtime| {
        let job = without_queue_patch(object);
        let built = build(&BuildRequest::new(&job, &runtime)).map_err(|why| why.to_string())?;
        Ok(BuiltJobSet::of(built.jobset().unwrap(), built.pod_sets()))
    });
    QueuedTrainJob::of(object, makes, runs)
}

/// A TrainJob in queue `q` with these foreign patches and an empty entry of ours.
pub fn trainjob(runtime: &str, patches: &Tree) -> Tree {
    with_empty_queue_patch(
        &tree!({"kind": "TrainJob", "metadata": {"name": "j", "namespace": "n", "uid": "u",
            "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"suspend": true, "runtimeRef": {"name": runtime}, "runtimePatches": patches}}),
    )
}

/// Our entry, by replicatedJob.
pub fn ours(job: &Tree) -> Vec<Tree> {
    let mut all = job.items_at(&["spec", "runtimePatches"]).iter();
    let entry = all.find(|it| it.str_at(&["manager"]) == OURS).unwrap();
    entry.items_at(&["trainingRuntimeSpec", "template", "spec", "replicatedJobs"]).to_vec()
}

/// An entry of this manager for one replicatedJob.
fn entry(manager: &str, job: &str, pod: &Tree) -> Tree {
    tree!({"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": job, "template": {"spec": {"template": pod}}}]}}}})
}

fn bare(manager: &str) -> Tree {
    tree!({"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {}}}})
}

fn patches(all: &[Tree]) -> Tree {
    tree!({"kind": "TrainJob", "metadata": {"name": "j", "uid": "u"}, "spec": {"suspend": true,
        "runtimeRef": {"name": "placed"}, "runtimePatches": Tree::list(all.to_vec())}})
}

fn is_suspended(world: &World) -> bool {
    world.job().bool_at(&["spec", "suspend"]) == Some(true)
}

#[test]
fn new_trainjob_gets_our_entry_last() {
    let other = entry("acme.io/x", "node", &tree!({}));
    let forged = entry(OURS, "node", &tree!({"spec": {"nodeSelector": {"pool": "gold"}}}));
    let want = |all: &[Tree]| patches(&[all, &[bare(OURS)]].concat());
    for (says, all, others) in [
        ("the first one", vec![], vec![]),
        ("one of others", vec![other.clone()], vec![other.clone()]),
        ("one that says nothing", vec![bare(OURS)], vec![]),
        ("what somebody wrote under our name", vec![forged.clone(), other.clone()], vec![other.clone()]),
        ("one that is not the last", vec![bare(OURS), other.clone()], vec![other]),
    ] {
        let made = with_empty_queue_patch(&patches(&all));
        assert_eq!(made, want(&others), "{says}");
        assert_eq!(with_empty_queue_patch(&made), made, "{says}: twice is once");
    }
    let timed = patches(&[bare(OURS).with(&["time"], "2026-01-01T00:00:00Z")]);
    assert_eq!(with_empty_queue_patch(&timed), timed, "when it was written is not ours to say");
}

#[test]
fn start_takes_two_writes_and_keeps_runtime_fields() {
    let info = PodSetInfo {
        name: text("node"),
        labels: [(text("l"), text("1"))].into(),
        annotations: [(text("a"), text("2"))].into(),
        node_selector: [(text("pool"), text("spot"))].into(),
        tolerations: vec![tree!({"key": "spot"})],
        gates: vec![tree!({"name": "g"})],
        ..PodSetInfo::default()
    };
    let other = entry("acme.io/x", "node", &tree!({"spec": {"tolerations": [{"key": "own"}]}}));
    // A later foreign entry would override ours.
    let job = patches(&[bare(OURS), other.clone()]);
    let first = training(&job, false).start(std::slice::from_ref(&info)).unwrap();
    assert!(!first.emits_event, "it still stands still");
    let filled = job.merge(&first.change.patch);
    let pod = tree!({"metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}}, "spec": {"nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "own"}, {"key": "spot"}], "schedulingGates": [{"name": "g"}]}});
    assert_eq!(filled, patches(&[other, entry(OURS, "node", &pod)]), "tolerations replace: all are there");
    assert!(!training(&job, false).has_podset_info() && training(&filled, false).has_podset_info());
    let last = training(&filled, false).start(std::slice::from_ref(&info)).unwrap();
    assert_eq!((last.change.patch, last.emits_event), (tree!({"spec": {"suspend": false}}), true));
    let timed = tree!({"spec": {"runtimePatches": filled.items_at(&["spec", "runtimePatches"])
        .iter().map(|it| it.with(&["time"], "2026-01-01T00:00:00Z")).collect::<Vec<_>>()}});
    assert!(training(&filled.merge(&timed), false).start(&[info]).unwrap().emits_event, "when is no matter");
}

#[test]
fn only_podset_info_is_written() {
    let info = PodSetInfo { name: text("node"), ..PodSetInfo::default() };
    let job = patches(&[]);
    let filled = job.merge(&training(&job, false).start(&[info]).unwrap().change.patch);
    assert_eq!(ours(&filled), [tree!({"name": "node"})], "the runtime keeps its selector and tolerations");
}

#[test]
fn runtime_gang_fields_are_not_in_the_workload() {
    let job = patches(&[]);
    let set = training(&job, false).pod_sets().unwrap().remove(0);
    assert_eq!(set.template.at(&["spec", "schedulingGroup"]), None);
    assert_eq!(set.template.at(&["spec", "nodeSelector"]), Some(&tree!({"disk": "ssd"})));
}

#[test]
fn conflicting_podset_info_never_starts() {
    let info = |key: &str| PodSetInfo {
        name: text("node"),
        node_selector: [(text(key), text("spot"))].into(),
        ..PodSetInfo::default()
    };
    let evil = entry("acme.io/x", "node", &tree!({"spec": {"nodeSelector": {"pool": "gold"}}}));
    for (says, patched, key, want) in [
        ("the runtime", vec![], "disk", "conflict for nodeSelector: disk is \"ssd\" and would be \"spot\""),
        (
            "a patch before ours",
            vec![evil.clone(), bare(OURS)],
            "pool",
            "pool is \"gold\" and would be \"spot\"",
        ),
        ("a patch behind ours", vec![bare(OURS), evil], "pool", "pool is \"gold\" and would be \"spot\""),
    ] {
        let why = training(&patches(&patched), false).start(&[info(key)]).unwrap_err().to_string();
        assert!(why.contains(want), "{says}: {why}");
    }
    let job = patches(&[]);
    let why = |infos: &[PodSetInfo]| training(&job, false).start(infos).unwrap_err().to_string();
    let other = || PodSetInfo { name: text("other"), ..PodSetInfo::default() };
    assert_eq!(why(&[]), "invalid podset infos: expecting 1 podset, got 0");
    assert_eq!(why(&[other()]), "invalid podset infos: expecting 1 podset, got 1");
    assert_eq!(why(&[info("x"), other()]), "invalid podset infos: expecting 1 podset, got 2");
}

#[test]
fn stop_waits_for_active_jobs_then_empties_our_entry() {
    let other = entry("acme.io/x", "node", &tree!({}));
    let filled = [entry(OURS, "node", &tree!({"spec": {"nodeSelector": {"pool": "spot"}}})), other.clone()];
    let job = patches(&filled);
    let running = job.with(&["spec", "suspend"], false);
    let step = |job: &Tree, runs: bool| match training(job, runs).stop(None) {
        StopProgress::Step(step) => Some((job.merge(&step.change.patch), step.emits_event)),
        StopProgress::Wait(why) => {
            assert_eq!(why, "jobs are still active");
            None
        }
        StopProgress::Stopped => panic!("it is not still: {job}"),
    };
    assert_eq!(step(&running, true), Some((job.clone(), true)), "it is suspended first");
    let active = job.with(&["status", "jobsStatus"], tree!([{"name": "node", "active": 1}]));
    assert_eq!(step(&active, false), None);
    assert_eq!(step(&job, true), None, "its status does not tell yet");
    let empty = patches(&[bare(OURS), other]);
    assert_eq!(step(&job, false), Some((empty.clone(), false)));
    assert_eq!(training(&empty, false).stop(None), StopProgress::Stopped);
    assert_eq!(
        training(&patches(&[]), false).stop(None),
        StopProgress::Stopped,
        "nor is an entry made for it"
    );
}

#[test]
fn runtime_patch_permissions() {
    let [own, others] =
        [OURS, "acme.io/x"].map(|who| entry(who, "node", &tree!({"spec": {"nodeSelector": {"a": "b"}}})));
    let stands = |all: &[Tree]| patches(all);
    let runs = |all: &[Tree]| patches(all).with(&["spec", "suspend"], false);
    let timed = |it: &Tree| it.with(&["time"], "2026-01-01T00:00:00Z");
    let (only_queue, only_suspended) = ("only the queue writes the entry", "change while it is suspended");
    type Case<'a> = (&'a str, Tree, Tree, &'a [&'a str]);
    let cases: [Case<'_>; 14] = [
        ("nothing changes", runs(from_ref(&own)), runs(from_ref(&own)), &[]),
        ("it is suspended", runs(from_ref(&own)), stands(from_ref(&own)), &[]),
        ("it is let run", stands(from_ref(&own)), runs(from_ref(&own)), &[]),
        ("ours is forged", stands(&[bare(OURS)]), stands(from_ref(&own)), &[only_queue]),
        ("ours is forged, and it is let run", stands(&[bare(OURS)]), runs(from_ref(&own)), &[only_queue]),
        ("ours is emptied", runs(from_ref(&own)), runs(&[bare(OURS)]), &[only_queue]),
        ("ours is taken away", stands(from_ref(&own)), stands(&[]), &[only_queue]),
        ("ours goes that says nothing, as when a list is applied", stands(&[bare(OURS)]), stands(&[]), &[]),
        ("when ours was written", runs(from_ref(&own)), runs(&[timed(&own)]), &[]),
        ("others while it stands", stands(from_ref(&own)), stands(&[own.clone(), others.clone()]), &[]),
        ("others while it is stopped", runs(from_ref(&own)), stands(&[own.clone(), others.clone()]), &[]),
        (
            "others while it is let run",
            stands(from_ref(&own)),
            runs(&[own.clone(), others.clone()]),
            &[only_suspended],
        ),
        (
            "others while it runs",
            runs(&[others.clone(), own.clone()]),
            runs(from_ref(&own)),
            &[only_suspended],
        ),
        ("when others were written", runs(from_ref(&others)), runs(&[timed(&others)]), &[]),
    ];
    for (says, old, new, want) in cases {
        for is_queue in [false, true] {
            let got = validate_runtime_patches(&old, &new, || is_queue);
            let want: Vec<&&str> = want.iter().filter(|it| !is_queue || **it != only_queue).collect();
            assert_eq!(got.len(), want.len(), "{says}: {got:?}");
            assert!(
                got.iter().zip(want).all(|(got, want)| got.to_string().contains(want)),
                "{says}: {got:?}"
            );
        }
    }
}

#[test]
fn externally_managed_trainjobs_are_not_queued() {
    let by = |who: &str| trainjob("plain", &tree!([])).with(&["spec", "managedBy"], who);
    assert!(is_managed_externally(&by("kueue.x-k8s.io/multikueue")));
    assert!(!is_managed_externally(&by("trainer.kubeflow.org/trainjob-controller")));
    assert!(!is_managed_externally(&trainjob("plain", &tree!([]))));
}

/// A world with an admitted, running TrainJob.
fn running(patches: &Tree) -> World {
    let mut world = World::of(&trainjob("placed", patches));
    world.settle();
    world.admit("spot", None);
    world.settle();
    world.status(&tree!({"jobsStatus": [{"name": "node", "active": 1, "ready": 1}]}));
    assert!(!is_suspended(&world));
    world
}

#[test]
fn externally_unsuspended_job_is_restarted() {
    for (says, forged) in [
        ("without an entry", tree!([])),
        ("with an empty one", Tree::list([bare(OURS)])),
        (
            "with another behind ours",
            tree!([(entry(OURS, "node", &tree!({}))), (entry("acme.io/x", "node", &tree!({})))]),
        ),
    ] {
        let mut world = World::of(&trainjob("placed", &tree!([])));
        world.settle();
        world.admit("spot", None);
        world.job = Some(world.job().merge(&tree!({"spec": {"suspend": false, "runtimePatches": forged}})));
        let steps = world.plan();
        assert!(
            matches!(&steps[0], JobReconcilerAction::PatchJob(it) if it.patch == tree!({"spec": {"suspend": true}})),
            "{says}"
        );
        world.settle();
        assert!(
            world.events.iter().any(|it| it == "Stopped: Not started by its queue"),
            "{says}: {:?}",
            world.events
        );
        assert!(
            !is_suspended(&world) && ours(world.job()).len() == 1,
            "{says}: then it is started as it should be"
        );
    }
}

#[test]
fn unadmitted_job_is_stopped() {
    let mut world = World::of(&trainjob("placed", &tree!([])));
    world.settle();
    world.job = Some(world.job().with(&["spec", "suspend"], false));
    world.settle();
    assert!(is_suspended(&world));
    assert!(
        world.events.iter().any(|it| it == "Stopped: Not admitted by cluster queue"),
        "{:?}",
        world.events
    );
}

#[test]
fn our_entry_is_emptied_while_pending() {
    let forged = entry(OURS, "node", &tree!({"spec": {"nodeSelector": {"pool": "gold"}}}));
    let job = trainjob("placed", &tree!([])).with(&["spec", "runtimePatches"], Tree::list([forged]));
    let mut world = World::of(&job);
    world.settle();
    assert_eq!(world.job(), &trainjob("placed", &tree!([])));
    assert_eq!(world.workloads.len(), 1);
}

#[test]
fn changed_requests_with_quota_get_a_new_workload() {
    let mut world = running(&tree!([]));
    let env = entry(
        "acme.io/x",
        "node",
        &tree!({"spec": {"containers": [{"name": "node", "volumeMounts": [
        {"name": "v", "mountPath": "/v"}]}]}}),
    );
    let entries = [world.job().items_at(&["spec", "runtimePatches"]), &[env]].concat();
    world.job =
        Some(world.job().merge(&tree!({"spec": {"suspend": true, "runtimePatches": Tree::list(entries)}})));
    world.settle();
    assert_eq!(world.workload().str_at(&["metadata", "uid"]), "wl-1", "its pods keep their share");
    world.status(&tree!({"jobsStatus": [{"name": "node", "active": 0}]}));
    world.settle();
    assert_eq!(world.workload().str_at(&["metadata", "uid"]), "wl-2", "it queues again");
    assert!(ours(world.job()).is_empty(), "with nothing left of the first share");
    assert!(is_suspended(&world));
}

#[test]
fn only_our_labels_conflict_before_the_start() {
    for (label, starts) in [("team", true), ("kueue.x-k8s.io/podset", false)] {
        let mut world = World::of(&trainjob("placed", &tree!([])));
        world.settle();
        world.admit("spot", None);
        let other =
            entry("acme.io/x", "node", &tree!({"metadata": {"labels": Tree::map([(label, "forged")])}}));
        let entries = [&[other], world.job().items_at(&["spec", "runtimePatches"])].concat();
        world.job = Some(world.job().merge(&tree!({"spec": {"runtimePatches": Tree::list(entries)}})));
        world.settle();
        assert_eq!(!is_suspended(&world), starts, "{label}");
        let failed = world.workload().to_json().contains("FailedToStart");
        assert_eq!(failed, !starts, "{label}");
        if failed {
            world.job = Some(world.job().with(&["spec", "suspend"], false));
            world.settle();
            assert!(is_suspended(&world), "what could not be started does not run without a share");
        }
    }
}

#[test]
fn missing_runtime_is_waited_for() {
    let mut world = World::of(&trainjob("missing", &tree!([])));
    let steps = world.plan();
    assert!(
        matches!(&steps[..], [JobReconcilerAction::Note(_, _, "ErrWorkloadCompose", why)] if why == "runtime 'missing' not found"),
        "{steps:?}"
    );
    world.job = Some(world.job().with(&["spec", "suspend"], false));
    world.settle();
    assert!(is_suspended(&world), "nobody knows what it would take");
    world.job = Some(world.job().with(&["spec", "runtimeRef", "name"], "placed"));
    world.settle();
    assert_eq!(world.workloads.len(), 1, "and now it waits for its share");
}

#[test]
fn missing_runtime_still_evicts_finishes_and_waits() {
    let gone = |world: &mut World| {
        world.job = Some(world.job().with(&["spec", "runtimeRef", "name"], "missing"));
    };
    let mut world = running(&tree!([]));
    gone(&mut world);
    world.settle();
    assert!(!is_suspended(&world), "what runs goes on");
    world.evict();
    world.settle();
    assert!(is_suspended(&world), "and leaves when it has to");
    world.status(&tree!({"jobsStatus": [{"name": "node", "active": 0}]}));
    world.settle();
    assert!(world.workload().at(&["status", "admission"]).is_none() && ours(world.job()).is_empty());
    world.admit("spot", None);
    world.settle();
    assert!(is_suspended(&world), "nobody can start it");
    let steps = world.plan();
    assert!(matches!(&steps[..], [JobReconcilerAction::Note(_, _, "ErrWorkloadCompose", _)]), "{steps:?}");
    assert!(!world.workload().to_json().contains("FailedToStart"), "the runtime may come back");

    let mut world = running(&tree!([]));
    gone(&mut world);
    world.status(&tree!({"conditions": [{"type": "Complete", "status": "True", "message": "well done"}]}));
    world.settle();
    assert!(world.workload().to_json().contains("well done"));
}
