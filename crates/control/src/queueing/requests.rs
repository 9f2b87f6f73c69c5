//! Requests and events of the queue controller.

use std::collections::BTreeMap;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::meta;
use muster_api::queue::consts::{WORKLOAD, finalizers, managers};
use muster_api::queue::kinds;
use muster_api::queue::paths::workload as path;
use muster_api::queue::{AdmissionStatus, reclaimable_body};
use muster_queue::reconcilers::WorkloadEvent;
use muster_tree::{Text, Tree};

use crate::controller::Step;

/// Preconditions: the same UID and the cached `resourceVersion`.
pub fn as_read(object: &ApiObject) -> Preconditions {
    Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) }
}

/// Applies the fields of a Workload's status that admission owns.
pub fn apply(workload: &ApiObject, status: &AdmissionStatus) -> Step {
    Step::Request(ApiRequest {
        field_manager: managers::ADMISSION.clone(),
        target: meta::target(&kinds::WORKLOADS, &workload.tree, Subresource::Status),
        preconditions: as_read(workload),
        verb: RequestVerb::Apply { body: status.body(), force: true },
    })
}

/// Applies `status.reclaimablePods`.
pub fn apply_reclaimable(workload: &ApiObject, pods: &BTreeMap<Text, u32>) -> Step {
    let (namespace, name) = (meta::namespace(&workload.tree), meta::name(&workload.tree));
    Step::Request(ApiRequest {
        field_manager: managers::RECLAIMABLE.clone(),
        target: meta::target(&kinds::WORKLOADS, &workload.tree, Subresource::Status),
        preconditions: as_read(workload),
        verb: RequestVerb::Apply { body: reclaimable_body(&namespace, &name, pods), force: true },
    })
}

/// Merge-patches an object, with preconditions on what was read.
pub fn merge(kind: &Kind, object: &ApiObject, part: Subresource, patch: Tree) -> Step {
    Step::Request(ApiRequest {
        field_manager: managers::KUEUE.clone(),
        target: meta::target(kind, &object.tree, part),
        preconditions: as_read(object),
        verb: RequestVerb::MergePatch(patch),
    })
}

pub fn create(workload: Tree) -> Step {
    let on = meta::target(&kinds::WORKLOADS, &workload, Subresource::Main);
    Step::Request(ApiRequest {
        field_manager: managers::KUEUE.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(workload),
    })
}

pub fn delete(workload: &ApiObject, cascade: DeletionPropagation) -> Step {
    let on = meta::target(&kinds::WORKLOADS, &workload.tree, Subresource::Main);
    Step::Request(ApiRequest::delete(managers::KUEUE.clone(), on, meta::uid(&workload.tree), cascade))
}

/// Removes the resource-in-use finalizer, if the object has it.
pub fn drop_finalizer(kind: &Kind, object: &ApiObject) -> Option<Step> {
    let has = meta::has_finalizer(&object.tree, finalizers::IN_USE);
    has.then(|| {
        merge(
            kind,
            object,
            Subresource::Main,
            meta::remove_finalizer_merge_patch(&object.tree, finalizers::IN_USE),
        )
    })
}

/// Sets `spec.priority` of a Workload.
pub fn set_priority(workload: &ApiObject, priority: i64) -> Step {
    merge(&kinds::WORKLOADS, workload, Subresource::Main, Tree::Null.with(path::PRIORITY, priority))
}

/// Sets `spec.active` of a Workload to false.
pub fn deactivate(workload: &ApiObject) -> Step {
    merge(&kinds::WORKLOADS, workload, Subresource::Main, Tree::Null.with(path::ACTIVE, false))
}

/// An event of the job and pod integrations.
pub fn told_of(about: ObjectReference, severity: EventType, reason: &str, message: String) -> Event {
    let (by, reason) = (managers::JOB_EVENTS.clone(), Text::from(reason));
    Event {
        reporting_controller: by,
        regarding: about,
        event_type: severity,
        action: reason.clone(),
        reason,
        message: message.into(),
    }
}

/// An event about an object.
pub fn note(kind: &Kind, word: &str, object: &Tree, by: &Text, note: WorkloadEvent) -> Step {
    let about = ObjectReference::of(kind, word, object);
    let (action, message) = (note.reason.clone(), Text::from(note.message));
    Step::Event(Event {
        reporting_controller: by.clone(),
        regarding: about,
        event_type: note.severity,
        reason: note.reason,
        message,
        action,
    })
}

/// An event about a Workload with admission as the reporting controller.
pub fn note_workload(workload: &ApiObject, it: WorkloadEvent) -> Step {
    note(&kinds::WORKLOADS, WORKLOAD, &workload.tree, &managers::ADMISSION_EVENTS, it)
}
