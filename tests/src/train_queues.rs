//! TrainJobs in queues, on any plane: who waits, who runs, and who has to leave and comes back.

use std::time::Duration;

use muster_api::time::Time;
use muster_tree::Tree;

use crate::queues::{Stage, WORKLOADS};
use crate::visible::{until_told, workload_of};

const TRAIN_JOBS: &str = "trainjobs.trainer.kubeflow.org";
const JOB_SETS: &str = "jobsets.jobset.x-k8s.io";
/// Who writes what a queue gives.
pub const OURS: &str = "kueue.x-k8s.io/manager";

/// A runtime whose nodes ask for a thousandth of a processor each and train until they are told to end.
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

/// A TrainJob in the queue of the examples, with these further labels and fields.
fn train_job(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n\
         metadata: {{name: {name}, labels: {{kueue.x-k8s.io/queue-name: user-queue{labels}}}}}\n\
         spec: {{runtimeRef: {{name: small}}{spec}}}\n"
    )
}

/// Makes that runtime, and a queue of so many processors.
fn begin(stage: &Stage, quota: &str) {
    stage.quota(quota);
    until_told(stage);
    stage.apply_text(SMALL);
}

fn is_so(holds: bool, seen: &Tree) -> Result<(), String> {
    if holds { Ok(()) } else { Err(seen.to_json()) }
}

/// What the queue wrote for each replicatedJob.
#[must_use]
pub fn given(job: &Tree) -> Vec<Tree> {
    let mut all = job.items_at(&["spec", "runtimePatches"]).iter();
    let entry = all.find(|it| it.str_at(&["manager"]) == OURS).cloned().unwrap_or_default();
    entry.items_at(&["trainingRuntimeSpec", "template", "spec", "replicatedJobs"]).to_vec()
}

fn holds(job: &Tree, condition: &str) -> bool {
    let is = |it: &Tree| it.str_at(&["type"]) == condition && it.str_at(&["status"]) == "True";
    job.items_at(&["status", "conditions"]).iter().any(is)
}

/// Whether a TrainJob and its JobSet stand still, it has nothing of a queue, and no pod of it is there.
fn waits(stage: &Stage, name: &str) -> Result<(), String> {
    let (job, set) = (stage.get(&[TRAIN_JOBS, name]), stage.get(&[JOB_SETS, name]));
    let still = |it: &Tree| it.bool_at(&["spec", "suspend"]) == Some(true);
    is_so(still(&job) && given(&job).is_empty() && holds(&job, "Suspended"), &job)?;
    is_so(still(&set), &set)?;
    let pods = pods_of(stage, name);
    is_so(pods.items_at(&["items"]).is_empty(), &pods)
}

/// Whether a TrainJob runs with so many pods, as its queue lets it.
fn runs(stage: &Stage, name: &str, pods: usize) -> Result<(), String> {
    let job = stage.get(&[TRAIN_JOBS, name]);
    is_so(job.bool_at(&["spec", "suspend"]) == Some(false) && !given(&job).is_empty(), &job)?;
    let all = pods_of(stage, name);
    let right = |pod: &Tree| {
        pod.str_at(&["status", "phase"]) == "Running"
            && pod.str_at(&["metadata", "labels", "kueue.x-k8s.io/podset"]) == "node"
    };
    let all_right = all.items_at(&["items"]).iter().filter(|it| right(it)).count() == pods;
    is_so(all_right && all.items_at(&["items"]).len() == pods, &all)
}

fn pods_of(stage: &Stage, name: &str) -> Tree {
    stage.get(&["pods", "-l", &format!("jobset.sigs.k8s.io/jobset-name={name}")])
}

/// Lets the pods of a TrainJob end well, and waits until it is told.
fn ends(stage: &Stage, name: &str) {
    let label = format!("jobset.sigs.k8s.io/jobset-name={name}");
    stage.kubectl(&["annotate", "pods", "-l", &label, "muster.dev/sim-run-seconds=0", "--overwrite"]);
    stage.until("it ends", |stage| {
        let job = stage.get(&[TRAIN_JOBS, name]);
        is_so(holds(&job, "Complete"), &job)
    });
}

/// Workloads there are.
fn workloads(stage: &Stage) -> usize {
    stage.get(&[WORKLOADS]).items_at(&["items"]).len()
}

