//! The control loop of all controllers: watch events and replies in, API requests out.
//!
//! # Guarantees
//!
//! - Deterministic: the same inputs at the same times give the same outputs. No clock, no randomness, no hash map order.
//! - No key is reconciled before every kind known at the start was listed once.
//! - At most [`RuntimeOptions::requests_in_flight_max`] requests are without a reply.
//! - A request whose reply was lost is retried unchanged, with exponential backoff. A create that did happen then answers
//!   `AlreadyExists`, which is compared with what was sent. A key that failed before is not retried this way: it has its
//!   own backoff in the workqueue.

mod dump;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use muster_api::client::{
    ApiError, ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource, Uid, WatchBatch,
    WatchChange,
};
use muster_api::consts::managers;
use muster_api::event::Event;
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::{claim, namespace};
use muster_api::time::Time;

use crate::cache::{CacheChange, Caches, RelistResult};
use crate::controller::{Controller, ExternalTrigger, ObjectKey, Precondition, Step};
use crate::event_recorder::EventRecorder;
use crate::metrics::{RuntimeMetrics, verb};
use crate::workqueue::{WorkItem, WorkQueue};

/// Retries of a request whose reply was lost, before its key backs off.
pub const RETRIES_MAX: u32 = 5;
/// The delay before the second retry, doubled for each further one; the first retry is immediate.
pub const RETRY_BACKOFF: Duration = Duration::from_millis(250);
/// Keys reconciled in one iteration; then new inputs are observed.
pub const RECONCILES_PER_ITERATION_MAX: usize = 256;
/// Events waiting to be written; more are dropped and counted.
pub const EVENT_QUEUE_MAX: usize = 10_000;

/// How long after an existence check failed it is repeated.
const VERIFY_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Failed requests remembered for the debug dump, newest last.
pub const RECENT_ERRORS_MAX: usize = 32;

/// Identifies a request, or a transaction, in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What is sent under one [`RequestId`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestBatch {
    /// One request.
    Single(ApiRequest),
    /// Requests that are committed together or not at all.
    Transaction(Vec<ApiRequest>),
}

impl RequestBatch {
    /// The requests in it; one for `Single`.
    #[must_use]
    pub fn as_slice(&self) -> &[ApiRequest] {
        match self {
            RequestBatch::Single(request) => std::slice::from_ref(request),
            RequestBatch::Transaction(calls) => calls,
        }
    }
}

/// An input of the control loop.
#[derive(Debug, Clone)]
pub enum RuntimeInput {
    /// A list or a batch of watch events of this kind.
    Watched(Kind, WatchBatch),
    /// The replies to a batch, one per request in order.
    Replied(RequestId, Vec<Result<ApiObject, ApiError>>),
    /// An [`ExternalTrigger`] of the controller with this index fired for a key.
    Triggered(usize, ObjectKey),
    /// The time of [`RuntimeOutput::WakeAt`] has come.
    Tick,
}

/// An effect that the driver performs for the control loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeOutput {
    /// Send these requests and feed back [`RuntimeInput::Replied`].
    Send(RequestId, RequestBatch),
    /// Feed a [`RuntimeInput::Tick`] at this time, if no other input comes before.
    WakeAt(Time),
    /// A CustomResourceDefinition changed: call [`ControlLoop::update_served_kinds`] after new discovery.
    KindsChanged,
}

/// Bounds of a control loop.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Requests without a reply at any time. The embedded control plane handles them on the caller's thread and takes many.
    pub requests_in_flight_max: usize,
    /// Writes of Events among them: no step waits for an Event, so Events must not fill the slots of other requests.
    pub events_in_flight_max: usize,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        RuntimeOptions { requests_in_flight_max: 2048, events_in_flight_max: 2048 }
    }
}

/// Why a request was sent.
#[derive(Debug, Clone)]
enum Purpose {
    /// A step of the reconciliation of this key.
    Step(WorkItem),
    /// A read whose reply decides whether the remaining steps run.
    Precondition(WorkItem, Precondition),
    /// A retried create answered `AlreadyExists`: reads the object to find out whether the first try made it.
    ConflictCheck(WorkItem, ApiRequest),
    /// A write of an Event.
    Event,
    /// Reads an object that a reply brought and a later list does not contain.
    VerifyExists,
}

