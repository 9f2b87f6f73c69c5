//! The loop: inputs in, calls out.
//!
//! # Invariants
//!
//! - Same inputs at the same times, same outputs: no clock, no dice, no map with an order of its own.
//! - Nothing is planned before every kind known at the start has been listed once.
//! - At most [`LoopOptions::calls_in_flight_max`] calls are without a reply.
//! - A lost reply repeats the very same call: a create that did happen answers `AlreadyExists` to itself. Each repeat
//!   waits longer than the one before, and what failed before is not repeated: its key has a pause of its own.

mod dump;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use muster_api::event::Event;
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::{claim, namespace};
use muster_api::port::{Act, Batch, Call, Change, Guard, Kind, Object, Part, Refusal, Uid};
use muster_api::time::Time;
use muster_api::words::managers;

use crate::cache::{Caches, Relisted, Taken};
use crate::counters::{Counters, verb};
use crate::plan::{Controller, Doorbell, Key, Step, Want};
use crate::queue::{Queue, Slot};
use crate::record::Recorder;

/// How often a call whose reply was lost is sent again before the key backs off.
pub const REPEATS_MAX: u32 = 5;
/// The pause before the second repeat, doubled for each further one; the first goes out at once.
pub const REPEAT_PAUSE: Duration = Duration::from_millis(250);
/// Keys planned in one turn; then new inputs have their chance.
pub const PLANS_PER_TURN_MAX: usize = 256;
/// Notes waiting to be written; more are dropped.
pub const NOTES_WAITING_MAX: usize = 10_000;

/// How long until a look that told nothing is tried again.
const DOUBT_AGAIN: Duration = Duration::from_secs(5);

/// The newest refusals, kept to be shown.
pub const REFUSALS_KEPT_MAX: usize = 32;

/// The number of a call in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What is sent at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Calls {
    /// One call.
    One(Call),
    /// All or none.
    Together(Vec<Call>),
}

impl Calls {
    /// The calls in it.
    #[must_use]
    pub fn as_slice(&self) -> &[Call] {
        match self {
            Calls::One(call) => std::slice::from_ref(call),
            Calls::Together(calls) => calls,
        }
    }
}

/// What the loop is fed.
#[derive(Debug, Clone)]
pub enum Input {
    /// A kind changed.
    Changed(Kind, Batch),
    /// The results of what was sent, one per call.
    Replied(CallId, Vec<Result<Object, Refusal>>),
    /// Somebody rang for a key of the controller with this number.
    Rung(usize, Key),
    /// Time has passed.
    Tick,
}

/// What the loop wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Perform these and tell the results.
    Send(CallId, Calls),
    /// Feed a [`Input::Tick`] at this time, if nothing comes before.
    WakeAt(Time),
    /// A custom resource definition changed: the kinds served may be others now.
    KindsChanged,
}

/// Bounds of a loop.
#[derive(Debug, Clone)]
pub struct LoopOptions {
    /// Calls without a reply at any time; the embedded plane prepares on our own thread and takes many.
    pub calls_in_flight_max: usize,
    /// Events among them: nobody waits for one, and others wait for what a server does meanwhile.
    pub notes_in_flight_max: usize,
}

impl Default for LoopOptions {
    fn default() -> Self {
        LoopOptions { calls_in_flight_max: 2048, notes_in_flight_max: 2048 }
    }
}

/// Why a call was sent.
#[derive(Debug, Clone)]
enum Purpose {
    /// A step of the plan of this key.
    Step(Slot),
    /// A look whose answer decides whether the plan goes on.
    Look(Slot, Want),
    /// A create met itself: reads what is there.
    Met(Slot, Call),
    /// An event; nobody waits.
    Note,
    /// Looks whether an object is there that only a reply has shown; nobody waits.
    Doubt,
}

