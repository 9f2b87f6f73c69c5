//! The simulated world: one random step at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::{
    Api, ApiError, ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::environment::Clock;
use muster_api::kinds;
use muster_api::meta;
use muster_api::queue::consts::GROUP;
use muster_api::time::Time;
use muster_apiserver::engine::{ApiEngine, ConversionFn, EngineOptions};
use muster_apiserver::http::in_process::{self, InProcessRequest, InProcessResponse};
use muster_apiserver::local::LocalApi;
use muster_control::jobsets::FeatureGates;
use muster_control::queueing;
use muster_control::{ControlLoop, Controller, RequestBatch};
use muster_hooks::{JobSetAdmission, QueueAdmission, QueueWebhookConfig, TrainJobAdmission};
use muster_jobset::admission::AdmissionSettings;
use muster_node::provisioner::LocalPathProvisioner;
use muster_node::volume_dirs::SimulatedVolumeDirs;
use muster_node::{SimulatedNodes, control_plane};
use muster_store::{Record, Store, StoreOptions};
use muster_tree::{Text, Tree};

use crate::faults::{FaultCounts, FaultInjection, Faults, STALL_SECS_MAX};
use crate::machine::SimulatedMachine;
use crate::rng::{SeededRng, VirtualClock};
use crate::runner::{Fate, RequestCounts, Runner, do_calls};
use crate::setup::{MARK, NodeFleet, Setup};
use crate::trace::Trace;

/// Steps of one run, at most: a world that needs more is in a busy loop.
const STEPS_MAX: u64 = 3_000_000;

pub struct World {
    rng: SeededRng,
    clock: Arc<VirtualClock>,
    engine: ApiEngine,
    api: Arc<dyn Api>,
    loops: Vec<Runner>,
    trace: Trace,
    /// Writes by resource since the last call of [`World::writes`].
    writes: BTreeMap<Text, u64>,
    delivered: u64,
    paused: BTreeSet<usize>,
    /// The simulated runtime of a process node.
    machine: Option<Arc<SimulatedMachine>>,
}

const CONTROL: usize = 0;
/// The loop of simulated nodes.
const NODES: usize = 1;

impl World {
    /// A world with this many simulated nodes: one controller loop and one node loop.
    #[must_use]
    pub fn new(seed: u64, nodes: usize) -> World {
        World::with_settings(
            seed,
            nodes,
            control_plane::ControllerOptions {
                jobsets: gates(),
                ..control_plane::ControllerOptions::default()
            },
        )
    }

    /// The same with other controller settings.
    #[must_use]
    pub fn with_settings(seed: u64, nodes: usize, told: control_plane::ControllerOptions) -> World {
        World::from_setup(seed, Setup { told, nodes: NodeFleet::Count(nodes), shipped: Vec::new() })
    }

    #[must_use]
    pub fn from_setup(seed: u64, setup: Setup) -> World {
        let Setup { told, nodes, shipped } = setup;
        let clock = Arc::new(VirtualClock::new());
        let dice = SeededRng::new(seed);
        let entropy = Arc::new(SeededRng::new(seed ^ 0x5eed_5eed));
        let options = EngineOptions {
            root_ca: told.root_ca.clone(),
            crds: definitions(&told),
            addons: shipped,
            conversions: vec![(GROUP.into(), muster_queue::kinds::convert::convert as ConversionFn)],
            pod_group_protection: true,
            ..EngineOptions::default()
        };
        let store = Store::in_memory(StoreOptions::default(), clock.clone());
        let engine = ApiEngine::new(store, clock.clone(), entropy, options);
        engine.add_admission_plugin(Arc::new(JobSetAdmission::new(AdmissionSettings {
            gates: told.jobsets,
            ..AdmissionSettings::default()
        })));
        if let Some(queues) = &told.queues {
            engine.add_admission_plugin(Arc::new(
                QueueAdmission::new(queue_settings(queues)).gangs(told.gangs),
            ));
        }
        if told.training.is_some() {
            engine.add_admission_plugin(Arc::new(TrainJobAdmission));
        }
        let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
        let control = move || control_plane::controllers(told.clone());
        let kubelets = move || -> Vec<Box<dyn Controller>> {
            let provisioner = LocalPathProvisioner::new(MARK, Box::new(SimulatedVolumeDirs));
            vec![Box::new(nodes.simulated()), Box::new(provisioner)]
        };
        let loops =
            vec![Runner::new(api.clone(), Box::new(control)), Runner::new(api.clone(), Box::new(kubelets))];
        World {
            rng: dice,
            clock,
            engine,
            api,
            loops,
            trace: Trace::new(),
            writes: BTreeMap::new(),
            delivered: 0,
            paused: BTreeSet::new(),
            machine: None,
        }
    }

