//! The thread that drives a control loop in production, over any implementation of the [`Api`] port.
//!
//! It drains the watches, sends the requests of the loop, feeds replies back and sleeps in between. All decisions are the
//! loop's.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use muster_api::client::{Api, ApiError, ApiObject, Kind, Watcher};
use muster_api::environment::Clock;
use muster_tree::Tree;

use crate::controller::{Controller, ExternalTrigger, ObjectKey};
use crate::metrics::RuntimeMetrics;
use crate::runtime::{ControlLoop, RequestBatch, RequestId, RuntimeInput, RuntimeOptions, RuntimeOutput};

/// The longest sleep: a jump of the clock is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// Messages observed in one iteration, before keys are reconciled.
const MESSAGES_PER_ITERATION_MAX: usize = 4096;
/// How long a graceful shutdown waits for the reply to each of its last requests.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A busy loop publishes its health once in so many iterations: it copies all metrics.
const ITERATIONS_PER_HEALTH: u64 = 64;

enum Message {
    Replied(RequestId, Vec<Result<ApiObject, ApiError>>),
    WatchReady(Kind),
    Triggered(usize, ObjectKey),
    /// A debug dump is requested.
    Dump(Sender<Tree>),
    Stop,
}

/// The health of a control loop, as of its last publication.
#[derive(Debug, Clone, Default)]
pub struct RuntimeHealth {
    /// Whether its thread runs.
    pub running: bool,
    /// Whether all watched kinds were listed.
    pub synced: bool,
    /// Iterations so far; a number that does not grow for long means that the loop is stuck.
    pub iterations: u64,
    /// The metrics of the loop and its controllers.
    pub metrics: RuntimeMetrics,
}

impl RuntimeHealth {
    /// The health of two control loops as one: running and synced only if both are, metrics added.
    #[must_use]
    pub fn merge(mut self, other: &RuntimeHealth) -> RuntimeHealth {
        self.running &= other.running;
        self.synced &= other.synced;
        self.iterations += other.iterations;
        self.metrics += &other.metrics;
        self
    }
}

/// Callbacks of a runtime to the code that started it; each is called at most once.
pub struct RuntimeCallbacks {
    /// All watched kinds were listed.
    pub ready: Box<dyn FnOnce() + Send>,
    /// The thread panicked: its controllers no longer run.
    pub crashed: Box<dyn FnOnce() + Send>,
}

impl RuntimeCallbacks {
    /// Callbacks for each of `count` runtimes: the group is ready when the last one is, and crashed when the first one is.
    fn split(self, count: usize) -> impl Iterator<Item = RuntimeCallbacks> {
        let ready = Arc::new(Mutex::new((count, Some(self.ready))));
        let crashed = Arc::new(Mutex::new(Some(self.crashed)));
        std::iter::repeat_with(move || {
            let (ready, crashed) = (ready.clone(), crashed.clone());
            RuntimeCallbacks {
                ready: Box::new(move || {
                    let (left, tell) = &mut *ready.lock().unwrap_or_else(PoisonError::into_inner);
                    *left -= 1;
                    if let Some(tell) = tell.take_if(|_| *left == 0) {
                        tell();
                    }
                }),
                crashed: Box::new(move || {
                    if let Some(tell) = crashed.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        tell();
                    }
                }),
            }
        })
        .take(count)
    }
}

/// Control loops on threads of their own with common callbacks and health.
pub struct RuntimeGroup(Vec<ControllerRuntime>);

impl RuntimeGroup {
    /// Starts a runtime for each group of controllers.
    ///
    /// # Errors
    ///
    /// The operating system cannot create a thread.
    pub fn start(
        api: &Arc<dyn Api>,
        clock: &Arc<dyn Clock>,
        groups: Vec<Vec<Box<dyn Controller>>>,
        options: &RuntimeOptions,
        callbacks: RuntimeCallbacks,
    ) -> std::io::Result<RuntimeGroup> {
        let callbacks = callbacks.split(groups.len());
        let started = groups.into_iter().zip(callbacks).map(|(controllers, callbacks)| {
            ControllerRuntime::start(api.clone(), clock.clone(), controllers, options.clone(), callbacks)
        });
        started.collect::<Result<_, _>>().map(RuntimeGroup)
    }

    /// A function that returns the common health, for use on other threads: metrics and probes.
    pub fn health_reader(&self) -> impl Fn() -> RuntimeHealth + Send + Sync + 'static {
        let all: Vec<_> = self.0.iter().map(|runtime| runtime.health.clone()).collect();
        move || {
            let health = all.iter().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).clone());
            health.reduce(|all, one| all.merge(&one)).unwrap_or_default()
        }
    }

    /// Stops the threads and waits for them. Calls under way may still happen.
    pub fn stop(self) {
        self.0.into_iter().for_each(ControllerRuntime::stop);
    }
}

