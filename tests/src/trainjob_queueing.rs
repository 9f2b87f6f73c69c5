//! Queueing stories for TrainJobs, which run on any control plane: pending, admission, preemption and resumption.

use std::time::Duration;

use muster_api::time::Time;
use muster_tree::Tree;

use crate::queue_fixture::{QueueFixture, WORKLOADS};
use crate::visibility::{wait_for_visibility_api, workload_of};

const TRAIN_JOBS: &str = "trainjobs.trainer.kubeflow.org";
const JOB_SETS: &str = "jobsets.jobset.x-k8s.io";
/// `manager` of the runtime patches that admission writes.
pub const KUEUE_MANAGER: &str = "kueue.x-k8s.io/manager";

/// A runtime whose nodes request 1m CPU each and run until a story completes them.
const SMALL: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: small}
spec:
  mlPolicy: {numNodes: 2}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              metadata: {annotations: {muster.dev/sim-run-seconds: '600'}}
              spec:
                terminationGracePeriodSeconds: 1
                containers: [{name: node, image: train, resources: {requests: {cpu: 1m}}}]
";

/// Builds a TrainJob in the example queue, with additional labels and fields.
fn train_job(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n\
         metadata: {{name: {name}, labels: {{kueue.x-k8s.io/queue-name: user-queue{labels}}}}}\n\
         spec: {{runtimeRef: {{name: small}}{spec}}}\n"
    )
}

/// Creates the runtime and a queue with this CPU quota.
fn set_up(fixture: &QueueFixture, quota: &str) {
    fixture.set_quota(quota);
    wait_for_visibility_api(fixture);
    fixture.apply_text(SMALL);
}

fn ensure(holds: bool, seen: &Tree) -> Result<(), String> {
    if holds { Ok(()) } else { Err(seen.to_json()) }
}

/// Returns the patches that admission wrote for the replicatedJobs.
#[must_use]
pub fn queue_patches(job: &Tree) -> Vec<Tree> {
    let mut all = job.items_at(&["spec", "runtimePatches"]).iter();
    let entry = all.find(|it| it.str_at(&["manager"]) == KUEUE_MANAGER).cloned().unwrap_or_default();
    entry.items_at(&["trainingRuntimeSpec", "template", "spec", "replicatedJobs"]).to_vec()
}

fn condition_is_true(job: &Tree, condition: &str) -> bool {
    let is = |it: &Tree| it.str_at(&["type"]) == condition && it.str_at(&["status"]) == "True";
    job.items_at(&["status", "conditions"]).iter().any(is)
}

/// Whether a TrainJob and its JobSet are suspended, without admission patches and without pods.
fn is_suspended(fixture: &QueueFixture, name: &str) -> Result<(), String> {
    let (job, set) = (fixture.get(&[TRAIN_JOBS, name]), fixture.get(&[JOB_SETS, name]));
    let still = |it: &Tree| it.bool_at(&["spec", "suspend"]) == Some(true);
    ensure(still(&job) && queue_patches(&job).is_empty() && condition_is_true(&job, "Suspended"), &job)?;
    ensure(still(&set), &set)?;
    let pods = pods_of(fixture, name);
    ensure(pods.items_at(&["items"]).is_empty(), &pods)
}

/// Whether a TrainJob is admitted and runs with exactly this many pods.
fn is_running(fixture: &QueueFixture, name: &str, pods: usize) -> Result<(), String> {
    let job = fixture.get(&[TRAIN_JOBS, name]);
    ensure(job.bool_at(&["spec", "suspend"]) == Some(false) && !queue_patches(&job).is_empty(), &job)?;
    let all = pods_of(fixture, name);
    let right = |pod: &Tree| {
        pod.str_at(&["status", "phase"]) == "Running"
            && pod.str_at(&["metadata", "labels", "kueue.x-k8s.io/podset"]) == "node"
    };
    let all_right = all.items_at(&["items"]).iter().filter(|it| right(it)).count() == pods;
    ensure(all_right && all.items_at(&["items"]).len() == pods, &all)
}

