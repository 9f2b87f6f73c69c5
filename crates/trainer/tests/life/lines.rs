//! Conditions, replicatedJob statuses and steps as lines of text, and back.

use muster_api::event::EventType;
use muster_api::time::Time;
use muster_api::train::{JobsStatus, TrainJobStatus};
use muster_trainer::controller::{TrainJobEvent, TrainJobStep};
use muster_tree::{Tree, tree};

/// The start of all scenarios.
const START: &str = "2026-01-01T00:00:00Z";

/// This many seconds after the start.
pub fn at(secs: f64) -> Time {
    let start = Time::parse(START).expect("a time");
    #[allow(clippy::cast_possible_truncation, reason = "stories are shorter than that")]
    Time(start.0 + (secs * 1_000_000.0) as i64)
}

/// A time as it is written in lines.
pub fn stamp(time: Time) -> String {
    format!("@{}", (time.0 - at(0.0).0) / 1_000_000)
}

/// `Type=True Reason @10 "message"` as a condition.
pub fn condition(line: &str) -> Tree {
    let (head, message) = line.split_once(" \"").unwrap_or((line, ""));
    let (kind, rest) = head.split_once('=').expect("a type and a status");
    let mut words = rest.split_whitespace();
    let [status, reason, since] = [(); 3].map(|()| words.next().expect("status, reason and time"));
    let since = since.strip_prefix('@').and_then(|it| it.parse().ok()).expect("@seconds");
    tree!({"type": kind, "status": status, "reason": reason, "message": message.trim_end_matches('"'),
        "lastTransitionTime": at(since).to_seconds_text()})
}

/// `node 1 0 0 1 0` as a `jobsStatus`: ready, succeeded, failed, active, suspended.
pub fn job(line: &str) -> Tree {
    let mut words = line.split_whitespace();
    let name = words.next().expect("a name");
    let names = ["ready", "succeeded", "failed", "active", "suspended"];
    let counts = names.into_iter().zip(words.map(|word| Tree::from(word.parse::<i64>().expect("a number"))));
    Tree::map(counts).with(&["name"], name)
}

/// The difference between two statuses.
pub fn changes(old: &TrainJobStatus, new: &TrainJobStatus) -> Vec<String> {
    let fresh = new.conditions.iter().filter(|it| !old.conditions.contains(it));
    let mut lines: Vec<String> = fresh.map(condition_line).collect();
    if old.jobs != new.jobs {
        let counts = |it: &JobsStatus| {
            format!("{} {} {} {} {} {}", it.name, it.ready, it.succeeded, it.failed, it.active, it.suspended)
        };
        let all: Vec<String> = new.jobs.iter().map(counts).collect();
        lines.push(format!("jobs {}", all.join(", ")));
    }
    lines
}

fn condition_line(it: &Tree) -> String {
    let [kind, status, reason, message] =
        ["type", "status", "reason", "message"].map(|key| it.str_at(&[key]));
    let since = Time::of(it.get("lastTransitionTime")).map(stamp).unwrap_or_default();
    format!("{kind}={status} {reason} {since} \"{message}\"")
}

pub fn note(it: &TrainJobEvent) -> String {
    let severity = match it.event_type {
        EventType::Normal => "normal",
        EventType::Warning => "warning",
    };
    format!("{severity} {} \"{}\"", it.reason, it.message)
}

/// The line of a rejected step.
pub fn refused(step: &TrainJobStep) -> String {
    let what = match step {
        TrainJobStep::UpdateStatus(_) => "write",
        TrainJobStep::DeleteJobSet(_) => "delete jobset",
        TrainJobStep::DeleteTrainJob { .. } => "delete job",
        TrainJobStep::Apply(_) => "apply",
        TrainJobStep::Event(_) | TrainJobStep::RequeueAt(_) | TrainJobStep::Retry => "nothing",
    };
    format!("refused {what}")
}
