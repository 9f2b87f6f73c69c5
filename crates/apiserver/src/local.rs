//! The in-process API: controllers' requests enter the engine below HTTP.
//!
//! The same admission, validation and field ownership as for HTTP requests, without sockets or serialization. The
//! user is `system:controller:<field manager>`.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use event_listener::EventListener;
use muster_api::client::{
    Api, ApiCapabilities, ApiError, ApiObject, ApiRequest, DeletionPropagation, Kind, ReplyCallback,
    RequestVerb, Subresource, WatchBatch, WatchChange, Watcher,
};
use muster_store::{Key, Write, WriteError};
use muster_tree::{Text, Tree};

use crate::engine::{
    self, ApiEngine, CommittedKeys, PreparedWrite, ResourceWatch, StoragePreconditions, WritePlan,
};
use crate::registry::{ApiVersion, Resource};
use crate::request::{
    DeleteOptions, EventType, FieldValidation, ListOptions, Patch, ReplyObject, RequestBody, ResourcePath,
    UserInfo, WriteAct, WriteOptions, WriteReply, WriteRequest,
};
use crate::status::Status;

/// Maximum number of attempts of a transaction that hits a conflict.
const TRIES_MAX: u32 = 5;
/// Maximum number of changes in one watch batch.
const BATCH_MAX: usize = 1_000;

/// Implements the API port on an engine in the same process.
#[derive(Clone)]
pub struct LocalApi {
    engine: ApiEngine,
}

impl LocalApi {
    /// Creates a client of this engine.
    #[must_use]
    pub fn new(engine: ApiEngine) -> Self {
        Self { engine }
    }

    fn read(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        let object = self.read_target(call).map_err(api_error)?;
        call.check_preconditions(&object)?;
        Ok(object)
    }

    /// The object or subresource of the request.
    fn read_target(&self, call: &ApiRequest) -> Result<ApiObject, Status> {
        let target = target(call);
        let shown = self.engine.show(&target, &ListOptions::default())?;
        Ok(self.object_of(&target, shown))
    }

    fn object_of(&self, target: &ResourcePath, shown: ReplyObject) -> ApiObject {
        match shown {
            ReplyObject::Object(object) => self.shown(target, &object),
            ReplyObject::Tree(tree) => ApiObject::from_wire(&tree),
            ReplyObject::Status(status) => ApiObject { tree: status.to_tree(), revision: 0 },
            ReplyObject::Objects(_, revision) => ApiObject { tree: Tree::Null, revision },
        }
    }

    /// The object in the requested version; as stored, when the write itself deleted its CRD.
    fn shown(&self, target: &ResourcePath, object: &muster_store::StoredObject) -> ApiObject {
        match self.engine.registry().find(&target.group, &target.version, &target.resource) {
            Some((resource, version)) => to_api_object(&resource, version, object),
            None => ApiObject { tree: object.tree.clone(), revision: object.revision },
        }
    }

    fn reply_of(&self, call: &ApiRequest, result: Result<WriteReply, Status>) -> Result<ApiObject, ApiError> {
        let reply = result.map_err(|status| call.normalize_error(api_error(status)))?;
        Ok(self.object_of(&target(call), reply.shown))
    }

    fn attempt(
        &self,
        calls: Arc<Vec<ApiRequest>>,
        tries: u32,
        reply: ReplyCallback<Vec<Result<ApiObject, ApiError>>>,
    ) {
        let prepared = match self.prepare_all(&calls) {
            Ok(prepared) => prepared,
            Err((at, why)) => return reply(all_refused(calls.len(), at, &why)),
        };
        let (writes, answers) = unzip(prepared);
        let engine = self.engine.clone();
        let touched = CommittedKeys::of(&writes);
        let this = self.clone();
        let durability = engine::durability(&writes);
        let done = move |result: Result<Vec<muster_store::StoredObject>, WriteError>| match result {
            Ok(objects) => {
                this.engine.after_commit(&touched);
                reply(this.answers(&calls, answers, &objects));
            }
            Err(WriteError::Conflict { .. }) if tries > 1 => this.attempt(calls, tries - 1, reply),
            Err(error) => {
                let why = ApiError::Conflict(error.to_string());
                let all = calls.iter().map(|_| Err(why.clone())).collect();
                reply(all);
            }
        };
        engine.store().accept(writes, durability, Box::new(done));
    }

