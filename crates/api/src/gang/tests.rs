//! Tables of cases: every form, read and written.

use std::time::Duration;

use muster_tree::{Text, Tree, tree};

use super::status::{GroupObservation, SchedulingResult};
use super::*;
use crate::time::Time;

fn gang(min: usize) -> SchedulingPolicy {
    SchedulingPolicy::Gang { min }
}

fn policy(min: i64) -> Tree {
    tree!({"gang": {"minCount": min}})
}

/// Shows: 5832-14, 5832-15, 5832-16, 5832-43, 5832-60.
#[test]
fn group_membership_of_pods() {
    let native = |name: &str| GroupId::Native(name.into());
    let entry =
        |replica: &str| GroupId::Entry { workload: "w".into(), entry: "e".into(), replica: replica.into() };
    let spec = |spec: Tree| tree!({"spec": spec});
    let notes = |notes: Tree| tree!({"metadata": {"annotations": notes}});
    let ours = tree!({"scheduling.muster.dev/pod-group": "m", "scheduling.muster.dev/workload": "w"});
    type Case<'a> = (&'a str, Tree, Option<(GroupId, Option<&'a str>)>);
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
            Some((GroupId::Coscheduling("c".into()), None)),
        ),
        (
            "volcano",
            notes(tree!({"scheduling.k8s.io/group-name": "v"})),
            Some((GroupId::Volcano("v".into()), None)),
        ),
    ];
    for (says, pod, want) in all {
        let found = GroupMembership::of(&pod, EnabledMarkers::default());
        let want = want.map(|(belongs, workload)| GroupMembership {
            group: belongs,
            workload: workload.map(Text::from),
        });
        assert_eq!(found, want, "{says}");
    }
}

/// Shows: 5832-58, 5832-60.
#[test]
fn marks_that_do_not_count_leave_pods_alone() {
    let off = EnabledMarkers { groups: false, ..EnabledMarkers::default() };
    let pod = |spec: Tree| tree!({"spec": {"workloadRef": spec}});
    assert_eq!(
        GroupMembership::of(&pod(tree!({"name": "w", "podGroupName": "g"})), off),
        None,
        "a plain pod"
    );
    let both = pod(tree!({"name": "w", "podGroupName": "g", "podGroup": "e"}));
    assert_eq!(GroupMembership::of(&both, off), None, "it names a group, not an entry");
    assert!(
        GroupMembership::of(&pod(tree!({"name": "w", "podGroup": "e"})), off).is_some(),
        "old gangs work on"
    );
    assert_eq!(GroupMembership::of(&pod(tree!({"name": "w", "podGroup": "e"})), EnabledMarkers::NONE), None);
}

#[test]
fn names_of_groups_never_meet() {
    let one = |name: &str| {
        [
            GroupId::Native(name.into()).key(),
            GroupId::Coscheduling(name.into()).key(),
            GroupId::Volcano(name.into()).key(),
            GroupId::Entry { workload: name.into(), entry: "a".into(), replica: "".into() }.key(),
            GroupId::Entry { workload: name.into(), entry: "a".into(), replica: "b".into() }.key(),
        ]
    };
    let all: std::collections::BTreeSet<Text> = one("a").into_iter().chain(one("b")).collect();
    assert_eq!(all.len(), 10);
}

fn workload(templates: Tree) -> GangWorkloadFacts {
    GangWorkloadFacts::of(&tree!({"metadata": {"uid": "wu"}, "spec": {"podGroupTemplates": templates}}))
}

