//! One loop in the world: its follows, its outstanding calls, its next wake-up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::client::{Api, ApiError, ApiObject, ApiRequest, Kind, RequestVerb, Subresource, Watcher};
use muster_api::kinds;
use muster_api::time::Time;
use muster_control::{
    ControlLoop, Controller, ObjectKey, RequestBatch, RequestId, RuntimeInput, RuntimeOptions, RuntimeOutput,
};

use muster_tree::Text;

use crate::faults::{FaultCounts, FaultInjection, STALL_SECS_MAX};
use crate::rng::SeededRng;

/// How long all watches say nothing when they do so together.
const STALL: Duration = Duration::from_secs(STALL_SECS_MAX);
/// Delay of a request that is in flight when its loop crashes.
const LATE_REQUEST_DELAY: Duration = Duration::from_secs(2);

/// Creates the controllers of a loop; called again after each crash.
pub type Make = Box<dyn Fn() -> Vec<Box<dyn Controller>>>;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Completed,
    /// Executed; the reply is lost.
    ReplyLost,
    /// Lost before it is executed.
    Lost,
    /// Answered with a spurious conflict.
    Conflict,
    /// The loop crashes; the request is executed or not.
    Crash {
        done: bool,
    },
    /// The loop crashes; the request is executed after the next loop started.
    CrashInFlight,
    /// Executed; the reply is lost and all watches stall.
    WatchStall,
}

/// Number of requests by field manager and verb with resource, such as `create pods`.
pub type RequestCounts = BTreeMap<(Text, String), u64>;

/// Keys from external triggers, with the index of their controller.
type Triggers = Arc<Mutex<Vec<(usize, ObjectKey)>>>;

/// A control loop with its watches, outstanding requests and faults.
pub struct Runner {
    make: Make,
    api: Arc<dyn Api>,
    it: ControlLoop,
    follows: BTreeMap<Kind, Box<dyn Watcher>>,
    calls: Vec<(RequestId, RequestBatch)>,
    wake: Option<Time>,
    /// Kinds whose watches are stalled until this time.
    stalled: Option<(BTreeSet<Kind>, Time)>,
    /// A request of a crashed loop that is executed at this time.
    late_call: Option<(RequestBatch, Time)>,
    strike: Option<FaultInjection>,
    /// Number of writes by field manager; Events do not count.
    writes: BTreeMap<Text, u64>,
    /// Kinds that lagged at the last delivery.
    late: BTreeSet<Kind>,
    sent: RequestCounts,
    happened: FaultCounts,
    bells: Triggers,
    /// Clock skew against the server in microseconds; positive is ahead.
    ahead: i64,
}

impl Runner {
    pub fn new(api: Arc<dyn Api>, make: Make) -> Runner {
        let it = ControlLoop::new(make(), &api.capabilities().kinds, RuntimeOptions::default());
        let bells = Triggers::default();
        let mut runner = Runner {
            make,
            api,
            it,
            follows: BTreeMap::new(),
            calls: Vec::new(),
            wake: None,
            stalled: None,
            late_call: None,
            strike: None,
            writes: BTreeMap::new(),
            late: BTreeSet::new(),
            sent: RequestCounts::new(),
            happened: FaultCounts::default(),
            bells,
            ahead: 0,
        };
        runner.collect_triggers();
        runner.watch_all();
        runner
    }

    /// Collects external triggers in a new list: triggers of a crashed loop must not reach its successor.
    fn collect_triggers(&mut self) {
        self.bells = Triggers::default();
        let bells = &self.bells;
        self.it.set_triggers(|number| {
            let bells = bells.clone();
            Arc::new(move |key| bells.lock().unwrap_or_else(PoisonError::into_inner).push((number, key)))
        });
    }

    /// Sets the clock skew against the server.
    pub fn set_ahead(&mut self, micros: i64) {
        self.wake = self.wake.map(|at| Time(at.0 + self.ahead - micros));
        self.ahead = micros;
    }

    /// The time on its own clock.
    fn own(&self, now: Time) -> Time {
        Time(now.0 + self.ahead)
    }

