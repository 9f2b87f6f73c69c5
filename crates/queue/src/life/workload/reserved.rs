//! A Workload with a share: checks, limits, queues that stop, and the moment it may run.

use std::time::Duration;

use muster_api::queue::words::{conditions, messages, reasons};
use muster_api::queue::{RequeueState, State, StopPolicy};
use muster_api::time::Time;

use super::super::admission;
use super::super::blockers::Blocker;
use super::super::checks;
use super::super::draft::{Eviction, Note};
use super::Pass;

const RAN_TOO_LONG: &str = "exceeding the maximum execution time";

impl Pass<'_> {
    /// Lists the checks that are needed. Whoever is admitted passed those that counted then.
    pub(super) fn sync_checks(&mut self) {
        let Some(queue) = self.seen.cluster_queue else { return };
        if self.draft.status.holds(conditions::ADMITTED) {
            return;
        }
        let required = checks::required(queue.facts, self.draft.status.admission.as_ref());
        let listed = checks::synced(&self.draft.status.checks, &required, self.seen.now);
        self.draft.status.checks = listed;
    }

    /// It has its share, and does not have to leave so far.
    pub(super) fn go_on(&mut self) {
        let admitted = self.draft.status.holds(conditions::ADMITTED);
        let leaves = (admitted && self.ran_too_long()) || self.heed_checks() || self.heed_queues(admitted);
        if leaves {
            return;
        }
        if admitted {
            self.watch_pods();
        } else {
            self.admit();
        }
    }

    /// The time it may run is over: it will be deactivated.
    fn ran_too_long(&mut self) -> bool {
        let admitted = self.draft.find(conditions::ADMITTED).and_then(|it| it.since);
        let (Some(limit), Some(since)) = (self.seen.workload.max_exec_secs, admitted) else { return false };
        let before = self.draft.status.accumulated_secs.unwrap_or(0);
        let left = Duration::from_secs(limit.saturating_sub(before).into());
        if !self.is_due(since + left) {
            return false;
        }
        self.draft.set(conditions::DEACTIVATION_TARGET, true, reasons::MAX_EXEC_EXCEEDED, RAN_TOO_LONG);
        self.draft.status.accumulated_secs = None;
        let words = format!("The maximum execution time ({limit}s) exceeded");
        self.draft.say(Note::warning(reasons::MAX_EXEC_EXCEEDED, &words));
        true
    }

    /// A check refuses for good, or wants another try.
    pub(super) fn heed_checks(&mut self) -> bool {
        if let Some(words) = checks::words(&self.draft.status.checks, State::Rejected) {
            self.draft.set(conditions::DEACTIVATION_TARGET, true, reasons::ADMISSION_CHECK, &words);
            self.draft.say(Note::warning(reasons::CHECK_REJECTED, &format!("Deactivated due to {words}")));
            return true;
        }
        let Some(words) = checks::words(&self.draft.status.checks, State::Retry) else { return false };
        if let Some(at) = checks::retry_at(&self.draft.status.checks) {
            let count = self.draft.status.requeue.and_then(|it| it.count);
            self.draft.status.requeue = Some(RequeueState { count, at: Some(at) });
        }
        let message = format!("Evicted due to {words}");
        self.draft.evict(&Eviction { reason: reasons::ADMISSION_CHECK, cause: "", message: &message });
        true
    }

    /// A queue was stopped or went away: who is admitted leaves only where queues are drained, who waits for checks loses
    /// its share at once, since nothing runs.
    fn heed_queues(&mut self, admitted: bool) -> bool {
        if admitted {
            return self.drain();
        }
        let Some(blocker) = self.lost_queue() else { return false };
        self.draft.unreserve(&blocker);
        true
    }

    fn drain(&mut self) -> bool {
        let drains = |stop: StopPolicy| stop == StopPolicy::HoldAndDrain;
        let (reason, message) = if self.seen.local_queue.is_some_and(|it| drains(it.stop)) {
            (reasons::LOCAL_QUEUE_STOPPED, messages::LOCAL_QUEUE_STOPPED)
        } else if self.seen.cluster_queue.is_some_and(|it| drains(it.facts.stop)) {
            (reasons::CLUSTER_QUEUE_STOPPED, messages::CLUSTER_QUEUE_STOPPED)
        } else {
            return false;
        };
        self.draft.evict(&Eviction { reason, cause: "", message });
        true
    }

    /// Why a share that is not used yet is taken back.
    fn lost_queue(&self) -> Option<Blocker> {
        self.lost_local_queue().or_else(|| self.lost_cluster_queue())
    }

    fn lost_local_queue(&self) -> Option<Blocker> {
        match self.seen.local_queue {
            Some(queue) if queue.deleting => Some(Blocker::local_queue_gone(&queue.name)),
            Some(queue) if queue.stop != StopPolicy::None => Some(Blocker::local_queue_stopped(&queue.name)),
            Some(_) => None,
            None => Some(Blocker::local_queue_gone(&self.seen.workload.queue)),
        }
    }

    fn lost_cluster_queue(&self) -> Option<Blocker> {
        let name = &self.draft.status.admission.as_ref()?.cluster_queue;
        match self.seen.cluster_queue.map(|it| it.facts) {
            Some(queue) if queue.deleting => Some(Blocker::cluster_queue_gone(name)),
            Some(queue) if queue.stop != StopPolicy::None => Some(Blocker::cluster_queue_stopped(name)),
            Some(_) => None,
            None => Some(Blocker::cluster_queue_gone(name)),
        }
    }

    /// All checks agree: it may run.
    fn admit(&mut self) {
        let Some(queue) = self.seen.cluster_queue else { return };
        let required = checks::required(queue.facts, self.draft.status.admission.as_ref());
        let topology = self.draft.status.admission.as_ref().is_some_and(admission::waits_for_places);
        if topology || !checks::all_ready(&self.draft.status.checks, &required) {
            admission::tell_not_admitted(&mut self.draft, topology);
            return;
        }
        let reserved = self.draft.find(conditions::QUOTA_RESERVED).and_then(|it| it.since);
        let waited = reserved.map(|since| self.since(since));
        admission::tell_admitted(&mut self.draft, self.seen.known(), waited.unwrap_or_default(), true);
        // From here on its pods are watched, whether or not anything else happens.
        self.watch_pods();
    }

    fn since(&self, earlier: Time) -> Duration {
        self.seen.now.whole_seconds().since(earlier)
    }
}
