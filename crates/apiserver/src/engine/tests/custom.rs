//! Custom resources through the engine.

use muster_tree::{Tree, tree};

use super::{TestEngine, target};
use crate::engine::EngineOptions;
use crate::request::{DeleteOptions, ListOptions};

const KIND: &str = "CustomResourceDefinition";
const DEFINITIONS: &str = "apiextensions.k8s.io/v1/-/customresourcedefinitions";

fn definition() -> Tree {
    tree!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "required": ["color"], "properties": {
                    "color": {"type": "string", "enum": ["red", "green"]},
                    "replicas": {"type": "integer", "default": 1},
                    "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "stays"}]},
                }},
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            }}}},
            {"name": "v1beta1", "served": true, "storage": false,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        ],
    }})
}

fn widget(name: &str, color: &str) -> Tree {
    tree!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"color": color}})
}

#[test]
fn bundled_crds_are_installed_and_updated() {
    let options = |definition: Tree| {
        let definition =
            definition.with_key("apiVersion", "apiextensions.k8s.io/v1".into()).with_key("kind", KIND.into());
        EngineOptions { crds: vec![definition], ..EngineOptions::default() }
    };
    let first = TestEngine::new().restarted(options(definition()));
    let made = first.create("example.com/v1/default/widgets", widget("a", "red")).unwrap();
    assert_eq!(made.int_at(&["spec", "replicas"]), Some(1), "served from the first request on");

    let path = format!("{DEFINITIONS}/widgets.example.com");
    first.merge(&path, tree!({"metadata": {"labels": {"mine": "yes"}}})).unwrap();
    let before = first.get(&path).unwrap();
    let again = first.restarted(options(definition()));
    assert_eq!(again.get(&path).unwrap(), before, "the same definition writes nothing");

    let newer = definition();
    let versions = newer.items_at(&["spec", "versions"]);
    let replicas = ["schema", "openAPIV3Schema", "properties", "spec", "properties", "replicas", "default"];
    let newer =
        newer.with(&["spec", "versions"], Tree::list([versions[0].with(&replicas, 2), versions[1].clone()]));
    let upgraded = again.restarted(options(newer));
    let made = upgraded.create("example.com/v1/default/widgets", widget("b", "red")).unwrap();
    assert_eq!(made.int_at(&["spec", "replicas"]), Some(2), "another definition takes its place");
    let after = upgraded.get(&path).unwrap();
    assert_eq!(after.str_at(&["metadata", "labels", "mine"]), "yes", "what others wrote beside it stays");
    let managers = after.items_at(&["metadata", "managedFields"]);
    assert!(managers.iter().any(|m| m.str_at(&["manager"]) == "kube-apiserver"), "{after}");
}

#[test]
fn a_crd_is_served_at_once() {
    let world = TestEngine::new();
    let before = world.engine.registry().generation();
    let made = world.create(DEFINITIONS, definition()).unwrap();
    assert_eq!(made.str_at(&["status", "acceptedNames", "kind"]), "", "names are accepted by a second write");
    let named = world.get(&format!("{DEFINITIONS}/widgets.example.com")).unwrap();
    assert_eq!(named.str_at(&["status", "acceptedNames", "listKind"]), "WidgetList");
    assert!(world.engine.registry().generation() > before);
    let made =
        world.create("example.com/v1/default/widgets", widget("a", "red").with(&["spec", "odd"], 1)).unwrap();
    assert_eq!(made.int_at(&["spec", "replicas"]), Some(1), "defaults of the schema");
    assert_eq!(made.at(&["spec", "odd"]), None, "unknown fields are pruned");
    assert_eq!(made.int_at(&["metadata", "generation"]), Some(1));
    let other = world.get("example.com/v1beta1/default/widgets/a").unwrap();
    assert_eq!(other.str_at(&["apiVersion"]), "example.com/v1beta1");
    let status = tree!({"status": {"replicas": 3}, "spec": {"color": "green"}});
    let changed = world.merge("example.com/v1/default/widgets/a/status", status).unwrap();
    assert_eq!(
        (changed.str_at(&["spec", "color"]), changed.int_at(&["metadata", "generation"])),
        ("red", Some(1))
    );
    let scale = world.get("example.com/v1/default/widgets/a/scale").unwrap();
    assert_eq!(
        (scale.int_at(&["spec", "replicas"]), scale.int_at(&["status", "replicas"])),
        (Some(1), Some(3))
    );
    let scaled =
        world.merge("example.com/v1/default/widgets/a/scale", tree!({"spec": {"replicas": 5}})).unwrap();
    assert_eq!(scaled.int_at(&["spec", "replicas"]), Some(5));
    let options = ListOptions { field_selector: "spec.color=red".into(), ..ListOptions::default() };
    assert_eq!(
        world.engine.list(&target("example.com/v1/default/widgets"), &options).unwrap().objects.len(),
        1
    );
}

