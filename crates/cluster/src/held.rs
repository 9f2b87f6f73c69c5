//! An object as the client library hands it on: a tree, and of its metadata just what a watch needs.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use muster_api::port::{Kind, Object};
use muster_tree::{Sharing, Tree};
use serde::{Deserialize, Deserializer};

/// The object.
#[derive(Clone, Debug)]
pub struct Held {
    meta: ObjectMeta,
    object: Object,
}

impl Held {
    /// The object, made of branches that are already known where possible.
    pub fn shared(self, sharing: &Mutex<Sharing>) -> Object {
        share(sharing, &self.object)
    }
}

/// The same object, made of known branches.
pub fn share(sharing: &Mutex<Sharing>, object: &Object) -> Object {
    let tree = sharing.lock().unwrap_or_else(PoisonError::into_inner).share_below(&object.tree);
    Object { tree, revision: object.revision }
}

/// How the client library names a kind. The word is only for its messages.
pub fn named(kind: &Kind) -> ApiResource {
    let (group, version) = (kind.group.to_string(), kind.version.to_string());
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    ApiResource {
        group,
        version,
        api_version,
        kind: kind.plural.to_string(),
        plural: kind.plural.to_string(),
    }
}

impl<'de> Deserialize<'de> for Held {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let tree = Tree::deserialize(source)?;
        let text = |key: &str| Some(tree.str_at(&["metadata", key]).to_owned()).filter(|t| !t.is_empty());
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            uid: text("uid"),
            ..ObjectMeta::default()
        };
        Ok(Held { meta, object: Object::of_wire(&tree) })
    }
}

impl Resource for Held {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(it: &ApiResource) -> Cow<'_, str> {
        it.kind.as_str().into()
    }

    fn group(it: &ApiResource) -> Cow<'_, str> {
        it.group.as_str().into()
    }

    fn version(it: &ApiResource) -> Cow<'_, str> {
        it.version.as_str().into()
    }

    fn plural(it: &ApiResource) -> Cow<'_, str> {
        it.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}
