//! ResourceQuotas, through the engine.

use muster_tree::{Tree, tree};

use super::{TestEngine, body, target};
use crate::request::{DeleteOptions, WriteAct, WriteOptions};

const FORBIDDEN: &str = "persistentvolumeclaims \"b\" is forbidden: exceeded quota: q, ";

fn claim(name: &str, size: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": size}}}})
}

#[test]
fn quotas_limit_counts_and_storage() {
    // The quota, the request in addition to a claim of 2Gi, and the message.
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
    ];
    for (says, hard, size, words) in cases {
        let world = TestEngine::new();
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
fn overflowing_storage_requests_exceed_the_quota() {
    let world = TestEngine::new();
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
    let world = TestEngine::new();
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

fn pod(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}})
}

fn quota(world: &TestEngine, spec: Tree) {
    world.create("-/v1/default/resourcequotas", tree!({"metadata": {"name": "q"}, "spec": spec})).unwrap();
}

fn used(world: &TestEngine) -> Tree {
    let quota = world.get("-/v1/default/resourcequotas/q").unwrap();
    quota.at(&["status", "used"]).cloned().unwrap_or(Tree::Null)
}

#[test]
fn a_terminated_pod_releases_its_quota() {
    let world = TestEngine::new();
    quota(&world, tree!({"hard": {"pods": "1", "requests.cpu": "1", "count/pods": "2"}}));
    assert_eq!(used(&world), tree!({"count/pods": "0", "pods": "0", "requests.cpu": "0"}));
    world.create("-/v1/default/pods", pod("a")).unwrap();
    assert_eq!(used(&world), tree!({"count/pods": "1", "pods": "1", "requests.cpu": "1"}));
    let refused = world.create("-/v1/default/pods", pod("b")).unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            403,
            "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1, used: pods=1,requests.cpu=1, limited: pods=1,requests.cpu=1"
        )
    );
    world.merge("-/v1/default/pods/a/status", tree!({"status": {"phase": "Succeeded"}})).unwrap();
    assert_eq!(used(&world), tree!({"count/pods": "1", "pods": "0", "requests.cpu": "0"}));
    world.create("-/v1/default/pods", pod("b")).unwrap();
    let refused = world.create("-/v1/default/pods", pod("c")).unwrap_err();
    assert!(refused.message.contains("requested: count/pods=1,pods=1,requests.cpu=1"), "{}", refused.message);
    let now = DeleteOptions { grace_secs: Some(0), ..DeleteOptions::default() };
    world.delete("-/v1/default/pods/a", now.clone()).unwrap();
    world.delete("-/v1/default/pods/b", now).unwrap();
    assert_eq!(used(&world), tree!({"count/pods": "0", "pods": "0", "requests.cpu": "0"}));
}

#[test]
fn a_new_quota_counts_existing_objects() {
    let world = TestEngine::new();
    world.create("-/v1/default/pods", pod("a")).unwrap();
    quota(&world, tree!({"hard": {"pods": "5"}}));
    let made = world.get("-/v1/default/resourcequotas/q").unwrap();
    assert_eq!(made.get("status"), Some(&tree!({"hard": {"pods": "5"}, "used": {"pods": "1"}})));
    world.merge("-/v1/default/resourcequotas/q", tree!({"spec": {"hard": {"limits.cpu": "3"}}})).unwrap();
    assert_eq!(used(&world), tree!({"limits.cpu": "1", "pods": "1"}));
}

#[test]
fn containers_must_specify_constrained_resources() {
    let world = TestEngine::new();
    quota(&world, tree!({"hard": {"requests.memory": "1Gi"}}));
    let refused = world.create("-/v1/default/pods", pod("a")).unwrap_err();
    let want = "pods \"a\" is forbidden: failed quota: q: must specify requests.memory for: c";
    assert_eq!((refused.code, refused.message.as_str()), (403, want));
    assert_eq!(used(&world), tree!({"requests.memory": "0"}), "a refused pod is not counted");
}

#[test]
fn a_deadline_moves_a_pod_to_another_scope() {
    let world = TestEngine::new();
    quota(&world, tree!({"hard": {"pods": "0"}, "scopes": ["Terminating"]}));
    world.create("-/v1/default/pods", pod("a")).unwrap();
    assert_eq!(used(&world), tree!({"pods": "0"}));
    let refused =
        world.merge("-/v1/default/pods/a", tree!({"spec": {"activeDeadlineSeconds": 60}})).unwrap_err();
    assert!(refused.message.contains("exceeded quota: q, requested: pods=1"), "{}", refused.message);
    world.merge("-/v1/default/resourcequotas/q", tree!({"spec": {"hard": {"pods": "1"}}})).unwrap();
    world.merge("-/v1/default/pods/a", tree!({"spec": {"activeDeadlineSeconds": 60}})).unwrap();
    assert_eq!(used(&world), tree!({"pods": "1"}));
}

#[test]
fn a_dry_run_is_checked_and_not_counted() {
    let world = TestEngine::new();
    quota(&world, tree!({"hard": {"pods": "1"}}));
    let send = |name: &str| {
        let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
        world.send_with(target("-/v1/default/pods"), WriteAct::Create(body(pod(name))), options)
    };
    send("a").unwrap();
    assert_eq!(used(&world), tree!({"pods": "0"}));
    world.create("-/v1/default/pods", pod("a")).unwrap();
    assert_eq!(send("b").unwrap_err().code, 403);
}

/// Of concurrent creates exactly as many succeed as the quota allows.
#[test]
fn concurrent_creates_do_not_exceed_the_quota() {
    let world = TestEngine::new();
    quota(&world, tree!({"hard": {"pods": "3"}}));
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|at| {
                let world = &world;
                scope.spawn(move || {
                    (0..5)
                        .filter(|n| world.create("-/v1/default/pods", pod(&format!("p-{at}-{n}"))).is_ok())
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(made, 3);
    assert_eq!(used(&world), tree!({"pods": "3"}));
}
