//! What is said of a group in its status, each form in its own words.
//!
//! # Invariants
//!
//! - A group that once had enough pods with nodes says so for ever.
//! - Nothing is written that is there already: [`patch`] answers `None`.

use muster_tree::{Text, Tree, tree};

use super::Origin;
use crate::condition;
use crate::paths::{condition as condition_path, meta as meta_path, pod_group as path};
use crate::time::Time;
use crate::words::{conditions, gang as words, reasons};

/// Status of groups of coscheduling.
mod coscheduling {
    pub const PHASE: &[&str] = &["status", "phase"];
    pub const SCHEDULED: &[&str] = &["status", "scheduled"];
}

/// The queue of a group of Volcano.
const VOLCANO_QUEUE: &[&str] = &["spec", "queue"];
/// Condition of a group of Volcano whose queue nobody looks at.
const QUEUE_IGNORED: &str = "QueueIgnored";
/// Condition of a group of Volcano.
const VOLCANO_SCHEDULED: &str = "Scheduled";

/// What became of a group at its last try.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It was not tried yet.
    #[default]
    None,
    /// Places were found.
    Placed,
    /// It cannot be tried: a pod of it has gates, or something else is the matter with one.
    Held(String),
    /// No places were found, and why.
    Unschedulable(String),
    /// Its pods break a rule of groups.
    Error(String),
    /// Its deadline passed.
    Late(String),
}

/// What there is to say about a group.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// How many pods with nodes are enough, or what is missing to know it, in words.
    pub enough: Result<usize, &'a str>,
    /// Pods of it that may still run.
    pub alive: usize,
    /// Pods of it with a node that have not failed.
    pub placed: usize,
    /// The most that was enough and had nodes at one time, even if nobody came to say so then.
    pub reached: Option<usize>,
    /// What became of it.
    pub verdict: &'a Verdict,
    /// Who evicts it as a whole, if somebody does.
    pub evicted_by: Option<&'a Text>,
}

/// A condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// `status`.
    pub status: &'static str,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

impl Said {
    fn new(status: &'static str, reason: &'static str, message: impl Into<String>) -> Said {
        Said { status, reason, message: message.into() }
    }
}

/// What a form knows to say.
struct Style {
    /// The type of the condition.
    kind: &'static str,
    /// The reason when enough pods have nodes.
    reached: &'static str,
    /// Whether it knows that something is under way, and counts.
    under_way: bool,
    /// The reason of a group that is late.
    late: &'static str,
}

fn style(origin: Origin) -> Style {
    let later = Style {
        kind: words::SCHEDULED,
        reached: reasons::SCHEDULED,
        under_way: false,
        late: reasons::UNSCHEDULABLE,
    };
    match origin {
        Origin::Proposal | Origin::Own => {
            Style { reached: words::MIN_COUNT_SATISFIED, under_way: true, late: words::TIMEOUT, ..later }
        }
        Origin::Released => Style { kind: words::INITIALLY_SCHEDULED, ..later },
        Origin::Volcano => Style { kind: VOLCANO_SCHEDULED, ..later },
        Origin::Earlier | Origin::Coscheduling => later,
    }
}

/// The type of the condition that says whether enough pods have nodes.
#[must_use]
pub fn condition_type(origin: Origin) -> &'static str {
    style(origin).kind
}

/// Whether a group once had enough pods with nodes.
#[must_use]
pub fn is_scheduled(origin: Origin, group: &Tree) -> bool {
    condition::holds(group.items_at(path::CONDITIONS), style(origin).kind)
}

/// What the condition of a group should say; `None` leaves it as it is.
#[must_use]
pub fn said(origin: Origin, group: &Tree, seen: &Seen<'_>) -> Option<Said> {
    let style = style(origin);
    let old = condition::find(group.items_at(path::CONDITIONS), style.kind);
    let was = old.map_or("", |it| it.str_at(condition_path::STATUS));
    let reaches = seen.enough.ok().filter(|enough| seen.placed >= *enough);
    if let Some(enough) = reaches.or(seen.reached.filter(|_| was != "True")) {
        let message = format!("All required pods ({enough}/{enough}) have been assigned to nodes");
        return Some(Said::new("True", style.reached, message));
    }
    if was == "True" {
        return None;
    }
    let said = waiting(&style, seen, was)?;
    (style.under_way || said.status != "Unknown").then_some(said)
}