/// A control loop on a thread of its own. Dropping it stops the thread.
pub struct ControllerRuntime {
    to_loop: Sender<Message>,
    health: Arc<Mutex<RuntimeHealth>>,
    thread: Option<JoinHandle<()>>,
}

impl ControllerRuntime {
    /// Starts a thread that drives these controllers over `api`.
    ///
    /// # Errors
    ///
    /// The operating system cannot create a thread.
    pub fn start(
        api: Arc<dyn Api>,
        clock: Arc<dyn Clock>,
        controllers: Vec<Box<dyn Controller>>,
        options: RuntimeOptions,
        callbacks: RuntimeCallbacks,
    ) -> std::io::Result<ControllerRuntime> {
        let RuntimeCallbacks { ready, crashed } = callbacks;
        let (to_loop, inbox) = channel();
        let health = Arc::new(Mutex::new(RuntimeHealth { running: true, ..RuntimeHealth::default() }));
        let mut it = ControlLoop::new(controllers, &api.capabilities().kinds, options);
        it.set_triggers(|number| external_trigger(number, &to_loop));
        let driver = Driver {
            it,
            api,
            clock,
            watchers: BTreeMap::new(),
            to_loop: to_loop.clone(),
            health: health.clone(),
            ready: Some(ready),
        };
        let at_end = health.clone();
        let body = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| driver.run(&inbox)));
            at_end.lock().unwrap_or_else(PoisonError::into_inner).running = false;
            if ended.is_err() {
                crashed();
            }
        };
        let thread = std::thread::Builder::new().name("controllers".to_owned()).spawn(body)?;
        Ok(ControllerRuntime { to_loop, health, thread: Some(thread) })
    }

    /// The health as of the last publication.
    #[must_use]
    pub fn health(&self) -> RuntimeHealth {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A function that returns the health, for use on other threads: metrics and probes.
    pub fn health_reader(&self) -> impl Fn() -> RuntimeHealth + Send + Sync + 'static {
        let health = self.health.clone();
        move || health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An inspector of this runtime, for the debug endpoint.
    #[must_use]
    pub fn window(&self) -> Inspector {
        Inspector { to_loop: self.to_loop.clone(), health: self.health.clone() }
    }

    /// Stops the thread and waits for it. Calls under way may still happen.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.to_loop.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for ControllerRuntime {
    fn drop(&mut self) {
        self.end();
    }
}

/// Inspects a running control loop. The dump is made on demand, by the thread of the loop.
#[derive(Clone)]
pub struct Inspector {
    to_loop: Sender<Message>,
    health: Arc<Mutex<RuntimeHealth>>,
}

impl Inspector {
    /// An inspector with a fixed health and no loop behind it, for tests.
    #[must_use]
    pub fn fixed(health: RuntimeHealth) -> Inspector {
        Inspector { to_loop: channel().0, health: Arc::new(Mutex::new(health)) }
    }

    /// The health as of the last publication.
    #[must_use]
    pub fn health(&self) -> RuntimeHealth {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The debug dump, made between two iterations; `None` when that takes longer than `within`. Blocks.
    #[must_use]
    pub fn dump(&self, within: Duration) -> Option<Tree> {
        let (sender, receiver) = channel();
        self.to_loop.send(Message::Dump(sender)).ok()?;
        receiver.recv_timeout(within).ok()
    }
}

/// The trigger of the controller with this index; it does nothing once the loop has ended.
fn external_trigger(number: usize, to_loop: &Sender<Message>) -> ExternalTrigger {
    let to_loop = to_loop.clone();
    Arc::new(move |key| {
        let _ = to_loop.send(Message::Triggered(number, key));
    })
}

struct Driver {
    it: ControlLoop,
    api: Arc<dyn Api>,
    clock: Arc<dyn Clock>,
    watchers: BTreeMap<Kind, Box<dyn Watcher>>,
    to_loop: Sender<Message>,
    health: Arc<Mutex<RuntimeHealth>>,
    ready: Option<Box<dyn FnOnce() + Send>>,
}

impl Driver {
    fn run(mut self, inbox: &Receiver<Message>) {
        let kinds: Vec<Kind> = self.it.caches().kinds().cloned().collect();
        kinds.iter().for_each(|kind| self.watch(kind));
        let mut sleep = Duration::ZERO;
        for iteration in 0_u64.. {
            if !self.take_messages(inbox, sleep) {
                break;
            }
            let outputs = self.it.reconcile_ready(self.clock.now());
            sleep = self.perform(outputs);
            if let Some(ready) = self.ready.take_if(|_| self.it.synced()) {
                ready();
            }
            if !sleep.is_zero() || iteration.is_multiple_of(ITERATIONS_PER_HEALTH) {
                self.publish_health(iteration);
            }
        }
        self.send_shutdown_requests();
    }

