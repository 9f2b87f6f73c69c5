//! Gangs as a user of kubectl meets them: what is served, what applies, what is refused, and the gates.

use std::process::Command;

use muster_tests::clients::{Kubectl, assert_contains, eventually};
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::{self, RestartableServer};
use muster_tree::{Tree, tree};

/// The Workload that the proposal's example refers to.
const WORKLOAD: &str = r"
apiVersion: scheduling.k8s.io/v1alpha1
kind: Workload
metadata: {name: training-workload}
spec:
  controllerRef: {apiGroup: batch, kind: Job, name: train}
  podGroupTemplates:
  - name: pd-1-template
    policy: {gang: {minCount: 2}}
";

/// The example as the proposal prints it, but for its namespace.
const PRINTED: &str = r#"
apiVersion: scheduling.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: pd-1
  namespace: ns-1
spec:
  workloadRef:
    name: training-workload
  podGroupTemplateRef:
    name: pd-1-template
status:
  scheduledPods: 2
  conditions:
  - type: PodGroupScheduled
    status: "True"
    lastTransitionTime: "2024-01-26T10:00:00Z"
    reason: MinCountSatisfied
    message: "All required pods (2/2) have been assigned to nodes"
"#;

/// A pod of an unknown scheduler, with this reference to its PodGroup.
fn member(name: &str, reference: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{schedulerName: nobody, \
         workloadRef: {reference}, containers: [{{name: c, image: i}}]}}}}"
    )
}

