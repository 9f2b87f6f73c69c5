//! The thread that drives a loop in production, over any maker of the `Api` port.
//!
//! It pulls what is followed, sends what the loop wants sent, hands replies back, and sleeps in between. All
//! decisions are the loop's.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use muster_api::port::{Api, Follow, Kind, Object, Refusal};
use muster_api::ports::Clock;
use muster_tree::Tree;

use crate::counters::Counters;
use crate::loops::{CallId, Calls, Input, Loop, LoopOptions, Output};
use crate::plan::{Controller, Doorbell, Key};

/// The longest sleep: a clock that jumps is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// Messages taken in before the loop has its turn.
const MESSAGES_PER_TURN_MAX: usize = 4096;
/// How long an orderly end waits for the server to hear the farewell.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// A busy loop tells how it is once in so many turns: many counters are copied for it.
const TURNS_PER_HEALTH: u64 = 64;

enum Message {
    Replied(CallId, Vec<Result<Object, Refusal>>),
    Ready(Kind),
    Rung(usize, Key),
    /// Somebody wants to see everything.
    Shown(Sender<Tree>),
    Stop,
}

/// How a shell is, at its last pause.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Whether its thread runs.
    pub running: bool,
    /// Whether all caches have been filled.
    pub synced: bool,
    /// How often its loop has had a turn: a number that stands still for long is a loop that is stuck.
    pub turns: u64,
    /// What its loop has counted.
    pub counters: Counters,
}

impl Health {
    /// How two shells are together.
    #[must_use]
    pub fn and(mut self, other: &Health) -> Health {
        self.running &= other.running;
        self.synced &= other.synced;
        self.turns += other.turns;
        self.counters += &other.counters;
        self
    }
}

/// What a shell tells whoever started it, each at most once.
pub struct Tidings {
    /// All caches are filled.
    pub ready: Box<dyn FnOnce() + Send>,
    /// The thread has ended by a panic: nothing is controlled any more.
    pub crashed: Box<dyn FnOnce() + Send>,
}

