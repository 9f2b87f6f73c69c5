//! The next status of a TrainJob, and what is told of it once it is written.

use muster_api::condition::{self, Wanted};
use muster_api::event::Severity;
use muster_api::jobset::JobSetStatus;
use muster_api::paths::{condition as condition_path, jobset};
use muster_api::time::Time;
use muster_api::train::words::{conditions, messages, reasons};
use muster_api::train::{JobsStatus, TrainJobFacts, TrainJobStatus};
use muster_api::words::jobset::conditions as jobset_conditions;
use muster_tree::{Text, Tree};

use super::plan::Note;

/// A status in the making.
pub(super) struct Draft {
    pub status: TrainJobStatus,
    pub notes: Vec<Note>,
    now: Time,
}

impl Draft {
    pub fn new(job: &TrainJobFacts, now: Time) -> Draft {
        Draft { status: job.status.clone(), notes: Vec::new(), now }
    }

    /// Whether it is suspended; who never was does not tell.
    pub fn suspend(&mut self, job: &TrainJobFacts) {
        let was = self.status.holds(conditions::SUSPENDED);
        let (reason, message) = match (job.suspend, was) {
            (true, _) => (reasons::SUSPENDED, messages::SUSPENDED),
            (false, true) => (reasons::RESUMED, messages::RESUMED),
            (false, false) => return,
        };
        self.set(&Wanted { kind: conditions::SUSPENDED, holds: job.suspend, reason, message });
        if job.suspend != was {
            self.note(Severity::Normal, reason, message);
        }
    }

    /// Nobody knows its runtime.
    pub fn unsupported(&mut self, job: &TrainJobFacts) {
        let message = messages::unsupported_runtime(&job.runtime.kind, &job.runtime.group);
        self.fail(reasons::RUNTIME_NOT_SUPPORTED, reasons::FAILED, &message);
    }

    /// It was active for too long.
    pub fn overdue(&mut self) {
        let reason = reasons::DEADLINE_EXCEEDED;
        self.fail(reason, reason, messages::DEADLINE_EXCEEDED);
    }

    fn fail(&mut self, reason: &str, event: &str, message: &str) {
        self.set(&Wanted { kind: conditions::FAILED, holds: true, reason, message });
        self.note(Severity::Warning, event, message);
    }

    /// What its JobSet reports. What ended by its deadline stays as it was: its JobSet only goes.
    pub fn copy(&mut self, set: &Tree) {
        if self.status.is_overdue() {
            return;
        }
        let reported = JobSetStatus::of(set.at(jobset::STATUS).unwrap_or(&Tree::Null));
        self.status.jobs = reported.jobs.iter().map(JobsStatus::from).collect();
        let ends = [
            (jobset_conditions::COMPLETED, conditions::COMPLETE, Severity::Normal, reasons::COMPLETED),
            (jobset_conditions::FAILED, conditions::FAILED, Severity::Warning, reasons::FAILED),
        ];
        for (theirs, ours, severity, event) in ends {
            let end = condition::find(&reported.conditions, theirs);
            let Some(end) = end.filter(|_| condition::holds(&reported.conditions, theirs)) else { continue };
            if !self.status.is_finished() {
                let since = Time::of(end.at(condition_path::SINCE)).unwrap_or(self.now);
                let text = |path: &[&str]| end.text_at(path);
                let (reason, message) = (text(condition_path::REASON), text(condition_path::MESSAGE));
                let wanted = Wanted { kind: ours, holds: true, reason: &reason, message: &message };
                condition::set(&mut self.status.conditions, &wanted, since);
                self.note(severity, event, &message);
            }
        }
    }

    fn set(&mut self, wanted: &Wanted<'_>) {
        condition::set(&mut self.status.conditions, wanted, self.now.whole_seconds());
    }

    fn note(&mut self, severity: Severity, reason: &str, message: &str) {
        self.notes.push(Note { severity, reason: Text::from(reason), message: Text::from(message) });
    }
}
