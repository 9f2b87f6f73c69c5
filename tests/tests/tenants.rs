//! What a tenant with the role `edit` can forge, remove and rewrite of queued work, and that it buys nothing.
//!
//! Every story ends with the same question: did the queue give more than it has, or does all that runs in the namespace run on
//! more than that?

use muster_tests::pod_queueing::TenantNamespace;
use muster_tree::{Tree, tree};

const WORKLOADS: &str = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads";

/// The name of the first Workload that the tenant sees.
fn workload(space: &TenantNamespace) -> String {
    let all = space.answer("GET", WORKLOADS, &Tree::Null).body;
    let first = all.items_at(&["items"]).first().cloned().unwrap_or_default();
    first.str_at(&["metadata", "name"]).to_owned()
}

#[test]
fn a_forged_managed_label_is_no_admission() {
    let Some(space) = TenantNamespace::new("a_forged_managed_label_is_no_admission", 1) else { return };
    space.tenant(
        "
- make: {pod: a, queue: null, cpu: 2, labels: {kueue.x-k8s.io/managed: 'true'}}
- gone: [a]
- make: {pod: b, cpu: 2, labels: {kueue.x-k8s.io/managed: 'true'}}
- gated: [b]
",
    );
    space.admin("- uses: 0");
    space.assert_quota_is_respected();
}

/// Shows: 976-34.
#[test]
fn a_forged_fingerprint_is_no_reservation() {
    let Some(space) = TenantNamespace::new("a_forged_fingerprint_is_no_reservation", 2) else { return };
    space.tenant(
        "
- make: {pod: a, group: g, total: 2, cpu: 1, annotations: {kueue.x-k8s.io/role-hash: aaaaaaaa}}
- make: {pod: b, group: g, total: 2, cpu: 4, annotations: {kueue.x-k8s.io/role-hash: aaaaaaaa}}
- event: {pod: b, reason: ErrWorkloadCompose, says: [cpu]}
- gated: [b]
",
    );
    space.assert_quota_is_respected();
}

/// Shows: 976-32.
#[test]
fn a_group_does_not_grow() {
    let Some(space) = TenantNamespace::new("a_group_does_not_grow", 2) else { return };
    space.tenant(
        "
- make: {pods: [a, b], group: g, count: 2}
- runs: [a, b]
- patch_rejected: {pod: a, patch: {metadata: {annotations: {kueue.x-k8s.io/pod-group-count: '9'}}}, says: [field is immutable]}
- make: {pods: [c, d], group: g, count: 9}
- event: {pod: c, reason: ErrWorkloadCompose}
- make: {pod: e, group: h, roles: 1, role: r, roleCount: 2}
- patch_rejected: {pod: e, patch: {metadata: {annotations: {kueue.x-k8s.io/pod-group-role-count: '9'}}}, says: [field is immutable]}
- patch_rejected: {pod: e, patch: {metadata: {labels: {kueue.x-k8s.io/pod-group-role: s}}}, says: [field is immutable]}
- gated: [c, d, e]
",
    );
    space.assert_quota_is_respected();
}

/// Shows: 976-35.
#[test]
fn only_the_queue_opens_its_gate() {
    let Some(space) = TenantNamespace::new("only_the_queue_opens_its_gate", 1) else { return };
    space.tenant(
        "
- make: {pod: a, cpu: 2}
- gated: [a]
- patch_rejected: {pod: a, patch: {spec: {schedulingGates: null}}, says: [only the queue may release this pod]}
- gated: [a]
",
    );
    space.assert_quota_is_respected();
}

/// Shows: 976-35.
#[test]
fn a_pod_does_not_leave_by_taking_off_its_label() {
    let Some(space) = TenantNamespace::new("a_pod_does_not_leave_by_taking_off_its_label", 1) else { return };
    space.tenant(
        "
- make: {pod: a}
- runs: [a]
- patch_rejected: {pod: a, patch: {metadata: {labels: {kueue.x-k8s.io/managed: null}}}, says: [only the queue may release this pod]}
- make: {pod: b}
- patch_rejected: {pod: b, patch: {metadata: {labels: {kueue.x-k8s.io/managed: null}}}, says: [only the queue may release this pod]}
- gated: [b]
",
    );
    space.admin("- uses: 1");
    space.assert_quota_is_respected();
}

