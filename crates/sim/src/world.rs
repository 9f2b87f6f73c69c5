//! The world and its dice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::kinds;
use muster_api::meta;
use muster_api::port::{Act, Api, Call, Guard, Kind, Object, Part, Refusal};
use muster_api::ports::Clock;
use muster_api::queue::words::GROUP;
use muster_api::time::Time;
use muster_apiserver::engine::{Convert, Engine, EngineOptions};
use muster_apiserver::http::in_process::{self, Answered, Raw};
use muster_apiserver::local::LocalApi;
use muster_control::jobsets::Gates;
use muster_control::queueing;
use muster_control::{Calls, Controller, Loop};
use muster_hooks::{JobSets, QueueSettings, Queues, Trainings};
use muster_jobset::admission::Settings;
use muster_node::folders::NoFolders;
use muster_node::provision::Provisioner;
use muster_node::{SimNodes, plane};
use muster_store::{Record, Store, StoreOptions};
use muster_tree::{Text, Tree};

use crate::chance::{Dice, VirtualClock};
use crate::faults::{Faults, Happened, STALL_SECS_MAX, Strike};
use crate::machine::Played;
use crate::runner::{Fate, Runner, Sent, do_calls};
use crate::setup::{Fleet, MARK, Setup};
use crate::trace::Trace;

/// The most steps of one run: a world that needs more spins.
const STEPS_MAX: u64 = 3_000_000;

/// A simulated world.
pub struct World {
    dice: Dice,
    clock: Arc<VirtualClock>,
    engine: Engine,
    api: Arc<dyn Api>,
    loops: Vec<Runner>,
    trace: Trace,
    /// Writes by resource since the last time they were asked for.
    writes: BTreeMap<Text, u64>,
    delivered: u64,
    /// Loops that stand still.
    silent: BTreeSet<usize>,
    /// A machine whose node runs processes.
    machine: Option<Arc<Played>>,
}

/// The loop of controllers.
const CONTROL: usize = 0;
/// The loop of nodes.
const NODES: usize = 1;

impl World {
    /// A world with this many simulated nodes: one loop of controllers and one of nodes.
    #[must_use]
    pub fn new(seed: u64, nodes: usize) -> World {
        World::told(seed, nodes, plane::Told { jobsets: gates(), ..plane::Told::default() })
    }

    /// The same, whose controllers are told something else.
    #[must_use]
    pub fn told(seed: u64, nodes: usize, told: plane::Told) -> World {
        World::begin(seed, Setup { told, nodes: Fleet::Count(nodes), shipped: Vec::new() })
    }

    /// A world that begins with this setup.
    #[must_use]
    pub fn begin(seed: u64, setup: Setup) -> World {
        let Setup { told, nodes, shipped } = setup;
        let clock = Arc::new(VirtualClock::new());
        let dice = Dice::new(seed);
        let entropy = Arc::new(Dice::new(seed ^ 0x5eed_5eed));
        let options = EngineOptions {
            root_ca: told.root_ca.clone(),
            definitions: definitions(&told),
            shipped,
            conversions: vec![(GROUP.into(), muster_queue::kinds::convert::convert as Convert)],
            protect_groups: true,
            ..EngineOptions::default()
        };
        let store = Store::in_memory(StoreOptions::default(), clock.clone());
        let engine = Engine::new(store, clock.clone(), entropy, options);
        engine.add_hook(Arc::new(JobSets::new(Settings { gates: told.jobsets, ..Settings::default() })));
        if let Some(queues) = &told.queues {
            engine.add_hook(Arc::new(Queues::new(taken_in(queues)).gangs(told.gangs)));
        }
        if told.training.is_some() {
            engine.add_hook(Arc::new(Trainings));
        }
        let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
        let control = move || plane::controllers(told.clone());
        let kubelets = move || -> Vec<Box<dyn Controller>> {
            let provisioner = Provisioner::new(MARK, Box::new(NoFolders));
            vec![Box::new(nodes.simulated()), Box::new(provisioner)]
        };
        let loops =
            vec![Runner::new(api.clone(), Box::new(control)), Runner::new(api.clone(), Box::new(kubelets))];
        World {
            dice,
            clock,
            engine,
            api,
            loops,
            trace: Trace::new(),
            writes: BTreeMap::new(),
            delivered: 0,
            silent: BTreeSet::new(),
            machine: None,
        }
    }

