//! Deleting with kubectl: three cascades, selectors, finalizers, namespaces.

use muster_tests::clients::{Kubectl, assert_contains, eventually};

/// A parent and a child that it owns.
fn family(kubectl: &Kubectl, name: &str) {
    kubectl.ok(&["create", "configmap", name]);
    let uid = kubectl.object(&format!("configmap/{name}")).str_at(&["metadata", "uid"]).to_owned();
    let child = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}-child, ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: {name}, uid: {uid}, blockOwnerDeletion: true}}]}}}}"
    );
    kubectl.ok_with(&["create", "-f", "-"], &child);
}

fn gone(kubectl: &Kubectl, name: &str) {
    eventually(&format!("the end of {name}"), || {
        let said = kubectl.run(&["get", name]);
        if said.success { Err(said.out) } else { Ok(()) }
    });
}

#[test]
fn delete_in_three_cascades() {
    let Some(kubectl) = Kubectl::new("cascade") else { return };
    family(&kubectl, "background");
    kubectl.ok(&["delete", "configmap", "background"]);
    gone(&kubectl, "configmap/background-child");

    family(&kubectl, "foreground");
    kubectl.ok(&["delete", "configmap", "foreground", "--cascade=foreground", "--timeout=60s"]);
    assert_contains(
        &kubectl.run(&["get", "configmap", "foreground-child"]).expect_failure(),
        &["(NotFound)"],
    );

    family(&kubectl, "orphan");
    kubectl.ok(&["delete", "configmap", "orphan", "--cascade=orphan", "--timeout=60s"]);
    let child = kubectl.object("configmap/orphan-child");
    assert!(child.at(&["metadata", "ownerReferences"]).is_none(), "{child}");
}

#[test]
fn delete_a_job_with_its_pods() {
    let Some(kubectl) = Kubectl::new("delete_job") else { return };
    for (job, cascade) in [("kept", "--cascade=orphan"), ("swept", "--cascade=background")] {
        kubectl.ok(&["create", "job", job, "--image=busybox", "--", "true"]);
        kubectl.ok(&["wait", "--for=condition=complete", &format!("job/{job}"), "--timeout=60s"]);
        kubectl.ok(&["delete", "job", job, cascade, "--timeout=60s"]);
    }
    let pods = |job: &str| {
        kubectl.ok(&["get", "pods", "-o", "name", "-l", &format!("batch.kubernetes.io/job-name={job}")])
    };
    eventually("the sweep", || if pods("swept").is_empty() { Ok(()) } else { Err(pods("swept")) });
    assert_eq!(pods("kept").lines().count(), 1);
}

#[test]
fn delete_selects_waits_and_ignores() {
    let Some(kubectl) = Kubectl::new("delete_select") else { return };
    for (name, label) in [("a", "go=yes"), ("b", "go=yes"), ("c", "go=no")] {
        kubectl.ok(&["create", "configmap", name]);
        kubectl.ok(&["label", "configmap", name, label]);
    }
    let said = kubectl.ok(&["delete", "configmap", "-l", "go=yes"]);
    assert_contains(&said, &["configmap \"a\" deleted", "configmap \"b\" deleted"]);
    assert_contains(&kubectl.ok(&["get", "configmap"]), &["c"]);
    assert_contains(&kubectl.run(&["delete", "configmap", "a"]).expect_failure(), &["(NotFound)"]);
    kubectl.ok(&["delete", "configmap", "a", "--ignore-not-found"]);
    let dry = kubectl.ok(&["delete", "configmap", "c", "--dry-run=server"]);
    assert_contains(&dry, &["(server dry run)"]);
    kubectl.ok(&["get", "configmap", "c"]);

    kubectl.ok(&[
        "patch",
        "configmap",
        "c",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":["example.com/hold"]}}"#,
    ]);
    kubectl.ok(&["delete", "configmap", "c", "--wait=false"]);
    let held = kubectl.object("configmap/c");
    assert!(held.at(&["metadata", "deletionTimestamp"]).is_some(), "{held}");
    kubectl.ok(&["patch", "configmap", "c", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    gone(&kubectl, "configmap/c");
}

#[test]
fn delete_a_namespace_with_all_it_holds() {
    let Some(kubectl) = Kubectl::new("delete_ns") else { return };
    kubectl.ok(&["create", "configmap", "a"]);
    kubectl.ok(&["create", "job", "j", "--image=busybox", "--", "true"]);
    kubectl.ok(&["delete", "namespace", "delete-ns", "--timeout=120s"]);
    assert_contains(&kubectl.run(&["get", "namespace", "delete-ns"]).expect_failure(), &["(NotFound)"]);
    assert_contains(
        &kubectl.run(&["create", "configmap", "late"]).expect_failure(),
        &["namespaces \"delete-ns\" not found"],
    );
    assert_contains(
        &kubectl.run(&["delete", "namespace", "default"]).expect_failure(),
        &["this namespace may not be deleted"],
    );
}
