//! The life of the queue: who is next, who is woken by what, what happens to nominations.

use muster_api::time::Time;
use muster_scheduler::{Outcome, Pod, PodKey, Scheduler};
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
    names.iter().for_each(|name| scheduler.node(node(name, &tree!({}))));
    scheduler
}

/// `pod→node` for the placed, `pod` for the refused.
fn decide(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut words = Vec::new();
    for decision in scheduler.decide(100, now) {
        match decision.outcome {
            Outcome::Placed(pods) => {
                words.extend(pods.iter().map(|((_, pod), node)| format!("{pod}→{node}")));
            }
            Outcome::Refused { .. } => words.push(decision.group.1.to_string()),
            Outcome::Group(_) => panic!("no groups here"),
        }
    }
    words
}

fn evicted(scheduler: &mut Scheduler) -> Vec<PodKey> {
    let decisions = scheduler.decide(1, NOW);
    let Some(Outcome::Refused { evict, .. }) = decisions.into_iter().next().map(|it| it.outcome) else {
        panic!("nothing was refused")
    };
    evict
}

#[test]
fn the_urgent_and_the_old_come_first() {
    let mut scheduler = with_nodes(&["a"]);
    for (name, priority, second) in [("late", 0, 9), ("early", 0, 1), ("urgent", 5, 7), ("also-early", 0, 1)]
    {
        scheduler.pod(&pod(name, &tree!({"priority": priority}), second));
    }
    assert_eq!(decide(&mut scheduler, NOW), ["urgent→a", "early→a", "also-early→a", "late→a"]);
}

#[test]
fn a_refused_pod_waits_for_a_change_that_may_help() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.pod(&asks("a", "3"));
    scheduler.pod(&asks("b", "3"));
    assert_eq!(decide(&mut scheduler, NOW), ["a→a", "b"]);
    assert!(!scheduler.has_waiting() && scheduler.wake_at().is_none(), "nobody polls");
    scheduler.pod(&asks("b", "3"));
    scheduler.node(node("a", &tree!({})));
    assert!(!scheduler.has_waiting(), "nothing that helps has changed");
    scheduler.pod(&on(asks("c", "1"), "a"));
    scheduler.pod_gone(&key("c"));
    assert!(!scheduler.has_waiting(), "too little was freed");
    scheduler.pod(&Pod { ended: true, ..on(asks("a", "3"), "a") });
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
            |s| s.node(node("a", &tree!({}))),
            true,
        ),
        (
            "another taint comes",
            tree!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
            tree!({}),
            |s| {
                s.node(node("a", &tree!({"taints": [{"key": "l", "effect": "NoSchedule"}]})));
            },
            false,
        ),
        (
            "the cordon ends",
            tree!({"unschedulable": true}),
            tree!({}),
            |s| s.node(node("a", &tree!({}))),
            true,
        ),
        (
            "the label comes",
            tree!({}),
            tree!({"spec": {"nodeSelector": {"zone": "x"}}}),
            |s| s.node(node("a", &tree!({"labels": {"zone": "x"}}))),
            true,
        ),
        (
            "another label comes",
            tree!({}),
            tree!({"spec": {"nodeSelector": {"zone": "x"}}}),
            |s| s.node(node("a", &tree!({"labels": {"zone": "y"}}))),
            false,
        ),
        (
            "the node grows",
            tree!({}),
            tree!({"asks": {"cpu": "5"}}),
            |s| s.node(node("a", &tree!({"has": {"cpu": "6"}}))),
            true,
        ),
        (
            "the node grows too little",
            tree!({}),
            tree!({"asks": {"cpu": "7"}}),
            |s| s.node(node("a", &tree!({"has": {"cpu": "6"}}))),
            false,
        ),
        ("a node comes", tree!({"unschedulable": true}), tree!({}), |s| s.node(node("b", &tree!({}))), true),
        (
            "a pod to be near to comes",
            zone("x"),
            tree!({"near": [{"key": "zone", "app": "db"}]}),
            |s| {
                s.pod(&on(pod("db", &tree!({"labels": {"app": "db"}}), 0), "a"));
            },
            true,
        ),
        (
            "a pod of no interest comes",
            zone("x"),
            tree!({"near": [{"key": "zone", "app": "db"}], "asks": {"cpu": "1"}}),
            |s| {
                s.pod(&on(pod("web", &tree!({"labels": {"app": "web"}}), 0), "b"));
            },
            false,
        ),
    ];
    for (says, before, wish, event, woken) in cases {
        let mut scheduler = Scheduler::default();
        scheduler.node(node("a", &before));
        scheduler.pod(&pod("p", &wish, 1));
        assert_eq!(decide(&mut scheduler, NOW), ["p"], "{says}: refused first");
        event(&mut scheduler);
        assert_eq!(scheduler.has_waiting(), woken, "{says}");
    }
}

