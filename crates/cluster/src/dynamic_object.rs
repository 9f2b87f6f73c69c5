//! The object type for kube's client: a tree, and the part of the metadata that a watch needs.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use muster_api::client::{ApiObject, Kind};
use muster_tree::{Sharing, Tree};
use serde::{Deserialize, Deserializer};

#[derive(Clone, Debug)]
pub struct DynamicObject {
    meta: ObjectMeta,
    object: ApiObject,
}

impl DynamicObject {
    /// The object with interned branches.
    pub fn shared(self, sharing: &Mutex<Sharing>) -> ApiObject {
        share(sharing, &self.object)
    }
}

/// The same object with interned branches: equal subtrees of cached objects are stored once.
pub fn share(sharing: &Mutex<Sharing>, object: &ApiObject) -> ApiObject {
    let tree = sharing.lock().unwrap_or_else(PoisonError::into_inner).share_below(&object.tree);
    ApiObject { tree, revision: object.revision }
}

/// A kind as kube's `ApiResource`. Its `kind` only appears in messages of kube: the plural will do.
pub fn api_resource(kind: &Kind) -> ApiResource {
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

impl<'de> Deserialize<'de> for DynamicObject {
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
        Ok(DynamicObject { meta, object: ApiObject::from_wire(&tree) })
    }
}

impl Resource for DynamicObject {
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
