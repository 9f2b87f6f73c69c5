//! Quotas, through the engine.

use muster_tree::{Tree, tree};

use super::World;

const FORBIDDEN: &str = "persistentvolumeclaims \"b\" is forbidden: exceeded quota: q, ";

fn claim(name: &str, size: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": size}}}})
}

#[test]
fn quotas_limit_counts_and_storage() {
    // The quota, what is asked for beside one claim of 2Gi, and the words of the refusal.
    let cases = [
        ("enough", tree!({"persistentvolumeclaims": "2", "requests.storage": "3Gi"}), "1Gi", ""),
        (
            "too many",
            tree!({"persistentvolumeclaims": "1"}),
            "1Gi",
            "requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1",
        ),
        (
            "too much",
            tree!({"requests.storage": "3Gi"}),
            "2Gi",
            "requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi",
        ),
        (
            "too many, counted in the other way",
            tree!({"count/persistentvolumeclaims": "1"}),
            "1Gi",
            "requested: count/persistentvolumeclaims=1, used: count/persistentvolumeclaims=1, limited: count/persistentvolumeclaims=1",
        ),
        ("of another class", tree!({"slow.storageclass.storage.k8s.io/requests.storage": "1"}), "1Gi", ""),
        (
            "of its class",
            tree!({"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1"}),
            "1Gi",
            "limited: fast.storageclass.storage.k8s.io/persistentvolumeclaims=1",
        ),
        ("about others", tree!({"pods": "0", "count/jobs.batch": "0"}), "1Gi", ""),
        (
            "beside a line that cannot be read",
            tree!({"count/persistentvolumeclaims": "1e25", "persistentvolumeclaims": "1"}),
            "1Gi",
            "limited: persistentvolumeclaims=1",
        ),
    ];
    for (says, hard, size, words) in cases {
        let world = World::new();
        world.create("-/v1/default/persistentvolumeclaims", claim("a", "2Gi")).unwrap();
        let quota = tree!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
        world.create("-/v1/default/resourcequotas", quota).unwrap();
        let made = world.create("-/v1/default/persistentvolumeclaims", claim("b", size));
        match made {
            Ok(_) => assert_eq!(words, "", "{says}"),
            Err(status) => {
                assert_eq!((status.code, words.is_empty()), (403, false), "{says}: {}", status.message);
                assert!(
                    status.message.starts_with(FORBIDDEN) && status.message.contains(words),
                    "{}",
                    status.message
                );
            }
        }
    }
}

#[test]
fn more_storage_than_can_be_counted_is_too_much() {
    let world = World::new();
    for name in ["a", "c"] {
        world.create("-/v1/default/persistentvolumeclaims", claim(name, "9223372036854775807")).unwrap();
    }
    let quota = tree!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.storage": "1Gi"}}});
    world.create("-/v1/default/resourcequotas", quota).unwrap();
    let refused = world.create("-/v1/default/persistentvolumeclaims", claim("b", "1")).unwrap_err();
    assert!(refused.message.starts_with(FORBIDDEN), "{}", refused.message);
}

#[test]
fn jobs_can_be_counted() {
    let world = World::new();
    let none = tree!({"metadata": {"name": "q"}, "spec": {"hard": {"count/jobs.batch": "0"}}});
    world.create("-/v1/default/resourcequotas", none).unwrap();
    let job = tree!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}}}});
    let refused = world.create("batch/v1/default/jobs", job).unwrap_err();
    assert!(
        refused.message.starts_with("jobs.batch \"j\" is forbidden: exceeded quota: q"),
        "{}",
        refused.message
    );
}
