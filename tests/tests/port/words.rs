//! How the tables say calls.

use std::collections::BTreeMap;

use muster_api::kinds;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Revision, Target, Uid};
use muster_tree::{Text, Tree, literal, tree};

/// Where namespaced objects live.
pub const SPACE: &str = "port";
/// Deployments have a scale.
pub static DEPLOYMENTS: Kind =
    Kind { group: literal!("apps"), version: literal!("v1"), plural: literal!("deployments") };

/// What a maker has answered so far: the last known state of each object.
#[derive(Default)]
pub struct Seen(BTreeMap<(Text, Text), Object>);

impl Seen {
    /// Takes note of an answer to a call on `on`.
    pub fn take(&mut self, on: &Target, object: &Object) {
        if on.part == Part::Main && object.revision > 0 {
            let name = object.tree.text_at(&["metadata", "name"]);
            self.0.insert((on.kind.plural.clone(), name), object.clone());
        }
    }

    fn of(&self, kind: &Kind, name: &str) -> &Object {
        let key = (kind.plural.clone(), Text::from(name));
        self.0.get(&key).unwrap_or_else(|| panic!("nobody has seen {} {name}", kind.plural))
    }

    /// The UID of an object that was answered before.
    pub fn uid(&self, kind: &Kind, name: &str) -> Uid {
        self.of(kind, name).tree.text_at(&["metadata", "uid"])
    }

    /// Its last known revision.
    pub fn revision(&self, kind: &Kind, name: &str) -> Revision {
        self.of(kind, name).revision
    }

    /// Its last known state.
    pub fn tree(&self, kind: &Kind, name: &str) -> Tree {
        self.of(kind, name).tree.clone()
    }
}

/// What calls are about.
pub fn on(kind: &Kind, name: &str) -> Target {
    let namespace = if kinds::is_cluster_scoped(kind) { "" } else { SPACE };
    Target { kind: kind.clone(), namespace: namespace.into(), name: name.into(), part: Part::Main }
}

/// A part of it.
pub fn part(kind: &Kind, name: &str, part: Part) -> Target {
    Target { part, ..on(kind, name) }
}

/// A call by the tester.
pub fn call(on: Target, act: Act) -> Call {
    Call { by: literal!("tester"), on, guard: Guard::default(), act }
}

/// The same call by another one.
pub fn by(by: &str, call: Call) -> Call {
    Call { by: by.into(), ..call }
}

/// The same call, only for this incarnation.
pub fn uid(uid: impl Into<Text>, call: Call) -> Call {
    Call { guard: Guard { uid: Some(uid.into()), ..call.guard }, ..call }
}

/// The same call, only for this revision.
pub fn revision(revision: Revision, call: Call) -> Call {
    Call { guard: Guard { revision: Some(revision), ..call.guard }, ..call }
}

/// Applies without taking what others own.
pub fn apply(on: Target, body: Tree) -> Call {
    call(on, Act::Apply { body, force: false })
}

/// Applies and takes.
pub fn force(on: Target, body: Tree) -> Call {
    call(on, Act::Apply { body, force: true })
}

/// Deletes exactly what was seen.
pub fn delete(seen: &Seen, kind: &Kind, name: &str, cascade: Cascade) -> Call {
    Call::delete(literal!("tester"), on(kind, name), seen.uid(kind, name), cascade)
}

/// The same deletion with this grace.
pub fn grace(secs: u32, call: Call) -> Call {
    let Act::Delete { cascade, .. } = call.act else { panic!("no deletion: {call:?}") };
    Call { act: Act::Delete { cascade, grace_secs: Some(secs) }, ..call }
}

/// A ConfigMap.
pub fn config(name: &str, data: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SPACE}, "data": data.clone()})
}

/// The template of pods that would wait.
pub fn pod_spec() -> Tree {
    tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]})
}

/// A pod.
pub fn pod(name: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE}, "spec": pod_spec()})
}

/// A Job.
pub fn job(name: &str) -> Tree {
    tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": SPACE},
        "spec": {"template": {"spec": pod_spec()}}})
}