#[derive(Debug)]
struct Sent {
    purpose: Purpose,
    calls: Calls,
    /// What is told when it was done.
    told: Option<Event>,
    repeats: u32,
    /// How often the kind of the first call had been listed when it was sent.
    resets: u64,
    /// Whom each call is about: the one it names, or else the one that was known when it was sent.
    about: Vec<Option<Uid>>,
    /// When it was sent.
    at: Time,
}

impl Sent {
    fn new(purpose: Purpose, calls: Calls) -> Sent {
        Sent { purpose, calls, told: None, repeats: 0, resets: 0, about: Vec::new(), at: Time(0) }
    }

    fn is_note(&self) -> bool {
        matches!(self.purpose, Purpose::Note)
    }
}

#[derive(Debug)]
struct UnderWay {
    steps: VecDeque<Step>,
    again_at: Option<Time>,
    outstanding: usize,
    refused: Option<Refusal>,
}

/// The loop.
pub struct Loop {
    caches: Caches,
    controllers: Vec<Box<dyn Controller>>,
    queue: Queue,
    under_way: BTreeMap<Slot, UnderWay>,
    sent: BTreeMap<CallId, Sent>,
    outbox: VecDeque<Sent>,
    notes: VecDeque<Sent>,
    /// How many of those that are sent are events.
    notes_sent: usize,
    /// Calls to be sent again, by when and in order.
    repeats: BTreeMap<(Time, u64), Sent>,
    /// Objects to look at again, and when.
    doubts: VecDeque<(Time, Key)>,
    recorder: Recorder,
    counters: Counters,
    options: LoopOptions,
    next_id: u64,
    started: bool,
    kinds_changed: bool,
    refusals: VecDeque<String>,
    heard: BTreeMap<Kind, Heard>,
    /// Which controllers see a kind, by their numbers.
    seers: BTreeMap<Kind, Vec<usize>>,
}

/// When a kind was heard of.
#[derive(Debug, Clone, Copy)]
struct Heard {
    /// When everything of it was taken in last.
    listed: Time,
    /// When anything of it was.
    last: Time,
}

impl Loop {
    /// A loop of these controllers. `all` are the kinds the server has, for those who must see them all.
    #[must_use]
    pub fn new(controllers: Vec<Box<dyn Controller>>, all: &[Kind], options: LoopOptions) -> Loop {
        let mut caches = Caches::default();
        let kinds = kinds_for(&controllers, all);
        kinds.iter().for_each(|kind| caches.add_kind(kind));
        Loop {
            caches,
            seers: seers(&controllers, &kinds),
            controllers,
            queue: Queue::default(),
            under_way: BTreeMap::new(),
            sent: BTreeMap::new(),
            outbox: VecDeque::new(),
            notes: VecDeque::new(),
            notes_sent: 0,
            repeats: BTreeMap::new(),
            doubts: VecDeque::new(),
            recorder: Recorder::default(),
            counters: Counters::default(),
            options,
            next_id: 0,
            started: false,
            kinds_changed: false,
            refusals: VecDeque::new(),
            heard: BTreeMap::new(),
        }
    }

    /// Gives each controller its bell; `bell` makes one that leads to [`Input::Rung`] of this number.
    pub fn hang_bells(&mut self, bell: impl Fn(usize) -> Doorbell) {
        self.controllers.iter_mut().enumerate().for_each(|(number, it)| it.hears(bell(number)));
    }

    /// Takes in one thing and says what to do.
    pub fn on(&mut self, input: Input, now: Time) -> Vec<Output> {
        self.take(input, now);
        self.turn(now)
    }