#[test]
fn a_pod_without_its_finalizer_still_counts() {
    let Some(space) = TenantNamespace::new("a_pod_without_its_finalizer_still_counts", 2) else { return };
    space.tenant(
        "
- make: {pods: [a, b], group: g, count: 2}
- runs: [a, b]
- patch: {kind: Pod, name: a, patch: {metadata: {finalizers: null}}}
- make: {pods: [c], group: g, count: 2}
- gone: [c]
- runs: [a, b]
- make: {pod: d}
- gated: [d]
",
    );
    space.admin("- uses: 2");
    space.assert_quota_is_respected();
}

#[test]
fn a_forged_owner_is_no_reservation() {
    let Some(space) = TenantNamespace::new("a_forged_owner_is_no_reservation", 1) else { return };
    space.tenant(
        "
- create: {kind: Job, metadata: {name: j, labels: {kueue.x-k8s.io/queue-name: q}}, spec: {template: {metadata: {annotations: {muster.dev/sim-run-seconds: '900'}}, spec: {restartPolicy: Never, containers: [{name: main, image: work, resources: {requests: {cpu: 1}}}]}}}}
- count: {kind: Pod, count: 1, has: {status: {phase: Running}}}
- remember: {kind: Job, name: j, as: j}
- refused: {make: {pod: a, cpu: 3, labels: {kueue.x-k8s.io/managed: 'true'}, metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: '{uid:j}', controller: true}]}}, code: 403, says: [only its controller makes something for it]}
- send: {create: {kind: Pod, metadata: {name: b, labels: {kueue.x-k8s.io/queue-name: q}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: nobody, uid: 6e0bd5a6-0000-0000-0000-000000000000, controller: true}]}}, code: 403, says: [workload owner not found]}
",
    );
    space.admin("- uses: 1");
    space.assert_quota_is_respected();
}

/// A Job of one processor that runs for long.
const LONG: &str = "{template: {metadata: {annotations: {muster.dev/sim-run-seconds: '900'}}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: main, image: work, resources: {requests: {cpu: 1}}}]}}}";

/// That the Job `j` has something.
const OF_J: &str =
    "ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: '{uid:j}', controller: true}]";

#[test]
fn an_owner_forged_at_creation_makes_nobody_free() {
    let Some(space) = TenantNamespace::new("an_owner_forged_at_creation_makes_nobody_free", 1) else {
        return;
    };
    space.create_default_queue();
    space.tenant(&format!(
        "
- create: {{kind: Job, metadata: {{name: j}}, spec: {LONG}}}
- pods: {{count: 1, has: {{status: {{phase: Running}}}}}}
- remember: {{kind: Job, name: j, as: j}}
- refused: {{make: {{pod: a, queue: null, metadata: {{{OF_J}}}}}, code: 403, says: [only its controller makes something for it]}}
- refused: {{make: {{pod: b, metadata: {{{OF_J}}}}}, code: 403, says: [only its controller makes something for it]}}
- send: {{create: {{kind: Job, metadata: {{name: k, {OF_J}}}, spec: {LONG}}}, code: 403, says: [only its controller makes something for it]}}
- make: {{pod: c, queue: null, metadata: {{{}}}}}
- gated: [c]
- pods: {{count: 2}}
",
        // An owner reference without `controller` concerns garbage collection only.
        OF_J.replace(", controller: true", "")
    ));
    space.admin("- uses: 1");
    space.assert_quota_is_respected();
}

#[test]
fn an_owner_given_later_makes_nobody_free() {
    let Some(space) = TenantNamespace::new("an_owner_given_later_makes_nobody_free", 1) else { return };
    space.tenant(&format!(
        "
- create: {{kind: Job, metadata: {{name: j, labels: {{kueue.x-k8s.io/queue-name: q}}}}, spec: {LONG}}}
- pods: {{count: 1, has: {{status: {{phase: Running}}}}}}
- remember: {{kind: Job, name: j, as: j}}
- make: {{pod: a, cpu: 3}}
- gated: [a]
- patch_rejected: {{pod: a, patch: {{metadata: {{{OF_J}}}}}, says: [a queued pod may not be given another controller]}}
- create: {{kind: Job, metadata: {{name: k, labels: {{kueue.x-k8s.io/queue-name: q}}}}, spec: {LONG}}}
- send: {{patch: {{kind: Job, name: k, patch: {{metadata: {{{OF_J}}}, spec: {{suspend: false}}}}}}, code: 403, says: [what is queued may not be given another controller]}}
- stays: [gated: [a]]
"
    ));
    space.admin("- uses: 1");
    space.assert_quota_is_respected();
}

