//! Addons over several restarts.

use muster_tree::{Tree, tree};

use super::TestEngine;
use crate::engine::EngineOptions;
use crate::request::DeleteOptions;

const CONFIG: &str = "-/v1/house/configmaps/addon";

fn shipped(version: &str, more: &Tree) -> EngineOptions {
    let addon = tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "addon", "namespace": "house"},
        "data": {"version": version, "kept": "yes"}});
    let home = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "house"}});
    EngineOptions { addons: vec![home, addon.merge(more)], ..EngineOptions::default() }
}

fn data(world: &TestEngine) -> String {
    world.get(CONFIG).unwrap().at(&["data"]).unwrap().to_json()
}

#[test]
fn addons_are_created_updated_and_recreated() {
    let none = tree!({});
    let first = TestEngine::new().restarted(shipped("1", &none));
    let revision = first.engine.revision();
    assert_eq!(data(&first), r#"{"kept":"yes","version":"1"}"#);
    let again = first.restarted(shipped("1", &none));
    assert_eq!(again.engine.revision(), revision, "a start with nothing new writes nothing");
    let fewer = tree!({"data": {"kept": null, "new": "too"}});
    let second = again.restarted(shipped("2", &fewer));
    assert_eq!(data(&second), r#"{"new":"too","version":"2"}"#, "what is not shipped any more goes");
    second.delete(CONFIG, DeleteOptions::default()).unwrap();
    let third = second.restarted(shipped("2", &fewer));
    assert_eq!(data(&third), r#"{"new":"too","version":"2"}"#, "deleted, it comes back with the next start");
}

#[test]
fn changed_addons_are_not_updated() {
    let none = tree!({});
    for (says, change, want) in [
        ("changed", tree!({"data": {"version": "mine"}}), r#"{"kept":"yes","version":"mine"}"#),
        ("taken away", tree!({"data": {"kept": null}}), r#"{"version":"1"}"#),
        ("added", tree!({"data": {"more": "x"}}), r#"{"kept":"yes","more":"x","version":"2"}"#),
        (
            "taken over",
            tree!({"metadata": {"annotations": {"muster.dev/shipped": null}}}),
            r#"{"kept":"yes","version":"1"}"#,
        ),
    ] {
        let world = TestEngine::new().restarted(shipped("1", &none));
        world.merge(CONFIG, change).unwrap();
        let before = data(&world);
        let same = world.restarted(shipped("1", &none));
        assert_eq!(data(&same), before, "{says}: the same version changes nothing");
        assert_eq!(data(&same.restarted(shipped("2", &none))), want, "{says}: a new version");
    }
}

#[test]
fn a_foreign_object_of_the_same_name_is_not_touched() {
    let world = TestEngine::new();
    world.create("-/v1/-/namespaces", tree!({"metadata": {"name": "house"}})).unwrap();
    let own = tree!({"metadata": {"name": "addon"}, "data": {"version": "own"}});
    world.create("-/v1/house/configmaps", own).unwrap();
    assert_eq!(data(&world.restarted(shipped("1", &tree!({})))), r#"{"version":"own"}"#);
}
