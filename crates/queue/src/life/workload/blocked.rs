//! What stands in the way of a Workload without quota, apart from quota.

use std::time::Duration;

use muster_api::queue::StopPolicy;
use muster_api::queue::words::conditions;

use super::super::blockers::{Blocker, Why};
use super::super::steps;
use super::Pass;

/// How long nothing is said of a Workload that was not looked at yet: mostly it is looked at within that time, and a
/// write is saved.
pub const EVALUATION_GRACE: Duration = Duration::from_secs(1);

impl Pass<'_> {
    /// Says what is in the way, or that nothing is any more.
    pub(super) fn say_what_blocks(&mut self) {
        match self.blockers().into_iter().min() {
            Some(worst) if self.is_told(&worst) => (),
            Some(worst) => self.draft.block(&worst),
            None => self.say_nothing_blocks(),
        }
    }

    /// Everything in the way.
    fn blockers(&self) -> Vec<Blocker> {
        let it = self.seen.workload;
        let mut all = Vec::new();
        match self.seen.local_queue {
            None => all.push(Blocker::no_local_queue(&it.queue)),
            Some(queue) if queue.stop != StopPolicy::None => {
                all.push(Blocker::local_queue_inactive(&queue.name));
            }
            Some(_) => (),
        }
        if let Some(name) = self.seen.local_queue.map(|it| &it.cluster_queue) {
            match self.seen.cluster_queue {
                None => all.push(Blocker::no_cluster_queue(name)),
                Some(queue) if !queue.active => all.push(Blocker::cluster_queue_inactive(name)),
                Some(_) => (),
            }
        }
        let gates = steps::gates(it);
        if !gates.is_empty() {
            all.push(Blocker::gated(&gates));
        }
        all
    }

    /// Whether the same is told in other words: a share was taken back because its queue was stopped, and it still is.
    fn is_told(&self, blocker: &Blocker) -> bool {
        let Some(told) = self.draft.find(conditions::QUOTA_RESERVED) else { return false };
        let stopped = blocker.message.replace(" is inactive", " is stopped");
        let reason = blocker.why.reason(self.draft.at.wording);
        blocker.why == Why::Suspended && told.reason == reason && told.message.as_str() == stopped
    }

    /// What the engine said stays; what was found here is over.
    fn say_nothing_blocks(&mut self) {
        match self.draft.find(conditions::QUOTA_RESERVED).map(|it| it.message.clone()) {
            Some(message) if Blocker::is_found_here(&message) => {
                self.draft.block(&Blocker::not_evaluated());
            }
            Some(_) => (),
            None => {
                let made = self.seen.workload.created.unwrap_or(self.seen.now);
                if self.is_due(made + EVALUATION_GRACE) {
                    self.draft.block(&Blocker::not_evaluated());
                }
            }
        }
    }
}
