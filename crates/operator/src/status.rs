//! The operator's runtime status, shared by the probes, the metrics and the debug dump.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_control::driver::{Inspector, RuntimeHealth};
use muster_control::queueing::visibility_query::VisibilityHandle;
use tokio::time::Instant;

use crate::webhooks::WebhookMetrics;

/// Liveness bound: the controller loop iterates every few seconds even when nothing happens, and the longest iteration ever
/// measured applied an initial list of all objects.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// The leader election role of this replica.
#[derive(Clone, Default)]
pub enum Role {
    /// Another replica holds the Lease, or none does yet.
    #[default]
    Standby,
    /// This replica holds the Lease; its controllers are inspected here.
    Leader(Inspector),
}

/// Whether this replica has to answer admission reviews, and can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum WebhookReadiness {
    /// No webhooks are served here now: readiness does not depend on them.
    #[default]
    NotServed,
    /// Webhooks are to be served, and there is no certificate or registration yet.
    NotReady,
    Ready,
}

/// The iteration count of the controller loop when a probe saw it change last.
#[derive(Debug, Clone, Copy)]
struct LastIteration {
    iterations: u64,
    since: Instant,
}

#[derive(Default)]
pub struct OperatorStatus {
    role: Mutex<Role>,
    webhooks: Mutex<WebhookReadiness>,
    last_iteration: Mutex<Option<LastIteration>>,
    /// Request counts and latencies of the webhooks.
    pub webhook_metrics: Arc<WebhookMetrics>,
    /// Sends visibility queries to the queue controller; closed while this replica is a standby.
    pub desk: VisibilityHandle,
}

impl OperatorStatus {
    /// Sets the role and forgets the last iteration, which belonged to another controller loop.
    pub fn set_role(&self, role: Role) {
        *lock(&self.last_iteration) = None;
        *lock(&self.role) = role;
    }

    /// Webhooks are served here: `/readyz` reports whether they are ready.
    pub fn set_webhooks_ready(&self, can: bool) {
        *lock(&self.webhooks) = if can { WebhookReadiness::Ready } else { WebhookReadiness::NotReady };
    }

    /// Webhooks are no longer served here: another replica does.
    pub fn set_webhooks_not_served(&self) {
        *lock(&self.webhooks) = WebhookReadiness::NotServed;
    }

    /// Health of the controllers; `None` for a standby.
    pub fn health(&self) -> Option<RuntimeHealth> {
        self.inspector().map(|window| window.health())
    }

    /// Whether our scheduler has no pending pods.
    pub fn has_no_pending_pods(&self) -> bool {
        self.health().is_none_or(|it| it.metrics.scheduling.pending.values().all(|count| *count == 0))
    }

    /// The inspector of the controller loop; `None` for a standby.
    pub fn inspector(&self) -> Option<Inspector> {
        match &*lock(&self.role) {
            Role::Standby => None,
            Role::Leader(window) => Some(window.clone()),
        }
    }

    /// Liveness at this instant, or why it fails. A standby is always live.
    pub fn check_healthz(&self, now: Instant) -> Result<(), String> {
        let Some(health) = self.health() else { return Ok(()) };
        if !health.running {
            return Err("the controllers have crashed".to_owned());
        }
        let mut last_iteration = lock(&self.last_iteration);
        let last = last_iteration.filter(|last| last.iterations == health.iterations);
        let last = *last_iteration
            .insert(last.unwrap_or(LastIteration { iterations: health.iterations, since: now }));
        let still = now.saturating_duration_since(last.since);
        // A loop that hangs cannot recover by itself; a failing liveness probe has the kubelet restart the pod.
        if still > STALLED_AFTER {
            return Err(format!("the controllers have made no progress for {} s", still.as_secs()));
        }
        Ok(())
    }

    /// Readiness, or why it fails. It does not depend on the role: every replica behind the Service answers webhooks.
    pub fn check_readyz(&self) -> Result<(), String> {
        match *lock(&self.webhooks) {
            WebhookReadiness::NotServed | WebhookReadiness::Ready => Ok(()),
            WebhookReadiness::NotReady => Err("the webhooks are not ready".to_owned()),
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(health: RuntimeHealth) -> OperatorStatus {
        let state = OperatorStatus::default();
        state.set_role(Role::Leader(Inspector::fixed(health)));
        state
    }

    #[test]
    fn a_stalled_controller_loop_fails_liveness_with_its_duration() {
        let running = |turns| RuntimeHealth { running: true, iterations: turns, ..RuntimeHealth::default() };
        let (state, start) = (leads(running(5)), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        assert_eq!(state.check_healthz(start), Ok(()));
        assert_eq!(state.check_healthz(after(60)), Ok(()));
        let told = state.check_healthz(after(61));
        assert_eq!(told, Err("the controllers have made no progress for 61 s".to_owned()));
        state.set_role(Role::Leader(Inspector::fixed(running(6))));
        assert_eq!(state.check_healthz(after(62)), Ok(()), "it iterated");
        assert!(state.check_healthz(after(200)).is_err());
        state.set_role(Role::Standby);
        assert_eq!(state.check_healthz(after(300)), Ok(()), "a standby has nothing to do");
        assert!(leads(RuntimeHealth::default()).check_healthz(start).unwrap_err().contains("crashed"));
    }

    #[test]
    fn readiness_depends_on_the_webhooks_where_they_are_served() {
        let state = OperatorStatus::default();
        assert_eq!(state.check_readyz(), Ok(()));
        state.set_webhooks_ready(false);
        assert_eq!(state.check_readyz(), Err("the webhooks are not ready".to_owned()));
        state.set_webhooks_ready(true);
        assert_eq!(state.check_readyz(), Ok(()));
        state.set_webhooks_ready(false);
        state.set_webhooks_not_served();
        assert_eq!(state.check_readyz(), Ok(()));
    }
}