    /// Adds simulated nodes in a loop of their own.
    pub fn add_nodes(&mut self, manifests: Vec<Tree>) {
        // Another mark: a simulator adopts all nodes with its mark.
        let mark = format!("{MARK}-{}", self.loops.len());
        let nodes = move || -> Vec<Box<dyn Controller>> {
            vec![Box::new(SimulatedNodes::of(manifests.clone(), &mark))]
        };
        self.loops.push(Runner::new(self.api.clone(), Box::new(nodes)));
        self.delivered = 0;
    }

    /// Handles a request as the HTTP server does.
    pub fn request(&mut self, raw: &InProcessRequest<'_>) -> InProcessResponse {
        let answered = in_process::answer(&self.engine, raw);
        self.trace.mark_visible(self.engine.revision());
        answered
    }

    /// Adds a process node in a loop of its own; its runtime survives crashes of the loop.
    pub fn add_machine(&mut self) {
        let machine = Arc::new(SimulatedMachine::new(self.clock.clone()));
        self.machine = Some(machine.clone());
        let node = move || vec![machine.node()];
        self.loops.push(Runner::new(self.api.clone(), Box::new(node)));
        self.delivered = 0;
    }

    /// The runtime of the process node.
    ///
    /// # Panics
    ///
    /// No process node was added.
    #[must_use]
    pub fn machine(&self) -> Arc<SimulatedMachine> {
        self.machine.clone().expect("a machine was added")
    }

    /// Creates an object as a user.
    ///
    /// # Errors
    ///
    /// The API server rejects the request.
    pub fn create(&mut self, kind: &Kind, object: &Tree) -> Result<ApiObject, ApiError> {
        self.send(kind, object, RequestVerb::Create(object.clone()))
    }

    /// Sends a request for an object as a user.
    ///
    /// # Errors
    ///
    /// The API server rejects the request.
    pub fn send(&mut self, kind: &Kind, object: &Tree, act: RequestVerb) -> Result<ApiObject, ApiError> {
        self.send_subresource(kind, object, Subresource::Main, act)
    }

    /// Sends a request for a subresource as a user, or as a kubelet that the test implements.
    ///
    /// # Errors
    ///
    /// The API server rejects the request.
    pub fn send_subresource(
        &mut self,
        kind: &Kind,
        object: &Tree,
        part: Subresource,
        act: RequestVerb,
    ) -> Result<ApiObject, ApiError> {
        let by = Text::from("user");
        let on = meta::target(kind, object, part);
        let call =
            ApiRequest { field_manager: by, target: on, preconditions: Preconditions::default(), verb: act };
        let result = do_calls(&*self.api, RequestBatch::Single(call)).pop().expect("one call, one result");
        self.trace.mark_visible(self.engine.revision());
        result
    }

    #[must_use]
    pub fn list(&self, kind: &Kind) -> Vec<ApiObject> {
        match self.api.watch(kind).try_next() {
            Some(muster_api::client::WatchBatch::Restarted(objects)) => objects,
            _ => Vec::new(),
        }
    }

    /// Runs for this long with these faults.
    ///
    /// # Panics
    ///
    /// More than `STEPS_MAX` steps within the time: the controllers are in a busy loop.
    pub fn run(&mut self, faults: Faults, time: Duration) {
        self.run_with_checks(faults, time, &mut |_| {});
    }

    /// The same with a check after every step.
    ///
    /// # Panics
    ///
    /// More than `STEPS_MAX` steps within the time: the controllers are in a busy loop.
    pub fn run_with_checks(&mut self, faults: Faults, time: Duration, look: &mut dyn FnMut(&mut World)) {
        let end = self.now() + time;
        for _ in 0..STEPS_MAX {
            let more = self.step(faults);
            self.trace.mark_visible(self.engine.revision());
            look(self);
            if more {
                continue;
            }
            self.read_trace();
            let wakes = self.running().into_iter().filter_map(|at| self.loops[at].wake_at());
            let change = self.machine.as_ref().and_then(|machine| machine.next_change());
            match wakes.chain(change).min().filter(|at| *at < end) {
                Some(at) => self.pass_to(at.max(self.now())),
                None => {
                    self.clock.advance_to(end);
                    return;
                }
            }
        }
        // A controller that reconciles its own writes for ever ends here.
        panic!(
            "the world spins: {:?}",
            self.loops.iter().map(|one| one.control_loop().metrics().clone()).collect::<Vec<_>>()
        );
    }