    fn prepare_all(&self, calls: &[ApiRequest]) -> Result<Vec<PreparedWrite>, (usize, ApiError)> {
        let mut seen: BTreeSet<Key> = BTreeSet::new();
        let mut all = Vec::with_capacity(calls.len());
        for (at, call) in calls.iter().enumerate() {
            let prepared = if call.verb == RequestVerb::Get {
                self.read(call).map_err(|why| (at, why))?;
                continue_with(self, call).map_err(|status| (at, api_error(status)))?
            } else {
                call.validate().map_err(|why| (at, why))?;
                let (request, guard) = request(call);
                let prepared = self.engine.prepare(&request, &guard);
                prepared.map_err(|status| (at, call.normalize_error(api_error(status))))?
            };
            if let PreparedWrite::Writes(plan) = &prepared {
                for write in &plan.writes {
                    // Two writes of one key would both expect the same revision, and the second could never succeed.
                    if !seen.insert(write.key.clone()) {
                        let why = format!("{} is written twice in one batch", write.key.name);
                        return Err((at, ApiError::Invalid(why)));
                    }
                }
            }
            all.push(prepared);
        }
        Ok(all)
    }

    fn answers(
        &self,
        calls: &[ApiRequest],
        answers: Vec<(engine::PendingReply, usize)>,
        objects: &[muster_store::StoredObject],
    ) -> Vec<Result<ApiObject, ApiError>> {
        let mut at = 0;
        let each = calls.iter().zip(answers).map(|(call, (pending, count))| {
            let mine = &objects[at..at + count];
            at += count;
            self.reply_of(call, pending.finish(&self.engine, mine))
        });
        each.collect()
    }
}

/// A get inside a transaction is answered from the stored state.
fn continue_with(api: &LocalApi, call: &ApiRequest) -> Result<PreparedWrite, Status> {
    let shown = api.engine.show(&target(call), &ListOptions::default())?;
    Ok(PreparedWrite::Answer(WriteReply { code: 200, shown, warnings: Vec::new() }))
}

fn unzip(prepared: Vec<PreparedWrite>) -> (Vec<Write>, Vec<(engine::PendingReply, usize)>) {
    let mut writes = Vec::new();
    let mut answers = Vec::new();
    for one in prepared {
        match one {
            PreparedWrite::Answer(reply) => answers.push((engine::PendingReply::Ready(Box::new(reply)), 0)),
            PreparedWrite::Writes(WritePlan { writes: more, answer }) => {
                answers.push((engine::PendingReply::Later(Box::new(answer)), more.len()));
                writes.extend(more);
            }
        }
    }
    (writes, answers)
}

fn all_refused(count: usize, at: usize, why: &ApiError) -> Vec<Result<ApiObject, ApiError>> {
    let beside = format!("not done, because call {at} of its batch was refused: {why}");
    let each =
        (0..count).map(|i| Err(if i == at { why.clone() } else { ApiError::Conflict(beside.clone()) }));
    each.collect()
}

impl Api for LocalApi {
    fn send(&self, call: ApiRequest, reply: ReplyCallback<Result<ApiObject, ApiError>>) {
        if call.verb == RequestVerb::Get {
            return reply(self.read(&call));
        }
        if let Err(why) = call.validate() {
            return reply(Err(why));
        }
        let (request, guard) = request(&call);
        let this = self.clone();
        let done = Box::new(move |result| reply(this.reply_of(&call, result)));
        self.engine.write_with_preconditions(request, guard, done);
    }

    fn send_transaction(
        &self,
        calls: Vec<ApiRequest>,
        reply: ReplyCallback<Vec<Result<ApiObject, ApiError>>>,
    ) {
        self.attempt(Arc::new(calls), TRIES_MAX, reply);
    }

    fn watch(&self, kind: &Kind) -> Box<dyn Watcher> {
        Box::new(LocalWatcher {
            engine: self.engine.clone(),
            kind: kind.clone(),
            state: State::Start,
            waiting: None,
        })
    }

