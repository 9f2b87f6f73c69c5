//! What a TrainJob waits for, by when it has to end, and when it goes. Pure.
//!
//! # Invariants
//!
//! - Times are those of the object and the rules of the controller, so that both say the same.
//!
//! # Deliberately absent
//!
//! How the server is configured: deadlines are counted as they are where nothing is configured.

use std::time::Duration;

use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::words::{conditions, reasons};
use muster_api::train::{Managed, TrainJobFacts};
use muster_trainer::life::{DeadlineClock, due, expires};
use muster_tree::{Tree, tree};

use super::tell::{Verdict, Waiting};
use crate::run::words::span;

/// What is known of a TrainJob beside itself.
#[derive(Debug)]
pub struct Train {
    /// The JobSet that was made for it.
    pub set: Option<Tree>,
    /// What it is made of.
    pub runtime: Runtime,
}

/// What a TrainJob is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// It is there, or was kept when the TrainJob first met it.
    There,
    /// It is not.
    Missing,
}

/// An instant to come, or one that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Away {
    In(Duration),
    Ago(Duration),
}

impl Away {
    fn of(at: Time, now: Time) -> Away {
        if at > now { Away::In(at.since(now)) } else { Away::Ago(now.since(at)) }
    }

    fn words(self) -> String {
        match self {
            Away::In(time) => format!("in {}", span(time)),
            Away::Ago(time) => format!("{} ago", span(time)),
        }
    }

    fn secs(self) -> i64 {
        let secs = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        match self {
            Away::In(time) => secs(time),
            Away::Ago(time) => -secs(time),
        }
    }
}

/// A TrainJob at an instant.
pub struct Sight<'a> {
    job: TrainJobFacts,
    object: &'a Tree,
    now: Time,
}

