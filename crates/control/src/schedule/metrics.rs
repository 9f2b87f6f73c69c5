//! Scheduler metrics: attempts, pending pods by queue, scheduling latency.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::ApiObject;
use muster_api::consts::managers;
use muster_api::paths::pod as path;
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_scheduler::{GroupStatus, PodKey, QueueLengths, SchedulingDecision, SchedulingOutcome};
use muster_tree::Text;

use super::steps;
use crate::cache::{Caches, WatchEvent};
use crate::controller::ObjectKey;
use crate::metrics::{DurationHistogram, PodGroupMetrics, SchedulerMetrics};

/// Records the metrics of the scheduler.
#[derive(Debug, Default)]
pub struct SchedulerMetricsRecorder {
    attempts: BTreeMap<(Text, &'static str), u64>,
    waits: DurationHistogram,
    /// Pods with scheduling gates.
    gated: BTreeSet<PodKey>,
    /// When pods lost their last scheduling gate: the latency counts from there.
    freed: BTreeMap<PodKey, Time>,
}

impl SchedulerMetricsRecorder {
    pub fn on_pod_event(&mut self, seen: &WatchEvent<'_>, now: Time) {
        let has_gates =
            |pod: Option<&ApiObject>| pod.is_some_and(|it| !it.tree.items_at(path::GATES).is_empty());
        let (before, after) = (has_gates(seen.old), has_gates(seen.new));
        if !before && !after && (seen.new.is_some() || self.freed.is_empty()) {
            return;
        }
        let key = (seen.key.namespace.clone(), seen.key.name.clone());
        if after {
            self.gated.insert(key);
        } else {
            self.gated.remove(&key);
            if seen.new.is_some() {
                self.freed.insert(key, now);
            } else {
                self.freed.remove(&key);
            }
        }
    }

    pub fn decided(&mut self, decision: &SchedulingDecision, caches: &Caches, now: Time) {
        match &decision.outcome {
            SchedulingOutcome::Scheduled(pods) => self.placed(pods, caches, now),
            SchedulingOutcome::Unschedulable { pods, .. } => {
                pods.iter().for_each(|pod| self.refused(pod, "unschedulable", caches));
            }
            SchedulingOutcome::Group(it) => {
                let result = match it.status {
                    // A group that is held back was not attempted.
                    GroupStatus::Held(_) => return,
                    GroupStatus::Error(_) => "error",
                    _ => "unschedulable",
                };
                self.placed(&it.scheduled, caches, now);
                it.unschedulable.iter().for_each(|it| self.refused(&it.pod, result, caches));
            }
        }
    }

    fn placed(&mut self, pods: &[(PodKey, Text)], caches: &Caches, now: Time) {
        for (pod, _) in pods {
            let Some(object) = caches.find(&ObjectKey::new(&kinds::PODS, &pod.0, &pod.1)) else { continue };
            self.count(steps::scheduler_of(object), "scheduled");
            let since = self.freed.remove(pod).or_else(|| meta::creation_timestamp(&object.tree));
            self.waits.observe(since.map(|since| now.since(since)).unwrap_or_default());
        }
    }

    fn refused(&mut self, pod: &PodKey, result: &'static str, caches: &Caches) {
        let object = caches.find(&ObjectKey::new(&kinds::PODS, &pod.0, &pod.1));
        let by = object.map_or_else(|| managers::SCHEDULER.clone(), steps::scheduler_of);
        self.count(by, result);
    }

    /// A decision could not be carried out: the attempt counts as an error.
    pub fn failed(&mut self, by: Text) {
        self.count(by, "error");
    }

    fn count(&mut self, by: Text, result: &'static str) {
        *self.attempts.entry((by, result)).or_default() += 1;
    }

    /// The current metrics; `lengths` are those of the scheduling queue.
    pub fn snapshot(&self, lengths: QueueLengths, gangs: PodGroupMetrics) -> SchedulerMetrics {
        let pending = [
            ("active", lengths.active),
            ("backoff", lengths.backoff),
            ("unschedulable", lengths.unschedulable),
            ("incomplete", lengths.held),
            ("gated", self.gated.len()),
        ];
        SchedulerMetrics {
            attempts: self.attempts.clone(),
            pending: pending.into_iter().map(|(place, count)| (place, count as u64)).collect(),
            waits: self.waits.clone(),
            gangs,
        }
    }
}
