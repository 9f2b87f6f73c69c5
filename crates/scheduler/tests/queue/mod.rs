//! The scheduling queue: order, queueing hints, backoff and nominations.

use muster_api::time::Time;
use muster_scheduler::{Pod, PodKey, Scheduler, SchedulingOutcome};
use muster_tree::{Text, Tree, tree};

use crate::build::{node, on, pod};
use crate::storage;

const NOW: Time = Time(1_000_000);

fn key(name: &str) -> PodKey {
    ("ns".into(), name.into())
}

fn asks(name: &str, cpu: &str) -> Pod {
    pod(name, &tree!({"asks": {"cpu": cpu}}), 1)
}

fn with_nodes(names: &[&str]) -> Scheduler {
    let mut scheduler = Scheduler::default();
    names.iter().for_each(|name| scheduler.update_node(node(name, &tree!({}))));
    scheduler
}

/// `pod→node` for the placed, `pod` for the refused.
fn decide(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut words = Vec::new();
    for decision in scheduler.schedule(100, now) {
        match decision.outcome {
            SchedulingOutcome::Scheduled(pods) => {
                words.extend(pods.iter().map(|((_, pod), node)| format!("{pod}→{node}")));
            }
            SchedulingOutcome::Unschedulable { .. } => words.push(decision.group.1.to_string()),
            SchedulingOutcome::Group(_) => panic!("no groups here"),
        }
    }
    words
}

fn evicted(scheduler: &mut Scheduler) -> Vec<PodKey> {
    let decisions = scheduler.schedule(1, NOW);
    let Some(SchedulingOutcome::Unschedulable { victims: evict, .. }) =
        decisions.into_iter().next().map(|it| it.outcome)
    else {
        panic!("nothing was refused")
    };
    evict
}

#[test]
fn the_urgent_and_the_old_come_first() {
    let mut scheduler = with_nodes(&["a"]);
    for (name, priority, second) in [("late", 0, 9), ("early", 0, 1), ("urgent", 5, 7), ("also-early", 0, 1)]
    {
        scheduler.update_pod(&pod(name, &tree!({"priority": priority}), second));
    }
    assert_eq!(decide(&mut scheduler, NOW), ["urgent→a", "early→a", "also-early→a", "late→a"]);
}

#[test]
fn an_unschedulable_pod_is_requeued_by_a_matching_event() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.update_pod(&asks("a", "3"));
    scheduler.update_pod(&asks("b", "3"));
    assert_eq!(decide(&mut scheduler, NOW), ["a→a", "b"]);
    assert!(!scheduler.has_pending() && scheduler.requeue_at().is_none(), "nobody polls");
    scheduler.update_pod(&asks("b", "3"));
    scheduler.update_node(node("a", &tree!({})));
    assert!(!scheduler.has_pending(), "nothing that helps has changed");
    scheduler.update_pod(&on(asks("c", "1"), "a"));
    scheduler.delete_pod(&key("c"));
    assert!(!scheduler.has_pending(), "too little was freed");
    scheduler.update_pod(&Pod { terminal: true, ..on(asks("a", "3"), "a") });
    assert_eq!(decide(&mut scheduler, NOW), ["b→a"], "a has ended");
}