    /// Takes in one thing; [`Loop::turn`] says later what to do. Taking in many before a turn lets each key see
    /// them all at once.
    pub fn take(&mut self, input: Input, now: Time) {
        self.queue.now_is(now);
        match input {
            Input::Changed(kind, Batch::Reset(objects)) => {
                self.heard.insert(kind.clone(), Heard { listed: now, last: now });
                self.caches.heard(&kind, objects.iter().map(|it| it.revision).max().unwrap_or(0));
                let objects = objects.into_iter().filter(|it| self.is_kept(&kind, it)).collect();
                let Relisted { taken, doubtful } = self.caches.reset(&kind, objects);
                taken.iter().for_each(|taken| self.tell(taken, now));
                doubtful.iter().for_each(|key| self.look_at(key));
            }
            Input::Changed(kind, Batch::Changes(changes)) => {
                if let Some(heard) = self.heard.get_mut(&kind) {
                    heard.last = now;
                }
                for change in changes {
                    let change = match change {
                        Change::Put(object) if !self.is_kept(&kind, &object) => Change::Gone(object),
                        other => other,
                    };
                    if let Some(taken) = self.caches.change(&kind, change) {
                        self.tell(&taken, now);
                    }
                }
            }
            Input::Replied(id, results) => self.replied(id, results, now),
            Input::Rung(controller, key) => self.queue.wake(Slot { controller, key }, None),
            Input::Tick => {}
        }
    }

    /// Plans what is ready and says what to do.
    pub fn turn(&mut self, now: Time) -> Vec<Output> {
        let mut outputs = Vec::new();
        if std::mem::take(&mut self.kinds_changed) {
            outputs.push(Output::KindsChanged);
        }
        if !self.start(now) {
            return outputs;
        }
        self.queue.tick(now);
        while let Some((_, key)) = self.doubts.pop_front_if(|(at, _)| *at <= now) {
            self.look_at(&key);
        }
        while let Some(due) = self.repeats.first_entry().filter(|it| it.key().0 <= now) {
            self.outbox.push_back(due.remove());
        }
        let mut plans_left = PLANS_PER_TURN_MAX;
        loop {
            self.dispatch(&mut outputs, now);
            if plans_left == 0 || self.sent.len() >= self.options.calls_in_flight_max {
                break;
            }
            let Some(slot) = self.queue.pop() else { break };
            plans_left -= 1;
            self.plan(&slot, now);
        }
        self.counters.queue_len = self.queue.ready_len() as u64;
        self.counters.in_flight = self.sent.len() as u64;
        outputs.extend(self.next_wake(now).map(Output::WakeAt));
        outputs
    }

    /// What the controllers want told before an orderly end.
    pub fn farewell(&mut self) -> Vec<Call> {
        let caches = &self.caches;
        self.controllers.iter_mut().flat_map(|it| it.farewell(caches)).collect()
    }

