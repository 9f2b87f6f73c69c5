//! Reading with kubectl: get in its forms, describe, explain, api-resources, auth can-i, cluster-info, get --raw, wait.

use muster_tests::clients::{Kubectl, assert_contains, eventually};
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
    assert_contains(&table, &["NAME", "DATA", "AGE"]);
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
    let refusal = kubectl.run(&["get", "cm", "--field-selector", "data.x=1"]).expect_failure();
    assert_contains(&refusal, &["(BadRequest)", "\"data.x\" is not a known field selector"]);
    let refusal = kubectl.run(&["get", "pods", "--field-selector", "spec.no=1"]).expect_failure();
    assert_contains(&refusal, &["(BadRequest)", "field label not supported: spec.no"]);
    let refusal = kubectl.run(&["get", "cm", "no-such"]).expect_failure();
    assert_contains(&refusal, &["(NotFound)", "configmaps \"no-such\" not found"]);
}

#[test]
fn get_wide_shows_further_columns() {
    let Some(kubectl) = Kubectl::new("get_wide") else { return };
    kubectl.ok(&["create", "job", "wide", "--image=busybox", "--", "true"]);
    let narrow = kubectl.ok(&["get", "jobs"]);
    assert_contains(&narrow, &["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE", "/1"]);
    assert!(!narrow.contains("IMAGES"), "{narrow}");
    let wide = kubectl.ok(&["get", "jobs", "-o", "wide"]);
    assert_contains(
        &wide,
        &["CONTAINERS", "IMAGES", "SELECTOR", "busybox", "batch.kubernetes.io/controller-uid="],
    );
    assert_contains(&kubectl.ok(&["get", "nodes", "-o", "wide"]), &["INTERNAL-IP", "KERNEL-VERSION"]);
}

