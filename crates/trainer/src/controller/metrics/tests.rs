//! Metrics of TrainJobs that are created, updated and deleted.

use muster_tree::tree;

use super::*;

const CLOCK: DeadlineClock = DeadlineClock::Auto;

fn at(secs: i64) -> Time {
    Time::parse("2026-01-01T00:00:00Z").unwrap() + Duration::from_secs(secs.unsigned_abs())
}

fn job(name: &str, patch: &Tree) -> Tree {
    tree!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"runtimeRef": {"name": "torch"}, "activeDeadlineSeconds": 100, "ttlSecondsAfterFinished": 10}})
    .merge(patch)
}

fn ended(name: &str, kind: &str, reason: &str) -> Tree {
    job(
        name,
        &tree!({"status": {"conditions": [{"type": kind, "status": "True", "reason": reason,
            "lastTransitionTime": "2026-01-01T00:00:40Z"}]}}),
    )
}

/// Each sample as a line of text.
fn lines(numbers: &TrainJobMetrics, now: i64, beginning: &str) -> Vec<String> {
    let line = |it: &TrainJobSample| {
        let labels: Vec<String> = it.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let value = match &it.value {
            Value::Count(n) => n.to_string(),
            Value::Gauge(n) => n.to_string(),
            Value::Spans(spans) => format!("{} in {:?}", spans.count(), spans.sum),
        };
        format!("{}{{{}}} {value}", it.name, labels.join(","))
    };
    numbers.samples(at(now)).iter().map(line).filter(|it| it.starts_with(beginning)).collect()
}

/// Shows: 2899-32.
#[test]
fn a_deadline_counts_once_however_often_its_job_is_seen() {
    let mut numbers = TrainJobMetrics::default();
    let (before, after) = (job("a", &tree!({})), ended("a", "Failed", "DeadlineExceeded"));
    numbers.observe_change(None, Some(&before), CLOCK, at(0));
    numbers.observe_change(Some(&before), Some(&after), CLOCK, at(100));
    numbers.observe_change(
        Some(&after),
        Some(&after.with(&["metadata", "labels"], tree!({"a": "b"}))),
        CLOCK,
        at(101),
    );
    numbers.observe_change(Some(&before), Some(&ended("a", "Failed", "FailedJobs")), CLOCK, at(102));
    // A TrainJob that failed before the start is not counted.
    numbers.observe_change(None, Some(&ended("b", "Failed", "DeadlineExceeded")), CLOCK, at(103));
    assert_eq!(
        lines(&numbers, 103, "trainjob_deadline"),
        ["trainjob_deadline_exceeded_total{namespace=ns} 1"]
    );
}

/// Shows: 2899-31, 2899-33.
#[test]
fn a_deletion_counts_when_it_is_taken_and_its_latency_when_the_job_is_gone() {
    let mut numbers = TrainJobMetrics::default();
    let done = ended("a", "Complete", "AllJobsCompleted");
    let going = done.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:50Z");
    numbers.observe_change(Some(&done), Some(&going), CLOCK, at(50));
    assert!(lines(&numbers, 50, "trainjob_ttl_del").is_empty(), "somebody else deleted it");
    numbers.deletion_sent(&"uid-a".into(), at(50));
    numbers.observe_change(Some(&done), Some(&going), CLOCK, at(52));
    let taken = "trainjob_ttl_deletions_total{namespace=ns} 1";
    assert_eq!(lines(&numbers, 52, "trainjob_ttl_del"), [taken], "what it owns still goes");
    // Another request of this TrainJob is rejected meanwhile.
    numbers.deletion_failed(&"uid-a".into());
    let labelled = going.with(&["metadata", "labels"], tree!({"a": "b"}));
    numbers.observe_change(Some(&going), Some(&labelled), CLOCK, at(55));
    numbers.observe_change(Some(&labelled), None, CLOCK, at(60));
    let want = ["trainjob_ttl_deletion_latency_seconds{} 1 in 10s", taken];
    assert_eq!(lines(&numbers, 60, "trainjob_ttl_del"), want, "seen three times, counted once");
    assert_eq!(numbers.tracked_jobs(), 0, "nothing is kept of what is gone");
    numbers.deletion_sent(&"uid-b".into(), at(50));
    numbers.deletion_failed(&"uid-b".into());
    let other = ended("b", "Complete", "AllJobsCompleted");
    numbers.observe_change(Some(&other), None, CLOCK, at(60));
    assert_eq!(lines(&numbers, 60, "trainjob_ttl_del"), want, "what was refused does not count");
    // Clock skew must not make a latency negative.
    numbers.deletion_sent(&"uid-b".into(), at(90));
    numbers.observe_change(Some(&other), None, CLOCK, at(60));
    assert_eq!(
        lines(&numbers, 60, "trainjob_ttl_deletion_l"),
        ["trainjob_ttl_deletion_latency_seconds{} 2 in 10s"]
    );
}

/// Shows: 2899-33.
#[test]
fn latencies_beyond_the_objective_are_told_apart() {
    let mut spans = TrainJobHistogram::new(HistogramBuckets::Latency);
    for secs in [0, 29, 30, 31, 301] {
        spans.add(Duration::from_secs(secs));
    }
    assert_eq!(spans.counts, [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 1]);
    assert_eq!(spans.sum, Duration::from_secs(391));
}

