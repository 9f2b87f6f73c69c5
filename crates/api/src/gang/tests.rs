//! Tables of cases: every form, read and written.

use std::time::Duration;

use muster_tree::{Text, Tree, tree};

use super::status::{Seen, Verdict};
use super::*;
use crate::time::Time;

fn gang(min: usize) -> Policy {
    Policy::Gang { min }
}

fn policy(min: i64) -> Tree {
    tree!({"gang": {"minCount": min}})
}

/// Shows: 5832-14, 5832-15, 5832-16, 5832-43, 5832-60.
#[test]
fn pods_say_to_which_group_they_belong() {
    let native = |name: &str| Belongs::Native(name.into());
    let entry =
        |replica: &str| Belongs::Entry { workload: "w".into(), entry: "e".into(), replica: replica.into() };
    let spec = |spec: Tree| tree!({"spec": spec});
    let notes = |notes: Tree| tree!({"metadata": {"annotations": notes}});
    let ours = tree!({"scheduling.muster.dev/pod-group": "m", "scheduling.muster.dev/workload": "w"});
    type Case<'a> = (&'a str, Tree, Option<(Belongs, Option<&'a str>)>);
    let all: Vec<Case<'_>> = vec![
        ("alone", tree!({}), None),
        (
            "proposal",
            spec(tree!({"workloadRef": {"name": "w", "podGroupName": "g"}})),
            Some((native("g"), Some("w"))),
        ),
        ("released", spec(tree!({"schedulingGroup": {"podGroupName": "g"}})), Some((native("g"), None))),
        (
            "both, which the server keeps equal",
            spec(
                tree!({"workloadRef": {"name": "w", "podGroupName": "g"}, "schedulingGroup": {"podGroupName": "g"}}),
            ),
            Some((native("g"), Some("w"))),
        ),
        (
            "legacy",
            spec(tree!({"workloadRef": {"name": "w", "podGroup": "e"}})),
            Some((entry(""), Some("w"))),
        ),
        (
            "legacy copy",
            spec(tree!({"workloadRef": {"name": "w", "podGroup": "e", "podGroupReplicaKey": "3"}})),
            Some((entry("3"), Some("w"))),
        ),
        (
            "the copy is ignored beside a group",
            spec(tree!({"workloadRef": {"name": "w", "podGroupName": "g", "podGroupReplicaKey": "3"}})),
            Some((native("g"), Some("w"))),
        ),
        ("marker", notes(ours.clone()), Some((native("m"), Some("w")))),
        ("empty marker", notes(tree!({"scheduling.muster.dev/pod-group": ""})), None),
        (
            "a field comes before a marker",
            spec(tree!({"schedulingGroup": {"podGroupName": "g"}})).merge(&notes(ours)),
            Some((native("g"), None)),
        ),
        (
            "coscheduling",
            tree!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "c"}}}),
            Some((Belongs::Coscheduling("c".into()), None)),
        ),
        (
            "volcano",
            notes(tree!({"scheduling.k8s.io/group-name": "v"})),
            Some((Belongs::Volcano("v".into()), None)),
        ),
    ];
    for (says, pod, want) in all {
        let found = Membership::of(&pod, Reads::default());
        let want = want.map(|(belongs, workload)| Membership { belongs, workload: workload.map(Text::from) });
        assert_eq!(found, want, "{says}");
    }
}

/// Shows: 5832-58, 5832-60.
#[test]
fn marks_that_do_not_count_leave_pods_alone() {
    let off = Reads { groups: false, ..Reads::default() };
    let pod = |spec: Tree| tree!({"spec": {"workloadRef": spec}});
    assert_eq!(Membership::of(&pod(tree!({"name": "w", "podGroupName": "g"})), off), None, "a plain pod");
    let both = pod(tree!({"name": "w", "podGroupName": "g", "podGroup": "e"}));
    assert_eq!(Membership::of(&both, off), None, "it names a group, not an entry");
    assert!(Membership::of(&pod(tree!({"name": "w", "podGroup": "e"})), off).is_some(), "old gangs work on");
    assert_eq!(Membership::of(&pod(tree!({"name": "w", "podGroup": "e"})), Reads::NONE), None);
}

