//! The API client interface: requests, replies and watches as plain data.
//!
//! [`Api`] has two implementations: the in-process client of the embedded API server and the HTTP client of a real
//! cluster. An [`ApiRequest`] is a value, so that a test or the simulator can log, count, delay, drop and repeat it,
//! and the installer can derive RBAC rules from it.
//!
//! # Guarantees
//!
//! - A delete names a UID ([`ApiRequest::delete`]): it never removes an object recreated under the same name.
//! - A lost reply is [`ApiError::Indeterminate`], never success or failure.

use std::time::Duration;

use muster_tree::{Text, Tree};

/// A resource as group, version and plural (a GroupVersionResource); `version` is the one a controller reads and writes.
///
/// Fields are ordered by how often they differ, because kinds are compared on every lookup.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Plural resource name as in URL paths, for example `pods`.
    pub plural: Text,
    /// API group; empty for the core group.
    pub group: Text,
    /// API version, for example `v1beta2`.
    pub version: Text,
}

/// The subresource a request addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subresource {
    /// The main resource, without a subresource.
    Main,
    /// `/status`: changes to anything outside `status` are ignored.
    Status,
    /// `/binding`: a create that assigns a Pod to a node.
    Binding,
    /// `/eviction`: a create that deletes a Pod if its PodDisruptionBudgets allow it.
    Eviction,
    /// `/scale`: the replica count only.
    Scale,
    /// `/finalize`: `spec.finalizers` of a Namespace.
    Finalize,
    /// `/token`: a create on a ServiceAccount that returns a token.
    Token,
}

/// The object and subresource that a request addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestTarget {
    /// Resource of the object.
    pub kind: Kind,
    /// Namespace of the object; empty for cluster-scoped resources.
    pub namespace: Text,
    /// Name of the object; empty for a create with `metadata.generateName`.
    pub name: Text,
    /// Subresource; [`Subresource::Main`] for the object itself.
    pub subresource: Subresource,
}

/// `metadata.uid`: unique per object, also when a name is reused.
pub type Uid = Text;
/// `metadata.resourceVersion` as a number; 0 when it is unknown.
pub type Revision = u64;

/// Preconditions on the live object, as in `metav1.Preconditions`; the server answers 409 if one does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Required UID; `None` accepts any object of this name.
    pub uid: Option<Uid>,
    /// Required resource version; `None` accepts any.
    pub revision: Option<Revision>,
}

/// `propagationPolicy` of a delete: what happens to the dependents of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeletionPropagation {
    /// The object is deleted first, then the garbage collector deletes its dependents.
    Background,
    /// The object stays until its blocking dependents are deleted.
    Foreground,
    /// Dependents are kept without the owner reference.
    Orphan,
}

/// The verb of a request, with its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestVerb {
    /// Reads the newest state, never a cached one.
    Get,
    /// Creates an object or, on a subresource, posts this body.
    Create(Tree),
    /// Server-side apply: the field manager owns the fields in the body; fields it owned before and omits now are removed.
    Apply {
        /// The applied configuration, with `apiVersion` and `kind`.
        body: Tree,
        /// Take ownership of fields that conflict with other managers instead of failing with 409.
        force: bool,
    },
    /// JSON merge patch (RFC 7396): finalizers, suspend, annotations, and the status of kinds with a single writer.
    MergePatch(Tree),
    /// Strategic merge patch, built-in kinds only: conditions of Pods and Nodes, which have several writers.
    StrategicMergePatch(Tree),
    /// Deletes the object; built by [`ApiRequest::delete`], which requires a UID.
    Delete {
        /// What the garbage collector does with dependents.
        propagation_policy: DeletionPropagation,
        /// `gracePeriodSeconds`; `None` uses the default of the kind.
        grace_secs: Option<u32>,
    },
}

/// A request to an API server, as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// The field manager; on the embedded control plane also the user, as `system:controller:<field manager>`.
    pub field_manager: Text,
    /// The object and subresource to address.
    pub target: RequestTarget,
    /// Preconditions that the server checks in the same transaction.
    pub preconditions: Preconditions,
    /// The verb, with its body.
    pub verb: RequestVerb,
}

impl ApiRequest {
    /// Builds a delete with a UID precondition: an object recreated under the same name is not deleted.
    #[must_use]
    pub fn delete(
        field_manager: Text,
        target: RequestTarget,
        uid: Uid,
        propagation_policy: DeletionPropagation,
    ) -> ApiRequest {
        let preconditions = Preconditions { uid: Some(uid), revision: None };
        let verb = RequestVerb::Delete { propagation_policy, grace_secs: None };
        ApiRequest { field_manager, target, preconditions, verb }
    }

