//! The active deadline of a TrainJob, and its TTL after it finished.

use std::time::Duration;

use muster_api::condition;
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_api::train::consts::conditions;
use muster_api::train::{TrainJobFacts, TrainJobStatus};
use muster_tree::Tree;

/// What `activeDeadlineSeconds` counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadlineClock {
    /// The creation; for queued TrainJobs the last start, because waiting for quota is not running.
    #[default]
    Auto,
    /// The creation, also if the TrainJob was suspended since.
    Creation,
    /// The last start: a resumed TrainJob has the full time again.
    Active,
}

impl DeadlineClock {
    /// Parses the value of the configuration key.
    #[must_use]
    pub fn of(word: &str) -> Option<DeadlineClock> {
        match word {
            "auto" => Some(DeadlineClock::Auto),
            "creation" => Some(DeadlineClock::Creation),
            "active" => Some(DeadlineClock::Active),
            _ => None,
        }
    }

    fn counts_from_start(self, job: &TrainJobFacts) -> bool {
        match self {
            DeadlineClock::Auto => job.queued,
            DeadlineClock::Creation => false,
            DeadlineClock::Active => true,
        }
    }
}

/// When a TrainJob with this status exceeds `activeDeadlineSeconds`; `None` if it has no deadline, is suspended or
/// finished, or its start is not known yet.
#[must_use]
pub fn deadline(job: &TrainJobFacts, status: &TrainJobStatus, clock: DeadlineClock) -> Option<Time> {
    let secs = job.active_deadline_secs.filter(|_| !job.suspend && !status.is_finished())?;
    let since = if clock.counts_from_start(job) { last_started(status, job.created) } else { job.created };
    Some(since? + Duration::from_secs(secs))
}

/// The last start: the creation, unless it was suspended since. `None` while the Suspended condition is true: the
/// start is the time at which that condition becomes false.
pub(super) fn last_started(status: &TrainJobStatus, created: Option<Time>) -> Option<Time> {
    let Some(suspended) = status.condition(conditions::SUSPENDED) else { return created };
    match suspended.str_at(path::STATUS) {
        it if it == condition::status_text(true) => None,
        it if it == condition::status_text(false) => {
            Time::of(suspended.at(path::SINCE).filter(|it| !Tree::is_null(it))).or(created)
        }
        _ => created,
    }
}

/// When the TTL of a finished TrainJob expires; `None` if it has no TTL or is already being deleted.
#[must_use]
pub fn ttl_expiry(job: &TrainJobFacts, status: &TrainJobStatus) -> Option<Time> {
    let secs = job.ttl_secs.filter(|_| !job.deleting)?;
    Some(status.finished_at()? + Duration::from_secs(secs.into()))
}
