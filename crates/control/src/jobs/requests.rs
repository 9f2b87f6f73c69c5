//! Actions of a Job as requests and events.

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::consts::{finalizers, managers, reasons};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::gang_objects::{GangSupport, PodGroupMember};
use muster_api::job_pod::{NewPod, adopt_patch, new_pod, release_patch};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::job as path;
use muster_job::{JobAction, PodRef};
use muster_tree::{Text, Tree, tree};

use crate::controller::{Precondition, Step};

/// The gang that new pods join.
type Joins<'a> = Option<(GangSupport, &'a PodGroupMember)>;

/// One action as steps.
pub fn steps(job: &ApiObject, joins: Joins<'_>, action: JobAction) -> Vec<Step> {
    let on_each = |pods: &[PodRef], act: RequestVerb| {
        Step::Parallel(pods.iter().map(|pod| on_pod(&job.tree, pod, act.clone())).collect())
    };
    match action {
        JobAction::Adopt(pods) => {
            vec![
                unchanged(job, &managers::JOB),
                on_each(&pods, RequestVerb::StrategicMergePatch(adopt_patch(&job.tree))),
            ]
        }
        JobAction::ReleaseOwnership(pods) => {
            vec![on_each(&pods, RequestVerb::StrategicMergePatch(release_patch(&meta::uid(&job.tree))))]
        }
        JobAction::CreateGangObject { kind, object, event } => make(&job.tree, &kind, *object, event),
        JobAction::ResizeGang { kind, object, patch } => vec![Step::Request(resize(&kind, &object, patch))],
        JobAction::CreatePods(pods) => create(&job.tree, joins, &pods),
        JobAction::DeletePods(pods) => delete(&job.tree, &pods),
        JobAction::DeleteUncounted(pods) => {
            let mut steps = vec![on_each(&pods, untracking())];
            steps.extend(delete(&job.tree, &pods));
            steps
        }
        JobAction::RemoveFinalizer(pods) => vec![on_each(&pods, untracking())],
        JobAction::UpdateStatus(status) => {
            let old = job.tree.at(path::STATUS).cloned().unwrap_or_default();
            let new = status.tree(&old);
            let patch = if old.is_null() { Some(new.clone()) } else { old.merge_patch_to(&new) };
            patch.map(|patch| Step::Request(write(job, patch))).into_iter().collect()
        }
        JobAction::Event(severity, reason, message) => {
            vec![Step::Event(note(&job.tree, severity, reason, message))]
        }
        JobAction::DeleteJob => delete_job(job),
        JobAction::RequeueAt(_) => Vec::new(),
    }
}

/// Removes the tracking finalizer of an orphaned pod, provided that it is unchanged: if a Job adopted it meanwhile, the pod would
/// never be counted.
pub fn untrack_orphan(pod: &ApiObject) -> ApiRequest {
    let guard = Preconditions { uid: Some(meta::uid(&pod.tree)), revision: Some(pod.revision) };
    let on = meta::target(&kinds::PODS, &pod.tree, Subresource::Main);
    ApiRequest { field_manager: managers::JOB.clone(), target: on, preconditions: guard, verb: untracking() }
}

/// An event about a Job.
pub fn note(job: &Tree, severity: EventType, reason: Text, message: String) -> Event {
    let about = ObjectReference::of(&kinds::JOBS, "Job", job);
    Event {
        action: Text::new(),
        reporting_controller: managers::JOB.clone(),
        regarding: about,
        event_type: severity,
        reason,
        message: message.into(),
    }
}

fn untracking() -> RequestVerb {
    RequestVerb::StrategicMergePatch(meta::remove_finalizer_strategic_patch(finalizers::JOB_TRACKING))
}

