//! What the scheduler counts, for `/metrics`: tries, who waits where, and how long pods waited.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::paths::pod as path;
use muster_api::port::Object;
use muster_api::time::Time;
use muster_api::words::managers;
use muster_api::{kinds, meta};
use muster_scheduler::{Decision, GroupVerdict, Lengths, Outcome, PodKey};
use muster_tree::Text;

use super::steps;
use crate::cache::{Caches, Seen};
use crate::counters::{GroupNumbers, Scheduling, Waits};
use crate::plan::Key;

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Numbers {
    attempts: BTreeMap<(Text, &'static str), u64>,
    waits: Waits,
    /// Pods with gates.
    gated: BTreeSet<PodKey>,
    /// When pods that had gates lost the last one: they wait for a node since then.
    freed: BTreeMap<PodKey, Time>,
}

impl Numbers {
    /// A pod changed.
    pub fn hear(&mut self, seen: &Seen<'_>, now: Time) {
        let has_gates =
            |pod: Option<&Object>| pod.is_some_and(|it| !it.tree.items_at(path::GATES).is_empty());
        let (before, after) = (has_gates(seen.before), has_gates(seen.after));
        if !before && !after && (seen.after.is_some() || self.freed.is_empty()) {
            return;
        }
        let key = (seen.key.namespace.clone(), seen.key.name.clone());
        if after {
            self.gated.insert(key);
        } else {
            self.gated.remove(&key);
            if seen.after.is_some() {
                self.freed.insert(key, now);
            } else {
                self.freed.remove(&key);
            }
        }
    }

    /// Something was decided.
    pub fn decided(&mut self, decision: &Decision, caches: &Caches, now: Time) {
        match &decision.outcome {
            Outcome::Placed(pods) => self.placed(pods, caches, now),
            Outcome::Refused { pods, .. } => {
                pods.iter().for_each(|pod| self.refused(pod, "unschedulable", caches));
            }
            Outcome::Group(it) => {
                let result = match it.verdict {
                    // Whoever was not looked at was not tried.
                    GroupVerdict::Held(_) => return,
                    GroupVerdict::Error(_) => "error",
                    _ => "unschedulable",
                };
                self.placed(&it.placed, caches, now);
                it.refused.iter().for_each(|it| self.refused(&it.pod, result, caches));
            }
        }
    }

    fn placed(&mut self, pods: &[(PodKey, Text)], caches: &Caches, now: Time) {
        for (pod, _) in pods {
            let Some(object) = caches.find(&Key::new(&kinds::PODS, &pod.0, &pod.1)) else { continue };
            self.count(steps::scheduler_of(object), "scheduled");
            let since = self.freed.remove(pod).or_else(|| meta::created(&object.tree));
            self.waits.add(since.map(|since| now.since(since)).unwrap_or_default());
        }
    }

    fn refused(&mut self, pod: &PodKey, result: &'static str, caches: &Caches) {
        let object = caches.find(&Key::new(&kinds::PODS, &pod.0, &pod.1));
        let by = object.map_or_else(|| managers::SCHEDULER.clone(), steps::scheduler_of);
        self.count(by, result);
    }

    /// A decision could not be carried out.
    pub fn failed(&mut self, by: Text) {
        self.count(by, "error");
    }

    fn count(&mut self, by: Text, result: &'static str) {
        *self.attempts.entry((by, result)).or_default() += 1;
    }

    /// All of it; `lengths` are those of the queue.
    pub fn tell(&self, lengths: Lengths, gangs: GroupNumbers) -> Scheduling {
        let pending = [
            ("active", lengths.active),
            ("backoff", lengths.backoff),
            ("unschedulable", lengths.parked),
            ("incomplete", lengths.held),
            ("gated", self.gated.len()),
        ];
        Scheduling {
            attempts: self.attempts.clone(),
            pending: pending.into_iter().map(|(place, count)| (place, count as u64)).collect(),
            waits: self.waits.clone(),
            gangs,
        }
    }
}
