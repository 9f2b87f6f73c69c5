//! The [`Controller`] trait: maps watch events to keys, reconciles a key into steps.
//!
//! # Guarantees
//!
//! - A [`Controller`] only sees the cache and the time it is given. It performs no request itself: it returns [`Step`]s.
//! - Every method is called on the thread of the control loop; only an [`ExternalTrigger`] may be used elsewhere.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::{ApiError, ApiRequest, Kind, RequestTarget, Revision, Subresource, Uid};
use muster_api::event::Event;
use muster_api::meta;
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::metrics::RuntimeMetrics;

/// The kind, namespace and name of an object.
///
/// Field order is comparison order: `name` differs most often, and keys are compared in every queue operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.namespace`; empty for a cluster-scoped object.
    pub namespace: Text,
    /// Group, version and plural of the resource.
    pub kind: Kind,
}

impl ObjectKey {
    /// The key of an object of this kind, from its metadata.
    #[must_use]
    pub fn of(kind: &Kind, object: &Tree) -> ObjectKey {
        ObjectKey { kind: kind.clone(), namespace: meta::namespace(object), name: meta::name(object) }
    }

    /// A key from its parts; no object of this name needs to exist.
    #[must_use]
    pub fn new(kind: &Kind, namespace: &Text, name: &Text) -> ObjectKey {
        ObjectKey { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() }
    }

    /// The object, or a subresource of it, as the target of a request.
    #[must_use]
    pub fn target(&self, part: Subresource) -> RequestTarget {
        RequestTarget {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            subresource: part,
        }
    }
}

/// A key to reconcile, now or after a short delay that batches further events of the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconcileRequest {
    /// The key to add to the workqueue.
    pub key: ObjectKey,
    /// The delay before the key becomes ready; zero means now.
    pub after: Duration,
}

impl From<ObjectKey> for ReconcileRequest {
    fn from(key: ObjectKey) -> ReconcileRequest {
        ReconcileRequest { key, after: Duration::ZERO }
    }
}

/// The live state that a read must return for the remaining steps to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// The name is free, or its object has another UID: this incarnation is deleted.
    Deleted(Uid),
    /// The server answers 404.
    NotFound,
    /// The PersistentVolumeClaim no longer uses the volume: it is deleted, has another UID, or names another volume.
    ClaimReleased {
        /// UID of the PersistentVolumeClaim.
        uid: Uid,
        /// Name of the PersistentVolume.
        volume: Text,
    },
    /// The object exists and still has this `resourceVersion`.
    Unchanged(Revision),
}

/// One step of a reconciliation. A step starts when the step before it succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// One request.
    Request(ApiRequest),
    /// Requests that are committed together or not at all. A server without transactions gets them as separate requests.
    Transaction(Vec<ApiRequest>),
    /// Requests in flight at the same time. The step succeeds when all of them succeed.
    Parallel(Vec<ApiRequest>),
    /// As `Parallel`; the event of each request is recorded when that request succeeded.
    ParallelWithEvents(Vec<(ApiRequest, Event)>),
    /// Reads live state; when the precondition does not hold, the remaining steps are dropped and the key is retried.
    Precondition(ApiRequest, Precondition),
    /// Records an event. The next step does not wait for it.
    Event(Event),
}

/// The result of a reconciliation, as controller-runtime's `Result` together with the requests to send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// The steps in order. The key is not reconciled again before they end.
    pub steps: Vec<Step>,
    /// When to reconcile the key again without an event.
    pub requeue_at: Option<Time>,
    /// Further keys of the same controller that become ready now.
    pub enqueue: Vec<ObjectKey>,
}

impl Reconciled {
    /// Converged: no steps, no requeue.
    #[must_use]
    pub fn done() -> Reconciled {
        Reconciled::default()
    }

    /// These steps, without a requeue.
    #[must_use]
    pub fn with_steps(steps: Vec<Step>) -> Reconciled {
        Reconciled { steps, ..Reconciled::default() }
    }

    /// This result, requeued no later than `at`: an earlier time that was set before is kept.
    #[must_use]
    pub fn requeue_at(mut self, at: Time) -> Reconciled {
        self.requeue_at = Some(self.requeue_at.map_or(at, |old| old.min(at)));
        self
    }
}

/// What follows a failed reconciliation, in addition to the exponential backoff of its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requeue {
    /// The latest time of the retry, however long the backoff would be.
    pub no_later_than: Option<Time>,
    /// Further keys of the same controller that become ready now.
    pub enqueue: Vec<ObjectKey>,
    /// Events to record.
    pub events: Vec<Event>,
}

/// Adds a key to the workqueue of the controller that owns the trigger, from any thread: for changes outside the API, as
/// controller-runtime's `source.Channel`.
pub type ExternalTrigger = Arc<dyn Fn(ObjectKey) + Send + Sync>;

/// A controller: maps watch events to keys and reconciles keys.
pub trait Controller: Send {
    /// The name, as `--controllers` spells it.
    fn name(&self) -> &'static str;

    /// The `name` label of its workqueue metrics.
    fn metrics_name(&self) -> &'static str {
        self.name()
    }

    /// The kinds to watch. The control loop starts when all of them are listed.
    fn kinds(&self) -> Vec<Kind>;

    /// Kinds to watch where the server serves them, now or after a CRD is installed.
    fn kinds_if_served(&self) -> Vec<Kind> {
        Vec::new()
    }

    /// Whether to watch every kind that the server serves.
    fn watches_all_kinds(&self) -> bool {
        false
    }

    /// Whether the controller needs this object. An object that no controller needs is not cached; when the predicate stops
    /// to hold, controllers see a delete.
    fn predicate(&self, _kind: &Kind, _object: &Tree) -> bool {
        true
    }

    /// Keys to reconcile once, when all caches are synced for the first time.
    fn initial_requests(&mut self, _caches: &Caches, _now: Time) -> Vec<ObjectKey> {
        Vec::new()
    }

    /// Requests to send at a graceful shutdown. A crash sends none, so correctness must not depend on them.
    fn on_shutdown(&mut self, _caches: &Caches) -> Vec<ApiRequest> {
        Vec::new()
    }

    /// The keys to reconcile after a watch event. A controller with an engine of its own (quota, placement) updates it here;
    /// the initial list is delivered as one event per object.
    fn map_event(&mut self, event: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest>;

    /// Compares the desired with the cached state of a key. Must be idempotent: any step may be lost or performed twice.
    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled;

    /// Receives the trigger for changes outside the API, such as exited processes. Called once, before any other method.
    fn set_trigger(&mut self, _bell: ExternalTrigger) {}

    /// The controller itself, for a test that compares its internal state with the stored objects.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Adds the controller's own metrics.
    fn collect_metrics(&self, _counters: &mut RuntimeMetrics) {}

    /// Called for each failed request of a reconciliation; returns an event to record.
    fn on_request_error(
        &mut self,
        _key: &ObjectKey,
        _request: &ApiRequest,
        _error: &ApiError,
        _caches: &Caches,
    ) -> Option<Event> {
        None
    }

    /// Called once when a reconciliation of this key failed, after its last reply.
    fn error_policy(&mut self, _key: &ObjectKey, _caches: &Caches, _now: Time) -> Requeue {
        Requeue::default()
    }
}