    /// What the loop knows.
    #[must_use]
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// The controller of this type, where it can be looked into.
    #[must_use]
    pub fn look_into<T: 'static>(&self) -> Option<&T> {
        self.controllers.iter().find_map(|it| it.as_any()?.downcast_ref())
    }

    /// What the loop has counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the loop and its controllers have counted, up to this time.
    #[must_use]
    pub fn told(&self, now: Time) -> Counters {
        let mut counters = self.counters.clone();
        for (place, it) in self.controllers.iter().enumerate() {
            *counters.work.entry(it.counted_as()).or_default() += &self.queue.work(place);
        }
        for slot in self.under_way.keys() {
            let name = self.controllers[slot.controller].counted_as();
            let age = self.queue.since(slot).map_or(Duration::ZERO, |since| now.since(since));
            let work = counters.work.entry(name).or_default();
            work.under_way += 1;
            work.unfinished += age;
            work.longest = work.longest.max(age);
        }
        self.controllers.iter().for_each(|it| it.tell(&mut counters));
        counters
    }

    /// The newest refusals in words, oldest first.
    pub fn refusals(&self) -> impl Iterator<Item = &str> {
        self.refusals.iter().map(String::as_str)
    }

    /// Whether all caches are filled.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.caches.synced()
    }

    /// Whether nothing is ready, under way or in flight.
    #[must_use]
    pub fn idle(&self) -> bool {
        let waits = self.outbox.len() + self.notes.len() + self.repeats.len();
        self.queue.ready_len() == 0 && self.sent.is_empty() && waits == 0
    }

    /// Takes in which kinds the server has now; returns those to follow from now on and those no longer.
    pub fn kinds_are(&mut self, all: &[Kind], now: Time) -> (Vec<Kind>, Vec<Kind>) {
        let wanted = kinds_for(&self.controllers, all);
        self.seers = seers(&self.controllers, &wanted);
        let new: Vec<Kind> =
            wanted.iter().filter(|kind| !self.caches.kinds().any(|k| k == *kind)).cloned().collect();
        let old: Vec<Kind> = self.caches.kinds().filter(|kind| !wanted.contains(kind)).cloned().collect();
        for kind in &new {
            self.caches.add_kind(kind);
        }
        for kind in &old {
            self.heard.remove(kind);
            for taken in self.caches.remove_kind(kind) {
                self.tell(&taken, now);
            }
        }
        (new, old)
    }

    /// Whether planning may go on; begins it when the caches are filled for the first time.
    fn start(&mut self, now: Time) -> bool {
        if !self.started && self.caches.synced() {
            self.started = true;
            for (controller, it) in self.controllers.iter_mut().enumerate() {
                for key in it.starts(&self.caches, now) {
                    self.queue.wake(Slot { controller, key }, None);
                }
            }
        }
        self.started
    }

    fn next_wake(&self, now: Time) -> Option<Time> {
        let more = self.queue.ready_len() > 0 && self.sent.len() < self.options.calls_in_flight_max;
        let doubt = self.doubts.front().map(|(at, _)| *at);
        let repeat = self.repeats.first_key_value().map(|((at, _), _)| *at);
        if more { Some(now) } else { [self.queue.next_due(), doubt, repeat].into_iter().flatten().min() }
    }

    /// Whether somebody has anything to do with an object.
    fn is_kept(&self, kind: &Kind, object: &Object) -> bool {
        let concerns = |place: &usize| self.controllers[*place].concerns(kind, &object.tree);
        self.seers.get(kind).is_none_or(|seers| seers.iter().any(concerns))
    }

    fn tell(&mut self, taken: &Taken, now: Time) {
        self.kinds_changed |= taken.key.kind == kinds::CRDS;
        for (controller, it) in self.controllers.iter_mut().enumerate() {
            for wake in it.wakes(&taken.seen(), &self.caches) {
                let at = (!wake.after.is_zero()).then(|| now + wake.after);
                self.queue.wake(Slot { controller, key: wake.key }, at);
            }
        }
    }

    fn plan(&mut self, slot: &Slot, now: Time) {
        self.counters.plans += 1;
        let plan = self.controllers[slot.controller].plan(&slot.key, &self.caches, now);
        for key in plan.wake {
            self.queue.wake(Slot { controller: slot.controller, key }, None);
        }
        let steps = plan.steps.into();
        let under_way = UnderWay { steps, again_at: plan.again_at, outstanding: 0, refused: None };
        self.under_way.insert(slot.clone(), under_way);
        self.go_on(slot, now);
    }

    /// Sends the next step of a plan, or ends the plan.
    fn go_on(&mut self, slot: &Slot, now: Time) {
        loop {
            let plan = self.under_way.get_mut(slot).expect("a plan that goes on is under way");
            let Some(step) = plan.steps.pop_front() else {
                let again_at = plan.again_at;
                self.under_way.remove(slot);
                self.queue.done(slot, again_at);
                return;
            };
            let post = match step {
                Step::Note(event) => {
                    self.note(&event, now);
                    continue;
                }
                Step::One(call) => vec![(Purpose::Step(slot.clone()), Calls::One(call))],
                Step::Together(calls) if calls.is_empty() => continue,
                Step::Together(calls) => vec![(Purpose::Step(slot.clone()), Calls::Together(calls))],
                Step::Each(calls) => {
                    calls.into_iter().map(|call| (Purpose::Step(slot.clone()), Calls::One(call))).collect()
                }
                Step::EachTold(calls) => {
                    plan.outstanding = calls.len();
                    let one = |(call, event)| Sent {
                        told: Some(event),
                        ..Sent::new(Purpose::Step(slot.clone()), Calls::One(call))
                    };
                    self.outbox.extend(calls.into_iter().map(one));
                    if plan.outstanding == 0 { continue } else { return }
                }
                Step::Look(call, want) => vec![(Purpose::Look(slot.clone(), want), Calls::One(call))],
            };
            if post.is_empty() {
                continue;
            }
            plan.outstanding = post.len();
            self.outbox.extend(post.into_iter().map(|(purpose, calls)| Sent::new(purpose, calls)));
            return;
        }
    }

    fn note(&mut self, event: &Event, now: Time) {
        match self.recorder.note(event, now) {
            Some(call) if self.notes.len() < NOTES_WAITING_MAX => {
                self.notes.push_back(Sent::new(Purpose::Note, Calls::One(call)));
            }
            _ => self.counters.events_dropped += 1,
        }
    }

    /// Events do not live for ever: one that is gone is made anew instead of counted up.
    fn note_again(&mut self, calls: &Calls, now: Time) {
        let again = calls.as_slice().iter().filter_map(|call| self.recorder.again(call, now));
        let again = again.map(|call| Sent::new(Purpose::Note, Calls::One(call)));
        self.notes.extend(again);
    }

    fn dispatch(&mut self, outputs: &mut Vec<Output>, now: Time) {
        while self.sent.len() < self.options.calls_in_flight_max {
            let tells = self.notes_sent < self.options.notes_in_flight_max;
            let note = || if tells { self.notes.pop_front() } else { None };
            let Some(mut sent) = self.outbox.pop_front().or_else(note) else {
                return;
            };
            self.notes_sent += usize::from(sent.is_note());
            sent.resets = self.resets_of(&sent.calls);
            sent.about = sent.calls.as_slice().iter().map(|call| self.about(call)).collect();
            sent.at = now;
            let id = CallId(self.next_id);
            self.next_id += 1;
            sent.calls.as_slice().iter().for_each(|call| self.counters.sent(call));
            outputs.push(Output::Send(id, sent.calls.clone()));
            self.sent.insert(id, sent);
        }
    }

    fn replied(&mut self, id: CallId, results: Vec<Result<Object, Refusal>>, now: Time) {
        let Some(mut sent) = self.sent.remove(&id) else {
            return;
        };
        self.notes_sent -= usize::from(sent.is_note());
        let about = std::mem::take(&mut sent.about);
        for ((call, result), about) in sent.calls.as_slice().to_vec().iter().zip(&results).zip(&about) {
            self.learn(call, result, about.as_ref(), now);
        }
        if sent.resets != self.resets_of(&sent.calls) {
            // Listed anew before this reply came: what it shows may have ended before the list was made.
            let shown = sent.calls.as_slice().iter().zip(&results);
            let shown =
                shown.filter_map(|(call, result)| Some(Key::of(&call.on.kind, &result.as_ref().ok()?.tree)));
            shown.collect::<Vec<_>>().iter().for_each(|key| self.look_at(key));
        }
        let shown = results.first().and_then(|result| result.as_ref().ok()).cloned();
        let refused = results.into_iter().zip(sent.calls.as_slice());
        let refused = refused.filter_map(|(result, call)| Some((call.clone(), refusal_of(call, result)?)));
        // Of calls that happen all or none, those beside the one that was refused only say that they did not happen.
        let refused = refused.min_by_key(|(_, why)| matches!(why, Refusal::Conflict(_)));
        if let (Purpose::Step(slot), Some((call, why))) = (&sent.purpose, &refused) {
            let event = self.controllers[slot.controller].refused(&slot.key, call, why, &self.caches);
            if let Some(event) = event {
                self.note(&event, now);
            }
        }
        if let Some((call, why)) = &refused {
            self.keep_refusal(call, why);
            self.log_rejected(call, why);
        }
        let refusal = refused.map(|(_, why)| why);
        let met = matches!(sent.purpose, Purpose::Met(..));
        if refusal.is_none()
            && !met
            && let Some(event) = sent.told.take()
        {
            self.note(&event, now);
        }
        self.counters.refusals += u64::from(refusal.is_some());
        if matches!(refusal, Some(Refusal::Unknown(_))) && self.is_repeated(&sent) {
            return self.repeat(sent, now);
        }
        match (sent.purpose, refusal) {
            (Purpose::Note, Some(Refusal::NotFound(_))) => self.note_again(&sent.calls, now),
            (Purpose::Doubt, Some(why)) if !matches!(why, Refusal::NotFound(_)) => {
                let keys = sent.calls.as_slice().iter();
                let keys = keys.map(|call| Key::new(&call.on.kind, &call.on.namespace, &call.on.name));
                self.doubts.extend(keys.map(|key| (now + DOUBT_AGAIN, key)));
            }
            (Purpose::Note | Purpose::Doubt, _) => {}
            (Purpose::Step(slot), Some(Refusal::AlreadyExists(_)))
                if met_itself(&sent.calls, sent.repeats) =>
            {
                let Calls::One(made) = sent.calls else { unreachable!("only one call meets itself") };
                let look = Call { act: Act::Get, ..made.clone() };
                let purpose = Purpose::Met(slot, made);
                self.outbox.push_back(Sent { told: sent.told, ..Sent::new(purpose, Calls::One(look)) });
            }
            (Purpose::Step(slot), refusal) => self.settled(&slot, refusal, now),
            (Purpose::Met(slot, made), refusal) => {
                let refusal = refusal.or_else(|| stranger(&made, shown.as_ref()));
                if let (None, Some(event)) = (&refusal, &sent.told) {
                    self.note(event, now);
                }
                self.settled(&slot, refusal, now);
            }
            (Purpose::Look(slot, want), refusal) => {
                let refusal = judge(&want, shown.as_ref(), refusal);
                self.settled(&slot, refusal, now);
            }
        }
    }

    /// Whether a call whose reply was lost is sent again as it is.
    fn is_repeated(&self, sent: &Sent) -> bool {
        let failed = match &sent.purpose {
            Purpose::Step(slot) | Purpose::Look(slot, _) | Purpose::Met(slot, _) => {
                self.queue.has_failed(slot)
            }
            Purpose::Note | Purpose::Doubt => false,
        };
        sent.repeats < if failed { 1 } else { REPEATS_MAX }
    }

    fn repeat(&mut self, mut sent: Sent, now: Time) {
        self.counters.repeats += 1;
        sent.repeats += 1;
        if sent.repeats == 1 {
            return self.outbox.push_back(sent);
        }
        let at = now + REPEAT_PAUSE * (1 << (sent.repeats - 2));
        self.next_id += 1;
        self.repeats.insert((at, self.next_id), sent);
    }

    /// Logs a write that the server rejects for what it says. No condition shows a status that cannot be written, so the log
    /// and the metric are all there is of it.
    fn log_rejected(&mut self, call: &Call, why: &Refusal) {
        if !self.counters.rejects(call, why) {
            return;
        }
        let (on, verb) = (&call.on, verb(call));
        tracing::error!(
            manager = %call.by, verb, resource = %on.kind.plural, group = %on.kind.group, namespace = %on.namespace,
            name = %on.name, reason = %why, "write rejected by the API server"
        );
    }

    fn keep_refusal(&mut self, call: &Call, why: &Refusal) {
        if self.refusals.len() == REFUSALS_KEPT_MAX {
            self.refusals.pop_front();
        }
        let on = &call.on;
        let words =
            format!("{}: {} {}/{} {:?}: {why}", call.by, on.kind.plural, on.namespace, on.name, on.part);
        self.refusals.push_back(words);
    }

    /// One outstanding call of a plan is settled.
    fn settled(&mut self, slot: &Slot, refusal: Option<Refusal>, now: Time) {
        let plan = self.under_way.get_mut(slot).expect("a call with a reply belongs to a plan under way");
        plan.outstanding -= 1;
        plan.refused = plan.refused.take().or(refusal);
        if plan.outstanding > 0 {
            return;
        }
        match plan.refused.take() {
            Some(why) => {
                self.under_way.remove(slot);
                self.queue.failed(slot, &why, now);
                self.give_up(slot, now);
            }
            None => self.go_on(slot, now),
        }
    }

    /// What the controller makes of a plan that was refused.
    fn give_up(&mut self, slot: &Slot, now: Time) {
        let after = self.controllers[slot.controller].gave_up(&slot.key, &self.caches, now);
        if let Some(by) = after.by {
            self.queue.wake(slot.clone(), Some(by));
        }
        for key in after.wake {
            self.queue.wake(Slot { controller: slot.controller, key }, None);
        }
        after.notes.iter().for_each(|event| self.note(event, now));
    }

    /// Looks whether an object is there; its absence teaches the cache.
    fn look_at(&mut self, key: &Key) {
        let Some(object) = self.caches.find(key) else { return };
        let guard = Guard { uid: Some(meta::uid(&object.tree)), revision: None };
        let call = Call { by: managers::LOOP.clone(), on: key.target(Part::Main), guard, act: Act::Get };
        self.outbox.push_back(Sent::new(Purpose::Doubt, Calls::One(call)));
    }

    fn resets_of(&self, calls: &Calls) -> u64 {
        calls.as_slice().first().map_or(0, |call| self.caches.resets(&call.on.kind))
    }

    fn about(&self, call: &Call) -> Option<Uid> {
        let known = || self.caches.get(&call.on.kind, &call.on.namespace, &call.on.name);
        call.guard.uid.clone().or_else(|| known().map(|it| meta::uid(&it.tree)))
    }

    /// Forgets the object of a call, if it is the one that was meant: a namesake that was born while the call was under way
    /// would not be heard of again.
    fn ghost(&mut self, call: &Call, about: Option<&Uid>) -> Option<Taken> {
        let ghost = self.caches.get(&call.on.kind, &call.on.namespace, &call.on.name)?.clone();
        let meant = about.is_some_and(|uid| *uid == meta::uid(&ghost.tree));
        if meant { self.caches.buried(&call.on.kind, &ghost) } else { None }
    }

    /// What a reply teaches about the world.
    fn learn(&mut self, call: &Call, result: &Result<Object, Refusal>, about: Option<&Uid>, now: Time) {
        let kind = &call.on.kind;
        let taken = match result {
            // A bare success of a delete: the object is gone.
            Ok(object) if matches!(call.act, Act::Delete { .. }) && !shows_target(call, object) => {
                self.ghost(call, about)
            }
            Ok(object) if !shows_target(call, object) => None,
            Ok(object) if is_end(call, object) || !self.is_kept(kind, object) => {
                self.caches.buried(kind, object)
            }
            Ok(object) => self.caches.reply(kind, object.clone()),
            Err(Refusal::NotFound(_))
                if !matches!(call.act, Act::Create(_)) && call.on.part == Part::Main =>
            {
                self.ghost(call, about)
            }
            Err(_) => None,
        };
        if let Some(taken) = taken {
            self.tell(&taken, now);
        }
    }
}