    fn capabilities(&self) -> ApiCapabilities {
        let registry = self.engine.registry();
        let kinds = registry.all().iter().filter_map(|resource| {
            let followed = |v: &&ApiVersion| {
                v.served && ["list", "watch"].iter().all(|verb| v.verbs.iter().any(|has| has == verb))
            };
            let version = resource.versions.iter().find(followed)?;
            let (group, plural) = (resource.group.clone(), resource.plural.clone());
            Some(Kind { group, version: version.name.clone(), plural })
        });
        ApiCapabilities { atomic: true, kinds: kinds.collect() }
    }
}

fn target(call: &ApiRequest) -> ResourcePath {
    let part = match call.target.subresource {
        Subresource::Main => "",
        Subresource::Status => "status",
        Subresource::Binding => "binding",
        Subresource::Eviction => "eviction",
        Subresource::Scale => "scale",
        Subresource::Finalize => "finalize",
        Subresource::Token => "token",
    };
    let name = if matches!(call.verb, RequestVerb::Create(_)) && part.is_empty() {
        Text::new()
    } else {
        call.target.name.clone()
    };
    ResourcePath {
        group: call.target.kind.group.clone(),
        version: call.target.kind.version.clone(),
        resource: call.target.kind.plural.clone(),
        namespace: call.target.namespace.clone(),
        name,
        subresource: Text::from(part),
    }
}

fn request(call: &ApiRequest) -> (WriteRequest, StoragePreconditions) {
    let body = |tree: &Tree| RequestBody { tree: tree.clone(), duplicates: Vec::new() };
    let act = match &call.verb {
        // Gets never reach `prepare`; an empty merge patch is the write without effect.
        RequestVerb::Get => WriteAct::Patch(Patch::Merge(body(&Tree::empty_map()))),
        RequestVerb::Create(tree) => WriteAct::Create(body(&call.create_body(tree))),
        RequestVerb::Apply { body: tree, force } => {
            WriteAct::Patch(Patch::Apply { body: body(tree), force: *force })
        }
        RequestVerb::MergePatch(tree) if call.target.subresource == Subresource::Finalize => {
            WriteAct::Update(body(tree))
        }
        RequestVerb::MergePatch(tree) => WriteAct::Patch(Patch::Merge(body(tree))),
        RequestVerb::StrategicMergePatch(tree) => WriteAct::Patch(Patch::Strategic(body(tree))),
        RequestVerb::Delete { propagation_policy: cascade, grace_secs } => WriteAct::Delete(DeleteOptions {
            grace_secs: grace_secs.map(i64::from),
            propagation: Text::from(match cascade {
                DeletionPropagation::Background => "Background",
                DeletionPropagation::Foreground => "Foreground",
                DeletionPropagation::Orphan => "Orphan",
            }),
            uid: call.preconditions.uid.clone(),
            resource_version: call.preconditions.revision.map(|revision| Text::from(revision.to_string())),
            ..DeleteOptions::default()
        }),
    };
    let options = WriteOptions {
        field_manager: call.field_manager.clone(),
        field_validation: FieldValidation::Strict,
        dry_run: false,
    };
    let user = UserInfo {
        name: Text::from(format!("system:controller:{}", call.field_manager)),
        groups: vec![Text::from("system:masters")],
        ..UserInfo::default()
    };
    let guard = match &call.verb {
        // A create has no preconditions, and a delete carries them in its options.
        RequestVerb::Create(_) | RequestVerb::Delete { .. } => StoragePreconditions::default(),
        _ => StoragePreconditions {
            uid: call.preconditions.uid.clone(),
            revision: call.preconditions.revision,
        },
    };
    (WriteRequest { target: target(call), act, options, user }, guard)
}

fn to_api_object(resource: &Resource, version: usize, object: &muster_store::StoredObject) -> ApiObject {
    ApiObject { tree: resource.strategy.to_wire(resource, &object.tree, version), revision: object.revision }
}

fn api_error(status: Status) -> ApiError {
    let wait = status.details.retry_after_seconds.map(|secs| Duration::from_secs(secs.into()));
    ApiError::from_status(status.code, status.reason, status.message, wait)
}

/// A list-and-watch of one kind.
struct LocalWatcher {
    engine: ApiEngine,
    kind: Kind,
    state: State,
    waiting: Option<Pin<Box<EventListener>>>,
}