/// Shows: 2899-34.
#[test]
fn finished_jobs_with_a_time_to_live_are_pending_until_they_go() {
    let mut numbers = TrainJobMetrics::default();
    let done = ended("a", "Complete", "x");
    let kept = ended("b", "Failed", "x").without(&["spec", "ttlSecondsAfterFinished"]);
    numbers.observe_change(None, Some(&done), CLOCK, at(41));
    numbers.observe_change(None, Some(&kept), CLOCK, at(41));
    numbers.observe_change(None, Some(&job("c", &tree!({}))), CLOCK, at(41));
    assert_eq!(lines(&numbers, 41, "trainjob_ttl"), ["trainjob_ttl_pending_deletions{} 1"]);
    let going = done.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:50Z");
    numbers.observe_change(Some(&done), Some(&going), CLOCK, at(50));
    assert_eq!(lines(&numbers, 50, "trainjob_ttl"), ["trainjob_ttl_pending_deletions{} 0"]);
}

/// Shows: 2899-35.
#[test]
fn what_remains_counts_down_below_zero_and_ends_with_the_run() {
    let mut numbers = TrainJobMetrics::default();
    let running = job("a", &tree!({}));
    numbers.observe_change(None, Some(&running), CLOCK, at(0));
    let told = |numbers: &TrainJobMetrics, now: i64| lines(numbers, now, "trainjob_active");
    let line =
        |n: i64| vec![format!("trainjob_active_deadline_remaining_seconds{{name=a,namespace=ns}} {n}")];
    assert_eq!(told(&numbers, 1), line(99));
    assert_eq!(told(&numbers, 103), line(-3), "late, and visible");
    for (says, next) in [
        ("suspended", job("a", &tree!({"spec": {"suspend": true}}))),
        ("ended", ended("a", "Complete", "x")),
        ("going", job("a", &tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:02Z"}}))),
        ("of another controller", job("a", &tree!({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}))),
    ] {
        let mut numbers = numbers.clone();
        numbers.observe_change(Some(&running), Some(&next), CLOCK, at(2));
        assert!(told(&numbers, 2).is_empty(), "{says}");
    }
    numbers.observe_change(Some(&running), None, CLOCK, at(2));
    assert!(told(&numbers, 2).is_empty(), "gone");
}

/// A resumed TrainJob has its full time from its start; until the Suspended condition is updated that start is
/// unknown.
#[test]
fn what_remains_of_a_resumed_job_is_told_when_it_has_started() {
    let resumed = |status: &str| {
        let condition =
            tree!({"type": "Suspended", "status": status, "lastTransitionTime": "2026-01-01T00:00:40Z"});
        job("a", &tree!({"status": {"conditions": [condition]}}))
    };
    let told = |clock: DeadlineClock, job: &Tree| {
        let mut numbers = TrainJobMetrics::default();
        numbers.observe_change(None, Some(job), clock, at(50));
        let lines = lines(&numbers, 50, "trainjob_active");
        lines.first().and_then(|line| line.rsplit_once(' ')?.1.parse::<i64>().ok())
    };
    assert_eq!(
        told(DeadlineClock::Active, &resumed("True")),
        None,
        "its status still tells that it is suspended"
    );
    assert_eq!(told(DeadlineClock::Active, &resumed("False")), Some(90));
    assert_eq!(told(DeadlineClock::Active, &job("a", &tree!({}))), Some(50), "never suspended");
    assert_eq!(told(DeadlineClock::Creation, &resumed("True")), Some(50));
}

#[test]
fn states_are_tallied_by_namespace_and_runtime() {
    let mut numbers = TrainJobMetrics::default();
    let ready = tree!({"status": {"jobsStatus": [{"name": "node", "ready": 1}]}});
    let pending = job("a", &tree!({}));
    numbers.observe_change(None, Some(&pending), CLOCK, at(0));
    numbers.observe_change(Some(&pending), Some(&job("a", &ready)), CLOCK, at(7));
    numbers.observe_change(None, Some(&ended("b", "Complete", "x")), CLOCK, at(7));
    numbers.observe_change(None, Some(&job("c", &tree!({"spec": {"suspend": true}}))), CLOCK, at(7));
    let of = |state: &str, n: i64| format!("trainjob_status{{namespace=ns,runtime=torch,state={state}}} {n}");
    let want = [of("complete", 1), of("failed", 0), of("pending", 0), of("running", 1), of("suspended", 1)];
    assert_eq!(lines(&numbers, 7, "trainjob_status"), want);
    let waited = "trainjob_time_to_running_seconds{} 1 in 7s";
    assert_eq!(lines(&numbers, 7, "trainjob_time"), [waited]);
    numbers.observe(&TrainJobObservation::Reconciled { took: Duration::from_millis(3) });
    assert_eq!(lines(&numbers, 7, "trainjob_rec"), ["trainjob_reconcile_duration_seconds{} 1 in 3ms"]);
}
