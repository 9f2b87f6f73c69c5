//! TrainJobs on a real Kubernetes with an installed operator: how they run, end and go, and what only a cluster has.
//!
//! One plane plays all stories, one after the other; the operator dies and comes back in some of them. Times are in seconds
//! of the clock on the wall, and none is asserted: what is due is waited for.

use std::process::Command;
use std::time::Duration;

use muster_tests::clients::note;
use muster_tests::doc_tests;
use muster_tests::queue_fixture::QueueFixture;
use muster_tree::{Tree, tree};

const ACCOUNT: &str = "system:serviceaccount:muster-system:muster-operator";
/// Where it shows its numbers.
const METRICS: [&str; 2] = ["--metrics-listen", "127.0.0.1:0"];
/// What stories leave behind.
const LEFT: [&str; 2] = ["trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"];

/// What is played on a stage.
type Story = fn(&mut QueueFixture);

/// A runtime whose pods run for this many seconds.
pub fn runtime(name: &str, secs: u32) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {{name: {name}, labels: \
         {{trainer.kubeflow.org/framework: torch}}}}\nspec:\n  mlPolicy: {{numNodes: 1, torch: {{}}}}\n  template:\n    \
         spec:\n      replicatedJobs:\n      - name: node\n        template:\n          metadata: {{labels: \
         {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}\n          spec:\n            template:\n              \
         metadata: {{annotations: {{muster.dev/sim-run-seconds: '{secs}'}}}}\n              spec: \
         {{terminationGracePeriodSeconds: 1, containers: [{{name: node, image: i}}]}}\n"
    )
}

/// A TrainJob of this runtime, with these further lines of its spec.
pub fn job(name: &str, runtime: &str, more: &[&str]) -> String {
    let more: String = more.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  \
         runtimeRef: {{name: {runtime}}}\n{more}"
    )
}

/// Whether a TrainJob is so: the type and the reason of a condition that holds.
pub fn is(name: &str, condition: &str, reason: &str) -> impl Fn(&QueueFixture) -> Result<(), String> {
    let (name, condition, reason) = (name.to_owned(), condition.to_owned(), reason.to_owned());
    move |stage| {
        let job = stage.get(&["trainjob", &name]);
        let holds = job.items_at(&["status", "conditions"]).iter().any(|it| {
            (it.str_at(&["type"]), it.str_at(&["status"]), it.str_at(&["reason"]))
                == (condition.as_str(), "True", reason.as_str())
        });
        if holds { Ok(()) } else { Err(job.to_json()) }
    }
}

