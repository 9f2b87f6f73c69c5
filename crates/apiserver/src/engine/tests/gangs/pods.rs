//! Pods and templates that refer to their PodGroup.

use super::*;

/// Invalid references, at the path of the pod spec.
fn broken_references() -> Vec<(&'static str, Tree, &'static str)> {
    vec![
        ("no Workload", tree!({"workloadRef": {"podGroupName": "g"}}), "workloadRef.name: Required value"),
        ("no group", tree!({"workloadRef": {"name": "w"}}), "workloadRef.podGroupName: Required value"),
        (
            "a Workload of a bad name",
            tree!({"workloadRef": {"name": "W", "podGroupName": "g"}}),
            "workloadRef.name: Invalid value: \"W\"",
        ),
        (
            "a group of a bad name",
            tree!({"workloadRef": {"name": "w", "podGroupName": "G"}}),
            "workloadRef.podGroupName: Invalid value: \"G\"",
        ),
        (
            "an old group of a bad name",
            tree!({"workloadRef": {"name": "w", "podGroup": "a.b"}}),
            "workloadRef.podGroup: Invalid value: \"a.b\"",
        ),
        (
            "a key of a bad name",
            tree!({"workloadRef": {"name": "w", "podGroup": "a", "podGroupReplicaKey": "K"}}),
            "workloadRef.podGroupReplicaKey: Invalid value: \"K\"",
        ),
        (
            "two groups",
            tree!({"workloadRef": {"name": "w", "podGroupName": "g"}, "schedulingGroup": {"podGroupName": "h"}}),
            "workloadRef.podGroupName: Invalid value: \"g\": must equal ",
        ),
        (
            "an old group and another",
            tree!({"workloadRef": {"name": "w", "podGroup": "g"}, "schedulingGroup": {"podGroupName": "h"}}),
            "workloadRef.podGroup: Forbidden: may not be set together with ",
        ),
        (
            "a later group of a bad name",
            tree!({"schedulingGroup": {"podGroupName": "H"}}),
            "schedulingGroup.podGroupName: Invalid value: \"H\"",
        ),
        (
            "a later group without a name",
            tree!({"schedulingGroup": {}}),
            "schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`",
        ),
    ]
}

