//! Mutability of Workloads and PodGroups, per subresource and verb.

use super::*;

/// Shows: 5832-07, 5832-13.
#[test]
fn mutable_and_immutable_fields() {
    let world = TestEngine::new();
    let two = tree!([(gang("t", 2)), {"name": "u", "schedulingPolicy": {"basic": {}}}]);
    let base = with(&workload("w"), "spec.podGroupTemplates", two);
    let base = with(&base, "spec.controllerRef", tree!({"apiGroup": "batch", "kind": "Job", "name": "j"}));
    let made = world.create(&format!("{ALPHA}/workloads"), base.clone()).unwrap();
    let path = format!("{ALPHA}/workloads/w");
    let u = tree!({"name": "u", "schedulingPolicy": {"basic": {}}});
    let templates = |list: Tree| tree!({"spec": {"podGroupTemplates": list}});
    for (says, patch, words) in [
        (
            "another owner",
            tree!({"spec": {"controllerRef": {"name": "k"}}}),
            "spec.controllerRef: Invalid value: {\"apiGroup\":\"batch\",\"kind\":\"Job\",\"name\":\"k\"}: field is immutable",
        ),
        (
            "no owner",
            tree!({"spec": {"controllerRef": null}}),
            "spec.controllerRef: Invalid value: null: field is immutable",
        ),
        (
            "a template more",
            templates(tree!([(gang("t", 2)), (&u), (gang("v", 1))])),
            "spec.podGroupTemplates: Invalid value: [\"t\",\"u\",\"v\"]: field is immutable: templates cannot be added or removed",
        ),
        (
            "a template less",
            templates(tree!([(gang("t", 2))])),
            "field is immutable: templates cannot be added or removed",
        ),
        (
            "another name",
            templates(tree!([(gang("s", 2)), (&u)])),
            "field is immutable: templates cannot be added or removed",
        ),
        (
            "the other policy",
            templates(tree!([{"name": "t", "policy": {"basic": {}}}, (&u)])),
            "spec.podGroupTemplates[0].policy: Invalid value: {\"basic\":{}}: field is immutable",
        ),
        (
            "a count that is none",
            templates(tree!([(gang("t", 0)), (&u)])),
            "spec.podGroupTemplates[0].policy.gang.minCount: Required value",
        ),
        (
            "a mode for the future",
            templates(tree!([(gang("t", 2).with_key("disruptionMode", tree!({"all": {}}))), (&u)])),
            "spec.podGroupTemplates[0].disruptionMode: Invalid value: {\"all\":{}}: field is immutable",
        ),
        (
            "the list of old",
            tree!({"spec": {"podGroupTemplates": null, "podGroups": [(gang("t", 2))]}}),
            "field is immutable",
        ),
    ] {
        refused(says, world.merge(&path, patch), words);
    }
    let uid = made.text_at(&["metadata", "uid"]);
    for (says, list) in [
        ("more", tree!([(gang("t", 8)), (&u)])),
        ("fewer", tree!([(gang("t", 1)), (&u)])),
        ("in another order", tree!([(&u), (gang("t", 3))])),
        ("under the other name", tree!([(&u), {"name": "t", "schedulingPolicy": {"gang": {"minCount": 3}}}])),
    ] {
        let changed =
            world.merge(&path, templates(list.clone())).unwrap_or_else(|s| panic!("{says}: {}", s.message));
        assert_eq!(changed.at(&["spec", "podGroupTemplates"]), Some(&list), "{says}: kept as it was written");
        assert_eq!(changed.text_at(&["metadata", "uid"]), uid);
    }
    assert_eq!(world.get(&path).unwrap().int_at(&["metadata", "generation"]), Some(5));
    let later = world.create(&format!("{ALPHA}/workloads"), workload("later")).unwrap();
    assert!(later.at(&["spec", "controllerRef"]).is_none());
    let owner = tree!({"spec": {"controllerRef": {"kind": "Job", "name": "j"}}});
    world.merge(&format!("{ALPHA}/workloads/later"), owner).expect("controllerRef may be set later, once");
}