/// What a JobSet makes has no share of its own: it has that of the JobSet, by what it was.
#[test]
fn a_job_of_a_jobset_does_not_grow() {
    let Some(space) = TenantNamespace::new("a_job_of_a_jobset_does_not_grow", 1) else { return };
    space.tenant(&format!(
        "
- create: {{kind: JobSet, metadata: {{name: s, labels: {{kueue.x-k8s.io/queue-name: q}}}}, spec: {{replicatedJobs: [{{name: w, template: {{spec: {LONG}}}}}]}}}}
- pods: {{count: 1, has: {{status: {{phase: Running}}}}}}
- send: {{patch: {{kind: Job, name: s-w-0, patch: {{spec: {{parallelism: 9}}}}}}, code: 403, says: [only its controller makes something for it]}}
- stays: [pods: {{count: 1}}]
"
    ));
    space.admin("- uses: 1");
    space.assert_quota_is_respected();
}

#[test]
fn a_fingerprint_is_not_edited() {
    let Some(space) = TenantNamespace::new("a_fingerprint_is_not_edited", 2) else { return };
    space.tenant(
        "
- make: {pod: small, group: g, total: 2, cpu: 1, annotations: {kueue.x-k8s.io/role-hash: aaaaaaaa}}
- make: {pod: big, group: h, total: 2, cpu: 4, annotations: {kueue.x-k8s.io/role-hash: bbbbbbbb}}
- patch_rejected: {pod: big, patch: {metadata: {annotations: {kueue.x-k8s.io/role-hash: aaaaaaaa}}}, says: [field is immutable]}
- patch_rejected: {pod: big, patch: {metadata: {annotations: {kueue.x-k8s.io/role-hash: null}}}, says: [field is immutable]}
- stays: [gated: [small, big]]
",
    );
    space.admin("- uses: 0");
    space.assert_quota_is_respected();
}

#[test]
fn a_total_that_is_edited_buys_no_room() {
    let Some(space) = TenantNamespace::new("a_total_that_is_edited_buys_no_room", 2) else { return };
    space.tenant(
        "
- make: {pods: [a, b], group: g, total: 2}
- runs: [a, b]
- patch: {kind: Pod, name: a, patch: {metadata: {annotations: {kueue.x-k8s.io/pod-group-total-count: '4'}}}}
- patch: {kind: Pod, name: b, patch: {metadata: {annotations: {kueue.x-k8s.io/pod-group-total-count: '4'}}}}
- make: {pods: [c, d], group: g, total: 4}
- make: {pod: e, group: h, total: 3, cpu: 1}
- patch: {kind: Pod, name: e, patch: {metadata: {annotations: {kueue.x-k8s.io/pod-group-total-count: '1'}}}}
- stays: [runs: [a, b]]
- gated: [e]
",
    );
    space.admin("- uses: 2");
    space.assert_quota_is_respected();
}

#[test]
fn a_pod_is_not_resized_beyond_its_share() {
    let Some(space) = TenantNamespace::new("a_pod_is_not_resized_beyond_its_share", 2) else { return };
    space.tenant("- make: {pod: a}\n- runs: [a]\n- make: {pod: b, cpu: 2}\n- gated: [b]\n");
    for pod in ["a", "b"] {
        let path = format!("/api/v1/namespaces/{{ns}}/pods/{pod}/resize");
        let container = tree!({"name": "main", "image": "work", "resources": {"requests": {"cpu": "3"}}});
        let answer = space.answer("PATCH", &path, &tree!({"spec": {"containers": [container]}}));
        // A user whose role lacks the right is rejected before admission.
        assert!(matches!(answer.code, 403 | 422), "{}", answer.body.to_json());
    }
    space.admin("- uses: 1");
    space.assert_quota_is_respected();
}

#[test]
fn an_owner_in_another_namespace_is_none() {
    let Some(space) = TenantNamespace::new("an_owner_in_another_namespace_is_none", 1) else { return };
    let Some(other) = TenantNamespace::new("an_owner_in_another_namespace", 1) else { return };
    other.tenant(
        "
- create: {kind: Job, metadata: {name: j, labels: {kueue.x-k8s.io/queue-name: q}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: work, resources: {requests: {cpu: 1}}}]}}}}
",
    );
    let job = other.answer("GET", "/apis/batch/v1/namespaces/{ns}/jobs/j", &Tree::Null).body;
    let uid = job.str_at(&["metadata", "uid"]);
    space.tenant(&format!(
        "
- send: {{create: {{kind: Pod, metadata: {{name: a, labels: {{kueue.x-k8s.io/queue-name: q}}, ownerReferences: [{{apiVersion: batch/v1, kind: Job, name: j, uid: {uid}, controller: true}}]}}}}, code: 403, says: [workload owner not found]}}
- count: {{kind: Pod, count: 0}}
"
    ));
    space.assert_quota_is_respected();
}