#[test]
fn names_of_groups_never_meet() {
    let one = |name: &str| {
        [
            Belongs::Native(name.into()).key(),
            Belongs::Coscheduling(name.into()).key(),
            Belongs::Volcano(name.into()).key(),
            Belongs::Entry { workload: name.into(), entry: "a".into(), replica: "".into() }.key(),
            Belongs::Entry { workload: name.into(), entry: "a".into(), replica: "b".into() }.key(),
        ]
    };
    let all: std::collections::BTreeSet<Text> = one("a").into_iter().chain(one("b")).collect();
    assert_eq!(all.len(), 10);
}

fn workload(templates: Tree) -> WorkloadFacts {
    WorkloadFacts::of(&tree!({"metadata": {"uid": "wu"}, "spec": {"podGroupTemplates": templates}}))
}

fn proposal(spec: &Tree) -> GroupFacts {
    let base = tree!({"metadata": {"namespace": "ns", "uid": "gu", "generation": 2},
        "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}});
    GroupFacts::of(Origin::Proposal, &base.merge(&tree!({"spec": spec})))
}

/// Shows: 5832-06, 5832-12, 5832-29, 5832-30, 5832-31.
#[test]
fn groups_are_placed_as_they_or_their_templates_say() {
    let one = |terms: Tree| workload(Tree::list([tree!({"name": "t"}).merge(&terms)]));
    let empty = tree!({});
    type Case<'a> = (&'a str, Tree, Option<WorkloadFacts>, Result<Policy, Missing>);
    let all: Vec<Case<'_>> = vec![
        ("policy", empty.clone(), Some(one(tree!({"policy": policy(3)}))), Ok(gang(3))),
        ("its later name", empty.clone(), Some(one(tree!({"schedulingPolicy": policy(3)}))), Ok(gang(3))),
        (
            "both and equal",
            empty.clone(),
            Some(one(tree!({"policy": policy(3), "schedulingPolicy": policy(3)}))),
            Ok(gang(3)),
        ),
        (
            "both and different",
            empty.clone(),
            Some(one(tree!({"policy": policy(3), "schedulingPolicy": policy(4)}))),
            Err(Missing::Template),
        ),
        ("basic", empty.clone(), Some(one(tree!({"policy": {"basic": {}}}))), Ok(Policy::Basic)),
        ("no Workload", empty.clone(), None, Err(Missing::Workload)),
        ("no template", empty.clone(), Some(workload(tree!([]))), Err(Missing::Template)),
        ("no policy", empty.clone(), Some(one(tree!({}))), Err(Missing::Template)),
        (
            "another Workload of the name",
            tree!({"workloadRef": {"uid": "old"}}),
            Some(one(tree!({"policy": policy(3)}))),
            Err(Missing::Workload),
        ),
        (
            "the Workload that is meant",
            tree!({"workloadRef": {"uid": "wu"}}),
            Some(one(tree!({"policy": policy(3)}))),
            Ok(gang(3)),
        ),
        (
            "a Workload elsewhere",
            tree!({"workloadRef": {"namespace": "other"}}),
            Some(one(tree!({"policy": policy(3)}))),
            Err(Missing::Workload),
        ),
        (
            "its own namespace, spelled out",
            tree!({"workloadRef": {"namespace": "ns"}}),
            Some(one(tree!({"policy": policy(3)}))),
            Ok(gang(3)),
        ),
        (
            "its own policy wins",
            tree!({"schedulingPolicy": policy(5)}),
            Some(one(tree!({"policy": policy(3)}))),
            Ok(gang(5)),
        ),
        ("and needs no Workload", tree!({"schedulingPolicy": policy(5)}), None, Ok(gang(5))),
        (
            "the template's other name",
            tree!({"podGroupTemplateRef": Tree::Null, "podGroupTemplateName": "t"}),
            Some(one(tree!({"policy": policy(3)}))),
            Ok(gang(3)),
        ),
    ];
    for (says, spec, workload, want) in all {
        let found = match resolve(&proposal(&spec), workload.as_ref()) {
            Resolved::Settled(it) => Ok(it.policy),
            Resolved::Waits { missing, words } => {
                assert!(!words.is_empty(), "{says}");
                Err(missing)
            }
        };
        assert_eq!(found, want, "{says}");
    }
}