fn status(scheduled: i64, state: &str, reason: &str) -> String {
    let condition = tree!({"type": "PodGroupScheduled", "status": state, "reason": reason, "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    tree!({"status": {"scheduledPods": scheduled, "conditions": [condition]}}).to_json()
}

/// Shows: 5832-01, 5832-21.
#[test]
fn gang_api_is_found_by_kubectl() {
    let Some(kubectl) = Kubectl::new("gang_found") else { return };
    let table = kubectl.ok(&["api-resources", "--api-group=scheduling.k8s.io", "-o", "wide"]);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    for (plural, kind) in [("podgroups", "PodGroup"), ("workloads", "Workload")] {
        let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        assert_contains(&row(plural), &[&["scheduling.k8s.io/v1alpha1", "true", kind], &verbs[..]].concat());
    }
    let group = Tree::parse(kubectl.ok(&["get", "--raw", "/apis/scheduling.k8s.io"]).as_bytes()).unwrap();
    let versions: Vec<&str> =
        group.items_at(&["versions"]).iter().map(|version| version.str_at(&["version"])).collect();
    assert_eq!(versions, ["v1", "v1alpha1", "v1beta1"]);
    for version in ["v1alpha1", "v1beta1"] {
        let path = format!("/apis/scheduling.k8s.io/{version}");
        let list = Tree::parse(kubectl.ok(&["get", "--raw", &path]).as_bytes()).unwrap();
        let names: Vec<&str> = list.items_at(&["resources"]).iter().map(|r| r.str_at(&["name"])).collect();
        assert_eq!(names, ["podgroups", "podgroups/status", "workloads"], "{version}");
        assert_eq!(list.items_at(&["resources"])[1].at(&["verbs"]), Some(&tree!(["get", "patch", "update"])));
    }
}

/// Shows: 5832-03, 5832-17.
#[test]
fn gang_api_takes_the_printed_example() {
    let Some(kubectl) = Kubectl::new("gang_printed") else { return };
    let printed = PRINTED.replace("ns-1", &kubectl.namespace);
    for (text, words) in [
        (WORKLOAD, "workload.scheduling.k8s.io/training-workload created"),
        (&printed, "podgroup.scheduling.k8s.io/pd-1 created"),
        // The status that its author printed is never stored, so that kubectl sends it every time.
        (&printed, "podgroup.scheduling.k8s.io/pd-1 configured"),
        (WORKLOAD, "workload.scheduling.k8s.io/training-workload unchanged"),
    ] {
        let said = kubectl.run_with(&["apply", "-f", "-"], text);
        assert_eq!(said.err, "", "no complaint, no warning");
        assert_contains(&said.ok(), &[words]);
    }
    let group = kubectl.object("podgroup/pd-1");
    assert_eq!(group.str_at(&["apiVersion"]), "scheduling.k8s.io/v1alpha1");
    assert_eq!(
        group.int_at(&["status", "scheduledPods"]).unwrap_or(0),
        0,
        "no status is taken from its author"
    );
    let mut conditions = group.items_at(&["status", "conditions"]).iter();
    assert!(!conditions.any(|it| it.str_at(&["status"]) == "True"), "{group}");
    assert_eq!(group.str_at(&["spec", "podGroupTemplateName"]), "pd-1-template", "both spellings are there");
    kubectl.ok_with(&["apply", "-f", "-"], &member("p", "{name: training-workload, podGroupName: pd-1}"));
    assert_eq!(kubectl.object("pod/p").str_at(&["spec", "workloadRef", "podGroupName"]), "pd-1");
    let wrong = member("q", "{name: training-workload, podGroupTemplateName: pd-1}");
    let refusal = kubectl.run_with(&["apply", "-f", "-"], &wrong).expect_failure();
    assert_contains(&refusal, &["unknown field \"spec.workloadRef.podGroupTemplateName\""]);
}

/// Shows: 5832-17.
#[test]
fn gang_api_is_explained() {
    let Some(kubectl) = Kubectl::new("gang_explained") else { return };
    let beta = "--api-version=scheduling.k8s.io/v1beta1";
    let cases: &[(&[&str], &[&str])] = &[
        (&["podgroup"], &["KIND:", "PodGroup", "VERSION:", "v1alpha1", "spec", "-required-", "status"]),
        (
            &["podgroup.spec"],
            &["workloadRef", "<ObjectReference>", "podGroupTemplateRef", "podGroupTemplateName"],
        ),
        (&["podgroup.status"], &["conditions", "<[]Condition>", "scheduledPods", "<integer>"]),
        (&["workload.spec.podGroupTemplates"], &["policy", "schedulingPolicy", "name", "-required-"]),
        (&["workload.spec.podGroupTemplates.policy.gang.minCount"], &["<integer>"]),
        (&["pod.spec.workloadRef"], &["name", "podGroupName", "podGroupReplicaKey", "<string>"]),
        (&["job.spec.template.spec.workloadRef.podGroupName"], &["<string>"]),
        (&["podgroup.spec.workloadRef", beta], &["v1beta1", "workloadName", "templateName"]),
    ];
    for (args, want) in cases {
        assert_contains(&kubectl.ok(&[&["explain"], *args].concat()), want);
    }
}

/// Shows: 5832-21.
#[test]
fn gang_api_shows_useful_columns() {
    let Some(kubectl) = Kubectl::new("gang_columns") else { return };
    kubectl.ok_with(&["create", "-f", "-"], &PRINTED.replace("ns-1", &kubectl.namespace));
    let row = |args: &[&str]| -> Vec<String> {
        let table = kubectl.ok(&[&["get"], args].concat());
        table.lines().map(|line| line.split_whitespace().take(5).collect::<Vec<_>>().join(" ")).collect()
    };
    let heads = "NAME WORKLOAD TEMPLATE SCHEDULED STATUS";
    assert_eq!(row(&["podgroups"]), [heads, "pd-1 training-workload pd-1-template 0 Pending"]);
    for (scheduled, state, reason, shown) in [
        (0, "Unknown", "WaitingForPods", "0 WaitingForPods"),
        (1, "False", "Unschedulable", "1 Unschedulable"),
        (2, "True", "MinCountSatisfied", "2 Scheduled"),
    ] {
        let patch = status(scheduled, state, reason);
        kubectl.ok(&["patch", "podgroup", "pd-1", "--subresource=status", "--type=merge", "-p", &patch]);
        assert_eq!(row(&["podgroup", "pd-1"])[1], format!("pd-1 training-workload pd-1-template {shown}"));
    }
    assert_eq!(kubectl.ok(&["get", "podgroup", "pd-1", "-o", "jsonpath={.status.scheduledPods}"]), "2");
    let released = "podgroups.v1beta1.scheduling.k8s.io";
    let seen = row(&[released]).remove(1);
    assert!(seen.starts_with("pd-1 <none> training-workload Scheduled "), "{seen}");
    kubectl.ok(&["wait", "--for=condition=PodGroupScheduled", "podgroup/pd-1", "--timeout=30s"]);
    kubectl.ok(&[
        "wait",
        "--for=condition=PodGroupInitiallyScheduled",
        &format!("{released}/pd-1"),
        "--timeout=30s",
    ]);
    assert_contains(
        &kubectl.ok(&["describe", "podgroup", "pd-1"]),
        &["Scheduled Pods:", "MinCountSatisfied"],
    );
    let evicted = tree!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = tree!({"status": {"conditions": [evicted]}}).to_json();
    kubectl.ok(&["patch", "podgroup", "pd-1", "--subresource=status", "--type=strategic", "-p", &patch]);
    assert!(row(&["podgroups"])[1].ends_with("2 PreemptionByScheduler"), "both conditions are there");
}

/// Shows: 5832-15.
#[test]
fn gang_api_warns_of_what_is_deprecated() {
    let Some(kubectl) = Kubectl::new("gang_warned") else { return };
    for (name, reference, warned) in [
        ("a", "{name: w, podGroupName: g}", false),
        ("b", "{name: w, podGroupName: g, podGroupReplicaKey: k}", true),
        ("c", "{name: w, podGroup: g, podGroupReplicaKey: k}", true),
    ] {
        let said = kubectl.run_with(&["create", "-f", "-"], &member(name, reference));
        assert_eq!(
            said.err.contains("Warning: spec.workloadRef.podGroupReplicaKey: deprecated"),
            warned,
            "{}",
            said.err
        );
        said.ok();
    }
}

/// Shows: 5832-19.
#[test]
fn gang_api_has_every_verb() {
    let Some(kubectl) = Kubectl::new("gang_verbs") else { return };
    let printed = PRINTED.replace("ns-1", &kubectl.namespace);
    for (name, text) in [("podgroup/pd-1", printed.as_str()), ("workload/training-workload", WORKLOAD)] {
        let plural = name.split('/').next().map(|kind| format!("{kind}s")).unwrap();
        let watching = kubectl.watch(&["get", &plural, "--watch", "--output-watch-events"]);
        kubectl.ok_with(&["create", "-f", "-"], text);
        let label = |by: &str| kubectl.object(name).str_at(&["metadata", "labels", by]).to_owned();
        kubectl.ok(&["label", name, "by=label"]);
        for (kind, patch, key) in [
            ("merge", r#"{"metadata":{"labels":{"merge":"x"}}}"#, "merge"),
            ("strategic", r#"{"metadata":{"labels":{"strategic":"x"}}}"#, "strategic"),
            ("json", r#"[{"op":"add","path":"/metadata/labels/json","value":"x"}]"#, "json"),
        ] {
            kubectl.ok(&["patch", name, &format!("--type={kind}"), "-p", patch]);
            assert_eq!(label(key), "x", "{kind}");
        }
        kubectl
            .ok_with(&["apply", "--server-side", "--field-manager=me", "--force-conflicts", "-f", "-"], text);
        kubectl.ok_with(&["replace", "-f", "-"], text);
        assert_eq!(label("by"), "", "a replacement replaces");
        assert_contains(
            &kubectl.ok(&["get", &plural, "-A", "--field-selector", "metadata.name!=x"]),
            &["NAME"],
        );
        kubectl.ok(&["delete", name]);
        assert_contains(&kubectl.run(&["get", name]).expect_failure(), &["(NotFound)"]);
        eventually("the events", || {
            let seen = watching.output();
            let kinds: Vec<&str> = seen.lines().filter_map(|l| l.split_whitespace().next()).skip(1).collect();
            let in_order = kinds.first() == Some(&"ADDED")
                && kinds.last() == Some(&"DELETED")
                && kinds.iter().filter(|kind| **kind == "MODIFIED").count() >= 5;
            if in_order { Ok(()) } else { Err(seen) }
        });
        drop(watching);
        kubectl.ok_with(&["create", "-f", "-"], text);
        let all = format!("/apis/scheduling.k8s.io/v1alpha1/namespaces/{}/{plural}", kubectl.namespace);
        kubectl.ok(&["delete", "--raw", &all]);
        assert_eq!(kubectl.ok(&["get", &plural, "-o", "name"]), "", "the collection is gone");
    }
}

/// Shows: 5832-07, 5832-13.
#[test]
fn gang_api_refuses_in_plain_words() {
    let Some(kubectl) = Kubectl::new("gang_refused") else { return };
    kubectl.ok_with(&["create", "-f", "-"], WORKLOAD);
    kubectl.ok_with(&["create", "-f", "-"], &PRINTED.replace("ns-1", &kubectl.namespace));
    let patch = |name: &str, patch: &str| kubectl.run(&["patch", name, "--type=merge", "-p", patch]);
    let workload = "workload/training-workload";
    let scaled =
        r#"{"spec":{"podGroupTemplates":[{"name":"pd-1-template","policy":{"gang":{"minCount":8}}}]}}"#;
    patch(workload, scaled).ok();
    let more = r#"{"spec":{"podGroupTemplates":[{"name":"pd-1-template","policy":{"gang":{"minCount":8}}},{"name":"b","policy":{"basic":{}}}]}}"#;
    let refusal = patch(workload, more).expect_failure();
    assert_contains(
        &refusal,
        &["The Workload \"training-workload\" is invalid", "spec.podGroupTemplates", "field is immutable"],
    );
    let refusal = patch("podgroup/pd-1", r#"{"spec":{"podGroupTemplateName":"other"}}"#).expect_failure();
    assert_contains(
        &refusal,
        &["The PodGroup \"pd-1\" is invalid", "spec.podGroupTemplateName", "\"other\"", "field is immutable"],
    );
    let refusal = patch("podgroup/pd-1", r#"{"spec":{"workloadRef":{"name":"other"}}}"#).expect_failure();
    assert_contains(&refusal, &["spec.workloadRef", "field is immutable"]);
    let elsewhere = PRINTED.replace("ns-1", &kubectl.namespace).replace("pd-1\n", "pd-2\n");
    let elsewhere =
        elsewhere.replace("name: training-workload", "name: training-workload\n    namespace: other");
    let refusal = kubectl.run_with(&["create", "-f", "-"], &elsewhere).expect_failure();
    assert_contains(
        &refusal,
        &["spec.workloadRef.namespace", "\"other\"", "must be empty or the namespace of the PodGroup"],
    );
}

/// Shows: 5832-21.
#[test]
fn gang_api_goes_before_foreign_kinds_of_the_same_name() {
    let Some(kubectl) = Kubectl::new("gang_foreign") else { return };
    let definition = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.scheduling.gangs.example.com}
spec:
  group: scheduling.gangs.example.com
  scope: Namespaced
  names: {plural: podgroups, singular: podgroup, kind: PodGroup}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";
    kubectl.ok_with(&["create", "-f", "-"], definition);
    kubectl.ok(&["wait", "--for=condition=Established", "crd/podgroups.scheduling.gangs.example.com"]);
    kubectl.ok_with(&["create", "-f", "-"], &PRINTED.replace("ns-1", &kubectl.namespace));
    let own = kubectl.object("podgroup/pd-1");
    assert_eq!(own.str_at(&["apiVersion"]), "scheduling.k8s.io/v1alpha1");
    kubectl.ok(&["delete", "crd", "podgroups.scheduling.gangs.example.com"]);
}

/// Shows: 5832-56.
#[test]
fn gang_gates_that_contradict_each_other_end_the_start() {
    let run = |gates: &str| {
        let binary = embedded_server::binary().unwrap();
        Command::new(binary)
            .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--feature-gates", gates])
            .output()
            .unwrap()
    };
    for (gates, words) in [
        ("GenericWorkload=false", "feature gate `GenericWorkloadPodGroup` needs `GenericWorkload`"),
        (
            "GenericWorkloadPodGroup=false,WorkloadWithJob=true",
            "feature gate `WorkloadWithJob` needs `GenericWorkloadPodGroup`",
        ),
    ] {
        let ended = run(gates);
        assert!(!ended.status.success());
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_contains(&said, &[words, "hint: turn `"]);
    }
}

const GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default/podgroups";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn post(server: &ApiClient, path: &str, body: &Tree) -> (u16, Tree) {
    let answer = server.send("POST", path, &RequestStep::default(), body.to_json_bytes()).unwrap();
    (answer.code, answer.body)
}

fn grouped(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}],
        "workloadRef": {"name": "w", "podGroupName": "g"}}})
}