#[test]
fn a_forged_parent_leaves_a_pod_behind_its_gate() {
    let Some(space) = TenantNamespace::new("a_forged_parent_leaves_a_pod_behind_its_gate", 1) else { return };
    space.tenant(
        "
- make: {pod: a, cpu: 3, annotations: {kueue.x-k8s.io/pod-suspending-parent: example.com/parent}}
- gated: [a]
- patch_rejected: {pod: a, patch: {spec: {schedulingGates: null}}, says: [only the queue may release this pod]}
- stays: [gated: [a]]
- delete: [a]
- gone: [a]
",
    );
    space.assert_quota_is_respected();
}

#[test]
fn a_tenant_writes_no_workload() {
    let Some(space) = TenantNamespace::new("a_tenant_writes_no_workload", 1) else { return };
    let template = tree!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}}]}});
    let admission = tree!({"clusterQueue": "a-tenant-writes-no-workload",
        "podSetAssignments": [{"name": "main", "count": 9, "flavors": {"cpu": "a-tenant-writes-no-workload"}, "resourceUsage": {"cpu": "9"}}]});
    let forged = tree!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": "g", "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 9, "template": template}]},
        "status": {"admission": admission.clone()}});
    // Whether a Workload may be made beforehand is a matter of roles; what was given to it never is.
    let made = space.answer("POST", WORKLOADS, &forged);
    assert!(matches!(made.code, 201 | 403), "{}", made.body.to_json());
    assert!(made.body.at(&["status", "admission"]).is_none(), "{}", made.body.to_json());
    space.tenant("- make: {pods: [a, b], group: g, prebuilt: g, cpu: 9}");
    let path = format!("{WORKLOADS}/g/status");
    let status = space.answer("PATCH", &path, &tree!({"status": {"admission": admission}}));
    assert_eq!(status.code, 403, "{}", status.body.to_json());
    space.tenant("- stays: [gated: [a, b]]");
    space.assert_quota_is_respected();
}

#[test]
fn what_was_reserved_is_not_rewritten() {
    let Some(space) = TenantNamespace::new("what_was_reserved_is_not_rewritten", 2) else { return };
    space.tenant("- make: {pods: [a, b], group: g, count: 2}\n- runs: [a, b]\n");
    let path = format!("{WORKLOADS}/{}", workload(&space));
    let sets = space.answer("GET", &path, &Tree::Null).body;
    let sets: Vec<Tree> =
        sets.items_at(&["spec", "podSets"]).iter().map(|it| it.with(&["count"], 1)).collect();
    for patch in [
        tree!({"spec": {"podSets": Tree::list(sets)}}),
        tree!({"spec": {"queueName": "other"}}),
        tree!({"spec": {"priority": 1_000_000}}),
    ] {
        let answer = space.answer("PATCH", &path, &patch);
        assert!(matches!(answer.code, 403 | 422), "{}", answer.body.to_json());
    }
    let status = tree!({"status": {"conditions": [], "admission": null}});
    assert_eq!(space.answer("PATCH", &format!("{path}/status"), &status).code, 403);
    space.tenant("- make: {pod: c}\n- gated: [c]\n");
    space.admin("- uses: 2");
    space.assert_quota_is_respected();
}

#[test]
fn forged_marks_of_a_start_start_nothing() {
    let Some(space) = TenantNamespace::new("forged_marks_of_a_start_start_nothing", 1) else { return };
    space.tenant(
        "
- make: {pod: a, cpu: 2, labels: {kueue.x-k8s.io/podset: main, kueue.x-k8s.io/local-queue-name: q}, annotations: {kueue.x-k8s.io/workload: forged}}
- stays: [gated: [a]]
- make: {pod: b, labels: {kueue.x-k8s.io/podset: forged, kueue.x-k8s.io/cluster-queue-name: forged}}
- workload: {name: pod-b-*, is: {Finished: ['True', FailedToStart]}}
- gated: [a, b]
",
    );
    space.admin("- uses: 0");
    space.assert_quota_is_respected();
}

#[test]
fn words_of_priority_are_no_rights() {
    let Some(space) = TenantNamespace::new("words_of_priority_are_no_rights", 1) else { return };
    space.tenant(
        "
- make: {pod: a}
- runs: [a]
- make: {pod: b, class: made-up}
- event: {pod: b, reason: WorkloadPriorityClassNotFound}
- make: {pod: c, annotations: {kueue.x-k8s.io/priority-boost: '1000000'}}
- gated: [b, c]
- runs: [a]
",
    );
    let class = tree!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "made-up"}, "value": 1_000_000});
    let made = space.answer("POST", "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses", &class);
    assert_eq!(made.code, 403, "{}", made.body.to_json());
    space.assert_quota_is_respected();
}

