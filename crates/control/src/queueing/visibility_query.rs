//! The visibility API's queries into the control loop: a caller posts a query and fires the trigger; the loop answers between
//! two reconciliations.
//!
//! # Guarantees
//!
//! - The number of waiting queries, and of those answered between two reconciliations, is bounded: many queries delay each
//!   other, not the admission of Workloads.
//! - Long results are shared, not copied; callers format them on threads of their own.

use std::fmt;
use std::mem::replace;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_queue::engine::report::PendingWorkload;
use muster_queue::engine::workload::NamespacedName as WorkloadKey;
use muster_queue::reconcilers::explanation::Explanation;
use muster_tree::{Text, Tree};

use super::visibility_key;
use crate::controller::ExternalTrigger;

/// The most queries that wait.
pub const QUERIES_MAX: usize = 256;
/// The most queries that are answered between two reconciliations.
pub const QUERIES_PER_RECONCILE_MAX: usize = 16;
/// The most Workloads in one [`VisibilityQuery::Owners`]; a caller sends further queries for more.
pub const OWNERS_MAX: usize = 1_000;

/// A query into the queue controller.
#[derive(Debug, Clone, PartialEq)]
pub enum VisibilityQuery {
    /// The pending Workloads of a ClusterQueue.
    ClusterQueuePending(Text),
    /// The pending Workloads of the ClusterQueue of a LocalQueue, by namespace and name.
    LocalQueuePending(Text, Text),
    /// The owner references of these Workloads, at most [`OWNERS_MAX`].
    Owners(Vec<WorkloadKey>),
    /// Why a Workload is pending, by namespace and name.
    Explain(Text, Text),
    /// Whether this manifest would be admitted in this namespace.
    DryRun(Text, Tree),
}

/// The result of a query.
#[derive(Debug, Clone)]
pub enum VisibilityResult {
    /// The pending Workloads of a ClusterQueue, in queue order.
    Pending(Arc<Vec<PendingWorkload>>),
    /// `metadata.ownerReferences` of each Workload; null where it has none.
    Owners(Vec<Tree>),
    /// Why the Workload is pending, or would be.
    Explanation(Box<Explanation>),
    /// The object does not exist.
    NotFound,
    /// The manifest cannot be evaluated; the message says why.
    Invalid(String),
}

/// Why a query is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisibilityQueryError {
    /// This process does not run the queue controller: it is not the leader, or queues are disabled.
    NotRunning,
    /// [`QUERIES_MAX`] queries wait already.
    TooManyQueries,
}

/// Receives the result of a query.
pub type VisibilityCallback = Box<dyn FnOnce(VisibilityResult) + Send>;

/// The handle through which queries reach the queue controller. Clones share one queue.
#[derive(Clone, Default)]
pub struct VisibilityHandle(Arc<Mutex<QueryQueue>>);

#[derive(Default)]
struct QueryQueue {
    trigger: Option<ExternalTrigger>,
    queries: Vec<(VisibilityQuery, VisibilityCallback)>,
}

impl fmt::Debug for VisibilityHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VisibilityHandle")
    }
}

impl VisibilityHandle {
    fn queue(&self) -> MutexGuard<'_, QueryQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a query; `reply` is called on the thread of the loop, or dropped when the loop ends.
    ///
    /// # Errors
    /// The queue controller does not run, or too many queries wait.
    pub fn query(
        &self,
        query: VisibilityQuery,
        reply: VisibilityCallback,
    ) -> Result<(), VisibilityQueryError> {
        let mut queue = self.queue();
        let trigger = queue.trigger.clone().ok_or(VisibilityQueryError::NotRunning)?;
        if queue.queries.len() >= QUERIES_MAX {
            return Err(VisibilityQueryError::TooManyQueries);
        }
        queue.queries.push((query, reply));
        drop(queue);
        trigger(visibility_key());
        Ok(())
    }

    /// Whether the queue controller runs in this process.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.queue().trigger.is_some()
    }

    pub(super) fn attach(&self, trigger: ExternalTrigger) {
        self.queue().trigger = Some(trigger);
    }

    pub(super) fn detach(&self) {
        let mut queue = self.queue();
        queue.trigger = None;
        queue.queries.clear();
    }

    /// The next queries in order of arrival, and whether more wait.
    pub(super) fn take_batch(&self) -> (Vec<(VisibilityQuery, VisibilityCallback)>, bool) {
        let mut queue = self.queue();
        let now = queue.queries.len().min(QUERIES_PER_RECONCILE_MAX);
        let later = queue.queries.split_off(now);
        let queries = replace(&mut queue.queries, later);
        (queries, !queue.queries.is_empty())
    }
}
