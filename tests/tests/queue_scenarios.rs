//! Pods without a queue on a real server whose operator is down.

use muster_tests::clients::{assert_contains, skip};
use muster_tests::jobset_cluster::post;
use muster_tests::real;
use muster_tests::scenario_runner::ScenarioEnvironment;
use muster_tree::{Tree, tree};

/// Shows: 976-17.
#[test]
fn pods_without_a_queue_do_not_wait_for_the_operator() {
    if let Some(reason) = real::missing() {
        return skip("pods_without_a_queue_do_not_wait_for_the_operator", &reason);
    }
    let mut ground = ScenarioEnvironment::real().unwrap();
    ground.kill_operator().unwrap();
    let make = |name: &str, labels: Tree| {
        let pod = tree!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        post(&ground.server, "/api/v1/namespaces/default/pods", &pod).unwrap()
    };
    let plain = make("plain", tree!({"app": "mine"}));
    assert_eq!(plain.code, 201, "{}", plain.body.to_json());
    let queued = make("queued", tree!({"kueue.x-k8s.io/queue-name": "q"}));
    assert_eq!(queued.code, 500, "{}", queued.body.to_json());
    assert_contains(
        queued.body.str_at(&["message"]),
        &["failed calling webhook \"mpod.kb.io\"", "connection refused"],
    );
}