/// Whether a look saw what it wanted; otherwise the refusal that makes the key be looked at again.
fn judge(want: &Want, live: Option<&Object>, refusal: Option<Refusal>) -> Option<Refusal> {
    let ok = match (want, &refusal) {
        (Want::Gone(_) | Want::Absent | Want::Elsewhere { .. }, Some(Refusal::NotFound(_))) => true,
        (Want::Elsewhere { uid, volume }, None) => live.is_some_and(|live| {
            let named = live.tree.text_at(claim::VOLUME);
            meta::uid(&live.tree) != *uid || (!named.is_empty() && named != *volume)
        }),
        (Want::Gone(uid), None) => live.is_some_and(|live| meta::uid(&live.tree) != *uid),
        (Want::Unchanged(revision), None) => live.is_some_and(|live| live.revision == *revision),
        _ => false,
    };
    let changed = || Refusal::Conflict("live state is not what the plan saw".to_owned());
    if ok { None } else { refusal.or_else(|| Some(changed())) }
}

/// What stands at the name of a create that met something: nothing to complain about if it has our owner.
fn stranger(made: &Call, there: Option<&Object>) -> Option<Refusal> {
    let Act::Create(tree) = &made.act else { return None };
    let same = there.is_some_and(|there| owner_uid(&there.tree) == owner_uid(tree));
    (!same).then(|| Refusal::AlreadyExists(format!("{} is somebody else's", made.on.name)))
}

