//! One loop in the world: its follows, its outstanding calls, its next wake-up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Act, Api, Call, Follow, Kind, Object, Part, Refusal};
use muster_api::time::Time;
use muster_control::{CallId, Calls, Controller, Input, Key, Loop, LoopOptions, Output};

use muster_tree::Text;

use crate::chance::Dice;
use crate::faults::{Happened, STALL_SECS_MAX, Strike};

/// How long all watches say nothing when they do so together.
const SILENCE: Duration = Duration::from_secs(STALL_SECS_MAX);
/// How long a call of a loop that crashed is under way.
const LATE: Duration = Duration::from_secs(2);

/// Makes the controllers of a loop, anew after each crash.
pub type Make = Box<dyn Fn() -> Vec<Box<dyn Controller>>>;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered.
    Done,
    /// It is done, the answer is lost.
    DoneUnheard,
    /// It is lost on the way.
    Lost,
    /// Somebody is said to have been faster.
    Conflict,
    /// The loop crashes, and the call was done or not.
    Crash {
        /// Whether it was.
        done: bool,
    },
    /// The loop crashes, and the call arrives when the next one is already at work.
    CrashLate,
    /// It is done, the answer is lost, and all watches say nothing for a while.
    Silence,
}

/// Calls by who makes them and what they do, such as `create pods`.
pub type Sent = BTreeMap<(Text, String), u64>;

/// Keys that somebody has rung for, by the number of their controller.
type Bells = Arc<Mutex<Vec<(usize, Key)>>>;

/// A loop with what surrounds it.
pub struct Runner {
    make: Make,
    api: Arc<dyn Api>,
    it: Loop,
    follows: BTreeMap<Kind, Box<dyn Follow>>,
    calls: Vec<(CallId, Calls)>,
    wake: Option<Time>,
    /// Kinds whose watches say nothing until then.
    stalled: Option<(BTreeSet<Kind>, Time)>,
    /// A call of a loop that crashed, under way until then.
    late_call: Option<(Calls, Time)>,
    strike: Option<Strike>,
    /// Writes that were about to be done, by who wanted them; Events are none.
    writes: BTreeMap<Text, u64>,
    /// Kinds that were passed over at the last delivery.
    late: BTreeSet<Kind>,
    sent: Sent,
    happened: Happened,
    bells: Bells,
    /// By how much its clock is ahead of that of the server, in microseconds.
    ahead: i64,
}

