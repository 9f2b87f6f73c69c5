//! Scenarios of plain pods in queues, on the embedded server and on a real one.

use muster_tests::clients::{assert_has, note, skip};
use muster_tests::operators::post;
use muster_tests::played::{Playground, left_out};
use muster_tests::queued::{self, folder, judge, load};
use muster_tests::real;
use muster_tree::{Tree, tree};

/// Fewer scenarios than this show too little.
const SCENARIOS_MIN: usize = 100;

/// Plays some scenarios only, for people.
fn filter() -> String {
    std::env::var("MUSTER_TEST_QUEUE").unwrap_or_default()
}

fn play(ground: &Playground) {
    let scenarios = load(&folder()).unwrap();
    assert!(scenarios.len() >= SCENARIOS_MIN, "only {} scenarios", scenarios.len());
    let (count, wrong) = judge(ground, &scenarios, &filter());
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n\n"), ground.complaints());
    assert!(count > 0, "no scenario was played");
    note(&format!("queues: {count} scenarios as they should be on the plane {:?}", ground.place));
}

/// Shows: 976-69.
#[test]
fn queued_pods_on_the_embedded_server() {
    play(&Playground::embedded().unwrap());
}

/// Shows: 976-69.
#[test]
fn queued_pods_on_a_real_server() {
    if let Some(reason) = real::missing() {
        return skip("queued_pods_on_a_real_server", &reason);
    }
    play(&queued::real().unwrap());
    let absent = left_out(&load(&folder()).unwrap());
    note(&format!("queues: {} scenarios are not played there: {}", absent.len(), absent.join("; ")));
}

/// Shows: 976-17.
#[test]
fn pods_without_a_queue_do_not_wait_for_the_operator() {
    if let Some(reason) = real::missing() {
        return skip("pods_without_a_queue_do_not_wait_for_the_operator", &reason);
    }
    let mut ground = queued::real().unwrap();
    ground.kill_operator().unwrap();
    let make = |name: &str, labels: Tree| {
        let pod = tree!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        post(&ground.server, "/api/v1/namespaces/default/pods", &pod).unwrap()
    };
    let plain = make("plain", tree!({"app": "mine"}));
    assert_eq!(plain.code, 201, "{}", plain.body.to_json());
    let queued = make("queued", tree!({"kueue.x-k8s.io/queue-name": "q"}));
    assert_eq!(queued.code, 500, "{}", queued.body.to_json());
    assert_has(
        queued.body.str_at(&["message"]),
        &["failed calling webhook \"mpod.kb.io\"", "connection refused"],
    );
}