fn pods_of(fixture: &QueueFixture, name: &str) -> Tree {
    fixture.get(&["pods", "-l", &format!("jobset.sigs.k8s.io/jobset-name={name}")])
}

/// Makes the pods of a TrainJob succeed and waits until it is complete.
fn complete(fixture: &QueueFixture, name: &str) {
    let label = format!("jobset.sigs.k8s.io/jobset-name={name}");
    fixture.kubectl(&["annotate", "pods", "-l", &label, "muster.dev/sim-run-seconds=0", "--overwrite"]);
    fixture.until("it ends", |fixture| {
        let job = fixture.get(&[TRAIN_JOBS, name]);
        ensure(condition_is_true(&job, "Complete"), &job)
    });
}

fn workload_count(fixture: &QueueFixture) -> usize {
    fixture.get(&[WORKLOADS]).items_at(&["items"]).len()
}

/// Two TrainJobs and quota for one: the second is suspended until the first completes.
pub fn a_suspended_trainjob_starts_when_quota_is_released(fixture: &QueueFixture) {
    set_up(fixture, "3m");
    fixture.apply_text(&train_job("first", "", ""));
    fixture.until("the first runs", |fixture| {
        is_running(fixture, "first", 2).and(fixture.usage_is("team", "2m"))
    });
    fixture.apply_text(&train_job("second", "", ""));
    fixture.until("the second is suspended", |fixture| is_suspended(fixture, "second"));
    let name = workload_of(fixture, "second");
    assert!(name.starts_with("trainjob-second-"), "{name}");
    assert_eq!(fixture.pod_sets(&name), [("node".to_owned(), 2)]);
    fixture.stays("it stays suspended", |fixture| is_suspended(fixture, "second"));
    assert_eq!(workload_count(fixture), 2, "dependents get no Workloads of their own");
    complete(fixture, "first");
    fixture.until("the second runs", |fixture| {
        is_running(fixture, "second", 2).and(fixture.usage_is("team", "2m"))
    });
    complete(fixture, "second");
    fixture.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
    let reason = fixture.true_condition(&name, "Finished");
    assert_eq!(reason.as_deref(), Ok("Succeeded"));
    assert_eq!(workload_count(fixture), 2);
}

/// The pending reason is reported as an event on the TrainJob, by `muster why`, and for a manifest that is not created.
pub fn the_pending_reason_is_explained(fixture: &QueueFixture) {
    set_up(fixture, "3m");
    fixture.apply_text(&train_job("first", "", ""));
    fixture.until("the first runs", |fixture| fixture.usage_is("team", "2m"));
    fixture.apply_text(&train_job("second", "", ""));
    fixture.until("an event about the TrainJob exists", |fixture| {
        let events = fixture.get(&[
            "events",
            "--field-selector",
            "involvedObject.kind=TrainJob,reason=WaitingForQuota",
        ]);
        let names = events.items_at(&["items"]).iter().map(|it| it.str_at(&["involvedObject", "name"]));
        ensure(names.collect::<Vec<_>>() == ["second"], &events)
    });
    let words = fixture.why(&["trainjob/second"]).expect("muster why succeeds");
    for want in [
        "TrainJob default/second: Pending",
        "number 1 in LocalQueue user-queue, number 1 in ClusterQueue team",
        "cpu: 2m asked for, 1m available, 3m at most, 1m missing",
    ] {
        assert!(words.contains(want), "{want} is not in\n{words}");
    }
    for (case, nodes, want) in [
        ("it fits", 1, "Manifest default/new: WouldBeAdmitted"),
        ("the quota is in use", 2, "Manifest default/new: WouldWait"),
        ("the quota is too small", 4, "ExceedsMaxQuota"),
    ] {
        let file = fixture
            .write_file("tried.yaml", &train_job("new", "", &format!(", trainer: {{numNodes: {nodes}}}")));
        let words = fixture.why(&["-f", &file, "-n", "default"]).expect("muster why succeeds");
        assert!(words.contains(want), "{case}: {words}");
    }
    let lost = train_job("lost", "", "").replace("name: small", "name: missing");
    let file = fixture.write_file("tried.yaml", &lost);
    let why = fixture.why(&["-f", &file, "-n", "default"]).expect_err("the runtime does not exist");
    assert!(why.contains("runtime 'missing' not found"), "{why}");
}

