//! The forms side by side, names at their limits, and what a change of size touches.

use super::*;
use crate::kinds;

fn maker() -> GangOwner {
    GangOwner::of(
        &kinds::JOBS,
        "Job",
        &tree!({"metadata": {"name": "train", "namespace": "n", "uid": "job-uid"}}),
    )
}

fn gangs(form: GangApi, mark: GroupMarker) -> GangSupport {
    GangSupport { api: form, marker: mark }
}

/// Shows: 5832-45.
#[test]
fn a_workload_in_each_form() {
    let templates = [
        PodGroupTemplate::new("a", TemplatePolicy::Gang { min: 2 }),
        PodGroupTemplate::new("b", TemplatePolicy::Basic),
    ];
    for (form, version, list, policy) in [
        (GangApi::Proposal, "scheduling.k8s.io/v1alpha1", "podGroupTemplates", "policy"),
        (GangApi::Released, "scheduling.k8s.io/v1beta1", "podGroupTemplates", "schedulingPolicy"),
        (GangApi::Earlier, "scheduling.k8s.io/v1alpha2", "podGroupTemplates", "schedulingPolicy"),
        (GangApi::Legacy, "scheduling.k8s.io/v1alpha1", "podGroups", "policy"),
        (GangApi::Own, "scheduling.muster.dev/v1alpha1", "podGroupTemplates", "policy"),
    ] {
        let made = workload(form, &maker(), &"w".into(), &templates);
        assert_eq!((made.str_at(&["apiVersion"]), made.str_at(&["kind"])), (version, "Workload"), "{form:?}");
        assert_eq!(
            made.at(&["spec", "controllerRef"]),
            Some(&tree!({"apiGroup": "batch", "kind": "Job", "name": "train"}))
        );
        let owner = meta::controller_of(&made).unwrap();
        assert_eq!(
            (owner.uid.as_str(), owner.block_owner_deletion, meta::owner_references(&made).count()),
            ("job-uid", true, 1)
        );
        let list = made.items_at(&["spec", list]);
        assert_eq!(list[0].at(&[policy]), Some(&tree!({"gang": {"minCount": 2}})), "{form:?}");
        assert_eq!(list[1].at(&[policy]), Some(&tree!({"basic": {}})), "{form:?}");
        let read: Vec<_> =
            ["a", "b"].iter().map(|name| PodGroupTemplate::find(&made, name).unwrap()).collect();
        assert_eq!(read, templates, "{form:?}");
        assert!(is_for(&made, "batch", "Job", "train") && !is_for(&made, "batch", "Job", "other"));
    }
}

