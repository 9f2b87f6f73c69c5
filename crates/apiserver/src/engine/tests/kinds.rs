//! Strategies of built-in kinds, through the engine.

use muster_tree::{Tree, tree};

use super::TestEngine;
use crate::request::DeleteOptions;

pub(super) fn pod(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}})
}

pub(super) fn job(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}}})
}

#[test]
fn a_pod_is_defaulted() {
    let world = TestEngine::new();
    let made = world.create("-/v1/default/pods", pod("p")).unwrap();
    for (path, want) in [
        (&["spec", "restartPolicy"][..], tree!("Always")),
        (&["spec", "serviceAccountName"], tree!("default")),
        (&["spec", "priority"], tree!(0)),
        (&["spec", "preemptionPolicy"], tree!("PreemptLowerPriority")),
        (&["spec", "terminationGracePeriodSeconds"], tree!(30)),
        (&["status", "phase"], tree!("Pending")),
        (&["status", "qosClass"], tree!("BestEffort")),
        (&["metadata", "generation"], tree!(1)),
    ] {
        assert_eq!(made.at(path), Some(&want), "{path:?}");
    }
    assert_eq!(made.items_at(&["spec", "containers"])[0].str_at(&["imagePullPolicy"]), "Always");
    assert_eq!(made.items_at(&["spec", "tolerations"]).len(), 2);
}

#[test]
fn pods_are_deleted_gracefully() {
    let world = TestEngine::new();
    world.create("-/v1/default/pods", pod("p")).unwrap();
    let binding = tree!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    world.create("-/v1/default/pods/p/binding", binding.clone()).unwrap();
    let again = world.create("-/v1/default/pods/p/binding", binding).unwrap_err();
    assert!(again.message.contains("pod p is already assigned to node \"n\""), "{}", again.message);
    let doomed = world.delete("-/v1/default/pods/p", DeleteOptions::default()).unwrap();
    assert_eq!(doomed.int_at(&["metadata", "deletionGracePeriodSeconds"]), Some(30));
    assert_eq!(doomed.str_at(&["metadata", "deletionTimestamp"]), "2026-01-02T03:04:35Z");
    let sooner = DeleteOptions { grace_secs: Some(10), ..DeleteOptions::default() };
    let doomed = world.delete("-/v1/default/pods/p", sooner).unwrap();
    assert_eq!(doomed.str_at(&["metadata", "deletionTimestamp"]), "2026-01-02T03:04:15Z");
    let later = DeleteOptions { grace_secs: Some(60), ..DeleteOptions::default() };
    let same = world.delete("-/v1/default/pods/p", later).unwrap();
    assert_eq!(same, doomed, "a deadline is never moved later");
    let now = DeleteOptions { grace_secs: Some(0), ..DeleteOptions::default() };
    world.delete("-/v1/default/pods/p", now).unwrap();
    assert_eq!(world.get("-/v1/default/pods/p").unwrap_err().code, 404);
}