#[derive(Debug)]
struct PendingRequest {
    purpose: Purpose,
    batch: RequestBatch,
    /// Recorded when the request succeeded.
    event: Option<Event>,
    retries: u32,
    /// How often the kind of the first request had been listed when it was sent.
    relists: u64,
    /// UID of the target of each request: the one in its preconditions, else the one that was cached at the time of sending.
    target_uids: Vec<Option<Uid>>,
    sent_at: Time,
}

impl PendingRequest {
    fn new(purpose: Purpose, batch: RequestBatch) -> PendingRequest {
        PendingRequest {
            purpose,
            batch,
            event: None,
            retries: 0,
            relists: 0,
            target_uids: Vec::new(),
            sent_at: Time(0),
        }
    }

    fn is_event(&self) -> bool {
        matches!(self.purpose, Purpose::Event)
    }
}

#[derive(Debug)]
struct InFlight {
    steps: VecDeque<Step>,
    requeue_at: Option<Time>,
    outstanding: usize,
    error: Option<ApiError>,
}

/// The control loop: caches, workqueue, event recorder and the reconciliations in flight. Owned by one thread.
pub struct ControlLoop {
    caches: Caches,
    controllers: Vec<Box<dyn Controller>>,
    queue: WorkQueue,
    in_flight: BTreeMap<WorkItem, InFlight>,
    awaiting_reply: BTreeMap<RequestId, PendingRequest>,
    send_queue: VecDeque<PendingRequest>,
    event_queue: VecDeque<PendingRequest>,
    /// How many of `awaiting_reply` write Events.
    events_in_flight: usize,
    /// Requests to retry, by time and then in order of failure.
    retries: BTreeMap<(Time, u64), PendingRequest>,
    /// Objects whose existence is checked again, and when.
    unverified: VecDeque<(Time, ObjectKey)>,
    recorder: EventRecorder,
    metrics: RuntimeMetrics,
    options: RuntimeOptions,
    next_id: u64,
    started: bool,
    kinds_changed: bool,
    recent_errors: VecDeque<String>,
    watch_times: BTreeMap<Kind, WatchTimes>,
    /// Indexes of the controllers that watch a kind.
    controllers_by_kind: BTreeMap<Kind, Vec<usize>>,
}

/// When the last list and the last watch event of a kind arrived.
#[derive(Debug, Clone, Copy)]
struct WatchTimes {
    last_listed: Time,
    last_event: Time,
}

impl ControlLoop {
    /// A control loop for these controllers. `all` are the kinds that the server serves, for controllers that watch all kinds
    /// or kinds where they are served.
    #[must_use]
    pub fn new(controllers: Vec<Box<dyn Controller>>, all: &[Kind], options: RuntimeOptions) -> ControlLoop {
        let mut caches = Caches::default();
        let kinds = watched_kinds(&controllers, all);
        kinds.iter().for_each(|kind| caches.add_kind(kind));
        ControlLoop {
            caches,
            controllers_by_kind: controllers_by_kind(&controllers, &kinds),
            controllers,
            queue: WorkQueue::default(),
            in_flight: BTreeMap::new(),
            awaiting_reply: BTreeMap::new(),
            send_queue: VecDeque::new(),
            event_queue: VecDeque::new(),
            events_in_flight: 0,
            retries: BTreeMap::new(),
            unverified: VecDeque::new(),
            recorder: EventRecorder::default(),
            metrics: RuntimeMetrics::default(),
            options,
            next_id: 0,
            started: false,
            kinds_changed: false,
            recent_errors: VecDeque::new(),
            watch_times: BTreeMap::new(),
        }
    }

    /// Gives each controller its trigger; `bell` makes the one that feeds [`RuntimeInput::Triggered`] for this index.
    pub fn set_triggers(&mut self, trigger: impl Fn(usize) -> ExternalTrigger) {
        self.controllers.iter_mut().enumerate().for_each(|(index, it)| it.set_trigger(trigger(index)));
    }

    /// Observes one input and reconciles what is ready.
    pub fn handle(&mut self, input: RuntimeInput, now: Time) -> Vec<RuntimeOutput> {
        self.observe(input, now);
        self.reconcile_ready(now)
    }

