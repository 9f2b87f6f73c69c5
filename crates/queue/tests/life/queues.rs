//! Table tests of ClusterQueues, LocalQueues, Cohorts and flavors.

use std::collections::BTreeMap;

use muster_api::queue::{
    AdmissionCheckFacts, ClusterQueueFacts, FlavorFacts, FlavorUsage, LocalQueueFacts, QueueStatus,
    amount_text,
};
use muster_api::time::Time;
use muster_queue::reconcilers::cohorts::CohortParents;
use muster_queue::reconcilers::queues::{
    FlavorResourceUsage, QueueAction, QueueCounts, ReadinessLister, StatusTiming, cluster_queue_active,
    cluster_queue_status, reconcile_cluster_queue, reconcile_flavor, reconcile_local_queue,
};
use muster_tree::{Text, Tree, tree};

use super::lines;

/// The objects besides the queue.
struct Objects {
    flavors: BTreeMap<String, FlavorFacts>,
    checks: BTreeMap<String, AdmissionCheckFacts>,
    topologies: Vec<Text>,
    cohorts: CohortParents,
}

impl ReadinessLister for Objects {
    fn flavor(&self, name: &str) -> Option<&FlavorFacts> {
        self.flavors.get(name)
    }

    fn check(&self, name: &str) -> Option<&AdmissionCheckFacts> {
        self.checks.get(name)
    }

    fn has_topology(&self, name: &str) -> bool {
        self.topologies.iter().any(|it| it == name)
    }

    fn cohorts(&self) -> &CohortParents {
        &self.cohorts
    }
}

impl Objects {
    fn of(case: &Tree) -> Objects {
        let map = |key: &'static str| case.entries_at(&["around", key]).iter();
        Objects {
            flavors: map("flavors")
                .map(|(name, it)| {
                    let spec = it.clone();
                    let tree = tree!({"metadata": {"name": name}, "spec": spec});
                    (name.to_string(), FlavorFacts::of(&tree))
                })
                .collect(),
            checks: map("checks")
                .map(|(name, active)| {
                    let status = if active.as_bool() == Some(true) { "True" } else { "False" };
                    let tree = tree!({"metadata": {"name": name},
                        "status": {"conditions": [{"type": "Active", "status": status}]}});
                    (name.to_string(), AdmissionCheckFacts::of(&tree))
                })
                .collect(),
            topologies: case
                .items_at(&["around", "topologies"])
                .iter()
                .filter_map(|it| it.as_text().cloned())
                .collect(),
            cohorts: map("cohorts")
                .map(|(name, up)| (name.clone(), up.as_text().cloned().unwrap_or_default()))
                .collect(),
        }
    }
}

fn counted(case: &Tree) -> QueueCounts {
    let count = |key: &str| case.int_at(&["counted", key]).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let taken = case.entries_at(&["counted", "taken"]).iter().map(|(pair, it)| {
        let (flavor, resource) = pair.split_once('/').expect("flavor/resource");
        let amount = |at: usize| it.items()[at].as_int().expect("an amount");
        (
            (Text::from(flavor), Text::from(resource)),
            FlavorResourceUsage { reserved: amount(0), used: amount(1) },
        )
    });
    QueueCounts {
        usage: taken.collect(),
        pending: count("pending"),
        reserving: count("reserving"),
        admitted: count("admitted"),
        share: case.int_at(&["counted", "share"]),
    }
}

fn usage_line(what: &str, all: &[FlavorUsage]) -> String {
    let one = |it: &FlavorUsage| {
        let resources: Vec<String> = it
            .resources
            .iter()
            .map(|one| {
                let borrowed =
                    one.borrowed.map_or(String::new(), |n| format!("+{}", amount_text(&one.name, n)));
                format!("{}={}{borrowed}", one.name, amount_text(&one.name, one.total))
            })
            .collect();
        format!("{}[{}]", it.name, resources.join(" "))
    };
    format!("{what}: {}", all.iter().map(one).collect::<Vec<_>>().join(" "))
}

fn told(old: &QueueStatus, actions: &[QueueAction]) -> Vec<String> {
    let mut out = Vec::new();
    for action in actions {
        match action {
            QueueAction::AddFinalizer => out.push("add finalizer".to_owned()),
            QueueAction::RemoveFinalizer => out.push("drop finalizer".to_owned()),
            QueueAction::RequeueAt(at) => out.push(format!("again {}", lines::stamp(*at))),
            QueueAction::Write(status) => {
                let words = |it: &muster_api::queue::Condition| {
                    let tree = it.tree();
                    format!(
                        "{}={} {} {} \"{}\"",
                        it.kind,
                        tree.str_at(&["status"]),
                        it.reason,
                        it.since.map(lines::stamp).unwrap_or_default(),
                        it.message
                    )
                };
                out.extend(status.conditions.iter().filter(|it| !old.conditions.contains(it)).map(words));
                if old.reservation != status.reservation {
                    out.push(usage_line("reserved", &status.reservation));
                }
                if old.usage != status.usage {
                    out.push(usage_line("used", &status.usage));
                }
                let counts = |it: &QueueStatus| (it.pending, it.reserving, it.admitted);
                if counts(old) != counts(status) {
                    out.push(format!("counts: {:?}", counts(status)));
                }
                if old.share != status.share {
                    out.push(format!("share: {:?}", status.share));
                }
            }
        }
    }
    out
}

fn moment(case: &Tree) -> StatusTiming {
    StatusTiming {
        last_written_at: case.int_at(&["toldAt"]).map(lines::at),
        now: lines::at(case.int_at(&["at"]).unwrap_or(0)),
    }
}