#[test]
fn get_watch_shows_each_change() {
    let Some(kubectl) = Kubectl::new("get_watch") else { return };
    kubectl.ok(&["create", "secret", "generic", "first", "--from-literal=a=b"]);
    let watching = kubectl.watch(&["get", "secrets", "--watch", "--output-watch-events"]);
    // What comes before it watches would be shown as it is then, not as it came about.
    eventually("it watches", || {
        let shown = watching.output();
        if shown.contains("first") { Ok(()) } else { Err(shown) }
    });
    kubectl.ok(&["create", "secret", "generic", "seen", "--from-literal=a=b"]);
    kubectl.ok(&["label", "secret", "seen", "later=yes"]);
    kubectl.ok(&["delete", "secret", "seen"]);
    eventually("the deletion", || {
        let seen = watching.output();
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
    assert_contains(&columns, &["N", "X", "a", "1"]);
    assert_contains(&kubectl.ok(&["get", "cm", "-A", "-l", "tier=front"]), &["NAMESPACE", "get-formats"]);
    assert_contains(&kubectl.ok(&["get", "cm,secrets", "--show-labels", "-l", "tier=back"]), &["tier=back"]);
    assert_contains(&kubectl.ok(&["get", "all", "-A", "--ignore-not-found"]), &[]);
}

#[test]
fn describe_tells_the_story_of_an_object() {
    let Some(kubectl) = Kubectl::new("describe") else { return };
    kubectl.ok(&["create", "configmap", "told", "--from-literal=greeting=hello"]);
    assert_contains(&kubectl.ok(&["describe", "configmap", "told"]), &["Name:", "told", "greeting", "hello"]);
    kubectl.ok(&["create", "job", "told", "--image=busybox", "--", "true"]);
    kubectl.ok(&["wait", "--for=condition=complete", "job/told", "--timeout=60s"]);
    let job = kubectl.ok(&["describe", "job", "told"]);
    assert_contains(&job, &["Completions:", "1 Succeeded", "Events:", "SuccessfulCreate", "Completed"]);
    assert_contains(&kubectl.ok(&["describe", "pods"]), &["Status:", "Succeeded", "Events:"]);
    assert_contains(&kubectl.ok(&["describe", "namespace", "describe"]), &["Active"]);
    assert_contains(&kubectl.ok(&["describe", "nodes"]), &["Capacity:", "Allocatable:", "Conditions:"]);
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
        (
            &["jobs.spec"],
            &["FIELD: spec <JobSpec>", "backoffLimit\t<integer>", "template\t<PodTemplateSpec> -required-"],
        ),
        (
            &["pods", "--recursive"],
            &["      imagePullPolicy\t<string>", "          podAffinityTerm\t<PodAffinityTerm>"],
        ),
        (&["pods", "--recursive", "--max-depth=2"], &["    containers\t<[]Container> -required-"]),
    ];
    for (args, want) in cases {
        assert_contains(&kubectl.ok(&[&["explain"], *args].concat()), want);
    }
    let refusal = kubectl.run(&["explain", "pod.spec.nonsense"]).expect_failure();
    assert_contains(&refusal, &["nonsense"]);
    // See docs/known-differences.md.
    assert_contains(&kubectl.ok(&["explain", "pods"]), &["DESCRIPTION:\n    <empty>"]);
    let refusal = kubectl.run(&["explain", "pods", "--output=plaintext-openapiv2"]).expect_failure();
    assert_contains(&refusal, &["couldn't find resource"]);
}

#[test]
fn kinds_of_queues_are_explained_in_both_versions() {
    let Some(kubectl) = Kubectl::new("explain_queues") else { return };
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["clusterqueue.spec"],
            &["VERSION:    v1beta2", "cohortName", "Which Workloads may be preempted for a pending Workload"],
        ),
        (
            &["clusterqueue.spec", "--api-version=kueue.x-k8s.io/v1beta1"],
            &["VERSION:    v1beta1", "cohort\t<string>", "needs no Cohort object", "admissionChecks"],
        ),
        (
            &["clusterqueue.spec.resourceGroups.flavors.resources.borrowingLimit"],
            &["How much it may borrow above nominalQuota. Left out, there is no limit."],
        ),
        (&["localqueue"], &["Jobs name it by the label kueue.x-k8s.io/queue-name."]),
        (&["cohort.spec"], &["The Cohort that this one belongs to"]),
        (&["resourceflavor.spec"], &["Taints of the flavor's nodes."]),
        (&["workloads.kueue.x-k8s.io", "--recursive"], &["podSetAssignments", "resourceUsage"]),
        (
            &["workloads.status.admission", "--api-version=kueue.x-k8s.io/v1beta2"],
            &["The ClusterQueue whose quota is reserved."],
        ),
        (&["admissioncheck.spec.controllerName"], &["The controller that sets the state of this check"]),
        (&["workloadpriorityclass"], &["higher ones are considered first"]),
        (&["topology.spec.levels"], &["The node label whose value names the domain"]),
    ];
    for (args, want) in cases {
        // Lines are folded where the terminal ends.
        let said = kubectl.ok(&[&["explain"], *args].concat());
        let unfolded = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let want: Vec<String> =
            want.iter().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_contains(&unfolded, &want.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!said.contains("<empty>"), "{args:?}: {said}");
    }
}