/// Shows: 5832-56, 5832-59, 5832-60.
#[test]
fn gang_gates_off_and_on_again() {
    const ON: [&str; 2] = ["--controllers", ""];
    const OFF: [&str; 4] = ["--controllers", "", "--feature-gates", "GenericWorkloadPodGroup=false"];
    let mut mortal = RestartableServer::with_args(&ON).unwrap();
    let server = mortal.server().unwrap();
    let group = tree!({"metadata": {"name": "g"}, "spec": {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}});
    assert_eq!(post(&server, GROUPS, &group).0, 201);
    assert_eq!(post(&server, PODS, &grouped("first")).0, 201);
    let made = server.get(&format!("{GROUPS}/g")).unwrap().body;
    for round in ["first", "second"] {
        mortal.kill();
        mortal.set_args(&OFF);
        mortal.restart().unwrap();
        let server = mortal.server().unwrap();
        assert_eq!(server.get(&format!("{GROUPS}/g")).unwrap().code, 404, "{round} time off");
        assert_eq!(post(&server, GROUPS, &group).0, 404);
        let list = server.get("/apis/scheduling.k8s.io/v1alpha1").unwrap().body;
        let names: Vec<&str> = list.items_at(&["resources"]).iter().map(|r| r.str_at(&["name"])).collect();
        assert_eq!(names, ["workloads"]);
        let dropped = post(&server, PODS, &grouped(&format!("off-{round}"))).1;
        assert!(dropped.str_at(&["metadata", "name"]).starts_with("off-"), "it is taken: {dropped}");
        assert!(dropped.at(&["spec", "workloadRef"]).is_none(), "without the field: {dropped}");
        let legacy = tree!({"name": "w", "podGroup": "g"});
        let old = grouped(&format!("old-{round}")).with(&["spec", "workloadRef"], legacy.clone());
        assert_eq!(
            post(&server, PODS, &old).1.at(&["spec", "workloadRef"]),
            Some(&legacy),
            "groups inside a Workload work on"
        );
        let kept = server.get(&format!("{PODS}/first")).unwrap().body;
        assert_eq!(kept.str_at(&["spec", "workloadRef", "podGroupName"]), "g", "what is stored stays");

        mortal.kill();
        mortal.set_args(&ON);
        mortal.restart().unwrap();
        let server = mortal.server().unwrap();
        assert_eq!(server.get(&format!("{GROUPS}/g")).unwrap().body, made, "{round} time on: as it was");
        let member = post(&server, PODS, &grouped(&format!("on-{round}"))).1;
        assert_eq!(member.str_at(&["spec", "workloadRef", "podGroupName"]), "g", "{member}");
    }
}