    /// Rejects a request that no server can carry out as intended.
    ///
    /// # Errors
    /// An apply with a resource version and no UID: the server would recreate a deleted object.
    pub fn validate(&self) -> Result<(), ApiError> {
        let applies = matches!(self.verb, RequestVerb::Apply { .. });
        if applies && self.preconditions.revision.is_some() && self.preconditions.uid.is_none() {
            let why = "an apply that means one revision must name the uid too";
            return Err(ApiError::Invalid(format!("{}: {why}", self.target.name)));
        }
        Ok(())
    }

    /// The body of a create: the target's name filled in, and the UID precondition moved to where Binding and Eviction
    /// carry it.
    #[must_use]
    pub fn create_body(&self, object: &Tree) -> Tree {
        let named = self.with_target_name(object);
        match (self.target.subresource, &self.preconditions.uid) {
            // Binding and Eviction are creates, which have no preconditions field of their own.
            (Subresource::Binding, Some(uid)) => named.with(&["metadata", "uid"], uid),
            (Subresource::Eviction, Some(uid)) => named.with(&["deleteOptions", "preconditions", "uid"], uid),
            _ => named,
        }
    }

    /// Maps the errors that servers return for a failed UID precondition to `Conflict` or `NotFound`.
    ///
    /// An apply or patch has no `preconditions` field: the UID travels in the body, and a server reports a mismatch as an
    /// invalid or immutable field.
    #[must_use]
    pub fn normalize_error(&self, error: ApiError) -> ApiError {
        let (
            RequestVerb::Apply { .. } | RequestVerb::MergePatch(_) | RequestVerb::StrategicMergePatch(_),
            Some(uid),
        ) = (&self.verb, &self.preconditions.uid)
        else {
            return error;
        };
        // Upstream's wordings: an immutable field on a patch, the store's precondition, and an apply that would create.
        match &error {
            ApiError::Invalid(message)
                if message.contains(&format!("metadata.uid: Invalid value: {:?}", uid.as_str())) =>
            {
                self.precondition_failed()
            }
            ApiError::Conflict(message) if message.contains("UID in precondition") => {
                self.precondition_failed()
            }
            ApiError::Conflict(message) if message.contains("no existing object was found") => {
                self.not_found()
            }
            _ => error,
        }
    }

    fn precondition_failed(&self) -> ApiError {
        ApiError::Conflict(format!("{} is not the object that was meant", self.target.name))
    }

    fn not_found(&self) -> ApiError {
        let Kind { group, plural, .. } = &self.target.kind;
        let dot = if group.is_empty() { "" } else { "." };
        ApiError::NotFound(format!("{plural}{dot}{group} {:?} not found", self.target.name.as_str()))
    }

    /// Fills in the target's name, unless the object has `name` or `generateName`.
    fn with_target_name(&self, object: &Tree) -> Tree {
        let has = |key: &str| !object.str_at(&["metadata", key]).is_empty();
        if self.target.subresource != Subresource::Main
            || self.target.name.is_empty()
            || has("name")
            || has("generateName")
        {
            return object.clone();
        }
        object.with(&["metadata", "name"], &self.target.name)
    }

    /// Checks the preconditions against an object that was read.
    ///
    /// # Errors
    /// `Conflict` if the UID or the resource version differs.
    pub fn check_preconditions(&self, object: &ApiObject) -> Result<(), ApiError> {
        let uid = object.tree.str_at(&["metadata", "uid"]);
        let differs = self.preconditions.uid.as_ref().is_some_and(|want| want.as_str() != uid)
            || self.preconditions.revision.is_some_and(|want| want != object.revision);
        if differs {
            return Err(self.precondition_failed());
        }
        Ok(())
    }
}

/// An object as a client sees it, without `metadata.resourceVersion` and `metadata.managedFields` in the tree.
///
/// The revision is a separate field, so that two reads of an unchanged object have equal trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiObject {
    /// The object; a shared tree, cheap to clone.
    pub tree: Tree,
    /// Resource version of its last change.
    pub revision: Revision,
}

impl ApiObject {
    /// Strips the resource version and the managed fields from an object off the wire.
    #[must_use]
    pub fn from_wire(tree: &Tree) -> ApiObject {
        let revision = tree.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
        // Both change on every write: left in, no two states of an object would compare equal.
        let bare = |metadata: &Tree| metadata.without_key("resourceVersion").without_key("managedFields");
        let tree = match tree.get("metadata") {
            Some(metadata) => tree.with(&["metadata"], bare(metadata)),
            None => tree.clone(),
        };
        ApiObject { tree, revision }
    }
}