/// Shows: 5832-14.
#[test]
fn references_of_pods_and_templates_are_validated_alike() {
    let world = TestEngine::new();
    let put = |tree: &Tree, path: &[&str], fields: &Tree| {
        let spec = fields
            .entries()
            .iter()
            .fold(tree.at(path).unwrap().clone(), |s, (k, v)| s.with_key(k, v.clone()));
        tree.with(path, spec)
    };
    let cron = tree!({"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job("j").get("spec").unwrap()}}});
    let deployment = tree!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod("p").get("spec").unwrap()}}});
    let kinds: [(&str, Tree, &[&str]); 4] = [
        ("-/v1/default/pods", pod("p"), &["spec"]),
        ("batch/v1/default/jobs", job("j"), &["spec", "template", "spec"]),
        ("batch/v1/default/cronjobs", cron, &["spec", "jobTemplate", "spec", "template", "spec"]),
        ("apps/v1/default/deployments", deployment, &["spec", "template", "spec"]),
    ];
    for (path, base, at) in &kinds {
        for (says, fields, words) in broken_references() {
            let place = at.join(".");
            refused(says, world.create(path, put(base, at, &fields)), &format!("{place}.{words}"));
        }
        let fields = tree!({"workloadRef": {"name": "w.x", "podGroupName": "g.x"}, "schedulingGroup": {"podGroupName": "g.x"}});
        let made = world.create(path, put(base, at, &fields)).unwrap();
        assert_eq!(made.at(at).unwrap().get("workloadRef"), fields.get("workloadRef"), "{path}");
    }
    let change = tree!({"spec": {"workloadRef": {"podGroupName": "other"}}});
    refused(
        "another group later",
        world.merge("-/v1/default/pods/p", change.clone()),
        "pod updates may not change fields other than",
    );
    world.create("-/v1/default/pods", pod("single")).unwrap();
    let late = tree!({"spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}});
    refused(
        "a group later",
        world.merge("-/v1/default/pods/single", late),
        "pod updates may not change fields other than",
    );
    let template = tree!({"spec": {"template": change}});
    refused(
        "another group for later pods",
        world.merge("batch/v1/default/jobs/j", template),
        "field is immutable",
    );
}

/// Shows: 5832-15.
#[test]
fn the_replica_key_is_deprecated() {
    let world = TestEngine::new();
    let key = |fields: Tree| pod("p").with(&["spec", "workloadRef"], fields);
    for (says, reference, warned) in [
        ("without", tree!({"name": "w", "podGroupName": "g"}), 0),
        ("an old group without", tree!({"name": "w", "podGroup": "g"}), 0),
        ("with, ignored", tree!({"name": "w", "podGroupName": "g", "podGroupReplicaKey": "k"}), 1),
        ("an old group with", tree!({"name": "w", "podGroup": "g", "podGroupReplicaKey": "k"}), 1),
    ] {
        let pod = key(reference.clone()).with(&["metadata"], tree!({"generateName": "p-"}));
        let reply = world.reply("-/v1/default/pods", WriteAct::Create(body(pod)));
        assert_eq!(reply.warnings.len(), warned, "{says}: {:?}", reply.warnings);
        let job = job("j").with(&["metadata"], tree!({"generateName": "j-"}));
        let job = job.with(&["spec", "template", "spec", "workloadRef"], reference);
        let reply = world.reply("batch/v1/default/jobs", WriteAct::Create(body(job)));
        assert_eq!(reply.warnings.len(), warned, "{says}, in a Job: {:?}", reply.warnings);
        let place = "spec.template.spec.workloadRef.podGroupReplicaKey: deprecated";
        assert!(reply.warnings.iter().all(|words| words.starts_with(place)), "{:?}", reply.warnings);
    }
}

/// Shows: 5832-17.
#[test]
fn strict_field_validation_accepts_the_fields() {
    let world = TestEngine::new();
    let strict = || WriteOptions {
        field_manager: "t".into(),
        field_validation: FieldValidation::Strict,
        ..WriteOptions::default()
    };
    let send = |path: &str, tree: Tree| world.send_with(target(path), WriteAct::Create(body(tree)), strict());
    let member = pod("p").with(&["spec", "workloadRef"], tree!({"name": "w", "podGroupName": "g"}));
    for (path, tree) in [
        ("-/v1/default/pods".to_owned(), member.with(&["spec", "schedulingGroup", "podGroupName"], "g")),
        (format!("{ALPHA}/workloads"), workload("w")),
        (format!("{ALPHA}/podgroups"), group("g")),
        (format!("{BETA}/podgroups"), released("h")),
    ] {
        send(&path, tree).unwrap_or_else(|status| panic!("{path}: {}", status.message));
    }
    for (path, tree, field) in [
        (
            format!("{ALPHA}/podgroups"),
            with(&group("x"), "spec.workloadRef.workloadName", "w"),
            "spec.workloadRef.workloadName",
        ),
        (
            format!("{BETA}/podgroups"),
            with(&released("x"), "spec.podGroupTemplateName", "t"),
            "spec.podGroupTemplateName",
        ),
        (
            format!("{BETA}/workloads"),
            tree!({"metadata": {"name": "x"}, "spec": {"podGroups": []}}),
            "spec.podGroups",
        ),
        (format!("{ALPHA}/workloads"), with(&workload("x"), "status", tree!({})), "status"),
    ] {
        let refused = send(&path, tree).unwrap_err();
        let words = format!("strict decoding error: unknown field {field:?}");
        assert!(refused.code == 400 && refused.message.contains(&words), "{path}: {}", refused.message);
    }
}
