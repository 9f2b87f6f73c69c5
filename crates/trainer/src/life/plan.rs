//! What a TrainJob needs next.

use muster_api::event::Severity;
use muster_api::meta;
use muster_api::port::{Cascade, Uid};
use muster_api::time::Time;
use muster_api::train::paths::train_job as path;
use muster_api::train::words::{messages, reasons};
use muster_api::train::{Managed, TrainJobFacts};
use muster_tree::{Text, Tree};

use super::clock::{DeadlineClock, due, expires};
use super::draft::Draft;
use super::objects::{Around, Made, Setting};
use crate::build::BuildError;

/// Everything one decision may look at, read at a single instant.
pub struct Picture<'a> {
    /// The TrainJob.
    pub job: &'a Tree,
    /// The JobSet of its name, whoever owns that.
    pub jobset: Option<&'a Tree>,
    /// What it would be made into; only of those that [`wants_objects`].
    pub made: Option<&'a Result<Made, BuildError>>,
    /// What there is already.
    pub around: &'a dyn Around,
    /// From when on deadlines count.
    pub clock: DeadlineClock,
}

/// Something that is told about a TrainJob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How serious.
    pub severity: Severity,
    /// `reason`.
    pub reason: Text,
    /// `message`.
    pub message: Text,
}

/// One step. A step begins when the one before it was done; what follows a refused one is not done.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Tells an event.
    Note(Note),
    /// Merge patch of the status, over the revision that was seen.
    Write(Tree),
    /// Deletes exactly this JobSet of its name; what it owns goes afterwards.
    DeleteJobSet(Uid),
    /// Deletes exactly the TrainJob that was seen.
    DeleteJob {
        /// When that was due.
        due: Time,
        /// Whether what it owns goes before it or after it.
        cascade: Cascade,
    },
    /// Applies an object as ours, whoever else owns fields of it.
    Apply(Tree),
    /// Looks again at this time.
    LookAgain(Time),
    /// Looks again before long, and less and less often.
    Retry,
}

/// Whether a TrainJob is made into anything: it is ours, has not ended, and does not go.
#[must_use]
pub fn wants_objects(job: &TrainJobFacts) -> bool {
    job.managed == Managed::ByUs
        && !job.deleting
        && !job.status.is_finished()
        && job.runtime.known().is_some()
}

/// Decides what a TrainJob needs next.
#[must_use]
pub fn plan(seen: &Picture<'_>, now: Time) -> Vec<Step> {
    let job = TrainJobFacts::of(seen.job);
    if job.managed == Managed::Elsewhere {
        return Vec::new();
    }
    Pass { seen, set: own(seen.jobset, &job), job: &job, now, steps: Vec::new() }.run()
}

/// The JobSet, if it is this TrainJob's: one of another is neither read nor deleted.
fn own<'a>(set: Option<&'a Tree>, job: &TrainJobFacts) -> Option<&'a Tree> {
    set.filter(|set| meta::controller(set).is_some_and(|owner| owner.uid == job.uid))
}

/// One pass.
struct Pass<'a> {
    seen: &'a Picture<'a>,
    job: &'a TrainJobFacts,
    set: Option<&'a Tree>,
    now: Time,
    steps: Vec<Step>,
}

impl Pass<'_> {
    fn run(mut self) -> Vec<Step> {
        let mut draft = Draft::new(self.job, self.now);
        if self.job.runtime.known().is_none() && !draft.status.is_finished() {
            draft.unsupported(self.job);
        }
        draft.suspend(self.job);
        if let Some(set) = self.set {
            draft.copy(set);
        }
        let deadline = due(self.job, &draft.status, self.seen.clock);
        if deadline.is_some_and(|at| at <= self.now) {
            draft.overdue();
        }
        let applied = self.objects();
        let pending = deadline.filter(|at| *at > self.now);
        let expiry = expires(self.job, &draft.status);
        self.tell(&draft);
        self.sweep(&draft);
        self.expire(expiry);
        let waking = pending.or(expiry.filter(|at| *at > self.now));
        self.steps.extend(waking.map(Step::LookAgain));
        // Last, since a refusal drops what follows: a job that cannot be made still ends and goes in time.
        if !draft.status.is_finished() {
            self.steps.extend(applied.into_iter().map(Step::Apply));
        }
        self.steps
    }

    /// What is to be applied. What is wrong is told first, and keeps nothing else from being done.
    fn objects(&mut self) -> Vec<Tree> {
        if !wants_objects(self.job) {
            return Vec::new();
        }
        let setting = Setting { job: self.job, set: self.seen.jobset, around: self.seen.around };
        let applied = match self.seen.made {
            Some(Ok(made)) => setting.applied(made),
            Some(Err(why)) => Err(why.clone()),
            None => return Vec::new(),
        };
        applied.unwrap_or_else(|why| {
            let message = messages::creation_failed(&why.0);
            let severity = Severity::Warning;
            let note = Note { severity, reason: reasons::CREATION_FAILED.into(), message: message.into() };
            self.steps.extend([Step::Note(note), Step::Retry]);
            Vec::new()
        })
    }

    /// The status, if it differs, and then what it has to say.
    fn tell(&mut self, draft: &Draft) {
        let old = self.seen.job.at(path::STATUS).unwrap_or(&Tree::Null);
        if let Some(patch) = draft.status.patch(old) {
            self.steps.push(Step::Write(patch));
            self.steps.extend(draft.notes.iter().cloned().map(Step::Note));
        }
    }

    /// The JobSet of what ended by its deadline goes; tried until it does.
    fn sweep(&mut self, draft: &Draft) {
        let left = self.set.filter(|set| draft.status.is_overdue() && meta::deleting(set).is_none());
        self.steps.extend(left.map(|set| Step::DeleteJobSet(meta::uid(set))));
    }

    /// What has been finished for long enough goes.
    fn expire(&mut self, at: Option<Time>) {
        let (Some(at), Some(ttl)) = (at.filter(|at| *at <= self.now), self.job.ttl_secs) else { return };
        let message = messages::ttl_expired(ttl).into();
        let note = Note { severity: Severity::Normal, reason: reasons::TTL_EXPIRED.into(), message };
        self.steps.extend([Step::Note(note), Step::DeleteJob { due: at, cascade: self.cascade() }]);
    }

    /// A TrainJob goes after its JobSet, and so after every pod. Where that is gone nothing blocks it: it goes at once, and the
    /// garbage collector takes its ConfigMaps and Secrets.
    fn cascade(&self) -> Cascade {
        if self.set.is_none() { Cascade::Background } else { Cascade::Foreground }
    }
}
