//! How the tables say calls.

use std::collections::BTreeMap;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb, Revision,
    Subresource, Uid,
};
use muster_api::kinds;
use muster_tree::{Text, Tree, literal, tree};

/// Where namespaced objects live.
pub const SPACE: &str = "port";
/// Deployments have a scale.
pub static DEPLOYMENTS: Kind =
    Kind { group: literal!("apps"), version: literal!("v1"), plural: literal!("deployments") };

/// What a maker has answered so far: the last known state of each object.
#[derive(Default)]
pub struct Seen(BTreeMap<(Text, Text), ApiObject>);

impl Seen {
    /// Takes note of an answer to a call on `on`.
    pub fn take(&mut self, on: &RequestTarget, object: &ApiObject) {
        if on.subresource == Subresource::Main && object.revision > 0 {
            let name = object.tree.text_at(&["metadata", "name"]);
            self.0.insert((on.kind.plural.clone(), name), object.clone());
        }
    }

    fn of(&self, kind: &Kind, name: &str) -> &ApiObject {
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
pub fn on(kind: &Kind, name: &str) -> RequestTarget {
    let namespace = if kinds::is_cluster_scoped(kind) { "" } else { SPACE };
    RequestTarget {
        kind: kind.clone(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: Subresource::Main,
    }
}

/// A part of it.
pub fn part(kind: &Kind, name: &str, part: Subresource) -> RequestTarget {
    RequestTarget { subresource: part, ..on(kind, name) }
}

/// A call by the tester.
pub fn call(on: RequestTarget, act: RequestVerb) -> ApiRequest {
    ApiRequest {
        field_manager: literal!("tester"),
        target: on,
        preconditions: Preconditions::default(),
        verb: act,
    }
}

/// The same call by another one.
pub fn by(by: &str, call: ApiRequest) -> ApiRequest {
    ApiRequest { field_manager: by.into(), ..call }
}

/// The same call, only for this incarnation.
pub fn uid(uid: impl Into<Text>, call: ApiRequest) -> ApiRequest {
    ApiRequest { preconditions: Preconditions { uid: Some(uid.into()), ..call.preconditions }, ..call }
}

/// The same call, only for this revision.
pub fn revision(revision: Revision, call: ApiRequest) -> ApiRequest {
    ApiRequest { preconditions: Preconditions { revision: Some(revision), ..call.preconditions }, ..call }
}

/// Applies without taking what others own.
pub fn apply(on: RequestTarget, body: Tree) -> ApiRequest {
    call(on, RequestVerb::Apply { body, force: false })
}

pub fn force(on: RequestTarget, body: Tree) -> ApiRequest {
    call(on, RequestVerb::Apply { body, force: true })
}

/// Deletes exactly what was seen.
pub fn delete(seen: &Seen, kind: &Kind, name: &str, cascade: DeletionPropagation) -> ApiRequest {
    ApiRequest::delete(literal!("tester"), on(kind, name), seen.uid(kind, name), cascade)
}

/// The same deletion with this grace.
pub fn grace(secs: u32, call: ApiRequest) -> ApiRequest {
    let RequestVerb::Delete { propagation_policy: cascade, .. } = call.verb else {
        panic!("no deletion: {call:?}")
    };
    ApiRequest { verb: RequestVerb::Delete { propagation_policy: cascade, grace_secs: Some(secs) }, ..call }
}

pub fn config(name: &str, data: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SPACE}, "data": data.clone()})
}

/// The template of pods that would wait.
pub fn pod_spec() -> Tree {
    tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]})
}

pub fn pod(name: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE}, "spec": pod_spec()})
}

pub fn job(name: &str) -> Tree {
    tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": SPACE},
        "spec": {"template": {"spec": pod_spec()}}})
}