/// Two TrainJobs and quota for one: one waits suspended, and runs when the other has ended.
pub fn one_waits_suspended_and_runs_when_the_other_ended(stage: &Stage) {
    begin(stage, "3m");
    stage.apply_text(&train_job("first", "", ""));
    stage.until("the first runs", |stage| runs(stage, "first", 2).and(stage.uses("team", "2m")));
    stage.apply_text(&train_job("second", "", ""));
    stage.until("the second waits", |stage| waits(stage, "second"));
    let name = workload_of(stage, "second");
    assert!(name.starts_with("trainjob-second-"), "{name}");
    assert_eq!(stage.sets(&name), [("node".to_owned(), 2)]);
    stage.stays("and goes on waiting", |stage| waits(stage, "second"));
    assert_eq!(workloads(stage), 2, "JobSets, Jobs and pods below are not queued again");
    ends(stage, "first");
    stage.until("the second runs", |stage| runs(stage, "second", 2).and(stage.uses("team", "2m")));
    ends(stage, "second");
    stage.until("nothing is held", |stage| stage.uses("team", "0"));
    let reason = stage.has(&name, "Finished");
    assert_eq!(reason.as_deref(), Ok("Succeeded"));
    assert_eq!(workloads(stage), 2);
}

/// Why one waits is told: on itself, by `muster why`, and of a manifest that was not made.
pub fn waiting_is_explained(stage: &Stage) {
    begin(stage, "3m");
    stage.apply_text(&train_job("first", "", ""));
    stage.until("the first runs", |stage| stage.uses("team", "2m"));
    stage.apply_text(&train_job("second", "", ""));
    stage.until("it is told on the TrainJob itself", |stage| {
        let told =
            stage.get(&["events", "--field-selector", "involvedObject.kind=TrainJob,reason=WaitingForQuota"]);
        let names = told.items_at(&["items"]).iter().map(|it| it.str_at(&["involvedObject", "name"]));
        is_so(names.collect::<Vec<_>>() == ["second"], &told)
    });
    let words = stage.why(&["trainjob/second"]).expect("it is told");
    for want in [
        "TrainJob default/second: Pending",
        "number 1 in LocalQueue user-queue, number 1 in ClusterQueue team",
        "cpu: 2m asked for, 1m available, 3m at most, 1m missing",
    ] {
        assert!(words.contains(want), "{want} is not in\n{words}");
    }
    for (says, nodes, want) in [
        ("it fits", 1, "Manifest default/new: WouldBeAdmitted"),
        ("there is no room", 2, "Manifest default/new: WouldWait"),
        ("there never is", 4, "ExceedsMaxQuota"),
    ] {
        let file =
            stage.file("tried.yaml", &train_job("new", "", &format!(", trainer: {{numNodes: {nodes}}}")));
        let words = stage.why(&["-f", &file, "-n", "default"]).expect("it is told");
        assert!(words.contains(want), "{says}: {words}");
    }
    let lost = train_job("lost", "", "").replace("name: small", "name: missing");
    let file = stage.file("tried.yaml", &lost);
    let why = stage.why(&["-f", &file, "-n", "default"]).expect_err("nothing can be told of it");
    assert!(why.contains("runtime 'missing' not found"), "{why}");
}

const HIGH: &str =
    "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: high}\nvalue: 10\n";

/// One that is preempted is suspended, and comes back.
pub fn one_that_is_preempted_stops_and_comes_back(stage: &Stage) {
    begin(stage, "2m");
    stage.apply_text(HIGH);
    let preempts = r#"{"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}"#;
    stage.kubectl(&["patch", "clusterqueue", "team", "--type", "merge", "-p", preempts]);
    stage.apply_text(&train_job("low", "", ""));
    stage.until("it runs", |stage| runs(stage, "low", 2));
    stage.apply_text(&train_job("high", ", kueue.x-k8s.io/priority-class: high", ""));
    stage.until("the more important one runs", |stage| runs(stage, "high", 2));
    stage.until("the other has stopped", |stage| waits(stage, "low"));
    stage.stays("and waits", |stage| waits(stage, "low").and(stage.uses("team", "2m")));
    let low = workload_of(stage, "low");
    assert_eq!(stage.has(&low, "Preempted").as_deref(), Ok("InClusterQueue"));
    ends(stage, "high");
    stage.until("it runs again", |stage| runs(stage, "low", 2));
    let job = stage.get(&[TRAIN_JOBS, "low"]);
    let resumed =
        job.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == "Suspended");
    assert_eq!(resumed.map(|it| it.str_at(&["reason"])), Some("Resumed"), "{job}");
    ends(stage, "low");
    assert_eq!(workload_of(stage, "low"), low, "one Workload, from beginning to end");
    stage.until("nothing is held", |stage| stage.uses("team", "0"));
}

