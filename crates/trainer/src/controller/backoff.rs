//! Backoff after failed requests, and which errors emit an event.
//!
//! The state is advisory: after a restart it is empty, and so every request is retried at once and every error emits
//! one more event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{ApiError, Uid};
use muster_api::event::EventType;
use muster_api::time::Time;
use muster_api::train::consts::{messages, reasons};
use muster_tree::Text;

use super::reconcile::TrainJobEvent;

/// The first and the longest delay.
pub const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Distinct errors of one TrainJob that emit an event; further ones only back off.
pub const ERRORS_MAX: usize = 16;

/// The backoff of each TrainJob with failed requests.
#[derive(Debug, Clone, Default)]
pub struct TrainJobBackoff {
    all: BTreeMap<Uid, Tried>,
}

#[derive(Debug, Clone, Default)]
struct Tried {
    times: u32,
    told: BTreeSet<Text>,
}

/// When to retry, and what to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryDecision {
    /// When to retry the request.
    pub at: Time,
    /// The event to emit, only if the error is new.
    pub note: Option<TrainJobEvent>,
}

impl TrainJobBackoff {
    /// A TTL deletion failed. `None` if the TrainJob no longer exists.
    pub fn deletion_failed(&mut self, uid: &Uid, why: &ApiError, now: Time) -> Option<RetryDecision> {
        if matches!(why, ApiError::NotFound(_)) {
            self.forget(uid);
            return None;
        }
        let tried = self.all.entry(uid.clone()).or_default();
        let words = Text::from(why.message());
        // The set is bounded: errors with a changing text would fill memory and flood events.
        let is_news = tried.told.len() < ERRORS_MAX && tried.told.insert(words.clone());
        let note = is_news.then(|| TrainJobEvent {
            event_type: EventType::Warning,
            reason: reasons::TTL_DELETION_FAILED.into(),
            message: messages::ttl_deletion_failed(&words).into(),
        });
        Some(RetryDecision { at: now + pause(tried), note })
    }

    /// Another request of a TrainJob failed; returns when to retry.
    pub fn requeue_at(&mut self, uid: &Uid, now: Time) -> Time {
        now + pause(self.all.entry(uid.clone()).or_default())
    }

    /// The number of TrainJobs that back off.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Resets the backoff, because the request succeeded or the TrainJob is gone.
    pub fn forget(&mut self, uid: &Uid) {
        self.all.remove(uid);
    }
}

/// The next delay: it doubles up to the maximum.
fn pause(tried: &mut Tried) -> Duration {
    // The exponent is bounded to keep the shift in range; the maximum is reached long before.
    let pause = BACKOFF.0.saturating_mul(1 << tried.times.min(16)).min(BACKOFF.1);
    tried.times += 1;
    pause
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time(secs * 1_000_000)
    }

    #[test]
    fn pauses_double_up_to_half_a_minute_and_each_error_is_told_once() {
        let mut retries = TrainJobBackoff::default();
        let uid: Uid = "u".into();
        let forbidden = ApiError::Forbidden("no".to_owned());
        for (says, why, secs, news) in [
            ("the first", &forbidden, 1, true),
            ("the same again", &forbidden, 2, false),
            ("another", &ApiError::Indeterminate("lost".to_owned()), 4, true),
            ("the first again", &forbidden, 8, false),
            ("longer", &forbidden, 16, false),
            ("no longer than that", &forbidden, 30, false),
            ("for ever", &forbidden, 30, false),
        ] {
            let again = retries.deletion_failed(&uid, why, at(0)).unwrap();
            assert_eq!((again.at, again.note.is_some()), (at(secs), news), "{says}");
        }
        retries.forget(&uid);
        let again = retries.deletion_failed(&uid, &forbidden, at(0)).unwrap();
        assert_eq!(again.at, at(1), "forgotten");
        let note = again.note.unwrap();
        assert_eq!((note.event_type, note.reason.as_str()), (EventType::Warning, "TTLDeletionFailed"));
    }

    #[test]
    fn who_is_gone_already_is_deleted() {
        let mut retries = TrainJobBackoff::default();
        let gone = ApiError::NotFound("trainjobs \"a\" not found".to_owned());
        assert_eq!(retries.deletion_failed(&"u".into(), &gone, at(0)), None);
    }
}
