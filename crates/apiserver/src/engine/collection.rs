//! deletecollection: one delete per object; the reply is sent when all are durable.

use std::sync::{Arc, Mutex, PoisonError};

use muster_store::StoredObject;

use super::ApiEngine;
use super::delete::check_options;
use super::write::WriteDone;
use crate::request::{DeleteOptions, ListOptions, ReplyObject, WriteAct, WriteReply, WriteRequest};
use crate::status::Status;

/// Outstanding deletes of one request.
struct Tally {
    left: usize,
    shown: Vec<StoredObject>,
    failed: Option<Status>,
    done: Option<WriteDone>,
}

impl ApiEngine {
    pub(super) fn delete_collection(
        &self,
        request: &WriteRequest,
        options: &DeleteOptions,
        selection: &ListOptions,
        reply: WriteDone,
    ) {
        let listed = check_options(options).and_then(|()| {
            let place = self.resolve(&request.target)?;
            if !place.resource.allows(place.version, "deletecollection") {
                return Err(Status::method_not_allowed());
            }
            self.list(&request.target, selection)
        });
        let page = match listed {
            Ok(page) => page,
            Err(status) => return reply(Err(status)),
        };
        let revision = page.revision;
        if page.objects.is_empty() {
            let shown = ReplyObject::Objects(Vec::new(), revision);
            return reply(Ok(WriteReply { code: 200, shown, warnings: Vec::new() }));
        }
        let tally =
            Tally { left: page.objects.len(), shown: page.objects.clone(), failed: None, done: Some(reply) };
        let tally = Arc::new(Mutex::new(tally));
        for object in &page.objects {
            let tally = tally.clone();
            let done = Box::new(move |result| count(&tally, result, revision));
            self.write(one(request, object, options), done);
        }
    }
}

fn one(request: &WriteRequest, object: &StoredObject, options: &DeleteOptions) -> WriteRequest {
    let mut one = request.clone();
    one.target.namespace = object.tree.text_at(&["metadata", "namespace"]);
    one.target.name = object.tree.text_at(&["metadata", "name"]);
    one.act = WriteAct::Delete(options.clone());
    one
}

fn count(tally: &Mutex<Tally>, result: Result<WriteReply, Status>, revision: u64) {
    let mut state = tally.lock().unwrap_or_else(PoisonError::into_inner);
    match result {
        // A concurrent delete has the requested outcome.
        Err(status) if status.code == 404 => {}
        Err(status) => state.failed = Some(status),
        Ok(_) => {}
    }
    // Replies arrive on any thread; the last one sends the response.
    state.left -= 1;
    if state.left > 0 {
        return;
    }
    let (shown, failed, done) = (std::mem::take(&mut state.shown), state.failed.take(), state.done.take());
    // The callback may run arbitrary code: never under the lock.
    drop(state);
    let Some(done) = done else {
        return;
    };
    done(match failed {
        Some(status) => Err(status),
        None => {
            Ok(WriteReply { code: 200, shown: ReplyObject::Objects(shown, revision), warnings: Vec::new() })
        }
    });
}