impl<'a> Sight<'a> {
    /// Of this TrainJob, now.
    pub fn of(object: &'a Tree, now: Time) -> Sight<'a> {
        Sight { job: TrainJobFacts::of(object), object, now }
    }

    /// What is certain whatever a queue says: its end, and a deadline that nobody acted on.
    pub fn settled(&self) -> Option<Verdict> {
        let status = &self.job.status;
        for (kind, state) in [(conditions::COMPLETE, "Finished"), (conditions::FAILED, "Failed")] {
            if let Some(told) = status.condition(kind).filter(|_| status.holds(kind)) {
                return Some(Verdict::told(state, told));
            }
        }
        if self.job.managed == Managed::Elsewhere {
            let message = "spec.managedBy names somebody else: nothing is done about it here";
            return Some(Verdict::new("Elsewhere", "ManagedElsewhere", message));
        }
        let Away::Ago(late) = Away::of(self.deadline().filter(|_| !self.job.suspend)?, self.now) else {
            return None;
        };
        let message = format!(
            "its deadline was {} ago, and nobody has acted on it: does the trainer controller run, may it write, \
             are clocks in step?",
            span(late)
        );
        Some(Verdict::new("Overdue", "DeadlineMissed", &message))
    }

    /// What it waits for.
    pub fn verdict(&self, train: &Train, events: &[&Tree], waiting: &[Waiting]) -> Verdict {
        if self.job.suspend {
            let message = match self.job.queued {
                true => "its queue has not resumed it",
                false => "spec.suspend is true, and no queue has it",
            };
            return Verdict::new("Suspended", "Suspended", message);
        }
        if train.set.is_some() {
            return match waiting.first() {
                Some(it) => Verdict::new("Pending", &it.reason, &it.message),
                None => Verdict::new("Running", "", ""),
            };
        }
        let failed = |it: &&&Tree| it.str_at(&["reason"]) == reasons::CREATION_FAILED;
        let last = events.iter().rev().find(failed);
        match (train.runtime, last) {
            (Runtime::Missing, _) => Verdict::new("Pending", "RuntimeMissing", &self.missing()),
            (_, Some(it)) => Verdict::new("Pending", it.str_at(&["reason"]), it.str_at(&["message"])),
            _ => {
                let message = "nobody has made a JobSet of it yet: does the trainer controller run?";
                Verdict::new("Pending", "NoJobSet", message)
            }
        }
    }

    fn missing(&self) -> String {
        let runtime = &self.job.runtime;
        format!("there is no {} {}: make it, and the TrainJob goes on by itself", runtime.kind, runtime.name)
    }

    /// By when it has to end; also of what is suspended, as if it were not.
    fn deadline(&self) -> Option<Time> {
        let running = TrainJobFacts { suspend: false, ..self.job.clone() };
        let counts = !(self.job.suspend && self.job.queued);
        due(&running, &self.job.status, DeadlineClock::Auto).filter(|_| counts)
    }

    fn expiry(&self) -> Option<Time> {
        expires(&self.job, &self.job.status)
    }

    /// What is to be said of deadline and time to live.
    pub fn lines(&self) -> Vec<String> {
        if self.job.managed == Managed::Elsewhere {
            return Vec::new();
        }
        [self.deadline_line(), self.leaving_line()].into_iter().flatten().collect()
    }

    fn deadline_line(&self) -> Option<String> {
        let secs = self.job.deadline_secs.filter(|_| !self.job.status.is_finished())?;
        let Some(at) = self.deadline() else {
            return Some(format!("  deadline: {secs}s from its start, which its queue gives it"));
        };
        let (away, from) = (Away::of(at, self.now), if self.job.queued { "last start" } else { "creation" });
        let note = match (self.job.suspend, away) {
            (true, Away::In(_)) => "; time passes while it is suspended, too",
            (true, Away::Ago(_)) => "; it fails as soon as it is resumed",
            _ => "",
        };
        Some(format!("  deadline: {at}, {}, {secs}s from its {from}{note}", away.words()))
    }

    fn leaving_line(&self) -> Option<String> {
        if let Some(since) = meta::deleting(self.object) {
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
        let away = Away::of(at, self.now);
        Some(match away {
            Away::In(_) => format!("  it is deleted at {at}, {}, with its pods and their logs", away.words()),
            Away::Ago(_) => {
                format!("  it should have been deleted at {at}, {}: see its events", away.words())
            }
        })
    }

    /// The same for programs.
    pub fn data(&self) -> Vec<(&'static str, Tree)> {
        let told = |at: Time| tree!({"time": at.to_seconds_text(), "remainingSeconds": Away::of(at, self.now).secs()});
        let deadline = self.deadline().map(|at| ("deadline", told(at)));
        let expiry = self.expiry().map(|at| ("deletion", told(at)));
        deadline.into_iter().chain(expiry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tell::Found;
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

    fn found(object: Tree, set: bool, runtime: Runtime) -> Found {
        let set = set.then(|| tree!({"metadata": {"name": "train"}}));
        let now = Time::parse("2026-01-01T00:02:00Z").unwrap();
        Found { what: "TrainJob", object, train: Some(Train { set, runtime }), now, ..Found::default() }
    }

    fn both() -> Tree {
        tree!({"activeDeadlineSeconds": 7200, "ttlSecondsAfterFinished": 3600})
    }

    /// Shows: 2899-52.
    #[test]
    fn a_missed_deadline_shows() {
        let late = job(tree!({"activeDeadlineSeconds": 110}), tree!({}));
        let found = found(late, true, Runtime::There);
        let lines = found.lines();
        assert_eq!(lines[0], "TrainJob team/train: Overdue");
        assert!(
            lines[1].starts_with("  DeadlineMissed: its deadline was 10s ago, and nobody has acted"),
            "{lines:?}"
        );
        assert_eq!(lines[2], "  deadline: 2026-01-01T00:01:50Z, 10s ago, 110s from its creation");
        let data = found.data();
        assert_eq!(data.str_at(&["state"]), "Overdue");
        assert_eq!(data.int_at(&["deadline", "remainingSeconds"]), Some(-10));
    }

    #[test]
    fn what_it_waits_for() {
        let (there, missing) = (Runtime::There, Runtime::Missing);
        let suspended = tree!({"suspend": true});
        let queued = job(suspended.clone(), tree!({}))
            .with(&["metadata", "labels", "kueue.x-k8s.io/queue-name"], "main");
        for (says, found, want) in [
            ("it runs", found(job(tree!({}), tree!({})), true, there), ["TrainJob team/train: Running", ""]),
            (
                "suspended by hand",
                found(job(suspended, tree!({})), true, there),
                ["TrainJob team/train: Suspended", "  Suspended: spec.suspend is true, and no queue has it"],
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
                    "  RuntimeMissing: there is no ClusterTrainingRuntime torch: make it, and the TrainJob goes on by itself",
                ],
            ),
            (
                "managed elsewhere",
                found(job(tree!({"managedBy": "kueue.x-k8s.io/multikueue"}), tree!({})), false, there),
                [
                    "TrainJob team/train: Elsewhere",
                    "  ManagedElsewhere: spec.managedBy names somebody else: nothing is done about it here",
                ],
            ),
            (
                "nothing happened",
                found(job(tree!({}), tree!({})), false, there),
                [
                    "TrainJob team/train: Pending",
                    "  NoJobSet: nobody has made a JobSet of it yet: does the trainer controller run?",
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
        let found = Found { events, ..found(job(tree!({}), tree!({})), false, Runtime::There) };
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
                vec!["  deadline: 7200s from its start, which its queue gives it", leaves],
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
            assert_eq!(Sight::of(&job, now).lines(), want, "{says}");
        }
    }

    #[test]
    fn how_it_ended_is_told_whatever_its_queue_says() {
        let failed = job(both(), tree!({"conditions": [(condition("Failed", "True", "DeadlineExceeded"))]}));
        let told =
            tree!({"state": "Finished", "reason": "JobFinished", "message": "m", "text": ["JobFinished: m"]});
        let found = Found { explanation: Some(told), ..found(failed, true, Runtime::There) };
        let lines = found.lines();
        assert_eq!(lines[..2], ["TrainJob team/train: Failed", "  DeadlineExceeded: words"]);
        assert!(lines.contains(&"  JobFinished: m".to_owned()), "{lines:?}");
        assert_eq!(found.data().str_at(&["reason"]), "DeadlineExceeded");
        assert_eq!(found.data().str_at(&["deletion", "time"]), "2026-01-01T01:01:00Z");
    }
}
