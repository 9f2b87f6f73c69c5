//! The way of a write: prepare, accept, answer when durable; again when overtaken.

use std::sync::Arc;

use muster_store::{Change, Durability, Object, Write, WriteError};
use muster_tree::{Text, Tree};

use super::charge::QUOTAS;
use super::prepare::Ask;
use super::{Engine, QUOTA_TRIES_MAX, TRIES_MAX};
use crate::request::{Shown, WriteAct, WriteReply, WriteRequest};
use crate::status::Status;

/// Where the answer to a write goes.
pub type WriteDone = Box<dyn FnOnce(Result<WriteReply, Status>) + Send>;

/// What the live object must be for a write to happen, besides what its body says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    pub uid: Option<Text>,
    pub revision: Option<u64>,
}

/// A write that was prepared.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// There is nothing to write: a dry run, a review, or no change.
    Answer(WriteReply),
    /// These changes, and how to answer once they are durable.
    Writes(Plan),
}

/// Changes to be accepted together.
#[derive(Debug)]
pub(crate) struct Plan {
    pub writes: Vec<Write>,
    pub answer: Answer,
}

/// How to answer once the changes are durable.
#[derive(Debug)]
pub(crate) struct Answer {
    pub code: u16,
    pub shows: Shows,
    pub warnings: Vec<String>,
}

/// What the answer shows.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per request, moved twice: a box would cost more")]
pub(crate) enum Shows {
    /// The first object as it was written.
    First,
    /// Something made of the first object as it was written.
    Made(fn(&Engine, &super::Place, &Object) -> Result<Tree, Status>, super::Place),
    /// This object.
    Object(Box<Object>),
    /// This.
    Status(Status),
}

/// How often a write may still be prepared.
#[derive(Debug, Clone, Copy)]
struct Tries {
    /// Because its own object was overtaken.
    own: u32,
    /// Because a quota was: every create in the namespace competes for it, and each time one of them succeeds.
    quota: u32,
}

impl Tries {
    /// What is left after a failed try; `None` when it was the last one, or another one would fail as well.
    fn after(self, error: &WriteError, request: &WriteRequest) -> Option<Tries> {
        let WriteError::Overtaken { key } = error else { return None };
        if key.resource == QUOTAS && request.target.resource != QUOTAS {
            return (self.quota > 1).then(|| Tries { quota: self.quota - 1, ..self });
        }
        (self.own > 1).then(|| Tries { own: self.own - 1, ..self })
    }
}

impl Engine {
    /// Performs a write. Preparing and accepting happen on the caller's thread; the reply comes when it is durable.
    pub fn write(&self, request: WriteRequest, reply: WriteDone) {
        self.write_guarded(request, Guard::default(), reply);
    }

    pub(crate) fn write_guarded(&self, request: WriteRequest, guard: Guard, reply: WriteDone) {
        if let WriteAct::DeleteCollection(options, selection) = &request.act {
            let (options, selection) = (options.clone(), selection.clone());
            self.delete_collection(&request, &options, &selection, reply);
            return;
        }
        self.attempt(Arc::new(request), guard, Tries { own: TRIES_MAX, quota: QUOTA_TRIES_MAX }, reply);
    }

    fn attempt(&self, request: Arc<WriteRequest>, guard: Guard, tries: Tries, reply: WriteDone) {
        let plan = match self.prepare(&request, &guard) {
            Ok(Prepared::Writes(plan)) => plan,
            Ok(Prepared::Answer(answer)) => return reply(Ok(answer)),
            Err(status) => return reply(Err(status)),
        };
        let Plan { writes, answer } = plan;
        let durability = durability(&writes);
        let touched = Touched::of(&writes);
        let engine = self.clone();
        let done = move |result: Result<Vec<Object>, WriteError>| match result {
            Ok(objects) => {
                engine.committed(&touched);
                reply(engine.answer(answer, &objects));
            }
            Err(error) => match tries.after(&error, &request) {
                Some(tries) => engine.attempt(request, guard, tries, reply),
                None => reply(Err(refused(&engine, &request, &error))),
            },
        };
        self.inner.store.accept(writes, durability, Box::new(done));
    }

    /// What a write would do to the newest state. Looks, decides, changes nothing.
    pub(crate) fn prepare(&self, request: &WriteRequest, guard: &Guard) -> Result<Prepared, Status> {
        Ask::new(self, request, guard)?.prepare()
    }

    pub(crate) fn answer(&self, answer: Answer, objects: &[Object]) -> Result<WriteReply, Status> {
        let first = || objects.first().cloned().ok_or_else(|| Status::internal("nothing was written"));
        let shown = match answer.shows {
            Shows::First => Shown::Object(first()?),
            Shows::Made(make, place) => Shown::Tree(make(self, &place, &first()?)?),
            Shows::Object(object) => Shown::Object(*object),
            Shows::Status(status) => Shown::Status(status),
        };
        Ok(WriteReply { code: answer.code, shown, warnings: answer.warnings })
    }
}

/// Writers of Events do not wait for the disk.
pub(crate) fn durability(writes: &[Write]) -> Durability {
    if writes.iter().all(|write| write.key.resource == "events") {
        Durability::Relaxed
    } else {
        Durability::Wait
    }
}

/// Why the store did not take a write, in the words of the API.
pub(crate) fn refused(engine: &Engine, request: &WriteRequest, error: &WriteError) -> Status {
    match error {
        WriteError::Overtaken { key } => match engine.place(&request.target) {
            Ok(place) => Status::modified(place.resource.named(&key.name)),
            Err(status) => status,
        },
        other => Status::internal(other.to_string()),
    }
}

/// Which keys a commit touched, for what follows from it.
#[derive(Debug, Clone)]
pub(crate) struct Touched {
    pub put: Vec<muster_store::Key>,
    pub deleted: Vec<(muster_store::Key, Tree)>,
}

impl Touched {
    /// Those of these writes.
    pub fn of(writes: &[Write]) -> Self {
        let mut touched = Touched { put: Vec::new(), deleted: Vec::new() };
        for write in writes {
            match &write.change {
                Change::Put(_) => touched.put.push(write.key.clone()),
                Change::Delete(last) => touched.deleted.push((write.key.clone(), last.tree.clone())),
            }
        }
        touched
    }
}

/// An answer that is ready, or that needs the written objects first.
#[derive(Debug)]
pub(crate) enum Pending {
    Ready(Box<WriteReply>),
    Later(Box<Answer>),
}

impl Pending {
    /// The answer, now that these objects were written.
    pub fn finish(self, engine: &Engine, objects: &[Object]) -> Result<WriteReply, Status> {
        match self {
            Pending::Ready(reply) => Ok(*reply),
            Pending::Later(answer) => engine.answer(*answer, objects),
        }
    }
}