#[test]
fn what_may_cure_a_refusal() {
    type Event = fn(&mut Scheduler);
    let zone = |value: &str| tree!({"labels": {"zone": value}});
    let cases: Vec<(&str, Tree, Tree, Event, bool)> = vec![
        (
            "a taint goes",
            tree!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
            tree!({}),
            |s| s.update_node(node("a", &tree!({}))),
            true,
        ),
        (
            "another taint comes",
            tree!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
            tree!({}),
            |s| {
                s.update_node(node("a", &tree!({"taints": [{"key": "l", "effect": "NoSchedule"}]})));
            },
            false,
        ),
        (
            "the cordon ends",
            tree!({"unschedulable": true}),
            tree!({}),
            |s| s.update_node(node("a", &tree!({}))),
            true,
        ),
        (
            "the label comes",
            tree!({}),
            tree!({"spec": {"nodeSelector": {"zone": "x"}}}),
            |s| s.update_node(node("a", &tree!({"labels": {"zone": "x"}}))),
            true,
        ),
        (
            "another label comes",
            tree!({}),
            tree!({"spec": {"nodeSelector": {"zone": "x"}}}),
            |s| s.update_node(node("a", &tree!({"labels": {"zone": "y"}}))),
            false,
        ),
        (
            "the node grows",
            tree!({}),
            tree!({"asks": {"cpu": "5"}}),
            |s| s.update_node(node("a", &tree!({"has": {"cpu": "6"}}))),
            true,
        ),
        (
            "the node grows too little",
            tree!({}),
            tree!({"asks": {"cpu": "7"}}),
            |s| s.update_node(node("a", &tree!({"has": {"cpu": "6"}}))),
            false,
        ),
        (
            "a node comes",
            tree!({"unschedulable": true}),
            tree!({}),
            |s| s.update_node(node("b", &tree!({}))),
            true,
        ),
        (
            "a pod to be near to comes",
            zone("x"),
            tree!({"near": [{"key": "zone", "app": "db"}]}),
            |s| {
                s.update_pod(&on(pod("db", &tree!({"labels": {"app": "db"}}), 0), "a"));
            },
            true,
        ),
        (
            "a pod of no interest comes",
            zone("x"),
            tree!({"near": [{"key": "zone", "app": "db"}], "asks": {"cpu": "1"}}),
            |s| {
                s.update_pod(&on(pod("web", &tree!({"labels": {"app": "web"}}), 0), "b"));
            },
            false,
        ),
    ];
    for (says, before, wish, event, woken) in cases {
        let mut scheduler = Scheduler::default();
        scheduler.update_node(node("a", &before));
        scheduler.update_pod(&pod("p", &wish, 1));
        assert_eq!(decide(&mut scheduler, NOW), ["p"], "{says}: refused first");
        event(&mut scheduler);
        assert_eq!(scheduler.has_pending(), woken, "{says}");
    }
}

#[test]
fn a_fit_error_is_not_reused_for_another_pod() {
    let mut scheduler = with_nodes(&["a"]);
    let guard = tree!({"far": [{"key": "kubernetes.io/hostname", "app": "x"}]});
    scheduler.update_pod(&on(pod("guard", &guard, 1), "a"));
    scheduler.update_pod(&pod("unwanted", &tree!({"labels": {"app": "x"}}), 2));
    assert_eq!(decide(&mut scheduler, NOW), ["unwanted"]);
    scheduler.delete_pod(&key("unwanted"));
    scheduler.update_pod(&pod("welcome", &tree!({"labels": {"app": "y"}}), 3));
    assert_eq!(decide(&mut scheduler, NOW), ["welcome→a"]);
}

#[test]
fn greed_beyond_all_measure_is_refused_and_never_overflows() {
    let mut scheduler = with_nodes(&["a"]);
    for name in ["b", "c", "d"] {
        scheduler.update_pod(&on(pod(name, &tree!({"asks": {"memory": "7Ei", "cpu": "7E"}}), 1), "a"));
    }
    scheduler.update_pod(&asks("e", "1"));
    assert_eq!(decide(&mut scheduler, NOW), ["e"]);
    ["b", "c", "d"].iter().for_each(|name| scheduler.delete_pod(&key(name)));
    assert_eq!(decide(&mut scheduler, NOW), ["e→a"]);
}

#[test]
fn only_as_many_pods_are_requeued_as_fit() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.update_pod(&on(asks("big", "4"), "a"));
    for n in 0..10 {
        scheduler.update_pod(&asks(&format!("p{n}"), "2"));
    }
    assert_eq!(decide(&mut scheduler, NOW).len(), 10);
    scheduler.delete_pod(&key("big"));
    scheduler.delete_pod(&key("p0"));
    assert_eq!(decide(&mut scheduler, NOW), ["p1→a", "p2→a"], "p2 is woken in p0's stead");
}