/// When the condition of this type was last different.
fn since(job: &Tree, condition: &str) -> Option<Time> {
    let found = job.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == condition);
    Time::of(found?.at(&["lastTransitionTime"]))
}

/// A deadline counts from the last start of one that is queued.
pub fn time_in_the_queue_does_not_count_towards_the_deadline(stage: &Stage) {
    const DEADLINE: Duration = Duration::from_secs(3);
    begin(stage, "2m");
    stage.apply_text(&train_job("first", "", ""));
    stage.until("the first runs", |stage| runs(stage, "first", 2));
    stage.apply_text(&train_job("second", "", &format!(", activeDeadlineSeconds: {}", DEADLINE.as_secs())));
    stage.until("the second waits", |stage| waits(stage, "second"));
    std::thread::sleep(DEADLINE + Duration::from_secs(1));
    waits(stage, "second").expect("it waits for longer than it may run, and does not fail");
    ends(stage, "first");
    stage.until("its time is over after its start", |stage| {
        let job = stage.get(&[TRAIN_JOBS, "second"]);
        let failed =
            job.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == "Failed");
        is_so(failed.is_some_and(|it| it.str_at(&["reason"]) == "DeadlineExceeded"), &job)
    });
    let job = stage.get(&[TRAIN_JOBS, "second"]);
    let (started, failed) =
        (since(&job, "Suspended").expect("it was resumed"), since(&job, "Failed").expect("it failed"));
    assert!(failed.since(started) >= DEADLINE, "{job}");
    stage.until("nothing is held", |stage| stage.uses("team", "0"));
    assert_eq!(stage.has(&workload_of(stage, "second"), "Finished").as_deref(), Ok("Failed"));
}

/// Whether nothing of a kind is there whose name begins so.
fn none_left(stage: &Stage, kind: &str, name: &str) -> Result<(), String> {
    let all = stage.get(&[kind]);
    let left = all.items_at(&["items"]).iter().any(|it| it.str_at(&["metadata", "name"]).starts_with(name));
    is_so(!left, &all)
}

/// One that vanishes after its end takes everything along, and its share is free.
pub fn one_whose_time_to_live_is_over_leaves_nothing(stage: &Stage) {
    begin(stage, "2m");
    stage.apply_text(&train_job("brief", "", ", ttlSecondsAfterFinished: 0"));
    stage.until("it runs", |stage| runs(stage, "brief", 2));
    let label = "jobset.sigs.k8s.io/jobset-name=brief";
    stage.kubectl(&["annotate", "pods", "-l", label, "muster.dev/sim-run-seconds=0", "--overwrite"]);
    for (kind, name) in [
        (TRAIN_JOBS, "brief"),
        (JOB_SETS, "brief"),
        ("jobs", "brief"),
        ("pods", "brief"),
        ("configmaps", "brief"),
    ] {
        stage.until("it goes", |stage| none_left(stage, kind, name));
    }
    stage.until("its Workload goes", |stage| none_left(stage, WORKLOADS, "trainjob-brief"));
    stage.until("nothing is held", |stage| stage.uses("team", "0"));
}

/// A step that fetches data for a thousandth before two nodes train.
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

/// What fetches data gives its share back when it is done.
pub fn a_step_that_is_done_gives_back_what_it_had(stage: &Stage) {
    begin(stage, "3m");
    stage.apply_text(STEPS);
    stage.apply_text(&train_job("whole", "", "").replace("name: small", "name: steps"));
    stage.until("it has all of its share", |stage| match stage.get(&[WORKLOADS]).items_at(&["items"]) {
        [one] => stage.has(one.str_at(&["metadata", "name"]), "Admitted").map(drop),
        all => Err(format!("{all:?}")),
    });
    let want = [("dataset-initializer".to_owned(), 1), ("node".to_owned(), 2)];
    assert_eq!(stage.sets(&workload_of(stage, "whole")), want);
    stage.until("what fetched is done, and others may have that", |stage| stage.uses("team", "2m"));
    stage.apply_text(&train_job("other", "", ", trainer: {numNodes: 1}"));
    stage.until("another has it", |stage| runs(stage, "other", 1).and(stage.uses("team", "3m")));
}

