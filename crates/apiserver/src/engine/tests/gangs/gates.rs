//! Feature gates of the gang scheduling API, switched off and on.

use muster_tree::{Tree, tree};

use super::super::TestEngine;
use super::super::kinds::{job, pod};
use crate::engine::EngineOptions;
use crate::kinds::GangFeatures;
use crate::request::DeleteOptions;

const GROUPS: &str = "scheduling.k8s.io/v1alpha1/default/podgroups";
const WORKLOADS: &str = "scheduling.k8s.io/v1alpha1/default/workloads";

fn serving(workloads: bool, groups: bool) -> EngineOptions {
    EngineOptions { gangs: GangFeatures { workloads, groups }, ..EngineOptions::default() }
}

fn group(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}})
}

fn workload(name: &str) -> Tree {
    let templates = tree!([{"name": "t", "policy": {"gang": {"minCount": 2}}}]);
    tree!({"metadata": {"name": name}, "spec": {"podGroupTemplates": templates}})
}

/// The stored references of a pod: (workloadRef, schedulingGroup).
fn arrives(world: &TestEngine, name: &str, workload: Tree) -> (Option<Tree>, bool) {
    let pod = pod(name).with(&["spec", "workloadRef"], workload);
    let made = world.create("-/v1/default/pods", pod).unwrap();
    let other = self::pod(&format!("{name}-later")).with(&["spec", "schedulingGroup", "podGroupName"], "g");
    let other = world.create("-/v1/default/pods", other).unwrap();
    (made.at(&["spec", "workloadRef"]).cloned(), other.at(&["spec", "schedulingGroup"]).is_some())
}

/// Shows: 5832-56, 5832-60.
#[test]
fn a_gated_kind_is_unknown_and_its_fields_are_dropped() {
    let (new, old) = (tree!({"name": "w", "podGroupName": "g"}), tree!({"name": "w", "podGroup": "g"}));
    let mixed = tree!({"name": "w", "podGroupName": "g", "podGroup": "g"});
    for (workloads, groups, served, kept) in [
        (true, true, (true, true), [true, true, true, true]),
        (true, false, (true, false), [false, true, false, false]),
        (false, false, (false, false), [false, false, false, false]),
    ] {
        let world = TestEngine::new().restarted(serving(workloads, groups));
        for (path, on, tree) in [(WORKLOADS, served.0, workload("w")), (GROUPS, served.1, group("g"))] {
            let made = world.create(path, tree);
            match made {
                Ok(_) => assert!(on, "{path} is off"),
                Err(status) => assert!(!on && status.code == 404, "{path}: {}", status.message),
            }
            let plural = path.rsplit('/').next().unwrap();
            for version in ["v1alpha1", "v1beta1"] {
                let found = world.engine.registry().find("scheduling.k8s.io", version, plural);
                assert_eq!(found.is_some(), on, "{plural} in {version}");
            }
        }
        let found = [("new", &new), ("old", &old), ("mixed", &mixed)].map(|(name, reference)| {
            let (arrived, later) = arrives(&world, name, reference.clone());
            assert!(arrived.as_ref().is_none_or(|arrived| arrived == reference), "whole or not at all");
            (arrived.is_some(), later)
        });
        assert_eq!(
            [found[0].0, found[1].0, found[2].0, found[0].1],
            kept,
            "workloads {workloads}, groups {groups}"
        );
        let job = job("j").with(&["spec", "template", "spec", "workloadRef"], new.clone());
        let made = world.create("batch/v1/default/jobs", job).unwrap();
        assert_eq!(
            made.at(&["spec", "template", "spec", "workloadRef"]).is_some(),
            kept[0],
            "templates alike"
        );
    }
}