#[test]
fn a_workload_elsewhere_is_named_with_both_places() {
    let stray = proposal(&tree!({"workloadRef": {"namespace": "other"}}));
    let Resolved::Waits { words, .. } = resolve(&stray, None) else { panic!("waits") };
    let want =
        "workload \"w\" is said to be in namespace \"other\", but the pod group is in namespace \"ns\"";
    assert_eq!(words, want);
}

#[test]
fn what_a_group_leaves_out_its_template_says() {
    let terms = tree!({"policy": policy(2), "priority": 7, "preemptionPolicy": "Never", "disruptionMode": {"all": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]}});
    let workload = workload(Tree::list([tree!({"name": "t"}).merge(&terms)]));
    let Resolved::Settled(whole) = resolve(&proposal(&tree!({})), Some(&workload)) else { panic!("settled") };
    let want = Settled {
        policy: gang(2),
        priority: Some(7),
        preempts: Some(false),
        disruption: Disruption::All,
        topology: Some("rack".into()),
        deadline: None,
    };
    assert_eq!(whole, want);
    let own =
        tree!({"priority": 9, "disruptionMode": {"single": {}}, "preemptionPolicy": "PreemptLowerPriority"});
    let Resolved::Settled(mixed) = resolve(&proposal(&own), Some(&workload)) else { panic!("settled") };
    let want = Settled { priority: Some(9), preempts: Some(true), disruption: Disruption::Single, ..want };
    assert_eq!(mixed, want, "what it says itself comes first");
}

/// Shows: 5832-43, 5832-60.
#[test]
fn entries_of_workloads_are_groups() {
    let legacy = WorkloadFacts::of(
        &tree!({"metadata": {"uid": "wu"}, "spec": {"podGroups": [{"name": "e", "policy": policy(4)}]}}),
    );
    let Resolved::Settled(found) = resolve_entry(Some(&legacy), "w", "e") else { panic!("settled") };
    assert_eq!(found.policy, gang(4));
    for (workload, entry, want) in [
        (None, "e", "waiting for pods's workload \"w\" to appear in scheduling queue"),
        (Some(&legacy), "x", "pod group \"x\" doesn't exist for a workload \"w\""),
    ] {
        let Resolved::Waits { words, .. } = resolve_entry(workload, "w", entry) else { panic!("waits") };
        assert_eq!(words, want);
    }
}

#[test]
fn every_form_of_group_is_read() {
    let named = |workload: &str, template: &str| {
        Some(Reference { workload: workload.into(), template: template.into(), ..Reference::default() })
    };
    let reference = tree!({"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"});
    let all = [
        (Origin::Proposal, reference.clone(), named("w", "t"), None, None),
        (Origin::Own, reference, named("w", "t"), None, None),
        (
            Origin::Released,
            tree!({"workloadRef": {"workloadName": "w", "templateName": "t"}, "schedulingPolicy": policy(2),
                "disruptionMode": {"all": {}}}),
            named("w", "t"),
            Some(gang(2)),
            Some(Disruption::All),
        ),
        (
            Origin::Earlier,
            tree!({"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                "schedulingPolicy": policy(2), "disruptionMode": "PodGroup"}),
            named("w", "t"),
            Some(gang(2)),
            Some(Disruption::All),
        ),
        (
            Origin::Earlier,
            tree!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "Pod"}),
            None,
            Some(Policy::Basic),
            Some(Disruption::Single),
        ),
        (Origin::Coscheduling, tree!({"minMember": 3}), None, Some(gang(3)), None),
        (Origin::Volcano, tree!({"minMember": 4, "queue": "q"}), None, Some(gang(4)), None),
    ];
    for (origin, spec, reference, policy, disruption) in all {
        let facts = GroupFacts::of(origin, &tree!({"metadata": {"uid": "u"}, "spec": spec.clone()}));
        let found = (facts.reference, facts.terms.policy, facts.terms.disruption);
        assert_eq!(found, (reference, policy, disruption), "{origin:?} {spec}");
    }
}