impl Runner {
    /// A fresh loop.
    pub fn new(api: Arc<dyn Api>, make: Make) -> Runner {
        let it = Loop::new(make(), &api.abilities().kinds, LoopOptions::default());
        let bells = Bells::default();
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
            sent: Sent::new(),
            happened: Happened::default(),
            bells,
            ahead: 0,
        };
        runner.hang_bells();
        runner.follow_all();
        runner
    }

    /// Bells ring into a list of the runner's; those of a loop that crashed ring for nobody.
    fn hang_bells(&mut self) {
        self.bells = Bells::default();
        let bells = &self.bells;
        self.it.hang_bells(|number| {
            let bells = bells.clone();
            Arc::new(move |key| bells.lock().unwrap_or_else(PoisonError::into_inner).push((number, key)))
        });
    }

    /// Its clock is ahead of that of the server, or behind it, from now on.
    pub fn set_ahead(&mut self, micros: i64) {
        self.wake = self.wake.map(|at| Time(at.0 + self.ahead - micros));
        self.ahead = micros;
    }

    /// What time its own clock says.
    fn own(&self, now: Time) -> Time {
        Time(now.0 + self.ahead)
    }

    /// Whether somebody has rung.
    pub fn is_rung(&self) -> bool {
        !self.bells.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The loop.
    pub fn it(&self) -> &Loop {
        &self.it
    }

    /// Whether it has calls that nobody has performed yet.
    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// When it wants to be woken, or has something to hear.
    pub fn wake_at(&self) -> Option<Time> {
        let news = self.stalled.as_ref().map(|(_, until)| *until);
        let late = self.late_call.as_ref().map(|(_, until)| *until);
        self.wake.into_iter().chain(news).chain(late).min()
    }

    /// Strikes once at what the strike names.
    pub fn strike(&mut self, strike: Strike) {
        self.strike = Some(strike);
    }

    /// Writes that were about to be done so far, by who wanted them; Events are none.
    pub fn writes(&self) -> &BTreeMap<Text, u64> {
        &self.writes
    }

    /// The calls it has sent since this was asked last.
    pub fn sent(&mut self) -> Sent {
        std::mem::take(&mut self.sent)
    }

    /// The faults it has met.
    pub fn happened(&self) -> Happened {
        self.happened
    }

    /// Delivers what changed; with `lag`, some kinds are left for later. Returns whether anything was delivered.
    pub fn deliver(&mut self, dice: &Dice, lag: bool, now: Time) -> bool {
        let mut any = false;
        let own = self.own(now);
        for (kind, follow) in &mut self.follows {
            if self.stalled.as_ref().is_some_and(|(stalled, _)| stalled.contains(kind)) {
                continue;
            }
            if lag && dice.once_in(3) {
                self.late.insert(kind.clone());
                continue;
            }
            let mut news = false;
            while let Some(batch) = follow.pull() {
                news = true;
                self.it.take(Input::Changed(kind.clone(), batch), own);
            }
            self.happened.late += u64::from(self.late.remove(kind) && news);
            any |= news;
        }
        if any {
            self.turn(now);
        }
        any
    }

    /// Lets it have its turn.
    pub fn turn(&mut self, now: Time) {
        let rung = std::mem::take(&mut *self.bells.lock().unwrap_or_else(PoisonError::into_inner));
        let own = self.own(now);
        rung.into_iter().for_each(|(number, key)| self.it.take(Input::Rung(number, key), own));
        let outputs = self.it.turn(own);
        self.wake = None;
        for output in outputs {
            match output {
                Output::Send(id, calls) => {
                    for call in calls.as_slice() {
                        *self.sent.entry((call.by.clone(), what(call))).or_default() += 1;
                    }
                    self.calls.push((id, calls));
                }
                Output::WakeAt(at) => self.wake = Some(Time(at.0 - self.ahead)),
                Output::KindsChanged => self.read_kinds(now),
            }
        }
    }

    /// The number of its oldest call, or with `disorder` of any.
    pub fn pick(&self, dice: &Dice, disorder: bool) -> usize {
        if disorder { dice.below(self.calls.len()) } else { 0 }
    }

    /// What a strike makes of the fate of a call that is about to be performed.
    pub fn struck(&mut self, call: usize, fate: Fate) -> Fate {
        for write in self.calls[call].1.as_slice().iter().filter(|call| is_write(call)) {
            let count = self.writes.entry(write.by.clone()).or_default();
            *count += 1;
            let meant = |strike: &mut Strike| strike.by == write.by && strike.write == *count;
            if let Some(strike) = self.strike.take_if(meant) {
                return strike.fate();
            }
        }
        fate
    }

    /// Performs a call. Tells a fate that is a fault.
    pub fn perform(&mut self, call: usize, fate: Fate, dice: &Dice, now: Time) -> Option<String> {
        let (id, calls) = self.calls.remove(call);
        let told = self.count(fate).map(|fault| format!("{fault}: {}", in_words(&calls)));
        let count = calls.as_slice().len();
        let all = |refusal: &Refusal| (0..count).map(|_| Err(refusal.clone())).collect();
        let unheard = || all(&Refusal::Unknown("the reply was lost".to_owned()));
        let results = match fate {
            Fate::Done => do_calls(&*self.api, calls),
            Fate::DoneUnheard => {
                do_calls(&*self.api, calls);
                unheard()
            }
            Fate::Lost => all(&Refusal::Unknown("the call was lost".to_owned())),
            Fate::Conflict => all(&Refusal::Conflict("somebody was faster".to_owned())),
            Fate::Silence => {
                do_calls(&*self.api, calls);
                self.stalled = Some((self.follows.keys().cloned().collect(), now + SILENCE));
                unheard()
            }
            Fate::Crash { done } => {
                if done {
                    do_calls(&*self.api, calls);
                }
                return Some(format!("{}; {}", told.unwrap_or_default(), self.crash(dice)));
            }
            Fate::CrashLate => {
                self.late_call = Some((calls, now + LATE));
                return Some(format!("{}; {}", told.unwrap_or_default(), self.crash(dice)));
            }
        };
        self.it.take(Input::Replied(id, results), self.own(now));
        self.turn(now);
        told
    }

    /// Lets the call of a loop that crashed arrive, if its time has come.
    pub fn arrive_late(&mut self, now: Time) {
        if let Some((calls, _)) = self.late_call.take_if(|(_, until)| *until <= now) {
            do_calls(&*self.api, calls);
        }
    }

    /// Begins anew from lists; each outstanding call happens or not. Tells which.
    pub fn crash(&mut self, dice: &Dice) -> String {
        let mut told = "crash".to_owned();
        for (_, calls) in std::mem::take(&mut self.calls) {
            let done = dice.once_in(2);
            told += &format!("; {}: {}", if done { "done" } else { "not done" }, in_words(&calls));
            let count = match done {
                true => &mut self.happened.done_by_the_dead,
                false => &mut self.happened.gone_with_the_dead,
            };
            *count += 1;
            if done {
                do_calls(&*self.api, calls);
            }
        }
        self.it = Loop::new((self.make)(), &self.api.abilities().kinds, LoopOptions::default());
        self.hang_bells();
        (self.wake, self.stalled) = (None, None);
        self.late.clear();
        self.happened.crashes += 1;
        self.follow_all();
        told
    }

    /// Cuts one watch: it lists again. Tells which.
    pub fn cut(&mut self, dice: &Dice) -> String {
        let kind = self.any_kind(dice);
        self.follows.insert(kind.clone(), self.api.follow(&kind));
        self.happened.cuts += 1;
        format!("watch of {} cut", kind.plural)
    }

    /// One watch says nothing until then, unless another one already does. Tells which.
    pub fn stall(&mut self, dice: &Dice, until: Time) -> Option<String> {
        let kind = self.any_kind(dice);
        if self.stalled.is_some() {
            return None;
        }
        let told = format!("watch of {} says nothing for a while", kind.plural);
        self.stalled = Some((BTreeSet::from([kind]), until));
        self.happened.stalls += 1;
        Some(told)
    }

    /// Lets a watch speak again whose time has come; whether there was one.
    pub fn unstall(&mut self, now: Time) -> bool {
        self.stalled.take_if(|(_, until)| *until <= now).is_some()
    }

    fn any_kind(&self, dice: &Dice) -> Kind {
        let at = dice.below(self.follows.len());
        self.follows.keys().nth(at).expect("below their number").clone()
    }

    /// Counts a fate that is a fault, and names it.
    fn count(&mut self, fate: Fate) -> Option<&'static str> {
        let (count, name) = match fate {
            Fate::Done => return None,
            Fate::DoneUnheard => (&mut self.happened.lost_replies, "reply lost"),
            Fate::Lost => (&mut self.happened.lost_calls, "call lost"),
            Fate::Conflict => (&mut self.happened.conflicts, "conflict that is none"),
            Fate::Silence => (&mut self.happened.stalls, "reply lost and all watches silent"),
            // The crash itself is counted where it happens.
            Fate::Crash { done: true } => (&mut self.happened.done_by_the_dead, "done before a crash"),
            Fate::Crash { done: false } => (&mut self.happened.gone_with_the_dead, "not done in a crash"),
            Fate::CrashLate => (&mut self.happened.done_by_the_dead, "under way in a crash"),
        };
        *count += 1;
        Some(name)
    }

    fn follow_all(&mut self) {
        let kinds: Vec<Kind> = self.it.caches().kinds().cloned().collect();
        self.follows = kinds.into_iter().map(|kind| (kind.clone(), self.api.follow(&kind))).collect();
    }

    fn read_kinds(&mut self, now: Time) {
        let (new, old) = self.it.kinds_are(&self.api.abilities().kinds, self.own(now));
        for kind in old {
            self.follows.remove(&kind);
        }
        for kind in new {
            let follow = self.api.follow(&kind);
            self.follows.insert(kind, follow);
        }
    }
}

