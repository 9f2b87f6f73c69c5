//! Conditions, counts and steps as lines of text, and back.

use muster_api::event::Severity;
use muster_api::time::Time;
use muster_api::train::{JobsStatus, TrainJobStatus};
use muster_trainer::life::{Note, Step};
use muster_tree::{Tree, tree};

/// When all stories begin.
const START: &str = "2026-01-01T00:00:00Z";

/// So many seconds after the start.
pub fn at(secs: f64) -> Time {
    let start = Time::parse(START).expect("a time");
    #[allow(clippy::cast_possible_truncation, reason = "stories are shorter than that")]
    Time(start.0 + (secs * 1_000_000.0) as i64)
}

/// How it is written in lines.
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

/// `node 1 0 0 1 0` as a count: ready, succeeded, failed, active, suspended.
pub fn job(line: &str) -> Tree {
    let mut words = line.split_whitespace();
    let name = words.next().expect("a name");
    let names = ["ready", "succeeded", "failed", "active", "suspended"];
    let counts = names.into_iter().zip(words.map(|word| Tree::from(word.parse::<i64>().expect("a number"))));
    Tree::map(counts).with(&["name"], name)
}

/// What differs between two statuses.
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

pub fn note(it: &Note) -> String {
    let severity = match it.severity {
        Severity::Normal => "normal",
        Severity::Warning => "warning",
    };
    format!("{severity} {} \"{}\"", it.reason, it.message)
}

/// What a step would do, when it is not done.
pub fn refused(step: &Step) -> String {
    let what = match step {
        Step::Write(_) => "write",
        Step::DeleteJobSet(_) => "delete jobset",
        Step::DeleteJob { .. } => "delete job",
        Step::Apply(_) => "apply",
        Step::Note(_) | Step::LookAgain(_) | Step::Retry => "nothing",
    };
    format!("refused {what}")
}
