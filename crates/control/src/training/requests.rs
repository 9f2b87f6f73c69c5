//! Steps of a TrainJob as requests and events.

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
    Uid,
};
use muster_api::event::{Event, ObjectReference};
use muster_api::train::consts::{ACTION, EVENTS_BY, MANAGER, TRAIN_JOB};
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::{kinds, meta};
use muster_trainer::controller::TrainJobEvent;
use muster_tree::Tree;

use crate::controller::ObjectKey;

/// An event about a TrainJob.
pub fn event(job: &Tree, note: TrainJobEvent) -> Event {
    let TrainJobEvent { event_type: severity, reason, message } = note;
    let about = ObjectReference::of(&TRAIN_JOBS, TRAIN_JOB, job);
    Event {
        reporting_controller: EVENTS_BY.clone(),
        regarding: about,
        event_type: severity,
        reason,
        message,
        action: ACTION.clone(),
    }
}

pub fn look(key: &ObjectKey) -> ApiRequest {
    ApiRequest {
        field_manager: MANAGER.clone(),
        target: key.target(Subresource::Main),
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    }
}

/// Merge-patches an object, with preconditions on what was read.
pub fn merge(key: &ObjectKey, object: &ApiObject, patch: Tree) -> ApiRequest {
    over(key, object, Subresource::Main, patch)
}

/// Merge-patches the status, with preconditions on what was read.
pub fn write_status(key: &ObjectKey, job: &ApiObject, patch: Tree) -> ApiRequest {
    over(key, job, Subresource::Status, patch)
}

fn over(key: &ObjectKey, object: &ApiObject, part: Subresource, patch: Tree) -> ApiRequest {
    let guard = Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    ApiRequest {
        field_manager: MANAGER.clone(),
        target: key.target(part),
        preconditions: guard,
        verb: RequestVerb::MergePatch(patch),
    }
}

/// Deletes a TrainJob by UID.
pub fn delete_job(key: &ObjectKey, uid: Uid, cascade: DeletionPropagation) -> ApiRequest {
    ApiRequest::delete(MANAGER.clone(), key.target(Subresource::Main), uid, cascade)
}

/// Deletes the JobSet of a TrainJob by UID, with background propagation.
pub fn delete_jobset(job: &ObjectKey, uid: Uid) -> ApiRequest {
    let on = RequestTarget { kind: kinds::JOBSETS.clone(), ..job.target(Subresource::Main) };
    ApiRequest::delete(MANAGER.clone(), on, uid, DeletionPropagation::Background)
}

/// Applies an object with force; if it exists already, only to the one with the cached UID.
pub fn apply(kind: Option<&Kind>, there: Option<&ApiObject>, object: &Tree) -> ApiRequest {
    let kind = kind.expect("every kind that is built has its name here");
    let guard = Preconditions { uid: there.map(|it| meta::uid(&it.tree)), revision: None };
    let on = meta::target(kind, object, Subresource::Main);
    ApiRequest {
        field_manager: MANAGER.clone(),
        target: on,
        preconditions: guard,
        verb: RequestVerb::Apply { body: object.clone(), force: true },
    }
}