#[test]
fn invalid_pods_are_rejected() {
    let world = TestEngine::new();
    let with = |key: &str, value: Tree| pod("p").with(&["spec", key], value);
    for (says, tree, words) in [
        (
            "no container",
            pod("p").with(&["spec", "containers"], tree!([])),
            "spec.containers: Required value",
        ),
        (
            "twice one name",
            with("containers", tree!([{"name": "c", "image": "a"}, {"name": "c", "image": "a"}])),
            "Duplicate value: \"c\"",
        ),
        ("no image", with("containers", tree!([{"name": "c"}])), "spec.containers[0].image: Required value"),
        (
            "unknown volume",
            with(
                "containers",
                tree!([{"name": "c", "image": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
            ),
            "Not found: \"v\"",
        ),
        (
            "more than the limit",
            with(
                "containers",
                tree!([{"name": "c", "image": "a", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]),
            ),
            "must be less than or equal to cpu limit of 1",
        ),
        (
            "a gate and a node",
            pod("p")
                .with(&["spec", "nodeName"], "n")
                .with(&["spec", "schedulingGates"], tree!([{"name": "g"}])),
            "cannot be set until all schedulingGates have been cleared",
        ),
        (
            "an odd toleration",
            with("tolerations", tree!([{"key": "a", "operator": "Maybe"}])),
            "supported values: \"Equal\", \"Exists\"",
        ),
        (
            "half a reference",
            with("workloadRef", tree!({"name": "w"})),
            "spec.workloadRef.podGroupName: Required value",
        ),
    ] {
        let refused = world.create("-/v1/default/pods", tree).unwrap_err();
        assert!(refused.message.contains(words), "{says}: {}", refused.message);
    }
    let refused = world.create("-/v1/default/pods", with("priorityClassName", tree!("nope"))).unwrap_err();
    assert_eq!(
        (refused.code, refused.message.contains("no PriorityClass with name nope was found")),
        (403, true)
    );
}

#[test]
fn most_pod_fields_are_immutable() {
    let world = TestEngine::new();
    world.create("-/v1/default/pods", pod("p")).unwrap();
    let image = tree!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    let target = super::target("-/v1/default/pods/p");
    let act = crate::request::WriteAct::Patch(crate::request::Patch::Strategic(super::body(image)));
    let changed = world.send(target, act).unwrap();
    let crate::request::ReplyObject::Object(object) = changed.shown else { panic!("an object") };
    assert_eq!(object.tree.int_at(&["metadata", "generation"]), Some(2));
    let refused = world.merge("-/v1/default/pods/p", tree!({"spec": {"hostname": "h"}})).unwrap_err();
    assert!(refused.message.contains("pod updates may not change fields other than"), "{}", refused.message);
}

#[test]
fn status_is_written_through_its_subresource_only() {
    let world = TestEngine::new();
    world.create("-/v1/default/pods", pod("p")).unwrap();
    let both = tree!({"spec": {"hostname": "h"}, "status": {"phase": "Running"}});
    let changed = world.merge("-/v1/default/pods/p/status", both.clone()).unwrap();
    assert_eq!(changed.str_at(&["status", "phase"]), "Running");
    assert_eq!(changed.at(&["spec", "hostname"]), None);
    assert_eq!(changed.int_at(&["metadata", "generation"]), Some(1));
    let ignored = world.merge("-/v1/default/pods/p", tree!({"status": {"phase": "Failed"}})).unwrap();
    assert_eq!(ignored, changed, "an update of the object ignores status");
}

#[test]
fn a_job_is_defaulted_and_mostly_immutable() {
    let world = TestEngine::new();
    let made = world.create("batch/v1/default/jobs", job("j")).unwrap();
    let uid = made.text_at(&["metadata", "uid"]);
    assert_eq!(made.int_at(&["spec", "completions"]), Some(1));
    assert_eq!(made.int_at(&["spec", "backoffLimit"]), Some(6));
    assert_eq!(made.text_at(&["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"]), uid);
    assert_eq!(made.text_at(&["spec", "template", "metadata", "labels", "controller-uid"]), uid);
    let queue = world.create("batch/v1/default/jobs", job("q").with(&["spec", "parallelism"], 3)).unwrap();
    assert_eq!(queue.at(&["spec", "completions"]), None, "a work queue has no number of completions");
    let refused =
        world.merge("batch/v1/default/jobs/j", tree!({"spec": {"completionMode": "Indexed"}})).unwrap_err();
    assert!(refused.message.contains("field is immutable"), "{}", refused.message);
    let always = job("a").with(&["spec", "template", "spec", "restartPolicy"], "Always");
    let refused = world.create("batch/v1/default/jobs", always).unwrap_err();
    assert!(
        refused.message.contains("Required value: valid values: \"OnFailure\", \"Never\""),
        "{}",
        refused.message
    );
    let left = world.delete("batch/v1/default/jobs/j", DeleteOptions::default()).unwrap();
    assert_eq!(
        left.at(&["metadata", "finalizers"]),
        Some(&tree!(["orphan"])),
        "pods of Jobs stay by default"
    );
}

#[test]
fn namespaces_are_deleted_when_finalized() {
    let world = TestEngine::new();
    world.create("-/v1/-/namespaces", tree!({"metadata": {"name": "n"}})).unwrap();
    assert!(world.get("-/v1/n/serviceaccounts/default").is_ok());
    assert!(world.get("-/v1/n/configmaps/kube-root-ca.crt").is_ok());
    let doomed = world.delete("-/v1/-/namespaces/n", DeleteOptions::default()).unwrap();
    assert_eq!(doomed.str_at(&["status", "phase"]), "Terminating");
    let refused = world.create("-/v1/n/configmaps", tree!({"metadata": {"name": "c"}})).unwrap_err();
    assert_eq!((refused.code, &*refused.details.causes[0].0), (403, "NamespaceTerminating"));
    world.update("-/v1/-/namespaces/n/finalize", tree!({"metadata": {"name": "n"}, "spec": {}})).unwrap();
    assert_eq!(world.get("-/v1/-/namespaces/n").unwrap_err().code, 404);
    let refused = world.delete("-/v1/-/namespaces/default", DeleteOptions::default()).unwrap_err();
    assert!(refused.message.contains("this namespace may not be deleted"));
}

#[test]
fn services_get_cluster_ips() {
    let world = TestEngine::new();
    let service = |name: &str| tree!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let address = |tree: &Tree| tree.text_at(&["spec", "clusterIP"]);
    let a = world.create("-/v1/default/services", service("a")).unwrap();
    let b = world.create("-/v1/default/services", service("b")).unwrap();
    assert!(address(&a).starts_with("10.96.") && address(&a) != address(&b));
    assert_eq!(a.items_at(&["spec", "ports"])[0].int_at(&["targetPort"]), Some(80));
    let kept = world.update("-/v1/default/services/a", service("a")).unwrap();
    assert_eq!(address(&kept), address(&a), "a client that leaves it out keeps it");
    let refused =
        world.merge("-/v1/default/services/a", tree!({"spec": {"clusterIP": "10.96.9.9"}})).unwrap_err();
    assert!(refused.message.contains("may not change once set"), "{}", refused.message);
    let taken = service("c").with(&["spec", "clusterIP"], address(&b));
    assert_eq!(world.create("-/v1/default/services", taken).unwrap_err().code, 422);
    let headless = service("h").with(&["spec", "clusterIP"], "None");
    assert_eq!(address(&world.create("-/v1/default/services", headless).unwrap()), "None");
}

#[test]
fn claims_get_the_default_class_and_are_immutable() {
    let world = TestEngine::new();
    let claim = tree!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2048Mi"}}}});
    let made = world.create("-/v1/default/persistentvolumeclaims", claim).unwrap();
    assert_eq!(made.str_at(&["spec", "storageClassName"]), "local-path");
    assert_eq!(made.str_at(&["spec", "resources", "requests", "storage"]), "2Gi");
    assert_eq!(made.at(&["metadata", "finalizers"]), Some(&tree!(["kubernetes.io/pvc-protection"])));
    let patch = tree!({"spec": {"accessModes": ["ReadWriteMany"]}});
    let refused = world.merge("-/v1/default/persistentvolumeclaims/c", patch).unwrap_err();
    assert!(refused.message.contains("spec is immutable after creation"), "{}", refused.message);
}

#[test]
fn string_data_of_secrets_is_merged_into_data() {
    let world = TestEngine::new();
    let secret = tree!({"metadata": {"name": "s"}, "stringData": {"a": "b"}});
    let made = world.create("-/v1/default/secrets", secret).unwrap();
    assert_eq!((made.str_at(&["data", "a"]), made.get("stringData")), ("Yg==", None));
    let refused = world.merge("-/v1/default/secrets/s", tree!({"type": "other"})).unwrap_err();
    assert!(refused.message.contains("field is immutable"));
}

#[test]
fn resource_claims_are_converted_to_older_versions() {
    let world = TestEngine::new();
    let claim = tree!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}});
    world.create("resource.k8s.io/v1beta1/default/resourceclaims", claim).unwrap();
    let new = world.get("resource.k8s.io/v1/default/resourceclaims/c").unwrap();
    let request = &new.items_at(&["spec", "devices", "requests"])[0];
    assert_eq!(
        request.get("exactly"),
        Some(&tree!({"allocationMode": "ExactCount", "count": 1, "deviceClassName": "gpu"}))
    );
    let old = world.get("resource.k8s.io/v1beta1/default/resourceclaims/c").unwrap();
    assert_eq!(old.items_at(&["spec", "devices", "requests"])[0].str_at(&["deviceClassName"]), "gpu");
    let patch = tree!({"spec": {"devices": {"requests": []}}});
    let refused = world.merge("resource.k8s.io/v1/default/resourceclaims/c", patch).unwrap_err();
    assert!(refused.message.contains("field is immutable"));
}

#[test]
fn events_are_served_in_both_groups() {
    let world = TestEngine::new();
    let event = tree!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "name": "p"}, "message": "hello"});
    world.create("-/v1/default/events", event).unwrap();
    let seen = world.get("events.k8s.io/v1/default/events/e").unwrap();
    assert_eq!((seen.str_at(&["note"]), seen.str_at(&["regarding", "name"])), ("hello", "p"));
    assert_eq!(seen.str_at(&["apiVersion"]), "events.k8s.io/v1");
}

