//! Queues that are configured and explain themselves: `--config`, `kueue_` numbers, the visibility API, explanations.

use std::process::Command;
use std::time::Duration;

use muster_tests::clients::eventually;
use muster_tests::differential::{ApiClient, HttpAnswer, RequestStep};
use muster_tests::embedded_server::{self, EmbeddedServer};
use muster_tree::{Tree, tree};

use super::metrics::Scrape;

const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta2";
const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Long enough for whatever would happen at once.
const QUIET: Duration = Duration::from_millis(700);

/// An embedded control plane with this configuration file.
struct Stage {
    plane: EmbeddedServer,
    server: ApiClient,
}

impl Stage {
    fn new(config: &str) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let plane =
            EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "2", "--config", file.to_str().unwrap()])
                .unwrap();
        let server = plane.server().unwrap();
        Stage { plane, server }
    }

    fn standard() -> Stage {
        Stage::new("apiVersion: muster.dev/v1alpha1\nkind: Configuration\n")
    }

    fn post(&self, path: &str, body: &Tree) -> HttpAnswer {
        self.server.send("POST", path, &RequestStep::default(), body.to_json_bytes()).unwrap()
    }

    fn make(&self, path: &str, body: &Tree) -> Tree {
        let answer = self.post(path, &typed(path, body));
        assert_eq!(answer.code, 201, "{path}: {}", answer.body);
        answer.body
    }

    fn get(&self, path: &str) -> Tree {
        let answer = self.server.get(path).unwrap();
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        answer.body
    }

    fn namespace(&self, name: &str, labels: Tree) {
        self.make("/api/v1/namespaces", &tree!({"metadata": {"name": name, "labels": labels}}));
    }

    /// A queue `team` of this many processors, and a way to it from this namespace.
    fn quota(&self, cpu: &str, namespace: &str) {
        self.make(&format!("{KUEUE}/resourceflavors"), &tree!({"metadata": {"name": "any"}}));
        self.queue("team", "", cpu, tree!({}));
        self.local("team", namespace);
    }

    fn queue(&self, name: &str, cohort: &str, cpu: &str, preemption: Tree) {
        let group = tree!({"coveredResources": ["cpu"],
            "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]});
        let mut spec = tree!({"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption});
        if !cohort.is_empty() {
            spec = spec.with(&["cohortName"], cohort);
        }
        self.make(&format!("{KUEUE}/clusterqueues"), &tree!({"metadata": {"name": name}, "spec": spec}));
    }

    fn local(&self, queue: &str, namespace: &str) {
        let local = tree!({"metadata": {"name": queue}, "spec": {"clusterQueue": queue}});
        self.make(&format!("{KUEUE}/namespaces/{namespace}/localqueues"), &local);
    }

    fn job(&self, namespace: &str, name: &str, queue: &str, resources: Tree) -> Tree {
        self.make(&format!("/apis/batch/v1/namespaces/{namespace}/jobs"), &job(name, queue, resources))
    }

    /// The Workload of a job.
    fn workload(&self, namespace: &str, owner: &str) -> Result<Tree, String> {
        let list = self.get(&format!("{KUEUE}/namespaces/{namespace}/workloads"));
        let owned = |it: &&Tree| {
            it.items_at(&["metadata", "ownerReferences"]).iter().any(|it| it.str_at(&["name"]) == owner)
        };
        list.items_at(&["items"]).iter().find(owned).cloned().ok_or_else(|| list.to_json())
    }

    fn has(
        &self,
        namespace: &str,
        owner: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> Result<(), String> {
        let workload = self.workload(namespace, owner)?;
        let is = |it: &&Tree| {
            it.str_at(&["type"]) == condition
                && it.str_at(&["status"]) == status
                && it.str_at(&["reason"]) == reason
        };
        let found = workload.items_at(&["status", "conditions"]).iter().find(is);
        found.map(drop).ok_or_else(|| workload.to_json())
    }

    fn until_has(&self, namespace: &str, owner: &str, condition: &str, status: &str, reason: &str) {
        let what = format!("{owner}: {condition}={status} {reason}");
        eventually(&what, || self.has(namespace, owner, condition, status, reason));
    }

    fn runs_out(&self, namespace: &str, owner: &str) {
        self.until_has(namespace, owner, "QuotaReserved", "False", "WaitingForQuota");
    }

    fn pod(&self, namespace: &str, name: &str, labels: Tree) -> Tree {
        let spec = tree!({"containers": [{"name": "c", "image": "i"}]});
        let pod = tree!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        self.make(&format!("/api/v1/namespaces/{namespace}/pods"), &pod)
    }
}

/// Custom resources have to say what they are.
fn typed(path: &str, body: &Tree) -> Tree {
    let kind = match path.rsplit('/').next() {
        Some("resourceflavors") => "ResourceFlavor",
        Some("clusterqueues") => "ClusterQueue",
        Some("localqueues") => "LocalQueue",
        Some("workloadpriorityclasses") => "WorkloadPriorityClass",
        _ => return body.clone(),
    };
    body.with(&["apiVersion"], "kueue.x-k8s.io/v1beta2").with(&["kind"], kind)
}

fn job(name: &str, queue: &str, resources: Tree) -> Tree {
    let labels = if queue.is_empty() { tree!({}) } else { Tree::map([(QUEUE, Tree::from(queue))]) };
    tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels},
        "spec": {"parallelism": 1, "template": {"metadata": {"annotations": {"muster.dev/sim-run-seconds": "3600"}},
            "spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "resources": resources}]}}}})
}

fn cpu(amount: &str) -> Tree {
    tree!({"requests": {"cpu": amount}})
}

fn is_gated(pod: &Tree) -> bool {
    pod.items_at(&["spec", "schedulingGates"])
        .iter()
        .any(|it| it.str_at(&["name"]) == "kueue.x-k8s.io/admission")
}

/// Shows: 976-03, 976-05, 976-06, 976-16.
#[test]
fn namespace_and_pod_must_both_be_selected() {
    let stage = Stage::new(
        "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nintegrations:\n  podOptions:\n    \
         namespaceSelector: {matchLabels: {team: research}}\n    \
         podSelector: {matchExpressions: [{key: made-by, operator: NotIn, values: [another]}]}\n",
    );
    stage.namespace("inside", tree!({"team": "research"}));
    stage.namespace("outside", tree!({}));
    let plain = Tree::map([(QUEUE, Tree::from("team"))]);
    let foreign = plain.with(&["made-by"], "another");
    for (namespace, labels, waits) in [
        ("inside", &plain, true),
        ("inside", &foreign, false),
        ("outside", &plain, false),
        ("outside", &foreign, false),
    ] {
        let name = if labels == &plain { "plain" } else { "foreign" };
        let pod = stage.pod(namespace, name, labels.clone());
        assert_eq!(is_gated(&pod), waits, "{namespace}/{name}: {pod}");
        let held = !pod.items_at(&["metadata", "finalizers"]).is_empty();
        assert_eq!(held, waits, "{namespace}/{name}: {pod}");
    }
}

/// Shows: 976-15.
#[test]
fn only_integrations_that_are_on_manage() {
    let stage = Stage::new(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: {frameworks: [pod]}\n",
    );
    stage.quota("1", "default");
    let labelled = job("a", "team", cpu("1"));
    let labels = labelled.at(&["metadata", "labels"]).cloned().unwrap();
    let labelled = labelled.with(&["spec", "template", "metadata", "labels"], labels);
    let made = stage.make("/apis/batch/v1/namespaces/default/jobs", &labelled);
    assert_ne!(made.bool_at(&["spec", "suspend"]), Some(true), "{made}");
    eventually("its pod queues", || {
        let pods = stage.get("/api/v1/namespaces/default/pods");
        let managed = |it: &Tree| it.str_at(&["metadata", "labels", "kueue.x-k8s.io/managed"]) == "true";
        if pods.items_at(&["items"]).iter().any(managed) { Ok(()) } else { Err(pods.to_json()) }
    });
    assert!(stage.workload("default", "a").is_err(), "the Job itself does not");
}

#[test]
fn work_without_a_queue_waits_where_that_is_configured() {
    let stage = Stage::new(
        "apiVersion: muster.dev/v1alpha1\nkind: Configuration\nqueueing:\n  manageJobsWithoutQueueName: true\n  \
         managedJobsNamespaceSelector: {matchLabels: {team: research}}\n",
    );
    stage.namespace("inside", tree!({"team": "research"}));
    let held = stage.job("inside", "a", "", cpu("1"));
    assert_eq!(held.bool_at(&["spec", "suspend"]), Some(true), "{held}");
    let free = stage.job("default", "a", "", cpu("1"));
    assert_ne!(free.bool_at(&["spec", "suspend"]), Some(true), "{free}");
    stage.until_has("inside", "a", "QuotaReserved", "False", "Misconfigured");
}

#[test]
fn pods_that_do_not_get_ready_make_room_and_try_again() {
    let stage = Stage::new(
        "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nwaitForPodsReady:\n  enable: true\n  \
         timeout: 1s\n  requeuingStrategy: {backoffBaseSeconds: 1, backoffMaxSeconds: 1, backoffLimitCount: 2}\n\
         objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 1s}}\n",
    );
    stage.quota("10k", "default");
    stage.job("default", "greedy", "team", cpu("9k"));
    stage.until_has("default", "greedy", "Evicted", "True", "PodsReadyTimeout");
    eventually("it comes back and is late again", || {
        let workload = stage.workload("default", "greedy")?;
        let count = workload.int_at(&["status", "requeueState", "count"]);
        if count >= Some(2) { Ok(()) } else { Err(workload.to_json()) }
    });
    eventually("after the last try its Job is deleted", || {
        let answer = stage.server.get("/apis/batch/v1/namespaces/default/jobs/greedy").unwrap();
        if answer.code == 404 { Ok(()) } else { Err(answer.body.to_json()) }
    });
}

#[test]
fn fair_sharing_tells_shares() {
    let stage = Stage::new(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n\
         fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}\n",
    );
    stage.make(&format!("{KUEUE}/resourceflavors"), &tree!({"metadata": {"name": "any"}}));
    for name in ["one", "other"] {
        stage.queue(name, "all", "2", tree!({}));
        stage.local(name, "default");
    }
    stage.job("default", "borrows", "one", cpu("3"));
    stage.until_has("default", "borrows", "QuotaReserved", "True", "QuotaReserved");
    eventually("its share is told", || {
        let queue = stage.get(&format!("{KUEUE}/clusterqueues/one"));
        let share = queue.int_at(&["status", "fairSharing", "weightedShare"]);
        if share == Some(250) { Ok(()) } else { Err(queue.to_json()) }
    });
    let scrape = Scrape::of(&stage.server);
    let share = scrape.value(r#"kueue_cluster_queue_weighted_share{cluster_queue="one",cohort="all"}"#);
    assert_eq!(share, 250.0);
}

#[test]
fn resources_that_are_left_out_do_not_count_and_ended_workloads_go() {
    let stage = Stage::new(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n\
         resources: {excludeResourcePrefixes: [example.com/]}\n\
         objectRetentionPolicies: {workloads: {afterFinished: 1s}}\n",
    );
    stage.quota("2", "default");
    let odd = Tree::map([("cpu", Tree::from("1")), ("example.com/thing", Tree::from("1"))]);
    stage.job("default", "odd", "team", tree!({"requests": odd.clone(), "limits": odd}));
    stage.until_has("default", "odd", "QuotaReserved", "True", "QuotaReserved");
    let short = job("short", "team", cpu("1"));
    let short = short
        .with(&["spec", "template", "metadata"], tree!({"annotations": {"muster.dev/sim-run-seconds": "0"}}));
    stage.make("/apis/batch/v1/namespaces/default/jobs", &short);
    eventually("it ends", || {
        let job = stage.get("/apis/batch/v1/namespaces/default/jobs/short");
        if job.int_at(&["status", "succeeded"]) == Some(1) { Ok(()) } else { Err(job.to_json()) }
    });
    eventually("and its Workload goes", || match stage.workload("default", "short") {
        Err(_) => Ok(()),
        Ok(workload) => Err(workload.to_json()),
    });
    std::thread::sleep(QUIET);
    assert!(stage.workload("default", "short").is_err(), "for good");
    assert!(stage.workload("default", "odd").is_ok(), "what has not ended stays");
}

/// Shows: 976-06.
#[test]
fn letting_the_system_in_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let head = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n";
    for (says, body, words) in [
        (
            "kube-system",
            "integrations: {podOptions: {namespaceSelector: {matchLabels: {}}}}\n",
            "line 3: integrations.podOptions.namespaceSelector: Invalid value: {\"matchLabels\":{}}: should not match the \
             \"kube-system\" namespace",
        ),
        (
            "our own",
            "managedJobsNamespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, \
             values: [kube-system]}]}\n",
            "should not match the \"muster-system\" namespace: leave it out with {key: kubernetes.io/metadata.name",
        ),
        (
            "an integration",
            "integrations: {frameworks: [jobs]}\n",
            "integrations.frameworks[0]: Unsupported value",
        ),
    ] {
        std::fs::write(&file, format!("{head}{body}")).unwrap();
        let mut command = Command::new(embedded_server::binary().unwrap());
        let said = command
            .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let told = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(2), "{says}: {told}");
        assert!(told.contains(words), "{says}: {told}");
    }
}

#[test]
fn bounds_and_overhead_of_the_surroundings_count() {
    let stage = Stage::standard();
    stage.quota("20", "default");
    let class =
        tree!({"metadata": {"name": "heavy"}, "handler": "h", "overhead": {"podFixed": {"cpu": "500m"}}});
    stage.make("/apis/node.k8s.io/v1/runtimeclasses", &class);
    let limits = tree!([{"type": "Container", "defaultRequest": {"cpu": "2"}, "max": {"cpu": "4"}}]);
    stage.make(
        "/api/v1/namespaces/default/limitranges",
        &tree!({"metadata": {"name": "bounds"}, "spec": {"limits": limits}}),
    );
    let heavy =
        job("silent", "team", tree!({})).with(&["spec", "template", "spec", "runtimeClassName"], "heavy");
    stage.make("/apis/batch/v1/namespaces/default/jobs", &heavy);
    stage.until_has("default", "silent", "QuotaReserved", "True", "QuotaReserved");
    let workload = stage.workload("default", "silent").unwrap();
    let assigned = &workload.items_at(&["status", "admission", "podSetAssignments"])[0];
    assert_eq!(assigned.str_at(&["resourceUsage", "cpu"]), "2500m", "{workload}");
    // A container without limits is charged the maximum of the LimitRange.
    for (name, wish, words) in [
        ("silent-greed", cpu("5"), "requests must not exceed its limits"),
        (
            "greedy",
            cpu("5").with(&["limits", "cpu"], "5"),
            "resources didn't satisfy LimitRange constraints: ",
        ),
    ] {
        stage.job("default", name, "team", wish);
        stage.until_has("default", name, "QuotaReserved", "False", "Misconfigured");
        let workload = stage.workload("default", name).unwrap().to_json();
        assert!(workload.contains(words), "{workload}");
    }
    let answer = stage.server.send(
        "DELETE",
        "/api/v1/namespaces/default/limitranges/bounds",
        &RequestStep::default(),
        Vec::new(),
    );
    assert_eq!(answer.unwrap().code, 200);
    stage.until_has("default", "greedy", "QuotaReserved", "True", "QuotaReserved");
}

#[test]
fn queues_are_counted() {
    let stage = Stage::standard();
    stage.quota("2", "default");
    stage.job("default", "runs", "team", cpu("1500m"));
    stage.until_has("default", "runs", "Admitted", "True", "Admitted");
    stage.job("default", "waits", "team", cpu("1"));
    stage.runs_out("default", "waits");
    let short = job("short", "team", cpu("250m"));
    let short = short
        .with(&["spec", "template", "metadata"], tree!({"annotations": {"muster.dev/sim-run-seconds": "0"}}));
    stage.make("/apis/batch/v1/namespaces/default/jobs", &short);
    stage.until_has("default", "short", "Finished", "True", "Succeeded");
    let team = r#"{cluster_queue="team"}"#;
    let local = r#"{name="team",namespace="default"}"#;
    let pair = r#"{cluster_queue="team",cohort="",flavor="any",resource="cpu"}"#;
    let want = [
        (format!("kueue_quota_reserved_workloads_total{team}"), 2.0),
        (format!("kueue_admitted_workloads_total{team}"), 2.0),
        (format!("kueue_local_queue_admitted_workloads_total{local}"), 2.0),
        (format!("kueue_admission_wait_time_seconds_count{team}"), 2.0),
        (format!("kueue_quota_reserved_wait_time_seconds_count{team}"), 2.0),
        (format!("kueue_finished_workloads_total{team}"), 1.0),
        (format!("kueue_local_queue_finished_workloads_total{local}"), 1.0),
        (format!("kueue_reserving_active_workloads{team}"), 1.0),
        (format!("kueue_admitted_active_workloads{team}"), 1.0),
        (r#"kueue_pending_workloads{cluster_queue="team",status="inadmissible"}"#.to_owned(), 1.0),
        (r#"kueue_pending_workloads{cluster_queue="team",status="active"}"#.to_owned(), 0.0),
        (
            r#"kueue_local_queue_pending_workloads{name="team",namespace="default",status="inadmissible"}"#
                .to_owned(),
            1.0,
        ),
        (r#"kueue_unadmitted_workloads{cluster_queue="team",reason="WaitingForQuota"}"#.to_owned(), 1.0),
        (r#"kueue_cluster_queue_status{cluster_queue="team",status="active"}"#.to_owned(), 1.0),
        (format!("kueue_cluster_queue_resource_reservation{pair}"), 1.5),
        (format!("kueue_cluster_queue_resource_usage{pair}"), 1.5),
        (format!("kueue_cluster_queue_nominal_quota{pair}"), 2.0),
        (
            r#"kueue_cluster_queue_resource_pending{cluster_queue="team",cohort="",resource="cpu"}"#
                .to_owned(),
            1.0,
        ),
        ("kueue_workload_creation_latency_seconds_count".to_owned(), 3.0),
    ];
    eventually("all is told", || {
        let scrape = Scrape::of(&stage.server);
        let wrong: Vec<_> =
            want.iter().filter(|(name, want)| scrape.values.get(name) != Some(want)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?} of {:#?}", kueue(&scrape))) }
    });
    let scrape = Scrape::of(&stage.server);
    assert!(
        scrape.value(r#"kueue_admission_attempts_total{result="success"}"#) >= 2.0,
        "{:#?}",
        kueue(&scrape)
    );
    assert!(scrape.value(r#"kueue_admission_attempts_total{result="inadmissible"}"#) >= 1.0);
    let bound = r#"kueue_admission_wait_time_seconds_bucket{le="2.5",cluster_queue="team"}"#;
    assert!(scrape.values.contains_key(bound), "{:#?}", kueue(&scrape));
    assert_eq!(
        stage
            .server
            .send(
                "DELETE",
                &format!("{KUEUE}/namespaces/default/localqueues/team"),
                &RequestStep::default(),
                Vec::new()
            )
            .unwrap()
            .code,
        200
    );
    eventually("who is gone is told no more", || {
        let scrape = Scrape::of(&stage.server);
        let left: Vec<&String> =
            scrape.values.keys().filter(|it| it.starts_with("kueue_local_queue")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert!(stage.plane.kubeconfig().exists());
}

fn kueue(scrape: &Scrape) -> Vec<(&String, &f64)> {
    scrape.values.iter().filter(|(name, _)| name.starts_with("kueue_") && !name.contains("_bucket")).collect()
}

const VISIBILITY: &str = "/apis/visibility.kueue.x-k8s.io";
const EXPLANATIONS: &str = "/apis/visibility.muster.dev/v1alpha1/namespaces/default/explanations";

fn names(summary: &Tree) -> Vec<String> {
    let items = summary.items_at(&["items"]).iter();
    items.map(|it| it.items_at(&["metadata", "ownerReferences"])[0].str_at(&["name"]).to_owned()).collect()
}

#[test]
fn pending_workloads_are_listed_in_order() {
    let stage = Stage::standard();
    stage.quota("1", "default");
    let other = tree!({"metadata": {"name": "other"}, "spec": {"clusterQueue": "team"}});
    stage.make(&format!("{KUEUE}/namespaces/default/localqueues"), &other);
    let class = tree!({"metadata": {"name": "high"}, "value": 10});
    stage.make(&format!("{KUEUE}/workloadpriorityclasses"), &class);
    stage.job("default", "runs", "team", cpu("1"));
    stage.until_has("default", "runs", "Admitted", "True", "Admitted");
    for (name, queue) in [("a", "team"), ("b", "other")] {
        stage.job("default", name, queue, cpu("1"));
        stage.runs_out("default", name);
        // Workloads of the same second are ordered by UID.
        std::thread::sleep(Duration::from_millis(1100));
    }
    let high =
        job("c", "team", cpu("1")).with(&["metadata", "labels", "kueue.x-k8s.io/priority-class"], "high");
    stage.make("/apis/batch/v1/namespaces/default/jobs", &high);
    stage.runs_out("default", "c");
    for version in ["v1beta1", "v1beta2"] {
        let root = format!("{VISIBILITY}/{version}");
        let all = stage.get(&format!("{root}/clusterqueues/team/pendingworkloads"));
        assert_eq!(all.str_at(&["kind"]), "PendingWorkloadsSummary");
        assert_eq!(all.str_at(&["apiVersion"]), format!("visibility.kueue.x-k8s.io/{version}"));
        assert_eq!(names(&all), ["c", "a", "b"], "{all}");
        let places: Vec<[Option<i64>; 3]> = all
            .items_at(&["items"])
            .iter()
            .map(|it| {
                ["positionInClusterQueue", "positionInLocalQueue", "priority"].map(|key| it.int_at(&[key]))
            })
            .collect();
        assert_eq!(places, [[0, 0, 10], [1, 1, 0], [2, 0, 0]].map(|it| it.map(Some)));
        let part = stage.get(&format!("{root}/clusterqueues/team/pendingworkloads?offset=1&limit=1"));
        assert_eq!(names(&part), ["a"]);
        let local = stage.get(&format!("{root}/namespaces/default/localqueues/other/pendingworkloads"));
        assert_eq!(names(&local), ["b"]);
        let listed = stage.get(&root);
        let named: Vec<&str> =
            listed.items_at(&["resources"]).iter().map(|it| it.str_at(&["name"])).collect();
        let want = [
            "clusterqueues",
            "clusterqueues/pendingworkloads",
            "localqueues",
            "localqueues/pendingworkloads",
        ];
        assert_eq!(named, want);
    }
    for (path, code) in [
        ("v1beta2/clusterqueues/nobody/pendingworkloads", 404),
        ("v1beta2/namespaces/default/localqueues/nobody/pendingworkloads", 404),
        ("v1beta2/clusterqueues/team/pendingworkloads?offset=-1", 400),
        ("v1beta2/clusterqueues/team", 405),
        ("v1beta3/clusterqueues/team/pendingworkloads", 404),
    ] {
        let answer = stage.server.get(&format!("{VISIBILITY}/{path}")).unwrap();
        assert_eq!(answer.code, code, "{path}: {}", answer.body);
    }
    let groups = stage.get("/apis");
    let groups = groups.items_at(&["groups"]).iter().map(|it| it.str_at(&["name"]));
    assert_eq!(groups.filter(|it| it.starts_with("visibility.")).count(), 2);
}

fn why(stage: &Stage, args: &[&str]) -> String {
    let mut command = Command::new(embedded_server::binary().unwrap());
    let said =
        command.arg("why").args(args).arg("--kubeconfig").arg(stage.plane.kubeconfig()).output().unwrap();
    assert!(said.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn the_pending_reason_is_explained() {
    let stage = Stage::standard();
    stage.quota("4", "default");
    stage.job("default", "holds", "team", cpu("3"));
    stage.until_has("default", "holds", "Admitted", "True", "Admitted");
    stage.job("default", "waits", "team", cpu("2"));
    stage.runs_out("default", "waits");
    let workload = stage.workload("default", "waits").unwrap().str_at(&["metadata", "name"]).to_owned();
    let holder = stage.workload("default", "holds").unwrap().str_at(&["metadata", "name"]).to_owned();
    let told = stage.get(&format!("{EXPLANATIONS}/{workload}"));
    assert_eq!((told.str_at(&["state"]), told.str_at(&["reason"])), ("Pending", "WaitingForQuota"), "{told}");
    assert_eq!((told.str_at(&["localQueue"]), told.str_at(&["clusterQueue"])), ("team", "team"));
    assert_eq!(told.int_at(&["positionInClusterQueue"]), Some(0));
    let flavor = &told.items_at(&["podSets"])[0].items_at(&["flavors"])[0];
    assert_eq!((flavor.str_at(&["name"]), flavor.str_at(&["verdict"])), ("any", "NobodyToPreempt"), "{told}");
    let want = tree!({"name": "cpu", "requested": "2", "available": "1", "maximum": "4", "shortfall": "1"});
    assert_eq!(flavor.items_at(&["resources"])[0], want);
    assert_eq!(told.items_at(&["holders"])[0].str_at(&["name"]), holder);
    assert_eq!(
        told.items_at(&["impossiblePreemptions"])[0].str_at(&["policy"]),
        "preemption.withinClusterQueue"
    );
    assert_eq!(told.at(&["estimatedWait", "seconds"]), Some(&Tree::Null));
    assert!(!told.str_at(&["estimatedWait", "message"]).is_empty());
    assert!(!told.str_at(&["lastEvaluationTime"]).is_empty());
    let admitted = stage.get(&format!("{EXPLANATIONS}/{holder}"));
    assert_eq!(admitted.str_at(&["state"]), "Admitted");

    let words = why(&stage, &["job/waits"]);
    for want in [
        "Job default/waits: Pending",
        "number 1 in LocalQueue team, number 1 in ClusterQueue team",
        "cpu: 2 asked for, 1 available, 4 at most, 1 missing",
        "nobody is preempted by preemption.withinClusterQueue: Never",
    ] {
        assert!(words.contains(want), "{want} is not in\n{words}");
    }
    let data = Tree::parse(why(&stage, &[&format!("workload/{workload}"), "-o", "json"]).as_bytes()).unwrap();
    assert_eq!(data.str_at(&["explanation", "reason"]), "WaitingForQuota");
    eventually("the Job itself is told", || {
        let events = stage.get("/api/v1/namespaces/default/events");
        let about = |it: &&Tree| {
            it.str_at(&["involvedObject", "kind"]) == "Job"
                && it.str_at(&["involvedObject", "name"]) == "waits"
        };
        let told: Vec<&Tree> = events.items_at(&["items"]).iter().filter(about).collect();
        let said = told.iter().filter(|it| it.str_at(&["reason"]) == "WaitingForQuota").count();
        if said == 1 { Ok(()) } else { Err(format!("{told:?}")) }
    });
}

#[test]
fn a_manifest_is_evaluated_without_being_created() {
    let stage = Stage::standard();
    stage.make(&format!("{KUEUE}/resourceflavors"), &tree!({"metadata": {"name": "any"}}));
    stage.queue("team", "", "4", tree!({"withinClusterQueue": "LowerPriority"}));
    stage.local("team", "default");
    stage.make(
        &format!("{KUEUE}/workloadpriorityclasses"),
        &tree!({"metadata": {"name": "high"}, "value": 10}),
    );
    stage.job("default", "holds", "team", cpu("3"));
    stage.until_has("default", "holds", "Admitted", "True", "Admitted");
    let high = |amount: &str| {
        job("new", "team", cpu(amount)).with(&["metadata", "labels", "kueue.x-k8s.io/priority-class"], "high")
    };
    for (says, manifest, state, reason) in [
        ("it fits", job("new", "team", cpu("1")), "WouldBeAdmitted", ""),
        ("there is no room", job("new", "team", cpu("2")), "WouldWait", "WaitingForQuota"),
        ("there never is", job("new", "team", cpu("5")), "WouldWait", "ExceedsMaxQuota"),
        ("somebody would go", high("2"), "WouldPreempt", ""),
        ("another queue", job("new", "nowhere", cpu("1")), "WouldWait", "Misconfigured"),
    ] {
        let answer = stage.post(EXPLANATIONS, &manifest);
        assert_eq!(answer.code, 201, "{says}: {}", answer.body);
        let told = (answer.body.str_at(&["state"]), answer.body.str_at(&["reason"]));
        assert_eq!(told, (state, reason), "{says}: {}", answer.body);
        let goes = answer.body.items_at(&["preempts"]).len();
        assert_eq!(goes, usize::from(state == "WouldPreempt"), "{says}: {}", answer.body);
    }
    let wrong =
        stage.post(EXPLANATIONS, &tree!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}));
    assert_eq!(wrong.code, 422, "{}", wrong.body);
    let wrong = stage.post(EXPLANATIONS, &job("new", "", cpu("1")));
    assert!(wrong.body.str_at(&["message"]).contains("names no queue"), "{}", wrong.body);
    let jobs = stage.get("/apis/batch/v1/namespaces/default/jobs");
    assert_eq!(jobs.items_at(&["items"]).len(), 1, "nothing was made");
    let file = stage.plane.directory().join("job.json");
    std::fs::write(&file, high("2").to_json()).unwrap();
    let words = why(&stage, &["-f", file.to_str().unwrap()]);
    assert!(words.contains("Manifest default/new: WouldPreempt"), "{words}");
}

/// Pods without a queue are explained by their own conditions, with the queue controllers off as well.
#[test]
fn plain_pods_and_servers_without_explanations_are_explained_by_conditions() {
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1", "--controllers", "*,-queue"]).unwrap();
    let server = plane.server().unwrap();
    let stage = Stage { plane, server };
    let spec =
        tree!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9999"}}}]});
    stage.make("/api/v1/namespaces/default/pods", &tree!({"metadata": {"name": "greedy"}, "spec": spec}));
    stage.job("default", "greedy", "", cpu("9999"));
    eventually("they are told to wait", || {
        let pods = stage.get("/api/v1/namespaces/default/pods");
        let told = |it: &&Tree| !it.items_at(&["status", "conditions"]).is_empty();
        if pods.items_at(&["items"]).iter().filter(told).count() == 2 { Ok(()) } else { Err(pods.to_json()) }
    });
    let words = why(&stage, &["pod/greedy"]);
    assert!(
        words.contains("Pod default/greedy: Pending") && words.contains("Unschedulable: 0/1 nodes"),
        "{words}"
    );
    let words = why(&stage, &["job/greedy"]);
    assert!(words.contains("Job default/greedy: Pending") && words.contains("Unschedulable"), "{words}");
    let mut command = Command::new(embedded_server::binary().unwrap());
    let said =
        command.args(["why", "job/nobody", "--kubeconfig"]).arg(stage.plane.kubeconfig()).output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("there is no Job nobody in namespace default"));
}
