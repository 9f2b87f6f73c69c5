//! The queue examples on the embedded control plane: pending and admitted Workloads, and the release of quota.

use muster_tests::queue_fixture::{self, QueueFixture};
use muster_tests::visibility;

fn play(test: &str, story: fn(&QueueFixture)) {
    if let Some(stage) = QueueFixture::embedded(test, &[]) {
        story(&stage);
    }
}

/// Shows: 976-01, 976-07, 976-08, 976-09, 976-10, 976-36, 976-61.
#[test]
fn a_plain_pod_is_gated_until_quota() {
    play("a_plain_pod_is_gated_until_quota", queue_fixture::a_plain_pod_is_gated_until_quota);
}

/// Shows: 976-33, 976-39, 976-40, 976-49, 976-55, 976-59, 976-60.
#[test]
fn a_group_is_admitted_all_or_nothing() {
    play("a_group_is_admitted_all_or_nothing", queue_fixture::a_group_is_admitted_all_or_nothing);
}

/// With the controller off no finalizer would be removed from pods, so none is added.
#[test]
fn nothing_is_held_where_nobody_runs_queues() {
    let test = "nothing_is_held_where_nobody_runs_queues";
    let Some(stage) = QueueFixture::embedded(test, &["--controllers", "*,-queue"]) else { return };
    stage.apply("queue-pod.yaml");
    stage.kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/foo", "--timeout=60s"]);
    let pod = stage.get(&["pod", "foo"]);
    assert!(pod.items_at(&["metadata", "finalizers"]).is_empty(), "{pod}");
}

/// Shows: 976-22, 976-41.
#[test]
fn a_group_waits_for_a_pod_of_every_role() {
    play("a_group_waits_for_a_pod_of_every_role", queue_fixture::a_group_waits_for_a_pod_of_every_role);
}

/// Shows: 976-23, 976-24, 976-25, 976-26, 976-42, 976-58.
#[test]
fn a_driver_is_admitted_with_quota_for_its_workers() {
    for file in ["queue-driver.yaml", "queue-driver-as-printed.yaml"] {
        let Some(stage) = QueueFixture::embedded("a_driver_is_admitted_with_quota_for_its_workers", &[])
        else {
            return;
        };
        queue_fixture::a_driver_is_admitted_with_quota_for_its_workers(&stage, file);
    }
}

#[test]
fn borrowed_quota_is_reclaimed_by_preemption() {
    let test = "borrowed_quota_is_reclaimed_by_preemption";
    play(test, queue_fixture::borrowed_quota_is_reclaimed_by_preemption);
}

#[test]
fn pending_workloads_are_listed_in_order() {
    play("pending_workloads_are_listed_in_order", visibility::pending_workloads_are_listed_in_order);
}

#[test]
fn the_pending_reason_is_explained() {
    play("the_pending_reason_is_explained", visibility::the_pending_reason_is_explained);
}

#[test]
fn a_manifest_is_evaluated_without_being_created() {
    play(
        "a_manifest_is_evaluated_without_being_created",
        visibility::a_manifest_is_evaluated_without_being_created,
    );
}

#[test]
fn a_group_is_scheduled_as_a_gang() {
    play("a_group_is_scheduled_as_a_gang", |stage| {
        queue_fixture::a_group_is_scheduled_as_a_gang(stage, "scheduling.k8s.io", "");
    });
}

/// Pods that do not get ready in time give their quota back.
const SOON: &str = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n\
    waitForPodsReady: {enable: true, timeout: 3s}\n";

#[test]
fn a_gang_without_capacity_is_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, SOON).unwrap();
    let more = ["--config", &file.display().to_string()];
    if let Some(stage) = QueueFixture::embedded("a_gang_without_capacity_is_evicted", &more) {
        queue_fixture::a_gang_without_capacity_is_evicted(&stage);
    }
}