/// Shows: 5832-56, 5832-59.
#[test]
fn stored_data_survives_switching_the_gates() {
    let on = TestEngine::new();
    on.create(WORKLOADS, workload("w")).unwrap();
    let made = on.create(GROUPS, group("g")).unwrap();
    let member = pod("p").with(&["spec", "workloadRef"], tree!({"name": "w", "podGroupName": "g"}));
    let member = on.create("-/v1/default/pods", member).unwrap();

    let off = on.restarted(serving(true, false));
    assert_eq!(off.get(&format!("{GROUPS}/g")).unwrap_err().code, 404, "unseen");
    let listed =
        crate::discovery::resource_list(off.engine.registry().all(), "scheduling.k8s.io", "v1alpha1")
            .unwrap();
    let names: Vec<&str> = listed.items_at(&["resources"]).iter().map(|r| r.str_at(&["name"])).collect();
    assert_eq!(names, ["workloads"]);
    let label = tree!({"metadata": {"labels": {"a": "b"}}});
    let labelled = off.merge("-/v1/default/pods/p", label.clone()).expect("members go on as they are");
    assert_eq!(labelled.get("spec"), member.get("spec"), "an update keeps the field that is stored");
    let whole = off.update("-/v1/default/pods/p", labelled.clone()).unwrap();
    assert_eq!(whole, labelled);

    let on = off.restarted(serving(true, true));
    assert_eq!(on.get(&format!("{GROUPS}/g")).unwrap(), made, "as it was");
    on.merge(&format!("{GROUPS}/g"), label).expect("and counts");

    let none = on.restarted(serving(false, false));
    assert_eq!(none.get(&format!("{WORKLOADS}/w")).unwrap_err().code, 404);
    let left = crate::discovery::group(none.engine.registry().all(), "scheduling.k8s.io").unwrap();
    let versions: Vec<&str> = left.items_at(&["versions"]).iter().map(|v| v.str_at(&["version"])).collect();
    assert_eq!(versions, ["v1"], "only priority classes are left");
    let on = none.restarted(serving(true, true));
    assert_eq!(on.get(&format!("{GROUPS}/g")).unwrap().get("spec"), made.get("spec"));
    assert!(on.get(&format!("{WORKLOADS}/w")).is_ok());
}

/// Shows: 5832-59.
#[test]
fn groups_of_deleted_namespaces_are_collected() {
    let on = TestEngine::new();
    on.create("-/v1/-/namespaces", tree!({"metadata": {"name": "gone"}})).unwrap();
    let elsewhere = GROUPS.replace("default", "gone");
    on.create(&elsewhere, group("g")).unwrap();
    on.create(GROUPS, group("g")).unwrap();
    let off = on.restarted(serving(true, false));
    off.delete("-/v1/-/namespaces/gone", DeleteOptions::default()).unwrap();
    let namespace = off.get("-/v1/-/namespaces/gone").unwrap();
    let free = namespace.with(&["spec"], tree!({}));
    off.update("-/v1/-/namespaces/gone/finalize", free).unwrap();
    assert_eq!(
        off.get("-/v1/-/namespaces/gone").unwrap_err().code,
        404,
        "the namespace is deleted without its groups"
    );
    let on = off.restarted(serving(true, true));
    assert_eq!(on.get(&format!("{elsewhere}/g")).unwrap_err().code, 404);
    assert!(on.get(&format!("{GROUPS}/g")).is_ok(), "others stay");
}

#[test]
fn groups_are_protected_if_a_controller_removes_the_finalizer() {
    let finalizers = |world: &TestEngine, path: &str, tree: Tree| -> Vec<String> {
        let made = world.create(path, tree).unwrap();
        made.items_at(&["metadata", "finalizers"])
            .iter()
            .filter_map(|f| f.as_str().map(str::to_owned))
            .collect()
    };
    let world = TestEngine::new();
    assert!(finalizers(&world, GROUPS, group("a")).is_empty());
    let world = world.restarted(EngineOptions { pod_group_protection: true, ..EngineOptions::default() });
    let own = "scheduling.k8s.io/podgroup-protection";
    assert_eq!(finalizers(&world, GROUPS, group("b")), [own]);
    let has = group("c").with(&["metadata", "finalizers"], tree!([own, "example.com/mine"]));
    assert_eq!(finalizers(&world, GROUPS, has), [own, "example.com/mine"], "once is enough");
    assert!(finalizers(&world, WORKLOADS, workload("w")).is_empty());
    world.delete(&format!("{GROUPS}/b"), DeleteOptions::default()).unwrap();
    let leaving = world.get(&format!("{GROUPS}/b")).expect("it waits");
    assert!(leaving.at(&["metadata", "deletionTimestamp"]).is_some());
    world.merge(&format!("{GROUPS}/b"), tree!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(world.get(&format!("{GROUPS}/b")).unwrap_err().code, 404);
    let off = EngineOptions {
        pod_group_protection: true,
        disabled_admission_plugins: vec!["PodGroupProtection".into()],
        ..EngineOptions::default()
    };
    assert!(
        finalizers(&world.restarted(off), GROUPS, group("d")).is_empty(),
        "it can be switched off by its name"
    );
}
