//! What was decided, as calls and events.

use std::collections::BTreeMap;

use muster_api::event::{About, Event, Severity};
use muster_api::meta;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part};
use muster_api::queue::kinds;
use muster_api::queue::paths::workload as path;
use muster_api::queue::words::{WORKLOAD, finalizers, managers};
use muster_api::queue::{AdmissionStatus, reclaimable_body};
use muster_queue::life::Note;
use muster_tree::{Text, Tree};

use crate::plan::Step;

/// Exactly this object, as it was read.
pub fn as_read(object: &Object) -> Guard {
    Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) }
}

/// Writes all that admission owns of a Workload's status.
pub fn apply(workload: &Object, status: &AdmissionStatus) -> Step {
    Step::One(Call {
        by: managers::ADMISSION.clone(),
        on: meta::target(&kinds::WORKLOADS, &workload.tree, Part::Status),
        guard: as_read(workload),
        act: Act::Apply { body: status.body(), force: true },
    })
}

/// Tells a Workload which pods need their share no more.
pub fn apply_reclaimable(workload: &Object, pods: &BTreeMap<Text, u32>) -> Step {
    let (namespace, name) = (meta::namespace(&workload.tree), meta::name(&workload.tree));
    Step::One(Call {
        by: managers::RECLAIMABLE.clone(),
        on: meta::target(&kinds::WORKLOADS, &workload.tree, Part::Status),
        guard: as_read(workload),
        act: Act::Apply { body: reclaimable_body(&namespace, &name, pods), force: true },
    })
}

/// Merges a patch into an object, over what was read.
pub fn merge(kind: &Kind, object: &Object, part: Part, patch: Tree) -> Step {
    Step::One(Call {
        by: managers::KUEUE.clone(),
        on: meta::target(kind, &object.tree, part),
        guard: as_read(object),
        act: Act::Merge(patch),
    })
}

/// Makes a Workload.
pub fn create(workload: Tree) -> Step {
    let on = meta::target(&kinds::WORKLOADS, &workload, Part::Main);
    Step::One(Call { by: managers::KUEUE.clone(), on, guard: Guard::default(), act: Act::Create(workload) })
}

/// Deletes a Workload.
pub fn delete(workload: &Object, cascade: Cascade) -> Step {
    let on = meta::target(&kinds::WORKLOADS, &workload.tree, Part::Main);
    Step::One(Call::delete(managers::KUEUE.clone(), on, meta::uid(&workload.tree), cascade))
}

/// Takes our finalizer off an object, if it is there.
pub fn drop_finalizer(kind: &Kind, object: &Object) -> Option<Step> {
    let has = meta::has_finalizer(&object.tree, finalizers::IN_USE);
    has.then(|| merge(kind, object, Part::Main, meta::without_finalizer(&object.tree, finalizers::IN_USE)))
}

/// Sets one field of a Workload's spec.
pub fn set_priority(workload: &Object, priority: i64) -> Step {
    merge(&kinds::WORKLOADS, workload, Part::Main, Tree::Null.with(path::PRIORITY, priority))
}

/// A Workload wants to run no more.
pub fn deactivate(workload: &Object) -> Step {
    merge(&kinds::WORKLOADS, workload, Part::Main, Tree::Null.with(path::ACTIVE, false))
}

/// What those who look after jobs and pods tell.
pub fn told_of(about: About, severity: Severity, reason: &str, message: String) -> Event {
    let (by, reason) = (managers::JOB_EVENTS.clone(), Text::from(reason));
    Event { by, about, severity, action: reason.clone(), reason, message: message.into() }
}

/// An event about an object.
pub fn note(kind: &Kind, word: &str, object: &Tree, by: &Text, note: Note) -> Step {
    let about = About::of(kind, word, object);
    let (action, message) = (note.reason.clone(), Text::from(note.message));
    Step::Note(Event { by: by.clone(), about, severity: note.severity, reason: note.reason, message, action })
}

/// An event about a Workload, told by admission.
pub fn note_workload(workload: &Object, it: Note) -> Step {
    note(&kinds::WORKLOADS, WORKLOAD, &workload.tree, &managers::ADMISSION_EVENTS, it)
}
