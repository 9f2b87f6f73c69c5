//! Actions about a JobSet as calls and events.

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::consts::jobset as words;
use muster_api::consts::managers;
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::jobset::JobSetStatus;
use muster_api::paths::{job as job_path, jobset as path};
use muster_api::{kinds, meta};
use muster_jobset::child_jobs::ObjectRef;
use muster_jobset::reconcile::{CreatedObject, JobSetAction};
use muster_tree::{Text, Tree, tree};

use crate::controller::{Precondition, Step};

/// What events say the controller was doing.
const ACTION: &str = "Reconciling";

/// One action as steps.
pub fn steps(set: &ApiObject, claims: Option<&Kind>, action: JobSetAction) -> Vec<Step> {
    let claims = claims.unwrap_or(&kinds::RESOURCE_CLAIMS);
    match action {
        JobSetAction::CreateService(service) => vec![Step::Request(create(&kinds::SERVICES, service))],
        JobSetAction::CreateVolumeClaims(made) => make(set, &kinds::PERSISTENT_VOLUME_CLAIMS, made),
        JobSetAction::CreateClaims(made) => make(set, claims, made),
        JobSetAction::CreateGangs(kind, made) => make(set, &kind, made),
        JobSetAction::Resize(kind, object, patch) => vec![Step::Request(resize(&kind, &object, patch))],
        JobSetAction::DeleteGroups(kind, gone) => {
            vec![delete(set, &kind, gone, DeletionPropagation::Background)]
        }
        JobSetAction::CreateJobs(jobs) => {
            vec![Step::Parallel(jobs.into_iter().map(|job| create(&kinds::JOBS, job)).collect())]
        }
        JobSetAction::DeleteJobs(jobs) => {
            vec![delete(set, &kinds::JOBS, jobs, DeletionPropagation::Foreground)]
        }
        JobSetAction::DeleteClaims(gone) => vec![delete(set, claims, gone, DeletionPropagation::Background)],
        JobSetAction::ClearStartTimes(jobs) => {
            let patch = Tree::empty_map().with(job_path::STATUS, tree!({"startTime": Tree::Null}));
            let one = |job| change(set, job, Subresource::Status, patch.clone());
            vec![Step::Parallel(jobs.into_iter().map(one).collect())]
        }
        JobSetAction::PatchJobs(jobs) => {
            vec![Step::Parallel(
                jobs.into_iter().map(|(job, patch)| change(set, job, Subresource::Main, patch)).collect(),
            )]
        }
        JobSetAction::UpdateStatus(status) => write(set, &status).map(Step::Request).into_iter().collect(),
        JobSetAction::EmitEvent(severity, reason, message)
        | JobSetAction::EmitEventOnce(severity, reason, message) => {
            vec![Step::Event(note(&set.tree, severity, reason, message))]
        }
        JobSetAction::DeleteJobSet => delete_set(set),
        JobSetAction::RequeueAt(_) => Vec::new(),
    }
}

/// A note about a JobSet.
pub fn note(set: &Tree, severity: EventType, reason: Text, message: String) -> Event {
    let about = ObjectReference::of(&kinds::JOBSETS, words::KIND, set);
    let by = managers::JOBSET_EVENTS.clone();
    Event {
        reporting_controller: by,
        regarding: about,
        event_type: severity,
        reason,
        message: message.into(),
        action: ACTION.into(),
    }
}

fn create(kind: &Kind, object: Tree) -> ApiRequest {
    let on = meta::target(kind, &object, Subresource::Main);
    ApiRequest {
        field_manager: managers::JOBSET.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(object),
    }
}

/// Creates objects, with an event for each that was created.
fn make(set: &ApiObject, kind: &Kind, made: Vec<CreatedObject>) -> Vec<Step> {
    let (told, silent): (Vec<CreatedObject>, Vec<CreatedObject>) =
        made.into_iter().partition(|it| it.event.is_some());
    let one = |it: CreatedObject| {
        let (reason, message) = it.event?;
        Some((create(kind, it.object), note(&set.tree, EventType::Normal, reason.into(), message)))
    };
    let silent: Vec<ApiRequest> = silent.into_iter().map(|it| create(kind, it.object)).collect();
    vec![Step::ParallelWithEvents(told.into_iter().filter_map(one).collect()), Step::Parallel(silent)]
}

fn target(set: &ApiObject, kind: &Kind, name: Text, part: Subresource) -> RequestTarget {
    RequestTarget { kind: kind.clone(), namespace: meta::namespace(&set.tree), name, subresource: part }
}

fn delete(set: &ApiObject, kind: &Kind, all: Vec<ObjectRef>, cascade: DeletionPropagation) -> Step {
    let one = |it: ObjectRef| {
        ApiRequest::delete(
            managers::JOBSET.clone(),
            target(set, kind, it.name, Subresource::Main),
            it.uid,
            cascade,
        )
    };
    Step::Parallel(all.into_iter().map(one).collect())
}

fn change(set: &ApiObject, job: ObjectRef, part: Subresource, patch: Tree) -> ApiRequest {
    let guard = Preconditions { uid: Some(job.uid), revision: None };
    let on = target(set, &kinds::JOBS, job.name, part);
    ApiRequest {
        field_manager: managers::JOBSET.clone(),
        target: on,
        preconditions: guard,
        verb: RequestVerb::MergePatch(patch),
    }
}

fn resize(kind: &Kind, object: &ApiObject, patch: Tree) -> ApiRequest {
    let guard = Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    let on = meta::target(kind, &object.tree, Subresource::Main);
    ApiRequest {
        field_manager: managers::JOBSET.clone(),
        target: on,
        preconditions: guard,
        verb: RequestVerb::MergePatch(patch),
    }
}

/// The status, if it differs from what stands there, and only over what was seen.
fn write(set: &ApiObject, status: &JobSetStatus) -> Option<ApiRequest> {
    let old = set.tree.at(path::STATUS).cloned().unwrap_or_default();
    let new = status.tree(&old);
    let patch = if old.is_null() { Some(new) } else { old.merge_patch_to(&new) };
    Some(ApiRequest {
        field_manager: managers::JOBSET.clone(),
        target: meta::target(&kinds::JOBSETS, &set.tree, Subresource::Status),
        preconditions: Preconditions { uid: Some(meta::uid(&set.tree)), revision: Some(set.revision) },
        verb: RequestVerb::MergePatch(tree!({"status": patch?})),
    })
}

/// Deletes the JobSet if the live one is the one that was seen: its time may have been made longer.
fn delete_set(set: &ApiObject) -> Vec<Step> {
    let by = managers::JOBSET.clone();
    let on = meta::target(&kinds::JOBSETS, &set.tree, Subresource::Main);
    let look = ApiRequest {
        field_manager: by.clone(),
        target: on.clone(),
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    };
    let delete = ApiRequest::delete(by, on, meta::uid(&set.tree), DeletionPropagation::Foreground);
    vec![Step::Precondition(look, Precondition::Unchanged(set.revision)), Step::Request(delete)]
}
