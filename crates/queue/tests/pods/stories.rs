//! The scenarios of the proposal, each also run with a crash before every single write.

use muster_tree::{Tree, tree};

use super::picture::pod;
use super::world::World;

/// A pod as created by its user.
fn sent(short: &Tree) -> Tree {
    let short = short.merge(&tree!({"bare": true, "queue": "user-queue"}));
    pod(&short).without(&["metadata", "uid"]).without(&["metadata", "creationTimestamp"])
}

pub fn create(world: &mut World, each: &Tree, names: &[&str]) {
    for name in names {
        world.create(&sent(&each.merge(&tree!({"name": (*name)}))));
    }
}

/// Runs a scenario, then again with a crash before each of its writes.
fn everywhere(story: impl Fn(&mut World)) {
    let mut world = World::default();
    story(&mut world);
    assert!(world.writes > 0, "something happens");
    let writes = world.writes;
    for before in 0..writes {
        let mut world = World::default();
        world.dies_before = Some(before);
        story(&mut world);
        assert_eq!(world.dies_before, None, "it did crash before write {before}");
    }
}

/// Outcome 1. Shows: 976-01, 976-09, 976-37, 976-38, 976-50, 976-61, 976-65.
#[test]
fn single_pod_lifecycle() {
    everywhere(|world| {
        create(world, &tree!({}), &["foo"]);
        world.settle();
        let name = world.workloads.keys().next().cloned().expect("a Workload");
        assert!(name.starts_with("pod-foo-"), "{name}");
        assert_eq!(world.workload(&name).queue, "user-queue");
        assert_eq!(
            (world.workload(&name).pod_sets[0].name.as_str(), world.workload(&name).pod_sets[0].count),
            ("main", 1)
        );
        assert!(world.open().is_empty(), "gated until admitted");
        assert!(world.admit(&name, 1));
        world.settle();
        assert_eq!(world.open(), ["foo"]);
        let foo = &world.pods["foo"].tree;
        assert_eq!(
            foo.str_at(&["spec", "nodeSelector", "size"]),
            "big",
            "with the gate off the selector is on"
        );
        assert_eq!(foo.items_at(&["spec", "tolerations"]).len(), 1);
        world.kubelet();
        world.settle();
        world.end("foo", "Succeeded");
        world.settle();
        assert_eq!(world.condition(&name, "Finished"), Some((true, "Succeeded".into())));
        assert!(!world.is_held("foo"));
        assert_eq!(world.pods["foo"].tree.str_at(&["metadata", "labels", "kueue.x-k8s.io/managed"]), "true");
        world.delete("foo");
        world.settle();
        assert!(world.pods.is_empty() && world.workloads.is_empty(), "it goes with its last pod");
    });
}

/// Outcome 2. Shows: 976-39, 976-40, 976-49, 976-55, 976-56, 976-57, 976-65.
#[test]
fn ten_equal_pods_and_an_eleventh() {
    everywhere(|world| {
        let each = tree!({"group": "pod-group", "count": 10});
        create(world, &each, &["p0"]);
        world.settle();
        assert_eq!(world.workload("pod-group").pod_sets[0].count, 10);
        assert_eq!(world.condition("pod-group", "WaitingForReplacementPods"), None);
        assert!(!world.admit("pod-group", 9));
        world.settle();
        assert!(world.open().is_empty(), "quota for nine starts nothing");
        assert!(world.admit("pod-group", 10));
        world.settle();
        assert_eq!(world.open(), ["p0"]);
        for at in 1..10 {
            create(world, &each, &[&format!("p{at}")]);
            world.settle();
            assert_eq!(world.open().len(), at + 1, "each is opened when it comes");
        }
        create(world, &each, &["p10"]);
        world.settle();
        assert_eq!(world.open().len(), 10);
        assert!(!world.pods.contains_key("p10"));
        assert!(world.notes.contains("p10 ExcessPodDeleted"));
    });
}

