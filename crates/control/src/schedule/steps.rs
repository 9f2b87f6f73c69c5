//! The calls and notes that carry out what the scheduler decided.

use muster_api::condition::{self, Wanted};
use muster_api::event::{About, Event, Severity};
use muster_api::paths::{condition as condition_path, pod as path};
use muster_api::pod;
use muster_api::port::{Act, Call, Cascade, Guard, Object, Part};
use muster_api::time::Time;
use muster_api::words::{conditions, gang, managers, reasons};
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::plan::{Plan, Step};

/// What a gated pod's condition says.
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";
/// What a victim's condition says after the scheduler's name.
const MAKING_ROOM: &str = "preempting to accommodate a higher priority pod";

/// Gives a pod its node.
pub fn bind(pod: &Object, node: &Text) -> Plan {
    Plan::of(vec![Step::One(binding(pod, node)), bound(pod, node)])
}

/// The call that gives a pod its node.
pub fn binding(pod: &Object, node: &Text) -> Call {
    let (namespace, name, uid) = (meta::namespace(&pod.tree), meta::name(&pod.tree), meta::uid(&pod.tree));
    call(pod, Part::Binding, Act::Create(pod::binding(&namespace, &name, &uid, node)))
}

/// Says that a pod names another group now, in vain.
pub fn change_ignored(pod: &Object) -> Step {
    let message = "a pod stays in the group that it named when it was made; the change is ignored".to_owned();
    Step::Note(note(pod, Severity::Warning, gang::CHANGE_IGNORED, message))
}

/// Says that a pod has its node.
pub fn bound(pod: &Object, node: &Text) -> Step {
    let (namespace, name) = (meta::namespace(&pod.tree), meta::name(&pod.tree));
    let message = format!("Successfully assigned {namespace}/{name} to {node}");
    Step::Note(note(pod, Severity::Normal, reasons::SCHEDULED, message))
}

/// Says in a gated pod's condition that it is.
pub fn gate(pod: &Object, now: Time) -> Plan {
    match condition_patch(pod, reasons::SCHEDULING_GATED, GATED, now) {
        Some(patch) => Plan::of(vec![Step::One(call(pod, Part::Status, Act::Strategic(patch)))]),
        None => Plan::nothing(),
    }
}

/// Says in a pod's condition why it has no node, and where room is being made for it, unless it says so already.
/// A `quiet` word is no event.
pub fn explain(pod: &Object, reason: &str, message: &str, nominated: &str, quiet: bool, now: Time) -> Plan {
    let patch = condition_patch(pod, reason, message, now);
    let told = pod.tree.str_at(path::NOMINATED) == nominated;
    let mut steps = Vec::new();
    if patch.is_some() || !told {
        let whole = patch.clone().unwrap_or_default();
        let whole = if told { whole } else { pod::nomination_patch(&whole, nominated) };
        steps.push(Step::One(call(pod, Part::Status, Act::Strategic(whole))));
    }
    if patch.is_some() && !quiet {
        let note = note(pod, Severity::Warning, reasons::FAILED_SCHEDULING, message.to_owned());
        steps.push(Step::Note(note));
    }
    Plan::of(steps)
}

/// Ends the nomination of a pod.
pub fn end_nomination(pod: &Object) -> Plan {
    if pod.tree.str_at(path::NOMINATED).is_empty() {
        return Plan::nothing();
    }
    let patch = pod::nomination_patch(&Tree::Null, "");
    Plan::of(vec![Step::One(call(pod, Part::Status, Act::Strategic(patch)))])
}

/// Has a pod make room; `told` says for whom.
pub fn evict(pod: &Object, by: &Text, told: &str, now: Time) -> Plan {
    let message = format!("{by}: {MAKING_ROOM}");
    let wanted = Wanted {
        kind: conditions::DISRUPTION_TARGET,
        holds: true,
        reason: reasons::PREEMPTION_BY_SCHEDULER,
        message: &message,
    };
    let said = condition::holds(pod.tree.items_at(path::CONDITIONS), conditions::DISRUPTION_TARGET);
    let mut steps = Vec::new();
    if !said {
        let act = Act::Strategic(pod::condition_patch(&pod.tree, &wanted, now));
        steps.push(Step::One(call_by(by.clone(), pod, Part::Status, act)));
    }
    let act = Act::Delete { cascade: Cascade::Background, grace_secs: None };
    steps.push(Step::One(call_by(by.clone(), pod, Part::Main, act)));
    steps.push(Step::Note(note_by(by.clone(), pod, Severity::Normal, reasons::PREEMPTED, told.to_owned())));
    Plan::of(steps)
}

fn condition_patch(pod: &Object, reason: &str, message: &str, now: Time) -> Option<Tree> {
    let wanted = Wanted { kind: conditions::POD_SCHEDULED, holds: false, reason, message };
    let mut all = pod.tree.items_at(path::CONDITIONS).to_vec();
    if !condition::set(&mut all, &wanted, now) {
        return None;
    }
    let set = condition::find(&all, conditions::POD_SCHEDULED);
    let since = set.and_then(|it| Time::of(it.at(condition_path::SINCE)));
    Some(pod::condition_patch(&pod.tree, &wanted, since.unwrap_or(now)))
}

/// Whose pod it is: the scheduler it names, which is the usual one when it names none.
pub fn scheduler_of(pod: &Object) -> Text {
    let named = pod.tree.text_at(path::SCHEDULER);
    if named.is_empty() { managers::SCHEDULER.clone() } else { named }
}

fn call(pod: &Object, part: Part, act: Act) -> Call {
    call_by(scheduler_of(pod), pod, part, act)
}

fn call_by(by: Text, pod: &Object, part: Part, act: Act) -> Call {
    Call {
        by,
        on: meta::target(&kinds::PODS, &pod.tree, part),
        guard: Guard { uid: Some(meta::uid(&pod.tree)), revision: None },
        act,
    }
}

fn note(pod: &Object, severity: Severity, reason: &str, message: String) -> Event {
    note_by(scheduler_of(pod), pod, severity, reason, message)
}

fn note_by(by: Text, pod: &Object, severity: Severity, reason: &str, message: String) -> Event {
    let about = About::of(&kinds::PODS, "Pod", &pod.tree);
    Event { action: Text::new(), by, about, severity, reason: reason.into(), message: message.into() }
}