fn waiting(style: &Style, seen: &Seen<'_>, was: &str) -> Option<Said> {
    let unknown = |reason, message: &str| Some(Said::new("Unknown", reason, message));
    let enough = match seen.enough {
        Err(missing) => return unknown(words::WAITING_FOR_WORKLOAD, missing),
        Ok(enough) => enough,
    };
    if seen.alive < enough {
        // Not how many are there: the status would be written for each that comes.
        let message = format!("waiting until {enough} pods are there");
        return unknown(words::WAITING_FOR_PODS, &message);
    }
    match seen.verdict {
        Verdict::None => None,
        Verdict::Held(why) => unknown(words::WAITING_FOR_PODS, why),
        Verdict::Unschedulable(why) => Some(Said::new("False", reasons::UNSCHEDULABLE, why)),
        Verdict::Error(why) => Some(Said::new("False", reasons::SCHEDULER_ERROR, why)),
        Verdict::Late(why) => Some(Said::new("False", style.late, why)),
        // Who found no place before is told when all is done.
        Verdict::Placed if was == "False" => None,
        Verdict::Placed => unknown(words::IN_PROGRESS, "places were found, pods are on their way to them"),
    }
}

/// A merge patch of the status that says it; `None` when it says so already. Wants a revision guard.
#[must_use]
pub fn patch(origin: Origin, group: &Tree, seen: &Seen<'_>, now: Time) -> Option<Tree> {
    if origin == Origin::Coscheduling {
        return phase_patch(group, seen);
    }
    let old = group.items_at(path::CONDITIONS);
    let mut all = old.to_vec();
    let generation = group.at(meta_path::GENERATION).filter(|_| origin != Origin::Volcano);
    if let Some(said) = said(origin, group, seen) {
        set(&mut all, style(origin).kind, &said, generation, now);
    }
    if let Some(by) = seen.evicted_by.filter(|_| !condition::holds(old, conditions::DISRUPTION_TARGET)) {
        let message = format!("{by}: preempting to accommodate a higher priority pod or group");
        let said = Said::new("True", reasons::PREEMPTION_BY_SCHEDULER, message);
        set(&mut all, conditions::DISRUPTION_TARGET, &said, generation, now);
    }
    if origin == Origin::Volcano && !group.str_at(VOLCANO_QUEUE).is_empty() {
        let said = Said::new("True", QUEUE_IGNORED, "queues of Volcano are not looked at");
        set(&mut all, QUEUE_IGNORED, &said, None, now);
    }
    let mut patch = Tree::Null;
    if all != old {
        patch = patch.with(path::CONDITIONS, Tree::list(all));
    }
    if let Some(count) = count(origin, group, seen) {
        patch = patch.with(path::SCHEDULED, count);
    }
    (!patch.is_null()).then_some(patch)
}

/// The count of pods with nodes, if it is to be written.
fn count(origin: Origin, group: &Tree, seen: &Seen<'_>) -> Option<i64> {
    let count = i64::try_from(seen.placed).unwrap_or(i64::MAX);
    let told = group.int_at(path::SCHEDULED);
    (style(origin).under_way && told.unwrap_or(0) != count).then_some(count)
}

/// Coscheduling has phases and no conditions. Its own controller takes over where pods have nodes.
fn phase_patch(group: &Tree, seen: &Seen<'_>) -> Option<Tree> {
    let was = group.str_at(coscheduling::PHASE);
    if !["", "Pending", "PreScheduling", "Scheduling"].contains(&was) {
        return None;
    }
    let reached = seen.enough.is_ok_and(|enough| seen.placed >= enough);
    let phase = match seen.placed {
        _ if reached => "Scheduled",
        0 if was.is_empty() => "Pending",
        0 => was,
        _ => "Scheduling",
    };
    let count = i64::try_from(seen.placed).unwrap_or(i64::MAX);
    let same = phase == was && group.int_at(coscheduling::SCHEDULED).unwrap_or(0) == count;
    (!same).then(|| tree!({"status": {"phase": phase, "scheduled": count}}))
}

/// Sets a condition: the time of its status stays when only the words change, and nothing changes when it says so
/// already.
fn set(all: &mut Vec<Tree>, kind: &str, said: &Said, generation: Option<&Tree>, now: Time) {
    let old = all.iter().position(|it| it.str_at(condition_path::TYPE) == kind);
    let was = old.map(|at| &all[at]);
    let since = was.filter(|it| it.str_at(condition_path::STATUS) == said.status);
    let since = since.and_then(|it| Time::of(it.at(condition_path::SINCE))).unwrap_or(now);
    let wanted = tree!({"type": kind, "status": said.status, "reason": said.reason, "message": &said.message,
        "lastTransitionTime": since.to_seconds_text()});
    let wanted = wanted.with_option(condition_path::GENERATION, generation.cloned());
    match old {
        Some(at) => all[at] = all[at].merge(&wanted),
        None => all.push(wanted),
    }
}
