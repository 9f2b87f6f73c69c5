//! Reading with kubectl: get in its forms, describe, explain, api-resources, auth can-i, get --raw, wait.

use muster_tests::clients::{Kubectl, assert_has, eventually};
use muster_tree::Tree;

const THREE_MAPS: &str = r"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {tier: front}}, data: {x: '1', y: '2'}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, labels: {tier: back}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {tier: back, old: 'yes'}}}
";

#[test]
fn get_prints_tables_and_honours_selectors() {
    let Some(kubectl) = Kubectl::new("get_selectors") else { return };
    kubectl.ok_with(&["create", "--filename", "-"], THREE_MAPS);
    let table = kubectl.ok(&["get", "configmaps", "a"]);
    assert_has(&table, &["NAME", "DATA", "AGE"]);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..2], ["a", "2"]);

    let names = |args: &[&str]| {
        let all = [&["get", "cm", "--output", "name"], args].concat();
        kubectl
            .ok(&all)
            .lines()
            .filter(|line| !line.contains("kube-root-ca"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let cases: &[(&[&str], &[&str])] = &[
        (&["-l", "tier=back"], &["configmap/b", "configmap/c"]),
        (&["-l", "tier=back,!old"], &["configmap/b"]),
        (&["-l", "tier in (front, other)"], &["configmap/a"]),
        (&["--field-selector", "metadata.name=c"], &["configmap/c"]),
        (&["--field-selector", "metadata.name!=c", "-l", "tier=back"], &["configmap/b"]),
        (&["-l", "tier=none"], &[]),
    ];
    for (args, want) in cases {
        assert_eq!(names(args), *want, "get cm {args:?}");
    }
    let refusal = kubectl.run(&["get", "cm", "--field-selector", "data.x=1"]).refused();
    assert_has(&refusal, &["(BadRequest)", "\"data.x\" is not a known field selector"]);
    let refusal = kubectl.run(&["get", "pods", "--field-selector", "spec.no=1"]).refused();
    assert_has(&refusal, &["(BadRequest)", "field label not supported: spec.no"]);
    let refusal = kubectl.run(&["get", "cm", "no-such"]).refused();
    assert_has(&refusal, &["(NotFound)", "configmaps \"no-such\" not found"]);
}

#[test]
fn get_wide_shows_further_columns() {
    let Some(kubectl) = Kubectl::new("get_wide") else { return };
    kubectl.ok(&["create", "job", "wide", "--image=busybox", "--", "true"]);
    let narrow = kubectl.ok(&["get", "jobs"]);
    assert_has(&narrow, &["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE", "/1"]);
    assert!(!narrow.contains("IMAGES"), "{narrow}");
    let wide = kubectl.ok(&["get", "jobs", "-o", "wide"]);
    assert_has(
        &wide,
        &["CONTAINERS", "IMAGES", "SELECTOR", "busybox", "batch.kubernetes.io/controller-uid="],
    );
    assert_has(&kubectl.ok(&["get", "nodes", "-o", "wide"]), &["INTERNAL-IP", "KERNEL-VERSION"]);
}

#[test]
fn get_watch_shows_each_change() {
    let Some(kubectl) = Kubectl::new("get_watch") else { return };
    kubectl.ok(&["create", "secret", "generic", "first", "--from-literal=a=b"]);
    let watching = kubectl.watch(&["get", "secrets", "--watch", "--output-watch-events"]);
    // What comes before it watches would be shown as it is then, not as it came about.
    eventually("it watches", || {
        let shown = watching.seen();
        if shown.contains("first") { Ok(()) } else { Err(shown) }
    });
    kubectl.ok(&["create", "secret", "generic", "seen", "--from-literal=a=b"]);
    kubectl.ok(&["label", "secret", "seen", "later=yes"]);
    kubectl.ok(&["delete", "secret", "seen"]);
    eventually("the deletion", || {
        let seen = watching.seen();
        let events: Vec<&str> = seen.lines().filter(|l| l.contains("seen")).collect();
        let kinds: Vec<&str> = events.iter().filter_map(|l| l.split_whitespace().next()).collect();
        if kinds == ["ADDED", "MODIFIED", "DELETED"] { Ok(()) } else { Err(seen) }
    });
}

#[test]
fn get_sorts_formats_and_spans_namespaces() {
    let Some(kubectl) = Kubectl::new("get_formats") else { return };
    kubectl.ok_with(&["create", "--filename", "-"], THREE_MAPS);
    let path = "jsonpath={.metadata.labels.tier}/{.data.x}";
    assert_eq!(kubectl.ok(&["get", "cm", "a", "-o", path]), "front/1");
    let columns = kubectl.ok(&["get", "cm", "a", "-o", "custom-columns=N:.metadata.name,X:.data.x"]);
    assert_has(&columns, &["N", "X", "a", "1"]);
    assert_has(&kubectl.ok(&["get", "cm", "-A", "-l", "tier=front"]), &["NAMESPACE", "get-formats"]);
    assert_has(&kubectl.ok(&["get", "cm,secrets", "--show-labels", "-l", "tier=back"]), &["tier=back"]);
    assert_has(&kubectl.ok(&["get", "all", "-A", "--ignore-not-found"]), &[]);
}

#[test]
fn describe_tells_the_story_of_an_object() {
    let Some(kubectl) = Kubectl::new("describe") else { return };
    kubectl.ok(&["create", "configmap", "told", "--from-literal=greeting=hello"]);
    assert_has(&kubectl.ok(&["describe", "configmap", "told"]), &["Name:", "told", "greeting", "hello"]);
    kubectl.ok(&["create", "job", "told", "--image=busybox", "--", "true"]);
    kubectl.ok(&["wait", "--for=condition=complete", "job/told", "--timeout=60s"]);
    let job = kubectl.ok(&["describe", "job", "told"]);
    assert_has(&job, &["Completions:", "1 Succeeded", "Events:", "SuccessfulCreate", "Completed"]);
    assert_has(&kubectl.ok(&["describe", "pods"]), &["Status:", "Succeeded", "Events:"]);
    assert_has(&kubectl.ok(&["describe", "namespace", "describe"]), &["Active"]);
    assert_has(&kubectl.ok(&["describe", "nodes"]), &["Capacity:", "Allocatable:", "Conditions:"]);
}

#[test]
fn explain_walks_into_nested_fields() {
    let Some(kubectl) = Kubectl::new("explain") else { return };
    let cases: &[(&[&str], &[&str])] = &[
        (&["pods"], &["KIND:", "Pod", "VERSION:", "v1", "spec", "<PodSpec>"]),
        (&["pod.spec.containers"], &["FIELD: containers", "<[]Container>", "image", "name", "required"]),
        (&["job.spec.template.spec.tolerations.tolerationSeconds"], &["GROUP:", "batch", "<integer>"]),
        (&["cronjob", "--recursive"], &["jobTemplate", "backoffLimit"]),
        (&["customresourcedefinition.spec.versions.schema"], &["openAPIV3Schema"]),
        (&["podgroup"], &["GROUP:", "scheduling.k8s.io", "v1alpha1"]),
    ];
    for (args, want) in cases {
        assert_has(&kubectl.ok(&[&["explain"], *args].concat()), want);
    }
    let refusal = kubectl.run(&["explain", "pod.spec.nonsense"]).refused();
    assert_has(&refusal, &["nonsense"]);
}

#[test]
fn api_resources_lists_what_is_served() {
    let Some(kubectl) = Kubectl::new("api_resources") else { return };
    let table = kubectl.ok(&["api-resources", "-o", "wide"]);
    for row in ["pods", "jobs", "podgroups", "resourceclaims", "customresourcedefinitions", "leases"] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row} in:\n{table}");
    }
    let batch = kubectl.ok(&["api-resources", "--api-group=batch", "--output=name"]);
    assert_eq!(batch.lines().collect::<Vec<_>>(), ["cronjobs.batch", "jobs.batch"]);
    assert_has(&kubectl.ok(&["api-versions"]), &["v1", "batch/v1", "scheduling.k8s.io/v1alpha1"]);
    let cluster = kubectl.ok(&["api-resources", "--namespaced=false", "--output=name"]);
    assert_has(&cluster, &["nodes", "namespaces"]);
    assert!(!cluster.lines().any(|line| line == "pods"));
}