    /// Adds simulated nodes that join now, in a loop of their own.
    pub fn add_nodes(&mut self, manifests: Vec<Tree>) {
        // Another mark: a simulator takes up all nodes of its own.
        let mark = format!("{MARK}-{}", self.loops.len());
        let nodes =
            move || -> Vec<Box<dyn Controller>> { vec![Box::new(SimNodes::of(manifests.clone(), &mark))] };
        self.loops.push(Runner::new(self.api.clone(), Box::new(nodes)));
        self.delivered = 0;
    }

    /// Answers a request as the HTTP server would.
    pub fn request(&mut self, raw: &Raw<'_>) -> Answered {
        let answered = in_process::answer(&self.engine, raw);
        self.trace.seen(self.engine.revision());
        answered
    }

    /// Adds a node that runs processes, in a loop of its own, on a machine that outlives it.
    pub fn add_machine(&mut self) {
        let machine = Arc::new(Played::new(self.clock.clone()));
        self.machine = Some(machine.clone());
        let node = move || vec![machine.node()];
        self.loops.push(Runner::new(self.api.clone(), Box::new(node)));
        self.delivered = 0;
    }

    /// That machine.
    ///
    /// # Panics
    ///
    /// There is none.
    #[must_use]
    pub fn machine(&self) -> Arc<Played> {
        self.machine.clone().expect("a machine was added")
    }

    /// Creates an object as a user would.
    ///
    /// # Errors
    ///
    /// The server's refusal.
    pub fn create(&mut self, kind: &Kind, object: &Tree) -> Result<Object, Refusal> {
        self.call(kind, object, Act::Create(object.clone()))
    }

    /// Performs a call about an object as a user would.
    ///
    /// # Errors
    ///
    /// The server's refusal.
    pub fn call(&mut self, kind: &Kind, object: &Tree, act: Act) -> Result<Object, Refusal> {
        self.call_part(kind, object, Part::Main, act)
    }

    /// Performs a call about a part of an object as a user, or as a kubelet that a test plays itself, would.
    ///
    /// # Errors
    ///
    /// The server's refusal.
    pub fn call_part(&mut self, kind: &Kind, object: &Tree, part: Part, act: Act) -> Result<Object, Refusal> {
        let by = Text::from("user");
        let on = meta::target(kind, object, part);
        let call = Call { by, on, guard: Guard::default(), act };
        let result = do_calls(&*self.api, Calls::One(call)).pop().expect("one call, one result");
        self.trace.seen(self.engine.revision());
        result
    }

    /// All objects of a kind.
    #[must_use]
    pub fn all(&self, kind: &Kind) -> Vec<Object> {
        match self.api.follow(kind).pull() {
            Some(muster_api::port::Batch::Reset(objects)) => objects,
            _ => Vec::new(),
        }
    }

    /// Runs for this long, with these faults.
    ///
    /// # Panics
    ///
    /// The world spins: more steps than `STEPS_MAX` within the time.
    pub fn run(&mut self, faults: Faults, time: Duration) {
        self.run_watched(faults, time, &mut |_| {});
    }

    /// The same, and somebody looks at the world after every step.
    ///
    /// # Panics
    ///
    /// The world spins: more steps than `STEPS_MAX` within the time.
    pub fn run_watched(&mut self, faults: Faults, time: Duration, look: &mut dyn FnMut(&mut World)) {
        let end = self.now() + time;
        for _ in 0..STEPS_MAX {
            let more = self.step(faults);
            self.trace.seen(self.engine.revision());
            look(self);
            if more {
                continue;
            }
            self.read_trace();
            let wakes = self.awake().into_iter().filter_map(|at| self.loops[at].wake_at());
            let change = self.machine.as_ref().and_then(|machine| machine.next_change());
            match wakes.chain(change).min().filter(|at| *at < end) {
                Some(at) => self.pass_to(at.max(self.now())),
                None => {
                    self.clock.advance_to(end);
                    return;
                }
            }
        }
        panic!(
            "the world spins: {:?}",
            self.loops.iter().map(|one| one.it().counters().clone()).collect::<Vec<_>>()
        );
    }

