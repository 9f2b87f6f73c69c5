//! What was refused: when it is tried again, and whether that is worth telling.
//!
//! The memory is advisory: after a restart it is empty, so that everything is tried at once and told once more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::Severity;
use muster_api::port::{Refusal, Uid};
use muster_api::time::Time;
use muster_api::train::words::{messages, reasons};
use muster_tree::Text;

use super::plan::Note;

/// The first pause after a refusal, and the longest.
pub const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Different errors of one TrainJob that are remembered; further ones are not told.
pub const ERRORS_MAX: usize = 16;

/// What was refused of each TrainJob.
#[derive(Debug, Clone, Default)]
pub struct Retries {
    all: BTreeMap<Uid, Tried>,
}

#[derive(Debug, Clone, Default)]
struct Tried {
    times: u32,
    told: BTreeSet<Text>,
}

/// What follows from a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// When to try again.
    pub at: Time,
    /// What is told of it.
    pub note: Option<Note>,
}

impl Retries {
    /// The deletion of a TrainJob whose time is over was refused; none when that is as good as done.
    pub fn deletion_refused(&mut self, uid: &Uid, why: &Refusal, now: Time) -> Option<Again> {
        if matches!(why, Refusal::NotFound(_)) {
            self.forget(uid);
            return None;
        }
        let tried = self.all.entry(uid.clone()).or_default();
        let words = Text::from(why.words());
        let is_news = tried.told.len() < ERRORS_MAX && tried.told.insert(words.clone());
        let note = is_news.then(|| Note {
            severity: Severity::Warning,
            reason: reasons::TTL_DELETION_FAILED.into(),
            message: messages::ttl_deletion_failed(&words).into(),
        });
        Some(Again { at: now + pause(tried), note })
    }

    /// Something else about a TrainJob was refused: when it is tried again.
    pub fn refused(&mut self, uid: &Uid, now: Time) -> Time {
        now + pause(self.all.entry(uid.clone()).or_default())
    }

    /// Of how many TrainJobs something is remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// It is done, or the TrainJob is gone.
    pub fn forget(&mut self, uid: &Uid) {
        self.all.remove(uid);
    }
}

/// The next pause: each is twice as long as the one before.
fn pause(tried: &mut Tried) -> Duration {
    let pause = PAUSE.0.saturating_mul(1 << tried.times.min(16)).min(PAUSE.1);
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
        let mut retries = Retries::default();
        let uid: Uid = "u".into();
        let forbidden = Refusal::Forbidden("no".to_owned());
        for (says, why, secs, news) in [
            ("the first", &forbidden, 1, true),
            ("the same again", &forbidden, 2, false),
            ("another", &Refusal::Unknown("lost".to_owned()), 4, true),
            ("the first again", &forbidden, 8, false),
            ("longer", &forbidden, 16, false),
            ("no longer than that", &forbidden, 30, false),
            ("for ever", &forbidden, 30, false),
        ] {
            let again = retries.deletion_refused(&uid, why, at(0)).unwrap();
            assert_eq!((again.at, again.note.is_some()), (at(secs), news), "{says}");
        }
        retries.forget(&uid);
        let again = retries.deletion_refused(&uid, &forbidden, at(0)).unwrap();
        assert_eq!(again.at, at(1), "forgotten");
        let note = again.note.unwrap();
        assert_eq!((note.severity, note.reason.as_str()), (Severity::Warning, "TTLDeletionFailed"));
    }

    #[test]
    fn who_is_gone_already_is_deleted() {
        let mut retries = Retries::default();
        let gone = Refusal::NotFound("trainjobs \"a\" not found".to_owned());
        assert_eq!(retries.deletion_refused(&"u".into(), &gone, at(0)), None);
    }
}