    /// Observes the messages that have arrived, sleeping at most `sleep` for the first; `false` at shutdown.
    fn take_messages(&mut self, inbox: &Receiver<Message>, sleep: Duration) -> bool {
        let first = match inbox.recv_timeout(sleep) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        // Messages beyond the bound stay in the inbox: dropping a `Ready` would stop the watch of its kind for ever, since a
        // watch announces the next batch only after it was drained.
        for message in first.into_iter().chain(inbox.try_iter().take(MESSAGES_PER_ITERATION_MAX)) {
            match message {
                Message::Stop => return false,
                Message::Replied(id, results) => {
                    self.it.observe(RuntimeInput::Replied(id, results), self.clock.now());
                }
                Message::WatchReady(kind) => self.drain_watch(&kind),
                Message::Triggered(controller, key) => {
                    self.it.observe(RuntimeInput::Triggered(controller, key), self.clock.now());
                }
                Message::Dump(to) => {
                    // The requester may have timed out.
                    let _ = to.send(self.it.dump(self.clock.now()));
                }
            }
        }
        true
    }

    /// Performs the effects of the loop; returns how long to sleep.
    fn perform(&mut self, outputs: Vec<RuntimeOutput>) -> Duration {
        let mut sleep = SLEEP_MAX;
        for output in outputs {
            match output {
                RuntimeOutput::Send(id, calls) => self.send(id, calls),
                RuntimeOutput::WakeAt(at) => sleep = sleep.min(at.since(self.clock.now())),
                RuntimeOutput::KindsChanged => {
                    self.refresh_served_kinds();
                    sleep = Duration::ZERO;
                }
            }
        }
        sleep
    }

    fn send_shutdown_requests(&mut self) {
        let (replied, replies) = channel();
        let calls = self.it.on_shutdown();
        let count = calls.len();
        for call in calls {
            let replied = replied.clone();
            // Errors are ignored: no controller is left to retry.
            self.api.send(
                call,
                Box::new(move |_| {
                    let _ = replied.send(());
                }),
            );
        }
        for _ in 0..count {
            if replies.recv_timeout(SHUTDOWN_TIMEOUT).is_err() {
                return;
            }
        }
    }

    fn send(&self, id: RequestId, calls: RequestBatch) {
        let to_loop = self.to_loop.clone();
        match calls {
            RequestBatch::Single(call) => self.api.send(
                call,
                Box::new(move |result| {
                    let _ = to_loop.send(Message::Replied(id, vec![result]));
                }),
            ),
            RequestBatch::Transaction(calls) => self.api.send_transaction(
                calls,
                Box::new(move |results| {
                    let _ = to_loop.send(Message::Replied(id, results));
                }),
            ),
        }
    }

    fn refresh_served_kinds(&mut self) {
        let (new, old) = self.it.update_served_kinds(&self.api.capabilities().kinds, self.clock.now());
        old.iter().for_each(|kind| {
            self.watchers.remove(kind);
        });
        new.iter().for_each(|kind| self.watch(kind));
    }

    fn watch(&mut self, kind: &Kind) {
        self.watchers.insert(kind.clone(), self.api.watch(kind));
        self.drain_watch(kind);
    }

    /// Observes all batches of a kind, then registers for a notification of the next one.
    fn drain_watch(&mut self, kind: &Kind) {
        let Some(watcher) = self.watchers.get_mut(kind) else {
            return;
        };
        while let Some(batch) = watcher.try_next() {
            self.it.observe(RuntimeInput::Watched(kind.clone(), batch), self.clock.now());
        }
        let (to_loop, kind) = (self.to_loop.clone(), kind.clone());
        watcher.notify_when_ready(Box::new(move || {
            let _ = to_loop.send(Message::WatchReady(kind));
        }));
    }

    fn publish_health(&mut self, iterations: u64) {
        let counters = self.it.collect_metrics(self.clock.now());
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.synced = self.it.synced();
        (health.iterations, health.metrics) = (iterations, counters);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use muster_api::client::{ApiCapabilities, ApiError, ApiObject, ApiRequest, ReplyCallback, WatchBatch};
    use muster_api::time::Time;

    use crate::cache::{Caches, WatchEvent};
    use crate::controller::{ReconcileRequest, Reconciled};

    use super::*;

    /// An API without objects; counts how often a watch was polled.
    struct EmptyApi(Arc<AtomicUsize>);

    impl Watcher for EmptyApi {
        fn try_next(&mut self) -> Option<WatchBatch> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }

        fn notify_when_ready(&mut self, _: Box<dyn FnOnce() + Send>) {}
    }