    /// Observes one input without reconciling. Observing many inputs before [`ControlLoop::reconcile_ready`] reconciles each
    /// key once for all of them.
    pub fn observe(&mut self, input: RuntimeInput, now: Time) {
        self.queue.set_now(now);
        match input {
            RuntimeInput::Watched(kind, WatchBatch::Restarted(objects)) => {
                self.watch_times.insert(kind.clone(), WatchTimes { last_listed: now, last_event: now });
                self.caches.observe_revision(&kind, objects.iter().map(|it| it.revision).max().unwrap_or(0));
                let objects = objects.into_iter().filter(|it| self.passes_predicate(&kind, it)).collect();
                let RelistResult { changes, unverified } = self.caches.replace(&kind, objects);
                changes.iter().for_each(|change| self.dispatch_event(change, now));
                unverified.iter().for_each(|key| self.verify_exists(key));
            }
            RuntimeInput::Watched(kind, WatchBatch::Changes(changes)) => {
                if let Some(times) = self.watch_times.get_mut(&kind) {
                    times.last_event = now;
                }
                for change in changes {
                    let change = match change {
                        // For the caches, an object that no controller needs any more is a deleted one.
                        WatchChange::Applied(object) if !self.passes_predicate(&kind, &object) => {
                            WatchChange::Deleted(object)
                        }
                        other => other,
                    };
                    if let Some(change) = self.caches.apply_watch_change(&kind, change) {
                        self.dispatch_event(&change, now);
                    }
                }
            }
            RuntimeInput::Replied(id, results) => self.on_reply(id, results, now),
            RuntimeInput::Triggered(controller, key) => self.queue.add(WorkItem { controller, key }, None),
            RuntimeInput::Tick => {}
        }
    }

    /// Reconciles the keys that are ready, up to the bounds, and returns the effects to perform.
    pub fn reconcile_ready(&mut self, now: Time) -> Vec<RuntimeOutput> {
        let mut outputs = Vec::new();
        if std::mem::take(&mut self.kinds_changed) {
            outputs.push(RuntimeOutput::KindsChanged);
        }
        if !self.start_if_synced(now) {
            return outputs;
        }
        self.queue.promote_due(now);
        while let Some((_, key)) = self.unverified.pop_front_if(|(at, _)| *at <= now) {
            self.verify_exists(&key);
        }
        while let Some(due) = self.retries.first_entry().filter(|it| it.key().0 <= now) {
            self.send_queue.push_back(due.remove());
        }
        let mut remaining = RECONCILES_PER_ITERATION_MAX;
        loop {
            // Before each reconciliation: requests that are queued already take their slots first.
            self.send_pending(&mut outputs, now);
            if remaining == 0 || self.awaiting_reply.len() >= self.options.requests_in_flight_max {
                break;
            }
            let Some(item) = self.queue.pop() else { break };
            remaining -= 1;
            self.reconcile(&item, now);
        }
        self.metrics.queue_len = self.queue.ready_len() as u64;
        self.metrics.in_flight = self.awaiting_reply.len() as u64;
        outputs.extend(self.next_deadline(now).map(RuntimeOutput::WakeAt));
        outputs
    }

    /// The requests that controllers send at a graceful shutdown.
    pub fn on_shutdown(&mut self) -> Vec<ApiRequest> {
        let caches = &self.caches;
        self.controllers.iter_mut().flat_map(|it| it.on_shutdown(caches)).collect()
    }