#[test]
fn nobody_inherits_the_refusal_of_another() {
    let mut scheduler = with_nodes(&["a"]);
    let guard = tree!({"far": [{"key": "kubernetes.io/hostname", "app": "x"}]});
    scheduler.pod(&on(pod("guard", &guard, 1), "a"));
    scheduler.pod(&pod("unwanted", &tree!({"labels": {"app": "x"}}), 2));
    assert_eq!(decide(&mut scheduler, NOW), ["unwanted"]);
    scheduler.pod_gone(&key("unwanted"));
    scheduler.pod(&pod("welcome", &tree!({"labels": {"app": "y"}}), 3));
    assert_eq!(decide(&mut scheduler, NOW), ["welcome→a"]);
}

#[test]
fn greed_beyond_all_measure_is_refused_and_never_overflows() {
    let mut scheduler = with_nodes(&["a"]);
    for name in ["b", "c", "d"] {
        scheduler.pod(&on(pod(name, &tree!({"asks": {"memory": "7Ei", "cpu": "7E"}}), 1), "a"));
    }
    scheduler.pod(&asks("e", "1"));
    assert_eq!(decide(&mut scheduler, NOW), ["e"]);
    ["b", "c", "d"].iter().for_each(|name| scheduler.pod_gone(&key(name)));
    assert_eq!(decide(&mut scheduler, NOW), ["e→a"]);
}

#[test]
fn only_so_many_are_woken_as_find_room() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.pod(&on(asks("big", "4"), "a"));
    for n in 0..10 {
        scheduler.pod(&asks(&format!("p{n}"), "2"));
    }
    assert_eq!(decide(&mut scheduler, NOW).len(), 10);
    scheduler.pod_gone(&key("big"));
    scheduler.pod_gone(&key("p0"));
    assert_eq!(decide(&mut scheduler, NOW), ["p1→a", "p2→a"], "p2 is woken in p0's stead");
}

#[test]
fn so_are_pods_with_volumes_when_room_is_what_they_lack() {
    let mut scheduler = with_nodes(&["a"]);
    let storage = tree!({"storage": {"classes": {"late": {}}, "volumes": {"v": {"for": "c", "phase": "Bound"}},
        "claims": {"c": {"volume": "v", "phase": "Bound"}}}});
    storage::feed(&mut scheduler, &storage);
    scheduler.pod(&on(asks("big", "4"), "a"));
    scheduler.pod(&pod("lost", &tree!({"asks": {"cpu": "2"}, "mounts": ["nowhere"]}), 0));
    for n in 0..10 {
        scheduler.pod(&pod(&format!("p{n}"), &tree!({"asks": {"cpu": "2"}, "mounts": ["c"]}), 1));
    }
    assert_eq!(decide(&mut scheduler, NOW).len(), 11);
    scheduler.pod_gone(&key("big"));
    assert_eq!(
        decide(&mut scheduler, NOW),
        ["p0→a", "p1→a"],
        "two find room, whoever lacks a claim sleeps on"
    );
}

#[test]
fn the_freshly_refused_stand_back_but_never_idle() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.pod(&on(asks("big", "4"), "a"));
    scheduler.pod(&pod("old", &tree!({"asks": {"cpu": "2"}}), 1));
    assert_eq!(decide(&mut scheduler, NOW), ["old"]);
    scheduler.pod_gone(&key("big"));
    scheduler.pod(&pod("new", &tree!({"asks": {"cpu": "2"}}), 5));
    assert_eq!(decide(&mut scheduler, NOW), ["new→a", "old→a"], "one that was not refused goes first");
}

#[test]
fn what_is_assumed_is_taken_until_it_is_given_back() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.pod(&asks("a", "3"));
    decide(&mut scheduler, NOW);
    scheduler.pod(&asks("b", "3"));
    assert_eq!(decide(&mut scheduler, NOW), ["b"]);
    scheduler.pod(&on(asks("a", "3"), "a"));
    assert_eq!(scheduler.node_of(&key("a")), Some(&"a".into()), "assumed, then bound: taken once");
    scheduler.pod_gone(&key("a"));
    assert_eq!(decide(&mut scheduler, NOW), ["b→a"]);
    scheduler.retry(&key("b"), NOW);
    assert_eq!(decide(&mut scheduler, NOW), Vec::<String>::new(), "a failed binding is tried again, later");
    let at = scheduler.wake_at().expect("there is a time for it");
    assert_eq!(decide(&mut scheduler, at), ["b→a"]);
    let mut now = at;
    let mut wait = || {
        scheduler.retry(&key("b"), now);
        let before = std::mem::replace(&mut now, scheduler.wake_at().expect("there is a time for it"));
        assert_eq!(decide(&mut scheduler, now), ["b→a"]);
        now.0 - before.0
    };
    assert!(wait() < wait(), "each time it waits longer");
    scheduler.node_gone(&"a".into());
    assert_eq!(decide(&mut scheduler, at), ["b"], "its node is gone");
}