fn owner_uid(tree: &muster_tree::Tree) -> Option<muster_tree::Text> {
    meta::controller(tree).map(|owner| owner.uid)
}

/// A create that was repeated finds what its first try made.
fn met_itself(calls: &Calls, repeats: u32) -> bool {
    repeats > 0 && matches!(calls, Calls::One(Call { act: Act::Create(_), .. }))
}

/// A delete that finds nothing has reached its goal.
fn refusal_of(call: &Call, result: Result<Object, Refusal>) -> Option<Refusal> {
    match (result, &call.act) {
        (Err(Refusal::NotFound(_)), Act::Delete { .. }) => None,
        (result, _) => result.err(),
    }
}

/// Whether the reply shows the object itself: a binding or an eviction may answer with something else.
fn shows_target(call: &Call, object: &Object) -> bool {
    let other = matches!(object.tree.str_at(&["kind"]), "Status" | "Binding" | "Eviction" | "Scale");
    !other && !meta::uid(&object.tree).is_empty() && meta::name(&object.tree) == call.on.name
}

/// Whether the call ended the object: nothing holds it back any more.
fn is_end(call: &Call, object: &Object) -> bool {
    let tree = &object.tree;
    let deleted = matches!(call.act, Act::Delete { .. }) || meta::deleting(tree).is_some();
    let held = meta::has_finalizers(tree) || meta::grace_secs(tree) > 0;
    let held =
        held || (call.on.kind == kinds::NAMESPACES && !tree.items_at(namespace::FINALIZERS).is_empty());
    let looks = matches!(call.act, Act::Get);
    deleted && !held && !looks
}

