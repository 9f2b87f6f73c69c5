//! Explains a TrainJob: what it is waiting for, its deadline, and when it is deleted. Pure.
//!
//! # Guarantees
//!
//! - Deadline and TTL are computed by the functions of the controller, so that both agree.
//!
//! # Deliberately absent
//!
//! The configuration of the server, which a client cannot read: the deadline is that of the default configuration.

use std::time::Duration;

use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::consts::{conditions, reasons};
use muster_api::train::{ManagedBy, TrainJobFacts};
use muster_trainer::controller::{DeadlineClock, deadline, ttl_expiry};
use muster_tree::{Tree, tree};

use super::report::{ExplainedState, PendingPod};
use crate::run::format::span;

/// The objects of a TrainJob.
#[derive(Debug)]
pub struct TrainJobContext {
    /// The JobSet that the controller created for the TrainJob.
    pub set: Option<Tree>,
    /// Whether its runtime exists.
    pub runtime: RuntimePresence,
}

/// Whether the runtime of a TrainJob exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimePresence {
    /// The runtime exists, or its snapshot from the first reconciliation of the TrainJob does.
    Present,
    Missing,
}

/// A time relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelativeTime {
    In(Duration),
    Ago(Duration),
}

impl RelativeTime {
    fn of(at: Time, now: Time) -> RelativeTime {
        if at > now { RelativeTime::In(at.since(now)) } else { RelativeTime::Ago(now.since(at)) }
    }

    fn words(self) -> String {
        match self {
            RelativeTime::In(time) => format!("in {}", span(time)),
            RelativeTime::Ago(time) => format!("{} ago", span(time)),
        }
    }

    fn secs(self) -> i64 {
        let secs = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        match self {
            RelativeTime::In(time) => secs(time),
            RelativeTime::Ago(time) => -secs(time),
        }
    }
}

/// A TrainJob at a time.
pub struct TrainJobView<'a> {
    job: TrainJobFacts,
    object: &'a Tree,
    now: Time,
}

