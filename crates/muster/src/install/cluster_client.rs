//! The requests of `muster install`, as a trait so that tests can replace the server.

use muster_api::client::{
    ApiError, ApiObject, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_cluster::KubeApi;
use muster_install::{MANAGED_BY_LABEL, kind_of};
use muster_tree::{Text, Tree, literal};

/// The field manager of server-side apply.
const MANAGER: Text = literal!("muster-install");

pub trait InstallClient {
    async fn version(&self) -> Result<(u32, u32), ApiError>;
    /// Sends a request.
    async fn perform(&self, call: &ApiRequest) -> Result<ApiObject, ApiError>;
    /// Sends a request with `dryRun=All`.
    async fn dry_run(&self, call: &ApiRequest) -> Result<ApiObject, ApiError>;
    /// Lists objects with these labels in all namespaces.
    async fn list_by_labels(&self, kind: &Kind, labels: &[(&str, &str)]) -> Result<Vec<ApiObject>, ApiError>;
}

impl InstallClient for KubeApi {
    async fn version(&self) -> Result<(u32, u32), ApiError> {
        KubeApi::version(self).await
    }

    async fn perform(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        KubeApi::perform(self, call).await
    }

    async fn dry_run(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        KubeApi::dry_run(self, call).await
    }

    async fn list_by_labels(&self, kind: &Kind, labels: &[(&str, &str)]) -> Result<Vec<ApiObject>, ApiError> {
        KubeApi::list_by_labels(self, kind, "", labels).await
    }
}

/// A request for an object of this kind.
pub fn request_on(kind: &Kind, object: &Tree, guard: Preconditions, act: RequestVerb) -> ApiRequest {
    let meta = |key: &str| object.text_at(&["metadata", key]);
    let on = RequestTarget {
        kind: kind.clone(),
        namespace: meta("namespace"),
        name: meta("name"),
        subresource: Subresource::Main,
    };
    ApiRequest { field_manager: MANAGER, target: on, preconditions: guard, verb: act }
}

/// A request for an object of the manifests.
pub fn request(object: &Tree, guard: Preconditions, act: RequestVerb) -> ApiRequest {
    request_on(kind_of(object), object, guard, act)
}

/// The stored object with the name of this one.
pub async fn find(plane: &impl InstallClient, object: &Tree) -> Result<Option<ApiObject>, ApiError> {
    match plane.perform(&request(object, Preconditions::default(), RequestVerb::Get)).await {
        Ok(there) => Ok(Some(there)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

/// A UID precondition without a resourceVersion: the object may have changed, but not been recreated.
pub fn uid_precondition(object: &Tree) -> Preconditions {
    Preconditions { uid: Some(object.text_at(&["metadata", "uid"])), revision: None }
}

/// Whether the object has the label of `muster install`.
pub fn is_installed(object: &Tree) -> bool {
    object.str_at(&["metadata", "labels", MANAGED_BY_LABEL.0]) == MANAGED_BY_LABEL.1
}

/// An object as kubectl names it.
pub fn kubectl_name(kind: &Kind, object: &Tree) -> String {
    let word = object.str_at(&["kind"]).to_lowercase();
    let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    format!("{word}{group}/{}", object.str_at(&["metadata", "name"]))
}
