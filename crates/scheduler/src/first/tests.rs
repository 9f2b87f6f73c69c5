//! Placement, as tables.

use muster_api::node::simulated;
use muster_tree::{Tree, tree};

use super::*;

fn node(name: &str, change: &Tree) -> NodeFacts {
    let capacity = tree!({"cpu": "4", "memory": "8Gi", "pods": "3", "example.com/gpu": "1"});
    NodeFacts::of(&simulated(&name.into(), &capacity).merge(change))
}

fn pod(name: &str, spec: &Tree) -> Pod {
    let tree = tree!({"metadata": {"namespace": "ns", "name": name}, "spec": spec});
    Pod {
        key: ("ns".into(), name.into()),
        node: Text::new(),
        ended: false,
        wants: true,
        priority: 0,
        created: Time(0),
        demand: Demand::of(&tree),
    }
}

fn asks(requests: Tree) -> Tree {
    tree!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

fn outcomes(scheduler: &mut Scheduler) -> Vec<(String, Result<String, String>)> {
    let words = |decision: Decision| {
        let outcome = match decision.outcome {
            Outcome::Placed(pods) => {
                Ok(pods.into_iter().map(|(_, node)| node.to_string()).collect::<Vec<_>>().join(","))
            }
            Outcome::Refused(refused) => Err(refused.message()),
        };
        (decision.group.1.to_string(), outcome)
    };
    scheduler.decide(100).into_iter().map(words).collect()
}

#[test]
fn where_one_pod_goes() {
    let label = |value: &str| tree!({"metadata": {"labels": {"zone": value}}});
    let taint = tree!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}});
    let soft = tree!({"spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}});
    let cordoned = tree!({"spec": {"unschedulable": true}});
    let affinity = |op: &str, values: Tree| {
        tree!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": op, "values": values}]}]}}}})
    };
    type Case = (&'static str, Vec<Tree>, Tree, Result<&'static str, &'static str>);
    let cases: Vec<Case> = vec![
        ("no nodes at all", vec![], asks(tree!({})), Err("no nodes available to schedule pods")),
        ("equal nodes: by name", vec![tree!({}), tree!({})], asks(tree!({})), Ok("n0")),
        (
            "too big",
            vec![tree!({}), tree!({})],
            asks(tree!({"cpu": "5"})),
            Err("0/2 nodes are available: 2 Insufficient cpu."),
        ),
        (
            "too big twice",
            vec![tree!({})],
            asks(tree!({"cpu": "5", "memory": "9Gi"})),
            Err("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."),
        ),
        (
            "a resource nobody has",
            vec![tree!({})],
            asks(tree!({"x/y": 1})),
            Err("0/1 nodes are available: 1 Insufficient x/y."),
        ),
        ("an extended resource", vec![tree!({})], asks(tree!({"example.com/gpu": 1})), Ok("n0")),
        ("selector", vec![label("a"), label("b")], tree!({"nodeSelector": {"zone": "b"}}), Ok("n1")),
        (
            "selector nobody matches",
            vec![label("a")],
            tree!({"nodeSelector": {"zone": "b"}}),
            Err("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
        ),
        ("affinity In", vec![label("a"), label("b")], affinity("In", tree!(["b", "c"])), Ok("n1")),
        ("affinity NotIn", vec![label("a"), label("b")], affinity("NotIn", tree!(["a"])), Ok("n1")),
        ("affinity Gt", vec![label("1"), label("7")], affinity("Gt", tree!(["3"])), Ok("n1")),
        ("affinity DoesNotExist", vec![label("a"), tree!({})], affinity("DoesNotExist", tree!([])), Ok("n1")),
        ("a soft taint is no obstacle", vec![soft], asks(tree!({})), Ok("n0")),
        (
            "each node has its own reason",
            vec![taint.clone(), cordoned.clone(), tree!({})],
            asks(tree!({"cpu": "5"})),
            Err(
                "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.",
            ),
        ),
        (
            "tolerated taint",
            vec![taint.clone()],
            tree!({"tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]}),
            Ok("n0"),
        ),
        (
            "tolerating everything",
            vec![taint.merge(&cordoned)],
            tree!({"tolerations": [{"operator": "Exists"}]}),
            Ok("n0"),
        ),
        (
            "init containers count for their greediest moment",
            vec![tree!({})],
            tree!({"initContainers": [{"resources": {"requests": {"cpu": "5"}}}], "containers": [{"name": "c"}]}),
            Err("0/1 nodes are available: 1 Insufficient cpu."),
        ),
    ];
    for (says, nodes, spec, want) in cases {
        let mut scheduler = Scheduler::default();
        for (n, change) in nodes.iter().enumerate() {
            scheduler.node(node(&format!("n{n}"), change));
        }
        scheduler.pod(&pod("p", &spec));
        let want = want.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(outcomes(&mut scheduler), [("p".to_owned(), want)], "{says}");
    }
}

#[test]
fn pods_spread_and_a_full_node_is_full() {
    let mut scheduler = Scheduler::default();
    scheduler.node(node("n0", &tree!({})));
    scheduler.node(node("n1", &tree!({})));
    for n in 0..7 {
        scheduler.pod(&pod(&format!("p{n}"), &asks(tree!({"cpu": "100m"}))));
    }
    let found = outcomes(&mut scheduler);
    let on = |node: &str| found.iter().filter(|(_, outcome)| outcome.as_deref() == Ok(node)).count();
    assert_eq!((on("n0"), on("n1")), (3, 3));
    assert_eq!(found[6].1, Err("0/2 nodes are available: 2 Too many pods.".to_owned()));
}

#[test]
fn the_urgent_and_the_old_come_first() {
    let mut scheduler = Scheduler::default();
    scheduler.node(node("n0", &tree!({})));
    for (name, priority, created) in [("late", 0, 9), ("early", 0, 1), ("urgent", 5, 7)] {
        scheduler.pod(&Pod { priority, created: Time(created), ..pod(name, &asks(tree!({}))) });
    }
    let order: Vec<String> = outcomes(&mut scheduler).into_iter().map(|(name, _)| name).collect();
    assert_eq!(order, ["urgent", "early", "late"]);
}

#[test]
fn a_refused_pod_waits_for_a_change_that_may_help() {
    let mut scheduler = Scheduler::default();
    scheduler.node(node("n0", &tree!({})));
    let big = |name: &str| pod(name, &asks(tree!({"cpu": "3"})));
    scheduler.pod(&big("a"));
    scheduler.pod(&big("b"));
    assert_eq!(outcomes(&mut scheduler).len(), 2);
    assert!(!scheduler.has_waiting(), "b is parked");
    scheduler.pod(&big("b"));
    scheduler.node(node("n0", &tree!({})));
    assert!(!scheduler.has_waiting(), "nothing that helps has changed");
    scheduler.pod(&Pod { node: "n0".into(), ended: true, ..big("a") });
    assert_eq!(outcomes(&mut scheduler), [("b".to_owned(), Ok("n0".to_owned()))], "a has ended");
}

#[test]
fn what_is_assumed_is_taken_until_it_is_given_back() {
    let mut scheduler = Scheduler::default();
    scheduler.node(node("n0", &tree!({})));
    let gpu = |name: &str| pod(name, &asks(tree!({"example.com/gpu": 1})));
    scheduler.pod(&gpu("a"));
    outcomes(&mut scheduler);
    scheduler.pod(&gpu("b"));
    assert!(outcomes(&mut scheduler)[0].1.is_err());
    scheduler.pod(&Pod { node: "n0".into(), ..gpu("a") });
    assert_eq!(scheduler.node_of(&gpu("a").key), Some(&"n0".into()), "assumed, then bound: taken once");
    scheduler.pod_gone(&gpu("a").key);
    assert_eq!(outcomes(&mut scheduler)[0].1, Ok("n0".to_owned()));
    scheduler.retry(&gpu("b").key);
    assert_eq!(outcomes(&mut scheduler)[0].1, Ok("n0".to_owned()), "a failed binding is decided again");
    scheduler.node_gone(&"n0".into());
    assert!(outcomes(&mut scheduler)[0].1.is_err(), "its node is gone");
}

#[test]
fn pods_are_charged_to_nodes_that_come_later() {
    let mut scheduler = Scheduler::default();
    scheduler.pod(&Pod { node: "n0".into(), ..pod("a", &asks(tree!({"cpu": "3"}))) });
    scheduler.node(node("n0", &tree!({})));
    scheduler.pod(&pod("b", &asks(tree!({"cpu": "3"}))));
    assert!(outcomes(&mut scheduler)[0].1.is_err());
    scheduler.node(node("n0", &tree!({"metadata": {"labels": {"x": "y"}}})));
    assert!(outcomes(&mut scheduler)[0].1.is_err(), "a changed node keeps its pods");
}