impl<'a> TrainJobView<'a> {
    pub fn of(object: &'a Tree, now: Time) -> TrainJobView<'a> {
        TrainJobView { job: TrainJobFacts::of(object), object, now }
    }

    /// The states that take precedence over what a queue reports: finished, managed by another controller, or past the
    /// deadline without having failed.
    pub fn final_state(&self) -> Option<ExplainedState> {
        let status = &self.job.status;
        for (kind, state) in [(conditions::COMPLETE, "Finished"), (conditions::FAILED, "Failed")] {
            if let Some(told) = status.condition(kind).filter(|_| status.holds(kind)) {
                return Some(ExplainedState::from_condition(state, told));
            }
        }
        if self.job.managed_by == ManagedBy::External {
            let message = "spec.managedBy names another controller: it is not reconciled here";
            return Some(ExplainedState::new("Elsewhere", "ManagedElsewhere", message));
        }
        let RelativeTime::Ago(late) =
            RelativeTime::of(self.deadline().filter(|_| !self.job.suspend)?, self.now)
        else {
            return None;
        };
        let message = format!(
            "its deadline was {} ago, and no controller has acted on it: check that the trainer controller runs and may write, \
             and that the clocks agree",
            span(late)
        );
        Some(ExplainedState::new("Overdue", "DeadlineMissed", &message))
    }

    /// The state of a TrainJob that has not finished.
    pub fn state(&self, train: &TrainJobContext, events: &[&Tree], waiting: &[PendingPod]) -> ExplainedState {
        if self.job.suspend {
            let message = match self.job.queued {
                true => "its queue has not resumed it",
                false => "spec.suspend is true, and it is not queued",
            };
            return ExplainedState::new("Suspended", "Suspended", message);
        }
        if train.set.is_some() {
            return match waiting.first() {
                Some(it) => ExplainedState::new("Pending", &it.reason, &it.message),
                None => ExplainedState::new("Running", "", ""),
            };
        }
        let failed = |it: &&&Tree| it.str_at(&["reason"]) == reasons::CREATION_FAILED;
        let last = events.iter().rev().find(failed);
        match (train.runtime, last) {
            (RuntimePresence::Missing, _) => {
                ExplainedState::new("Pending", "RuntimeMissing", &self.missing())
            }
            (_, Some(it)) => ExplainedState::new("Pending", it.str_at(&["reason"]), it.str_at(&["message"])),
            _ => {
                let message =
                    "no controller has created its JobSet yet: check that the trainer controller runs";
                ExplainedState::new("Pending", "NoJobSet", message)
            }
        }
    }

    fn missing(&self) -> String {
        let runtime = &self.job.runtime;
        format!("there is no {} {}: create it, and the TrainJob continues", runtime.kind, runtime.name)
    }

    /// The deadline. A TrainJob that the user suspended is treated as running, to show when it would fail; one that its
    /// queue suspended has no deadline yet.
    fn deadline(&self) -> Option<Time> {
        let running = TrainJobFacts { suspend: false, ..self.job.clone() };
        let counts = !(self.job.suspend && self.job.queued);
        deadline(&running, &self.job.status, DeadlineClock::Auto).filter(|_| counts)
    }

    fn expiry(&self) -> Option<Time> {
        ttl_expiry(&self.job, &self.job.status)
    }

    /// The lines about deadline and TTL.
    pub fn lines(&self) -> Vec<String> {
        if self.job.managed_by == ManagedBy::External {
            return Vec::new();
        }
        [self.deadline_line(), self.deletion_line()].into_iter().flatten().collect()
    }

    fn deadline_line(&self) -> Option<String> {
        let secs = self.job.active_deadline_secs.filter(|_| !self.job.status.is_finished())?;
        let Some(at) = self.deadline() else {
            return Some(format!("  deadline: {secs}s from its start, when its queue admits it"));
        };
        let (away, from) =
            (RelativeTime::of(at, self.now), if self.job.queued { "last start" } else { "creation" });
        let note = match (self.job.suspend, away) {
            (true, RelativeTime::In(_)) => "; time passes while it is suspended, too",
            (true, RelativeTime::Ago(_)) => "; it fails as soon as it is resumed",
            _ => "",
        };
        Some(format!("  deadline: {at}, {}, {secs}s from its {from}{note}", away.words()))
    }

    fn deletion_line(&self) -> Option<String> {
        if let Some(since) = meta::deletion_timestamp(self.object) {
            let names = self.object.items_at(&["metadata", "finalizers"]).iter().filter_map(Tree::as_str);
            let names: Vec<&str> = names.collect();
            let held =
                if names.is_empty() { String::new() } else { format!(", held by {}", names.join(", ")) };
            return Some(format!("  it is being deleted since {since}{held}"));
        }
        let secs = self.job.ttl_secs?;
        let Some(at) = self.expiry() else {
            return Some(format!("  it is deleted {secs}s after its end, with its pods and their logs"));
        };
        let away = RelativeTime::of(at, self.now);
        Some(match away {
            RelativeTime::In(_) => {
                format!("  it is deleted at {at}, {}, with its pods and their logs", away.words())
            }
            RelativeTime::Ago(_) => {
                format!("  it should have been deleted at {at}, {}: see its events", away.words())
            }
        })
    }

    /// Deadline and TTL as data.
    pub fn data(&self) -> Vec<(&'static str, Tree)> {
        let told = |at: Time| tree!({"time": at.to_seconds_text(), "remainingSeconds": RelativeTime::of(at, self.now).secs()});
        let deadline = self.deadline().map(|at| ("deadline", told(at)));
        let expiry = self.expiry().map(|at| ("deletion", told(at)));
        deadline.into_iter().chain(expiry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::WhyReport;
    use super::*;

    const CREATED: &str = "2026-01-01T00:00:00Z";

    #[expect(clippy::needless_pass_by_value, reason = "so that tables read as what they say")]
    fn job(spec: Tree, status: Tree) -> Tree {
        let spec = spec.with(&["runtimeRef", "name"], "torch");
        tree!({"metadata": {"name": "train", "namespace": "team", "creationTimestamp": CREATED},
            "spec": spec, "status": status})
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Tree {
        tree!({"type": kind, "status": status, "reason": reason, "message": "words", "lastTransitionTime": "2026-01-01T00:01:00Z"})
    }

    fn found(object: Tree, set: bool, runtime: RuntimePresence) -> WhyReport {
        let set = set.then(|| tree!({"metadata": {"name": "train"}}));
        let now = Time::parse("2026-01-01T00:02:00Z").unwrap();
        WhyReport {
            what: "TrainJob",
            object,
            train: Some(TrainJobContext { set, runtime }),
            now,
            ..WhyReport::default()
        }
    }

    fn both() -> Tree {
        tree!({"activeDeadlineSeconds": 7200, "ttlSecondsAfterFinished": 3600})
    }

    /// Shows: 2899-52.
    #[test]
    fn a_missed_deadline_shows() {
        let late = job(tree!({"activeDeadlineSeconds": 110}), tree!({}));
        let found = found(late, true, RuntimePresence::Present);
        let lines = found.lines();
        assert_eq!(lines[0], "TrainJob team/train: Overdue");
        assert!(
            lines[1].starts_with("  DeadlineMissed: its deadline was 10s ago, and no controller has acted"),
            "{lines:?}"
        );
        assert_eq!(lines[2], "  deadline: 2026-01-01T00:01:50Z, 10s ago, 110s from its creation");
        let data = found.data();
        assert_eq!(data.str_at(&["state"]), "Overdue");
        assert_eq!(data.int_at(&["deadline", "remainingSeconds"]), Some(-10));
    }

    #[test]
    fn what_it_waits_for() {
        let (there, missing) = (RuntimePresence::Present, RuntimePresence::Missing);
        let suspended = tree!({"suspend": true});
        let queued = job(suspended.clone(), tree!({}))
            .with(&["metadata", "labels", "kueue.x-k8s.io/queue-name"], "main");
        for (says, found, want) in [
            ("it runs", found(job(tree!({}), tree!({})), true, there), ["TrainJob team/train: Running", ""]),
            (
                "suspended by hand",
                found(job(suspended, tree!({})), true, there),
                ["TrainJob team/train: Suspended", "  Suspended: spec.suspend is true, and it is not queued"],
            ),
            (
                "suspended by a queue that says nothing",
                found(queued, true, there),
                ["TrainJob team/train: Suspended", "  Suspended: its queue has not resumed it"],
            ),
            (
                "no runtime",
                found(job(tree!({}), tree!({})), false, missing),
                [
                    "TrainJob team/train: Pending",
                    "  RuntimeMissing: there is no ClusterTrainingRuntime torch: create it, and the TrainJob continues",
                ],
            ),
            (
                "managed elsewhere",
                found(job(tree!({"managedBy": "kueue.x-k8s.io/multikueue"}), tree!({})), false, there),
                [
                    "TrainJob team/train: Elsewhere",
                    "  ManagedElsewhere: spec.managedBy names another controller: it is not reconciled here",
                ],
            ),
            (
                "nothing happened",
                found(job(tree!({}), tree!({})), false, there),
                [
                    "TrainJob team/train: Pending",
                    "  NoJobSet: no controller has created its JobSet yet: check that the trainer controller runs",
                ],
            ),
        ] {
            let lines = found.lines();
            assert_eq!(lines[0], want[0], "{says}");
            assert_eq!(lines.get(1).map_or("", String::as_str), want[1], "{says}");
        }
    }

    #[test]
    fn why_its_jobset_cannot_be_made_is_the_last_event() {
        let event = |message: &str, at: &str| {
            tree!({"type": "Warning", "reason": "TrainJobResourcesCreationFailed", "message": message,
                "involvedObject": {"kind": "TrainJob"}, "lastTimestamp": at})
        };
        let events = vec![event("new", "2026-01-01T00:01:58Z"), event("old", "2026-01-01T00:01:00Z")];
        let found = WhyReport { events, ..found(job(tree!({}), tree!({})), false, RuntimePresence::Present) };
        let lines = found.lines();
        assert_eq!(lines[1], "  TrainJobResourcesCreationFailed: new");
        assert_eq!(lines.last().unwrap(), "    2s ago TrainJob TrainJobResourcesCreationFailed: new");
    }

    #[test]
    fn deadlines_and_times_to_live_are_told() {
        let queue = |job: Tree| job.with(&["metadata", "labels", "kueue.x-k8s.io/queue-name"], "main");
        let suspended = both().with(&["suspend"], true);
        let late = tree!({"activeDeadlineSeconds": 60, "suspend": true});
        let resumed = tree!({"conditions": [(condition("Suspended", "False", "Resumed"))]});
        let ended = |kind: &str| tree!({"conditions": [(condition(kind, "True", "R"))]});
        let leaves = "  it is deleted 3600s after its end, with its pods and their logs";
        for (says, job, want) in [
            (
                "it runs",
                job(both(), tree!({})),
                vec!["  deadline: 2026-01-01T02:00:00Z, in 1h 58m, 7200s from its creation", leaves],
            ),
            (
                "suspended",
                job(suspended.clone(), tree!({})),
                vec![
                    "  deadline: 2026-01-01T02:00:00Z, in 1h 58m, 7200s from its creation; time passes while it is suspended, too",
                    leaves,
                ],
            ),
            (
                "suspended for too long",
                job(late, tree!({})),
                vec![
                    "  deadline: 2026-01-01T00:01:00Z, 1m 00s ago, 60s from its creation; it fails as soon as it is resumed",
                ],
            ),
            (
                "in a queue",
                queue(job(suspended, tree!({}))),
                vec!["  deadline: 7200s from its start, when its queue admits it", leaves],
            ),
            (
                "admitted by a queue",
                queue(job(both(), resumed)),
                vec!["  deadline: 2026-01-01T02:01:00Z, in 1h 59m, 7200s from its last start", leaves],
            ),
            (
                "it ended",
                job(both(), ended("Complete")),
                vec!["  it is deleted at 2026-01-01T01:01:00Z, in 59m 00s, with its pods and their logs"],
            ),
            (
                "it should have gone",
                job(tree!({"ttlSecondsAfterFinished": 20}), ended("Failed")),
                vec!["  it should have been deleted at 2026-01-01T00:01:20Z, 40s ago: see its events"],
            ),
            (
                "it goes",
                job(both(), ended("Failed"))
                    .with(&["metadata", "deletionTimestamp"], "2026-01-01T00:01:30Z")
                    .with(&["metadata", "finalizers"], tree!(["a.dev/b"])),
                vec!["  it is being deleted since 2026-01-01T00:01:30Z, held by a.dev/b"],
            ),
            ("neither", job(tree!({}), tree!({})), vec![]),
        ] {
            let now = Time::parse("2026-01-01T00:02:00Z").unwrap();
            assert_eq!(TrainJobView::of(&job, now).lines(), want, "{says}");
        }
    }

    #[test]
    fn how_it_ended_is_told_whatever_its_queue_says() {
        let failed = job(both(), tree!({"conditions": [(condition("Failed", "True", "DeadlineExceeded"))]}));
        let told =
            tree!({"state": "Finished", "reason": "JobFinished", "message": "m", "text": ["JobFinished: m"]});
        let found = WhyReport { explanation: Some(told), ..found(failed, true, RuntimePresence::Present) };
        let lines = found.lines();
        assert_eq!(lines[..2], ["TrainJob team/train: Failed", "  DeadlineExceeded: words"]);
        assert!(lines.contains(&"  JobFinished: m".to_owned()), "{lines:?}");
        assert_eq!(found.data().str_at(&["reason"]), "DeadlineExceeded");
        assert_eq!(found.data().str_at(&["deletion", "time"]), "2026-01-01T01:01:00Z");
    }
}
