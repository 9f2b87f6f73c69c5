//! When a TrainJob has been active for too long, and when it has been finished for long enough.

use std::time::Duration;

use muster_api::condition;
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_api::train::words::conditions;
use muster_api::train::{TrainJobFacts, TrainJobStatus};
use muster_tree::Tree;

/// From when on the deadline counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadlineClock {
    /// From the creation; for jobs in queues from their last start, since waiting there is not running.
    #[default]
    Auto,
    /// From the creation, whatever happens since.
    Creation,
    /// From the last start: whoever is resumed has the whole time again.
    Active,
}

impl DeadlineClock {
    /// The one of this word of the configuration.
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

/// When a TrainJob with this status has been active for too long; none when nothing is counted: it has no deadline, is
/// suspended, has ended, or is not told to have started.
#[must_use]
pub fn due(job: &TrainJobFacts, status: &TrainJobStatus, clock: DeadlineClock) -> Option<Time> {
    let secs = job.deadline_secs.filter(|_| !job.suspend && !status.is_finished())?;
    let since = if clock.counts_from_start(job) { started(status, job.created) } else { job.created };
    Some(since? + Duration::from_secs(secs))
}

/// When it was last started: when it was created, unless it was suspended. None while its status still tells that it is:
/// when it starts is not known before that is written.
pub(super) fn started(status: &TrainJobStatus, created: Option<Time>) -> Option<Time> {
    let Some(suspended) = status.condition(conditions::SUSPENDED) else { return created };
    match suspended.str_at(path::STATUS) {
        it if it == condition::word(true) => None,
        it if it == condition::word(false) => {
            Time::of(suspended.at(path::SINCE).filter(|it| !Tree::is_null(it))).or(created)
        }
        _ => created,
    }
}

/// When a finished TrainJob with this status is to go; none when it stays, or goes already.
#[must_use]
pub fn expires(job: &TrainJobFacts, status: &TrainJobStatus) -> Option<Time> {
    let secs = job.ttl_secs.filter(|_| !job.deleting)?;
    Some(status.finished_at()? + Duration::from_secs(secs.into()))
}
