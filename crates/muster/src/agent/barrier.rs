//! The barrier of one pod: decides what the agent does for each state of the JobSet. Pure.

use muster_api::consts::jobset::NO_IN_PLACE;
use muster_api::jobset::{JobSetFacts, RestartStrategy};
use muster_api::meta;
use muster_tree::Tree;

/// A step of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierAction {
    /// Write this in-place restart attempt into the annotation of the pod.
    Announce(u32),
    /// Lift the barrier: start the worker, or let the startup probe pass.
    Lift,
    /// Exit, so that the kubelet restarts the container.
    Restart,
}

/// The barrier of one pod.
#[derive(Debug, Default)]
pub struct Barrier {
    /// The attempt of this pod, once it was announced.
    attempt: Option<u32>,
    is_lifted: bool,
}

impl Barrier {
    /// The steps for a state of the JobSet, in order.
    pub fn observe(&mut self, set: &Tree) -> Vec<BarrierAction> {
        let facts = JobSetFacts::of(set);
        // Without in-place restarts there is nothing to wait for; the worker must start nevertheless.
        if meta::annotation(set, NO_IN_PLACE).is_some() || facts.strategy() != RestartStrategy::InPlace {
            return self.lift().into_iter().collect();
        }
        let status = &facts.status;
        let mut orders = Vec::new();
        // The attempt is fixed at the first observation: a restarted container joins the attempt after the current one.
        let attempt = *self.attempt.get_or_insert_with(|| {
            let attempt = status.in_place_current.map_or(0, |current| current + 1);
            orders.push(BarrierAction::Announce(attempt));
            attempt
        });
        if status.in_place_previous.is_some_and(|previous| attempt <= previous) {
            orders.push(BarrierAction::Restart);
        } else if status.in_place_current == Some(attempt) {
            orders.extend(self.lift());
        }
        orders
    }

    fn lift(&mut self) -> Option<BarrierAction> {
        (!std::mem::replace(&mut self.is_lifted, true)).then_some(BarrierAction::Lift)
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn set(previous: Option<u32>, current: Option<u32>) -> Tree {
        let number = |n: Option<u32>| n.map(Tree::from);
        tree!({"metadata": {"name": "s"}, "spec": {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}})
            .with_option(&["status", "previousInPlaceRestartAttempt"], number(previous))
            .with_option(&["status", "currentInPlaceRestartAttempt"], number(current))
    }

    #[test]
    fn lives_of_a_pod() {
        use BarrierAction::{Announce, Lift, Restart};
        let other = set(None, None).with(&["spec", "failurePolicy", "restartStrategy"], "Recreate");
        let disabled = set(None, None).with(&["metadata", "annotations", NO_IN_PLACE], "");
        let cases = [
            (
                "the first start",
                vec![set(None, None), set(None, None), set(None, Some(0)), set(None, Some(0))],
                vec![vec![Announce(0)], vec![], vec![Lift], vec![]],
            ),
            (
                "another failed while it waits",
                vec![set(None, None), set(Some(0), None)],
                vec![vec![Announce(0)], vec![Restart]],
            ),
            (
                "another failed while it works",
                vec![set(None, None), set(None, Some(0)), set(Some(0), Some(0))],
                vec![vec![Announce(0)], vec![Lift], vec![Restart]],
            ),
            (
                "it failed itself",
                vec![set(None, Some(0)), set(Some(0), Some(0)), set(Some(0), Some(1))],
                vec![vec![Announce(1)], vec![], vec![Lift]],
            ),
            ("it comes late", vec![set(Some(3), Some(2))], vec![vec![Announce(3), Restart]]),
            ("no restarts in place", vec![other.clone(), other], vec![vec![Lift], vec![]]),
            ("switched off", vec![disabled], vec![vec![Lift]]),
        ];
        for (says, states, want) in cases {
            let mut barrier = Barrier::default();
            let found: Vec<Vec<BarrierAction>> = states.iter().map(|state| barrier.observe(state)).collect();
            assert_eq!(found, want, "{says}");
        }
    }
}