/// Shows: 5832-45.
#[test]
fn a_group_in_each_form() {
    let template = PodGroupTemplate {
        passthrough: tree!({"disruptionMode": {"all": {}}}),
        ..PodGroupTemplate::new("t", TemplatePolicy::Gang { min: 3 })
    };
    let both = tree!({"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}, "podGroupTemplateName": "t"});
    let gang = tree!({"gang": {"minCount": 3}});
    for (form, owners, spec) in [
        (GangApi::Proposal, 1, both.clone()),
        (GangApi::Own, 1, both),
        (
            GangApi::Released,
            2,
            tree!({"workloadRef": {"workloadName": "w", "templateName": "t"}, "schedulingPolicy": gang.clone(),
                "disruptionMode": {"all": {}}}),
        ),
        (
            GangApi::Earlier,
            2,
            tree!({"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                "schedulingPolicy": gang, "disruptionMode": "PodGroup"}),
        ),
    ] {
        let (name, workload, uid) = ("g".into(), "w".into(), "w-uid".into());
        let new = NewPodGroup {
            name: &name,
            workload: &workload,
            workload_uid: Some(&uid),
            template: &template,
            labels: Tree::empty_map(),
        };
        let made = group(form, &maker(), &new);
        assert_eq!(made.at(&["spec"]), Some(&spec), "{form:?}");
        assert_eq!(workload_of(&made), "w", "{form:?}");
        let all: Vec<OwnerReference> = meta::owner_references(&made).collect();
        assert_eq!(all.len(), owners, "{form:?}");
        assert!(all[0].controller && all[0].block_owner_deletion && all[0].uid == "job-uid");
        assert!(
            all.iter().skip(1).all(|it| !it.controller && !it.block_owner_deletion && it.uid == "w-uid"),
            "{form:?}"
        );
        let alone = group(form, &maker(), &NewPodGroup { workload_uid: None, ..new });
        assert_eq!(meta::owner_references(&alone).count(), 1, "a Workload of another does not own it");
    }
}

#[test]
fn a_pod_joins_in_each_form() {
    let member = PodGroupMember {
        workload: "w".into(),
        template: "t".into(),
        group: "g".into(),
        group_uid: Some("g-uid".into()),
    };
    let pod = tree!({"metadata": {"labels": {"a": "b"}, "ownerReferences": [{"uid": "job-uid", "controller": true}]},
        "spec": {"containers": []}});
    let hash = names::group_hash("g");
    for (form, mark, want, owners) in [
        (
            GangApi::Proposal,
            GroupMarker::Field,
            tree!({"spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}}),
            1,
        ),
        (
            GangApi::Released,
            GroupMarker::Field,
            tree!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}),
            2,
        ),
        (
            GangApi::Earlier,
            GroupMarker::Field,
            tree!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}),
            2,
        ),
        (
            GangApi::Legacy,
            GroupMarker::Field,
            tree!({"spec": {"workloadRef": {"name": "w", "podGroup": "t", "podGroupReplicaKey": "g"}}}),
            1,
        ),
        (
            GangApi::Own,
            GroupMarker::Annotations,
            tree!({"metadata": {"annotations": {"scheduling.muster.dev/pod-group": "g",
                "scheduling.muster.dev/workload": "w"}, "labels": {"scheduling.muster.dev/pod-group-hash": &hash}}}),
            1,
        ),
    ] {
        let gangs = gangs(form, mark);
        let marked = member.mark_template(gangs, &pod);
        assert_eq!(marked, pod.merge(&want), "{form:?}");
        assert_eq!((names_group(&marked), group_of(&marked)), (true, Some("g".into())), "{form:?}");
        assert_eq!(member.mark_template(gangs, &marked), marked, "once is enough");
        assert_eq!(meta::owner_references(&member.mark_pod(gangs, &pod)).count(), owners, "{form:?}");
    }
    assert_eq!((names_group(&pod), group_of(&pod), hash.len()), (false, None, 16));
}

/// Shows: 5832-54.
#[test]
fn a_change_of_size_touches_one_number() {
    let templates = [
        PodGroupTemplate::new("a", TemplatePolicy::Gang { min: 2 }),
        PodGroupTemplate::new("b", TemplatePolicy::Basic),
    ];
    for form in [GangApi::Proposal, GangApi::Released, GangApi::Own] {
        let made = workload(form, &maker(), &"w".into(), &templates);
        let patch = resize_template(&made, "a", 8).unwrap();
        let after = made.merge(&patch);
        let larger = [PodGroupTemplate::new("a", TemplatePolicy::Gang { min: 8 }), templates[1].clone()];
        assert_eq!(after, workload(form, &maker(), &"w".into(), &larger), "{form:?}");
        for (template, min) in [("a", 2), ("b", 3), ("c", 3), ("a", 0)] {
            assert_eq!(resize_template(&made, template, min), None, "{template} {min}");
        }
    }
    let inline = tree!({"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
    assert_eq!(
        inline.merge(&resize_group(&inline, 3).unwrap()).int_at(&[
            "spec",
            "schedulingPolicy",
            "gang",
            "minCount"
        ]),
        Some(3)
    );
    assert_eq!(resize_group(&inline, 2), None);
    assert_eq!(resize_group(&tree!({"spec": {"schedulingPolicy": {"basic": {}}}}), 2), None);
}

/// Shows: 5832-53.
#[test]
fn names_are_short_enough_and_stay_apart() {
    let long = "a".repeat(260);
    let dotted = format!("{}.{}", "a".repeat(241), "b".repeat(20));
    let fits = |name: &str, max: usize| {
        assert!(name.len() <= max, "{}: {name}", name.len());
        assert!(!name.contains(".-") && !name.contains("-."), "{name}");
    };
    for name in ["j", &long, &dotted] {
        fits(&names::job_workload(name, "u"), 253);
        fits(&names::hashed(name, "u"), 253);
        fits(&names::job_template(name), 63);
        fits(&names::label(name), 63);
        for template in ["t", &"t".repeat(63), &long] {
            fits(&names::job_group(name, template, "u"), 253);
        }
        for attempt in [0, 7] {
            fits(&names::set_group(name, "workers", Some(12), attempt), 253);
        }
    }
    assert!(
        names::job_group(&long, &"t".repeat(63), "u").contains(&"t".repeat(63)),
        "the short part stays whole"
    );
    assert_ne!(names::job_workload("j", "u"), names::job_workload("j", "v"), "another Job of the name");
    assert_ne!(names::job_group("w", "t", "u"), names::job_group("w", "t", "v"), "two Jobs of one template");
    assert_eq!(names::job_template("train"), "train-pgt-0");
    assert_eq!(names::job_template("a.b"), "a-b-pgt-0");
    for (rjob, index, attempt, want) in [
        ("", None, 0, "s"),
        ("", None, 2, "s-r2"),
        ("w", None, 0, "s-w"),
        ("w", None, 1, "s-w-r1"),
        ("w", Some(3), 0, "s-w-3"),
        ("w", Some(3), 1, "s-w-3-r1"),
    ] {
        assert_eq!(names::set_group("s", rjob, index, attempt), want);
    }
}

/// Shows: 5832-55.
#[test]
fn min_count_never_exceeds_the_possible_pods_and_is_lowered_only_while_pods_wait() {
    let cases = [
        ("nothing to do", 4, 4, true, 4, None),
        ("scaled up", 8, 8, true, 4, Some(8)),
        ("scaled down", 2, 4, false, 4, Some(2)),
        ("some pods completed, none is waiting", 4, 2, false, 4, None),
        ("some pods completed, others are waiting", 4, 2, true, 4, Some(2)),
        ("min_count is up to date", 4, 2, true, 2, None),
        ("all pods are to be recreated", 4, 4, true, 2, Some(4)),
        ("scaled down after some pods completed", 3, 1, false, 4, Some(1)),
        ("zero is not a valid min_count", 0, 0, true, 4, Some(1)),
        ("never below one", 0, 0, false, 1, None),
    ];
    for (name, requested, possible, waiting, old, want) in cases {
        assert_eq!(MinCountUpdate { requested, possible, waiting }.new_min_count(old), want, "{name}");
    }
}