    /// Whether an external trigger is pending.
    pub fn is_triggered(&self) -> bool {
        !self.bells.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn control_loop(&self) -> &ControlLoop {
        &self.it
    }

    /// Whether requests are outstanding.
    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// When it must run next: a requeue, the end of a stall, or a late request.
    pub fn wake_at(&self) -> Option<Time> {
        let news = self.stalled.as_ref().map(|(_, until)| *until);
        let late = self.late_call.as_ref().map(|(_, until)| *until);
        self.wake.into_iter().chain(news).chain(late).min()
    }

    pub fn strike(&mut self, strike: FaultInjection) {
        self.strike = Some(strike);
    }

    /// Number of writes by field manager; Events do not count.
    pub fn writes(&self) -> &BTreeMap<Text, u64> {
        &self.writes
    }

    /// The requests since the last call.
    pub fn take_requests(&mut self) -> RequestCounts {
        std::mem::take(&mut self.sent)
    }

    pub fn fault_counts(&self) -> FaultCounts {
        self.happened
    }

    /// Delivers watch events; with `lag`, random kinds are left for later. Returns whether anything was delivered.
    pub fn deliver(&mut self, dice: &SeededRng, lag: bool, now: Time) -> bool {
        let mut any = false;
        let own = self.own(now);
        for (kind, follow) in &mut self.follows {
            if self.stalled.as_ref().is_some_and(|(stalled, _)| stalled.contains(kind)) {
                continue;
            }
            if lag && dice.one_in(3) {
                self.late.insert(kind.clone());
                continue;
            }
            let mut news = false;
            while let Some(batch) = follow.try_next() {
                news = true;
                self.it.observe(RuntimeInput::Watched(kind.clone(), batch), own);
            }
            self.happened.late += u64::from(self.late.remove(kind) && news);
            any |= news;
        }
        if any {
            self.turn(now);
        }
        any
    }

    /// Reconciles what is ready.
    pub fn turn(&mut self, now: Time) {
        let rung = std::mem::take(&mut *self.bells.lock().unwrap_or_else(PoisonError::into_inner));
        let own = self.own(now);
        rung.into_iter().for_each(|(number, key)| self.it.observe(RuntimeInput::Triggered(number, key), own));
        let outputs = self.it.reconcile_ready(own);
        self.wake = None;
        for output in outputs {
            match output {
                RuntimeOutput::Send(id, calls) => {
                    for call in calls.as_slice() {
                        *self.sent.entry((call.field_manager.clone(), what(call))).or_default() += 1;
                    }
                    self.calls.push((id, calls));
                }
                RuntimeOutput::WakeAt(at) => self.wake = Some(Time(at.0 - self.ahead)),
                RuntimeOutput::KindsChanged => self.update_watches(now),
            }
        }
    }

    /// The index of its oldest request, or of a random one.
    pub fn pick(&self, dice: &SeededRng, disorder: bool) -> usize {
        if disorder { dice.below(self.calls.len()) } else { 0 }
    }

    /// Counts the writes of a request and replaces its fate if a fault is injected at one of them.
    pub fn inject_into(&mut self, call: usize, fate: Fate) -> Fate {
        for write in self.calls[call].1.as_slice().iter().filter(|call| is_write(call)) {
            let count = self.writes.entry(write.field_manager.clone()).or_default();
            *count += 1;
            let meant =
                |strike: &mut FaultInjection| strike.by == write.field_manager && strike.write == *count;
            if let Some(strike) = self.strike.take_if(meant) {
                return strike.fate();
            }
        }
        fate
    }

    /// Executes a request according to its fate. Returns the description of a fault.
    pub fn perform(&mut self, call: usize, fate: Fate, dice: &SeededRng, now: Time) -> Option<String> {
        let (id, calls) = self.calls.remove(call);
        let told = self.count(fate).map(|fault| format!("{fault}: {}", describe(&calls)));
        let count = calls.as_slice().len();
        let all = |refusal: &ApiError| (0..count).map(|_| Err(refusal.clone())).collect();
        let unheard = || all(&ApiError::Indeterminate("the reply was lost".to_owned()));
        let results = match fate {
            Fate::Completed => do_calls(&*self.api, calls),
            Fate::ReplyLost => {
                do_calls(&*self.api, calls);
                unheard()
            }
            Fate::Lost => all(&ApiError::Indeterminate("the call was lost".to_owned())),
            Fate::Conflict => all(&ApiError::Conflict("somebody was faster".to_owned())),
            Fate::WatchStall => {
                do_calls(&*self.api, calls);
                self.stalled = Some((self.follows.keys().cloned().collect(), now + STALL));
                unheard()
            }
            Fate::Crash { done } => {
                if done {
                    do_calls(&*self.api, calls);
                }
                return Some(format!("{}; {}", told.unwrap_or_default(), self.crash(dice)));
            }
            Fate::CrashInFlight => {
                // The request is neither lost nor executed: it arrives after its sender was replaced.
                self.late_call = Some((calls, now + LATE_REQUEST_DELAY));
                return Some(format!("{}; {}", told.unwrap_or_default(), self.crash(dice)));
            }
        };
        self.it.observe(RuntimeInput::Replied(id, results), self.own(now));
        self.turn(now);
        told
    }

    /// Executes the late request of a crashed loop when it is due.
    pub fn arrive_late(&mut self, now: Time) {
        if let Some((calls, _)) = self.late_call.take_if(|(_, until)| *until <= now) {
            do_calls(&*self.api, calls);
        }
    }

    /// Restarts from fresh lists; each outstanding request is executed or not. Returns the description.
    pub fn crash(&mut self, dice: &SeededRng) -> String {
        let mut told = "crash".to_owned();
        // The API server may have executed a request whose sender died.
        for (_, calls) in std::mem::take(&mut self.calls) {
            let done = dice.one_in(2);
            told += &format!("; {}: {}", if done { "done" } else { "not done" }, describe(&calls));
            let count = match done {
                true => &mut self.happened.done_by_the_dead,
                false => &mut self.happened.gone_with_the_dead,
            };
            *count += 1;
            if done {
                do_calls(&*self.api, calls);
            }
        }
        self.it = ControlLoop::new((self.make)(), &self.api.capabilities().kinds, RuntimeOptions::default());
        self.collect_triggers();
        (self.wake, self.stalled) = (None, None);
        self.late.clear();
        self.happened.crashes += 1;
        self.watch_all();
        told
    }

    /// Cuts one watch, which relists. Returns the description.
    pub fn cut(&mut self, dice: &SeededRng) -> String {
        let kind = self.random_kind(dice);
        self.follows.insert(kind.clone(), self.api.watch(&kind));
        self.happened.cuts += 1;
        format!("watch of {} cut", kind.plural)
    }

    /// Stalls one watch unless another is stalled. Returns the description.
    pub fn stall(&mut self, dice: &SeededRng, until: Time) -> Option<String> {
        let kind = self.random_kind(dice);
        if self.stalled.is_some() {
            return None;
        }
        let told = format!("watch of {} says nothing for a while", kind.plural);
        self.stalled = Some((BTreeSet::from([kind]), until));
        self.happened.stalls += 1;
        Some(told)
    }

    /// Ends a stall that is over; whether there was one.
    pub fn unstall(&mut self, now: Time) -> bool {
        self.stalled.take_if(|(_, until)| *until <= now).is_some()
    }

    fn random_kind(&self, dice: &SeededRng) -> Kind {
        let at = dice.below(self.follows.len());
        self.follows.keys().nth(at).expect("below their number").clone()
    }

    /// Counts a fault and returns its name.
    fn count(&mut self, fate: Fate) -> Option<&'static str> {
        let (count, name) = match fate {
            Fate::Completed => return None,
            Fate::ReplyLost => (&mut self.happened.lost_replies, "reply lost"),
            Fate::Lost => (&mut self.happened.lost_calls, "call lost"),
            Fate::Conflict => (&mut self.happened.conflicts, "conflict that is none"),
            Fate::WatchStall => (&mut self.happened.stalls, "reply lost and all watches silent"),
            // The crash itself is counted where it happens.
            Fate::Crash { done: true } => (&mut self.happened.done_by_the_dead, "done before a crash"),
            Fate::Crash { done: false } => (&mut self.happened.gone_with_the_dead, "not done in a crash"),
            Fate::CrashInFlight => (&mut self.happened.done_by_the_dead, "under way in a crash"),
        };
        *count += 1;
        Some(name)
    }

