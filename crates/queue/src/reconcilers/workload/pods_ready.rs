//! The `PodsReady` timeout: evicts with an exponential requeue backoff, or deactivates after too many requeues.

use std::time::Duration;

use muster_api::client::Uid;
use muster_api::queue::RequeueState;
use muster_api::queue::consts::{conditions, reasons};
use muster_api::time::Time;

use super::super::settings::PodsReadyPolicy;
use super::super::status_builder::Eviction;
use super::WorkloadReconciliation;

const TOO_MANY_RETRIES: &str = "exceeding the maximum number of re-queuing retries";
/// Maximum jitter of the backoff in parts per million: Workloads evicted together are not requeued at the same
/// instant.
const JITTER_PPM: u64 = 100;

impl WorkloadReconciliation<'_> {
    /// Evicts an admitted Workload without ready pods after the timeout.
    pub(super) fn check_pods_ready_timeout(&mut self) {
        let Some(rules) = self.seen.settings.pods_ready.as_ref() else { return };
        let Some((cause, deadline)) = self.pods_ready_deadline(rules) else { return };
        if !self.is_due(deadline) {
            return;
        }
        let tries = self.builder.status.requeue.and_then(|it| it.count).unwrap_or(0).saturating_add(1);
        // Too many requeues: deactivate instead of another backoff.
        if rules.backoff_limit.is_some_and(|limit| tries > limit) {
            let kind = conditions::DEACTIVATION_TARGET;
            self.builder.set_condition(kind, true, reasons::REQUEUING_LIMIT_EXCEEDED, TOO_MANY_RETRIES);
            return;
        }
        let it = self.seen.workload;
        // Stored with second resolution; the API has no fractions.
        let at = self.seen.now + requeue_backoff(rules, tries, &it.uid);
        self.builder.status.requeue = Some(RequeueState { count: Some(tries), at: Some(at.whole_seconds()) });
        let message = format!("Exceeded the PodsReady timeout {}/{}", it.namespace, it.name);
        self.builder.evict(&Eviction { reason: reasons::PODS_READY_TIMEOUT, cause, message: &message });
    }

    /// The deadline and the eviction's underlying cause.
    fn pods_ready_deadline(&self, rules: &PodsReadyPolicy) -> Option<(&'static str, Time)> {
        let since = |kind: &str| self.builder.condition(kind).and_then(|it| it.since);
        match self.builder.condition(conditions::PODS_READY) {
            Some(it) if it.holds => None,
            Some(it) if it.reason == reasons::WAIT_FOR_RECOVERY => {
                let at = it.since? + rules.recovery_timeout?;
                Some((reasons::WAIT_FOR_RECOVERY, at))
            }
            Some(_) | None => Some((reasons::WAIT_FOR_START, since(conditions::ADMITTED)? + rules.timeout)),
        }
    }
}

/// The requeue backoff after the given attempt, counted from 1: doubles each time up to the maximum.
fn requeue_backoff(rules: &PodsReadyPolicy, tries: u32, uid: &Uid) -> Duration {
    let doubled = 1_u32.checked_shl(tries.saturating_sub(1)).filter(|_| tries <= u32::BITS);
    let whole = doubled.and_then(|times| rules.backoff_base.checked_mul(times)).unwrap_or(rules.backoff_max);
    let whole = whole.min(rules.backoff_max);
    let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
    let share = jitter_hash(uid, tries) % (JITTER_PPM + 1);
    whole + Duration::from_micros(micros / 1_000_000 * share)
}

/// Deterministic jitter (FNV-1a): the same Workload and attempt give the same value.
fn jitter_hash(uid: &Uid, tries: u32) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = uid.bytes().chain(tries.to_le_bytes());
    bytes.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_the_limit_with_jitter() {
        let rules = PodsReadyPolicy::default();
        let uid: Uid = "u".into();
        for (tries, want) in [(1, 60), (2, 120), (3, 240), (6, 1920), (7, 3600), (40, 3600), (u32::MAX, 3600)]
        {
            let got = requeue_backoff(&rules, tries, &uid);
            let least = Duration::from_secs(want);
            assert!(got >= least && got <= least + least / 10_000, "{tries}: {got:?}");
        }
        let several: std::collections::BTreeSet<Duration> =
            (0..100).map(|n| requeue_backoff(&rules, 7, &Uid::from(format!("u{n}")))).collect();
        assert!(several.len() > 10, "they do not all come back at once");
    }
}
