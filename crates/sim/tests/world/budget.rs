//! Write budgets: the number of requests and writes of a Job from creation to completion.
//!
//! A pod takes five writes: create, binding, running, terminated, and removal of the tracking finalizer once it is in
//! `uncountedTerminatedPods`. It has two Events, `SuccessfulCreate` and `Scheduled`. In addition to its creation a Job takes
//! four status updates: pods created, pods ready, pods terminated (uncounted, with `SuccessCriteriaMet`), and the final
//! counts with the terminal condition.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::RequestVerb;
use muster_api::gang::EnabledMarkers;
use muster_api::kinds;
use muster_node::control_plane::ControllerOptions;
use muster_sim::{Faults, RequestCounts, World, heartbeat};
use muster_tree::{Text, Tree, tree};

use crate::gangs;
use crate::scenario::{job_facts, minutes};
use crate::worlds::job;

/// Seeds: the order of events must not matter.
const SEEDS: [u64; 4] = [1, 2, 3, 4];

/// One Job and what it takes.
struct Case {
    says: &'static str,
    spec: Tree,
    /// How each pod runs.
    runs: Tree,
    /// Writes of the Job and of its pods.
    writes: (u64, u64),
    /// Calls of the Job controller: creates of pods, writes of status, finalizers taken off.
    job: (u64, u64, u64),
    /// Events of the Job controller: new ones, and those that say that an old one happened again.
    notes: (u64, u64),
}