/// The kinds that these controllers want followed. Events share one storage under two groups: once is enough.
fn kinds_for(controllers: &[Box<dyn Controller>], all: &[Kind]) -> Vec<Kind> {
    let mut wanted: Vec<Kind> = controllers.iter().flat_map(|it| it.kinds()).collect();
    let at_will = controllers.iter().flat_map(|it| it.kinds_if_served());
    wanted.extend(at_will.filter(|kind| all.contains(kind)));
    if controllers.iter().any(|it| it.sees_all_kinds()) {
        wanted.extend(all.iter().filter(|kind| kind.group != "events.k8s.io").cloned());
    }
    wanted.sort();
    wanted.dedup();
    wanted
}

/// Which controllers see each of these kinds.
fn seers(controllers: &[Box<dyn Controller>], kinds: &[Kind]) -> BTreeMap<Kind, Vec<usize>> {
    let sees = |it: &dyn Controller, kind: &Kind| {
        it.sees_all_kinds() || it.kinds().contains(kind) || it.kinds_if_served().contains(kind)
    };
    let of = |kind: &Kind| {
        let all = controllers.iter().enumerate();
        all.filter(|(_, it)| sees(&***it, kind)).map(|(place, _)| place).collect()
    };
    kinds.iter().map(|kind| (kind.clone(), of(kind))).collect()
}
