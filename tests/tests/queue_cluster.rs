//! Queues on a real Kubernetes with an installed operator: the same stories, and what only a cluster has.

use muster_tests::clients::note;
use muster_tests::queue_fixture::{self, QueueFixture, WORKLOADS};
use muster_tests::real::GangSupport;
use muster_tree::Tree;

/// What is played on a stage.
type Story = fn(&QueueFixture);

/// Shows: 976-01, 976-07, 976-08, 976-09, 976-10, 976-22, 976-23, 976-24, 976-25, 976-26, 976-33, 976-36, 976-39, 976-68.
#[test]
fn queues_of_a_real_server_are_those_of_the_embedded_one() {
    let Some(stage) = QueueFixture::real("queues_of_a_real_server_are_those_of_the_embedded_one") else {
        return;
    };
    let stories: [(&str, Story); 8] = [
        ("a pod", queue_fixture::a_plain_pod_is_gated_until_quota),
        ("a group", queue_fixture::a_group_is_admitted_all_or_nothing),
        ("roles", queue_fixture::a_group_waits_for_a_pod_of_every_role),
        ("a driver", |stage| {
            queue_fixture::a_driver_is_admitted_with_quota_for_its_workers(stage, "queue-driver.yaml");
        }),
        ("a driver as printed", |stage| {
            queue_fixture::a_driver_is_admitted_with_quota_for_its_workers(
                stage,
                "queue-driver-as-printed.yaml",
            );
        }),
        ("teams", queue_fixture::borrowed_quota_is_reclaimed_by_preemption),
        ("jobs", jobs_and_sets),
        ("flavors", flavors_are_worn_and_taken_off),
    ];
    let wanted = std::env::var("MUSTER_TEST_STORY").unwrap_or_default();
    for (says, story) in stories.into_iter().filter(|(says, _)| says.contains(&wanted)) {
        eprintln!("the story of {says}");
        story(&stage);
        stage.clear();
    }
    let told = stage.operator_log();
    assert!(!told.contains("ERROR muster"), "{told}");
    pods_are_watched_once(&stage);
    note("queues: the stories of the examples on a real server, with an installed operator");
}

/// Whatever happened, pods were listed once at most, and never watched twice at a time.
fn pods_are_watched_once(stage: &QueueFixture) {
    let is_pods = |it: &&Tree| {
        it.str_at(&["objectRef", "resource"]) == "pods" && it.str_at(&["objectRef", "name"]).is_empty()
    };
    let (mut lists, mut watches, mut open) = (0, 0, 0);
    for event in stage.audit_events().iter().filter(is_pods) {
        match (event.str_at(&["verb"]), event.str_at(&["stage"])) {
            ("list", "ResponseComplete") => lists += 1,
            ("watch", "ResponseStarted") => (watches, open) = (watches + 1, open + 1),
            ("watch", "ResponseComplete") => open -= 1,
            _ => {}
        }
        assert!(open <= 1, "pods are watched twice: {event}");
    }
    assert!(watches > 0, "pods are watched");
    assert!(lists <= 1, "pods are listed {lists} times");
}

/// Queued groups are gangs in whatever form the server has them, with its own scheduler where that knows them.
#[test]
fn queued_groups_are_gangs_on_real_servers() {
    for (gangs, api_group, schedulers) in [
        (GangSupport::AllFields, "scheduling.k8s.io", &["", "muster-scheduler"][..]),
        (GangSupport::Absent, "scheduling.muster.dev", &["muster-scheduler"]),
    ] {
        let Some(stage) = QueueFixture::real_with("queued_groups_are_gangs_on_real_servers", gangs) else {
            return;
        };
        for scheduler in schedulers {
            eprintln!("gangs of {api_group}, placed by {scheduler:?}");
            queue_fixture::a_group_is_scheduled_as_a_gang(&stage, api_group, scheduler);
            stage.clear();
            queue_fixture::a_gang_without_capacity_is_not_scheduled(&stage, scheduler);
            stage.clear();
        }
        let told = stage.operator_log();
        assert!(!told.contains("ERROR muster"), "{told}");
    }
    note("queues: groups of pods as gangs of real servers that have such, and of those that have none");
}

/// A ClusterQueue in the words of the older version.
const OLD: &str = "
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: old}
spec:
  cohort: lab
  namespaceSelector: {}
  flavorFungibility: {whenCanBorrow: Borrow}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 2}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: old, namespace: default}
spec: {clusterQueue: old}
";

/// A pod with or without a queue.
fn pod(name: &str, labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {labels}\n  annotations: \
         {{muster.dev/sim-run-seconds: '600'}}\nspec:\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 1\n  \
         containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1m}}}}}}]\n"
    )
}