#[test]
fn auth_can_i_answers_and_whoami_knows() {
    let Some(kubectl) = Kubectl::new("auth") else { return };
    assert_eq!(kubectl.ok(&["auth", "can-i", "create", "pods"]).trim(), "yes");
    assert_eq!(kubectl.ok(&["auth", "can-i", "*", "*", "--all-namespaces"]).trim(), "yes");
    assert_has(&kubectl.ok(&["auth", "whoami"]), &["muster-admin", "system:masters"]);
}

#[test]
fn get_raw_returns_what_the_server_says() {
    let Some(kubectl) = Kubectl::new("get_raw") else { return };
    let raw = |path: &str| Tree::parse(kubectl.ok(&["get", "--raw", path]).as_bytes()).unwrap();
    assert_eq!(raw("/version").str_at(&["minor"]), "37");
    assert_eq!(raw("/api/v1/namespaces/get-raw").str_at(&["status", "phase"]), "Active");
    assert_eq!(raw("/apis/batch/v1").str_at(&["groupVersion"]), "batch/v1");
    assert!(raw("/openapi/v3").at(&["paths", "apis/batch/v1"]).is_some());
    assert_has(&kubectl.ok(&["get", "--raw", "/readyz"]), &["ok"]);
    let refusal = kubectl.run(&["get", "--raw", "/apis/no.such/v1"]).refused();
    assert_has(&refusal, &["(NotFound)", "the server could not find the requested resource"]);
}