/// Shows: 5832-24.
#[test]
fn deadlines_come_from_where_each_form_has_them() {
    let note = |value: &str| tree!({"metadata": {"annotations": {"scheduling.muster.dev/schedule-timeout-seconds": value}}});
    let secs = |n| Some(Duration::from_secs(n));
    for (origin, tree, want) in [
        (Origin::Proposal, note("90"), secs(90)),
        (Origin::Own, note("90"), secs(90)),
        (Origin::Proposal, note("soon"), None),
        (Origin::Proposal, note("0"), None),
        (Origin::Proposal, note("-1"), None),
        (Origin::Coscheduling, tree!({"spec": {"scheduleTimeoutSeconds": 60}}), secs(60)),
        (Origin::Coscheduling, tree!({"spec": {}}), None),
    ] {
        assert_eq!(GroupFacts::of(origin, &tree).deadline, want, "{origin:?} {tree}");
    }
}

/// Shows: 5832-40.
#[test]
fn pod_and_group_name_one_workload() {
    let member = |workload: Option<&str>| Membership {
        belongs: Belongs::Native("g".into()),
        workload: workload.map(Text::from),
    };
    let group = proposal(&tree!({}));
    assert_eq!(contradiction(&member(Some("w")), &group), None);
    assert_eq!(contradiction(&member(None), &group), None, "the released form does not say");
    let words = contradiction(&member(Some("v")), &group).expect("they differ");
    assert!(words.contains("\"v\"") && words.contains("\"w\""), "{words}");
}

#[test]
fn kinds_and_finalizers_of_the_forms() {
    let all = [Form::Proposal, Form::Released, Form::Earlier, Form::Legacy, Form::Own];
    for form in all {
        let groups = form.groups();
        assert_eq!(groups.is_none(), form == Form::Legacy);
        if let Some(kind) = groups {
            assert!(Origin::of(kind).is_some(), "{form:?}");
            assert_eq!((&kind.group, &kind.version), (&form.workloads().group, &form.workloads().version));
        }
    }
    assert_eq!(Form::Own.protection(), Some("scheduling.muster.dev/podgroup-protection"));
    assert_eq!(Form::Proposal.protection(), Some("scheduling.k8s.io/podgroup-protection"));
    assert_eq!(Form::Released.protection(), None, "its server does that");
}

fn seen<'a>(enough: Result<usize, &'a str>, alive: usize, placed: usize, verdict: &'a Verdict) -> Seen<'a> {
    Seen { enough, alive, placed, reached: None, verdict, evicted_by: None }
}

fn with_status(status: &Tree) -> Tree {
    tree!({"metadata": {"generation": 2}, "spec": {}, "status": status})
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Tree {
    tree!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2})
}

const DONE: &str = "All required pods (2/2) have been assigned to nodes";