    /// Pauses the nodes, as after a power failure, or resumes them.
    pub fn pause_nodes(&mut self, silent: bool) {
        self.set_paused(NODES, silent);
    }

    /// The controllers lose leadership: each request in flight is executed or not, and no controller runs until
    /// [`World::acquire_leadership`], which starts from a fresh list.
    pub fn lose_leadership(&mut self) {
        let told = self.loops[CONTROL].crash(&self.rng);
        self.record_fault(format!("the lead is lost: {told}"));
        self.trace.mark_visible(self.engine.revision());
        self.set_paused(CONTROL, true);
    }

    /// Sets the clock skew of the controllers against the server, in seconds; negative is behind.
    pub fn set_clock_skew(&mut self, secs: i64) {
        self.loops[CONTROL].set_ahead(secs * 1_000_000);
        self.delivered = 0;
    }

    /// Another replica becomes the leader.
    pub fn acquire_leadership(&mut self) {
        self.set_paused(CONTROL, false);
    }

    fn set_paused(&mut self, at: usize, silent: bool) {
        if silent {
            self.paused.insert(at);
        } else {
            self.paused.remove(&at);
        }
        // A resumed loop has watch events to read.
        self.delivered = 0;
    }

    /// The loops that are not paused.
    fn running(&self) -> Vec<usize> {
        (0..self.loops.len()).filter(|at| !self.paused.contains(at)).collect()
    }

    /// The hash of all records committed so far.
    #[must_use]
    pub fn hash(&mut self) -> u64 {
        self.read_trace();
        self.trace.hash()
    }

    /// All records committed so far with their time.
    pub fn records(&mut self) -> &[(Time, Record)] {
        self.read_trace();
        self.trace.records()
    }

    /// Revisions that clients can observe; records between two of them were committed in one transaction.
    #[must_use]
    pub fn commits(&self) -> &[u64] {
        self.trace.commits()
    }

    /// All records and faults so far, as lines.
    pub fn timeline(&mut self) -> Vec<String> {
        self.read_trace();
        self.trace.lines()
    }

    /// Writes by resource since the last call.
    pub fn writes(&mut self) -> BTreeMap<Text, u64> {
        self.read_trace();
        std::mem::take(&mut self.writes)
    }

    /// Requests of all loops since the last call, lost and retried ones included.
    pub fn requests(&mut self) -> RequestCounts {
        let mut all = RequestCounts::new();
        for (what, count) in self.loops.iter_mut().flat_map(Runner::take_requests) {
            *all.entry(what).or_default() += count;
        }
        all
    }

    /// The number of injected faults.
    #[must_use]
    pub fn fault_counts(&self) -> FaultCounts {
        let mut all = FaultCounts::default();
        self.loops.iter().for_each(|one| all += one.fault_counts());
        all
    }

    /// The most recent request errors of the loops.
    #[must_use]
    pub fn recent_errors(&self) -> Vec<String> {
        self.loops.iter().flat_map(|one| one.control_loop().recent_errors().map(str::to_owned)).collect()
    }

    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    #[must_use]
    pub fn control(&self) -> &ControlLoop {
        self.loops[CONTROL].control_loop()
    }

    #[must_use]
    pub fn engine(&self) -> &ApiEngine {
        &self.engine
    }