#[test]
fn pods_with_volumes_are_requeued_when_resources_are_freed() {
    let mut scheduler = with_nodes(&["a"]);
    let storage = tree!({"storage": {"classes": {"late": {}}, "volumes": {"v": {"for": "c", "phase": "Bound"}},
        "claims": {"c": {"volume": "v", "phase": "Bound"}}}});
    storage::feed(&mut scheduler, &storage);
    scheduler.update_pod(&on(asks("big", "4"), "a"));
    scheduler.update_pod(&pod("lost", &tree!({"asks": {"cpu": "2"}, "mounts": ["nowhere"]}), 0));
    for n in 0..10 {
        scheduler.update_pod(&pod(&format!("p{n}"), &tree!({"asks": {"cpu": "2"}, "mounts": ["c"]}), 1));
    }
    assert_eq!(decide(&mut scheduler, NOW).len(), 11);
    scheduler.delete_pod(&key("big"));
    assert_eq!(
        decide(&mut scheduler, NOW),
        ["p0→a", "p1→a"],
        "two find room, whoever lacks a claim sleeps on"
    );
}

#[test]
fn the_freshly_refused_stand_back_but_never_idle() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.update_pod(&on(asks("big", "4"), "a"));
    scheduler.update_pod(&pod("old", &tree!({"asks": {"cpu": "2"}}), 1));
    assert_eq!(decide(&mut scheduler, NOW), ["old"]);
    scheduler.delete_pod(&key("big"));
    scheduler.update_pod(&pod("new", &tree!({"asks": {"cpu": "2"}}), 5));
    assert_eq!(decide(&mut scheduler, NOW), ["new→a", "old→a"], "one that was not refused goes first");
}

#[test]
fn what_is_assumed_is_taken_until_it_is_given_back() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.update_pod(&asks("a", "3"));
    decide(&mut scheduler, NOW);
    scheduler.update_pod(&asks("b", "3"));
    assert_eq!(decide(&mut scheduler, NOW), ["b"]);
    scheduler.update_pod(&on(asks("a", "3"), "a"));
    assert_eq!(scheduler.node_of(&key("a")), Some(&"a".into()), "assumed, then bound: taken once");
    scheduler.delete_pod(&key("a"));
    assert_eq!(decide(&mut scheduler, NOW), ["b→a"]);
    scheduler.binding_failed(&key("b"), NOW);
    assert_eq!(decide(&mut scheduler, NOW), Vec::<String>::new(), "a failed binding is tried again, later");
    let at = scheduler.requeue_at().expect("there is a time for it");
    assert_eq!(decide(&mut scheduler, at), ["b→a"]);
    let mut now = at;
    let mut wait = || {
        scheduler.binding_failed(&key("b"), now);
        let before = std::mem::replace(&mut now, scheduler.requeue_at().expect("there is a time for it"));
        assert_eq!(decide(&mut scheduler, now), ["b→a"]);
        now.0 - before.0
    };
    assert!(wait() < wait(), "each time it waits longer");
    scheduler.delete_node(&"a".into());
    assert_eq!(decide(&mut scheduler, at), ["b"], "its node is gone");
}

#[test]
fn pods_are_charged_to_nodes_that_come_later() {
    let mut scheduler = Scheduler::default();
    scheduler.update_pod(&on(asks("a", "3"), "a"));
    scheduler.update_node(node("a", &tree!({})));
    scheduler.update_pod(&asks("b", "3"));
    assert_eq!(decide(&mut scheduler, NOW), ["b"]);
    scheduler.update_node(node("a", &tree!({"labels": {"x": "y"}})));
    assert_eq!(decide(&mut scheduler, NOW), Vec::<String>::new(), "a changed node keeps its pods");
    scheduler.delete_node(&"a".into());
    scheduler.update_node(node("a", &tree!({})));
    assert_eq!(decide(&mut scheduler, NOW), Vec::<String>::new(), "as does one that comes back");
}