#[test]
fn cluster_info_names_the_server_and_dumps_namespaces() {
    let Some(kubectl) = Kubectl::new("cluster_info") else { return };
    assert_contains(
        &kubectl.ok(&["cluster-info"]),
        &["Kubernetes control plane", "is running at", "https://127.0.0.1:"],
    );

    kubectl.ok(&["create", "job", "hello", "--image=busybox", "--", "echo", "hi"]);
    kubectl.ok(&["wait", "--for=condition=complete", "job/hello", "--timeout=60s"]);
    let pods = kubectl.ok(&["get", "pods", "-o", "name"]);
    let pod = pods.trim().strip_prefix("pod/").unwrap();

    let dump = kubectl.ok(&["cluster-info", "dump", "--namespaces", "cluster-info"]);
    let lists =
        ["NodeList", "EventList", "PodList", "ServiceList", "DeploymentList", "ReplicationControllerList"];
    for list in lists {
        assert_contains(&dump, &[&format!("\"kind\": \"{list}\"")]);
    }
    let logs = format!("logs for container hello of pod cluster-info/{pod} ====");
    assert_contains(&dump, &[&format!("==== START {logs}"), &format!("==== END {logs}")]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    kubectl.ok(&["cluster-info", "dump", "--all-namespaces", "--output-directory", &path]);
    let read = |name: &str| {
        std::fs::read_to_string(folder.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    assert!(!Tree::parse(read("nodes.json").as_bytes()).unwrap().items_at(&["items"]).is_empty());
    let pods = Tree::parse(read("cluster-info/pods.json").as_bytes()).unwrap();
    assert_eq!(pods.items_at(&["items"])[0].str_at(&["metadata", "name"]), pod);
    assert_contains(&read(&format!("cluster-info/{pod}/logs.txt")), &["START logs"]);
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
    assert_contains(&kubectl.ok(&["api-versions"]), &["v1", "batch/v1", "scheduling.k8s.io/v1alpha1"]);
    let cluster = kubectl.ok(&["api-resources", "--namespaced=false", "--output=name"]);
    assert_contains(&cluster, &["nodes", "namespaces"]);
    assert!(!cluster.lines().any(|line| line == "pods"));
}

#[test]
fn auth_can_i_answers_and_whoami_knows() {
    let Some(kubectl) = Kubectl::new("auth") else { return };
    assert_eq!(kubectl.ok(&["auth", "can-i", "create", "pods"]).trim(), "yes");
    assert_eq!(kubectl.ok(&["auth", "can-i", "*", "*", "--all-namespaces"]).trim(), "yes");
    assert_contains(&kubectl.ok(&["auth", "whoami"]), &["muster-admin", "system:masters"]);
}

#[test]
fn get_raw_returns_what_the_server_says() {
    let Some(kubectl) = Kubectl::new("get_raw") else { return };
    let raw = |path: &str| Tree::parse(kubectl.ok(&["get", "--raw", path]).as_bytes()).unwrap();
    assert_eq!(raw("/version").str_at(&["minor"]), "37");
    assert_eq!(raw("/api/v1/namespaces/get-raw").str_at(&["status", "phase"]), "Active");
    assert_eq!(raw("/apis/batch/v1").str_at(&["groupVersion"]), "batch/v1");
    assert!(raw("/openapi/v3").at(&["paths", "apis/batch/v1"]).is_some());
    assert_contains(&kubectl.ok(&["get", "--raw", "/readyz"]), &["ok"]);
    let refusal = kubectl.run(&["get", "--raw", "/apis/no.such/v1"]).expect_failure();
    assert_contains(&refusal, &["(NotFound)", "the server could not find the requested resource"]);
}

#[test]
fn wait_returns_when_it_has_come_true() {
    let Some(kubectl) = Kubectl::new("wait") else { return };
    kubectl.ok(&["create", "job", "hello", "--image=busybox", "--", "echo", "hi"]);
    let done = kubectl.ok(&["wait", "--for=condition=complete", "job/hello", "--timeout=60s"]);
    assert_contains(&done, &["job.batch/hello condition met"]);
    let phase = "--for=jsonpath={.status.phase}=Succeeded";
    kubectl.ok(&["wait", phase, "pod", "-l", "batch.kubernetes.io/job-name=hello", "--timeout=60s"]);
    kubectl.ok(&["create", "configmap", "brief"]);
    kubectl.ok(&["delete", "configmap", "brief", "--wait=false"]);
    kubectl.ok(&["wait", "--for=delete", "configmap/brief", "--timeout=60s"]);
    kubectl.ok(&["create", "configmap", "stays"]);
    let refusal = kubectl.run(&["wait", "--for=delete", "configmap/stays", "--timeout=1s"]).expect_failure();
    assert_contains(&refusal, &["timed out"]);
}

/// Shows: 572-02, 762-01.
#[test]
fn jobsets_are_explained_and_listed_with_their_columns() {
    let Some(kubectl) = Kubectl::new("jobset_definition") else { return };
    let volumes = kubectl.ok(&["explain", "jobset.spec.volumeClaimPolicies"]);
    assert_contains(&volumes, &["volumeClaimPolicies", "retentionPolicy", "templates"]);
    assert_contains(
        &volumes,
        &["PersistentVolumeClaims that are created for the JobSet", "What becomes of the claims"],
    );
    assert_contains(
        &kubectl.ok(&["explain", "jobset"]),
        &["A JobSet is a set of Jobs that start, fail, restart and end as one."],
    );
    let claims = kubectl.ok(&["explain", "jobset.spec.replicatedJobs.resourceClaimTemplates"]);
    assert_contains(
        &claims,
        &["metadata", "-required-", "containers", "deletionPolicy", "OnJobCompletion, OnJobDeletion"],
    );
    let set =
        "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {suspend: true}}";
    kubectl.ok_with(&["create", "--filename", "-"], set);
    let table = kubectl.ok(&["get", "jobsets"]);
    assert_contains(&table, &["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED", "AGE", "true"]);
}
