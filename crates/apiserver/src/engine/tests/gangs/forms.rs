//! Conversion between `v1alpha1` and `v1beta1`.

use super::*;

/// Shows: 5832-20.
#[test]
fn one_object_has_two_versions() {
    let world = TestEngine::new();
    let both = tree!([{"name": "t", "policy": {"gang": {"minCount": 2}}},
        {"name": "u", "schedulingPolicy": {"basic": {}}},
        {"name": "v", "policy": {"basic": {}}, "schedulingPolicy": {"basic": {}}}]);
    let made = world
        .create(&format!("{ALPHA}/workloads"), with(&workload("w"), "spec.podGroupTemplates", both))
        .unwrap();
    let seen = world.get(&format!("{BETA}/workloads/w")).unwrap();
    let want = tree!([{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": null},
        {"name": "u", "schedulingPolicy": {"basic": {}}, "schedulingConstraints": null},
        {"name": "v", "schedulingPolicy": {"basic": {}}, "schedulingConstraints": null}]);
    assert_eq!(seen.at(&["spec", "podGroupTemplates"]), Some(&want));
    assert_eq!(seen.str_at(&["apiVersion"]), "scheduling.k8s.io/v1beta1");
    let more = with(&want.items()[0], "schedulingPolicy.gang.minCount", 3);
    let list = Tree::list([more, want.items()[1].clone(), want.items()[2].clone()]);
    let changed =
        world.update(&format!("{BETA}/workloads/w"), with(&seen, "spec.podGroupTemplates", list)).unwrap();
    assert_eq!(
        changed.items_at(&["spec", "podGroupTemplates"])[0].int_at(&["schedulingPolicy", "gang", "minCount"]),
        Some(3)
    );
    let back = world.get(&format!("{ALPHA}/workloads/w")).unwrap();
    let before = made.at(&["spec", "podGroupTemplates"]).unwrap();
    let want = before.map_items(|i, t| if i == 0 { gang("t", 3) } else { t.clone() });
    assert_eq!(back.at(&["spec", "podGroupTemplates"]), Some(&want), "each policy under the name it had");
    assert_eq!(back.int_at(&["metadata", "generation"]), Some(2));

    let old = tree!({"metadata": {"name": "old"}, "spec": {"podGroups": [(gang("t", 2))]}});
    let old = world.create(&format!("{ALPHA}/workloads"), old).unwrap();
    let seen = world.get(&format!("{BETA}/workloads/old")).unwrap();
    assert!(seen.at(&["spec", "podGroups"]).is_none(), "the released form has no such list: {seen}");
    world.merge(&format!("{BETA}/workloads/old"), tree!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    assert_eq!(
        world.get(&format!("{ALPHA}/workloads/old")).unwrap().get("spec"),
        old.get("spec"),
        "and keeps it"
    );
}

/// Shows: 5832-20.
#[test]
fn writes_keep_fields_of_the_other_version() {
    let world = TestEngine::new();
    let reference = tree!({"kind": "Workload", "name": "w", "namespace": "default", "uid": "u"});
    let made = world
        .create(&format!("{ALPHA}/podgroups"), with(&group("g"), "spec.workloadRef", reference))
        .unwrap();
    let waiting = condition("PodGroupScheduled", "Unknown", "WaitingForPods");
    let status = |condition: &Tree| tree!({"status": {"scheduledPods": 1, "conditions": [condition]}});
    world.merge(&format!("{ALPHA}/podgroups/g/status"), status(&waiting)).unwrap();
    let seen = world.get(&format!("{BETA}/podgroups/g")).unwrap();
    assert_eq!(
        seen.get("spec"),
        Some(&tree!({"workloadRef": {"workloadName": "w", "templateName": "t"}})),
        "a reference, and no policy"
    );
    assert_eq!(seen.get("status"), Some(&tree!({})), "an undecided condition is not shown");
    assert!(seen.at(&["metadata", "generation"]).is_none());

    let alpha = || world.get(&format!("{ALPHA}/podgroups/g")).unwrap();
    let label = |by: &str| tree!({"metadata": {"labels": {"by": by}}});
    world.merge(&format!("{BETA}/podgroups/g"), label("merge")).unwrap();
    world.patch(&format!("{BETA}/podgroups/g"), Patch::Strategic(body(label("strategic")))).unwrap();
    let live = world.get(&format!("{BETA}/podgroups/g")).unwrap();
    world.update(&format!("{BETA}/podgroups/g"), live.with(&["metadata", "labels", "by"], "update")).unwrap();
    let after = alpha();
    assert_eq!(after.get("spec"), made.get("spec"), "three writes in the other form");
    assert_eq!(
        (after.int_at(&["status", "scheduledPods"]), after.items_at(&["status", "conditions"])),
        (Some(1), [waiting.clone()].as_slice())
    );
    assert_eq!(after.int_at(&["metadata", "generation"]), Some(1));
    let owned = after.items_at(&["metadata", "managedFields"]).iter().map(Tree::to_json).collect::<String>();
    assert!(
        !owned.contains("f:preemptionPolicy")
            && !owned.contains("f:disruptionMode")
            && !owned.contains("f:schedulingPolicy"),
        "fields without a writer have no owner: {owned}"
    );

    let theirs = condition("example.com/Checked", "True", "Looked");
    let write = |conditions: Tree| {
        world
            .merge(&format!("{BETA}/podgroups/g/status"), tree!({"status": {"conditions": conditions}}))
            .unwrap()
    };
    write(tree!([(&theirs)]));
    assert_eq!(
        alpha().items_at(&["status", "conditions"]),
        [theirs.clone(), waiting.clone()],
        "what is open stays"
    );
    assert_eq!(alpha().int_at(&["status", "scheduledPods"]), Some(1));
    let late = condition("PodGroupScheduled", "False", "SchedulingTimeout");
    world.merge(&format!("{ALPHA}/podgroups/g/status"), status(&late)).unwrap();
    let seen = world.get(&format!("{BETA}/podgroups/g")).unwrap();
    let shown = condition("PodGroupInitiallyScheduled", "False", "Unschedulable");
    assert_eq!(seen.items_at(&["status", "conditions"]), std::slice::from_ref(&shown));
    write(tree!([(&shown), (&theirs)]));
    assert_eq!(alpha().items_at(&["status", "conditions"]), [late, theirs.clone()], "and so does the reason");
    let done = condition("PodGroupInitiallyScheduled", "True", "Scheduled");
    write(tree!([done]));
    let stored = condition("PodGroupScheduled", "True", "MinCountSatisfied");
    assert_eq!(alpha().items_at(&["status", "conditions"]), [stored]);
}

/// Shows: 5832-20.
#[test]
fn a_group_is_created_in_v1beta1() {
    let world = TestEngine::new();
    let made = world.create(&format!("{BETA}/podgroups"), released("g")).unwrap();
    let spec = made.get("spec").unwrap();
    assert_eq!(
        (spec.int_at(&["priority"]), spec.get("disruptionMode")),
        (Some(0), Some(&tree!({"single": {}})))
    );
    let seen = world.get(&format!("{ALPHA}/podgroups/g")).unwrap();
    let want = tree!({"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}, "podGroupTemplateName": "t",
        "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"single": {}}, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority"});
    assert_eq!(seen.get("spec"), Some(&want));
    let more = tree!({"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}});
    world.merge(&format!("{ALPHA}/podgroups/g"), more).unwrap();
    let seen = world.get(&format!("{BETA}/podgroups/g")).unwrap();
    assert_eq!(seen.get("spec"), Some(&with(spec, "schedulingPolicy.gang.minCount", 4)), "the count alone");
    let beta = tree!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}]}});
    world.create(&format!("{BETA}/workloads"), beta).unwrap();
    let seen = world.get(&format!("{ALPHA}/workloads/w")).unwrap();
    assert_eq!(
        seen.get("spec"),
        Some(&tree!({"podGroupTemplates": [(gang("t", 2))]})),
        "free of what Go always writes"
    );
    let more = tree!({"spec": {"podGroupTemplates": [(gang("t", 5))]}});
    world.merge(&format!("{ALPHA}/workloads/w"), more).expect("and may change through the other form");
    for (says, path, tree, words) in [
        (
            "no policy",
            "podgroups",
            without(&released("x"), "spec.schedulingPolicy"),
            "spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`",
        ),
        (
            "no Workload's name",
            "podgroups",
            with(&released("x"), "spec.workloadRef", tree!({"templateName": "t"})),
            "spec.workloadRef.workloadName: Required value",
        ),
        (
            "no template's name",
            "podgroups",
            with(&released("x"), "spec.workloadRef", tree!({"workloadName": "w"})),
            "spec.workloadRef.templateName: Required value",
        ),
        (
            "only a hierarchy",
            "workloads",
            tree!({"metadata": {"name": "x"}, "spec": {"compositePodGroupTemplates": [{"name": "c"}]}}),
            "spec: Invalid value: \"\": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`",
        ),
    ] {
        refused(says, world.create(&format!("{BETA}/{path}"), tree), words);
    }
    let changes = [
        (
            "a template more",
            tree!([{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}, {"name": "u", "schedulingPolicy": {"basic": {}}}]),
            "spec.podGroupTemplates[1]: Forbidden: item may not be added",
        ),
        (
            "no template",
            tree!([{"name": "u", "schedulingPolicy": {"basic": {}}}]),
            "spec.podGroupTemplates: Forbidden: item may not be removed",
        ),
        (
            "the other policy",
            tree!([{"name": "t", "schedulingPolicy": {"basic": {}}}]),
            "spec.podGroupTemplates[0].schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
        ),
    ];
    for (says, list, words) in changes {
        refused(
            says,
            world.merge(&format!("{BETA}/workloads/w"), tree!({"spec": {"podGroupTemplates": list}})),
            words,
        );
    }
}
