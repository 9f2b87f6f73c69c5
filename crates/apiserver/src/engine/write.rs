//! The write path: prepare, accept, reply when durable; retry on conflict.

use std::sync::Arc;

use muster_store::{Durability, Mutation, StoredObject, Write, WriteError};
use muster_tree::{Text, Tree};

use super::prepare::WriteContext;
use super::quota_usage::QUOTAS;
use super::{ApiEngine, QUOTA_TRIES_MAX, TRIES_MAX};
use crate::request::{ReplyObject, WriteAct, WriteReply, WriteRequest};
use crate::status::Status;

/// Receives the reply to a write.
pub type WriteDone = Box<dyn FnOnce(Result<WriteReply, Status>) + Send>;

/// Preconditions of a write besides those in its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoragePreconditions {
    pub uid: Option<Text>,
    pub revision: Option<u64>,
}

/// The result of preparing a write.
#[derive(Debug)]
pub(crate) enum PreparedWrite {
    /// Nothing to write: a dry run, a review, or no change.
    Answer(WriteReply),
    /// A transaction, and the reply once it is durable.
    Writes(WritePlan),
}

#[derive(Debug)]
pub(crate) struct WritePlan {
    pub writes: Vec<Write>,
    pub answer: ReplyPlan,
}

/// The reply once the transaction is durable.
#[derive(Debug)]
pub(crate) struct ReplyPlan {
    pub code: u16,
    pub source: ReplySource,
    pub warnings: Vec<String>,
}

/// The object of the reply.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per request, moved twice: a box would cost more")]
pub(crate) enum ReplySource {
    /// The first object of the transaction as stored.
    First,
    /// Derived from the first stored object, e.g. a Scale.
    Made(
        fn(&ApiEngine, &super::VersionedResource, &StoredObject) -> Result<Tree, Status>,
        super::VersionedResource,
    ),
    Object(Box<StoredObject>),
    Status(Status),
}

/// Remaining attempts of a write.
#[derive(Debug, Clone, Copy)]
struct RetryBudget {
    /// For conflicts on its own object.
    own: u32,
    /// For conflicts on a ResourceQuota: every create in the namespace competes for it, and in each round one of them
    /// succeeds.
    quota: u32,
}

impl RetryBudget {
    /// The remaining attempts after a failure; `None` when retrying is pointless.
    fn after(self, error: &WriteError, request: &WriteRequest) -> Option<RetryBudget> {
        let WriteError::Conflict { key } = error else { return None };
        // A write of the quota itself counts against its own retries.
        if key.resource == QUOTAS && request.target.resource != QUOTAS {
            return (self.quota > 1).then(|| RetryBudget { quota: self.quota - 1, ..self });
        }
        (self.own > 1).then(|| RetryBudget { own: self.own - 1, ..self })
    }
}

impl ApiEngine {
    /// Performs a write. Prepare and accept run on the caller's thread; the reply comes when the write is durable.
    pub fn write(&self, request: WriteRequest, reply: WriteDone) {
        self.write_with_preconditions(request, StoragePreconditions::default(), reply);
    }

    pub(crate) fn write_with_preconditions(
        &self,
        request: WriteRequest,
        guard: StoragePreconditions,
        reply: WriteDone,
    ) {
        if let WriteAct::DeleteCollection(options, selection) = &request.act {
            let (options, selection) = (options.clone(), selection.clone());
            self.delete_collection(&request, &options, &selection, reply);
            return;
        }
        self.attempt(Arc::new(request), guard, RetryBudget { own: TRIES_MAX, quota: QUOTA_TRIES_MAX }, reply);
    }

    fn attempt(
        &self,
        request: Arc<WriteRequest>,
        guard: StoragePreconditions,
        tries: RetryBudget,
        reply: WriteDone,
    ) {
        let plan = match self.prepare(&request, &guard) {
            Ok(PreparedWrite::Writes(plan)) => plan,
            Ok(PreparedWrite::Answer(answer)) => return reply(Ok(answer)),
            Err(status) => return reply(Err(status)),
        };
        let WritePlan { writes, answer } = plan;
        let durability = durability(&writes);
        let touched = CommittedKeys::of(&writes);
        let engine = self.clone();
        let done = move |result: Result<Vec<StoredObject>, WriteError>| match result {
            Ok(objects) => {
                // Hooks run before the reply: a client that created a CRD finds its resource served.
                engine.after_commit(&touched);
                reply(engine.answer(answer, &objects));
            }
            Err(error) => match tries.after(&error, &request) {
                Some(tries) => engine.attempt(request, guard, tries, reply),
                None => reply(Err(store_error(&engine, &request, &error))),
            },
        };
        self.inner.store.accept(writes, durability, Box::new(done));
    }

    /// Prepares a write against the newest state. Has no side effects.
    pub(crate) fn prepare(
        &self,
        request: &WriteRequest,
        guard: &StoragePreconditions,
    ) -> Result<PreparedWrite, Status> {
        WriteContext::new(self, request, guard)?.prepare()
    }

    pub(crate) fn answer(&self, answer: ReplyPlan, objects: &[StoredObject]) -> Result<WriteReply, Status> {
        let first = || objects.first().cloned().ok_or_else(|| Status::internal("nothing was written"));
        let shown = match answer.source {
            ReplySource::First => ReplyObject::Object(first()?),
            ReplySource::Made(make, place) => ReplyObject::Tree(make(self, &place, &first()?)?),
            ReplySource::Object(object) => ReplyObject::Object(*object),
            ReplySource::Status(status) => ReplyObject::Status(status),
        };
        Ok(WriteReply { code: answer.code, shown, warnings: answer.warnings })
    }
}

/// Events are not fsynced: losing some in a crash is acceptable, and they are frequent.
pub(crate) fn durability(writes: &[Write]) -> Durability {
    if writes.iter().all(|write| write.key.resource == "events") {
        Durability::Relaxed
    } else {
        Durability::Wait
    }
}

/// Converts a store error to a `Status`.
pub(crate) fn store_error(engine: &ApiEngine, request: &WriteRequest, error: &WriteError) -> Status {
    match error {
        WriteError::Conflict { key } => match engine.resolve(&request.target) {
            Ok(place) => Status::stale_resource_version(place.resource.named(&key.name)),
            Err(status) => status,
        },
        other => Status::internal(other.to_string()),
    }
}

/// The keys of a transaction, for the post-commit hooks.
#[derive(Debug, Clone)]
pub(crate) struct CommittedKeys {
    pub put: Vec<muster_store::Key>,
    pub deleted: Vec<(muster_store::Key, Tree)>,
}

impl CommittedKeys {
    /// Collects the keys of these writes.
    pub fn of(writes: &[Write]) -> Self {
        let mut touched = CommittedKeys { put: Vec::new(), deleted: Vec::new() };
        for write in writes {
            match &write.change {
                Mutation::Put(_) => touched.put.push(write.key.clone()),
                Mutation::Delete(last) => touched.deleted.push((write.key.clone(), last.tree.clone())),
            }
        }
        touched
    }
}

/// The reply of one call of a batch, before the batch is durable.
#[derive(Debug)]
pub(crate) enum PendingReply {
    Ready(Box<WriteReply>),
    Later(Box<ReplyPlan>),
}

impl PendingReply {
    /// The reply, given the stored objects.
    pub fn finish(self, engine: &ApiEngine, objects: &[StoredObject]) -> Result<WriteReply, Status> {
        match self {
            PendingReply::Ready(reply) => Ok(*reply),
            PendingReply::Later(answer) => engine.answer(*answer, objects),
        }
    }
}