    /// The caches of all watched kinds.
    #[must_use]
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// The controller of this type, if it supports [`Controller::as_any`].
    #[must_use]
    pub fn controller_of_type<T: 'static>(&self) -> Option<&T> {
        self.controllers.iter().find_map(|it| it.as_any()?.downcast_ref())
    }

    /// The metrics of the loop itself, without those of its controllers.
    #[must_use]
    pub fn metrics(&self) -> &RuntimeMetrics {
        &self.metrics
    }

    /// The metrics of the loop, its workqueues and its controllers at this time.
    #[must_use]
    pub fn collect_metrics(&self, now: Time) -> RuntimeMetrics {
        let mut metrics = self.metrics.clone();
        for (index, it) in self.controllers.iter().enumerate() {
            *metrics.workqueues.entry(it.metrics_name()).or_default() += &self.queue.metrics(index);
        }
        for item in self.in_flight.keys() {
            let name = self.controllers[item.controller].metrics_name();
            let age = self.queue.since(item).map_or(Duration::ZERO, |since| now.since(since));
            let work = metrics.workqueues.entry(name).or_default();
            work.active_workers += 1;
            work.unfinished_work += age;
            work.longest_running = work.longest_running.max(age);
        }
        self.controllers.iter().for_each(|it| it.collect_metrics(&mut metrics));
        metrics
    }

    /// The last [`RECENT_ERRORS_MAX`] failed requests as text, oldest first.
    pub fn recent_errors(&self) -> impl Iterator<Item = &str> {
        self.recent_errors.iter().map(String::as_str)
    }

    /// Whether all watched kinds were listed, as client-go's `HasSynced`.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.caches.synced()
    }

    /// Whether no key is ready and no request is queued, in flight or waiting for a retry.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let pending = self.send_queue.len() + self.event_queue.len() + self.retries.len();
        self.queue.ready_len() == 0 && self.awaiting_reply.is_empty() && pending == 0
    }

    /// Updates the kinds that the server serves; returns the kinds to watch from now on and the kinds to stop watching.
    pub fn update_served_kinds(&mut self, all: &[Kind], now: Time) -> (Vec<Kind>, Vec<Kind>) {
        let wanted = watched_kinds(&self.controllers, all);
        self.controllers_by_kind = controllers_by_kind(&self.controllers, &wanted);
        let new: Vec<Kind> =
            wanted.iter().filter(|kind| !self.caches.kinds().any(|k| k == *kind)).cloned().collect();
        let old: Vec<Kind> = self.caches.kinds().filter(|kind| !wanted.contains(kind)).cloned().collect();
        for kind in &new {
            self.caches.add_kind(kind);
        }
        for kind in &old {
            self.watch_times.remove(kind);
            for change in self.caches.remove_kind(kind) {
                self.dispatch_event(&change, now);
            }
        }
        (new, old)
    }

    /// Whether keys may be reconciled: the caches were synced once. Enqueues the initial requests at that moment.
    fn start_if_synced(&mut self, now: Time) -> bool {
        if !self.started && self.caches.synced() {
            self.started = true;
            for (controller, it) in self.controllers.iter_mut().enumerate() {
                for key in it.initial_requests(&self.caches, now) {
                    self.queue.add(WorkItem { controller, key }, None);
                }
            }
        }
        self.started
    }

    fn next_deadline(&self, now: Time) -> Option<Time> {
        let more =
            self.queue.ready_len() > 0 && self.awaiting_reply.len() < self.options.requests_in_flight_max;
        let verify = self.unverified.front().map(|(at, _)| *at);
        let retry = self.retries.first_key_value().map(|((at, _), _)| *at);
        if more { Some(now) } else { [self.queue.next_due(), verify, retry].into_iter().flatten().min() }
    }

    /// Whether any controller that watches the kind needs the object. A kind without controllers keeps everything.
    fn passes_predicate(&self, kind: &Kind, object: &ApiObject) -> bool {
        let needs_it = |index: &usize| self.controllers[*index].predicate(kind, &object.tree);
        self.controllers_by_kind.get(kind).is_none_or(|controllers| controllers.iter().any(needs_it))
    }

    fn dispatch_event(&mut self, change: &CacheChange, now: Time) {
        self.kinds_changed |= change.key.kind == kinds::CRDS;
        for (controller, it) in self.controllers.iter_mut().enumerate() {
            for request in it.map_event(&change.event(), &self.caches) {
                let at = (!request.after.is_zero()).then(|| now + request.after);
                self.queue.add(WorkItem { controller, key: request.key }, at);
            }
        }
    }

    fn reconcile(&mut self, item: &WorkItem, now: Time) {
        self.metrics.reconciles += 1;
        let result = self.controllers[item.controller].reconcile(&item.key, &self.caches, now);
        for key in result.enqueue {
            self.queue.add(WorkItem { controller: item.controller, key }, None);
        }
        let steps = result.steps.into();
        let in_flight = InFlight { steps, requeue_at: result.requeue_at, outstanding: 0, error: None };
        self.in_flight.insert(item.clone(), in_flight);
        self.advance(item, now);
    }

    /// Sends the next step of a reconciliation, or ends it.
    fn advance(&mut self, item: &WorkItem, now: Time) {
        loop {
            let current = self.in_flight.get_mut(item).expect("a key that advances is in flight");
            let Some(step) = current.steps.pop_front() else {
                let requeue_at = current.requeue_at;
                self.in_flight.remove(item);
                self.queue.done(item, requeue_at);
                return;
            };
            let requests = match step {
                Step::Event(event) => {
                    self.record_event(&event, now);
                    continue;
                }
                Step::Request(request) => vec![(Purpose::Step(item.clone()), RequestBatch::Single(request))],
                Step::Transaction(requests) if requests.is_empty() => continue,
                Step::Transaction(requests) => {
                    vec![(Purpose::Step(item.clone()), RequestBatch::Transaction(requests))]
                }
                Step::Parallel(requests) => requests
                    .into_iter()
                    .map(|request| (Purpose::Step(item.clone()), RequestBatch::Single(request)))
                    .collect(),
                Step::ParallelWithEvents(requests) => {
                    current.outstanding = requests.len();
                    let one = |(request, event)| PendingRequest {
                        event: Some(event),
                        ..PendingRequest::new(Purpose::Step(item.clone()), RequestBatch::Single(request))
                    };
                    self.send_queue.extend(requests.into_iter().map(one));
                    if current.outstanding == 0 { continue } else { return }
                }
                Step::Precondition(request, precondition) => {
                    vec![(Purpose::Precondition(item.clone(), precondition), RequestBatch::Single(request))]
                }
            };
            if requests.is_empty() {
                continue;
            }
            current.outstanding = requests.len();
            self.send_queue
                .extend(requests.into_iter().map(|(purpose, batch)| PendingRequest::new(purpose, batch)));
            return;
        }
    }

    fn record_event(&mut self, event: &Event, now: Time) {
        match self.recorder.record(event, now) {
            Some(request) if self.event_queue.len() < EVENT_QUEUE_MAX => {
                self.event_queue
                    .push_back(PendingRequest::new(Purpose::Event, RequestBatch::Single(request)));
            }
            _ => self.metrics.events_dropped += 1,
        }
    }

    /// Recreates Events that expired: the server deletes Events after an hour, so patching the count may find none.
    fn recreate_events(&mut self, batch: &RequestBatch, now: Time) {
        let creates = batch.as_slice().iter().filter_map(|request| self.recorder.recreate(request, now));
        let creates =
            creates.map(|request| PendingRequest::new(Purpose::Event, RequestBatch::Single(request)));
        self.event_queue.extend(creates);
    }

    fn send_pending(&mut self, outputs: &mut Vec<RuntimeOutput>, now: Time) {
        while self.awaiting_reply.len() < self.options.requests_in_flight_max {
            let may_send_event = self.events_in_flight < self.options.events_in_flight_max;
            let event = || if may_send_event { self.event_queue.pop_front() } else { None };
            // Requests of reconciliations come before Events: no step waits for an Event.
            let Some(mut pending) = self.send_queue.pop_front().or_else(event) else {
                return;
            };
            self.events_in_flight += usize::from(pending.is_event());
            pending.relists = self.relists_of(&pending.batch);
            pending.target_uids =
                pending.batch.as_slice().iter().map(|request| self.target_uid(request)).collect();
            pending.sent_at = now;
            let id = RequestId(self.next_id);
            self.next_id += 1;
            pending.batch.as_slice().iter().for_each(|request| self.metrics.observe_sent(request));
            outputs.push(RuntimeOutput::Send(id, pending.batch.clone()));
            self.awaiting_reply.insert(id, pending);
        }
    }

    fn on_reply(&mut self, id: RequestId, results: Vec<Result<ApiObject, ApiError>>, now: Time) {
        let Some(mut pending) = self.awaiting_reply.remove(&id) else {
            return;
        };
        self.events_in_flight -= usize::from(pending.is_event());
        let target_uids = std::mem::take(&mut pending.target_uids);
        for ((request, result), target_uid) in
            pending.batch.as_slice().to_vec().iter().zip(&results).zip(&target_uids)
        {
            self.observe_reply(request, result, target_uid.as_ref(), now);
        }
        if pending.relists != self.relists_of(&pending.batch) {
            // The kind was relisted before this reply arrived. The object in the reply may have been deleted before the list was
            // made, and then no watch event will ever say so: verify.
            let objects = pending.batch.as_slice().iter().zip(&results);
            let objects = objects.filter_map(|(request, result)| {
                Some(ObjectKey::of(&request.target.kind, &result.as_ref().ok()?.tree))
            });
            objects.collect::<Vec<_>>().iter().for_each(|key| self.verify_exists(key));
        }
        let object = results.first().and_then(|result| result.as_ref().ok()).cloned();
        let failed = results.into_iter().zip(pending.batch.as_slice());
        let failed =
            failed.filter_map(|(result, request)| Some((request.clone(), error_of(request, result)?)));
        // In a transaction the requests beside the failed one only answer `Conflict`: report the cause.
        let failed = failed.min_by_key(|(_, error)| matches!(error, ApiError::Conflict(_)));
        if let (Purpose::Step(item), Some((request, error))) = (&pending.purpose, &failed) {
            let event =
                self.controllers[item.controller].on_request_error(&item.key, request, error, &self.caches);
            if let Some(event) = event {
                self.record_event(&event, now);
            }
        }
        if let Some((request, error)) = &failed {
            self.remember_error(request, error);
            self.log_rejected(request, error);
        }
        let error = failed.map(|(_, error)| error);
        let is_conflict_check = matches!(pending.purpose, Purpose::ConflictCheck(..));
        if error.is_none()
            && !is_conflict_check
            && let Some(event) = pending.event.take()
        {
            self.record_event(&event, now);
        }
        self.metrics.request_errors += u64::from(error.is_some());
        if matches!(error, Some(ApiError::Indeterminate(_))) && self.may_retry(&pending) {
            return self.retry(pending, now);
        }
        match (pending.purpose, error) {
            (Purpose::Event, Some(ApiError::NotFound(_))) => self.recreate_events(&pending.batch, now),
            (Purpose::VerifyExists, Some(error)) if !matches!(error, ApiError::NotFound(_)) => {
                let keys = pending.batch.as_slice().iter();
                let keys = keys.map(|request| {
                    ObjectKey::new(&request.target.kind, &request.target.namespace, &request.target.name)
                });
                self.unverified.extend(keys.map(|key| (now + VERIFY_RETRY_INTERVAL, key)));
            }
            (Purpose::Event | Purpose::VerifyExists, _) => {}
            (Purpose::Step(item), Some(ApiError::AlreadyExists(_)))
                if is_retried_create(&pending.batch, pending.retries) =>
            {
                let RequestBatch::Single(create) = pending.batch else {
                    unreachable!("only a single request is checked for a conflict")
                };
                let get = ApiRequest { verb: RequestVerb::Get, ..create.clone() };
                let purpose = Purpose::ConflictCheck(item, create);
                self.send_queue.push_back(PendingRequest {
                    event: pending.event,
                    ..PendingRequest::new(purpose, RequestBatch::Single(get))
                });
            }
            (Purpose::Step(item), error) => self.on_request_done(&item, error, now),
            (Purpose::ConflictCheck(item, create), error) => {
                let error = error.or_else(|| owned_by_other(&create, object.as_ref()));
                if let (None, Some(event)) = (&error, &pending.event) {
                    self.record_event(event, now);
                }
                self.on_request_done(&item, error, now);
            }
            (Purpose::Precondition(item, precondition), error) => {
                let error = check_precondition(&precondition, object.as_ref(), error);
                self.on_request_done(&item, error, now);
            }
        }
    }

    /// Whether a request whose reply was lost is retried unchanged. A key that failed before gets one retry only: in an
    /// outage the workqueue's backoff bounds the number of requests.
    fn may_retry(&self, pending: &PendingRequest) -> bool {
        let failed = match &pending.purpose {
            Purpose::Step(item) | Purpose::Precondition(item, _) | Purpose::ConflictCheck(item, _) => {
                self.queue.has_failed(item)
            }
            Purpose::Event | Purpose::VerifyExists => false,
        };
        pending.retries < if failed { 1 } else { RETRIES_MAX }
    }

    fn retry(&mut self, mut pending: PendingRequest, now: Time) {
        self.metrics.retries += 1;
        pending.retries += 1;
        if pending.retries == 1 {
            return self.send_queue.push_back(pending);
        }
        let at = now + RETRY_BACKOFF * (1 << (pending.retries - 2));
        self.next_id += 1;
        self.retries.insert((at, self.next_id), pending);
    }

    /// Logs a write that the server rejects because of its content. A status that cannot be written shows in no condition, so
    /// the log and the metric are the only signs.
    fn log_rejected(&mut self, request: &ApiRequest, error: &ApiError) {
        if !self.metrics.observe_rejected(request, error) {
            return;
        }
        let (target, verb) = (&request.target, verb(request));
        tracing::error!(
            manager = %request.field_manager, verb, resource = %target.kind.plural, group = %target.kind.group, namespace = %target.namespace,
            name = %target.name, reason = %error, "write rejected by the API server"
        );
    }

    fn remember_error(&mut self, request: &ApiRequest, error: &ApiError) {
        if self.recent_errors.len() == RECENT_ERRORS_MAX {
            self.recent_errors.pop_front();
        }
        let target = &request.target;
        let text = format!(
            "{}: {} {}/{} {:?}: {error}",
            request.field_manager, target.kind.plural, target.namespace, target.name, target.subresource
        );
        self.recent_errors.push_back(text);
    }

    /// One outstanding request of a reconciliation is done. When it was the last of its step, the next step starts, or the key
    /// is retried with backoff if any of them failed.
    fn on_request_done(&mut self, item: &WorkItem, error: Option<ApiError>, now: Time) {
        let current = self.in_flight.get_mut(item).expect("a request belongs to a reconciliation in flight");
        current.outstanding -= 1;
        current.error = current.error.take().or(error);
        if current.outstanding > 0 {
            return;
        }
        match current.error.take() {
            Some(error) => {
                self.in_flight.remove(item);
                self.queue.failed(item, &error, now);
                self.apply_error_policy(item, now);
            }
            None => self.advance(item, now),
        }
    }

    fn apply_error_policy(&mut self, item: &WorkItem, now: Time) {
        let requeue = self.controllers[item.controller].error_policy(&item.key, &self.caches, now);
        // `add` keeps the earlier of this time and the backoff.
        if let Some(by) = requeue.no_later_than {
            self.queue.add(item.clone(), Some(by));
        }
        for key in requeue.enqueue {
            self.queue.add(WorkItem { controller: item.controller, key }, None);
        }
        requeue.events.iter().for_each(|event| self.record_event(event, now));
    }

    /// Reads an object to find out whether it still exists; `observe_reply` drops it from the cache if not.
    fn verify_exists(&mut self, key: &ObjectKey) {
        let Some(object) = self.caches.find(key) else { return };
        let preconditions = Preconditions { uid: Some(meta::uid(&object.tree)), revision: None };
        let request = ApiRequest {
            field_manager: managers::LOOP.clone(),
            target: key.target(Subresource::Main),
            preconditions,
            verb: RequestVerb::Get,
        };
        self.send_queue.push_back(PendingRequest::new(Purpose::VerifyExists, RequestBatch::Single(request)));
    }

    fn relists_of(&self, batch: &RequestBatch) -> u64 {
        batch.as_slice().first().map_or(0, |request| self.caches.relists(&request.target.kind))
    }

    fn target_uid(&self, request: &ApiRequest) -> Option<Uid> {
        let cached =
            || self.caches.get(&request.target.kind, &request.target.namespace, &request.target.name);
        request.preconditions.uid.clone().or_else(|| cached().map(|it| meta::uid(&it.tree)))
    }

    /// Drops the target of a request from the cache, unless the name has been reused: an object with another UID that was
    /// created while the request was in flight would be lost, since no watch event repeats its creation.
    fn drop_if_deleted(&mut self, request: &ApiRequest, target_uid: Option<&Uid>) -> Option<CacheChange> {
        let cached =
            self.caches.get(&request.target.kind, &request.target.namespace, &request.target.name)?.clone();
        let is_same = target_uid.is_some_and(|uid| *uid == meta::uid(&cached.tree));
        if is_same { self.caches.apply_delete_reply(&request.target.kind, &cached) } else { None }
    }

    /// Applies a reply to the cache, so that the next reconciliation sees the result of the last one before the watch does.
    fn observe_reply(
        &mut self,
        request: &ApiRequest,
        result: &Result<ApiObject, ApiError>,
        target_uid: Option<&Uid>,
        now: Time,
    ) {
        let kind = &request.target.kind;
        let change = match result {
            // A delete answered with a bare `Status`: the object is deleted.
            Ok(object)
                if matches!(request.verb, RequestVerb::Delete { .. })
                    && !is_target_object(request, object) =>
            {
                self.drop_if_deleted(request, target_uid)
            }
            Ok(object) if !is_target_object(request, object) => None,
            Ok(object) if is_final_delete(request, object) || !self.passes_predicate(kind, object) => {
                self.caches.apply_delete_reply(kind, object)
            }
            Ok(object) => self.caches.apply_reply(kind, object.clone()),
            Err(ApiError::NotFound(_))
                if !matches!(request.verb, RequestVerb::Create(_))
                    && request.target.subresource == Subresource::Main =>
            {
                self.drop_if_deleted(request, target_uid)
            }
            Err(_) => None,
        };
        if let Some(change) = change {
            self.dispatch_event(&change, now);
        }
    }
}