const HIGH: &str =
    "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 10\n";

/// A preempted TrainJob is suspended, and resumes when quota is released.
pub fn a_preempted_trainjob_is_suspended_and_resumed(fixture: &QueueFixture) {
    set_up(fixture, "2m");
    fixture.apply_text(HIGH);
    let preempts = r#"{"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}"#;
    fixture.kubectl(&["patch", "clusterqueue", "team", "--type", "merge", "-p", preempts]);
    fixture.apply_text(&train_job("low", "", ""));
    fixture.until("it runs", |fixture| is_running(fixture, "low", 2));
    fixture.apply_text(&train_job("high", ", kueue.x-k8s.io/priority-class: high", ""));
    fixture.until("the TrainJob with higher priority runs", |fixture| is_running(fixture, "high", 2));
    fixture.until("the preempted one is suspended", |fixture| is_suspended(fixture, "low"));
    fixture.stays("it stays suspended", |fixture| {
        is_suspended(fixture, "low").and(fixture.usage_is("team", "2m"))
    });
    let low = workload_of(fixture, "low");
    assert_eq!(fixture.true_condition(&low, "Preempted").as_deref(), Ok("InClusterQueue"));
    complete(fixture, "high");
    fixture.until("it runs again", |fixture| is_running(fixture, "low", 2));
    let job = fixture.get(&[TRAIN_JOBS, "low"]);
    let resumed =
        job.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == "Suspended");
    assert_eq!(resumed.map(|it| it.str_at(&["reason"])), Some("Resumed"), "{job}");
    complete(fixture, "low");
    assert_eq!(workload_of(fixture, "low"), low, "one Workload, from beginning to end");
    fixture.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
}

/// Returns the last transition time of a condition.
fn since(job: &Tree, condition: &str) -> Option<Time> {
    let found = job.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == condition);
    Time::of(found?.at(&["lastTransitionTime"]))
}

/// The active deadline of a queued TrainJob counts from its last start.
pub fn time_in_the_queue_does_not_count_towards_the_deadline(fixture: &QueueFixture) {
    const DEADLINE: Duration = Duration::from_secs(3);
    set_up(fixture, "2m");
    fixture.apply_text(&train_job("first", "", ""));
    fixture.until("the first runs", |fixture| is_running(fixture, "first", 2));
    fixture.apply_text(&train_job("second", "", &format!(", activeDeadlineSeconds: {}", DEADLINE.as_secs())));
    fixture.until("the second is suspended", |fixture| is_suspended(fixture, "second"));
    std::thread::sleep(DEADLINE + Duration::from_secs(1));
    is_suspended(fixture, "second").expect("it is suspended for longer than its deadline and does not fail");
    complete(fixture, "first");
    fixture.until("the deadline expires after the start", |fixture| {
        let job = fixture.get(&[TRAIN_JOBS, "second"]);
        let failed =
            job.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == "Failed");
        ensure(failed.is_some_and(|it| it.str_at(&["reason"]) == "DeadlineExceeded"), &job)
    });
    let job = fixture.get(&[TRAIN_JOBS, "second"]);
    let (started, failed) =
        (since(&job, "Suspended").expect("it was resumed"), since(&job, "Failed").expect("it failed"));
    assert!(failed.since(started) >= DEADLINE, "{job}");
    fixture.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
    assert_eq!(fixture.true_condition(&workload_of(fixture, "second"), "Finished").as_deref(), Ok("Failed"));
}

