//! Actions about a Job as calls and events.

use muster_api::event::{About, Event, Severity};
use muster_api::gang_make::{Gangs, Member};
use muster_api::job_pod::{NewPod, adoption, disowning, pod_of};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::job as path;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Target};
use muster_api::words::{finalizers, managers, reasons};
use muster_job::{Action, PodRef};
use muster_tree::{Text, Tree, tree};

use crate::plan::{Step, Want};

/// The gang that new pods join.
type Joins<'a> = Option<(Gangs, &'a Member)>;

/// One action as steps.
pub fn steps(job: &Object, joins: Joins<'_>, action: Action) -> Vec<Step> {
    let on_each = |pods: &[PodRef], act: Act| {
        Step::Each(pods.iter().map(|pod| on_pod(&job.tree, pod, act.clone())).collect())
    };
    match action {
        Action::Adopt(pods) => {
            vec![unchanged(job, &managers::JOB), on_each(&pods, Act::Strategic(adoption(&job.tree)))]
        }
        Action::LetGo(pods) => {
            vec![on_each(&pods, Act::Strategic(disowning(&meta::uid(&job.tree))))]
        }
        Action::Make { kind, object, told } => make(&job.tree, &kind, *object, told),
        Action::Resize { kind, object, patch } => vec![Step::One(resize(&kind, &object, patch))],
        Action::Create(pods) => create(&job.tree, joins, &pods),
        Action::Delete(pods) => delete(&job.tree, &pods),
        Action::Discard(pods) => {
            let mut steps = vec![on_each(&pods, untracking())];
            steps.extend(delete(&job.tree, &pods));
            steps
        }
        Action::Release(pods) => vec![on_each(&pods, untracking())],
        Action::Write(status) => {
            let old = job.tree.at(path::STATUS).cloned().unwrap_or_default();
            let new = status.tree(&old);
            let patch = if old.is_null() { Some(new.clone()) } else { old.merge_patch_to(&new) };
            patch.map(|patch| Step::One(write(job, patch))).into_iter().collect()
        }
        Action::Note(severity, reason, message) => {
            vec![Step::Note(note(&job.tree, severity, reason, message))]
        }
        Action::DeleteJob => delete_job(job),
        Action::LookAgain(_) => Vec::new(),
    }
}

/// Takes the finalizer off a pod that has no owner, if it is still the one that was seen: had a Job adopted it
/// meanwhile, it would never be counted.
pub fn untrack_orphan(pod: &Object) -> Call {
    let guard = Guard { uid: Some(meta::uid(&pod.tree)), revision: Some(pod.revision) };
    let on = meta::target(&kinds::PODS, &pod.tree, Part::Main);
    Call { by: managers::JOB.clone(), on, guard, act: untracking() }
}

/// A note about a Job.
pub fn note(job: &Tree, severity: Severity, reason: Text, message: String) -> Event {
    let about = About::of(&kinds::JOBS, "Job", job);
    Event { action: Text::new(), by: managers::JOB.clone(), about, severity, reason, message: message.into() }
}

fn untracking() -> Act {
    Act::Strategic(meta::finalizer_removal(finalizers::JOB_TRACKING))
}

/// Creates in batches that double, so that a refusal that would meet them all is met by few.
fn create(job: &Tree, joins: Joins<'_>, pods: &[NewPod]) -> Vec<Step> {
    let name = meta::name(job);
    let mut steps = Vec::new();
    let (mut rest, mut size) = (pods, 1);
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(size.min(rest.len()));
        steps.push(Step::Each(batch.iter().map(|new| create_one(job, joins, new)).collect()));
        steps.extend(batch.iter().map(|new| {
            let message = format!("Created pod: {}", new.name(&name));
            Step::Note(note(job, Severity::Normal, reasons::SUCCESSFUL_CREATE.into(), message))
        }));
        (rest, size) = (after, size * 2);
    }
    steps
}

fn create_one(job: &Tree, joins: Joins<'_>, new: &NewPod) -> Call {
    let pod = pod_of(job, new);
    let pod = joins.map_or_else(|| pod.clone(), |(gangs, member)| member.join(gangs, &pod));
    let on = meta::target(&kinds::PODS, &pod, Part::Main);
    Call { by: managers::JOB.clone(), on, guard: Guard::default(), act: Act::Create(pod) }
}

/// Makes a part of the Job's gang, and tells it once it is made.
fn make(job: &Tree, kind: &Kind, object: Tree, told: (&'static str, String)) -> Vec<Step> {
    let on = meta::target(kind, &object, Part::Main);
    let call = Call { by: managers::JOB.clone(), on, guard: Guard::default(), act: Act::Create(object) };
    vec![Step::EachTold(vec![(call, note(job, Severity::Normal, told.0.into(), told.1))])]
}

fn resize(kind: &Kind, object: &Object, patch: Tree) -> Call {
    let on = meta::target(kind, &object.tree, Part::Main);
    let guard = Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    Call { by: managers::JOB.clone(), on, guard, act: Act::Merge(patch) }
}

fn delete(job: &Tree, pods: &[PodRef]) -> Vec<Step> {
    let one = |pod: &PodRef| {
        Call::delete(managers::JOB.clone(), target(job, pod), pod.uid.clone(), Cascade::Background)
    };
    let mut steps = vec![Step::Each(pods.iter().map(one).collect())];
    steps.extend(pods.iter().map(|pod| {
        let message = format!("Deleted pod: {}", pod.name);
        Step::Note(note(job, Severity::Normal, reasons::SUCCESSFUL_DELETE.into(), message))
    }));
    steps
}

fn delete_job(job: &Object) -> Vec<Step> {
    let by = managers::TTL.clone();
    let on = meta::target(&kinds::JOBS, &job.tree, Part::Main);
    let delete = Call::delete(by, on, meta::uid(&job.tree), Cascade::Foreground);
    vec![unchanged(job, &managers::TTL), Step::One(delete)]
}

/// Goes on only if the live Job is the one that was seen.
fn unchanged(job: &Object, by: &Text) -> Step {
    let on = meta::target(&kinds::JOBS, &job.tree, Part::Main);
    let look = Call { by: by.clone(), on, guard: Guard::default(), act: Act::Get };
    Step::Look(look, Want::Unchanged(job.revision))
}

fn write(job: &Object, patch: Tree) -> Call {
    Call {
        by: managers::JOB.clone(),
        on: meta::target(&kinds::JOBS, &job.tree, Part::Status),
        guard: Guard { uid: Some(meta::uid(&job.tree)), revision: Some(job.revision) },
        act: Act::Merge(tree!({"status": patch})),
    }
}

fn on_pod(job: &Tree, pod: &PodRef, act: Act) -> Call {
    let guard = Guard { uid: Some(pod.uid.clone()), revision: None };
    Call { by: managers::JOB.clone(), on: target(job, pod), guard, act }
}

fn target(job: &Tree, pod: &PodRef) -> Target {
    Target {
        kind: kinds::PODS.clone(),
        namespace: meta::namespace(job),
        name: pod.name.clone(),
        part: Part::Main,
    }
}