fn proposal(spec: &Tree) -> PodGroupFacts {
    let base = tree!({"metadata": {"namespace": "ns", "uid": "gu", "generation": 2},
        "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}});
    PodGroupFacts::of(PodGroupApi::Proposal, &base.merge(&tree!({"spec": spec})))
}

/// Shows: 5832-06, 5832-12, 5832-29, 5832-30, 5832-31.
#[test]
fn groups_are_placed_as_they_or_their_templates_say() {
    let one = |terms: Tree| workload(Tree::list([tree!({"name": "t"}).merge(&terms)]));
    let empty = tree!({});
    type Case<'a> = (&'a str, Tree, Option<GangWorkloadFacts>, Result<SchedulingPolicy, MissingReference>);
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
            Err(MissingReference::Template),
        ),
        ("basic", empty.clone(), Some(one(tree!({"policy": {"basic": {}}}))), Ok(SchedulingPolicy::Basic)),
        ("no Workload", empty.clone(), None, Err(MissingReference::Workload)),
        ("no template", empty.clone(), Some(workload(tree!([]))), Err(MissingReference::Template)),
        ("no policy", empty.clone(), Some(one(tree!({}))), Err(MissingReference::Template)),
        (
            "another Workload of the name",
            tree!({"workloadRef": {"uid": "old"}}),
            Some(one(tree!({"policy": policy(3)}))),
            Err(MissingReference::Workload),
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
            Err(MissingReference::Workload),
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
            GroupResolution::Resolved(it) => Ok(it.policy),
            GroupResolution::Pending { missing, message: words } => {
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
    let GroupResolution::Pending { message: words, .. } = resolve(&stray, None) else { panic!("waits") };
    let want =
        "workload \"w\" is said to be in namespace \"other\", but the pod group is in namespace \"ns\"";
    assert_eq!(words, want);
}

#[test]
fn unset_group_fields_come_from_the_template() {
    let terms = tree!({"policy": policy(2), "priority": 7, "preemptionPolicy": "Never", "disruptionMode": {"all": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]}});
    let workload = workload(Tree::list([tree!({"name": "t"}).merge(&terms)]));
    let GroupResolution::Resolved(whole) = resolve(&proposal(&tree!({})), Some(&workload)) else {
        panic!("settled")
    };
    let want = ResolvedGroup {
        policy: gang(2),
        priority: Some(7),
        preempts: Some(false),
        disruption: DisruptionMode::All,
        topology: Some("rack".into()),
        deadline: None,
    };
    assert_eq!(whole, want);
    let own =
        tree!({"priority": 9, "disruptionMode": {"single": {}}, "preemptionPolicy": "PreemptLowerPriority"});
    let GroupResolution::Resolved(mixed) = resolve(&proposal(&own), Some(&workload)) else {
        panic!("settled")
    };
    let want =
        ResolvedGroup { priority: Some(9), preempts: Some(true), disruption: DisruptionMode::Single, ..want };
    assert_eq!(mixed, want, "what it says itself comes first");
}

/// Shows: 5832-43, 5832-60.
#[test]
fn entries_of_workloads_are_groups() {
    let legacy = GangWorkloadFacts::of(
        &tree!({"metadata": {"uid": "wu"}, "spec": {"podGroups": [{"name": "e", "policy": policy(4)}]}}),
    );
    let GroupResolution::Resolved(found) = resolve_entry(Some(&legacy), "w", "e") else { panic!("settled") };
    assert_eq!(found.policy, gang(4));
    for (workload, entry, want) in [
        (None, "e", "waiting for pods's workload \"w\" to appear in scheduling queue"),
        (Some(&legacy), "x", "pod group \"x\" doesn't exist for a workload \"w\""),
    ] {
        let GroupResolution::Pending { message: words, .. } = resolve_entry(workload, "w", entry) else {
            panic!("waits")
        };
        assert_eq!(words, want);
    }
}

#[test]
fn every_form_of_group_is_read() {
    let named = |workload: &str, template: &str| {
        Some(TemplateReference {
            workload: workload.into(),
            template: template.into(),
            ..TemplateReference::default()
        })
    };
    let reference = tree!({"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"});
    let all = [
        (PodGroupApi::Proposal, reference.clone(), named("w", "t"), None, None),
        (PodGroupApi::Own, reference, named("w", "t"), None, None),
        (
            PodGroupApi::Released,
            tree!({"workloadRef": {"workloadName": "w", "templateName": "t"}, "schedulingPolicy": policy(2),
                "disruptionMode": {"all": {}}}),
            named("w", "t"),
            Some(gang(2)),
            Some(DisruptionMode::All),
        ),
        (
            PodGroupApi::Earlier,
            tree!({"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                "schedulingPolicy": policy(2), "disruptionMode": "PodGroup"}),
            named("w", "t"),
            Some(gang(2)),
            Some(DisruptionMode::All),
        ),
        (
            PodGroupApi::Earlier,
            tree!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "Pod"}),
            None,
            Some(SchedulingPolicy::Basic),
            Some(DisruptionMode::Single),
        ),
        (PodGroupApi::Coscheduling, tree!({"minMember": 3}), None, Some(gang(3)), None),
        (PodGroupApi::Volcano, tree!({"minMember": 4, "queue": "q"}), None, Some(gang(4)), None),
    ];
    for (origin, spec, reference, policy, disruption) in all {
        let facts = PodGroupFacts::of(origin, &tree!({"metadata": {"uid": "u"}, "spec": spec.clone()}));
        let found = (facts.reference, facts.spec.policy, facts.spec.disruption);
        assert_eq!(found, (reference, policy, disruption), "{origin:?} {spec}");
    }
}

/// Shows: 5832-24.
#[test]
fn deadlines_come_from_where_each_form_has_them() {
    let note = |value: &str| tree!({"metadata": {"annotations": {"scheduling.muster.dev/schedule-timeout-seconds": value}}});
    let secs = |n| Some(Duration::from_secs(n));
    for (origin, tree, want) in [
        (PodGroupApi::Proposal, note("90"), secs(90)),
        (PodGroupApi::Own, note("90"), secs(90)),
        (PodGroupApi::Proposal, note("soon"), None),
        (PodGroupApi::Proposal, note("0"), None),
        (PodGroupApi::Proposal, note("-1"), None),
        (PodGroupApi::Coscheduling, tree!({"spec": {"scheduleTimeoutSeconds": 60}}), secs(60)),
        (PodGroupApi::Coscheduling, tree!({"spec": {}}), None),
    ] {
        assert_eq!(PodGroupFacts::of(origin, &tree).deadline, want, "{origin:?} {tree}");
    }
}

/// Shows: 5832-40.
#[test]
fn pod_and_group_name_one_workload() {
    let member = |workload: Option<&str>| GroupMembership {
        group: GroupId::Native("g".into()),
        workload: workload.map(Text::from),
    };
    let group = proposal(&tree!({}));
    assert_eq!(workload_mismatch(&member(Some("w")), &group), None);
    assert_eq!(workload_mismatch(&member(None), &group), None, "the released form does not say");
    let words = workload_mismatch(&member(Some("v")), &group).expect("they differ");
    assert!(words.contains("\"v\"") && words.contains("\"w\""), "{words}");
}

#[test]
fn kinds_and_finalizers_of_the_forms() {
    let all = [GangApi::Proposal, GangApi::Released, GangApi::Earlier, GangApi::Legacy, GangApi::Own];
    for form in all {
        let groups = form.groups();
        assert_eq!(groups.is_none(), form == GangApi::Legacy);
        if let Some(kind) = groups {
            assert!(PodGroupApi::of(kind).is_some(), "{form:?}");
            assert_eq!((&kind.group, &kind.version), (&form.workloads().group, &form.workloads().version));
        }
    }
    assert_eq!(GangApi::Own.protection_finalizer(), Some("scheduling.muster.dev/podgroup-protection"));
    assert_eq!(GangApi::Proposal.protection_finalizer(), Some("scheduling.k8s.io/podgroup-protection"));
    assert_eq!(GangApi::Released.protection_finalizer(), None, "its server does that");
}

fn seen<'a>(
    enough: Result<usize, &'a str>,
    alive: usize,
    placed: usize,
    verdict: &'a SchedulingResult,
) -> GroupObservation<'a> {
    GroupObservation {
        required: enough,
        alive,
        scheduled: placed,
        scheduled_max: None,
        result: verdict,
        evicted_by: None,
    }
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
fn scheduled_condition_of_a_group() {
    let no = SchedulingResult::None;
    let poor = SchedulingResult::Unschedulable("no room".to_owned());
    let wrong = SchedulingResult::Error("rules".to_owned());
    let late = SchedulingResult::TimedOut("too late".to_owned());
    let held = SchedulingResult::Gated("gates".to_owned());
    let placed = SchedulingResult::Scheduled;
    let (none, r#false) =
        (tree!([]), Tree::list([condition("PodGroupScheduled", "False", "Unschedulable", "no room")]));
    let sticky = Tree::list([condition("PodGroupScheduled", "True", "MinCountSatisfied", DONE)]);
    type Case<'a> = (&'a str, &'a Tree, GroupObservation<'a>, Option<(&'a str, &'a str, &'a str)>);
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
            GroupObservation { scheduled_max: Some(2), ..seen(Ok(2), 1, 1, &no) },
            Some(("True", "MinCountSatisfied", DONE)),
        ),
        (
            "reached and said, and more are wanted now",
            &sticky,
            GroupObservation { scheduled_max: Some(2), ..seen(Ok(3), 2, 2, &no) },
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
        let said = status::desired_condition(PodGroupApi::Proposal, &group, &seen);
        let said = said.as_ref().map(|it| (it.status, it.reason, it.message.as_str()));
        assert_eq!(said, want, "{says}");
    }
}

/// Shows: 5832-20, 5832-22.
#[test]
fn each_api_has_its_own_condition() {
    let (poor, late) =
        (SchedulingResult::Unschedulable("m".to_owned()), SchedulingResult::TimedOut("m".to_owned()));
    let kinds = [
        (PodGroupApi::Proposal, "PodGroupScheduled", "MinCountSatisfied", "SchedulingTimeout", true),
        (PodGroupApi::Own, "PodGroupScheduled", "MinCountSatisfied", "SchedulingTimeout", true),
        (PodGroupApi::Earlier, "PodGroupScheduled", "Scheduled", "Unschedulable", false),
        (PodGroupApi::Released, "PodGroupInitiallyScheduled", "Scheduled", "Unschedulable", false),
    ];
    let now = Time::parse("2026-01-02T00:00:00Z").expect("a time");
    for (origin, kind, reached, too_late, counts) in kinds {
        let bare = with_status(&tree!({}));
        let of = |seen: &GroupObservation<'_>| status::patch(origin, &bare, seen, now);
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
    let done = SchedulingResult::Scheduled;
    let mine = condition("Mine", "True", "R", "m");
    let mut group = with_status(&tree!({"conditions": [(mine.clone())]}));
    let mut step = |enough, placed, at| {
        let patch =
            status::patch(PodGroupApi::Proposal, &group, &seen(Ok(enough), placed, placed, &done), at)?;
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
fn group_eviction_is_reported_once() {
    let (by, no) = (Text::from("default-scheduler"), SchedulingResult::None);
    let mut group = with_status(&tree!({}));
    let seen = GroupObservation { evicted_by: Some(&by), ..seen(Ok(2), 2, 0, &no) };
    let patch = status::patch(PodGroupApi::Proposal, &group, &seen, Time(0)).expect("something to say");
    let said = &patch.items_at(&["status", "conditions"])[0];
    let words = (said.str_at(&["type"]), said.str_at(&["status"]), said.str_at(&["reason"]));
    assert_eq!(words, ("DisruptionTarget", "True", "PreemptionByScheduler"));
    group = group.merge(&patch);
    assert_eq!(status::patch(PodGroupApi::Proposal, &group, &seen, Time(5_000_000)), None);
}

#[test]
fn foreign_pod_groups_get_their_own_status() {
    let no = SchedulingResult::None;
    let phase = |status: Tree, placed| {
        let group = tree!({"spec": {"minMember": 2}, "status": status});
        let patch = status::patch(PodGroupApi::Coscheduling, &group, &seen(Ok(2), 2, placed, &no), Time(0));
        patch.map(|it| (it.text_at(&["status", "phase"]), it.int_at(&["status", "scheduled"])))
    };
    assert_eq!(phase(tree!({}), 0), Some(("Pending".into(), Some(0))));
    assert_eq!(phase(tree!({"phase": "Pending"}), 0), None);
    assert_eq!(phase(tree!({"phase": "Pending"}), 2), Some(("Scheduled".into(), Some(2))));
    assert_eq!(phase(tree!({"phase": "Running", "scheduled": 1}), 2), None, "its own controller goes on");
    let volcano = tree!({"spec": {"minMember": 2, "queue": "q"}});
    let patch =
        status::patch(PodGroupApi::Volcano, &volcano, &seen(Ok(2), 2, 2, &no), Time(0)).expect("said");
    let kinds: Vec<&str> =
        patch.items_at(&["status", "conditions"]).iter().map(|it| it.str_at(&["type"])).collect();
    assert_eq!(kinds, ["Scheduled", "QueueIgnored"]);
}