/// Whether something is gone.
pub fn gone(what: &str) -> impl Fn(&QueueFixture) -> Result<(), String> {
    let what = what.to_owned();
    move |stage| match stage.try_get(&[&what]) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Whether a TrainJob has pods that run.
pub fn runs(name: &str) -> impl Fn(&QueueFixture) -> Result<(), String> {
    let selector = format!("jobset.sigs.k8s.io/jobset-name={name}");
    move |stage| {
        let pods = stage.get(&["pods", "--selector", &selector]);
        let running = pods.items_at(&["items"]).iter().any(|it| it.str_at(&["status", "phase"]) == "Running");
        if running { Ok(()) } else { Err(pods.to_json()) }
    }
}

/// Whether an event of this reason is about a TrainJob.
fn told(name: &str, reason: &str, words: &str) -> impl Fn(&QueueFixture) -> Result<(), String> {
    let selector = format!("involvedObject.kind=TrainJob,involvedObject.name={name},reason={reason}");
    let words = words.to_owned();
    move |stage| {
        let events = stage.get(&["events", "--field-selector", &selector]);
        let mut all = events.items_at(&["items"]).iter();
        let found = all.any(|it| it.str_at(&["message"]).contains(&words));
        if found { Ok(()) } else { Err(events.to_json()) }
    }
}

/// Until all pods of a TrainJob and its JobSet are gone, too.
fn leaves_nothing(stage: &QueueFixture, name: &str) {
    stage.until("it goes", gone(&format!("trainjob/{name}")));
    stage.until("its JobSet is gone", gone(&format!("jobset/{name}")));
    stage.until("its snapshot is gone", gone(&format!("configmap/{name}-runtime-snapshot")));
    let selector = format!("jobset.sigs.k8s.io/jobset-name={name}");
    stage.until("its Jobs, pods and Services are gone", |stage| {
        let left = stage.get(&["jobs,pods,services", "--selector", &selector]);
        if left.items_at(&["items"]).is_empty() { Ok(()) } else { Err(left.to_json()) }
    });
}

/// Deletions of a TrainJob that the server has accepted from the operator.
fn deletions(stage: &QueueFixture, name: &str) -> usize {
    let is_one = |it: &&Tree| {
        it.str_at(&["verb"]) == "delete"
            && it.str_at(&["objectRef", "resource"]) == "trainjobs"
            && it.str_at(&["objectRef", "name"]) == name
            && it.int_at(&["responseStatus", "code"]) == Some(200)
    };
    stage.audit_events().iter().filter(is_one).count()
}

/// Where the operator shows its numbers.
fn address(stage: &QueueFixture) -> String {
    let log = stage.operator_log();
    let line = log.lines().find(|it| it.contains(METRICS[0])).unwrap_or_else(|| panic!("{log}"));
    let address = line.split("address=").nth(1).and_then(|it| it.split_whitespace().next());
    address.unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// The sum of a number over all its labels.
fn number(stage: &QueueFixture, name: &str) -> f64 {
    let output = Command::new("curl").args(["-sS", &format!("http://{}/metrics", address(stage))]).output();
    let text = String::from_utf8(output.expect("curl starts").stdout).expect("numbers are text");
    let lines = text.lines().filter(|it| it.strip_prefix(name).is_some_and(|it| it.starts_with(['{', ' '])));
    lines.filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

fn clear(stage: &QueueFixture) {
    for kind in LEFT {
        stage.kubectl(&["delete", kind, "--all", "--timeout=120s"]);
    }
}

/// A job of a runtime that is shipped, patched so that its simulated pods end, runs to its end.
const SHIPPED: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: shipped, namespace: default}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 2, command: [train], env: [{name: A, value: b}]}
  runtimePatches:
  - manager: tests.muster.dev/quick
    trainingRuntimeSpec:
      template:
        spec:
          replicatedJobs:
          - name: node
            template:
              spec:
                template:
                  metadata: {annotations: {muster.dev/sim-run-seconds: '1'}}
";

fn a_shipped_runtime_runs_to_its_end(stage: &mut QueueFixture) {
    stage.apply_text(SHIPPED);
    stage.until("it completes", is("shipped", "Complete", "AllJobsCompleted"));
    let job = stage.get(&["trainjob", "shipped"]);
    let patch = &job.items_at(&["spec", "runtimePatches"])[0];
    assert!(patch.str_at(&["time"]).ends_with('Z'), "the webhook fills in when: {patch}");
    assert_eq!(job.str_at(&["spec", "managedBy"]), "trainer.kubeflow.org/trainjob-controller");
    let status = &job.items_at(&["status", "jobsStatus"])[0];
    assert_eq!((status.str_at(&["name"]), status.int_at(&["succeeded"])), ("node", Some(1)), "{status}");
    stage.until("its end is told", told("shipped", "Completed", ""));
    let table = stage.kubectl(&["get", "trainjob", "shipped"]);
    assert!(table.contains("STATE") && table.contains("Complete"), "{table}");
}

/// Keys for MPI, gangs of another scheduler, and an old finalizer on a runtime.
const SPECIAL: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata:
  name: mpi
  namespace: default
  finalizers: [trainer.kubeflow.org/resource-in-use]
spec:
  mlPolicy: {numNodes: 1, mpi: {runLauncherAsNode: true}}
  podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 30}}
  template:
    spec:
      successPolicy: {operator: All, targetReplicatedJobs: [launcher]}
      replicatedJobs:
      - name: launcher
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              metadata: {annotations: {muster.dev/sim-run-seconds: '1'}}
              spec: {terminationGracePeriodSeconds: 1, containers: [{name: node, image: i}]}
      - name: node
        template:
          spec:
            template:
              metadata: {annotations: {muster.dev/sim-run-seconds: '3600'}}
              spec: {terminationGracePeriodSeconds: 1, containers: [{name: node, image: i}]}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: special, namespace: default}