/// The error of a precondition that does not hold; its key is retried.
fn check_precondition(
    precondition: &Precondition,
    live: Option<&ApiObject>,
    error: Option<ApiError>,
) -> Option<ApiError> {
    let ok = match (precondition, &error) {
        (
            Precondition::Deleted(_) | Precondition::NotFound | Precondition::ClaimReleased { .. },
            Some(ApiError::NotFound(_)),
        ) => true,
        (Precondition::ClaimReleased { uid, volume }, None) => live.is_some_and(|live| {
            let named = live.tree.text_at(claim::VOLUME);
            meta::uid(&live.tree) != *uid || (!named.is_empty() && named != *volume)
        }),
        (Precondition::Deleted(uid), None) => live.is_some_and(|live| meta::uid(&live.tree) != *uid),
        (Precondition::Unchanged(revision), None) => live.is_some_and(|live| live.revision == *revision),
        _ => false,
    };
    let changed =
        || ApiError::Conflict("live state differs from the snapshot of the reconciliation".to_owned());
    if ok { None } else { error.or_else(|| Some(changed())) }
}

/// The error of a create whose name is taken, unless the object has the same controller owner reference: then the first try
/// of the create made it.
fn owned_by_other(create: &ApiRequest, live: Option<&ApiObject>) -> Option<ApiError> {
    let RequestVerb::Create(tree) = &create.verb else { return None };
    let same = live.is_some_and(|live| owner_uid(&live.tree) == owner_uid(tree));
    (!same).then(|| ApiError::AlreadyExists(format!("{} has another owner", create.target.name)))
}

