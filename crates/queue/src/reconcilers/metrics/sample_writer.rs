//! Encodes metrics as samples, one per label set.

use muster_tree::Text;

use super::{
    ClusterQueueGauges, ClusterQueueStatus, Labels, MetricSample, MetricValue, PREFIX, WorkloadCounts,
    of_cluster,
};

#[derive(Default)]
pub(super) struct Out {
    pub samples: Vec<MetricSample>,
}

impl Out {
    pub fn push(&mut self, name: &str, labels: Labels, value: MetricValue) {
        self.samples.push(MetricSample { name: format!("{PREFIX}{name}"), labels, value });
    }

    fn gauge(&mut self, name: &str, mut labels: Labels, more: Labels, value: f64) {
        labels.extend(more);
        self.push(name, labels, MetricValue::Gauge(value));
    }

    pub fn tally(&mut self, prefix: &str, of: &Labels, tally: &WorkloadCounts) {
        let pending = format!("{prefix}pending_workloads");
        for (status, n) in [("active", tally.active), ("inadmissible", tally.inadmissible)] {
            self.gauge(&pending, of.clone(), vec![("status", status.into())], number(n));
        }
        let reserving = format!("{prefix}reserving_active_workloads");
        self.gauge(&reserving, of.clone(), Vec::new(), number(tally.reserving));
        let admitted = format!("{prefix}admitted_active_workloads");
        self.gauge(&admitted, of.clone(), Vec::new(), number(tally.admitted));
        let unadmitted = format!("{prefix}unadmitted_workloads");
        for (reason, n) in &tally.unadmitted {
            self.gauge(&unadmitted, of.clone(), vec![("reason", reason.clone())], number(*n));
        }
    }

    pub fn queue(&mut self, name: &Text, it: &ClusterQueueGauges) {
        let of = of_cluster(name);
        self.tally("", &of, &it.workloads);
        for state in ClusterQueueStatus::ALL {
            let is = if state == it.state { 1.0 } else { 0.0 };
            self.gauge("cluster_queue_status", of.clone(), vec![("status", state.word().into())], is);
        }
        if let Some(share) = it.share {
            let cohort = vec![("cohort", it.cohort.clone())];
            self.gauge("cluster_queue_weighted_share", of.clone(), cohort, signed(share));
        }
        for (resource, n) in &it.pending {
            let more = vec![("cohort", it.cohort.clone()), ("resource", resource.clone())];
            self.gauge("cluster_queue_resource_pending", of.clone(), more, units(resource, *n));
        }
        for ((flavor, resource), pair) in &it.flavor_resources {
            let more = [("cohort", &it.cohort), ("flavor", flavor), ("resource", resource)];
            let more: Labels = more.into_iter().map(|(key, value)| (key, value.clone())).collect();
            let amounts = [
                ("cluster_queue_resource_reservation", Some(pair.reserved)),
                ("cluster_queue_resource_usage", Some(pair.used)),
                ("cluster_queue_nominal_quota", Some(pair.nominal)),
                ("cluster_queue_borrowing_limit", pair.borrowing),
                ("cluster_queue_lending_limit", pair.lending),
            ];
            for (name, amount) in amounts {
                if let Some(n) = amount {
                    self.gauge(name, of.clone(), more.clone(), units(resource, n));
                }
            }
        }
    }
}

/// Converts an amount to the metric's unit: cpu in cores.
fn units(resource: &str, n: i64) -> f64 {
    if resource == "cpu" { signed(n) / 1000.0 } else { signed(n) }
}

// Metrics are floating point: amounts beyond 2^53 lose precision.
#[allow(clippy::cast_precision_loss, reason = "metrics are floating point by their format")]
fn signed(n: i64) -> f64 {
    n as f64
}

#[allow(clippy::cast_precision_loss, reason = "metrics are floating point by their format")]
fn number(n: u64) -> f64 {
    n as f64
}