/// Whether a call changes anything that lasts.
fn is_write(call: &Call) -> bool {
    !matches!(call.act, Act::Get) && call.on.kind.plural != kinds::EVENTS.plural
}

/// What a call does, without the name of the object.
fn what(call: &Call) -> String {
    let verb = match &call.act {
        Act::Get => "get",
        Act::Create(_) => "create",
        Act::Apply { .. } => "apply",
        Act::Merge(_) | Act::Strategic(_) => "patch",
        Act::Delete { .. } => "delete",
    };
    let part = match call.on.part {
        Part::Main => "",
        Part::Status => "/status",
        Part::Binding => "/binding",
        Part::Eviction => "/eviction",
        Part::Scale => "/scale",
        Part::Finalize => "/finalize",
        Part::Token => "/token",
    };
    format!("{verb} {}{part}", call.on.kind.plural)
}

fn in_words(calls: &Calls) -> String {
    let one = |call: &Call| format!("{} {}/{}", what(call), call.on.namespace, call.on.name);
    calls.as_slice().iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What calls came to, one after another.
type Results = Vec<Result<Object, Refusal>>;

/// Performs calls; in memory the reply comes before the call returns.
pub fn do_calls(api: &dyn Api, calls: Calls) -> Results {
    let slot: Arc<Mutex<Option<Results>>> = Arc::default();
    let back = slot.clone();
    let put = move |results| *back.lock().unwrap_or_else(PoisonError::into_inner) = Some(results);
    match calls {
        Calls::One(call) => api.call(call, Box::new(move |result| put(vec![result]))),
        Calls::Together(calls) => api.together(calls, Box::new(put)),
    }
    slot.lock().unwrap_or_else(PoisonError::into_inner).take().expect("a store in memory replies at once")
}
