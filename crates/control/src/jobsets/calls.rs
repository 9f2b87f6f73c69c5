//! Actions about a JobSet as calls and events.

use muster_api::event::{About, Event, Severity};
use muster_api::jobset::JobSetStatus;
use muster_api::paths::{job as job_path, jobset as path};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Target};
use muster_api::words::jobset as words;
use muster_api::words::managers;
use muster_api::{kinds, meta};
use muster_jobset::children::Ref;
use muster_jobset::plan::{Action, Made};
use muster_tree::{Text, Tree, tree};

use crate::plan::{Step, Want};

/// What events say the controller was doing.
const ACTION: &str = "Reconciling";

/// One action as steps.
pub fn steps(set: &Object, claims: Option<&Kind>, action: Action) -> Vec<Step> {
    let claims = claims.unwrap_or(&kinds::RESOURCE_CLAIMS);
    match action {
        Action::CreateService(service) => vec![Step::One(create(&kinds::SERVICES, service))],
        Action::CreateVolumeClaims(made) => make(set, &kinds::CLAIMS, made),
        Action::CreateClaims(made) => make(set, claims, made),
        Action::CreateGangs(kind, made) => make(set, &kind, made),
        Action::Resize(kind, object, patch) => vec![Step::One(resize(&kind, &object, patch))],
        Action::DeleteGroups(kind, gone) => vec![delete(set, &kind, gone, Cascade::Background)],
        Action::CreateJobs(jobs) => {
            vec![Step::Each(jobs.into_iter().map(|job| create(&kinds::JOBS, job)).collect())]
        }
        Action::DeleteJobs(jobs) => vec![delete(set, &kinds::JOBS, jobs, Cascade::Foreground)],
        Action::DeleteClaims(gone) => vec![delete(set, claims, gone, Cascade::Background)],
        Action::ClearStarts(jobs) => {
            let patch = Tree::empty_map().with(job_path::STATUS, tree!({"startTime": Tree::Null}));
            let one = |job| change(set, job, Part::Status, patch.clone());
            vec![Step::Each(jobs.into_iter().map(one).collect())]
        }
        Action::Change(jobs) => {
            vec![Step::Each(
                jobs.into_iter().map(|(job, patch)| change(set, job, Part::Main, patch)).collect(),
            )]
        }
        Action::Write(status) => write(set, &status).map(Step::One).into_iter().collect(),
        Action::Note(severity, reason, message) | Action::NoteOnce(severity, reason, message) => {
            vec![Step::Note(note(&set.tree, severity, reason, message))]
        }
        Action::DeleteSet => delete_set(set),
        Action::LookAgain(_) => Vec::new(),
    }
}

/// A note about a JobSet.
pub fn note(set: &Tree, severity: Severity, reason: Text, message: String) -> Event {
    let about = About::of(&kinds::JOBSETS, words::KIND, set);
    let by = managers::JOBSET_EVENTS.clone();
    Event { by, about, severity, reason, message: message.into(), action: ACTION.into() }
}

fn create(kind: &Kind, object: Tree) -> Call {
    let on = meta::target(kind, &object, Part::Main);
    Call { by: managers::JOBSET.clone(), on, guard: Guard::default(), act: Act::Create(object) }
}

/// Creates, and tells of each that was made.
fn make(set: &Object, kind: &Kind, made: Vec<Made>) -> Vec<Step> {
    let (told, silent): (Vec<Made>, Vec<Made>) = made.into_iter().partition(|it| it.told.is_some());
    let one = |it: Made| {
        let (reason, message) = it.told?;
        Some((create(kind, it.object), note(&set.tree, Severity::Normal, reason.into(), message)))
    };
    let silent: Vec<Call> = silent.into_iter().map(|it| create(kind, it.object)).collect();
    vec![Step::EachTold(told.into_iter().filter_map(one).collect()), Step::Each(silent)]
}

fn target(set: &Object, kind: &Kind, name: Text, part: Part) -> Target {
    Target { kind: kind.clone(), namespace: meta::namespace(&set.tree), name, part }
}

fn delete(set: &Object, kind: &Kind, all: Vec<Ref>, cascade: Cascade) -> Step {
    let one = |it: Ref| {
        Call::delete(managers::JOBSET.clone(), target(set, kind, it.name, Part::Main), it.uid, cascade)
    };
    Step::Each(all.into_iter().map(one).collect())
}

fn change(set: &Object, job: Ref, part: Part, patch: Tree) -> Call {
    let guard = Guard { uid: Some(job.uid), revision: None };
    let on = target(set, &kinds::JOBS, job.name, part);
    Call { by: managers::JOBSET.clone(), on, guard, act: Act::Merge(patch) }
}

fn resize(kind: &Kind, object: &Object, patch: Tree) -> Call {
    let guard = Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    let on = meta::target(kind, &object.tree, Part::Main);
    Call { by: managers::JOBSET.clone(), on, guard, act: Act::Merge(patch) }
}

/// The status, if it differs from what stands there, and only over what was seen.
fn write(set: &Object, status: &JobSetStatus) -> Option<Call> {
    let old = set.tree.at(path::STATUS).cloned().unwrap_or_default();
    let new = status.tree(&old);
    let patch = if old.is_null() { Some(new) } else { old.merge_patch_to(&new) };
    Some(Call {
        by: managers::JOBSET.clone(),
        on: meta::target(&kinds::JOBSETS, &set.tree, Part::Status),
        guard: Guard { uid: Some(meta::uid(&set.tree)), revision: Some(set.revision) },
        act: Act::Merge(tree!({"status": patch?})),
    })
}

/// Deletes the JobSet if the live one is the one that was seen: its time may have been made longer.
fn delete_set(set: &Object) -> Vec<Step> {
    let by = managers::JOBSET.clone();
    let on = meta::target(&kinds::JOBSETS, &set.tree, Part::Main);
    let look = Call { by: by.clone(), on: on.clone(), guard: Guard::default(), act: Act::Get };
    let delete = Call::delete(by, on, meta::uid(&set.tree), Cascade::Foreground);
    vec![Step::Look(look, Want::Unchanged(set.revision)), Step::One(delete)]
}