/// One watch event, with the names of kube-rs's `watcher::Event`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchChange {
    /// `ADDED` or `MODIFIED`: the new state.
    Applied(ApiObject),
    /// `DELETED`: the last state, with the resource version of the deletion.
    Deleted(ApiObject),
}

/// What a [`Watcher`] yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchBatch {
    /// The result of a (re-)list: replaces everything known before.
    Restarted(Vec<ApiObject>),
    /// Changes since the last batch, in the order of their resource versions.
    Changes(Vec<WatchChange>),
}

/// Why a request failed, by what a controller can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 404 or 405: no such object or resource.
    #[error("not found: {0}")]
    NotFound(String),
    /// 409 `AlreadyExists`: a create of a name in use.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// 409 `Conflict`: the object changed, a precondition failed, or another manager owns a field.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Another 4xx: the same request can never succeed.
    #[error("invalid: {0}")]
    Invalid(String),
    /// 401 or 403: authentication, RBAC, quota or admission.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// 429 or 503: the server is overloaded or starting; the request was not carried out.
    #[error("busy, try again in {retry_after:?}")]
    TooManyRequests {
        /// Delay before the retry: the server's `Retry-After`, else 1 s.
        retry_after: Duration,
    },
    /// No reply, or a 5xx: the request may have been carried out. Read the object before retrying.
    #[error("no reply: {0}")]
    Indeterminate(String),
}

impl ApiError {
    /// The server's message, without the prefix that `Display` adds.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            ApiError::NotFound(message)
            | ApiError::AlreadyExists(message)
            | ApiError::Conflict(message)
            | ApiError::Invalid(message)
            | ApiError::Forbidden(message)
            | ApiError::Indeterminate(message) => message.clone(),
            ApiError::TooManyRequests { .. } => self.to_string(),
        }
    }
}

/// Retry delay when the server sends no `Retry-After`.
const RETRY_DEFAULT: Duration = Duration::from_secs(1);

impl ApiError {
    /// Classifies a `Status` by its code and reason.
    #[must_use]
    pub fn from_status(code: u16, reason: &str, message: String, retry_after: Option<Duration>) -> ApiError {
        match (code, reason) {
            (404 | 405, _) => ApiError::NotFound(message),
            (409, "AlreadyExists") => ApiError::AlreadyExists(message),
            (409, _) => ApiError::Conflict(message),
            (401 | 403, _) => ApiError::Forbidden(message),
            (429 | 503, _) => ApiError::TooManyRequests { retry_after: retry_after.unwrap_or(RETRY_DEFAULT) },
            (400..=499, _) => ApiError::Invalid(message),
            _ => ApiError::Indeterminate(message),
        }
    }
}

/// Receives a reply; called exactly once, on any thread.
pub type ReplyCallback<T> = Box<dyn FnOnce(T) + Send>;

/// A client of an API server.
///
/// No method blocks. The embedded control plane validates and orders a request on the caller's thread and replies once
/// the write is durable.
pub trait Api: Send + Sync {
    /// Sends a request. If the reply never arrives, the request may still have been carried out.
    fn send(&self, request: ApiRequest, reply: ReplyCallback<Result<ApiObject, ApiError>>);

    /// Sends requests as one transaction where [`ApiCapabilities::atomic`] holds, otherwise in parallel.
    fn send_transaction(
        &self,
        requests: Vec<ApiRequest>,
        reply: ReplyCallback<Vec<Result<ApiObject, ApiError>>>,
    );

    /// Lists and watches a resource; re-lists by itself after the watch history expired.
    fn watch(&self, kind: &Kind) -> Box<dyn Watcher>;

    /// Capabilities of this server.
    fn capabilities(&self) -> ApiCapabilities;
}

/// A non-blocking stream of watch batches.
pub trait Watcher: Send {
    /// The next batch; `None` while nothing has changed.
    fn try_next(&mut self) -> Option<WatchBatch>;

    /// Calls `wake` once, soon after [`Watcher::try_next`] may have something to return.
    fn notify_when_ready(&mut self, wake: Box<dyn FnOnce() + Send>);
}

/// Capabilities of an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiCapabilities {
    /// Whether [`Api::send_transaction`] is all-or-nothing.
    pub atomic: bool,
    /// Resources served, each in its preferred version.
    pub kinds: Vec<Kind>,
}
