//! Formats statuses and actions as lines, and parses them.

use muster_api::event::EventType;
use muster_api::queue::{AdmissionCheckState, AdmissionStatus, Condition, amount_text};
use muster_api::time::Time;
use muster_queue::reconcilers::WorkloadEvent;
use muster_queue::reconcilers::metrics::MetricEvent;
use muster_tree::{Tree, tree};

const START: &str = "2026-01-01T00:00:00Z";

pub fn at(secs: i64) -> Time {
    let start = Time::parse(START).expect("a time");
    Time(start.0 + secs * 1_000_000)
}

pub fn stamp(time: Time) -> String {
    format!("@{}", (time.0 - at(0).0) / 1_000_000)
}

/// `Type=True Reason @10 "message"` as a condition.
pub fn condition_tree(line: &str) -> Tree {
    let (head, message) = line.split_once(" \"").unwrap_or((line, ""));
    let (kind, rest) = head.split_once('=').expect("a type and a status");
    let mut words = rest.split_whitespace();
    let [status, reason, since] = [(); 3].map(|()| words.next().expect("status, reason and time"));
    tree!({"type": kind, "status": status, "reason": reason, "message": message.trim_end_matches('"'),
        "lastTransitionTime": time_of(since).to_seconds_text(), "observedGeneration": 1})
}

/// `name=Ready @10 "message" after 30 retries 1` as a check state.
pub fn check_tree(line: &str) -> Tree {
    let (head, rest) = line.split_once(" \"").unwrap_or((line, "\""));
    let (message, tail) = rest.split_once('"').expect("an end of the message");
    let (name, words) = head.split_once('=').expect("a name and a state");
    let (state, since) = words.split_once(' ').expect("a state and a time");
    let mut check = tree!({"name": name, "state": state, "message": message,
        "lastTransitionTime": time_of(since).to_seconds_text()});
    let tail: Vec<&str> = tail.split_whitespace().collect();
    for pair in tail.chunks(2) {
        let key = match pair[0] {
            "after" => "requeueAfterSeconds",
            "retries" => "retryCount",
            other => panic!("{other}?"),
        };
        check = check.with(&[key], pair[1].parse::<i64>().expect("a number"));
    }
    check
}

fn time_of(word: &str) -> Time {
    at(word.trim().strip_prefix('@').and_then(|it| it.parse().ok()).expect("@seconds"))
}

fn condition_line(it: &Condition) -> String {
    let status = if it.holds { "True" } else { "False" };
    let since = it.since.map(stamp).unwrap_or_default();
    format!("{}={status} {} {since} \"{}\"", it.kind, it.reason, it.message)
}

fn check_line(it: &AdmissionCheckState) -> String {
    let since = it.since.map(stamp).unwrap_or_default();
    let mut line = format!("check {}={} {since} \"{}\"", it.name, it.state.word(), it.message);
    if let Some(n) = it.requeue_after_secs {
        line += &format!(" after {n}");
    }
    if let Some(n) = it.retries {
        line += &format!(" retries {n}");
    }
    line
}

/// The differences between two statuses.
pub fn changes(old: &AdmissionStatus, new: &AdmissionStatus) -> Vec<String> {
    let mut out = Vec::new();
    let words = |all: &[Condition]| all.iter().map(condition_line).collect::<Vec<_>>();
    let before = words(&old.conditions);
    out.extend(words(&new.conditions).into_iter().filter(|it| !before.contains(it)));
    let gone = |kind: &str| !new.conditions.iter().any(|it| it.kind == kind);
    out.extend(old.conditions.iter().filter(|it| gone(&it.kind)).map(|it| format!("-{}", it.kind)));
    if old.admission != new.admission {
        let flavors = |it: &muster_api::queue::PodSetAssignment| format!("{}={:?}", it.name, it.flavors);
        out.push(match &new.admission {
            None => "admission: none".to_owned(),
            Some(it) => {
                let sets: Vec<String> = it.assignments.iter().map(flavors).collect();
                format!("admission: {} {}", it.cluster_queue, sets.join(" "))
            }
        });
    }
    if old.requeue != new.requeue {
        out.push(match new.requeue {
            None => "requeue: none".to_owned(),
            Some(it) => {
                let count = it.count.map_or("-".to_owned(), |n| n.to_string());
                format!("requeue: count {count} at {}", it.at.map_or("-".to_owned(), stamp))
            }
        });
    }
    out.extend(new.checks.iter().filter(|it| !old.checks.contains(it)).map(check_line));
    let listed = |name: &str| new.checks.iter().any(|it| it.name == name);
    out.extend(old.checks.iter().filter(|it| !listed(&it.name)).map(|it| format!("-check {}", it.name)));
    if old.requests != new.requests {
        let one = |(set, amounts): &(muster_tree::Text, muster_api::queue::Amounts)| {
            let all: Vec<String> =
                amounts.iter().map(|(name, n)| format!("{name}={}", amount_text(name, *n))).collect();
            format!("{set} {}", all.join(","))
        };
        out.push(format!("requests: {}", new.requests.iter().map(one).collect::<Vec<_>>().join("; ")));
    }
    if old.accumulated_secs != new.accumulated_secs {
        out.push(format!("accumulated: {:?}", new.accumulated_secs));
    }
    for it in new.evictions.iter().filter(|it| !old.evictions.contains(it)) {
        out.push(format!("evictions: {}/{} {}", it.reason, it.cause, it.count));
    }
    if (&old.nominated_clusters, &old.cluster) != (&new.nominated_clusters, &new.cluster) {
        out.push(format!("clusters: {:?} {:?}", new.nominated_clusters, new.cluster));
    }
    out
}

pub fn note_line(note: &WorkloadEvent) -> String {
    let severity = match note.severity {
        EventType::Normal => "normal",
        EventType::Warning => "warning",
    };
    format!("{severity} {} \"{}\"", note.reason, note.message)
}

pub fn count_line(happened: &MetricEvent) -> String {
    match happened {
        MetricEvent::AdmissionAttempt { result, .. } => format!("count attempt {result:?}"),
        MetricEvent::Reserved { queues, waited } => {
            format!("count reserved {} {}s", queues.cluster, waited.as_secs())
        }
        MetricEvent::Admitted { queues, waited, checks } => {
            let checks = checks.map_or("-".to_owned(), |it| format!("{}s", it.as_secs()));
            format!("count admitted {} {}s checks {checks}", queues.cluster, waited.as_secs())
        }
        MetricEvent::Evicted { queues, reason, cause } => {
            format!("count evicted {} {reason}/{cause}", queues.cluster)
        }
        MetricEvent::Preempted { by, reason } => format!("count preempted by {by} {reason}"),
        MetricEvent::Finished { queues } => format!("count finished {}", queues.cluster),
        MetricEvent::Ungated { .. } | MetricEvent::WorkloadCreated { .. } => "count other".to_owned(),
    }
}
