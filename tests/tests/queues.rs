//! Queues on the embedded plane, as the examples show them: who waits, who runs, and what is given back.

use muster_tests::queues::{self, Stage};
use muster_tests::visible;

fn play(test: &str, story: fn(&Stage)) {
    if let Some(stage) = Stage::embedded(test, &[]) {
        story(&stage);
    }
}

/// Shows: 976-01, 976-07, 976-08, 976-09, 976-10, 976-36, 976-61.
#[test]
fn a_pod_by_itself_waits_for_quota() {
    play("a_pod_by_itself_waits_for_quota", queues::a_pod_by_itself_waits_for_quota);
}

/// Shows: 976-33, 976-39, 976-40, 976-49, 976-55, 976-59, 976-60.
#[test]
fn a_group_starts_as_a_whole() {
    play("a_group_starts_as_a_whole", queues::a_group_starts_as_a_whole);
}

/// With the controller switched off nobody would let pods go, so nobody holds them.
#[test]
fn nothing_is_held_where_nobody_runs_queues() {
    let test = "nothing_is_held_where_nobody_runs_queues";
    let Some(stage) = Stage::embedded(test, &["--controllers", "*,-queue"]) else { return };
    stage.apply("queue-pod.yaml");
    stage.kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/foo", "--timeout=60s"]);
    let pod = stage.get(&["pod", "foo"]);
    assert!(pod.items_at(&["metadata", "finalizers"]).is_empty(), "{pod}");
}

/// Shows: 976-22, 976-41.
#[test]
fn roles_are_waited_for() {
    play("roles_are_waited_for", queues::roles_are_waited_for);
}

/// Shows: 976-23, 976-24, 976-25, 976-26, 976-42, 976-58.
#[test]
fn a_driver_has_room_for_its_workers() {
    for file in ["queue-driver.yaml", "queue-driver-as-printed.yaml"] {
        let Some(stage) = Stage::embedded("a_driver_has_room_for_its_workers", &[]) else { return };
        queues::a_driver_has_room_for_its_workers(&stage, file);
    }
}

#[test]
fn a_team_borrows_until_the_other_wants_its_own_back() {
    let test = "a_team_borrows_until_the_other_wants_its_own_back";
    play(test, queues::a_team_borrows_until_the_other_wants_its_own_back);
}

#[test]
fn who_waits_is_told_in_order() {
    play("who_waits_is_told_in_order", visible::who_waits_is_told_in_order);
}

#[test]
fn waiting_is_explained() {
    play("waiting_is_explained", visible::waiting_is_explained);
}

#[test]
fn a_manifest_is_tried_without_being_made() {
    play("a_manifest_is_tried_without_being_made", visible::a_manifest_is_tried_without_being_made);
}

#[test]
fn a_group_is_placed_together() {
    play("a_group_is_placed_together", |stage| {
        queues::a_group_is_placed_together(stage, "scheduling.k8s.io", "");
    });
}

/// Pods that do not get ready in time give their quota back.
const SOON: &str = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n\
    waitForPodsReady: {enable: true, timeout: 3s}\n";

#[test]
fn a_gang_without_room_is_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, SOON).unwrap();
    let more = ["--config", &file.display().to_string()];
    if let Some(stage) = Stage::embedded("a_gang_without_room_is_evicted", &more) {
        queues::a_gang_without_room_is_evicted(&stage);
    }
}