    /// Nodes stand still, as if their machines had lost power, or wake up again.
    pub fn silence_nodes(&mut self, silent: bool) {
        self.silence(NODES, silent);
    }

    /// The controllers lose the lead: what they have sent happens or not, and nobody leads until others begin, which know
    /// nothing but what they list.
    pub fn depose(&mut self) {
        let told = self.loops[CONTROL].crash(&self.dice);
        self.take_down(format!("the lead is lost: {told}"));
        self.trace.seen(self.engine.revision());
        self.silence(CONTROL, true);
    }

    /// The clock of the controllers is ahead of that of the server by so many seconds from now on; behind, below zero.
    pub fn set_ahead(&mut self, secs: i64) {
        self.loops[CONTROL].set_ahead(secs * 1_000_000);
        self.delivered = 0;
    }

    /// Others take the lead.
    pub fn take_lead(&mut self) {
        self.silence(CONTROL, false);
    }

    fn silence(&mut self, at: usize, silent: bool) {
        if silent {
            self.silent.insert(at);
        } else {
            self.silent.remove(&at);
        }
        // Those who slept have news to read.
        self.delivered = 0;
    }

    /// The loops that move.
    fn awake(&self) -> Vec<usize> {
        (0..self.loops.len()).filter(|at| !self.silent.contains(at)).collect()
    }

    /// The hash of everything committed so far.
    #[must_use]
    pub fn hash(&mut self) -> u64 {
        self.read_trace();
        self.trace.hash()
    }

    /// Everything committed so far, each record with its instant.
    pub fn records(&mut self) -> &[(Time, Record)] {
        self.read_trace();
        self.trace.records()
    }

    /// The revisions at which somebody could look; everything between two of them came at once.
    #[must_use]
    pub fn commits(&self) -> &[u64] {
        self.trace.commits()
    }

    /// Everything committed so far and all faults, as lines.
    pub fn story(&mut self) -> Vec<String> {
        self.read_trace();
        self.trace.lines()
    }

    /// Writes by resource since this was asked last.
    pub fn writes(&mut self) -> BTreeMap<Text, u64> {
        self.read_trace();
        std::mem::take(&mut self.writes)
    }

    /// Calls of all loops since this was asked last, lost ones and repeated ones included.
    pub fn calls(&mut self) -> Sent {
        let mut all = Sent::new();
        for (what, count) in self.loops.iter_mut().flat_map(Runner::sent) {
            *all.entry(what).or_default() += count;
        }
        all
    }

    /// The faults that have happened.
    #[must_use]
    pub fn happened(&self) -> Happened {
        let mut all = Happened::default();
        self.loops.iter().for_each(|one| all += one.happened());
        all
    }

