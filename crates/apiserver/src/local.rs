//! The in-process entrance: controllers' calls enter the engine below HTTP.
//!
//! Same admission, validation and field ownership as any request; no sockets, no bytes. The identity is
//! `system:controller:<by>`.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use event_listener::EventListener;
use muster_api::port::{
    Abilities, Act, Api, Batch, Call, Cascade, Change, Follow, Kind, Object, Part, Refusal, Reply,
};
use muster_store::{Key, Write, WriteError};
use muster_tree::{Text, Tree};

use crate::engine::{self, Engine, Guard, Plan, Prepared, Touched, Watch};
use crate::registry::{Resource, Version};
use crate::request::{
    Body, DeleteOptions, EventType, FieldValidation, ListOptions, Patch, Shown, Target, User, WriteAct,
    WriteOptions, WriteReply, WriteRequest,
};
use crate::status::Status;

/// How often a batch that was overtaken is prepared again.
const TRIES_MAX: u32 = 5;
/// How many changes one pull hands out.
const BATCH_MAX: usize = 1_000;

/// The port over an engine in the same process.
#[derive(Clone)]
pub struct LocalApi {
    engine: Engine,
}

impl LocalApi {
    /// The port over this engine.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    fn read(&self, call: &Call) -> Result<Object, Refusal> {
        let object = self.seen(call).map_err(refusal)?;
        call.check(&object)?;
        Ok(object)
    }

    /// The object, or the part of it that the call is about.
    fn seen(&self, call: &Call) -> Result<Object, Status> {
        let target = target(call);
        let shown = self.engine.show(&target, &ListOptions::default())?;
        Ok(self.object_of(&target, shown))
    }

    fn object_of(&self, target: &Target, shown: Shown) -> Object {
        match shown {
            Shown::Object(object) => self.shown(target, &object),
            Shown::Tree(tree) => Object::of_wire(&tree),
            Shown::Status(status) => Object { tree: status.to_tree(), revision: 0 },
            Shown::Objects(_, revision) => Object { tree: Tree::Null, revision },
        }
    }

    /// The object in the version asked for; as it is stored, when the write itself ended its kind.
    fn shown(&self, target: &Target, object: &muster_store::Object) -> Object {
        match self.engine.registry().find(&target.group, &target.version, &target.resource) {
            Some((resource, version)) => facing(&resource, version, object),
            None => Object { tree: object.tree.clone(), revision: object.revision },
        }
    }

    fn reply_of(&self, call: &Call, result: Result<WriteReply, Status>) -> Result<Object, Refusal> {
        let reply = result.map_err(|status| call.understood(refusal(status)))?;
        Ok(self.object_of(&target(call), reply.shown))
    }

    fn attempt(&self, calls: Arc<Vec<Call>>, tries: u32, reply: Reply<Vec<Result<Object, Refusal>>>) {
        let prepared = match self.prepare_all(&calls) {
            Ok(prepared) => prepared,
            Err((at, why)) => return reply(all_refused(calls.len(), at, &why)),
        };
        let (writes, answers) = unzip(prepared);
        let engine = self.engine.clone();
        let touched = Touched::of(&writes);
        let this = self.clone();
        let durability = engine::durability(&writes);
        let done = move |result: Result<Vec<muster_store::Object>, WriteError>| match result {
            Ok(objects) => {
                this.engine.committed(&touched);
                reply(this.answers(&calls, answers, &objects));
            }
            Err(WriteError::Overtaken { .. }) if tries > 1 => this.attempt(calls, tries - 1, reply),
            Err(error) => {
                let why = Refusal::Conflict(error.to_string());
                let all = calls.iter().map(|_| Err(why.clone())).collect();
                reply(all);
            }
        };
        engine.store().accept(writes, durability, Box::new(done));
    }

    fn prepare_all(&self, calls: &[Call]) -> Result<Vec<Prepared>, (usize, Refusal)> {
        let mut seen: BTreeSet<Key> = BTreeSet::new();
        let mut all = Vec::with_capacity(calls.len());
        for (at, call) in calls.iter().enumerate() {
            let prepared = if call.act == Act::Get {
                self.read(call).map_err(|why| (at, why))?;
                continue_with(self, call).map_err(|status| (at, refusal(status)))?
            } else {
                call.makes_sense().map_err(|why| (at, why))?;
                let (request, guard) = request(call);
                let prepared = self.engine.prepare(&request, &guard);
                prepared.map_err(|status| (at, call.understood(refusal(status))))?
            };
            if let Prepared::Writes(plan) = &prepared {
                for write in &plan.writes {
                    if !seen.insert(write.key.clone()) {
                        let why = format!("{} is written twice in one batch", write.key.name);
                        return Err((at, Refusal::Invalid(why)));
                    }
                }
            }
            all.push(prepared);
        }
        Ok(all)
    }

    fn answers(
        &self,
        calls: &[Call],
        answers: Vec<(engine::Pending, usize)>,
        objects: &[muster_store::Object],
    ) -> Vec<Result<Object, Refusal>> {
        let mut at = 0;
        let each = calls.iter().zip(answers).map(|(call, (pending, count))| {
            let mine = &objects[at..at + count];
            at += count;
            self.reply_of(call, pending.finish(&self.engine, mine))
        });
        each.collect()
    }
}

