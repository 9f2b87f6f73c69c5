use super::*;

fn queues() -> WorkloadQueues {
    WorkloadQueues { cluster: "cq".into(), local: ("ns".into(), "lq".into()) }
}

fn evicted(reason: &str, cause: &str) -> MetricEvent {
    MetricEvent::Evicted { queues: queues(), reason: reason.into(), cause: cause.into() }
}

/// Counts as `name{label=value} number`.
fn told(numbers: &QueueMetrics) -> Vec<String> {
    let line = |it: &MetricSample| {
        let labels: Vec<String> = it.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let value = match &it.value {
            MetricValue::Counter(n) => n.to_string(),
            MetricValue::Gauge(n) => n.to_string(),
            MetricValue::Spans(it) => format!("{}x{}s", it.count(), it.sum.as_secs()),
        };
        format!("{}{{{}}} {value}", it.name, labels.join(","))
    };
    numbers.samples().iter().map(line).collect()
}

#[test]
fn events_are_counted_for_both_queues() {
    let secs = Duration::from_secs;
    let mut numbers = QueueMetrics::default();
    for happened in [
        MetricEvent::AdmissionAttempt { result: AdmissionResult::Success, took: Duration::ZERO },
        MetricEvent::AdmissionAttempt { result: AdmissionResult::Inadmissible, took: Duration::ZERO },
        MetricEvent::Reserved { queues: queues(), waited: secs(3) },
        MetricEvent::Admitted { queues: queues(), waited: secs(5), checks: Some(secs(2)) },
        evicted("PodsReadyTimeout", "WaitForStart"),
        evicted("PodsReadyTimeout", "WaitForStart"),
        MetricEvent::Preempted { by: "other".into(), reason: "InClusterQueue".into() },
        MetricEvent::Finished { queues: queues() },
        MetricEvent::Ungated { took: secs(1) },
        MetricEvent::WorkloadCreated { took: secs(1) },
    ] {
        numbers.record(&happened);
    }
    let want = [
        "kueue_admission_attempt_duration_seconds{result=inadmissible} 1x0s",
        "kueue_admission_attempt_duration_seconds{result=success} 1x0s",
        "kueue_admission_attempts_total{result=inadmissible} 1",
        "kueue_admission_attempts_total{result=success} 1",
        "kueue_admission_checks_wait_time_seconds{cluster_queue=cq} 1x2s",
        "kueue_admission_wait_time_seconds{cluster_queue=cq} 1x5s",
        "kueue_admitted_workloads_total{cluster_queue=cq} 1",
        "kueue_evicted_workloads_total{cluster_queue=cq,reason=PodsReadyTimeout,underlying_cause=WaitForStart} 2",
        "kueue_finished_workloads_total{cluster_queue=cq} 1",
        "kueue_local_queue_admission_checks_wait_time_seconds{name=lq,namespace=ns} 1x2s",
        "kueue_local_queue_admission_wait_time_seconds{name=lq,namespace=ns} 1x5s",
        "kueue_local_queue_admitted_workloads_total{name=lq,namespace=ns} 1",
        "kueue_local_queue_evicted_workloads_total{name=lq,namespace=ns,reason=PodsReadyTimeout,underlying_cause=WaitForStart} 2",
        "kueue_local_queue_finished_workloads_total{name=lq,namespace=ns} 1",
        "kueue_local_queue_quota_reserved_wait_time_seconds{name=lq,namespace=ns} 1x3s",
        "kueue_local_queue_quota_reserved_workloads_total{name=lq,namespace=ns} 1",
        "kueue_pod_scheduling_gate_removal_seconds{} 1x1s",
        "kueue_preempted_workloads_total{preempting_cluster_queue=other,reason=InClusterQueue} 1",
        "kueue_quota_reserved_wait_time_seconds{cluster_queue=cq} 1x3s",
        "kueue_quota_reserved_workloads_total{cluster_queue=cq} 1",
        "kueue_workload_creation_latency_seconds{} 1x1s",
    ];
    assert_eq!(told(&numbers), want);
}