#[test]
fn wait_returns_when_it_has_come_true() {
    let Some(kubectl) = Kubectl::new("wait") else { return };
    kubectl.ok(&["create", "job", "hello", "--image=busybox", "--", "echo", "hi"]);
    let done = kubectl.ok(&["wait", "--for=condition=complete", "job/hello", "--timeout=60s"]);
    assert_has(&done, &["job.batch/hello condition met"]);
    let phase = "--for=jsonpath={.status.phase}=Succeeded";
    kubectl.ok(&["wait", phase, "pod", "-l", "batch.kubernetes.io/job-name=hello", "--timeout=60s"]);
    kubectl.ok(&["create", "configmap", "brief"]);
    kubectl.ok(&["delete", "configmap", "brief", "--wait=false"]);
    kubectl.ok(&["wait", "--for=delete", "configmap/brief", "--timeout=60s"]);
    kubectl.ok(&["create", "configmap", "stays"]);
    let refusal = kubectl.run(&["wait", "--for=delete", "configmap/stays", "--timeout=1s"]).refused();
    assert_has(&refusal, &["timed out"]);
}

/// Shows: 572-02, 762-01.
#[test]
fn jobsets_are_explained_and_listed_with_their_columns() {
    let Some(kubectl) = Kubectl::new("jobset_definition") else { return };
    let volumes = kubectl.ok(&["explain", "jobset.spec.volumeClaimPolicies"]);
    assert_has(&volumes, &["volumeClaimPolicies", "retentionPolicy", "templates"]);
    let claims = kubectl.ok(&["explain", "jobset.spec.replicatedJobs.resourceClaimTemplates"]);
    assert_has(
        &claims,
        &["metadata", "-required-", "containers", "deletionPolicy", "OnJobCompletion, OnJobDeletion"],
    );
    let set =
        "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {suspend: true}}";
    kubectl.ok_with(&["create", "--filename", "-"], set);
    let table = kubectl.ok(&["get", "jobsets"]);
    assert_has(&table, &["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED", "AGE", "true"]);
}