fn owner_uid(tree: &muster_tree::Tree) -> Option<muster_tree::Text> {
    meta::controller_of(tree).map(|owner| owner.uid)
}

/// Whether `AlreadyExists` may be the work of an earlier try of the same create.
fn is_retried_create(batch: &RequestBatch, retries: u32) -> bool {
    retries > 0 && matches!(batch, RequestBatch::Single(ApiRequest { verb: RequestVerb::Create(_), .. }))
}

/// The error of a reply. A delete that finds nothing succeeded.
fn error_of(request: &ApiRequest, result: Result<ApiObject, ApiError>) -> Option<ApiError> {
    match (result, &request.verb) {
        (Err(ApiError::NotFound(_)), RequestVerb::Delete { .. }) => None,
        (result, _) => result.err(),
    }
}

/// Whether the reply is the target object: binding, eviction, scale and delete may answer with another kind.
fn is_target_object(request: &ApiRequest, object: &ApiObject) -> bool {
    let other = matches!(object.tree.str_at(&["kind"]), "Status" | "Binding" | "Eviction" | "Scale");
    !other && !meta::uid(&object.tree).is_empty() && meta::name(&object.tree) == request.target.name
}

/// Whether the object in a reply is deleted for good: it has a deletion timestamp (or was deleted by this request), no
/// finalizer and no grace period. A Namespace also has finalizers in its spec.
fn is_final_delete(request: &ApiRequest, object: &ApiObject) -> bool {
    let tree = &object.tree;
    let deleted =
        matches!(request.verb, RequestVerb::Delete { .. }) || meta::deletion_timestamp(tree).is_some();
    let held = meta::has_finalizers(tree) || meta::deletion_grace_secs(tree) > 0;
    let held = held
        || (request.target.kind == kinds::NAMESPACES && !tree.items_at(namespace::FINALIZERS).is_empty());
    let is_read = matches!(request.verb, RequestVerb::Get);
    deleted && !held && !is_read
}