#[test]
fn a_queue_of_another_namespace_is_out_of_reach() {
    let Some(space) = TenantNamespace::new("a_queue_of_another_namespace_is_out_of_reach", 0) else { return };
    let Some(_other) = TenantNamespace::new("a_queue_of_another_namespace", 9) else { return };
    let local = tree!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "theirs"},
        "spec": {"clusterQueue": "a-queue-of-another-namespace"}});
    let path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/localqueues";
    let made = space.answer("POST", path, &local);
    assert_eq!(made.code, 403, "{}", made.body.to_json());
    space.admin("- create: {kind: LocalQueue, metadata: {name: theirs}, spec: {clusterQueue: a-queue-of-another-namespace}}");
    space.tenant(
        "
- make: {pod: a, queue: theirs}
- workload: {name: pod-a-*, is: {QuotaReserved: ['False', Misconfigured, \"workload namespace doesn't match ClusterQueue selector\"]}}
- gated: [a]
- refused: {make: {pod: b, queue: a-queue-of-another-namespace/q}, code: 422, says: ['metadata.labels']}
",
    );
    space.assert_quota_is_respected();
}

#[test]
fn a_job_that_is_unsuspended_by_hand_is_stopped() {
    let Some(space) = TenantNamespace::new("a_job_that_is_unsuspended_by_hand_is_stopped", 1) else { return };
    space.tenant(
        "
- create: {kind: Job, metadata: {name: j, labels: {kueue.x-k8s.io/queue-name: q}}, spec: {template: {metadata: {annotations: {muster.dev/sim-run-seconds: '900'}}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: main, image: work, resources: {requests: {cpu: 2}}}]}}}}
- until: {kind: Job, name: j, has: {spec: {suspend: true}}}
- workload: {name: job-j-*, is: {QuotaReserved: 'False'}}
- patch: {kind: Job, name: j, patch: {spec: {suspend: false}}}
- until: {kind: Job, name: j, has: {spec: {suspend: true}}}
- event: {job: j, reason: Stopped}
- pods: {count: 0}
",
    );
    space.admin("- uses: 0");
    space.assert_quota_is_respected();
}

/// A Workload that could not be started has no share, and its Job none either.
#[test]
fn a_job_that_could_not_be_started_does_not_run_for_free() {
    let Some(space) = TenantNamespace::new("a_job_that_could_not_be_started_does_not_run_for_free", 1) else {
        return;
    };
    space.tenant(
        "
- create: {kind: Job, metadata: {name: j, labels: {kueue.x-k8s.io/queue-name: q}}, spec: {template: {metadata: {labels: {kueue.x-k8s.io/podset: forged}, annotations: {muster.dev/sim-run-seconds: '900'}}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: main, image: work, resources: {requests: {cpu: 1}}}]}}}}
- workload: {name: job-j-*, is: {Finished: ['True', FailedToStart]}}
- patch: {kind: Job, name: j, patch: {spec: {suspend: false}}}
- event: {job: j, reason: Stopped}
- until: {kind: Job, name: j, has: {spec: {suspend: true}}}
- pods: {count: 0}
",
    );
    space.admin("- uses: 0");
    space.assert_quota_is_respected();
}

#[test]
fn a_job_does_not_grow_after_its_admission() {
    let Some(space) = TenantNamespace::new("a_job_does_not_grow_after_its_admission", 1) else { return };
    space.tenant(
        "
- create: {kind: Job, metadata: {name: j, labels: {kueue.x-k8s.io/queue-name: q}}, spec: {completions: 3, parallelism: 1, template: {metadata: {annotations: {muster.dev/sim-run-seconds: '900'}}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: main, image: work, resources: {requests: {cpu: 1}}}]}}}}
- pods: {count: 1, has: {status: {phase: Running}}}
- send: {patch: {kind: Job, name: j, patch: {spec: {template: {spec: {containers: [{name: main, image: work, resources: {requests: {cpu: 9}}}]}}}}}, code: 422, says: [field is immutable]}
- patch: {kind: Job, name: j, patch: {spec: {parallelism: 3}}}
- until: {kind: Job, name: j, has: {spec: {suspend: true}}}
- pods: {count: 0}
",
    );
    space.admin("- uses: 0");
    space.assert_quota_is_respected();
}