/// One goes on with the runtime that it kept, whatever became of that.
pub fn one_goes_on_with_the_runtime_that_it_kept(stage: &Stage) {
    begin(stage, "2m");
    stage.apply_text(&train_job("early", "", ", suspend: true"));
    stage.until("it runs", |stage| runs(stage, "early", 2));
    // The queue goes on with the runtime that the TrainJob kept, whatever became of the one there was.
    stage.kubectl(&["delete", "clustertrainingruntimes.trainer.kubeflow.org", "small"]);
    let preempts = r#"{"spec": {"active": false}}"#;
    let name = workload_of(stage, "early");
    stage.kubectl(&["patch", WORKLOADS, &name, "--type", "merge", "-p", preempts]);
    stage.until("it leaves", |stage| waits(stage, "early"));
    stage.kubectl(&["patch", WORKLOADS, &name, "--type", "merge", "-p", &preempts.replace("false", "true")]);
    stage.until("and comes back", |stage| runs(stage, "early", 2));
}

/// A gang of three nodes that need half of a machine each.
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

/// A gang that is admitted is placed as a whole or not at all.
pub fn a_gang_that_has_quota_is_placed_as_a_whole_or_not_at_all(stage: &Stage) {
    begin(stage, "10k");
    let nodes = stage.get(&["nodes"]);
    let [node, _, _] = nodes.items_at(&["items"]) else { panic!("there are three nodes: {nodes}") };
    let cpus: f64 = node.str_at(&["status", "allocatable", "cpu"]).parse().expect("whole processors");
    let half = format!("{}m", (cpus * 600.0).round());
    let blocker = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: blocker, annotations: {{muster.dev/sim-run-seconds: '600'}}}}\n\
         spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, image: i, resources: {{requests: {{cpu: {half}}}}}}}]}}\n"
    );
    stage.apply_text(&blocker);
    stage.kubectl(&["wait", "--for=condition=PodScheduled", "pod/blocker", "--timeout=60s"]);
    stage.apply_text(&GANG.replace("CPU", &half));
    stage.apply_text(&train_job("ring", "", "").replace("name: small", "name: gang"));
    let placed = |stage: &Stage| {
        let pods = pods_of(stage, "ring");
        let placed = |pod: &&Tree| !pod.str_at(&["spec", "nodeName"]).is_empty();
        (pods.items_at(&["items"]).iter().filter(placed).count(), pods.items_at(&["items"]).len(), pods)
    };
    stage.until("it is admitted, and its pods are there", |stage| {
        let (_, there, pods) = placed(stage);
        is_so(there == 3, &pods)
    });
    stage.stays("two have room, and none is placed", |stage| {
        let (on, _, pods) = placed(stage);
        is_so(on == 0, &pods)
    });
    let group = stage.get(&["podgroups.scheduling.k8s.io", "ring"]);
    assert_eq!(group.items_at(&["metadata", "ownerReferences"])[0].str_at(&["kind"]), "TrainJob", "{group}");
    stage.kubectl(&["delete", "pod", "blocker"]);
    stage.until("all are placed", |stage| {
        let (on, _, pods) = placed(stage);
        is_so(on == 3, &pods)
    });
    ends(stage, "ring");
    stage.until("nothing is held", |stage| stage.uses("team", "0"));
}

/// The example waits for room for all of its nodes, and runs.
pub fn the_example_runs(stage: &Stage) {
    stage.quota("2m");
    stage.apply("queue-trainjob.yaml");
    stage.until("it waits for room for three nodes", |stage| waits(stage, "fine-tune"));
    assert_eq!(stage.sets(&workload_of(stage, "fine-tune")), [("node".to_owned(), 3)]);
    stage.quota("10m");
    stage.until("it ends", |stage| {
        let job = stage.get(&[TRAIN_JOBS, "fine-tune"]);
        is_so(holds(&job, "Complete"), &job)
    });
    let job = stage.get(&[TRAIN_JOBS, "fine-tune"]);
    let managers: Vec<&str> =
        job.items_at(&["spec", "runtimePatches"]).iter().map(|it| it.str_at(&["manager"])).collect();
    assert_eq!(managers, ["example.com/simulation", OURS], "{job}");
    stage.until("nothing is held", |stage| stage.uses("team", "0"));
}