#[test]
fn workloads_and_pod_groups_have_two_versions() {
    let world = TestEngine::new();
    let workload = tree!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{"name": "t", "policy": {"gang": {"minCount": 2}}}]}});
    world.create("scheduling.k8s.io/v1alpha1/default/workloads", workload).unwrap();
    let released = world.get("scheduling.k8s.io/v1beta1/default/workloads/w").unwrap();
    let template = &released.items_at(&["spec", "podGroupTemplates"])[0];
    assert_eq!(template.int_at(&["schedulingPolicy", "gang", "minCount"]), Some(2));
    let more = tree!({"spec": {"podGroupTemplates": [{"name": "t", "policy": {"gang": {"minCount": 3}}}]}});
    assert!(
        world.merge("scheduling.k8s.io/v1alpha1/default/workloads/w", more).is_ok(),
        "the count may change"
    );
    let basic = tree!({"spec": {"podGroupTemplates": [{"name": "t", "policy": {"basic": {}}}]}});
    let refused = world.merge("scheduling.k8s.io/v1alpha1/default/workloads/w", basic).unwrap_err();
    assert!(refused.message.contains("field is immutable"), "{}", refused.message);

    let group = tree!({"metadata": {"name": "g"}, "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}});
    let made = world.create("scheduling.k8s.io/v1alpha1/default/podgroups", group).unwrap();
    assert_eq!(made.str_at(&["spec", "podGroupTemplateName"]), "t", "each name fills in for the other");
    let status = tree!({"status": {"scheduledPods": 2, "conditions": [{"type": "PodGroupScheduled", "status": "True",
        "reason": "MinCountSatisfied", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}});
    world.merge("scheduling.k8s.io/v1alpha1/default/podgroups/g/status", status).unwrap();
    let released = world.get("scheduling.k8s.io/v1beta1/default/podgroups/g").unwrap();
    assert_eq!(
        released.at(&["spec", "workloadRef"]),
        Some(&tree!({"workloadName": "w", "templateName": "t"}))
    );
    assert_eq!(released.at(&["status", "scheduledPods"]), None);
    let condition = &released.items_at(&["status", "conditions"])[0];
    assert_eq!(
        (condition.str_at(&["type"]), condition.str_at(&["reason"])),
        ("PodGroupInitiallyScheduled", "Scheduled")
    );
    let bare = tree!({"metadata": {"name": "b"}, "spec": {"workloadRef": {"workloadName": "w", "templateName": "t"}}});
    let refused = world.create("scheduling.k8s.io/v1beta1/default/podgroups", bare).unwrap_err();
    assert!(refused.message.contains("must specify one of: `basic`, `gang`"), "{}", refused.message);
}

#[test]
fn leases_need_a_resource_version_and_are_created_by_put() {
    let world = TestEngine::new();
    let lease = tree!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    let made = world.update("coordination.k8s.io/v1/default/leases/l", lease.clone()).unwrap();
    let blind = lease.with(&["spec", "holderIdentity"], "b");
    let refused = world.update("coordination.k8s.io/v1/default/leases/l", blind).unwrap_err();
    assert!(refused.message.contains("must be specified for an update"), "{}", refused.message);
    assert!(
        world
            .update("coordination.k8s.io/v1/default/leases/l", made.with(&["spec", "holderIdentity"], "b"))
            .is_ok()
    );
}

#[test]
fn eviction_consumes_the_disruption_budget() {
    let world = TestEngine::new();
    let budget = tree!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    world.create("policy/v1/default/poddisruptionbudgets", budget).unwrap();
    let eviction =
        |name: &str| tree!({"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 0}});
    for name in ["p", "q"] {
        world.create("-/v1/default/pods", pod(name).with(&["metadata", "labels", "app"], "a")).unwrap();
        world
            .merge(&format!("-/v1/default/pods/{name}/status"), tree!({"status": {"phase": "Running"}}))
            .unwrap();
    }
    let blocked = world.create("-/v1/default/pods/p/eviction", eviction("p")).unwrap_err();
    assert_eq!((blocked.code, blocked.reason), (429, "TooManyRequests"));
    let path = "policy/v1/default/poddisruptionbudgets/b";
    world
        .merge(
            &format!("{path}/status"),
            tree!({"status": {"disruptionsAllowed": 1, "observedGeneration": 1}}),
        )
        .unwrap();
    world.create("-/v1/default/pods/p/eviction", eviction("p")).unwrap();
    assert_eq!(world.get("-/v1/default/pods/p").unwrap_err().code, 404);
    assert_eq!(world.get(path).unwrap().int_at(&["status", "disruptionsAllowed"]), Some(0));
    assert_eq!(world.create("-/v1/default/pods/q/eviction", eviction("q")).unwrap_err().code, 429);
}