/// Outcome 3. Shows: 976-41, 976-60, 976-65.
#[test]
fn a_driver_and_ten_workers() {
    everywhere(|world| {
        create(
            world,
            &tree!({"group": "pod-group", "role": "driver", "roles": 2, "roleCount": 1}),
            &["job-driver"],
        );
        world.settle();
        assert!(world.workloads.is_empty(), "one role is missing");
        assert!(
            world
                .notes
                .iter()
                .any(|it| it.contains("waiting for pods of 1 more role(s) in group 'pod-group'"))
        );
        let worker = tree!({"group": "pod-group", "role": "worker", "roles": 2, "roleCount": 10});
        create(world, &worker, &["w0"]);
        world.settle();
        let sets: Vec<(String, u32)> =
            world.workload("pod-group").pod_sets.iter().map(|it| (it.name.to_string(), it.count)).collect();
        assert_eq!(sets, [("driver".to_owned(), 1), ("worker".to_owned(), 10)]);
        assert!(world.admit("pod-group", 11));
        let more: Vec<String> = (1..10).map(|at| format!("w{at}")).collect();
        create(world, &worker, &more.iter().map(String::as_str).collect::<Vec<_>>());
        world.settle();
        assert_eq!(world.open().len(), 11);
        world.kubelet();
        for name in world.pods.keys().cloned().collect::<Vec<_>>() {
            assert_eq!(world.condition("pod-group", "Finished"), None);
            world.end(&name, "Succeeded");
            world.settle();
        }
        assert_eq!(world.condition("pod-group", "Finished"), Some((true, "Succeeded".into())));
        assert!(world.pods.keys().all(|pod| !world.is_held(pod)));
    });
}

const SETS: &str = "[
  {
    name: driver,
    count: 1,
  },
  {
    name: workers,
    count: 10,
    template:
      spec:
        containers:
          - name: worker
            requests:
              cpu: 1m
  }
]";

/// Outcome 4. Shows: 976-24, 976-26, 976-42, 976-58, 976-60, 976-65.
#[test]
fn driver_creates_its_workers() {
    everywhere(|world| {
        let driver = tree!({"group": "pod-group", "role": "driver", "roleCount": 1, "sets": SETS, "retriable": "false"});
        create(world, &driver, &["job-driver"]);
        world.settle();
        let facts = world.workload("pod-group");
        let sets: Vec<(&str, u32)> = facts.pod_sets.iter().map(|it| (it.name.as_str(), it.count)).collect();
        assert_eq!(sets, [("driver", 1), ("workers", 10)]);
        let asked = facts.pod_sets[1].template.items_at(&["spec", "containers"])[0]
            .str_at(&["resources", "requests", "cpu"])
            .to_owned();
        assert_eq!(asked, "1m");
        assert!(!world.admit("pod-group", 1), "room for the driver alone is not enough");
        assert!(world.admit("pod-group", 11));
        world.settle();
        world.kubelet();
        assert_eq!(world.open(), ["job-driver"]);
        let worker = tree!({"group": "pod-group", "role": "worker", "cpu": "1m"});
        create(world, &worker, &["job-worker-1", "job-worker-2"]);
        world.settle();
        assert_eq!(world.open().len(), 3, "without another cycle");
        create(world, &worker.merge(&tree!({"cpu": "1"})), &["greedy"]);
        world.settle();
        assert_eq!(world.open().len(), 3, "it asks for more than was reserved");
        world.delete("greedy");
        world.kubelet();
        for name in ["job-worker-1", "job-worker-2", "job-driver"] {
            assert_eq!(world.condition("pod-group", "Finished"), None);
            world.end(name, "Succeeded");
            world.settle();
        }
        assert_eq!(world.condition("pod-group", "Finished"), Some((true, "Succeeded".into())));
    });
}

/// Outcome 5. Shows: 976-57, 976-62, 976-65.
#[test]
fn failed_pod_is_replaced() {
    everywhere(|world| {
        let each = tree!({"group": "g", "total": 2});
        create(world, &each, &["a"]);
        world.settle();
        assert!(world.workloads.is_empty(), "both have to be there");
        create(world, &each, &["b"]);
        world.settle();
        assert!(world.admit("g", 2));
        world.settle();
        world.kubelet();
        assert_eq!(world.open(), ["a", "b"]);
        world.end("a", "Failed");
        world.settle();
        assert_eq!(world.condition("g", "WaitingForReplacementPods"), Some((true, "PodsFailed".into())));
        assert!(world.workload("g").has_quota() && world.is_held("a"));
        create(world, &each, &["c"]);
        world.settle();
        assert_eq!(world.open(), ["b", "c"]);
        assert!(!world.is_held("a"));
        assert_eq!(world.condition("g", "WaitingForReplacementPods"), Some((false, "PodsReady".into())));
        world.kubelet();
        world.end("b", "Succeeded");
        world.settle();
        assert_eq!(world.workload("g").reclaimable.values().copied().collect::<Vec<_>>(), [1]);
        world.end("c", "Succeeded");
        world.settle();
        assert_eq!(world.condition("g", "Finished"), Some((true, "Succeeded".into())));
    });
}