#[test]
fn schema_and_cel_rules_are_enforced() {
    let world = TestEngine::new();
    world.create(DEFINITIONS, definition()).unwrap();
    let refused = world.create("example.com/v1/default/widgets", widget("a", "blue")).unwrap_err();
    assert!(refused.message.contains("supported values: \"red\", \"green\""), "{}", refused.message);
    let made = world
        .create("example.com/v1/default/widgets", widget("a", "red").with(&["spec", "fixed"], "x"))
        .unwrap();
    let refused =
        world.merge("example.com/v1/default/widgets/a", tree!({"spec": {"fixed": "y"}})).unwrap_err();
    assert!(refused.message.contains("stays"), "{}", refused.message);
    let blind = made.without(&["metadata", "resourceVersion"]).with(&["spec", "color"], "green");
    let refused = world.update("example.com/v1/default/widgets/a", blind).unwrap_err();
    assert!(refused.message.contains("must be specified for an update"), "{}", refused.message);
}

#[test]
fn conflicting_names_are_not_accepted() {
    let world = TestEngine::new();
    world.create(DEFINITIONS, definition()).unwrap();
    let second = definition()
        .with(&["metadata", "name"], "gadgets.example.com")
        .with(&["spec", "names"], tree!({"plural": "gadgets", "kind": "Widget"}));
    world.create(DEFINITIONS, second).unwrap();
    let made = world.get(&format!("{DEFINITIONS}/gadgets.example.com")).unwrap();
    let reasons: Vec<&str> =
        made.items_at(&["status", "conditions"]).iter().map(|c| c.str_at(&["reason"])).collect();
    assert_eq!(reasons, ["SingularConflict", "NotAccepted"]);
    assert!(world.engine.registry().find("example.com", "v1", "gadgets").is_none());
    world.delete(&format!("{DEFINITIONS}/widgets.example.com"), DeleteOptions::default()).unwrap();
    assert!(
        world.engine.registry().find("example.com", "v1", "gadgets").is_some(),
        "freed names are taken up"
    );
}

#[test]
fn a_crd_is_deleted_after_its_objects() {
    let world = TestEngine::new();
    world.create(DEFINITIONS, definition()).unwrap();
    let held = widget("held", "red").with(&["metadata", "finalizers"], tree!(["example.com/hold"]));
    world.create("example.com/v1/default/widgets", held).unwrap();
    world.create("example.com/v1/default/widgets", widget("free", "red")).unwrap();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    world.delete(&path, DeleteOptions::default()).unwrap();
    assert_eq!(world.get("example.com/v1/default/widgets/free").unwrap_err().code, 404);
    assert!(world.get(&path).is_ok(), "one object is still held");
    assert_eq!(world.create("example.com/v1/default/widgets", widget("new", "red")).unwrap_err().code, 405);
    world.merge("example.com/v1/default/widgets/held", tree!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(world.get(&path).unwrap_err().code, 404);
    assert!(world.engine.registry().find("example.com", "v1", "widgets").is_none());
}

#[test]
fn invalid_crds_are_rejected() {
    let world = TestEngine::new();
    for (says, tree, words) in [
        ("another name", definition().with(&["metadata", "name"], "x"), "must be spec.names.plural"),
        ("no scope", definition().without(&["spec", "scope"]), "spec.scope: Required value"),
        (
            "a guarded group",
            definition().with(&["metadata", "name"], "widgets.x.k8s.io").with(&["spec", "group"], "x.k8s.io"),
            "api-approved.kubernetes.io",
        ),
        (
            "no versions",
            definition().with(&["spec", "versions"], tree!([])),
            "must have exactly one version marked as storage version",
        ),
    ] {
        let refused = world.create(DEFINITIONS, tree).unwrap_err();
        assert!(refused.message.contains(words), "{says}: {}", refused.message);
    }
}