/// The kinds that these controllers watch. Events are served under two groups with one storage: one watch is enough.
fn watched_kinds(controllers: &[Box<dyn Controller>], all: &[Kind]) -> Vec<Kind> {
    let mut wanted: Vec<Kind> = controllers.iter().flat_map(|it| it.kinds()).collect();
    let if_served = controllers.iter().flat_map(|it| it.kinds_if_served());
    wanted.extend(if_served.filter(|kind| all.contains(kind)));
    if controllers.iter().any(|it| it.watches_all_kinds()) {
        wanted.extend(all.iter().filter(|kind| kind.group != "events.k8s.io").cloned());
    }
    wanted.sort();
    wanted.dedup();
    wanted
}

fn controllers_by_kind(controllers: &[Box<dyn Controller>], kinds: &[Kind]) -> BTreeMap<Kind, Vec<usize>> {
    let watches = |it: &dyn Controller, kind: &Kind| {
        it.watches_all_kinds() || it.kinds().contains(kind) || it.kinds_if_served().contains(kind)
    };
    let of = |kind: &Kind| {
        let all = controllers.iter().enumerate();
        all.filter(|(_, it)| watches(&***it, kind)).map(|(index, _)| index).collect()
    };
    kinds.iter().map(|kind| (kind.clone(), of(kind))).collect()
}
