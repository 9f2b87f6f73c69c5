//! The server that is installed on, as far as installing asks.

use muster_api::port::{Act, Call, Guard, Kind, Object, Part, Refusal, Target};
use muster_cluster::KubeApi;
use muster_install::{INSTALLED_BY, kind_of};
use muster_tree::{Text, Tree, literal};

/// Our name as an owner of fields.
const MANAGER: Text = literal!("muster-install");

/// A server.
pub trait Plane {
    /// Its version.
    async fn version(&self) -> Result<(u32, u32), Refusal>;
    /// Has one call done.
    async fn perform(&self, call: &Call) -> Result<Object, Refusal>;
    /// Has one call gone through without keeping anything.
    async fn rehearse(&self, call: &Call) -> Result<Object, Refusal>;
    /// Objects of all namespaces that have these labels.
    async fn labelled(&self, kind: &Kind, labels: &[(&str, &str)]) -> Result<Vec<Object>, Refusal>;
}

impl Plane for KubeApi {
    async fn version(&self) -> Result<(u32, u32), Refusal> {
        KubeApi::version(self).await
    }

    async fn perform(&self, call: &Call) -> Result<Object, Refusal> {
        KubeApi::perform(self, call).await
    }

    async fn rehearse(&self, call: &Call) -> Result<Object, Refusal> {
        KubeApi::rehearse(self, call).await
    }

    async fn labelled(&self, kind: &Kind, labels: &[(&str, &str)]) -> Result<Vec<Object>, Refusal> {
        KubeApi::labelled(self, kind, "", labels).await
    }
}

/// A call on an object of this kind.
pub fn call_on(kind: &Kind, object: &Tree, guard: Guard, act: Act) -> Call {
    let meta = |key: &str| object.text_at(&["metadata", key]);
    let on =
        Target { kind: kind.clone(), namespace: meta("namespace"), name: meta("name"), part: Part::Main };
    Call { by: MANAGER, on, guard, act }
}

/// A call on something that is installed.
pub fn call(object: &Tree, guard: Guard, act: Act) -> Call {
    call_on(kind_of(object), object, guard, act)
}

/// What is there under the name of this.
pub async fn find(plane: &impl Plane, object: &Tree) -> Result<Option<Object>, Refusal> {
    match plane.perform(&call(object, Guard::default(), Act::Get)).await {
        Ok(there) => Ok(Some(there)),
        Err(Refusal::NotFound(_)) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

/// Exactly this object, whatever has become of it.
pub fn itself(object: &Tree) -> Guard {
    Guard { uid: Some(object.text_at(&["metadata", "uid"])), revision: None }
}

/// Whether it was installed by this command.
pub fn is_installed(object: &Tree) -> bool {
    object.str_at(&["metadata", "labels", INSTALLED_BY.0]) == INSTALLED_BY.1
}

/// An object as kubectl names it.
pub fn named(kind: &Kind, object: &Tree) -> String {
    let word = object.str_at(&["kind"]).to_lowercase();
    let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    format!("{word}{group}/{}", object.str_at(&["metadata", "name"]))
}