impl Tidings {
    /// For each of `count` shells: all are ready when the last one is, and have crashed when the first one has.
    fn among(self, count: usize) -> impl Iterator<Item = Tidings> {
        let ready = Arc::new(Mutex::new((count, Some(self.ready))));
        let crashed = Arc::new(Mutex::new(Some(self.crashed)));
        std::iter::repeat_with(move || {
            let (ready, crashed) = (ready.clone(), crashed.clone());
            Tidings {
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

/// Loops that run side by side and are one to whoever started them.
pub struct Shells(Vec<Shell>);

impl Shells {
    /// Starts a shell for each group of controllers.
    ///
    /// # Errors
    ///
    /// The system refuses to give a thread.
    pub fn start(
        api: &Arc<dyn Api>,
        clock: &Arc<dyn Clock>,
        groups: Vec<Vec<Box<dyn Controller>>>,
        options: &LoopOptions,
        tidings: Tidings,
    ) -> std::io::Result<Shells> {
        let tidings = tidings.among(groups.len());
        let started = groups.into_iter().zip(tidings).map(|(controllers, tidings)| {
            Shell::start(api.clone(), clock.clone(), controllers, options.clone(), tidings)
        });
        started.collect::<Result<_, _>>().map(Shells)
    }

    /// How they are together, for somebody who asks later and from elsewhere: metrics.
    pub fn asked(&self) -> impl Fn() -> Health + Send + Sync + 'static {
        let all: Vec<_> = self.0.iter().map(|shell| shell.health.clone()).collect();
        move || {
            let told = all.iter().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).clone());
            told.reduce(|all, one| all.and(&one)).unwrap_or_default()
        }
    }

    /// Stops the threads and waits for them. Calls under way may still happen.
    pub fn stop(self) {
        self.0.into_iter().for_each(Shell::stop);
    }
}

/// A running loop.
pub struct Shell {
    to_loop: Sender<Message>,
    health: Arc<Mutex<Health>>,
    thread: Option<JoinHandle<()>>,
}

impl Shell {
    /// Starts a thread that drives these controllers over `api`.
    ///
    /// # Errors
    ///
    /// The system refuses to give a thread.
    pub fn start(
        api: Arc<dyn Api>,
        clock: Arc<dyn Clock>,
        controllers: Vec<Box<dyn Controller>>,
        options: LoopOptions,
        tidings: Tidings,
    ) -> std::io::Result<Shell> {
        let Tidings { ready, crashed } = tidings;
        let (to_loop, inbox) = channel();
        let health = Arc::new(Mutex::new(Health { running: true, ..Health::default() }));
        let mut it = Loop::new(controllers, &api.abilities().kinds, options);
        it.hang_bells(|number| doorbell(number, &to_loop));
        let driver = Driver {
            it,
            api,
            clock,
            follows: BTreeMap::new(),
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
        Ok(Shell { to_loop, health, thread: Some(thread) })
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How it is, for somebody who asks later and from elsewhere.
    pub fn asked(&self) -> impl Fn() -> Health + Send + Sync + 'static {
        let health = self.health.clone();
        move || health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A way to look at it, for somebody elsewhere.
    #[must_use]
    pub fn window(&self) -> Window {
        Window { to_loop: self.to_loop.clone(), health: self.health.clone() }
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

impl Drop for Shell {
    fn drop(&mut self) {
        self.end();
    }
}

/// Shows a loop to whoever looks; nothing is made ready for him before he does.
#[derive(Clone)]
pub struct Window {
    to_loop: Sender<Message>,
    health: Arc<Mutex<Health>>,
}

impl Window {
    /// One through which this is seen, and no loop: for tests of whoever looks.
    #[must_use]
    pub fn painted(health: Health) -> Window {
        Window { to_loop: channel().0, health: Arc::new(Mutex::new(health)) }
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything in it, as its thread tells between two turns; `None` when that takes longer than `within`. Waits.
    #[must_use]
    pub fn look(&self, within: Duration) -> Option<Tree> {
        let (show, shown) = channel();
        self.to_loop.send(Message::Shown(show)).ok()?;
        shown.recv_timeout(within).ok()
    }
}

/// A bell of the controller with this number. Ringing after the end is fine.
fn doorbell(number: usize, to_loop: &Sender<Message>) -> Doorbell {
    let to_loop = to_loop.clone();
    Arc::new(move |key| {
        let _ = to_loop.send(Message::Rung(number, key));
    })
}

struct Driver {
    it: Loop,
    api: Arc<dyn Api>,
    clock: Arc<dyn Clock>,
    follows: BTreeMap<Kind, Box<dyn Follow>>,
    to_loop: Sender<Message>,
    health: Arc<Mutex<Health>>,
    ready: Option<Box<dyn FnOnce() + Send>>,
}

impl Driver {
    fn run(mut self, inbox: &Receiver<Message>) {
        let kinds: Vec<Kind> = self.it.caches().kinds().cloned().collect();
        kinds.iter().for_each(|kind| self.follow(kind));
        let mut sleep = Duration::ZERO;
        for turn in 0_u64.. {
            if !self.take_messages(inbox, sleep) {
                break;
            }
            let outputs = self.it.turn(self.clock.now());
            sleep = self.perform(outputs);
            if let Some(ready) = self.ready.take_if(|_| self.it.synced()) {
                ready();
            }
            if !sleep.is_zero() || turn.is_multiple_of(TURNS_PER_HEALTH) {
                self.tell_health(turn);
            }
        }
        self.say_farewell();
    }

    /// Takes in what has come, sleeping at most `sleep` for the first; `false` when it is time to stop.
    fn take_messages(&mut self, inbox: &Receiver<Message>, sleep: Duration) -> bool {
        let first = match inbox.recv_timeout(sleep) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        // What is not taken in this turn stays in the inbox: a lost wake-up would leave a kind unwatched for ever.
        for message in first.into_iter().chain(inbox.try_iter().take(MESSAGES_PER_TURN_MAX)) {
            match message {
                Message::Stop => return false,
                Message::Replied(id, results) => {
                    self.it.take(Input::Replied(id, results), self.clock.now());
                }
                Message::Ready(kind) => self.pull(&kind),
                Message::Rung(controller, key) => {
                    self.it.take(Input::Rung(controller, key), self.clock.now());
                }
                Message::Shown(to) => {
                    // Whoever has gone meanwhile needs no answer.
                    let _ = to.send(self.it.dump(self.clock.now()));
                }
            }
        }
        true
    }

    /// Performs what the loop wants; returns how long to sleep.
    fn perform(&mut self, outputs: Vec<Output>) -> Duration {
        let mut sleep = SLEEP_MAX;
        for output in outputs {
            match output {
                Output::Send(id, calls) => self.send(id, calls),
                Output::WakeAt(at) => sleep = sleep.min(at.since(self.clock.now())),
                Output::KindsChanged => {
                    self.read_kinds();
                    sleep = Duration::ZERO;
                }
            }
        }
        sleep
    }

    fn say_farewell(&mut self) {
        let (heard, answers) = channel();
        let calls = self.it.farewell();
        let count = calls.len();
        for call in calls {
            let heard = heard.clone();
            // Nobody is left to act on a refusal.
            self.api.call(
                call,
                Box::new(move |_| {
                    let _ = heard.send(());
                }),
            );
        }
        for _ in 0..count {
            if answers.recv_timeout(FAREWELL_MAX).is_err() {
                return;
            }
        }
    }

    fn send(&self, id: CallId, calls: Calls) {
        let back = self.to_loop.clone();
        match calls {
            Calls::One(call) => self.api.call(
                call,
                Box::new(move |result| {
                    let _ = back.send(Message::Replied(id, vec![result]));
                }),
            ),
            Calls::Together(calls) => self.api.together(
                calls,
                Box::new(move |results| {
                    let _ = back.send(Message::Replied(id, results));
                }),
            ),
        }
    }

    fn read_kinds(&mut self) {
        let (new, old) = self.it.kinds_are(&self.api.abilities().kinds, self.clock.now());
        old.iter().for_each(|kind| {
            self.follows.remove(kind);
        });
        new.iter().for_each(|kind| self.follow(kind));
    }

    fn follow(&mut self, kind: &Kind) {
        self.follows.insert(kind.clone(), self.api.follow(kind));
        self.pull(kind);
    }

    /// Takes in all there is of a kind, then asks to be woken when there is more.
    fn pull(&mut self, kind: &Kind) {
        let Some(follow) = self.follows.get_mut(kind) else {
            return;
        };
        while let Some(batch) = follow.pull() {
            self.it.take(Input::Changed(kind.clone(), batch), self.clock.now());
        }
        let (back, kind) = (self.to_loop.clone(), kind.clone());
        follow.wake_when_ready(Box::new(move || {
            let _ = back.send(Message::Ready(kind));
        }));
    }

    fn tell_health(&mut self, turns: u64) {
        let counters = self.it.told(self.clock.now());
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.synced = self.it.synced();
        (health.turns, health.counters) = (turns, counters);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use muster_api::port::{Abilities, Batch, Call, Object, Refusal, Reply};
    use muster_api::time::Time;

    use crate::cache::{Caches, Seen};
    use crate::plan::{Plan, Wake};

    use super::*;

    /// Never has anything to tell, and counts how often it was asked.
    struct Silent(Arc<AtomicUsize>);

    impl Follow for Silent {
        fn pull(&mut self) -> Option<Batch> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }

        fn wake_when_ready(&mut self, _: Box<dyn FnOnce() + Send>) {}
    }

    impl Api for Silent {
        fn call(&self, _: Call, _: Reply<Result<Object, Refusal>>) {}

        fn together(&self, _: Vec<Call>, _: Reply<Vec<Result<Object, Refusal>>>) {}

        fn follow(&self, _: &Kind) -> Box<dyn Follow> {
            Box::new(Silent(self.0.clone()))
        }

        fn abilities(&self) -> Abilities {
            Abilities { atomic: true, kinds: Vec::new() }
        }
    }

    impl Clock for Silent {
        fn now(&self) -> Time {
            Time(0)
        }
    }

    /// Gives way when it is first woken.
    struct Fragile;

    impl Controller for Fragile {
        fn name(&self) -> &'static str {
            "fragile"
        }

        fn kinds(&self) -> Vec<Kind> {
            Vec::new()
        }

        fn wakes(&mut self, _: &Seen<'_>, _: &Caches) -> Vec<Wake> {
            Vec::new()
        }

        fn starts(&mut self, _: &Caches, _: Time) -> Vec<Key> {
            panic!("the test wants it so")
        }

        fn plan(&mut self, _: &Key, _: &Caches, _: Time) -> Plan {
            Plan::nothing()
        }
    }

    #[test]
    fn a_crash_is_told_and_seen() {
        let api = Arc::new(Silent(Arc::default()));
        let (crash, crashed) = channel();
        let tidings = Tidings {
            ready: Box::new(|| {}),
            crashed: Box::new(move || crash.send(()).expect("the test waits")),
        };
        let shell =
            Shell::start(api.clone(), api, vec![Box::new(Fragile)], LoopOptions::default(), tidings).unwrap();
        crashed.recv_timeout(Duration::from_secs(60)).expect("the crash is told");
        assert!(!shell.health().running);
        shell.stop();
    }

    #[test]
    fn several_shells_tell_once_what_concerns_them_all() {
        let count = || Arc::new(AtomicUsize::new(0));
        let (ready, crashed) = (count(), count());
        let counting = |what: &Arc<AtomicUsize>| {
            let what = what.clone();
            Box::new(move || _ = what.fetch_add(1, Ordering::Relaxed))
        };
        let tidings = Tidings { ready: counting(&ready), crashed: counting(&crashed) };
        let told = || (ready.load(Ordering::Relaxed), crashed.load(Ordering::Relaxed));
        let [first, second]: [Tidings; 2] = tidings.among(2).collect::<Vec<_>>().try_into().ok().unwrap();
        (first.ready)();
        assert_eq!(told(), (0, 0), "one of two");
        (second.ready)();
        assert_eq!(told(), (1, 0), "both");
        (first.crashed)();
        (second.crashed)();
        assert_eq!(told(), (1, 1), "the first crash counts");
    }

    #[test]
    fn no_wake_up_is_lost_when_more_come_than_one_turn_takes() {
        let pulls = Arc::new(AtomicUsize::new(0));
        let (to_loop, inbox) = channel();
        let mut driver = Driver {
            it: Loop::new(Vec::new(), &[], LoopOptions::default()),
            api: Arc::new(Silent(pulls.clone())),
            clock: Arc::new(Silent(pulls.clone())),
            follows: BTreeMap::new(),
            to_loop: to_loop.clone(),
            health: Arc::default(),
            ready: None,
        };
        let kind = muster_api::kinds::JOBS.clone();
        driver.follow(&kind);
        let sent = MESSAGES_PER_TURN_MAX * 2 + 100;
        for _ in 0..sent {
            to_loop.send(Message::Ready(kind.clone())).unwrap();
        }
        for _ in 0..3 {
            assert!(driver.take_messages(&inbox, Duration::ZERO));
        }
        assert_eq!(
            pulls.load(Ordering::Relaxed),
            sent + 1,
            "each wake-up asks once, and following asks once"
        );
    }
}