/// Shows: 5832-22, 5832-23, 5832-24, 5832-25.
#[test]
fn what_is_said_of_a_group() {
    let no = Verdict::None;
    let poor = Verdict::Unschedulable("no room".to_owned());
    let wrong = Verdict::Error("rules".to_owned());
    let late = Verdict::Late("too late".to_owned());
    let held = Verdict::Held("gates".to_owned());
    let placed = Verdict::Placed;
    let (none, r#false) =
        (tree!([]), Tree::list([condition("PodGroupScheduled", "False", "Unschedulable", "no room")]));
    let sticky = Tree::list([condition("PodGroupScheduled", "True", "MinCountSatisfied", DONE)]);
    type Case<'a> = (&'a str, &'a Tree, Seen<'a>, Option<(&'a str, &'a str, &'a str)>);
    let all: Vec<Case<'_>> = vec![
        ("enough", &none, seen(Ok(2), 2, 2, &placed), Some(("True", "MinCountSatisfied", DONE))),
        ("more than enough", &none, seen(Ok(2), 3, 3, &placed), Some(("True", "MinCountSatisfied", DONE))),
        ("no room", &none, seen(Ok(2), 2, 0, &poor), Some(("False", "Unschedulable", "no room"))),
        ("rules", &none, seen(Ok(2), 2, 0, &wrong), Some(("False", "SchedulerError", "rules"))),
        ("late", &none, seen(Ok(2), 2, 0, &late), Some(("False", "SchedulingTimeout", "too late"))),
        ("gates", &none, seen(Ok(2), 2, 0, &held), Some(("Unknown", "WaitingForPods", "gates"))),
        (
            "few",
            &none,
            seen(Ok(2), 1, 0, &no),
            Some(("Unknown", "WaitingForPods", "waiting until 2 pods are there")),
        ),
        ("no Workload", &none, seen(Err("w"), 2, 0, &no), Some(("Unknown", "WaitingForWorkload", "w"))),
        ("not tried yet", &none, seen(Ok(2), 2, 0, &no), None),
        (
            "on their way",
            &none,
            seen(Ok(2), 2, 1, &placed),
            Some(("Unknown", "SchedulingInProgress", "places were found, pods are on their way to them")),
        ),
        ("on their way after a refusal", &r#false, seen(Ok(2), 2, 0, &placed), None),
        (
            "fewer pods after a refusal",
            &r#false,
            seen(Ok(2), 1, 0, &poor),
            Some(("Unknown", "WaitingForPods", "waiting until 2 pods are there")),
        ),
        (
            "lost one before it was said",
            &none,
            Seen { reached: Some(2), ..seen(Ok(2), 1, 1, &no) },
            Some(("True", "MinCountSatisfied", DONE)),
        ),
        (
            "reached and said, and more are wanted now",
            &sticky,
            Seen { reached: Some(2), ..seen(Ok(3), 2, 2, &no) },
            None,
        ),
        ("once is for ever", &sticky, seen(Ok(2), 1, 1, &no), None),
        ("also without a Workload", &sticky, seen(Err("w"), 2, 2, &no), None),
        ("also when late", &sticky, seen(Ok(3), 3, 2, &late), None),
        (
            "more are wanted and reached",
            &sticky,
            seen(Ok(4), 4, 4, &placed),
            Some(("True", "MinCountSatisfied", "All required pods (4/4) have been assigned to nodes")),
        ),
    ];
    for (says, conditions, seen, want) in all {
        let group = with_status(&tree!({"conditions": conditions}));
        let said = status::said(Origin::Proposal, &group, &seen);
        let said = said.as_ref().map(|it| (it.status, it.reason, it.message.as_str()));
        assert_eq!(said, want, "{says}");
    }
}

/// Shows: 5832-20, 5832-22.
#[test]
fn each_form_says_what_it_knows() {
    let (poor, late) = (Verdict::Unschedulable("m".to_owned()), Verdict::Late("m".to_owned()));
    let kinds = [
        (Origin::Proposal, "PodGroupScheduled", "MinCountSatisfied", "SchedulingTimeout", true),
        (Origin::Own, "PodGroupScheduled", "MinCountSatisfied", "SchedulingTimeout", true),
        (Origin::Earlier, "PodGroupScheduled", "Scheduled", "Unschedulable", false),
        (Origin::Released, "PodGroupInitiallyScheduled", "Scheduled", "Unschedulable", false),
    ];
    let now = Time::parse("2026-01-02T00:00:00Z").expect("a time");
    for (origin, kind, reached, too_late, counts) in kinds {
        let bare = with_status(&tree!({}));
        let of = |seen: &Seen<'_>| status::patch(origin, &bare, seen, now);
        let done = of(&seen(Ok(2), 2, 2, &poor)).expect("something to say");
        let said = &done.items_at(&["status", "conditions"])[0];
        let words = (said.str_at(&["type"]), said.str_at(&["reason"]), said.int_at(&["observedGeneration"]));
        assert_eq!(words, (kind, reached, Some(2)), "{origin:?}");
        assert_eq!(done.int_at(&["status", "scheduledPods"]), counts.then_some(2), "{origin:?}");
        let refused = of(&seen(Ok(2), 2, 0, &late)).expect("something to say");
        assert_eq!(refused.items_at(&["status", "conditions"])[0].str_at(&["reason"]), too_late);
        assert_eq!(of(&seen(Ok(2), 1, 0, &poor)).is_some(), counts, "{origin:?} knows what is unknown");
        assert!(status::is_scheduled(origin, &bare.merge(&done)) && !status::is_scheduled(origin, &bare));
        assert_eq!(status::patch(origin, &bare.merge(&done), &seen(Ok(2), 2, 2, &poor), now), None, "once");
    }
}

/// Shows: 5832-26, 5832-28.
#[test]
fn counts_follow_and_times_stay() {
    let first = Time::parse("2026-01-01T00:00:00Z").expect("a time");
    let later = Time::parse("2026-01-02T00:00:00Z").expect("a time");
    let done = Verdict::Placed;
    let mine = condition("Mine", "True", "R", "m");
    let mut group = with_status(&tree!({"conditions": [(mine.clone())]}));
    let mut step = |enough, placed, at| {
        let patch = status::patch(Origin::Proposal, &group, &seen(Ok(enough), placed, placed, &done), at)?;
        group = group.merge(&patch);
        Some((group.int_at(&["status", "scheduledPods"]), group.items_at(&["status", "conditions"]).to_vec()))
    };
    let (count, conditions) = step(2, 2, first).expect("written");
    assert_eq!((count, conditions.len()), (Some(2), 2));
    assert_eq!(conditions[0], mine, "others' conditions stay");
    assert_eq!(step(2, 2, later), None, "nothing changed");
    let (count, _) = step(2, 0, later).expect("written");
    assert_eq!(count, Some(0), "it goes down");
    let (count, conditions) = step(4, 4, later).expect("written");
    assert_eq!(count, Some(4));
    assert_eq!(conditions[1].str_at(&["lastTransitionTime"]), "2026-01-01T00:00:00Z", "no transition");
    assert!(conditions[1].str_at(&["message"]).contains("(4/4)"));
}

#[test]
fn evicted_as_a_whole_is_said_once() {
    let (by, no) = (Text::from("default-scheduler"), Verdict::None);
    let mut group = with_status(&tree!({}));
    let seen = Seen { evicted_by: Some(&by), ..seen(Ok(2), 2, 0, &no) };
    let patch = status::patch(Origin::Proposal, &group, &seen, Time(0)).expect("something to say");
    let said = &patch.items_at(&["status", "conditions"])[0];
    let words = (said.str_at(&["type"]), said.str_at(&["status"]), said.str_at(&["reason"]));
    assert_eq!(words, ("DisruptionTarget", "True", "PreemptionByScheduler"));
    group = group.merge(&patch);
    assert_eq!(status::patch(Origin::Proposal, &group, &seen, Time(5_000_000)), None);
}

#[test]
fn foreign_groups_are_told_in_their_way() {
    let no = Verdict::None;
    let phase = |status: Tree, placed| {
        let group = tree!({"spec": {"minMember": 2}, "status": status});
        let patch = status::patch(Origin::Coscheduling, &group, &seen(Ok(2), 2, placed, &no), Time(0));
        patch.map(|it| (it.text_at(&["status", "phase"]), it.int_at(&["status", "scheduled"])))
    };
    assert_eq!(phase(tree!({}), 0), Some(("Pending".into(), Some(0))));
    assert_eq!(phase(tree!({"phase": "Pending"}), 0), None);
    assert_eq!(phase(tree!({"phase": "Pending"}), 2), Some(("Scheduled".into(), Some(2))));
    assert_eq!(phase(tree!({"phase": "Running", "scheduled": 1}), 2), None, "its own controller goes on");
    let volcano = tree!({"spec": {"minMember": 2, "queue": "q"}});
    let patch = status::patch(Origin::Volcano, &volcano, &seen(Ok(2), 2, 2, &no), Time(0)).expect("said");
    let kinds: Vec<&str> =
        patch.items_at(&["status", "conditions"]).iter().map(|it| it.str_at(&["type"])).collect();
    assert_eq!(kinds, ["Scheduled", "QueueIgnored"]);
}
