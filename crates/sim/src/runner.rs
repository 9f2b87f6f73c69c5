//! One loop in the world: its follows, its outstanding calls, its next wake-up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use muster_api::port::{Api, Follow, Kind, Object, Refusal};
use muster_api::time::Time;
use muster_control::{CallId, Calls, Controller, Input, Loop, LoopOptions, Output};

use crate::chance::Dice;

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
}

/// A loop with what surrounds it.
pub struct Runner {
    make: Make,
    api: Arc<dyn Api>,
    it: Loop,
    follows: BTreeMap<Kind, Box<dyn Follow>>,
    calls: Vec<(CallId, Calls)>,
    wake: Option<Time>,
    crashes: u64,
}

impl Runner {
    /// A fresh loop.
    pub fn new(api: Arc<dyn Api>, make: Make) -> Runner {
        let it = Loop::new(make(), &api.abilities().kinds, LoopOptions::default());
        let mut runner =
            Runner { make, api, it, follows: BTreeMap::new(), calls: Vec::new(), wake: None, crashes: 0 };
        runner.follow_all();
        runner
    }

    /// The loop.
    pub fn it(&self) -> &Loop {
        &self.it
    }

    /// Whether it has calls that nobody has performed yet.
    pub fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// When it wants to be woken.
    pub fn wake_at(&self) -> Option<Time> {
        self.wake
    }

    /// How often it has crashed.
    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// Delivers what changed; with `lag`, some kinds are left for later. Returns whether anything was delivered.
    pub fn deliver(&mut self, dice: &Dice, lag: bool, now: Time) -> bool {
        let mut any = false;
        for (kind, follow) in &mut self.follows {
            if lag && dice.once_in(3) {
                continue;
            }
            while let Some(batch) = follow.pull() {
                any = true;
                self.it.take(Input::Changed(kind.clone(), batch), now);
            }
        }
        if any {
            self.turn(now);
        }
        any
    }

    /// Lets it have its turn.
    pub fn turn(&mut self, now: Time) {
        let outputs = self.it.turn(now);
        self.wake = None;
        for output in outputs {
            match output {
                Output::Send(id, calls) => self.calls.push((id, calls)),
                Output::WakeAt(at) => self.wake = Some(at),
                Output::KindsChanged => self.read_kinds(now),
            }
        }
    }

    /// Performs one of its calls, chosen by the dice.
    pub fn perform(&mut self, dice: &Dice, fate: Fate, now: Time) {
        let (id, calls) = self.calls.swap_remove(dice.below(self.calls.len()));
        let count = calls.as_slice().len();
        let all = |refusal: &Refusal| (0..count).map(|_| Err(refusal.clone())).collect();
        let results = match fate {
            Fate::Done => do_calls(&*self.api, calls),
            Fate::DoneUnheard => {
                do_calls(&*self.api, calls);
                all(&Refusal::Unknown("the reply was lost".to_owned()))
            }
            Fate::Lost => all(&Refusal::Unknown("the call was lost".to_owned())),
            Fate::Conflict => all(&Refusal::Conflict("somebody was faster".to_owned())),
        };
        self.it.take(Input::Replied(id, results), now);
        self.turn(now);
    }

    /// Begins anew from lists; each outstanding call happens or not.
    pub fn crash(&mut self, dice: &Dice) {
        for (_, calls) in std::mem::take(&mut self.calls) {
            if dice.once_in(2) {
                do_calls(&*self.api, calls);
            }
        }
        self.it = Loop::new((self.make)(), &self.api.abilities().kinds, LoopOptions::default());
        self.wake = None;
        self.crashes += 1;
        self.follow_all();
    }

    /// Cuts one watch: it lists again.
    pub fn cut(&mut self, dice: &Dice) {
        let kinds: Vec<Kind> = self.follows.keys().cloned().collect();
        let kind = &kinds[dice.below(kinds.len())];
        self.follows.insert(kind.clone(), self.api.follow(kind));
    }

    fn follow_all(&mut self) {
        let kinds: Vec<Kind> = self.it.caches().kinds().cloned().collect();
        self.follows = kinds.into_iter().map(|kind| (kind.clone(), self.api.follow(&kind))).collect();
    }

    fn read_kinds(&mut self, now: Time) {
        let (new, old) = self.it.kinds_are(&self.api.abilities().kinds, now);
        for kind in old {
            self.follows.remove(&kind);
        }
        for kind in new {
            let follow = self.api.follow(&kind);
            self.follows.insert(kind, follow);
        }
    }
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
