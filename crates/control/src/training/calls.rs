//! Steps about a TrainJob as calls and events.

use muster_api::event::{About, Event};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Target, Uid};
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::train::words::{ACTION, EVENTS_BY, MANAGER, TRAIN_JOB};
use muster_api::{kinds, meta};
use muster_trainer::life::Note;
use muster_tree::Tree;

use crate::plan::Key;

/// A note about a TrainJob.
pub fn event(job: &Tree, note: Note) -> Event {
    let Note { severity, reason, message } = note;
    let about = About::of(&TRAIN_JOBS, TRAIN_JOB, job);
    Event { by: EVENTS_BY.clone(), about, severity, reason, message, action: ACTION.clone() }
}

/// Looks at an object.
pub fn look(key: &Key) -> Call {
    Call { by: MANAGER.clone(), on: key.target(Part::Main), guard: Guard::default(), act: Act::Get }
}

/// Changes an object, over what was seen.
pub fn merge(key: &Key, object: &Object, patch: Tree) -> Call {
    over(key, object, Part::Main, patch)
}

/// Writes the status, over what was seen.
pub fn write_status(key: &Key, job: &Object, patch: Tree) -> Call {
    over(key, job, Part::Status, patch)
}

fn over(key: &Key, object: &Object, part: Part, patch: Tree) -> Call {
    let guard = Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    Call { by: MANAGER.clone(), on: key.target(part), guard, act: Act::Merge(patch) }
}

/// Deletes exactly this TrainJob.
pub fn delete_job(key: &Key, uid: Uid, cascade: Cascade) -> Call {
    Call::delete(MANAGER.clone(), key.target(Part::Main), uid, cascade)
}

/// Deletes exactly this JobSet of a TrainJob; what it owns goes afterwards.
pub fn delete_jobset(job: &Key, uid: Uid) -> Call {
    let on = Target { kind: kinds::JOBSETS.clone(), ..job.target(Part::Main) };
    Call::delete(MANAGER.clone(), on, uid, Cascade::Background)
}

/// Applies an object, whoever else owns fields of it; where one is there already, to that one only.
pub fn apply(kind: Option<&Kind>, there: Option<&Object>, object: &Tree) -> Call {
    let kind = kind.expect("every kind that is built has its name here");
    let guard = Guard { uid: there.map(|it| meta::uid(&it.tree)), revision: None };
    let on = meta::target(kind, object, Part::Main);
    Call { by: MANAGER.clone(), on, guard, act: Act::Apply { body: object.clone(), force: true } }
}