#[test]
fn gated_and_foreign_pods_are_left_alone() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.update_pod(&pod("gated", &tree!({"spec": {"schedulingGates": [{"name": "g"}]}}), 1));
    scheduler.update_pod(&pod("foreign", &tree!({"spec": {"schedulerName": "other"}}), 1));
    assert!(!scheduler.has_pending());
    scheduler.update_pod(&pod("gated", &tree!({}), 1));
    assert_eq!(decide(&mut scheduler, NOW), ["gated→a"]);
}

#[test]
fn resources_of_a_nominated_node_are_reserved() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.update_pod(&on(asks("victim", "4"), "a"));
    let urgent = pod("urgent", &tree!({"asks": {"cpu": "4"}, "priority": 9}), 1);
    scheduler.update_pod(&urgent);
    assert_eq!(evicted(&mut scheduler), [key("victim")]);
    assert_eq!(scheduler.nominated(&key("urgent")), Some(&Text::from("a")));
    scheduler.update_pod(&asks("sneaky", "1"));
    scheduler.delete_pod(&key("victim"));
    assert_eq!(decide(&mut scheduler, NOW), ["sneaky", "urgent→a"], "the room is urgent's");
    assert_eq!(scheduler.nominated(&key("urgent")), None);
}

#[test]
fn no_second_victim_while_the_first_one_terminates() {
    let mut scheduler = with_nodes(&["a", "b"]);
    scheduler.update_pod(&on(asks("one", "4"), "a"));
    scheduler.update_pod(&on(pod("two", &tree!({"asks": {"cpu": "4"}, "priority": 3}), 0), "b"));
    scheduler.update_pod(&pod("urgent", &tree!({"asks": {"cpu": "4"}, "priority": 9}), 1));
    assert_eq!(evicted(&mut scheduler), [key("one")]);
    scheduler.update_pod(&pod("urgent", &tree!({"asks": {"cpu": "3"}, "priority": 9}), 1));
    assert_eq!(evicted(&mut scheduler), [], "the first victim is still on its way out");
    scheduler.eviction_failed(&key("one"), NOW);
    let later = scheduler.requeue_at().expect("whoever waits for the room is looked at again");
    let decisions = scheduler.schedule(9, later);
    assert!(
        matches!(&decisions[0].outcome, SchedulingOutcome::Unschedulable { victims, .. } if *victims == [key("one")]),
        "{decisions:?}"
    );
    scheduler.eviction_failed(&key("one"), later);
    scheduler.update_pod(&pod("urgent", &tree!({"asks": {"cpu": "2"}, "priority": 9}), 1));
    assert_eq!(evicted(&mut scheduler), [key("one")], "it was not evicted after all");
}

#[test]
fn a_higher_priority_pod_takes_over_the_nomination() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.update_pod(&on(asks("victim", "4"), "a"));
    scheduler.update_pod(&pod("urgent", &tree!({"asks": {"cpu": "4"}, "priority": 5}), 1));
    evicted(&mut scheduler);
    scheduler.update_pod(&pod("most-urgent", &tree!({"asks": {"cpu": "4"}, "priority": 9}), 1));
    let decisions = scheduler.schedule(1, NOW);
    let SchedulingOutcome::Unschedulable { nominations_cleared: outranked, nominated, .. } =
        &decisions[0].outcome
    else {
        panic!("no room yet")
    };
    assert_eq!((outranked.as_slice(), nominated.as_deref()), ([key("urgent")].as_slice(), Some("a")));
    assert_eq!(scheduler.nominated(&key("urgent")), None);
}

#[test]
fn a_nomination_in_the_status_counts() {
    let mut scheduler = with_nodes(&["a", "b"]);
    scheduler.update_pod(&Pod { nominated: "b".into(), ..asks("p", "1") });
    assert_eq!(decide(&mut scheduler, NOW), ["p→b"]);
}
