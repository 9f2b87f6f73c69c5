//! The gauge of unadmitted Workloads, by reason: per LocalQueue, and summed up per ClusterQueue.
//!
//! # Guarantees
//!
//! - The sum of a ClusterQueue is that of the LocalQueues that reference it, at any time and in any order of events.
//! - An event of one Workload costs one decrement and one increment; only a LocalQueue that moves costs its reasons.
//! - Entries with a count of zero are removed.

use std::collections::BTreeMap;

use muster_queue::reconcilers::metrics::LocalQueueKey;
use muster_tree::Text;

/// Number of Workloads by reason.
pub(super) type Reasons = BTreeMap<Text, u64>;

/// The number of unadmitted Workloads of all queues.
#[derive(Debug, Default)]
pub(super) struct UnadmittedWorkloads {
    locals: BTreeMap<LocalQueueKey, Reasons>,
    /// The ClusterQueue of each existing LocalQueue.
    places: BTreeMap<LocalQueueKey, Text>,
    queues: BTreeMap<Text, Reasons>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Up(u64),
    Down(u64),
}

impl UnadmittedWorkloads {
    /// A Workload of this LocalQueue is unadmitted for this reason.
    pub fn add(&mut self, local: &LocalQueueKey, reason: &Text) {
        self.step(local, reason, Step::Up(1));
    }

    /// A Workload of this LocalQueue no longer is.
    pub fn remove(&mut self, local: &LocalQueueKey, reason: &Text) {
        self.step(local, reason, Step::Down(1));
    }

    fn step(&mut self, local: &LocalQueueKey, reason: &Text, step: Step) {
        count(&mut self.locals, local, reason, step);
        if let Some(queue) = self.places.get(local) {
            count(&mut self.queues, queue, reason, step);
        }
    }

    /// A LocalQueue references this ClusterQueue from now on; `None` when it is deleted.
    pub fn set_cluster_queue(&mut self, local: &LocalQueueKey, to: Option<&Text>) {
        if self.places.get(local) == to {
            return;
        }
        let from = match to {
            Some(to) => self.places.insert(local.clone(), to.clone()),
            None => self.places.remove(local),
        };
        for (reason, many) in self.locals.get(local).into_iter().flatten() {
            for (queue, step) in [(from.as_ref(), Step::Down(*many)), (to, Step::Up(*many))] {
                if let Some(queue) = queue {
                    count(&mut self.queues, queue, reason, step);
                }
            }
        }
    }

    pub fn of_local(&self, local: &LocalQueueKey) -> Reasons {
        self.locals.get(local).cloned().unwrap_or_default()
    }

    pub fn of_queue(&self, queue: &Text) -> Reasons {
        self.queues.get(queue).cloned().unwrap_or_default()
    }
}

fn count<K: Ord + Clone>(all: &mut BTreeMap<K, Reasons>, of: &K, reason: &Text, step: Step) {
    let reasons = all.entry(of.clone()).or_default();
    let now = reasons.entry(reason.clone()).or_default();
    match step {
        Step::Up(many) => *now += many,
        Step::Down(many) => *now = now.saturating_sub(many),
    }
    if *now == 0 {
        reasons.remove(reason);
    }
    if reasons.is_empty() {
        all.remove(of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(all: &[(&str, u64)]) -> Reasons {
        all.iter().map(|(reason, many)| (Text::from(*reason), *many)).collect()
    }

    #[test]
    fn a_queue_has_what_its_local_queues_have_whoever_comes_first() {
        let [a, b] = ["a", "b"].map(|name| (Text::from("n"), Text::from(name)));
        let [one, two] = ["one", "two"].map(Text::from);
        let [quota, check] = ["WaitingForQuota", "WaitingForCheck"].map(Text::from);
        let mut all = UnadmittedWorkloads::default();
        all.add(&a, &quota);
        assert_eq!(all.of_queue(&one), reasons(&[]), "nobody knows where it is");
        all.set_cluster_queue(&a, Some(&one));
        all.set_cluster_queue(&b, Some(&one));
        all.add(&b, &quota);
        all.add(&b, &check);
        assert_eq!(all.of_queue(&one), reasons(&[("WaitingForCheck", 1), ("WaitingForQuota", 2)]));
        all.set_cluster_queue(&b, Some(&two));
        assert_eq!(all.of_queue(&one), reasons(&[("WaitingForQuota", 1)]));
        assert_eq!(all.of_queue(&two), all.of_local(&b));
        all.set_cluster_queue(&b, None);
        all.remove(&b, &check);
        assert_eq!(all.of_local(&b), reasons(&[("WaitingForQuota", 1)]), "they wait on without it");
        all.remove(&b, &quota);
        all.remove(&a, &quota);
        assert!(all.locals.is_empty() && all.queues.is_empty(), "nothing is kept: {all:?}");
    }
}