/// Shows: 5832-07.
#[test]
fn references_of_groups_are_immutable() {
    let world = TestEngine::new();
    world.create(&format!("{ALPHA}/podgroups"), group("g")).unwrap();
    let inline = with(&group("i"), "spec.schedulingPolicy", tree!({"gang": {"minCount": 2}}));
    world.create(&format!("{ALPHA}/podgroups"), inline).unwrap();
    for (name, says, patch, words) in [
        (
            "g",
            "another Workload",
            tree!({"workloadRef": {"name": "x"}}),
            "spec.workloadRef: Invalid value: {\"name\":\"x\"}: field is immutable",
        ),
        (
            "g",
            "more of the same Workload",
            tree!({"workloadRef": {"uid": "x"}}),
            "spec.workloadRef: Invalid value",
        ),
        (
            "g",
            "no Workload",
            tree!({"workloadRef": null}),
            "spec.workloadRef: Invalid value: null: field is immutable",
        ),
        (
            "g",
            "another template",
            tree!({"podGroupTemplateRef": {"name": "x"}, "podGroupTemplateName": "x"}),
            "spec.podGroupTemplateName: Invalid value: \"x\": field is immutable",
        ),
        (
            "g",
            "another template, once",
            tree!({"podGroupTemplateName": "x"}),
            "spec.podGroupTemplateName: Invalid value: \"x\": field is immutable",
        ),
        (
            "g",
            "a policy of its own",
            tree!({"schedulingPolicy": {"basic": {}}}),
            "spec.schedulingPolicy: Invalid value: {\"basic\":{}}: field is immutable",
        ),
        (
            "g",
            "a mode",
            tree!({"disruptionMode": {"single": {}}}),
            "spec.disruptionMode: Invalid value: {\"single\":{}}: field is immutable",
        ),
        (
            "g",
            "a topology",
            tree!({"schedulingConstraints": {"topology": [{"key": "a"}]}}),
            "spec.schedulingConstraints: Invalid value",
        ),
        (
            "g",
            "a claim",
            tree!({"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]}),
            "spec.resourceClaims: Invalid value",
        ),
        (
            "g",
            "a class",
            tree!({"priorityClassName": "system-node-critical"}),
            "spec.priorityClassName: Invalid value: \"system-node-critical\": field is immutable",
        ),
        ("g", "a priority", tree!({"priority": 3}), "spec.priority: Invalid value: 3: field is immutable"),
        (
            "g",
            "a preemption policy",
            tree!({"preemptionPolicy": "Never"}),
            "spec.preemptionPolicy: Invalid value: \"Never\": field is immutable",
        ),
        (
            "i",
            "no policy",
            tree!({"schedulingPolicy": null}),
            "spec.schedulingPolicy: Invalid value: null: field is immutable",
        ),
        (
            "i",
            "the other policy",
            tree!({"schedulingPolicy": {"basic": {}, "gang": null}}),
            "spec.schedulingPolicy: Invalid value: {\"basic\":{}}: field is immutable",
        ),
        (
            "i",
            "a count that is none",
            tree!({"schedulingPolicy": {"gang": {"minCount": -1}}}),
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1",
        ),
    ] {
        refused(says, world.merge(&format!("{ALPHA}/podgroups/{name}"), tree!({"spec": patch})), words);
    }
    let more = tree!({"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}});
    let changed = world.merge(&format!("{ALPHA}/podgroups/i"), more).expect("the count may change");
    assert_eq!(changed.int_at(&["metadata", "generation"]), Some(2));
    let whole = world.get(&format!("{ALPHA}/podgroups/g")).unwrap();
    let one = without(&whole, "spec.podGroupTemplateRef");
    let same =
        world.update(&format!("{ALPHA}/podgroups/g"), one).expect("one spelling is enough for a replacement");
    assert_eq!(same, whole);
    let blind = world.update(&format!("{ALPHA}/podgroups/g"), group("g"));
    refused(
        "a replacement that saw nothing",
        blind,
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    );
}

/// Shows: 5832-02, 5832-03.
#[test]
fn spec_and_status_are_separate_subresources() {
    let world = TestEngine::new();
    let status = tree!({"scheduledPods": 2, "conditions": [(condition("PodGroupScheduled", "True", "MinCountSatisfied"))]});
    let made =
        world.create(&format!("{ALPHA}/podgroups"), group("g").with_key("status", status.clone())).unwrap();
    assert!(made.at(&["status", "scheduledPods"]).is_none(), "a new group has no status: {made}");
    let path = format!("{ALPHA}/podgroups/g");
    let both =
        tree!({"metadata": {"labels": {"a": "b"}}, "spec": {"podGroupTemplateName": "x"}, "status": &status});
    let told = world.merge(&format!("{path}/status"), both).expect("only the status counts there");
    assert_eq!((told.get("status"), told.get("spec")), (Some(&status), made.get("spec")));
    assert!(
        told.at(&["metadata", "labels"]).is_none() && told.int_at(&["metadata", "generation"]) == Some(1)
    );
    let more = tree!({"metadata": {"labels": {"a": "b"}}, "status": {"scheduledPods": 7}});
    let labelled = world.merge(&path, more).expect("only the rest counts here");
    assert_eq!((labelled.get("status"), labelled.str_at(&["metadata", "labels", "a"])), (Some(&status), "b"));
    let blank = world.update(&path, without(&labelled, "status")).unwrap();
    assert_eq!(blank, labelled, "a replacement without a status keeps it");
    let entries = labelled.items_at(&["metadata", "managedFields"]);
    let of = |sub: &str| entries.iter().filter(|entry| entry.str_at(&["subresource"]) == sub).count();
    assert_eq!((of("status"), of("")), (1, 1));
    let workload = world.create(&format!("{ALPHA}/workloads"), workload("w")).unwrap();
    assert_eq!(world.merge(&format!("{ALPHA}/workloads/w/status"), tree!({})).unwrap_err().code, 404);
    assert_eq!(
        world.get(&format!("{ALPHA}/workloads/w")).unwrap(),
        workload,
        "Workloads have no status subresource"
    );
}

/// Shows: 5832-08.
#[test]
fn conditions_are_merged_by_type() {
    let world = TestEngine::new();
    world.create(&format!("{ALPHA}/podgroups"), group("g")).unwrap();
    let path = format!("{ALPHA}/podgroups/g/status");
    let applied = |conditions: Tree| {
        tree!({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"},
            "status": {"conditions": conditions}})
    };
    let ours = condition("PodGroupScheduled", "Unknown", "WaitingForPods");
    let theirs = condition("example.com/Checked", "True", "Looked");
    world.apply(&path, "scheduler", applied(tree!([(&ours)]))).unwrap();
    let both = world.apply(&path, "checker", applied(tree!([(&theirs)]))).unwrap();
    assert_eq!(
        both.items_at(&["status", "conditions"]),
        [ours.clone(), theirs.clone()],
        "two managers, two types"
    );
    let gone = world.apply(&path, "checker", applied(tree!([]))).unwrap();
    assert_eq!(
        gone.items_at(&["status", "conditions"]),
        std::slice::from_ref(&ours),
        "an applier that omits its conditions removes them"
    );
    let changed = ours.with(&["status"], "False").with(&["reason"], "Unschedulable");
    let merged = Patch::Strategic(body(tree!({"status": {"conditions": [(&changed), (&theirs)]}})));
    let after = world.patch(&path, merged).unwrap();
    let after = after.items_at(&["status", "conditions"]);
    assert!(after.len() == 2 && after.contains(&changed) && after.contains(&theirs), "a merge is by type");
    let words = [
        (
            "a type that is none",
            tree!([(with(&theirs, "type", "bad type!"))]),
            "status.conditions[0].type: Invalid value: \"bad type!\"",
        ),
        ("no type", tree!([(with(&theirs, "type", ""))]), "status.conditions[0].type: Required value"),
        (
            "a status that is none",
            tree!([(with(&theirs, "status", "Maybe"))]),
            "status.conditions[0].status: Unsupported value: \"Maybe\"",
        ),
        ("no reason", tree!([(with(&theirs, "reason", ""))]), "status.conditions[0].reason: Required value"),
        (
            "a reason that is none",
            tree!([(with(&theirs, "reason", "two words"))]),
            "status.conditions[0].reason: Invalid value: \"two words\": a condition reason must start",
        ),
        (
            "no time",
            tree!([(without(&theirs, "lastTransitionTime"))]),
            "status.conditions[0].lastTransitionTime: Required value",
        ),
        (
            "a generation before the first",
            tree!([(with(&theirs, "observedGeneration", -1))]),
            "status.conditions[0].observedGeneration: Invalid value: -1",
        ),
        (
            "one type twice",
            tree!([(&theirs), (&theirs)]),
            "status.conditions[1]: Duplicate value: \"example.com/Checked\"",
        ),
    ];
    for (says, conditions, words) in words {
        refused(says, world.merge(&path, tree!({"status": {"conditions": conditions}})), words);
    }
    let claims = tree!({"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}});
    refused(
        "a claim that is not there",
        world.merge(&path, claims),
        "status.resourceClaimStatuses[0].name: Invalid value: \"c\": must match the name of an entry in `spec.resourceClaims`",
    );
    let wrong = world.merge(&path, tree!({"status": {"scheduledPods": "two"}})).unwrap_err();
    assert!(wrong.message.contains("scheduledPods"), "a number is a number: {}", wrong.message);
    let huge = world.merge(&path, tree!({"status": {"scheduledPods": 3_000_000_000_i64}})).unwrap_err();
    assert!(huge.message.contains("int32"), "of 32 bits: {}", huge.message);
}

/// Shows: 5832-19.
#[test]
fn every_verb_of_both_kinds() {
    for (version, group) in [(ALPHA, group("a")), (BETA, released("a"))] {
        let beta = version == BETA;
        let workload = if beta {
            tree!({"metadata": {"name": "a"}, "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}})
        } else {
            workload("a")
        };
        for (plural, made) in [("podgroups", group.clone()), ("workloads", workload)] {
            let world = TestEngine::new();
            let all = format!("{version}/{plural}");
            let one = format!("{all}/a");
            let first = world.create(&all, made.clone()).unwrap();
            assert_eq!(world.get(&one).unwrap(), first);
            let changed = world.update(&one, first.with(&["metadata", "labels", "by"], "update")).unwrap();
            assert_eq!(changed.str_at(&["metadata", "labels", "by"]), "update");
            let label = |by: &str| tree!({"metadata": {"labels": {"by": by}}});
            let operations = tree!([{"op": "replace", "path": "/metadata/labels/by", "value": "json"}]);
            for (by, patch) in [
                ("merge", Patch::Merge(body(label("merge")))),
                ("strategic", Patch::Strategic(body(label("strategic")))),
                ("json", Patch::Json(body(operations))),
            ] {
                assert_eq!(
                    world.patch(&one, patch).unwrap().str_at(&["metadata", "labels", "by"]),
                    by,
                    "{one}"
                );
            }
            let applied = tree!({"apiVersion": first.text_at(&["apiVersion"]), "kind": first.text_at(&["kind"]),
                "metadata": {"name": "a", "annotations": {"by": "apply"}}});
            let applied = world.apply(&one, "me", applied).unwrap();
            assert_eq!(applied.str_at(&["metadata", "annotations", "by"]), "apply");
            assert_eq!(applied.get("spec"), first.get("spec"), "{one}: none of them touched the spec");
            let listed = world.engine.list(&target(&all), &ListOptions::default()).unwrap().objects;
            assert_eq!(listed.len(), 1);
            assert_eq!(world.delete(&one, DeleteOptions::default()).unwrap().str_at(&["status"]), "Success");
            assert_eq!(world.get(&one).unwrap_err().code, 404);
            for name in ["b", "c"] {
                world.create(&all, made.with(&["metadata", "name"], name)).unwrap();
            }
            let act = WriteAct::DeleteCollection(DeleteOptions::default(), ListOptions::default());
            let ReplyObject::Objects(gone, _) = world.reply(&all, act).shown else { panic!("a list") };
            assert_eq!(gone.len(), 2);
            assert_eq!(world.get(&format!("{all}/b")).unwrap_err().code, 404);
        }
    }
}
