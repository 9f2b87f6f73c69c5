//! The status of a PodGroup, in the conditions and fields that its API defines.
//!
//! # Guarantees
//!
//! - The scheduled condition never goes back from `True`.
//! - [`patch`] returns `None` if the status is up to date.

use muster_tree::{Text, Tree, tree};

use super::PodGroupApi;
use crate::condition;
use crate::consts::{conditions, gang as consts, reasons};
use crate::paths::{condition as condition_path, meta as meta_path, pod_group as path};
use crate::time::Time;

/// Status paths of coscheduling.
mod coscheduling {
    pub const PHASE: &[&str] = &["status", "phase"];
    pub const SCHEDULED: &[&str] = &["status", "scheduled"];
}

/// Queue of a Volcano PodGroup.
const VOLCANO_QUEUE: &[&str] = &["spec", "queue"];
/// Condition of a Volcano PodGroup that names a queue: Volcano's queues are not implemented.
const QUEUE_IGNORED: &str = "QueueIgnored";
/// The scheduled condition of a Volcano PodGroup.
const VOLCANO_SCHEDULED: &str = "Scheduled";

/// The result of the last scheduling attempt of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SchedulingResult {
    /// No scheduling attempt yet.
    #[default]
    None,
    /// Nodes were chosen for the required pods.
    Scheduled,
    /// Not attempted: a pod has scheduling gates or another precondition fails.
    Gated(String),
    /// No nodes were found, with the reason.
    Unschedulable(String),
    /// The pods violate a rule of groups.
    Error(String),
    /// The scheduling timeout passed.
    TimedOut(String),
}

/// The state of a group, as input of its status.
#[derive(Debug, Clone, Copy)]
pub struct GroupObservation<'a> {
    /// Number of pods that have to be bound, or the missing reference.
    pub required: Result<usize, &'a str>,
    /// Pods that are not terminal.
    pub alive: usize,
    /// Bound pods that have not failed.
    pub scheduled: usize,
    /// `required`, if that many pods were bound at one time, even before the status was written.
    pub scheduled_max: Option<usize>,
    /// Result of the last attempt.
    pub result: &'a SchedulingResult,
    /// The component that evicts the group as a whole.
    pub evicted_by: Option<&'a Text>,
}

/// A condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionContent {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// CamelCase word for programs.
    pub reason: &'static str,
    /// Sentence for people; may be empty.
    pub message: String,
}

impl ConditionContent {
    fn new(status: &'static str, reason: &'static str, message: impl Into<String>) -> ConditionContent {
        ConditionContent { status, reason, message: message.into() }
    }
}

/// What the status of one API can express.
struct ApiDialect {
    /// Type of the scheduled condition.
    kind: &'static str,
    /// Reason when enough pods are bound.
    reached: &'static str,
    /// The API has a progress state (`Unknown`) and counts bound pods.
    under_way: bool,
    /// Reason after the scheduling timeout.
    late: &'static str,
}

fn dialect(origin: PodGroupApi) -> ApiDialect {
    let later = ApiDialect {
        kind: consts::SCHEDULED,
        reached: reasons::SCHEDULED,
        under_way: false,
        late: reasons::UNSCHEDULABLE,
    };
    match origin {
        PodGroupApi::Proposal | PodGroupApi::Own => ApiDialect {
            reached: consts::MIN_COUNT_SATISFIED,
            under_way: true,
            late: consts::TIMEOUT,
            ..later
        },
        PodGroupApi::Released => ApiDialect { kind: consts::INITIALLY_SCHEDULED, ..later },
        PodGroupApi::Volcano => ApiDialect { kind: VOLCANO_SCHEDULED, ..later },
        PodGroupApi::Earlier | PodGroupApi::Coscheduling => later,
    }
}

/// Type of the scheduled condition in this API.
#[must_use]
pub fn condition_type(origin: PodGroupApi) -> &'static str {
    dialect(origin).kind
}

/// Returns whether the scheduled condition of a PodGroup is `True`.
#[must_use]
pub fn is_scheduled(origin: PodGroupApi, group: &Tree) -> bool {
    condition::is_true(group.items_at(path::CONDITIONS), dialect(origin).kind)
}

/// The scheduled condition that a PodGroup should have; `None` leaves the stored one.
#[must_use]
pub fn desired_condition(
    origin: PodGroupApi,
    group: &Tree,
    seen: &GroupObservation<'_>,
) -> Option<ConditionContent> {
    let style = dialect(origin);
    let old = condition::find(group.items_at(path::CONDITIONS), style.kind);
    let was = old.map_or("", |it| it.str_at(condition_path::STATUS));
    let reaches = seen.required.ok().filter(|enough| seen.scheduled >= *enough);
    if let Some(enough) = reaches.or(seen.scheduled_max.filter(|_| was != "True")) {
        let message = format!("All required pods ({enough}/{enough}) have been assigned to nodes");
        return Some(ConditionContent::new("True", style.reached, message));
    }
    if was == "True" {
        return None;
    }
    let said = waiting(&style, seen, was)?;
    (style.under_way || said.status != "Unknown").then_some(said)
}