    /// The newest refusals that loops have met.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        self.loops.iter().flat_map(|one| one.it().refusals().map(str::to_owned)).collect()
    }

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The loop of controllers.
    #[must_use]
    pub fn control(&self) -> &Loop {
        self.loops[CONTROL].it()
    }

    /// The engine below.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Lets one thing happen; `false` when nothing can at this instant.
    fn step(&mut self, faults: Faults) -> bool {
        let awake = self.awake();
        let at = awake[self.dice.below(awake.len())];
        let now = self.now();
        if self.dice.once_in(faults.crash) {
            let told = self.loops[at].crash(&self.dice);
            self.take_down(told);
            self.delivered = 0;
            return true;
        }
        if self.dice.once_in(faults.cut) {
            let told = self.loops[at].cut(&self.dice);
            self.take_down(told);
            self.delivered = 0;
        }
        if self.dice.once_in(faults.stall) {
            let until = now + Duration::from_secs(1 + self.dice.next() % STALL_SECS_MAX);
            let told = self.loops[at].stall(&self.dice, until);
            told.into_iter().for_each(|told| self.take_down(told));
        }
        let busy: Vec<usize> = awake.into_iter().filter(|at| self.loops[*at].has_calls()).collect();
        let behind = self.delivered != self.engine.revision();
        if behind && (busy.is_empty() || self.dice.once_in(4)) {
            return self.deliver(at, faults, now);
        }
        if busy.is_empty() {
            return false;
        }
        let at = busy[self.dice.below(busy.len())];
        let fate = self.fate(faults);
        let one = &mut self.loops[at];
        let call = one.pick(&self.dice, faults.disorder);
        let fate = one.struck(call, fate);
        let told = one.perform(call, fate, &self.dice, now);
        if matches!(fate, Fate::Crash { .. } | Fate::CrashLate) {
            self.delivered = 0;
        }
        told.into_iter().for_each(|told| self.take_down(told));
        true
    }

    /// Strikes once at one write of the controllers.
    pub fn strike(&mut self, strike: Strike) {
        self.loops[CONTROL].strike(strike);
    }

    /// Writes that a controller was about to do so far; Events are none.
    #[must_use]
    pub fn writes_by(&self, who: &Text) -> u64 {
        self.loops[CONTROL].writes().get(who).copied().unwrap_or(0)
    }

    fn take_down(&mut self, fault: String) {
        self.trace.fault(&self.engine, self.now(), fault);
    }

    /// Delivers to one loop; when all have everything there is, there is no more to deliver.
    fn deliver(&mut self, at: usize, faults: Faults, now: Time) -> bool {
        let before = self.engine.revision();
        if self.loops[at].deliver(&self.dice, faults.lag, now) {
            return true;
        }
        // Nothing by chance, or nothing at all: the others and the rest without lag.
        let mut any = false;
        for at in self.awake() {
            any |= self.loops[at].deliver(&self.dice, false, now);
        }
        if !any {
            self.delivered = before;
        }
        true
    }

    fn fate(&self, faults: Faults) -> Fate {
        match () {
            () if self.dice.once_in(faults.lost_reply) => Fate::DoneUnheard,
            () if self.dice.once_in(faults.lost_call) => Fate::Lost,
            () if self.dice.once_in(faults.conflict) => Fate::Conflict,
            () => Fate::Done,
        }
    }

    fn pass_to(&mut self, at: Time) {
        self.clock.advance_to(at);
        self.machine.iter().for_each(|machine| machine.ring());
        for awake in self.awake() {
            let one = &mut self.loops[awake];
            one.arrive_late(at);
            if one.unstall(at) {
                // What it held back is to be delivered now.
                self.delivered = 0;
            }
            if one.is_rung() || one.wake_at().is_some_and(|wake| wake <= at) {
                one.turn(at);
            }
        }
    }

    fn read_trace(&mut self) {
        for (_, record) in self.trace.read(&self.engine, self.clock.now()) {
            *self.writes.entry(record.key.resource.clone()).or_default() += 1;
        }
    }
}

/// The kinds that its controllers work on.
fn definitions(told: &plane::Told) -> Vec<Tree> {
    let queues = told.queues.is_some().then(muster_queue::kinds::definitions);
    let training = told.training.is_some().then(muster_trainer::kinds::definitions);
    let sets = std::iter::once(muster_jobset::crd::definition());
    sets.chain(queues.into_iter().flatten()).chain(training.into_iter().flatten()).collect()
}

/// What is taken into queues, where they are run like this.
fn taken_in(queues: &queueing::Settings) -> QueueSettings {
    let pods = muster_queue::pods::admit::Settings {
        namespaces: vec![queues.namespaces.clone()],
        ..Default::default()
    };
    QueueSettings { managed: queues.managed.clone(), namespaces: queues.namespaces.clone(), pods }
}

/// Features of JobSets that are off at first are on here where nobody notices who does not use them.
fn gates() -> Gates {
    Gates { restart_job: true, ..Gates::default() }
}

/// The kinds whose writes a quiet world may still have.
#[must_use]
pub fn heartbeat() -> Text {
    Text::from(format!("{}.{}", kinds::LEASES.plural, kinds::LEASES.group))
}