impl Case {
    /// All requests by field manager.
    fn calls(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let ((pods, statuses, releases), (new, again)) = (self.job, self.notes);
        let all = [
            (("job-controller", "create pods"), pods),
            (("job-controller", "patch jobs/status"), statuses),
            (("job-controller", "patch pods"), releases),
            (("job-controller", "create events"), new),
            (("job-controller", "patch events"), again),
            (("default-scheduler", "create pods/binding"), pods),
            (("default-scheduler", "create events"), pods),
            // It runs, it has ended.
            (("kubelet", "patch pods/status"), 2 * pods),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

fn cases() -> Vec<Case> {
    let runs = tree!({"muster.dev/sim-run-seconds": "5"});
    let fails = tree!({"muster.dev/sim-run-seconds": "5", "muster.dev/sim-exit-code": "1"});
    vec![
        Case {
            says: "one pod",
            spec: tree!({}),
            runs: runs.clone(),
            writes: (1 + 4, 5),
            job: (1, 4, 1),
            // SuccessfulCreate, Completed.
            notes: (2, 0),
        },
        Case {
            says: "twenty pods at once take no more writes of the Job than one",
            spec: tree!({"completions": 20, "parallelism": 20}),
            runs: runs.clone(),
            writes: (1 + 4, 20 * 5),
            job: (20, 4, 20),
            // The first nine creations by themselves, the others in one Event that is counted up; Completed.
            notes: (11, 10),
        },
        Case {
            says: "twenty indexes neither",
            spec: tree!({"completions": 20, "parallelism": 20, "completionMode": "Indexed"}),
            runs,
            writes: (1 + 4, 20 * 5),
            job: (20, 4, 20),
            notes: (11, 10),
        },
        Case {
            says: "a failure that ends the Job",
            spec: tree!({"backoffLimit": 0}),
            runs: fails.clone(),
            writes: (1 + 4, 5),
            job: (1, 4, 1),
            notes: (2, 0),
        },
        Case {
            says: "a replaced failure takes four more writes: uncounted, counted, created, ready",
            spec: tree!({"backoffLimit": 1}),
            runs: fails,
            writes: (1 + 4 + 4, 2 * 5),
            job: (2, 8, 2),
            notes: (3, 0),
        },
        Case {
            says: "a suspended Job writes its condition only",
            spec: tree!({"suspend": true, "completions": 20, "parallelism": 20}),
            runs: tree!({}),
            writes: (1 + 1, 0),
            job: (0, 1, 0),
            notes: (1, 0),
        },
    ]
}

/// What there is to count about a Job on two nodes that were there before it.
fn lived(seed: u64, case: &Case) -> (BTreeMap<Text, u64>, RequestCounts) {
    let mut world = World::new(seed, 2);
    world.run(Faults::none(), Duration::from_secs(30));
    world.writes();
    world.requests();
    world.create(&kinds::JOBS, &job("j", &case.spec, &case.runs)).unwrap();
    world.run(Faults::none(), minutes(5));
    let (mut writes, mut calls) = (world.writes(), world.requests());
    writes.remove(&heartbeat());
    calls.retain(|(_, what), _| !what.ends_with(" leases"));
    (writes, calls)
}

#[test]
fn jobs_take_exactly_so_many_calls_and_writes() {
    for case in cases() {
        for seed in SEEDS {
            let (mut writes, calls) = lived(seed, &case);
            let told = format!("{}, seed {seed}: {writes:?} {calls:#?}", case.says);
            let calls: BTreeMap<_, _> = calls.iter().map(|((by, what), n)| ((&**by, &**what), *n)).collect();
            assert_eq!(calls, case.calls(), "{told}");
            let mut taken = |resource: &str| writes.remove(resource).unwrap_or(0);
            assert_eq!((taken("jobs.batch"), taken("pods")), case.writes, "{told}");
            let notes = calls.iter().filter(|((_, what), _)| what.ends_with(" events")).map(|(_, n)| n);
            assert_eq!(taken("events"), notes.sum::<u64>(), "{told}");
            assert!(writes.is_empty(), "nothing else is written: {told}");
        }
    }
}

/// Everything that was written and called, leases apart.
fn counted(world: &mut World) -> (BTreeMap<Text, u64>, RequestCounts) {
    let (mut writes, mut calls) = (world.writes(), world.requests());
    writes.remove(&heartbeat());
    calls.retain(|(_, what), _| !what.ends_with(" leases"));
    (writes, calls)
}

/// Shows: 5832-09, 5832-10, 5832-27, 5832-28, 5832-67.
#[test]
fn a_gang_takes_one_extra_write_and_another_while_pending() {
    for seed in SEEDS {
        let mut world = World::new(seed, 3);
        world.run(Faults::none(), Duration::from_secs(30));
        counted(&mut world);
        world.create(&kinds::WORKLOADS, &gangs::workload("w", 10)).unwrap();
        world.create(&kinds::POD_GROUPS, &gangs::group("g", "w")).unwrap();
        let mut next = 0..20;
        let mut come = |world: &mut World, count: usize| {
            for n in next.by_ref().take(count) {
                let pod = gangs::member(&format!("p{n:02}"), "w", "g", 5);
                let light = pod.without(&["spec", "containers"]).merge(
                    &tree!({"spec": {"containers": [{"name": "c", "image": "i", "command": ["true"]}]}}),
                );
                world.create(&kinds::PODS, &light).unwrap();
            }
        };
        come(&mut world, 10);
        world.run(Faults::none(), minutes(5));
        let (writes, calls) = counted(&mut world);
        let told = format!("seed {seed}: {writes:?} {calls:#?}");
        let calls: BTreeMap<_, _> = calls.iter().map(|((by, what), n)| ((&**by, &**what), *n)).collect();
        // Each pod: create, binding, running, terminated. The group: create and one status update when it is scheduled.
        let want = BTreeMap::from([
            (("default-scheduler", "create events"), 10),
            (("default-scheduler", "create pods/binding"), 10),
            (("default-scheduler", "patch podgroups/status"), 1),
            (("kubelet", "patch pods/status"), 20),
        ]);
        assert_eq!(calls, want, "{told}");
        let of = |writes: &BTreeMap<Text, u64>, resource: &str| writes.get(resource).copied().unwrap_or(0);
        let (group, workload) = ("podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io");
        assert_eq!((of(&writes, group), of(&writes, workload), of(&writes, "pods")), (2, 1, 40), "{told}");
        // The first pods finished: five more are too few, and their condition is written once; with the others they suffice.
        come(&mut world, 5);
        world.run(Faults::none(), minutes(1));
        let (writes, _) = counted(&mut world);
        assert_eq!(
            (of(&writes, group), of(&writes, "pods"), of(&writes, "events")),
            (0, 10, 0),
            "{writes:?}"
        );
        come(&mut world, 5);
        world.run(Faults::none(), minutes(5));
        let (writes, _) = counted(&mut world);
        assert_eq!((of(&writes, group), of(&writes, workload)), (1, 0), "only the count: {writes:?}");
        assert_eq!((of(&writes, "pods"), of(&writes, "events")), (5 + 10 * 3, 10), "{writes:?}");
    }
}

/// A Workload is written once, by its creator, independent of the number of its groups.
///
/// Shows: 5832-09, 5832-10.
#[test]
fn a_thousand_groups_leave_their_workload_alone() {
    const GROUPS: u64 = 1_000;
    let mut world = World::new(1, 12);
    world.run(Faults::none(), Duration::from_secs(30));
    counted(&mut world);
    let made = world.create(&kinds::WORKLOADS, &gangs::workload("w", 1)).unwrap();
    for n in 0..GROUPS {
        let name = format!("g{n:04}");
        world.create(&kinds::POD_GROUPS, &gangs::group(&name, "w")).unwrap();
        world.create(&kinds::PODS, &gangs::member(&name, "w", &name, 5)).unwrap();
    }
    world.run(Faults::none(), minutes(30));
    let (writes, _) = counted(&mut world);
    assert_eq!(writes["workloads.scheduling.k8s.io"], 1, "{writes:?}");
    // Each group: create, a status update while it is unschedulable or partly bound, and one when it is scheduled.
    assert!(writes["podgroups.scheduling.k8s.io"] >= 2 * GROUPS, "all were told: {writes:?}");
    let now = world.list(&kinds::WORKLOADS);
    assert_eq!(now.first().map(|it| it.revision), Some(made.revision), "the very same revision");
}

/// Where no pod is in a group, gangs cost nothing: the very same records, one by one, with them and without.
///
/// Shows: 5832-68.
#[test]
fn without_groups_nothing_is_done_for_gangs() {
    for seed in SEEDS {
        let lived = |told: ControllerOptions| {
            let mut world = World::with_settings(seed, 3, told);
            for (n, case) in cases().into_iter().enumerate() {
                world.create(&kinds::JOBS, &job(&format!("j{n}"), &case.spec, &case.runs)).unwrap();
            }
            world.run(Faults::none(), minutes(5));
            (world.hash(), world.requests())
        };
        let (with, calls) = lived(ControllerOptions::default());
        let (without, same) = lived(ControllerOptions {
            reads: EnabledMarkers::NONE,
            gangs: None,
            ..ControllerOptions::default()
        });
        assert_eq!(calls, same, "seed {seed}");
        assert_eq!(with, without, "seed {seed}: the same calls leave other records");
    }
}

#[test]
fn a_large_job_does_not_wait_between_its_batches() {
    let mut world = World::new(1, 12);
    world.run(Faults::none(), Duration::from_secs(30));
    let spec = tree!({"completions": 1200, "parallelism": 1200});
    let long = tree!({"muster.dev/sim-run-seconds": "600"});
    let made = world.create(&kinds::JOBS, &job("large", &spec, &long)).unwrap();
    world.run(Faults::none(), Duration::from_millis(100));
    assert_eq!(world.list(&kinds::PODS).len(), 1200, "all are made though few are made in one go");
    world
        .send(&kinds::JOBS, &made.tree, RequestVerb::MergePatch(tree!({"spec": {"suspend": true}})))
        .unwrap();
    world.run(Faults::none(), Duration::from_millis(100));
    assert_eq!(world.list(&kinds::PODS).len(), 0, "and all are taken away");
    assert_eq!(job_facts(&world, "large").status.failed, 0);
}

#[test]
fn a_quiet_plane_writes_nothing_but_leases() {
    let mut world = World::new(1, 3);
    let spec = tree!({"completions": 4, "parallelism": 2});
    world.create(&kinds::JOBS, &job("done", &spec, &tree!({}))).unwrap();
    world.create(&kinds::JOBS, &job("waits", &tree!({"suspend": true}), &tree!({}))).unwrap();
    let long = tree!({"muster.dev/sim-run-seconds": "86400"});
    world.create(&kinds::JOBS, &job("runs", &spec, &long)).unwrap();
    let greedy = tree!({"template": {"spec": {"containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1000"}}}]}}});
    world.create(&kinds::JOBS, &job("fits-nowhere", &greedy, &tree!({}))).unwrap();
    world.run(Faults::none(), minutes(10));
    world.writes();
    world.requests();
    world.run(Faults::none(), minutes(60));
    // Three nodes, a lease every 9.9 seconds.
    let renewals = 3 * 60 * 60 * 10 / 99;
    let writes = world.writes();
    assert_eq!(writes.keys().collect::<Vec<_>>(), [&heartbeat()], "{writes:?}");
    assert!(writes[&heartbeat()].abs_diff(renewals) <= 3, "{writes:?}");
    let calls = world.requests();
    assert!(calls.keys().all(|(_, what)| what == "patch leases"), "nothing is asked either: {calls:?}");
}
