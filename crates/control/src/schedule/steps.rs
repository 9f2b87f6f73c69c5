//! The requests and events that carry out scheduling decisions.

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Preconditions, RequestVerb, Subresource,
};
use muster_api::condition::{self, DesiredCondition};
use muster_api::consts::{conditions, gang, managers, reasons};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::paths::{condition as condition_path, pod as path};
use muster_api::pod;
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::controller::{Reconciled, Step};

/// Message of the PodScheduled condition of a gated pod.
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";
/// Message of the DisruptionTarget condition of a victim, after the scheduler's name.
const MAKING_ROOM: &str = "preempting to accommodate a higher priority pod";

/// Binds a pod to a node.
pub fn bind(pod: &ApiObject, node: &Text) -> Reconciled {
    Reconciled::with_steps(vec![Step::Request(binding(pod, node)), bound(pod, node)])
}

/// The request that binds a pod to a node.
pub fn binding(pod: &ApiObject, node: &Text) -> ApiRequest {
    let (namespace, name, uid) = (meta::namespace(&pod.tree), meta::name(&pod.tree), meta::uid(&pod.tree));
    call(pod, Subresource::Binding, RequestVerb::Create(pod::binding(&namespace, &name, &uid, node)))
}

/// The event that a change of the pod's group label has no effect.
pub fn change_ignored(pod: &ApiObject) -> Step {
    let message = "a pod stays in the group that it named when it was made; the change is ignored".to_owned();
    Step::Event(note(pod, EventType::Warning, gang::CHANGE_IGNORED, message))
}

/// The Scheduled event.
pub fn bound(pod: &ApiObject, node: &Text) -> Step {
    let (namespace, name) = (meta::namespace(&pod.tree), meta::name(&pod.tree));
    let message = format!("Successfully assigned {namespace}/{name} to {node}");
    Step::Event(note(pod, EventType::Normal, reasons::SCHEDULED, message))
}

/// Sets the PodScheduled condition of a gated pod.
pub fn gate(pod: &ApiObject, now: Time) -> Reconciled {
    match condition_patch(pod, reasons::SCHEDULING_GATED, GATED, now) {
        Some(patch) => Reconciled::with_steps(vec![Step::Request(call(
            pod,
            Subresource::Status,
            RequestVerb::StrategicMergePatch(patch),
        ))]),
        None => Reconciled::done(),
    }
}

/// Sets the PodScheduled condition and the nominated node of an unschedulable pod, if they differ. `quiet` writes no event.
pub fn explain(
    pod: &ApiObject,
    reason: &str,
    message: &str,
    nominated: &str,
    quiet: bool,
    now: Time,
) -> Reconciled {
    let patch = condition_patch(pod, reason, message, now);
    let told = pod.tree.str_at(path::NOMINATED) == nominated;
    let mut steps = Vec::new();
    if patch.is_some() || !told {
        let whole = patch.clone().unwrap_or_default();
        let whole = if told { whole } else { pod::nomination_patch(&whole, nominated) };
        steps.push(Step::Request(call(pod, Subresource::Status, RequestVerb::StrategicMergePatch(whole))));
    }
    if patch.is_some() && !quiet {
        let note = note(pod, EventType::Warning, reasons::FAILED_SCHEDULING, message.to_owned());
        steps.push(Step::Event(note));
    }
    Reconciled::with_steps(steps)
}

/// Clears `status.nominatedNodeName`.
pub fn end_nomination(pod: &ApiObject) -> Reconciled {
    if pod.tree.str_at(path::NOMINATED).is_empty() {
        return Reconciled::done();
    }
    let patch = pod::nomination_patch(&Tree::Null, "");
    Reconciled::with_steps(vec![Step::Request(call(
        pod,
        Subresource::Status,
        RequestVerb::StrategicMergePatch(patch),
    ))])
}

/// Preempts a pod: sets the condition, deletes the pod and emits an event with the message `told`.
pub fn evict(pod: &ApiObject, by: &Text, told: &str, now: Time) -> Reconciled {
    let message = format!("{by}: {MAKING_ROOM}");
    let wanted = DesiredCondition {
        condition_type: conditions::DISRUPTION_TARGET,
        status: true,
        reason: reasons::PREEMPTION_BY_SCHEDULER,
        message: &message,
    };
    let said = condition::is_true(pod.tree.items_at(path::CONDITIONS), conditions::DISRUPTION_TARGET);
    let mut steps = Vec::new();
    if !said {
        let act = RequestVerb::StrategicMergePatch(pod::condition_patch(&pod.tree, &wanted, now));
        steps.push(Step::Request(call_by(by.clone(), pod, Subresource::Status, act)));
    }
    let act = RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
    steps.push(Step::Request(call_by(by.clone(), pod, Subresource::Main, act)));
    steps.push(Step::Event(note_by(by.clone(), pod, EventType::Normal, reasons::PREEMPTED, told.to_owned())));
    Reconciled::with_steps(steps)
}

fn condition_patch(pod: &ApiObject, reason: &str, message: &str, now: Time) -> Option<Tree> {
    let wanted =
        DesiredCondition { condition_type: conditions::POD_SCHEDULED, status: false, reason, message };
    let mut all = pod.tree.items_at(path::CONDITIONS).to_vec();
    if !condition::set(&mut all, &wanted, now) {
        return None;
    }
    let set = condition::find(&all, conditions::POD_SCHEDULED);
    let since = set.and_then(|it| Time::of(it.at(condition_path::SINCE)));
    Some(pod::condition_patch(&pod.tree, &wanted, since.unwrap_or(now)))
}

/// The scheduler of a pod; the default scheduler when it names none.
pub fn scheduler_of(pod: &ApiObject) -> Text {
    let named = pod.tree.text_at(path::SCHEDULER);
    if named.is_empty() { managers::SCHEDULER.clone() } else { named }
}

fn call(pod: &ApiObject, part: Subresource, act: RequestVerb) -> ApiRequest {
    call_by(scheduler_of(pod), pod, part, act)
}

fn call_by(by: Text, pod: &ApiObject, part: Subresource, act: RequestVerb) -> ApiRequest {
    ApiRequest {
        field_manager: by,
        target: meta::target(&kinds::PODS, &pod.tree, part),
        preconditions: Preconditions { uid: Some(meta::uid(&pod.tree)), revision: None },
        verb: act,
    }
}

fn note(pod: &ApiObject, severity: EventType, reason: &str, message: String) -> Event {
    note_by(scheduler_of(pod), pod, severity, reason, message)
}

fn note_by(by: Text, pod: &ApiObject, severity: EventType, reason: &str, message: String) -> Event {
    let about = ObjectReference::of(&kinds::PODS, "Pod", &pod.tree);
    Event {
        action: Text::new(),
        reporting_controller: by,
        regarding: about,
        event_type: severity,
        reason: reason.into(),
        message: message.into(),
    }
}