    fn watch_all(&mut self) {
        let kinds: Vec<Kind> = self.it.caches().kinds().cloned().collect();
        self.follows = kinds.into_iter().map(|kind| (kind.clone(), self.api.watch(&kind))).collect();
    }

    fn update_watches(&mut self, now: Time) {
        let (new, old) = self.it.update_served_kinds(&self.api.capabilities().kinds, self.own(now));
        for kind in old {
            self.follows.remove(&kind);
        }
        for kind in new {
            let follow = self.api.watch(&kind);
            self.follows.insert(kind, follow);
        }
    }
}

/// Whether a request writes anything but an Event.
fn is_write(call: &ApiRequest) -> bool {
    !matches!(call.verb, RequestVerb::Get) && call.target.kind.plural != kinds::EVENTS.plural
}

/// Verb and resource of a request.
fn what(call: &ApiRequest) -> String {
    let verb = match &call.verb {
        RequestVerb::Get => "get",
        RequestVerb::Create(_) => "create",
        RequestVerb::Apply { .. } => "apply",
        RequestVerb::MergePatch(_) | RequestVerb::StrategicMergePatch(_) => "patch",
        RequestVerb::Delete { .. } => "delete",
    };
    let part = match call.target.subresource {
        Subresource::Main => "",
        Subresource::Status => "/status",
        Subresource::Binding => "/binding",
        Subresource::Eviction => "/eviction",
        Subresource::Scale => "/scale",
        Subresource::Finalize => "/finalize",
        Subresource::Token => "/token",
    };
    format!("{verb} {}{part}", call.target.kind.plural)
}

fn describe(calls: &RequestBatch) -> String {
    let one = |call: &ApiRequest| format!("{} {}/{}", what(call), call.target.namespace, call.target.name);
    calls.as_slice().iter().map(one).collect::<Vec<_>>().join(", ")
}

type Results = Vec<Result<ApiObject, ApiError>>;

/// Sends requests; the in-memory API replies before it returns.
pub fn do_calls(api: &dyn Api, calls: RequestBatch) -> Results {
    let slot: Arc<Mutex<Option<Results>>> = Arc::default();
    let back = slot.clone();
    let put = move |results| *back.lock().unwrap_or_else(PoisonError::into_inner) = Some(results);
    match calls {
        RequestBatch::Single(call) => api.send(call, Box::new(move |result| put(vec![result]))),
        RequestBatch::Transaction(calls) => api.send_transaction(calls, Box::new(put)),
    }
    slot.lock().unwrap_or_else(PoisonError::into_inner).take().expect("a store in memory replies at once")
}