/// A read among writes: answered with what is stored.
fn continue_with(api: &LocalApi, call: &Call) -> Result<Prepared, Status> {
    let shown = api.engine.show(&target(call), &ListOptions::default())?;
    Ok(Prepared::Answer(WriteReply { code: 200, shown, warnings: Vec::new() }))
}

fn unzip(prepared: Vec<Prepared>) -> (Vec<Write>, Vec<(engine::Pending, usize)>) {
    let mut writes = Vec::new();
    let mut answers = Vec::new();
    for one in prepared {
        match one {
            Prepared::Answer(reply) => answers.push((engine::Pending::Ready(Box::new(reply)), 0)),
            Prepared::Writes(Plan { writes: more, answer }) => {
                answers.push((engine::Pending::Later(Box::new(answer)), more.len()));
                writes.extend(more);
            }
        }
    }
    (writes, answers)
}

fn all_refused(count: usize, at: usize, why: &Refusal) -> Vec<Result<Object, Refusal>> {
    let beside = format!("not done, because call {at} of its batch was refused: {why}");
    let each = (0..count).map(|i| Err(if i == at { why.clone() } else { Refusal::Conflict(beside.clone()) }));
    each.collect()
}

impl Api for LocalApi {
    fn call(&self, call: Call, reply: Reply<Result<Object, Refusal>>) {
        if call.act == Act::Get {
            return reply(self.read(&call));
        }
        if let Err(why) = call.makes_sense() {
            return reply(Err(why));
        }
        let (request, guard) = request(&call);
        let this = self.clone();
        let done = Box::new(move |result| reply(this.reply_of(&call, result)));
        self.engine.write_guarded(request, guard, done);
    }

    fn together(&self, calls: Vec<Call>, reply: Reply<Vec<Result<Object, Refusal>>>) {
        self.attempt(Arc::new(calls), TRIES_MAX, reply);
    }

    fn follow(&self, kind: &Kind) -> Box<dyn Follow> {
        Box::new(Following {
            engine: self.engine.clone(),
            kind: kind.clone(),
            state: State::Start,
            waiting: None,
        })
    }

    fn abilities(&self) -> Abilities {
        let registry = self.engine.registry();
        let kinds = registry.all().iter().filter_map(|resource| {
            let followed = |v: &&Version| {
                v.served && ["list", "watch"].iter().all(|verb| v.verbs.iter().any(|has| has == verb))
            };
            let version = resource.versions.iter().find(followed)?;
            let (group, plural) = (resource.group.clone(), resource.plural.clone());
            Some(Kind { group, version: version.name.clone(), plural })
        });
        Abilities { atomic: true, kinds: kinds.collect() }
    }
}

fn target(call: &Call) -> Target {
    let part = match call.on.part {
        Part::Main => "",
        Part::Status => "status",
        Part::Binding => "binding",
        Part::Eviction => "eviction",
        Part::Scale => "scale",
        Part::Finalize => "finalize",
        Part::Token => "token",
    };
    let name = if matches!(call.act, Act::Create(_)) && part.is_empty() {
        Text::new()
    } else {
        call.on.name.clone()
    };
    Target {
        group: call.on.kind.group.clone(),
        version: call.on.kind.version.clone(),
        resource: call.on.kind.plural.clone(),
        namespace: call.on.namespace.clone(),
        name,
        subresource: Text::from(part),
    }
}

fn request(call: &Call) -> (WriteRequest, Guard) {
    let body = |tree: &Tree| Body { tree: tree.clone(), duplicates: Vec::new() };
    let act = match &call.act {
        // `prepare` never sees a read; an empty merge is the write that changes nothing.
        Act::Get => WriteAct::Patch(Patch::Merge(body(&Tree::empty_map()))),
        Act::Create(tree) => WriteAct::Create(body(&call.made(tree))),
        Act::Apply { body: tree, force } => WriteAct::Patch(Patch::Apply { body: body(tree), force: *force }),
        Act::Merge(tree) if call.on.part == Part::Finalize => WriteAct::Update(body(tree)),
        Act::Merge(tree) => WriteAct::Patch(Patch::Merge(body(tree))),
        Act::Strategic(tree) => WriteAct::Patch(Patch::Strategic(body(tree))),
        Act::Delete { cascade, grace_secs } => WriteAct::Delete(DeleteOptions {
            grace_secs: grace_secs.map(i64::from),
            propagation: Text::from(match cascade {
                Cascade::Background => "Background",
                Cascade::Foreground => "Foreground",
                Cascade::Orphan => "Orphan",
            }),
            uid: call.guard.uid.clone(),
            resource_version: call.guard.revision.map(|revision| Text::from(revision.to_string())),
            ..DeleteOptions::default()
        }),
    };
    let options = WriteOptions {
        field_manager: call.by.clone(),
        field_validation: FieldValidation::Strict,
        dry_run: false,
    };
    let user = User {
        name: Text::from(format!("system:controller:{}", call.by)),
        groups: vec![Text::from("system:masters")],
        ..User::default()
    };
    let guard = match &call.act {
        // What is new was never seen; a deletion has its own preconditions.
        Act::Create(_) | Act::Delete { .. } => Guard::default(),
        _ => Guard { uid: call.guard.uid.clone(), revision: call.guard.revision },
    };
    (WriteRequest { target: target(call), act, options, user }, guard)
}