/// Whether no object of a kind has this name prefix.
fn none_left(fixture: &QueueFixture, kind: &str, name: &str) -> Result<(), String> {
    let all = fixture.get(&[kind]);
    let left = all.items_at(&["items"]).iter().any(|it| it.str_at(&["metadata", "name"]).starts_with(name));
    ensure(!left, &all)
}

/// A TrainJob that is deleted by its TTL takes its dependents along and releases its quota.
pub fn an_expired_ttl_deletes_all_children_and_releases_quota(fixture: &QueueFixture) {
    set_up(fixture, "2m");
    fixture.apply_text(&train_job("brief", "", ", ttlSecondsAfterFinished: 0"));
    fixture.until("it runs", |fixture| is_running(fixture, "brief", 2));
    let label = "jobset.sigs.k8s.io/jobset-name=brief";
    fixture.kubectl(&["annotate", "pods", "-l", label, "muster.dev/sim-run-seconds=0", "--overwrite"]);
    for (kind, name) in [
        (TRAIN_JOBS, "brief"),
        (JOB_SETS, "brief"),
        ("jobs", "brief"),
        ("pods", "brief"),
        ("configmaps", "brief"),
    ] {
        fixture.until("it goes", |fixture| none_left(fixture, kind, name));
    }
    fixture.until("its Workload goes", |fixture| none_left(fixture, WORKLOADS, "trainjob-brief"));
    fixture.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
}

/// A dataset initializer with 1m CPU, before two training nodes.
const STEPS: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: steps}
spec:
  mlPolicy: {numNodes: 2}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec:
            template:
              metadata: {annotations: {muster.dev/sim-run-seconds: '1'}}
              spec: {containers: [{name: dataset-initializer, image: fetch, resources: {requests: {cpu: 1m}}}]}
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              metadata: {annotations: {muster.dev/sim-run-seconds: '600'}}
              spec: {containers: [{name: node, image: train, resources: {requests: {cpu: 1m}}}]}
";

/// A completed initializer releases its quota.
pub fn a_completed_step_releases_its_quota(fixture: &QueueFixture) {
    set_up(fixture, "3m");
    fixture.apply_text(STEPS);
    fixture.apply_text(&train_job("whole", "", "").replace("name: small", "name: steps"));
    fixture.until("it is admitted", |fixture| match fixture.get(&[WORKLOADS]).items_at(&["items"]) {
        [one] => fixture.true_condition(one.str_at(&["metadata", "name"]), "Admitted").map(drop),
        all => Err(format!("{all:?}")),
    });
    let want = [("dataset-initializer".to_owned(), 1), ("node".to_owned(), 2)];
    assert_eq!(fixture.pod_sets(&workload_of(fixture, "whole")), want);
    fixture.until("the initializer is complete and its quota is released", |fixture| {
        fixture.usage_is("team", "2m")
    });
    fixture.apply_text(&train_job("other", "", ", trainer: {numNodes: 1}"));
    fixture.until("another TrainJob uses it", |fixture| {
        is_running(fixture, "other", 1).and(fixture.usage_is("team", "3m"))
    });
}

/// A TrainJob resumes with its runtime snapshot after the runtime was deleted.
pub fn a_trainjob_resumes_with_its_runtime_snapshot(fixture: &QueueFixture) {
    set_up(fixture, "2m");
    fixture.apply_text(&train_job("early", "", ", suspend: true"));
    fixture.until("it runs", |fixture| is_running(fixture, "early", 2));
    // Admission uses the snapshot of the runtime, which is deleted here.
    fixture.kubectl(&["delete", "clustertrainingruntimes.trainer.kubeflow.org", "small"]);
    let preempts = r#"{"spec": {"active": false}}"#;
    let name = workload_of(fixture, "early");
    fixture.kubectl(&["patch", WORKLOADS, &name, "--type", "merge", "-p", preempts]);
    fixture.until("it is suspended", |fixture| is_suspended(fixture, "early"));
    fixture.kubectl(&[
        "patch",
        WORKLOADS,
        &name,
        "--type",
        "merge",
        "-p",
        &preempts.replace("false", "true"),
    ]);
    fixture.until("it is resumed", |fixture| is_running(fixture, "early", 2));
}