    /// Takes one random step; `false` if none is possible at this instant.
    fn step(&mut self, faults: Faults) -> bool {
        let awake = self.running();
        let at = awake[self.rng.below(awake.len())];
        let now = self.now();
        if self.rng.one_in(faults.crash) {
            let told = self.loops[at].crash(&self.rng);
            self.record_fault(told);
            self.delivered = 0;
            return true;
        }
        if self.rng.one_in(faults.watch_cut) {
            let told = self.loops[at].cut(&self.rng);
            self.record_fault(told);
            self.delivered = 0;
        }
        if self.rng.one_in(faults.watch_stall) {
            let until = now + Duration::from_secs(1 + self.rng.next() % STALL_SECS_MAX);
            let told = self.loops[at].stall(&self.rng, until);
            told.into_iter().for_each(|told| self.record_fault(told));
        }
        let busy: Vec<usize> = awake.into_iter().filter(|at| self.loops[*at].has_calls()).collect();
        let behind = self.delivered != self.engine.revision();
        // Mostly requests, so that several are outstanding when events arrive.
        if behind && (busy.is_empty() || self.rng.one_in(4)) {
            return self.deliver(at, faults, now);
        }
        if busy.is_empty() {
            return false;
        }
        let at = busy[self.rng.below(busy.len())];
        let fate = self.fate(faults);
        let one = &mut self.loops[at];
        let call = one.pick(&self.rng, faults.reorder);
        let fate = one.inject_into(call, fate);
        let told = one.perform(call, fate, &self.rng, now);
        if matches!(fate, Fate::Crash { .. } | Fate::CrashInFlight) {
            self.delivered = 0;
        }
        told.into_iter().for_each(|told| self.record_fault(told));
        true
    }

    /// Injects one fault at one write of the controllers.
    pub fn inject(&mut self, strike: FaultInjection) {
        self.loops[CONTROL].strike(strike);
    }

    /// The number of writes that a controller has sent; Events do not count.
    #[must_use]
    pub fn writes_by(&self, who: &Text) -> u64 {
        self.loops[CONTROL].writes().get(who).copied().unwrap_or(0)
    }

    fn record_fault(&mut self, fault: String) {
        self.trace.fault(&self.engine, self.now(), fault);
    }

    /// Delivers watch events to one loop, and to all loops if that one has none.
    fn deliver(&mut self, at: usize, faults: Faults, now: Time) -> bool {
        let before = self.engine.revision();
        if self.loops[at].deliver(&self.rng, faults.delivery_lag, now) {
            return true;
        }
        // Nothing was due for this loop, or all of it lagged: deliver to every loop without lag, so that the world advances.
        let mut any = false;
        for at in self.running() {
            any |= self.loops[at].deliver(&self.rng, false, now);
        }
        if !any {
            self.delivered = before;
        }
        true
    }

    fn fate(&self, faults: Faults) -> Fate {
        match () {
            () if self.rng.one_in(faults.lost_reply) => Fate::ReplyLost,
            () if self.rng.one_in(faults.lost_request) => Fate::Lost,
            () if self.rng.one_in(faults.conflict) => Fate::Conflict,
            () => Fate::Completed,
        }
    }

    fn pass_to(&mut self, at: Time) {
        self.clock.advance_to(at);
        self.machine.iter().for_each(|machine| machine.ring());
        for awake in self.running() {
            let one = &mut self.loops[awake];
            one.arrive_late(at);
            if one.unstall(at) {
                // What it held back is to be delivered now.
                self.delivered = 0;
            }
            if one.is_triggered() || one.wake_at().is_some_and(|wake| wake <= at) {
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
fn definitions(told: &control_plane::ControllerOptions) -> Vec<Tree> {
    let queues = told.queues.is_some().then(muster_queue::kinds::definitions);
    let training = told.training.is_some().then(muster_trainer::kinds::crds);
    let sets = std::iter::once(muster_jobset::crd::manifest());
    sets.chain(queues.into_iter().flatten()).chain(training.into_iter().flatten()).collect()
}

/// What is taken into queues, where they are run like this.
fn queue_settings(queues: &queueing::QueueControllerConfig) -> QueueWebhookConfig {
    let pods = muster_queue::pods::mutate::PodWebhookSettings {
        namespaces: vec![queues.namespaces.clone()],
        ..Default::default()
    };
    QueueWebhookConfig { managed: queues.managed.clone(), namespaces: queues.namespaces.clone(), pods }
}

/// Feature gates of JobSets that are disabled by default and do not affect other JobSets are enabled here.
fn gates() -> FeatureGates {
    FeatureGates { restart_job: true, ..FeatureGates::default() }
}

/// The kinds that an idle world may still write.
#[must_use]
pub fn heartbeat() -> Text {
    Text::from(format!("{}.{}", kinds::LEASES.plural, kinds::LEASES.group))
}
