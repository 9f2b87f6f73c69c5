//! How many Workloads are not admitted, by the reason that is told: of each LocalQueue, and summed up for its ClusterQueue.
//!
//! # Invariants
//!
//! - The sum of a ClusterQueue is that of the LocalQueues that name it, at any time and in any order of news.
//! - News of one Workload costs one step up and one down; only a LocalQueue that moves costs its reasons.
//! - Nothing is kept of what is zero.

use std::collections::BTreeMap;

use muster_queue::life::numbers::LocalName;
use muster_tree::Text;

/// Counts by reason.
pub(super) type Reasons = BTreeMap<Text, u64>;

/// The counts of all queues.
#[derive(Debug, Default)]
pub(super) struct Unadmitted {
    locals: BTreeMap<LocalName, Reasons>,
    /// The ClusterQueue of each LocalQueue that is there.
    places: BTreeMap<LocalName, Text>,
    queues: BTreeMap<Text, Reasons>,
}

/// In which direction something is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Up(u64),
    Down(u64),
}

impl Unadmitted {
    /// A Workload waits for this reason in this LocalQueue.
    pub fn enter(&mut self, local: &LocalName, reason: &Text) {
        self.step(local, reason, Step::Up(1));
    }

    /// It does so no more.
    pub fn leave(&mut self, local: &LocalName, reason: &Text) {
        self.step(local, reason, Step::Down(1));
    }

    fn step(&mut self, local: &LocalName, reason: &Text, step: Step) {
        count(&mut self.locals, local, reason, step);
        if let Some(queue) = self.places.get(local) {
            count(&mut self.queues, queue, reason, step);
        }
    }

    /// A LocalQueue belongs to this ClusterQueue from now on, or is gone.
    pub fn moved(&mut self, local: &LocalName, to: Option<&Text>) {
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

    /// Those of a LocalQueue.
    pub fn of_local(&self, local: &LocalName) -> Reasons {
        self.locals.get(local).cloned().unwrap_or_default()
    }

    /// Those of a ClusterQueue.
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
        let mut all = Unadmitted::default();
        all.enter(&a, &quota);
        assert_eq!(all.of_queue(&one), reasons(&[]), "nobody knows where it is");
        all.moved(&a, Some(&one));
        all.moved(&b, Some(&one));
        all.enter(&b, &quota);
        all.enter(&b, &check);
        assert_eq!(all.of_queue(&one), reasons(&[("WaitingForCheck", 1), ("WaitingForQuota", 2)]));
        all.moved(&b, Some(&two));
        assert_eq!(all.of_queue(&one), reasons(&[("WaitingForQuota", 1)]));
        assert_eq!(all.of_queue(&two), all.of_local(&b));
        all.moved(&b, None);
        all.leave(&b, &check);
        assert_eq!(all.of_local(&b), reasons(&[("WaitingForQuota", 1)]), "they wait on without it");
        all.leave(&b, &quota);
        all.leave(&a, &quota);
        assert!(all.locals.is_empty() && all.queues.is_empty(), "nothing is kept: {all:?}");
    }
}