/// Creates pods in batches that double (upstream's slow start), so that an error that hits all of them, such as exceeded quota,
/// fails few requests.
fn create(job: &Tree, joins: Joins<'_>, pods: &[NewPod]) -> Vec<Step> {
    let name = meta::name(job);
    let mut steps = Vec::new();
    let (mut rest, mut size) = (pods, 1);
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(size.min(rest.len()));
        steps.push(Step::Parallel(batch.iter().map(|new| create_one(job, joins, new)).collect()));
        steps.extend(batch.iter().map(|new| {
            let message = format!("Created pod: {}", new.name(&name));
            Step::Event(note(job, EventType::Normal, reasons::SUCCESSFUL_CREATE.into(), message))
        }));
        (rest, size) = (after, size * 2);
    }
    steps
}

fn create_one(job: &Tree, joins: Joins<'_>, new: &NewPod) -> ApiRequest {
    let pod = new_pod(job, new);
    let pod = joins.map_or_else(|| pod.clone(), |(gangs, member)| member.mark_pod(gangs, &pod));
    let on = meta::target(&kinds::PODS, &pod, Subresource::Main);
    ApiRequest {
        field_manager: managers::JOB.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(pod),
    }
}

/// Creates a gang object, with an event once it is created.
fn make(job: &Tree, kind: &Kind, object: Tree, told: (&'static str, String)) -> Vec<Step> {
    let on = meta::target(kind, &object, Subresource::Main);
    let call = ApiRequest {
        field_manager: managers::JOB.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(object),
    };
    vec![Step::ParallelWithEvents(vec![(call, note(job, EventType::Normal, told.0.into(), told.1))])]
}

fn resize(kind: &Kind, object: &ApiObject, patch: Tree) -> ApiRequest {
    let on = meta::target(kind, &object.tree, Subresource::Main);
    let guard = Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    ApiRequest {
        field_manager: managers::JOB.clone(),
        target: on,
        preconditions: guard,
        verb: RequestVerb::MergePatch(patch),
    }
}

fn delete(job: &Tree, pods: &[PodRef]) -> Vec<Step> {
    let one = |pod: &PodRef| {
        ApiRequest::delete(
            managers::JOB.clone(),
            target(job, pod),
            pod.uid.clone(),
            DeletionPropagation::Background,
        )
    };
    let mut steps = vec![Step::Parallel(pods.iter().map(one).collect())];
    steps.extend(pods.iter().map(|pod| {
        let message = format!("Deleted pod: {}", pod.name);
        Step::Event(note(job, EventType::Normal, reasons::SUCCESSFUL_DELETE.into(), message))
    }));
    steps
}

fn delete_job(job: &ApiObject) -> Vec<Step> {
    let by = managers::TTL.clone();
    let on = meta::target(&kinds::JOBS, &job.tree, Subresource::Main);
    let delete = ApiRequest::delete(by, on, meta::uid(&job.tree), DeletionPropagation::Foreground);
    vec![unchanged(job, &managers::TTL), Step::Request(delete)]
}

/// A precondition that the live Job is unchanged.
fn unchanged(job: &ApiObject, by: &Text) -> Step {
    let on = meta::target(&kinds::JOBS, &job.tree, Subresource::Main);
    let look = ApiRequest {
        field_manager: by.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    };
    Step::Precondition(look, Precondition::Unchanged(job.revision))
}

fn write(job: &ApiObject, patch: Tree) -> ApiRequest {
    ApiRequest {
        field_manager: managers::JOB.clone(),
        target: meta::target(&kinds::JOBS, &job.tree, Subresource::Status),
        preconditions: Preconditions { uid: Some(meta::uid(&job.tree)), revision: Some(job.revision) },
        verb: RequestVerb::MergePatch(tree!({"status": patch})),
    }
}

fn on_pod(job: &Tree, pod: &PodRef, act: RequestVerb) -> ApiRequest {
    let guard = Preconditions { uid: Some(pod.uid.clone()), revision: None };
    ApiRequest {
        field_manager: managers::JOB.clone(),
        target: target(job, pod),
        preconditions: guard,
        verb: act,
    }
}

fn target(job: &Tree, pod: &PodRef) -> RequestTarget {
    RequestTarget {
        kind: kinds::PODS.clone(),
        namespace: meta::namespace(job),
        name: pod.name.clone(),
        subresource: Subresource::Main,
    }
}