/// A gang of three nodes, each with more than half of a node's CPU.
const GANG: &str = "
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: gang}
spec:
  mlPolicy: {numNodes: 3}
  podGroupPolicy: {workload: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              metadata: {annotations: {muster.dev/sim-run-seconds: '600'}}
              spec:
                terminationGracePeriodSeconds: 1
                containers: [{name: node, image: train, resources: {requests: {cpu: CPU}}}]
";

/// An admitted gang is scheduled all or nothing.
pub fn an_admitted_gang_is_scheduled_all_or_nothing(fixture: &QueueFixture) {
    set_up(fixture, "10k");
    let nodes = fixture.get(&["nodes"]);
    let [node, _, _] = nodes.items_at(&["items"]) else { panic!("there are three nodes: {nodes}") };
    let cpus: f64 = node.str_at(&["status", "allocatable", "cpu"]).parse().expect("whole processors");
    let half = format!("{}m", (cpus * 600.0).round());
    let blocker = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: blocker, annotations: {{muster.dev/sim-run-seconds: '600'}}}}\n\
         spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, image: i, resources: {{requests: {{cpu: {half}}}}}}}]}}\n"
    );
    fixture.apply_text(&blocker);
    fixture.kubectl(&["wait", "--for=condition=PodScheduled", "pod/blocker", "--timeout=60s"]);
    fixture.apply_text(&GANG.replace("CPU", &half));
    fixture.apply_text(&train_job("ring", "", "").replace("name: small", "name: gang"));
    let placed = |fixture: &QueueFixture| {
        let pods = pods_of(fixture, "ring");
        let placed = |pod: &&Tree| !pod.str_at(&["spec", "nodeName"]).is_empty();
        (pods.items_at(&["items"]).iter().filter(placed).count(), pods.items_at(&["items"]).len(), pods)
    };
    fixture.until("it is admitted, and its pods are there", |fixture| {
        let (_, there, pods) = placed(fixture);
        ensure(there == 3, &pods)
    });
    fixture.stays("two would fit, and none is bound", |fixture| {
        let (on, _, pods) = placed(fixture);
        ensure(on == 0, &pods)
    });
    let group = fixture.get(&["podgroups.scheduling.k8s.io", "ring"]);
    assert_eq!(group.items_at(&["metadata", "ownerReferences"])[0].str_at(&["kind"]), "TrainJob", "{group}");
    fixture.kubectl(&["delete", "pod", "blocker"]);
    fixture.until("all are bound", |fixture| {
        let (on, _, pods) = placed(fixture);
        ensure(on == 3, &pods)
    });
    complete(fixture, "ring");
    fixture.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
}

/// The example is suspended until there is quota for all its nodes, then completes.
pub fn the_example_runs(fixture: &QueueFixture) {
    fixture.set_quota("2m");
    fixture.apply("queue-trainjob.yaml");
    fixture
        .until("it is suspended without quota for three nodes", |fixture| is_suspended(fixture, "fine-tune"));
    assert_eq!(fixture.pod_sets(&workload_of(fixture, "fine-tune")), [("node".to_owned(), 3)]);
    fixture.set_quota("10m");
    fixture.until("it ends", |fixture| {
        let job = fixture.get(&[TRAIN_JOBS, "fine-tune"]);
        ensure(condition_is_true(&job, "Complete"), &job)
    });
    let job = fixture.get(&[TRAIN_JOBS, "fine-tune"]);
    let managers: Vec<&str> =
        job.items_at(&["spec", "runtimePatches"]).iter().map(|it| it.str_at(&["manager"])).collect();
    assert_eq!(managers, ["example.com/simulation", KUEUE_MANAGER], "{job}");
    fixture.until("the quota is released", |fixture| fixture.usage_is("team", "0"));
}
