//! Builds the next status of a TrainJob, and the events to emit after the status update.

use muster_api::condition::{self, DesiredCondition};
use muster_api::consts::jobset::conditions as jobset_conditions;
use muster_api::event::EventType;
use muster_api::jobset::JobSetStatus;
use muster_api::paths::{condition as condition_path, jobset};
use muster_api::time::Time;
use muster_api::train::consts::{conditions, messages, reasons};
use muster_api::train::{JobsStatus, TrainJobFacts, TrainJobStatus};
use muster_tree::{Text, Tree};

use super::reconcile::TrainJobEvent;

/// The next status, and its events.
pub(super) struct StatusBuilder {
    pub status: TrainJobStatus,
    pub notes: Vec<TrainJobEvent>,
    now: Time,
}

impl StatusBuilder {
    pub fn new(job: &TrainJobFacts, now: Time) -> StatusBuilder {
        StatusBuilder { status: job.status.clone(), notes: Vec::new(), now }
    }

    /// Sets the Suspended condition. A TrainJob that was never suspended does not get one.
    pub fn suspend(&mut self, job: &TrainJobFacts) {
        let was = self.status.holds(conditions::SUSPENDED);
        let (reason, message) = match (job.suspend, was) {
            (true, _) => (reasons::SUSPENDED, messages::SUSPENDED),
            (false, true) => (reasons::RESUMED, messages::RESUMED),
            (false, false) => return,
        };
        self.set(&DesiredCondition {
            condition_type: conditions::SUSPENDED,
            status: job.suspend,
            reason,
            message,
        });
        if job.suspend != was {
            self.note(EventType::Normal, reason, message);
        }
    }

    /// Fails a TrainJob if the kind or group in its `runtimeRef` is not supported.
    pub fn runtime_not_supported(&mut self, job: &TrainJobFacts) {
        let message = messages::unsupported_runtime(&job.runtime.kind, &job.runtime.group);
        self.fail(reasons::RUNTIME_NOT_SUPPORTED, reasons::FAILED, &message);
    }

    /// Fails a TrainJob that exceeded `activeDeadlineSeconds`.
    pub fn deadline_exceeded(&mut self) {
        let reason = reasons::DEADLINE_EXCEEDED;
        self.fail(reason, reason, messages::DEADLINE_EXCEEDED);
    }

    fn fail(&mut self, reason: &str, event: &str, message: &str) {
        self.set(&DesiredCondition { condition_type: conditions::FAILED, status: true, reason, message });
        self.note(EventType::Warning, event, message);
    }

    /// Copies the status of the JobSet. A TrainJob that exceeded its deadline keeps its own: its JobSet is only
    /// deleted.
    pub fn copy_jobset_status(&mut self, set: &Tree) {
        if self.status.is_overdue() {
            return;
        }
        let reported = JobSetStatus::of(set.at(jobset::STATUS).unwrap_or(&Tree::Null));
        self.status.jobs = reported.jobs.iter().map(JobsStatus::from).collect();
        let ends = [
            (jobset_conditions::COMPLETED, conditions::COMPLETE, EventType::Normal, reasons::COMPLETED),
            (jobset_conditions::FAILED, conditions::FAILED, EventType::Warning, reasons::FAILED),
        ];
        for (theirs, ours, severity, event) in ends {
            let end = condition::find(&reported.conditions, theirs);
            let Some(end) = end.filter(|_| condition::is_true(&reported.conditions, theirs)) else {
                continue;
            };
            // The first terminal condition is final.
            if !self.status.is_finished() {
                // When the JobSet finished, not when that was observed: the TTL counts from it.
                let since = Time::of(end.at(condition_path::SINCE)).unwrap_or(self.now);
                let text = |path: &[&str]| end.text_at(path);
                let (reason, message) = (text(condition_path::REASON), text(condition_path::MESSAGE));
                let wanted = DesiredCondition {
                    condition_type: ours,
                    status: true,
                    reason: &reason,
                    message: &message,
                };
                condition::set(&mut self.status.conditions, &wanted, since);
                self.note(severity, event, &message);
            }
        }
    }

    fn set(&mut self, wanted: &DesiredCondition<'_>) {
        // Times in API objects have whole seconds.
        condition::set(&mut self.status.conditions, wanted, self.now.whole_seconds());
    }

    fn note(&mut self, severity: EventType, reason: &str, message: &str) {
        self.notes.push(TrainJobEvent {
            event_type: severity,
            reason: Text::from(reason),
            message: Text::from(message),
        });
    }
}