const QUEUED: &str = "{kueue.x-k8s.io/queue-name: user-queue}";

fn is_gated(pod: &Tree) -> bool {
    let ours = |gate: &Tree| gate.str_at(&["name"]) == "kueue.x-k8s.io/admission";
    pod.items_at(&["spec", "schedulingGates"]).iter().any(ours)
}

/// A JobSet with two pods, and a Job that runs for long.
const JOBS: &str = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  replicatedJobs:
  - name: w
    replicas: 2
    template:
      spec:
        template:
          metadata: {annotations: {muster.dev/sim-run-seconds: '1'}}
          spec:
            restartPolicy: Never
            containers: [{name: c, image: i, resources: {requests: {cpu: 1m}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: long, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  parallelism: 1
  completions: 3
  template:
    metadata: {annotations: {muster.dev/sim-run-seconds: '600'}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: i, resources: {requests: {cpu: 1m}}}]
";

/// Whether an object is suspended.
fn is_suspended(stage: &QueueFixture, object: &str) -> Result<bool, String> {
    let seen = stage.get(&[object]);
    seen.bool_at(&["spec", "suspend"]).ok_or_else(|| seen.to_json())
}

/// The name and the pod sets of the Workload of this job.
fn workload_of(stage: &QueueFixture, kind: &str, name: &str) -> Option<(String, Vec<(String, i64)>)> {
    let all = stage.get(&[WORKLOADS]);
    let owned = |it: &&Tree| {
        let mut owners = it.items_at(&["metadata", "ownerReferences"]).iter();
        owners.any(|it| it.str_at(&["kind"]) == kind && it.str_at(&["name"]) == name)
    };
    let found = all.items_at(&["items"]).iter().find(owned)?.str_at(&["metadata", "name"]).to_owned();
    let sets = stage.pod_sets(&found);
    Some((found, sets))
}

/// JobSets and Jobs wait, start, and ask anew when they want something else.
fn jobs_and_sets(stage: &QueueFixture) {
    let is = |object: &'static str, want: bool| {
        move |stage: &QueueFixture| match is_suspended(stage, object)? {
            is if is == want => Ok(()),
            is => Err(format!("{object} is suspended: {is}")),
        }
    };
    stage.set_quota("0");
    stage.apply_text(JOBS);
    stage.stays("the JobSet waits", is("jobset/set", true));
    stage.stays("the Job waits", is("job/long", true));
    stage.until("it asks for all of it", |stage| match workload_of(stage, "JobSet", "set") {
        Some((_, sets)) if sets == [("w".to_owned(), 2)] => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stage.set_quota("10m");
    stage.until("the Job starts", is("job/long", false));
    stage.until("the JobSet ends", |stage| {
        let set = stage.get(&["jobset", "set"]);
        if set.str_at(&["status", "terminalState"]) == "Completed" { Ok(()) } else { Err(set.to_json()) }
    });
    stage.until("only the Job has its share", |stage| stage.usage_is("team", "1m"));
    stage.kubectl(&["patch", "job", "long", "--type=merge", "-p", r#"{"spec": {"parallelism": 3}}"#]);
    stage.until("it asks for more, and gets it", |stage| stage.usage_is("team", "3m"));
    stage.until("and runs again", is("job/long", false));
}

/// A flavor that says where its pods go, and room for one job of two.
const FLAVOR: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: linux}
spec:
  nodeLabels: {kubernetes.io/os: linux}
  tolerations: [{key: reserved, operator: Exists, effect: NoSchedule}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: linux, resources: [{name: cpu, nominalQuota: 1m}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: default}
spec: {clusterQueue: team}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
";

/// A pod, or a Job of one, that runs for long.
fn long(kind: &str, name: &str, more: &str) -> String {
    let labels = format!("{{kueue.x-k8s.io/queue-name: user-queue{more}}}");
    if kind == "Pod" {
        return pod(name, &labels);
    }
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, labels: {labels}}}\nspec:\n  template:\n    metadata: \
         {{annotations: {{muster.dev/sim-run-seconds: '600'}}}}\n    spec:\n      restartPolicy: Never\n      \
         terminationGracePeriodSeconds: 1\n      containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1m}}}}}}]\n"
    )
}

/// What a pod, or the pods of a Job, say about where they go.
fn place(object: &Tree) -> (Option<&Tree>, usize) {
    let job = object.at(&["spec", "template", "spec"]);
    let spec = job.or_else(|| object.at(&["spec"])).unwrap();
    let reserved = |it: &&Tree| it.str_at(&["key"]) == "reserved";
    (spec.get("nodeSelector"), spec.items_at(&["tolerations"]).iter().filter(reserved).count())
}