/// Outcome 6. Shows: 976-64, 976-65.
#[test]
fn preempted_group_waits_for_replacement_pods() {
    everywhere(|world| {
        let each = tree!({"group": "g", "total": 2});
        create(world, &each, &["a", "b"]);
        world.settle();
        assert!(world.admit("g", 2));
        world.settle();
        world.kubelet();
        world.tell("g", "Evicted", true, "Preempted", "for somebody");
        world.settle();
        for name in ["a", "b"] {
            let told = &world.pods[name].tree.items_at(&["status", "conditions"])[0];
            assert_eq!(told.str_at(&["type"]), "TerminationTarget");
            assert_eq!(told.str_at(&["reason"]), "WorkloadEvictedDueToPreempted");
        }
        assert!(world.workload("g").has_quota(), "while they run");
        world.kubelet();
        world.settle();
        assert!(!world.workload("g").has_quota());
        assert_eq!(world.condition("g", "WaitingForReplacementPods"), Some((true, "Preempted".into())));
        assert_eq!(world.condition("g", "Requeued"), Some((true, "Preempted".into())));
        assert_eq!(world.condition("g", "Finished"), None);
        assert!(!world.admit("g", 2), "nobody is there");
        create(world, &each, &["c", "d"]);
        world.settle();
        assert!(!world.pods.contains_key("a") && !world.pods.contains_key("b"), "replaced");
        assert!(world.admit("g", 2));
        world.settle();
        assert_eq!(world.open(), ["c", "d"]);
    });
}

/// As in Kueue, a pod that succeeds while its group is evicted counts: one replacement of the failed pod is enough.
#[test]
fn pod_succeeding_during_eviction_needs_no_replacement() {
    everywhere(|world| {
        let each = tree!({"group": "g", "total": 2});
        create(world, &each, &["a", "b"]);
        world.settle();
        assert!(world.admit("g", 2));
        world.settle();
        world.kubelet();
        world.tell("g", "Evicted", true, "Preempted", "for somebody");
        world.settle();
        world.end("a", "Succeeded");
        world.end("b", "Failed");
        world.settle();
        assert!(!world.workload("g").has_quota());
        assert_eq!(world.condition("g", "WaitingForReplacementPods"), Some((true, "Preempted".into())));
        assert_eq!(world.workload("g").reclaimable.values().copied().collect::<Vec<_>>(), [1]);
        create(world, &each, &["c"]);
        world.settle();
        assert!(!world.pods.contains_key("b") && world.is_held("a"), "only the failed one was replaced");
        assert_eq!(world.condition("g", "WaitingForReplacementPods"), Some((false, "PodsReady".into())));
        assert!(world.admit("g", 2));
        world.settle();
        world.kubelet();
        world.end("c", "Succeeded");
        world.settle();
        assert_eq!(world.condition("g", "Finished"), Some((true, "Succeeded".into())));
        let finished = world.workload("g").condition("Finished").map(|it| it.message.clone());
        assert_eq!(finished.as_deref(), Some("Pods succeeded: 2/2."));
    });
}

/// Outcome 6 in the proposal's dialect. Shows: 976-64, 976-65.
#[test]
fn preempted_group_of_equal_pods_is_requeued() {
    everywhere(|world| {
        let each = tree!({"group": "g", "count": 2});
        create(world, &each, &["a", "b"]);
        world.settle();
        assert!(world.admit("g", 2));
        world.settle();
        world.kubelet();
        world.tell("g", "Evicted", true, "Preempted", "for somebody");
        world.settle();
        create(world, &each, &["c"]);
        world.settle();
        assert_eq!(world.open(), ["a", "b"], "who comes early waits");
        world.kubelet();
        world.settle();
        assert!(!world.pods.contains_key("a") && !world.pods.contains_key("b"), "let go once they ended");
        assert!(!world.workload("g").has_quota() && !world.workload("g").is_finished());
        assert!(world.admit("g", 2));
        world.settle();
        assert_eq!(world.open(), ["c"]);
    });
}

/// Outcome 7. Shows: 976-59, 976-60, 976-61, 976-65.
#[test]
fn failed_pod_without_replacement() {
    everywhere(|world| {
        create(world, &tree!({"group": "g", "count": 2}), &["a", "b"]);
        world.settle();
        assert!(world.admit("g", 2));
        world.settle();
        world.kubelet();
        world.end("a", "Failed");
        world.settle();
        assert!(world.is_held("a") && world.workload("g").has_quota());
        world.end("b", "Succeeded");
        world.settle();
        assert_eq!(world.condition("g", "Finished"), Some((true, "Failed".into())));
        assert!(!world.is_held("a") && !world.is_held("b"));
    });
}