    impl Api for EmptyApi {
        fn send(&self, _: ApiRequest, _: ReplyCallback<Result<ApiObject, ApiError>>) {}

        fn send_transaction(&self, _: Vec<ApiRequest>, _: ReplyCallback<Vec<Result<ApiObject, ApiError>>>) {}

        fn watch(&self, _: &Kind) -> Box<dyn Watcher> {
            Box::new(EmptyApi(self.0.clone()))
        }

        fn capabilities(&self) -> ApiCapabilities {
            ApiCapabilities { atomic: true, kinds: Vec::new() }
        }
    }

    impl Clock for EmptyApi {
        fn now(&self) -> Time {
            Time(0)
        }
    }

    /// Panics when the loop starts.
    struct PanickingController;

    impl Controller for PanickingController {
        fn name(&self) -> &'static str {
            "fragile"
        }

        fn kinds(&self) -> Vec<Kind> {
            Vec::new()
        }

        fn map_event(&mut self, _: &WatchEvent<'_>, _: &Caches) -> Vec<ReconcileRequest> {
            Vec::new()
        }

        fn initial_requests(&mut self, _: &Caches, _: Time) -> Vec<ObjectKey> {
            panic!("the test wants it so")
        }

        fn reconcile(&mut self, _: &ObjectKey, _: &Caches, _: Time) -> Reconciled {
            Reconciled::done()
        }
    }

    #[test]
    fn a_panic_is_reported_and_visible_in_the_health() {
        let api = Arc::new(EmptyApi(Arc::default()));
        let (crash, crashed) = channel();
        let callbacks = RuntimeCallbacks {
            ready: Box::new(|| {}),
            crashed: Box::new(move || crash.send(()).expect("the test waits")),
        };
        let runtime = ControllerRuntime::start(
            api.clone(),
            api,
            vec![Box::new(PanickingController)],
            RuntimeOptions::default(),
            callbacks,
        )
        .unwrap();
        crashed.recv_timeout(Duration::from_secs(60)).expect("the crash is reported");
        assert!(!runtime.health().running);
        runtime.stop();
    }

    #[test]
    fn callbacks_of_a_group_are_called_once() {
        let count = || Arc::new(AtomicUsize::new(0));
        let (ready, crashed) = (count(), count());
        let counting = |what: &Arc<AtomicUsize>| {
            let what = what.clone();
            Box::new(move || _ = what.fetch_add(1, Ordering::Relaxed))
        };
        let callbacks = RuntimeCallbacks { ready: counting(&ready), crashed: counting(&crashed) };
        let counts = || (ready.load(Ordering::Relaxed), crashed.load(Ordering::Relaxed));
        let [first, second]: [RuntimeCallbacks; 2] =
            callbacks.split(2).collect::<Vec<_>>().try_into().ok().unwrap();
        (first.ready)();
        assert_eq!(counts(), (0, 0), "one of two");
        (second.ready)();
        assert_eq!(counts(), (1, 0), "both");
        (first.crashed)();
        (second.crashed)();
        assert_eq!(counts(), (1, 1), "the first crash counts");
    }

    #[test]
    fn no_watch_notification_is_lost_when_more_arrive_than_one_iteration_takes() {
        let polls = Arc::new(AtomicUsize::new(0));
        let (to_loop, inbox) = channel();
        let mut driver = Driver {
            it: ControlLoop::new(Vec::new(), &[], RuntimeOptions::default()),
            api: Arc::new(EmptyApi(polls.clone())),
            clock: Arc::new(EmptyApi(polls.clone())),
            watchers: BTreeMap::new(),
            to_loop: to_loop.clone(),
            health: Arc::default(),
            ready: None,
        };
        let kind = muster_api::kinds::JOBS.clone();
        driver.watch(&kind);
        let sent = MESSAGES_PER_ITERATION_MAX * 2 + 100;
        for _ in 0..sent {
            to_loop.send(Message::WatchReady(kind.clone())).unwrap();
        }
        for _ in 0..3 {
            assert!(driver.take_messages(&inbox, Duration::ZERO));
        }
        assert_eq!(
            polls.load(Ordering::Relaxed),
            sent + 1,
            "each notification polls once, and starting the watch polls once"
        );
    }
}