/// An admitted Job gets the node selector of its flavor; an evicted one is restored and requeued.
fn flavors_are_worn_and_taken_off(stage: &QueueFixture) {
    let linux = Tree::map([("kubernetes.io/os", "linux")]);
    let worn = |object: &'static str, want: bool| {
        let linux = linux.clone();
        move |stage: &QueueFixture| {
            let seen = stage.get(&[object]);
            let worn = place(&seen) == (Some(&linux), 1);
            let bare = place(&seen) == (None, 0);
            if (want && worn) || (!want && bare) { Ok(()) } else { Err(seen.to_json()) }
        }
    };
    stage.apply_text(FLAVOR);
    stage.apply_text(&long("Job", "low", ""));
    stage.until("the Job goes where its flavor says", worn("job/low", true));
    stage.until("and runs", |stage| match stage.get(&["job", "low"]).int_at(&["status", "ready"]) {
        Some(1) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stage.apply_text(&long("Job", "high", ", kueue.x-k8s.io/priority-class: high"));
    stage.until("one that matters more takes its place", worn("job/high", true));
    stage.until("it is as it was", worn("job/low", false));
    assert_eq!(is_suspended(stage, "job/low"), Ok(true));
    stage.kubectl(&["delete", "job", "high", "--timeout=60s"]);
    stage.until("it comes back", worn("job/low", true));
    stage.kubectl(&["delete", "job", "low", "--timeout=60s"]);
    stage.apply_text(&long("Pod", "low", ""));
    stage.until("so do pods", worn("pod/low", true));
    stage.apply_text(&long("Pod", "high", ", kueue.x-k8s.io/priority-class: high"));
    stage.until("a pod cannot wait again", |stage| match stage.try_get(&["pod", "low"]) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stage.until("its place is taken", worn("pod/high", true));
    let events = stage.get(&["events", "--field-selector", "involvedObject.name=low,reason=Stopped"]);
    let told = events.items_at(&["items"]).iter().map(|it| it.str_at(&["message"]));
    assert!(
        told.clone().any(|it| it.starts_with("Preempted to accommodate")),
        "{:?}",
        told.collect::<Vec<_>>()
    );
}

/// Both versions are views of the same objects; the storage version is served without a conversion webhook as well.
fn both_versions(stage: &QueueFixture) {
    stage.apply_text(OLD);
    let [old, new] = ["v1beta1", "v1beta2"]
        .map(|version| stage.get(&[&format!("clusterqueues.{version}.kueue.x-k8s.io"), "old"]));
    assert_eq!((old.str_at(&["spec", "cohort"]), new.str_at(&["spec", "cohortName"])), ("lab", "lab"));
    assert_eq!((old.at(&["spec", "cohortName"]), new.at(&["spec", "cohort"])), (None, None));
    assert_eq!(new.str_at(&["spec", "flavorFungibility", "whenCanBorrow"]), "MayStopSearch");
    let finalizers = new.items_at(&["metadata", "finalizers"]);
    assert_eq!(finalizers, [Tree::from("kueue.x-k8s.io/resource-in-use")], "filled in");
    let wrong = OLD.replace("nominalQuota: 2", "nominalQuota: 2, lendingLimit: 3");
    let why = stage.try_apply(&wrong, &[]).unwrap_err();
    assert!(why.contains("lendingLimit") && why.contains("nominalQuota"), "{why}");
    stage.until("its status is told in both", |stage| {
        let list = stage.get(&["localqueues.v1beta1.kueue.x-k8s.io"]);
        let told = list.to_json();
        if told.contains("\"type\":\"Active\"") { Ok(()) } else { Err(told) }
    });
}

/// Removing the scheduling gate requires the rights to admit.
fn who_may_open_gates(stage: &QueueFixture) {
    stage.apply_text(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods}
rules: [{apiGroups: [''], resources: [pods], verbs: [get, list, patch, update, create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shares}
rules: [{apiGroups: [kueue.x-k8s.io], resources: [workloads/status], verbs: [update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: chief}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: shares, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: shares}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: chief}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: batch, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-batch-user}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
",
    );
    stage.set_quota("0");
    stage.try_apply(&pod("held", QUEUED), &["--as", "tenant"]).unwrap();
    assert!(is_gated(&stage.get(&["pod", "held"])));
    let open = r#"[{"op": "remove", "path": "/spec/schedulingGates"}]"#;
    let unmark = r#"{"metadata": {"labels": {"kueue.x-k8s.io/managed": null}}}"#;
    let patch = |user: &str, sort: &str, patch: &str| {
        let sort = format!("--type={sort}");
        stage.run(&["--as", user, "patch", "pod", "held", &sort, "-p", patch, "--output", "json"])
    };
    for (sort, change) in [("json", open), ("merge", unmark)] {
        let why = patch("tenant", sort, change).unwrap_err();
        assert!(why.contains("only the queue may release this pod"), "{why}");
    }
    patch("tenant", "merge", r#"{"metadata": {"labels": {"a": "b"}}}"#).unwrap();
    let opened = Tree::parse(patch("chief", "json", open).unwrap().as_bytes()).unwrap();
    assert!(!is_gated(&opened), "who could admit it may open it");
    let may = |verb: &str, what: &str| {
        stage.run(&["--as", "tenant", "auth", "can-i", verb, &format!("{what}.kueue.x-k8s.io")]).is_ok()
    };
    assert!(may("list", "workloads") && may("get", "localqueues"), "tenants see where they are");
    assert!(!may("patch", "workloads") && !may("update", "workloads/status"), "and give themselves nothing");
}

/// A namespace with a default LocalQueue has webhooks for all pods; other namespaces do not.
fn everybody_of_a_namespace(stage: &QueueFixture) {
    stage.set_quota("0");
    stage.kubectl(&["create", "namespace", "all-wait"]);
    let queue = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: default, namespace: all-wait}\n\
                 spec: {clusterQueue: team}\n";
    let hooks = |stage: &QueueFixture| {
        let hooks = stage.get(&["mutatingwebhookconfiguration", "kueue-mutating-webhook-configuration"]);
        let names = hooks.items_at(&["webhooks"]).iter().map(|it| it.str_at(&["name"]).to_owned());
        names.filter(|name| name.ends_with(".muster.dev")).count()
    };
    assert_eq!(hooks(stage), 0, "nobody is asked about");
    stage.apply_text(queue);
    stage.until("everybody is asked about: pods, Jobs, JobSets and TrainJobs", |stage| match hooks(stage) {
        4 => Ok(()),
        count => Err(count.to_string()),
    });
    let mut tries = 0;
    stage.until("somebody without a key waits", |stage| {
        tries += 1;
        let name = format!("nobody-{tries}");
        stage.try_apply(&pod(&name, "{}"), &["-n", "all-wait"])?;
        let made = stage.get(&["pod", "-n", "all-wait", &name]);
        let queue = made.str_at(&["metadata", "labels", "kueue.x-k8s.io/queue-name"]);
        if is_gated(&made) && queue == "default" { Ok(()) } else { Err(made.to_json()) }
    });
    stage.apply_text(&pod("free", "{}"));
    assert!(!is_gated(&stage.get(&["pod", "free"])), "elsewhere nobody waits");
    stage.kubectl(&["delete", "pods", "--all", "-n", "all-wait", "--timeout=120s"]);
    let jobs = JOBS.replace(", labels: {kueue.x-k8s.io/queue-name: user-queue}", "");
    stage.try_apply(&jobs, &["-n", "all-wait"]).unwrap();
    for object in ["job/long", "jobset/set"] {
        let made = stage.get(&["-n", "all-wait", object]);
        assert_eq!(made.str_at(&["metadata", "labels", "kueue.x-k8s.io/queue-name"]), "default", "{made}");
        assert_eq!(made.bool_at(&["spec", "suspend"]), Some(true), "{made}");
    }
    stage.set_quota("10m");
    stage.until("whoever belongs to one who waited does not wait again", |stage| {
        let set = stage.get(&["-n", "all-wait", "jobset/set"]);
        if set.str_at(&["status", "terminalState"]) == "Completed" { Ok(()) } else { Err(set.to_json()) }
    });
    let all = stage.get(&[WORKLOADS, "-n", "all-wait"]);
    assert_eq!(all.items_at(&["items"]).len(), 2, "one for each: {all}");
    who_makes_pods_of_jobs(stage);
    stage.kubectl(&["delete", "job/long", "jobset/set", "-n", "all-wait", "--timeout=120s"]);
    stage.kubectl(&["delete", "localqueues.kueue.x-k8s.io", "default", "-n", "all-wait"]);
    stage.until("nobody is asked about again", |stage| match hooks(stage) {
        0 => Ok(()),
        count => Err(count.to_string()),
    });
}

/// A tenant who creates pods could name a queued Job as their owner: only the Job controller's owner references are trusted.
fn who_makes_pods_of_jobs(stage: &QueueFixture) {
    stage.apply_text(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: all-wait}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
",
    );
    let job = stage.get(&["-n", "all-wait", "job/long"]);
    let uid = job.str_at(&["metadata", "uid"]);
    let owned = |name: &str| {
        let owner =
            format!("[{{apiVersion: batch/v1, kind: Job, name: long, uid: {uid}, controller: true}}]");
        pod(name, "{}").replace("  labels: {}\n", &format!("  ownerReferences: {owner}\n"))
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pod.yaml").display().to_string();
    let make = |user: &str, name: &str| {
        std::fs::write(&file, owned(name)).unwrap();
        stage.run(&["create", "-f", &file, "-n", "all-wait", "--as", user, "--dry-run=server"])
    };
    let why = make("tenant", "forged").unwrap_err();
    assert!(why.contains("only its controller makes something for it"), "{why}");
    make("system:serviceaccount:kube-system:job-controller", "made").unwrap();
}

/// The namespaces of the system are exempt.
fn namespaces_of_the_system(stage: &QueueFixture) {
    stage.kubectl(&["create", "namespace", "kueue-system"]);
    for namespace in ["kube-system", "kueue-system"] {
        stage.try_apply(&pod("system", QUEUED), &["-n", namespace]).unwrap();
        let made = stage.get(&["pod", "-n", namespace, "system"]);
        assert!(!is_gated(&made), "{made}");
        assert_eq!(made.items_at(&["metadata", "finalizers"]), [], "{namespace}");
        stage.kubectl(&["delete", "pod", "-n", namespace, "system", "--timeout=60s"]);
    }
}

/// While no webhook server answers, only queued objects are rejected.
fn nobody_answers(stage: &mut QueueFixture) {
    stage.kill_operator();
    stage.apply_text(&pod("others", "{app: web}"));
    stage.kubectl(&["label", "pod", "others", "a=b"]);
    let why = stage.try_apply(&pod("ours", QUEUED), &[]).unwrap_err();
    assert!(why.contains("failed calling webhook \"mpod.kb.io\""), "{why}");
    let _ = stage.get(&["clusterqueues.v1beta2.kueue.x-k8s.io", "team"]);
    let why = stage.run(&["get", "clusterqueues.v1beta1.kueue.x-k8s.io", "team"]).unwrap_err();
    assert!(why.contains("conversion webhook"), "{why}");
    stage.start_operator();
    stage.apply_text(&pod("ours", QUEUED));
    assert!(is_gated(&stage.get(&["pod", "ours"])));
}

/// Shows: 976-04.
#[test]
fn what_only_a_cluster_has() {
    let Some(mut stage) = QueueFixture::real("what_only_a_cluster_has") else { return };
    both_versions(&stage);
    stage.clear();
    who_may_open_gates(&stage);
    stage.clear();
    everybody_of_a_namespace(&stage);
    namespaces_of_the_system(&stage);
    stage.clear();
    stage.set_quota("0");
    nobody_answers(&mut stage);
    stage.clear();
    note(
        "queues: both versions over a webhook, gates, namespaces with a queue for all, and what happens without us",
    );
}

/// Without an installation the one in charge says itself where it is asked; an installation takes over from that.
#[test]
fn an_operator_by_itself_is_found_by_its_address() {
    let test = "an_operator_by_itself_is_found_by_its_address";
    let Some(mut stage) = QueueFixture::real_without_install(test) else { return };
    both_versions(&stage);
    let by = |stage: &QueueFixture| {
        let definition = stage.get(&["crd", "clusterqueues.kueue.x-k8s.io"]);
        definition.at(&["spec", "conversion", "webhook", "clientConfig"]).cloned().unwrap()
    };
    assert!(by(&stage).str_at(&["url"]).ends_with("/convert"), "{}", by(&stage));
    stage.set_quota("0");
    stage.apply_text(&pod("held", QUEUED));
    assert!(is_gated(&stage.get(&["pod", "held"])));
    stage.kill_operator();
    // Runtimes are validated by the webhook that was called before, whose server is down.
    stage.install(&["--without-runtimes"]);
    assert_eq!(by(&stage).str_at(&["service", "name"]), "muster-webhook");
    assert_eq!(by(&stage).at(&["url"]), None);
    stage.start_operator();
    stage.reinstall(&[]).expect("somebody judges runtimes again");
    let _ = stage.get(&["clusterqueues.v1beta1.kueue.x-k8s.io", "old"]);
    stage.set_quota("10m");
    stage.until("what it held goes on", |stage| stage.none_gated(1));
}