/// Outcome 7, with a replacement. Shows: 976-46, 976-57, 976-60, 976-65.
#[test]
fn failed_pod_is_replaced_and_the_group_name_reused() {
    everywhere(|world| {
        let each = tree!({"group": "g", "count": 2});
        create(world, &each, &["a", "b"]);
        world.settle();
        assert!(world.admit("g", 2));
        world.settle();
        world.kubelet();
        world.end("a", "Failed");
        create(world, &each, &["c"]);
        world.settle();
        assert_eq!(world.open(), ["b", "c"], "in the same quota");
        world.kubelet();
        world.end("b", "Succeeded");
        world.settle();
        assert_eq!(world.condition("g", "Finished"), None);
        world.end("c", "Succeeded");
        world.settle();
        assert_eq!(world.condition("g", "Finished"), Some((true, "Failed".into())));
        create(world, &each, &["d"]);
        world.settle();
        assert!(!world.workload("g").is_finished(), "another Workload of the same name");
        assert!(world.is_held("d"));
    });
}

/// Shows: 976-52, 976-54, 976-65.
#[test]
fn stale_cache_never_ungates_a_pod_twice() {
    for each in [tree!({"group": "g", "count": 3}), tree!({"group": "g", "total": 3})] {
        let mut world = World::default();
        create(&mut world, &each, &["a", "b", "c"]);
        world.settle();
        assert!(world.admit("g", 3));
        create(&mut world, &each, &["d", "e"]);
        world.look_once();
        world.stall();
        for _ in 0..20 {
            world.look_once();
            world.check();
        }
        world.catch_up();
        world.settle();
        assert_eq!(world.open().len(), 3, "{each}");
        world.kubelet();
        world.stall();
        world.end("a", "Failed");
        for _ in 0..20 {
            world.look_once();
            world.check();
        }
        world.catch_up();
        create(&mut world, &each, &["f", "h"]);
        world.settle();
        assert_eq!(world.open().len(), 3, "one replacement, and no more: {each}");
    }
}

/// The cache learns of an older pod before it learns of the gate that we opened for a younger one.
///
/// Shows: 976-52, 976-54.
#[test]
fn ungates_count_before_they_are_observed() {
    let mut world = World::default();
    let each = tree!({"group": "g", "count": 1});
    world.now = 10;
    create(&mut world, &each, &["young"]);
    world.settle();
    assert!(world.admit("g", 1));
    let before = world.snapshot();
    world.now = 5;
    create(&mut world, &each, &["old"]);
    let both = world.snapshot();
    world.see(before);
    world.look_once();
    assert_eq!(world.open(), ["young"]);
    world.see(both);
    for _ in 0..5 {
        world.look_once();
        assert_eq!(world.open(), ["young"], "one was admitted, and one is open");
    }
    world.catch_up();
    world.settle();
    assert_eq!(world.open(), ["young"]);
    assert!(!world.pods.contains_key("old"), "it is one too many");
}

#[test]
fn no_state_leaks() {
    let mut world = World::default();
    for round in 0..50 {
        let each = tree!({"group": "g", "count": 2});
        let names: Vec<String> = (0..3).map(|at| format!("p{round}-{at}")).collect();
        create(&mut world, &each, &names.iter().map(String::as_str).collect::<Vec<_>>());
        world.settle();
        world.admit("g", 2);
        world.settle();
        world.kubelet();
        world.delete(&names[round % 3]);
        world.kubelet();
        for name in world.pods.keys().cloned().collect::<Vec<_>>() {
            world.end(&name, "Succeeded");
        }
        world.settle();
        for name in world.pods.keys().cloned().collect::<Vec<_>>() {
            world.delete(&name);
        }
        world.settle();
        assert!(world.pods.is_empty(), "round {round}: {:?}", world.pods.keys());
        assert!(!world.remembers(), "round {round}");
    }
}

#[test]
fn deleted_workload_deletes_its_pods() {
    everywhere(|world| {
        create(world, &tree!({"group": "g", "count": 3}), &["a", "b"]);
        world.settle();
        assert!(world.admit("g", 3));
        world.settle();
        world.kubelet();
        world.end("b", "Succeeded");
        world.settle();
        world.delete_workload("g");
        world.settle();
        assert!(world.workloads.contains_key("g"), "its quota is held while a pod runs");
        world.kubelet();
        world.settle();
        assert!(world.pods.is_empty() && world.workloads.is_empty(), "no pod is stuck");
    });
}
