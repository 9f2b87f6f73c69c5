//! Pods that do not get ready in time: their Workload has to leave, and comes back after a pause, or never.

use std::time::Duration;

use muster_api::port::Uid;
use muster_api::queue::RequeueState;
use muster_api::queue::words::{conditions, reasons};
use muster_api::time::Time;

use super::super::draft::Eviction;
use super::super::settings::ReadyRules;
use super::Pass;

const TOO_MANY_RETRIES: &str = "exceeding the maximum number of re-queuing retries";
/// By how much at most a pause is longer than it should be, in parts of a million: those who left together do not come
/// back together.
const JITTER_PPM: u64 = 100;

impl Pass<'_> {
    /// Looks whether the pods of an admitted Workload are ready in time.
    pub(super) fn watch_pods(&mut self) {
        let Some(rules) = self.seen.settings.ready.as_ref() else { return };
        let Some((cause, deadline)) = self.deadline(rules) else { return };
        if !self.is_due(deadline) {
            return;
        }
        let tries = self.draft.status.requeue.and_then(|it| it.count).unwrap_or(0).saturating_add(1);
        if rules.backoff_limit.is_some_and(|limit| tries > limit) {
            let kind = conditions::DEACTIVATION_TARGET;
            self.draft.set(kind, true, reasons::REQUEUING_LIMIT_EXCEEDED, TOO_MANY_RETRIES);
            return;
        }
        let it = self.seen.workload;
        let at = self.seen.now + pause(rules, tries, &it.uid);
        self.draft.status.requeue = Some(RequeueState { count: Some(tries), at: Some(at.whole_seconds()) });
        let message = format!("Exceeded the PodsReady timeout {}/{}", it.namespace, it.name);
        self.draft.evict(&Eviction { reason: reasons::PODS_READY_TIMEOUT, cause, message: &message });
    }

    /// Until when the pods have time, and for what.
    fn deadline(&self, rules: &ReadyRules) -> Option<(&'static str, Time)> {
        let since = |kind: &str| self.draft.find(kind).and_then(|it| it.since);
        match self.draft.find(conditions::PODS_READY) {
            Some(it) if it.holds => None,
            Some(it) if it.reason == reasons::WAIT_FOR_RECOVERY => {
                let at = it.since? + rules.recovery_timeout?;
                Some((reasons::WAIT_FOR_RECOVERY, at))
            }
            Some(_) | None => Some((reasons::WAIT_FOR_START, since(conditions::ADMITTED)? + rules.timeout)),
        }
    }
}

/// How long a Workload stays away after its try of this number, from 1: twice as long each time, up to a limit.
fn pause(rules: &ReadyRules, tries: u32, uid: &Uid) -> Duration {
    let doubled = 1_u32.checked_shl(tries.saturating_sub(1)).filter(|_| tries <= u32::BITS);
    let whole = doubled.and_then(|times| rules.backoff_base.checked_mul(times)).unwrap_or(rules.backoff_max);
    let whole = whole.min(rules.backoff_max);
    let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
    let share = spread(uid, tries) % (JITTER_PPM + 1);
    whole + Duration::from_micros(micros / 1_000_000 * share)
}

/// A number that looks like chance and is the same for the same Workload and try.
fn spread(uid: &Uid, tries: u32) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = uid.bytes().chain(tries.to_le_bytes());
    bytes.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_differ_a_little() {
        let rules = ReadyRules::default();
        let uid: Uid = "u".into();
        for (tries, want) in [(1, 60), (2, 120), (3, 240), (6, 1920), (7, 3600), (40, 3600), (u32::MAX, 3600)]
        {
            let got = pause(&rules, tries, &uid);
            let least = Duration::from_secs(want);
            assert!(got >= least && got <= least + least / 10_000, "{tries}: {got:?}");
        }
        let several: std::collections::BTreeSet<Duration> =
            (0..100).map(|n| pause(&rules, 7, &Uid::from(format!("u{n}")))).collect();
        assert!(several.len() > 10, "they do not all come back at once");
    }
}