#[test]
fn pods_are_charged_to_nodes_that_come_later() {
    let mut scheduler = Scheduler::default();
    scheduler.pod(&on(asks("a", "3"), "a"));
    scheduler.node(node("a", &tree!({})));
    scheduler.pod(&asks("b", "3"));
    assert_eq!(decide(&mut scheduler, NOW), ["b"]);
    scheduler.node(node("a", &tree!({"labels": {"x": "y"}})));
    assert_eq!(decide(&mut scheduler, NOW), Vec::<String>::new(), "a changed node keeps its pods");
    scheduler.node_gone(&"a".into());
    scheduler.node(node("a", &tree!({})));
    assert_eq!(decide(&mut scheduler, NOW), Vec::<String>::new(), "as does one that comes back");
}

#[test]
fn gated_and_foreign_pods_are_left_alone() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.pod(&pod("gated", &tree!({"spec": {"schedulingGates": [{"name": "g"}]}}), 1));
    scheduler.pod(&pod("foreign", &tree!({"spec": {"schedulerName": "other"}}), 1));
    assert!(!scheduler.has_waiting());
    scheduler.pod(&pod("gated", &tree!({}), 1));
    assert_eq!(decide(&mut scheduler, NOW), ["gated→a"]);
}

#[test]
fn room_that_is_being_made_is_kept() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.pod(&on(asks("victim", "4"), "a"));
    let urgent = pod("urgent", &tree!({"asks": {"cpu": "4"}, "priority": 9}), 1);
    scheduler.pod(&urgent);
    assert_eq!(evicted(&mut scheduler), [key("victim")]);
    assert_eq!(scheduler.nominated(&key("urgent")), Some(&Text::from("a")));
    scheduler.pod(&asks("sneaky", "1"));
    scheduler.pod_gone(&key("victim"));
    assert_eq!(decide(&mut scheduler, NOW), ["sneaky", "urgent→a"], "the room is urgent's");
    assert_eq!(scheduler.nominated(&key("urgent")), None);
}

#[test]
fn nobody_is_evicted_twice_for_one_pod() {
    let mut scheduler = with_nodes(&["a", "b"]);
    scheduler.pod(&on(asks("one", "4"), "a"));
    scheduler.pod(&on(pod("two", &tree!({"asks": {"cpu": "4"}, "priority": 3}), 0), "b"));
    scheduler.pod(&pod("urgent", &tree!({"asks": {"cpu": "4"}, "priority": 9}), 1));
    assert_eq!(evicted(&mut scheduler), [key("one")]);
    scheduler.pod(&pod("urgent", &tree!({"asks": {"cpu": "3"}, "priority": 9}), 1));
    assert_eq!(evicted(&mut scheduler), [], "the first victim is still on its way out");
    scheduler.spared(&key("one"), NOW);
    let later = scheduler.wake_at().expect("whoever waits for the room is looked at again");
    let decisions = scheduler.decide(9, later);
    assert!(
        matches!(&decisions[0].outcome, Outcome::Refused { evict, .. } if *evict == [key("one")]),
        "{decisions:?}"
    );
    scheduler.spared(&key("one"), later);
    scheduler.pod(&pod("urgent", &tree!({"asks": {"cpu": "2"}, "priority": 9}), 1));
    assert_eq!(evicted(&mut scheduler), [key("one")], "it was not evicted after all");
}

#[test]
fn the_more_urgent_takes_over_the_room() {
    let mut scheduler = with_nodes(&["a"]);
    scheduler.pod(&on(asks("victim", "4"), "a"));
    scheduler.pod(&pod("urgent", &tree!({"asks": {"cpu": "4"}, "priority": 5}), 1));
    evicted(&mut scheduler);
    scheduler.pod(&pod("most-urgent", &tree!({"asks": {"cpu": "4"}, "priority": 9}), 1));
    let decisions = scheduler.decide(1, NOW);
    let Outcome::Refused { outranked, nominated, .. } = &decisions[0].outcome else { panic!("no room yet") };
    assert_eq!((outranked.as_slice(), nominated.as_deref()), ([key("urgent")].as_slice(), Some("a")));
    assert_eq!(scheduler.nominated(&key("urgent")), None);
}

#[test]
fn a_nomination_that_was_told_counts() {
    let mut scheduler = with_nodes(&["a", "b"]);
    scheduler.pod(&Pod { nominated: "b".into(), ..asks("p", "1") });
    assert_eq!(decide(&mut scheduler, NOW), ["p→b"]);
}