fn facing(resource: &Resource, version: usize, object: &muster_store::Object) -> Object {
    Object { tree: resource.strategy.to_wire(resource, &object.tree, version), revision: object.revision }
}

fn refusal(status: Status) -> Refusal {
    let wait = status.details.retry_after_seconds.map(|secs| Duration::from_secs(secs.into()));
    Refusal::of(status.code, status.reason, status.message, wait)
}

/// A kind that is being followed.
struct Following {
    engine: Engine,
    kind: Kind,
    state: State,
    waiting: Option<Pin<Box<EventListener>>>,
}

enum State {
    /// The next pull lists.
    Start,
    /// The kind is not served (any more): told once, looked for again when something has happened since.
    Absent { looked: u64 },
    /// Changes come from here.
    Live { watch: Watch, resource: Arc<Resource>, version: usize, generation: u64 },
}

impl Follow for Following {
    fn pull(&mut self) -> Option<Batch> {
        if let State::Live { watch, resource, version, generation } = &mut self.state {
            // A definition that changed may show other versions or be gone: begin again.
            if resource.custom && *generation != self.engine.registry().generation() {
                return self.begin();
            }
            return match watch.next(BATCH_MAX) {
                Ok(events) if events.is_empty() => None,
                Ok(events) => Some(Batch::Changes(
                    events
                        .into_iter()
                        .map(|e| change(e.kind, facing(resource, *version, &e.object)))
                        .collect(),
                )),
                Err(_) => self.begin(),
            };
        }
        self.begin()
    }

    fn wake_when_ready(&mut self, wake: Box<dyn FnOnce() + Send>) {
        let listener = match &self.state {
            State::Live { watch, .. } => watch.listen(),
            // A kind comes with its definition, which is another kind.
            State::Absent { .. } | State::Start => self.engine.listen(),
        };
        self.consume_wake_up();
        let mut listener = Box::pin(listener);
        let waker = Waker::from(Arc::new(Once(Mutex::new(Some(wake)))));
        let polled = Future::poll(listener.as_mut(), &mut Context::from_waker(&waker));
        // What was published before the listener was there would not wake it.
        if polled == Poll::Ready(()) || self.has_news() {
            waker.wake();
        }
        // One that has answered is at its end and must not be asked again.
        self.waiting = polled.is_pending().then_some(listener);
    }
}

impl Following {
    /// A listener that is dropped with its wake-up still in hand passes it on to another one, who does the same:
    /// an idle server would never sleep.
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

    fn begin(&mut self) -> Option<Batch> {
        let was_absent = matches!(self.state, State::Absent { .. });
        let looked = self.engine.revision();
        let registry = self.engine.registry();
        let target = Target {
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            resource: self.kind.plural.clone(),
            ..Target::default()
        };
        let found = registry.find(&self.kind.group, &self.kind.version, &self.kind.plural);
        let begun = found.and_then(|(resource, version)| {
            let page = self.engine.list(&target, &ListOptions::default()).ok()?;
            let from = ListOptions {
                resource_version: Text::from(page.revision.to_string()),
                ..ListOptions::default()
            };
            let watch = self.engine.watch(&target, &from).ok()?;
            Some((page, State::Live { watch, resource, version, generation: registry.generation() }))
        });
        let Some((page, state)) = begun else {
            self.state = State::Absent { looked };
            return (!was_absent).then(|| Batch::Reset(Vec::new()));
        };
        self.state = state;
        let State::Live { resource, version, .. } = &self.state else {
            return None;
        };
        Some(Batch::Reset(page.objects.iter().map(|object| facing(resource, *version, object)).collect()))
    }
}

fn change(kind: EventType, object: Object) -> Change {
    if kind == EventType::Deleted { Change::Gone(object) } else { Change::Put(object) }
}

/// Calls its closure on the first wake.
struct Once(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Once {
    fn wake(self: Arc<Self>) {
        let wake = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(wake) = wake {
            wake();
        }
    }
}