spec:
  runtimeRef: {kind: TrainingRuntime, name: mpi}
  trainer: {numNodes: 2}
";

/// Volcano PodGroups whose pods have a PriorityClass, and a runtime with a finalizer of an earlier release.
const VOLCANO: &str = "
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: training}
value: 100
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: volcano, finalizers: [trainer.kubeflow.org/resource-in-use]}
spec:
  mlPolicy: {numNodes: 1}
  podGroupPolicy: {volcano: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              metadata: {annotations: {muster.dev/sim-run-seconds: '1'}}
              spec:
                priorityClassName: training
                terminationGracePeriodSeconds: 1
                containers: [{name: node, image: i}]
";

fn of_volcano(stage: &QueueFixture) {
    stage.apply_text(VOLCANO);
    let why = stage
        .run(&["delete", "priorityclass", "training"])
        .and_then(|_| stage.try_apply(&job("of-volcano", "volcano", &[]), &[]));
    assert!(why.unwrap_err().contains("doesn't exist"), "its class is looked for");
    stage.apply_text(VOLCANO);
    stage.apply_text(&job("of-volcano", "volcano", &[]));
    let group = "podgroups.scheduling.volcano.sh/of-volcano";
    stage.until("it is placed together", |stage| match stage.run(&["get", group, "--output", "json"]) {
        Ok(text) if text.contains("\"priorityClassName\": \"training\"") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stage.until("it completes", is("of-volcano", "Complete", "AllJobsCompleted"));
    stage.kubectl(&["delete", "trainjob/of-volcano", "clustertrainingruntime/volcano", "--timeout=60s"]);
    stage.until("its group is gone", gone(group));
}

/// Secrets, ConfigMaps and groups of others are made and go with their TrainJob; the kind of those groups comes late.
fn what_a_job_is_made_into_goes_with_it(stage: &mut QueueFixture) {
    for (group, version) in [("scheduling.x-k8s.io", "v1alpha1"), ("scheduling.volcano.sh", "v1beta1")] {
        stage.apply_text(&GROUPS.replace("scheduling.x-k8s.io", group).replace("v1alpha1", version));
        let definition = format!("crd/podgroups.{group}");
        stage.kubectl(&["wait", "--for=condition=Established", &definition, "--timeout=60s"]);
    }
    // It looks for kinds when it starts, and every now and then.
    stage.stop_operator();
    stage.start_operator_with(&METRICS);
    stage.apply_text(SPECIAL);
    stage.until("it is placed together", |stage| {
        match stage.run(&["get", GROUP, "special", "--output", "json"]) {
            Ok(text) if text.contains("\"minMember\": 2") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let secret = stage.get(&["secret", "special-mpi-ssh-auth"]);
    assert_eq!(secret.str_at(&["type"]), "kubernetes.io/ssh-auth");
    let hosts = stage.get(&["configmap", "special-mpi-hostfile"]);
    assert!(hosts.str_at(&["data", "hostfile"]).contains("special-node-0-0.special slots="), "{hosts}");
    stage.until("nothing holds its runtime any more", |stage| {
        let runtime = stage.get(&["trainingruntime", "mpi"]);
        if runtime.at(&["metadata", "finalizers"]).is_none() { Ok(()) } else { Err(runtime.to_json()) }
    });
    stage.until("it completes", is("special", "Complete", "AllJobsCompleted"));
    let same = stage.get(&["secret", "special-mpi-ssh-auth"]);
    assert_eq!(same.get("data"), secret.get("data"), "keys are made once");
    stage.kubectl(&["delete", "trainjob", "special", "--cascade=foreground", "--timeout=120s"]);
    leaves_nothing(stage, "special");
    for what in ["secret/special-mpi-ssh-auth", "configmap/special-mpi-hostfile", &format!("{GROUP}/special")]
    {
        stage.until("all of it is gone", gone(what));
    }
    stage.kubectl(&["delete", "trainingruntime", "mpi"]);
    of_volcano(stage);
}

/// Groups of coscheduling: another's kind.
const GROUP: &str = "podgroups.scheduling.x-k8s.io";
const GROUPS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: podgroups.scheduling.x-k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: scheduling.x-k8s.io
  scope: Namespaced
  names: {plural: podgroups, singular: podgroup, kind: PodGroup, listKind: PodGroupList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// Invalid objects are rejected by the responsible webhook; unwise ones draw a warning.
fn what_is_wrong_is_refused(stage: &mut QueueFixture) {
    let apply = |text: &str| stage.try_apply(text, &["--dry-run=server"]);
    let why = apply(&job("wrong", "absent", &[])).unwrap_err();
    for words in ["validator.trainjob.trainer.kubeflow.org", "must be created before the TrainJob is created"]
    {
        assert!(why.contains(words), "{why}");
    }
    for (line, words) in [
        ("ttlSecondsAfterFinished: -1", "should be greater than or equal to 0"),
        ("activeDeadlineSeconds: 0", "should be greater than or equal to 1"),
    ] {
        let why = apply(&job("wrong", "quick", &[line])).unwrap_err();
        assert!(why.contains(words) && !why.contains("admission webhook"), "the schema says so: {why}");
    }
    let two = runtime("wrong", 1).replace("- name: node\n", "- name: node\n        replicas: 2\n");
    let why = apply(&two).unwrap_err();
    assert!(why.contains("validator.clustertrainingruntime.trainer.kubeflow.org"), "{why}");
    let unseen = two
        .replace("framework: torch", "framework: torch, trainer.kubeflow.org/webhook-validation: disabled");
    apply(&unseen).unwrap();
    stage.apply_text(&job("fixed", "long", &["ttlSecondsAfterFinished: 59", "activeDeadlineSeconds: 3600"]));
    for change in [
        r#"{"spec": {"ttlSecondsAfterFinished": 60}}"#,
        r#"{"spec": {"ttlSecondsAfterFinished": null}}"#,
        r#"{"spec": {"activeDeadlineSeconds": 7200}}"#,
        r#"{"spec": {"activeDeadlineSeconds": null}}"#,
    ] {
        let why = stage.run(&["patch", "trainjob", "fixed", "--type=merge", "-p", change]).unwrap_err();
        assert!(why.contains("field is immutable"), "{change}: {why}");
    }
    // Its runtime goes, and it is judged by what it was made of.
    stage.apply_text(&runtime("passing", 3600));
    stage.apply_text(&job("kept", "passing", &[]));
    stage.until("it has a snapshot", |stage| {
        stage.try_get(&["configmap", "kept-runtime-snapshot"]).map(|_| ())
    });
    stage.kubectl(&["delete", "clustertrainingruntime", "passing"]);
    stage.kubectl(&["patch", "trainjob", "kept", "--type=merge", "-p", r#"{"spec": {"suspend": true}}"#]);
    stage.until("it is suspended", is("kept", "Suspended", "Suspended"));
    let patches = r#"{"spec": {"runtimePatches": [{"manager": "a.io/b"}]}}"#;
    stage.until("what others change may change while it rests", |stage| {
        stage.run(&["patch", "trainjob", "kept", "--type=merge", "-p", patches]).map(|_| ())
    });
}

/// Finished TrainJobs go with all they own, runaway ones fail and lose their pods.
fn times_are_kept(stage: &mut QueueFixture) {
    let short =
        stage.try_apply(&job("short", "quick", &["ttlSecondsAfterFinished: 2"]), &["--warnings-as-errors"]);
    let why = short.unwrap_err();
    assert!(why.contains("less than 60 seconds"), "a warning reaches the client: {why}");
    leaves_nothing(stage, "short");
    stage.until("that was told", told("short", "TTLExpired", ""));
    assert_eq!(deletions(stage, "short"), 1);
    let both = ["activeDeadlineSeconds: 4", "ttlSecondsAfterFinished: 5"];
    stage.apply_text(&job("runaway", "long", &both));
    stage.until("it runs", runs("runaway"));
    stage.until("it fails", is("runaway", "Failed", "DeadlineExceeded"));
    stage.until("its JobSet goes", gone("jobset/runaway"));
    stage.until("that was told", told("runaway", "DeadlineExceeded", "exceeded its active deadline"));
    leaves_nothing(stage, "runaway");
    // Without either it stays.
    stage.apply_text(&job("plain", "quick", &[]));
    stage.until("it completes", is("plain", "Complete", "AllJobsCompleted"));
    stage.stays("and stays", is("plain", "Complete", "AllJobsCompleted"));
    assert!(number(stage, "trainjob_ttl_deletions_total") >= 2.0);
    assert!(number(stage, "trainjob_deadline_exceeded_total") >= 1.0);
}

/// What became due while no operator was there is done by the next, and so is what becomes due later.
fn operators_come_and_go(stage: &mut QueueFixture) {
    stage.apply_text(&job("overdue", "long", &["activeDeadlineSeconds: 5"]));
    stage.apply_text(&job("expired", "quick", &["ttlSecondsAfterFinished: 4"]));
    stage.apply_text(&job("pending", "quick", &["ttlSecondsAfterFinished: 12"]));
    stage.until("one runs", runs("overdue"));
    for name in ["expired", "pending"] {
        stage.until("the others end", is(name, "Complete", "AllJobsCompleted"));
    }
    stage.kill_operator();
    std::thread::sleep(Duration::from_secs(6));
    stage.start_operator_with(&METRICS);
    stage.until("the first fails", is("overdue", "Failed", "DeadlineExceeded"));
    for name in ["expired", "pending"] {
        leaves_nothing(stage, name);
        assert_eq!(deletions(stage, name), 1, "{name}");
    }
}

/// A server that is away at the due time makes it late.
fn the_server_comes_and_goes(stage: &mut QueueFixture) {
    stage.apply_text(&job("overdue", "long", &["activeDeadlineSeconds: 6"]));
    stage.apply_text(&job("expired", "quick", &["ttlSecondsAfterFinished: 4"]));
    stage.until("one runs", runs("overdue"));
    stage.until("the other ends", is("expired", "Complete", "AllJobsCompleted"));
    stage.kill_api_server();
    std::thread::sleep(Duration::from_secs(8));
    stage.start_api_server();
    leaves_nothing(stage, "expired");
    // A request without a reply since the server stopped is sent once more.
    assert!((1..=2).contains(&deletions(stage, "expired")), "it is late and not lost");
    stage.until("the other fails", is("overdue", "Failed", "DeadlineExceeded"));
    stage.until("its JobSet goes", gone("jobset/overdue"));
}

/// Without a webhook server TrainJobs cannot be created, and running ones finish.
fn webhooks_are_away(stage: &mut QueueFixture) {
    let lead = |stage: &QueueFixture, to: &str| {
        let patch = format!(r#"{{"spec": {{"externalName": "{to}"}}}}"#);
        stage.kubectl(&[
            "-n",
            "muster-system",
            "patch",
            "service",
            "muster-webhook",
            "--type=merge",
            "-p",
            &patch,
        ]);
    };
    stage.apply_text(&job("runaway", "long", &["activeDeadlineSeconds: 8", "ttlSecondsAfterFinished: 3"]));
    stage.apply_text(&job("expired", "quick", &["ttlSecondsAfterFinished: 6"]));
    stage.until("it runs", runs("runaway"));
    lead(stage, "127.0.0.2");
    stage.until("none is admitted", |stage| {
        match stage.try_apply(&job("late", "quick", &[]), &["--dry-run=server"]) {
            Err(why) if why.contains("failed calling webhook") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    stage.until("the deadline is kept", |stage| match stage.try_get(&["trainjob", "runaway"]) {
        Ok(job) if job.to_json().contains("DeadlineExceeded") => Ok(()),
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    for name in ["runaway", "expired"] {
        leaves_nothing(stage, name);
    }
    let why = stage.try_apply(&job("late", "quick", &[]), &[]).unwrap_err();
    assert!(why.contains("failed calling webhook"), "still: {why}");
    lead(stage, "localhost");
    stage.until("and now one is", |stage| stage.try_apply(&job("late", "quick", &[]), &[]).map(|_| ()));
    stage.until("it completes", is("late", "Complete", "AllJobsCompleted"));
}

/// The roles of the operator that let it delete TrainJobs: its own, and that of queues.
const ROLES: [&str; 2] = ["muster-operator", "muster-operator-queues"];

/// Takes the right to delete TrainJobs out of a role; the role as it was.
fn forbid(stage: &QueueFixture, role: &str) -> Tree {
    let role = stage.get(&["clusterrole", role]);
    let verbs = |rule: &Tree| {
        Tree::list(rule.items_at(&["verbs"]).iter().filter(|it| **it != "delete".into()).cloned())
    };
    let rules = role.at(&["rules"]).unwrap().map_items(|_, rule| {
        let mine = rule.items_at(&["resources"]).contains(&Tree::from("trainjobs"));
        if mine { rule.with(&["verbs"], verbs(rule)) } else { rule.clone() }
    });
    assert_ne!(Some(&rules), role.at(&["rules"]), "it may delete TrainJobs");
    let patch = tree!({"rules": rules}).to_json();
    stage.kubectl(&[
        "patch",
        "clusterrole",
        role.str_at(&["metadata", "name"]),
        "--type=merge",
        "-p",
        &patch,
    ]);
    role
}

/// A rejected deletion is reported and retried; a deletion counts once.
fn rights_come_and_go(stage: &mut QueueFixture) {
    // What it is refused here it is meant to be refused.
    stage.stop_operator();
    stage.impersonate_operator();
    stage.start_operator_with(&METRICS);
    let roles = ROLES.map(|role| forbid(stage, role));
    stage.apply_text(&job("held", "quick", &["ttlSecondsAfterFinished: 1"]));
    stage.until("it is told that it stays", told("held", "TTLDeletionFailed", "cannot delete resource"));
    stage.stays("it stays", is("held", "Complete", "AllJobsCompleted"));
    let log = stage.operator_log();
    assert!(log.contains("cannot delete resource"), "the log says so, too: {log}");
    assert_eq!(number(stage, "trainjob_ttl_deletions_total"), 0.0);
    for role in &roles {
        let patch = tree!({"rules": role.at(&["rules"]).unwrap()}).to_json();
        stage.kubectl(&[
            "patch",
            "clusterrole",
            role.str_at(&["metadata", "name"]),
            "--type=merge",
            "-p",
            &patch,
        ]);
    }
    leaves_nothing(stage, "held");
    assert_eq!(number(stage, "trainjob_ttl_deletions_total"), 1.0);
    // The operator's watch reports the deletion at about the same time as kubectl's.
    stage.until("it is told how late it was", |stage| {
        let count = number(stage, "trainjob_ttl_deletion_latency_seconds_count");
        if count == 1.0 { Ok(()) } else { Err(format!("{count} deletions")) }
    });
}

/// Printer columns of the kinds in kubectl, and RBAC.
fn kubectl_knows_them(stage: &mut QueueFixture) {
    for (field, words) in [
        ("trainjob.spec.ttlSecondsAfterFinished", "FIELD: ttlSecondsAfterFinished <integer>"),
        ("trainjob.spec.activeDeadlineSeconds", "FIELD: activeDeadlineSeconds <integer>"),
        ("trainjob.spec", "runtimeRef\t<Object> -required-"),
        ("clustertrainingruntime.spec.mlPolicy", "torch\t<Object>"),
    ] {
        let told = stage.kubectl(&["explain", field]);
        assert!(told.contains(words), "{field}: {told}");
    }
    let may = |who: &[&str], verb: &str, what: &str| {
        let words = [&["auth", "can-i", verb, what, "--all-namespaces"], who].concat();
        // It ends with an error where the answer is no.
        stage.run(&words).map_or_else(|_| "no".to_owned(), |it| it.trim().to_owned())
    };
    let operator = ["--as", ACCOUNT];
    for (verb, what, want) in [
        ("delete", "trainjobs.trainer.kubeflow.org", "yes"),
        ("create", "trainjobs.trainer.kubeflow.org", "no"),
        ("delete", "clustertrainingruntimes.trainer.kubeflow.org", "no"),
        ("delete", "secrets", "no"),
        ("delete", "configmaps", "no"),
    ] {
        assert_eq!(may(&operator, verb, what), want, "{verb} {what}");
    }
    let anybody = ["--as", "anybody", "--as-group", "system:authenticated", "-n", "kubeflow-system"];
    let version = stage.kubectl(
        &[&["get", "configmap", "kubeflow-trainer-public", "--output", "json"], &anybody[..]].concat(),
    );
    assert!(version.contains("kubeflow_trainer_version"), "{version}");
    let why = stage.run(&[&["get", "configmaps"], &anybody[..]].concat()).unwrap_err();
    assert!(why.contains("cannot list"), "{why}");
}

/// Lines of the page that this plane cannot run.
const LEFT_OUT: [(&str, &str); 3] = [
    ("kubectl -n muster-system port-forward", "the operator of this plane is a process, not a pod"),
    ("METRICS=", "the test sets it to the address of that process"),
    ("kubectl -n muster-system logs", "the operator of this plane is a process, not a pod"),
];

/// The commands of the page for operators, as far as nothing is rolled back; that is in `train_versions`.
fn the_page_for_operators(stage: &mut QueueFixture) {
    stage.apply_text(&job("short", "quick", &["ttlSecondsAfterFinished: 1"]));
    stage.apply_text(&job("late", "long", &["activeDeadlineSeconds: 2"]));
    stage.apply_text(&job("stays", "long", &["activeDeadlineSeconds: 3600"]));
    stage.until("one goes", gone("trainjob/short"));
    stage.until("one fails", is("late", "Failed", "DeadlineExceeded"));
    stage.until("one runs", runs("stays"));
    let page = doc_tests::page("guides/trainjob-operations.md");
    let all = doc_tests::commands(&page).unwrap();
    let look = all.iter().position(|it| it.contains("kubectl delete")).expect("it ends by rolling back");
    let expected: [(&str, &[&str]); 5] = [
        ("custom-columns", &["late", "DeadlineExceeded", "2", "3600"]),
        (
            "trainjob_(ttl_pending",
            &["trainjob_ttl_pending_deletions", "trainjob_active_deadline_remaining_seconds", "stays"],
        ),
        (
            "trainjob_(ttl_deletions",
            &["trainjob_ttl_deletions_total", "trainjob_deadline_exceeded_total", "trainjob/late"],
        ),
        ("can-i", &["yes\nyes\nyes"]),
        ("workqueue", &["workqueue_depth"]),
    ];
    let mut met = 0;
    for block in &all[..look] {
        let block = doc_tests::runnable_lines(block, &LEFT_OUT);
        let told = stage.shell(&block, &[("METRICS", &format!("http://{}/metrics", address(stage)))]);
        let told = told.unwrap_or_else(|why| panic!("{block}: {why}"));
        for (_, words) in expected.iter().filter(|(part, _)| block.contains(part)) {
            assert!(words.iter().all(|it| told.contains(it)), "{block}: {told}");
            met += 1;
        }
    }
    assert_eq!(met, expected.len(), "each of these commands is on the page once");
}

/// Installing again leaves shipped runtimes as they are, and waits for an operator where it does not.
fn runtimes_are_installed_again(stage: &mut QueueFixture) {
    const JAX: &str = "clustertrainingruntime.trainer.kubeflow.org/jax-distributed";
    let done = stage.reinstall(&[]).unwrap();
    let is_runtime = |it: &&str| it.starts_with("clustertrainingruntime.");
    let runtimes: Vec<&str> = done.lines().filter(is_runtime).collect();
    assert_eq!(runtimes.len(), 8, "{done}");
    assert!(runtimes.iter().all(|it| it.ends_with("unchanged")), "{runtimes:?}");
    let change = r#"[{"op": "replace", "path": "/spec/mlPolicy/numNodes", "value": 3}]"#;
    stage.kubectl(&["patch", "clustertrainingruntime", "jax-distributed", "--type=json", "-p", change]);
    stage.stop_operator();
    let why = stage.reinstall(&[]).unwrap_err();
    assert!(why.contains(JAX) && why.contains("install again when the operator is ready"), "{why}");
    stage.start_operator_with(&METRICS);
    let done = stage.reinstall(&[]).unwrap();
    assert!(done.contains(&format!("{JAX} configured")), "{done}");
    let done = stage.reinstall(&["--without-runtimes"]).unwrap();
    assert_eq!(done.lines().find(is_runtime), None, "they are left out");
    stage.kubectl(&["get", "clustertrainingruntime", "jax-distributed"]);
}

/// Shows: 2899-12, 2899-14, 2899-18, 2899-19, 2899-28, 2899-31, 2899-32, 2899-48, 2899-49, 2899-50, 2899-58, 2899-62, 2899-67, 2899-68.
#[test]
fn trainjobs_of_a_real_server_run_end_and_go() {
    let Some(mut stage) = QueueFixture::real("trainjobs_of_a_real_server_run_end_and_go") else { return };
    stage.stop_operator();
    stage.start_operator_with(&METRICS);
    stage.apply_text(&runtime("quick", 1));
    stage.apply_text(&runtime("long", 3600));
    let stories: [(&str, Story); 11] = [
        ("a shipped runtime", a_shipped_runtime_runs_to_its_end),
        ("what kubectl knows", kubectl_knows_them),
        ("what is wrong", what_is_wrong_is_refused),
        ("what is made", what_a_job_is_made_into_goes_with_it),
        ("times", times_are_kept),
        ("operators", operators_come_and_go),
        ("an outage", the_server_comes_and_goes),
        ("webhooks", webhooks_are_away),
        ("an installation", runtimes_are_installed_again),
        ("the page", the_page_for_operators),
        // Last, because the audit log of the operator's requests ends here.
        ("rights", rights_come_and_go),
    ];
    let wanted = std::env::var("MUSTER_TEST_STORY").unwrap_or_default();
    for (says, story) in stories.into_iter().filter(|(says, _)| says.contains(&wanted)) {
        eprintln!("the story of {says}");
        story(&mut stage);
        let told = stage.operator_log();
        // An operator without its rights says which writes are rejected.
        let is_wanted = |line: &str| says == "rights" && line.contains("write rejected by the API server");
        let errors = told.lines().filter(|line| line.contains("ERROR muster") && !is_wanted(line));
        assert_eq!(errors.count(), 0, "{told}");
        clear(&stage);
    }
    note(
        "trainjobs: run, end and go on a real server with an installed operator, through restarts, outages and refusals",
    );
}