enum State {
    /// The next batch is a full list.
    Start,
    /// The kind is not served: reported once as an empty list, then checked again whenever the store has changed.
    Absent {
        looked: u64,
    },
    Live {
        watch: ResourceWatch,
        resource: Arc<Resource>,
        version: usize,
        generation: u64,
    },
}

impl Watcher for LocalWatcher {
    fn try_next(&mut self) -> Option<WatchBatch> {
        if let State::Live { watch, resource, version, generation } = &mut self.state {
            // A changed CRD may serve other versions or be deleted: list again.
            if resource.custom && *generation != self.engine.registry().generation() {
                return self.begin();
            }
            return match watch.next(BATCH_MAX) {
                Ok(events) if events.is_empty() => None,
                Ok(events) => Some(WatchBatch::Changes(
                    events
                        .into_iter()
                        .map(|e| change(e.kind, to_api_object(resource, *version, &e.object)))
                        .collect(),
                )),
                Err(_) => self.begin(),
            };
        }
        self.begin()
    }

    fn notify_when_ready(&mut self, wake: Box<dyn FnOnce() + Send>) {
        let listener = match &self.state {
            State::Live { watch, .. } => watch.listen(),
            // An absent kind appears when its CRD is written, which is another resource: listen to all.
            State::Absent { .. } | State::Start => self.engine.listen(),
        };
        self.consume_wake_up();
        let mut listener = Box::pin(listener);
        let waker = Waker::from(Arc::new(WakeOnce(Mutex::new(Some(wake)))));
        let polled = Future::poll(listener.as_mut(), &mut Context::from_waker(&waker));
        // An event published before the listener was registered would not wake it.
        if polled == Poll::Ready(()) || self.has_news() {
            waker.wake();
        }
        // A completed listener must not be polled again.
        self.waiting = polled.is_pending().then_some(listener);
    }
}

impl LocalWatcher {
    /// Consumes a pending notification before the listener is dropped: event-listener would pass it on to another
    /// listener, which would do the same, and an idle server would spin.
    fn consume_wake_up(&mut self) {
        if let Some(mut old) = self.waiting.take() {
            let _ = Future::poll(old.as_mut(), &mut Context::from_waker(Waker::noop()));
        }
    }

    fn has_news(&self) -> bool {
        match &self.state {
            State::Live { watch, .. } => watch.has_news(),
            State::Absent { looked } => self.engine.revision() > *looked,
            State::Start => true,
        }
    }

    fn begin(&mut self) -> Option<WatchBatch> {
        let was_absent = matches!(self.state, State::Absent { .. });
        // Read before the registry: a CRD written in between is newer than `looked` and triggers another attempt.
        let looked = self.engine.revision();
        let registry = self.engine.registry();
        let target = ResourcePath {
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            resource: self.kind.plural.clone(),
            ..ResourcePath::default()
        };
        let found = registry.find(&self.kind.group, &self.kind.version, &self.kind.plural);
        let begun = found.and_then(|(resource, version)| {
            let page = self.engine.list(&target, &ListOptions::default()).ok()?;
            // Watch from the list's revision: no event between list and watch is lost.
            let from = ListOptions {
                resource_version: Text::from(page.revision.to_string()),
                ..ListOptions::default()
            };
            let watch = self.engine.watch(&target, &from).ok()?;
            Some((page, State::Live { watch, resource, version, generation: registry.generation() }))
        });
        let Some((page, state)) = begun else {
            self.state = State::Absent { looked };
            // Report the empty list once; repeating it would reset the caller's cache on every change of the store.
            return (!was_absent).then(|| WatchBatch::Restarted(Vec::new()));
        };
        self.state = state;
        let State::Live { resource, version, .. } = &self.state else {
            return None;
        };
        Some(WatchBatch::Restarted(
            page.objects.iter().map(|object| to_api_object(resource, *version, object)).collect(),
        ))
    }
}

fn change(kind: EventType, object: ApiObject) -> WatchChange {
    if kind == EventType::Deleted { WatchChange::Deleted(object) } else { WatchChange::Applied(object) }
}

/// A waker that calls its closure once.
struct WakeOnce(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for WakeOnce {
    fn wake(self: Arc<Self>) {
        let wake = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(wake) = wake {
            wake();
        }
    }
}