#[test]
fn deleted_queue_leaves_no_series() {
    let mut numbers = QueueMetrics::default();
    numbers.record(&evicted("Preempted", ""));
    let pair = FlavorResourceGauges {
        reserved: 1500,
        used: 1000,
        nominal: 4000,
        borrowing: Some(2000),
        lending: None,
    };
    let tally = WorkloadCounts {
        active: 1,
        inadmissible: 2,
        reserving: 4,
        admitted: 3,
        unadmitted: [("WaitingForQuota".into(), 3)].into(),
    };
    let gauges = ClusterQueueGauges {
        cohort: "all".into(),
        state: ClusterQueueStatus::Active,
        workloads: tally.clone(),
        flavor_resources: [(("spot".into(), "cpu".into()), pair)].into(),
        pending: [("cpu".into(), 250)].into(),
        share: Some(125),
    };
    numbers.set_cluster_queue(&"cq".into(), gauges);
    numbers.set_local_queue(&("ns".into(), "lq".into()), tally);
    let pairs = "cluster_queue=cq,cohort=all,flavor=spot,resource=cpu";
    let want = [
        "kueue_admitted_active_workloads{cluster_queue=cq} 3".to_owned(),
        format!("kueue_cluster_queue_borrowing_limit{{{pairs}}} 2"),
        format!("kueue_cluster_queue_nominal_quota{{{pairs}}} 4"),
        "kueue_cluster_queue_resource_pending{cluster_queue=cq,cohort=all,resource=cpu} 0.25".to_owned(),
        format!("kueue_cluster_queue_resource_reservation{{{pairs}}} 1.5"),
        format!("kueue_cluster_queue_resource_usage{{{pairs}}} 1"),
        "kueue_cluster_queue_status{cluster_queue=cq,status=active} 1".to_owned(),
        "kueue_cluster_queue_status{cluster_queue=cq,status=pending} 0".to_owned(),
        "kueue_cluster_queue_status{cluster_queue=cq,status=terminating} 0".to_owned(),
        "kueue_cluster_queue_weighted_share{cluster_queue=cq,cohort=all} 125".to_owned(),
        "kueue_evicted_workloads_total{cluster_queue=cq,reason=Preempted,underlying_cause=} 1".to_owned(),
        "kueue_local_queue_admitted_active_workloads{name=lq,namespace=ns} 3".to_owned(),
        "kueue_local_queue_evicted_workloads_total{name=lq,namespace=ns,reason=Preempted,underlying_cause=} 1"
            .to_owned(),
        "kueue_local_queue_pending_workloads{name=lq,namespace=ns,status=active} 1".to_owned(),
        "kueue_local_queue_pending_workloads{name=lq,namespace=ns,status=inadmissible} 2".to_owned(),
        "kueue_local_queue_reserving_active_workloads{name=lq,namespace=ns} 4".to_owned(),
        "kueue_local_queue_unadmitted_workloads{name=lq,namespace=ns,reason=WaitingForQuota} 3".to_owned(),
        "kueue_pending_workloads{cluster_queue=cq,status=active} 1".to_owned(),
        "kueue_pending_workloads{cluster_queue=cq,status=inadmissible} 2".to_owned(),
        "kueue_reserving_active_workloads{cluster_queue=cq} 4".to_owned(),
        "kueue_unadmitted_workloads{cluster_queue=cq,reason=WaitingForQuota} 3".to_owned(),
    ];
    assert_eq!(told(&numbers), want);
    numbers.record(&MetricEvent::Preempted { by: "cq".into(), reason: "InClusterQueue".into() });
    numbers.delete_cluster_queue("cq");
    assert!(told(&numbers).iter().all(|it| it.starts_with("kueue_local_queue_")), "{:?}", told(&numbers));
    numbers.delete_local_queue(&("ns".into(), "lq".into()));
    assert_eq!(told(&numbers), Vec::<String>::new());
}

#[test]
fn durations_are_counted_by_bucket() {
    let mut spans = Histogram::new(Buckets::Long);
    for millis in [0, 1000, 1001, 2500, 5000, 5001, 100_000_000] {
        spans.add(Duration::from_millis(millis));
    }
    assert_eq!(spans.counts[..4], [2, 2, 1, 1]);
    assert_eq!(spans.counts[Buckets::COUNT], 1, "longer than all bounds");
    assert_eq!(Buckets::Long.all()[Buckets::COUNT - 1], Duration::from_secs(10_240));
    assert_eq!(Buckets::Short.all()[Buckets::COUNT - 1], Duration::from_millis(8192));
}