fn waiting(style: &ApiDialect, seen: &GroupObservation<'_>, was: &str) -> Option<ConditionContent> {
    let unknown = |reason, message: &str| Some(ConditionContent::new("Unknown", reason, message));
    let enough = match seen.required {
        Err(missing) => return unknown(consts::WAITING_FOR_WORKLOAD, missing),
        Ok(enough) => enough,
    };
    if seen.alive < enough {
        // Without the current count: otherwise each created pod would cost a status update.
        let message = format!("waiting until {enough} pods are there");
        return unknown(consts::WAITING_FOR_PODS, &message);
    }
    match seen.result {
        SchedulingResult::None => None,
        SchedulingResult::Gated(why) => unknown(consts::WAITING_FOR_PODS, why),
        SchedulingResult::Unschedulable(why) => {
            Some(ConditionContent::new("False", reasons::UNSCHEDULABLE, why))
        }
        SchedulingResult::Error(why) => Some(ConditionContent::new("False", reasons::SCHEDULER_ERROR, why)),
        SchedulingResult::TimedOut(why) => Some(ConditionContent::new("False", style.late, why)),
        // After a failed attempt the condition stays False until all pods are bound: one status update less.
        SchedulingResult::Scheduled if was == "False" => None,
        SchedulingResult::Scheduled => {
            unknown(consts::IN_PROGRESS, "places were found, pods are on their way to them")
        }
    }
}

/// A merge patch of the status, or `None` if it is up to date; needs a resource version precondition.
#[must_use]
pub fn patch(origin: PodGroupApi, group: &Tree, seen: &GroupObservation<'_>, now: Time) -> Option<Tree> {
    if origin == PodGroupApi::Coscheduling {
        return phase_patch(group, seen);
    }
    let old = group.items_at(path::CONDITIONS);
    let mut all = old.to_vec();
    let generation = group.at(meta_path::GENERATION).filter(|_| origin != PodGroupApi::Volcano);
    if let Some(said) = desired_condition(origin, group, seen) {
        set(&mut all, dialect(origin).kind, &said, generation, now);
    }
    if let Some(by) = seen.evicted_by.filter(|_| !condition::is_true(old, conditions::DISRUPTION_TARGET)) {
        let message = format!("{by}: preempting to accommodate a higher priority pod or group");
        let said = ConditionContent::new("True", reasons::PREEMPTION_BY_SCHEDULER, message);
        set(&mut all, conditions::DISRUPTION_TARGET, &said, generation, now);
    }
    if origin == PodGroupApi::Volcano && !group.str_at(VOLCANO_QUEUE).is_empty() {
        let said = ConditionContent::new("True", QUEUE_IGNORED, "queues of Volcano are not looked at");
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

/// The number of bound pods, if the stored one differs.
fn count(origin: PodGroupApi, group: &Tree, seen: &GroupObservation<'_>) -> Option<i64> {
    let count = i64::try_from(seen.scheduled).unwrap_or(i64::MAX);
    let told = group.int_at(path::SCHEDULED);
    (dialect(origin).under_way && told.unwrap_or(0) != count).then_some(count)
}

/// Coscheduling has phases instead of conditions; its own controller sets the later phases.
fn phase_patch(group: &Tree, seen: &GroupObservation<'_>) -> Option<Tree> {
    let was = group.str_at(coscheduling::PHASE);
    if !["", "Pending", "PreScheduling", "Scheduling"].contains(&was) {
        return None;
    }
    let reached = seen.required.is_ok_and(|enough| seen.scheduled >= enough);
    let phase = match seen.scheduled {
        _ if reached => "Scheduled",
        0 if was.is_empty() => "Pending",
        0 => was,
        _ => "Scheduling",
    };
    let count = i64::try_from(seen.scheduled).unwrap_or(i64::MAX);
    let same = phase == was && group.int_at(coscheduling::SCHEDULED).unwrap_or(0) == count;
    (!same).then(|| tree!({"status": {"phase": phase, "scheduled": count}}))
}

/// Sets a condition; its transition time changes only with its status.
fn set(all: &mut Vec<Tree>, kind: &str, said: &ConditionContent, generation: Option<&Tree>, now: Time) {
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