/// The queue of a case with its `Active` condition in the status, and the actions.
fn play(case: &Tree) -> (Vec<String>, Vec<QueueAction>) {
    let objects = Objects::of(case);
    let old = |tree: &Tree| QueueStatus::of(tree.at(&["status"]).unwrap_or(&Tree::Null));
    let cluster = case.get("cluster").map(ClusterQueueFacts::of);
    let ready = cluster.as_ref().map(|it| cluster_queue_active(it, &objects));
    if let Some(flavor) = case.get("flavor") {
        let used = case.bool_at(&["inUse"]) == Some(true);
        let step: Vec<QueueAction> = reconcile_flavor(&FlavorFacts::of(flavor), used).into_iter().collect();
        return (told(&QueueStatus::default(), &step), step);
    }
    let (before, steps) = match (case.get("local"), &cluster, &ready) {
        (Some(local), _, _) => {
            let facts = LocalQueueFacts::of(local);
            let of = cluster.as_ref().zip(ready.as_ref());
            (old(local), reconcile_local_queue(&facts, &old(local), of, &counted(case), moment(case)))
        }
        (None, Some(cluster), Some(ready)) => {
            let before = old(case.get("cluster").expect("a queue"));
            let steps = reconcile_cluster_queue(cluster, &before, ready, &counted(case), moment(case));
            (before, steps)
        }
        _ => panic!("neither queue nor flavor"),
    };
    (told(&before, &steps), steps)
}

#[test]
fn queue_tables() {
    let all = Tree::parse_yaml(include_str!("queues.yaml")).expect("a table is YAML");
    let mut wrong = Vec::new();
    for case in all.items() {
        let (got, _) = play(case);
        let want = case.str_at(&["want"]).trim_end();
        if got.join("\n") != want {
            let says = case.str_at(&["says"]);
            wrong.push(format!("{says}\n--- want\n{want}\n--- got\n{}\n", got.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(all.items().len() >= 35, "only {} cases", all.items().len());
}

/// A written status is read back unchanged, and nothing is written again.
#[test]
fn converged_queue_is_not_written_again() {
    let all = Tree::parse_yaml(include_str!("queues.yaml")).expect("a table is YAML");
    for case in all.items() {
        let (_, steps) = play(case);
        for status in
            steps.iter().filter_map(|it| if let QueueAction::Write(it) = it { Some(it) } else { None })
        {
            let key = if case.get("local").is_some() { "local" } else { "cluster" };
            let written = case.with(&[key, "status"], status.tree(&Tree::Null));
            assert_eq!(play(&written).0, Vec::<String>::new(), "{}", case.str_at(&["says"]));
        }
    }
}

#[test]
fn cluster_queue_status_gauge() {
    use muster_queue::reconcilers::metrics::ClusterQueueStatus;
    let objects = Objects::of(&Tree::Null);
    let cases = [
        (tree!({"metadata": {"name": "q"}}), ClusterQueueStatus::Active),
        (tree!({"metadata": {"name": "q"}, "spec": {"stopPolicy": "Hold"}}), ClusterQueueStatus::Pending),
        (
            tree!({"metadata": {"name": "q", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ClusterQueueStatus::Terminating,
        ),
    ];
    for (tree, want) in cases {
        let facts = ClusterQueueFacts::of(&tree);
        assert_eq!(cluster_queue_status(&facts, &cluster_queue_active(&facts, &objects)), want);
    }
}

#[test]
fn cohort_share_updates_are_rate_limited() {
    use muster_queue::reconcilers::queues::{CohortAction, reconcile_cohort};
    let told = tree!({"fairSharing": {"weightedShare": 5}});
    let moment =
        |told_at: Option<i64>| StatusTiming { last_written_at: told_at.map(lines::at), now: lines::at(10) };
    let patch = |share: Tree| Some(CohortAction::Patch(tree!({"status": {"fairSharing": share}})));
    for (says, status, share, told_at, want) in [
        ("new", &Tree::Null, Some(5), None, patch(tree!({"weightedShare": 5}))),
        ("the same", &told, Some(5), None, None),
        ("another", &told, Some(6), Some(9), patch(tree!({"weightedShare": 6}))),
        ("another, a moment later", &told, Some(6), Some(10), Some(CohortAction::RequeueAt(lines::at(11)))),
        ("switched off", &told, None, None, patch(Tree::Null)),
        ("never was on", &Tree::Null, None, None, None),
    ] {
        assert_eq!(reconcile_cohort(status, share, moment(told_at)), want, "{says}");
    }
}

/// The CRD rejects a status with more flavors, and then the ClusterQueue would have no status at all.
#[test]
fn status_lists_a_bounded_number_of_flavors() {
    let flavor =
        |n: i64| tree!({"name": (format!("f{n}")), "resources": [{"name": "cpu", "nominalQuota": 1}]});
    let group = |from: i64| tree!({"coveredResources": [(format!("r{from}"))], "flavors": (Tree::list((from..from + 40).map(flavor)))});
    let queue = ClusterQueueFacts::of(
        &tree!({"metadata": {"name": "cq", "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        "spec": {"resourceGroups": (Tree::list([group(0), group(40)]))}}),
    );
    let around = Objects::of(&tree!({}));
    let ready = cluster_queue_active(&queue, &around);
    let local = LocalQueueFacts::of(&tree!({"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}}));
    let none = QueueStatus::default();
    let moment = StatusTiming { last_written_at: None, now: Time(0) };
    let all = reconcile_local_queue(&local, &none, Some((&queue, &ready)), &QueueCounts::default(), moment);
    let [QueueAction::Write(status)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((status.reservation.len(), status.usage.len()), (64, 64));
    assert_eq!(status.usage[63].name, "f63");
}
