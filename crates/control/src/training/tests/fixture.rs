//! The controller in its control loop, with a minimal API server. Time advances only when the loop is idle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::{
    ApiError, ApiObject, ApiRequest, Kind, RequestVerb, Subresource, Uid, WatchBatch, WatchChange,
};
use muster_api::environment::Entropy;
use muster_api::kinds::{CONFIG_MAPS, JOBSETS, SECRETS};
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::time::Time;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS};
use muster_trainer::controller::metrics::{TrainJobSample, Value};
use muster_trainer::kinds::bundled_runtimes::bundled_runtimes;
use muster_tree::{Text, Tree, tree};

use super::super::{TrainJobController, TrainJobControllerConfig};
use crate::controller::{Controller, ObjectKey};
use crate::metrics::verb;
use crate::{ControlLoop, RequestBatch, RequestId, RuntimeInput, RuntimeOptions, RuntimeOutput};

/// More than any life here needs.
const STEPS_MAX: usize = 2_000_000;

/// When it all begins.
pub const BEGIN: Time = Time(1_767_225_600_000_000);

/// No chance at all.
pub struct ZeroEntropy;

impl Entropy for ZeroEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

type Refuses = Box<dyn FnMut(&ApiRequest) -> Option<ApiError>>;

pub struct Fixture {
    settings: TrainJobControllerConfig,
    it: ControlLoop,
    wake_at: Option<Time>,
    pending: VecDeque<(RequestId, ApiRequest)>,
    pub objects: BTreeMap<ObjectKey, ApiObject>,
    /// Owner UIDs by object.
    owned: BTreeMap<Uid, BTreeSet<ObjectKey>>,
    revision: u64,
    pub now: Time,
    /// Calls that were done or refused, Events apart.
    pub calls: Vec<(Time, ApiRequest)>,
    /// Reasons and messages of Events, in order.
    pub told: Vec<(Time, String, String)>,
    refuses: Refuses,
    /// Dies before the write of this number.
    pub crash_before: Option<usize>,
    /// Deletions of TrainJobs without a reply, at most.
    pub deletions_most: usize,
}

impl Fixture {
    pub fn new(settings: TrainJobControllerConfig) -> Fixture {
        let mut bench = Fixture {
            it: begin(&settings),
            settings,
            wake_at: None,
            pending: VecDeque::new(),
            objects: BTreeMap::new(),
            owned: BTreeMap::new(),
            revision: 0,
            now: BEGIN,
            calls: Vec::new(),
            told: Vec::new(),
            refuses: Box::new(|_| None),
            crash_before: None,
            deletions_most: 0,
        };
        for runtime in bundled_runtimes("") {
            bench.put(&CLUSTER_TRAINING_RUNTIMES, &runtime);
        }
        bench.list();
        bench
    }

    /// A new TrainJob with these fields in its spec.
    pub fn submit(&mut self, name: &str, spec: &Tree) {
        let job = tree!({"metadata": {"name": name, "namespace": "ns"}, "spec": {
            "runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}}});
        self.put(&TRAIN_JOBS, &job.merge(&tree!({"spec": spec})));
    }

    /// Creates or updates an object as another client.
    pub fn put(&mut self, kind: &Kind, tree: &Tree) {
        let key = ObjectKey::of(kind, tree);
        let tree = match self.objects.get(&key) {
            Some(old) => old.tree.merge(tree),
            None => self.born(tree),
        };
        self.store(&key, tree);
    }

    /// The newest state of an object.
    pub fn find(&self, kind: &Kind, name: &str) -> Option<&Tree> {
        let ns = Text::from("ns");
        let namespace = if *kind == CLUSTER_TRAINING_RUNTIMES { Text::new() } else { ns };
        self.objects.get(&ObjectKey::new(kind, &namespace, &name.into())).map(|it| &it.tree)
    }

    /// The JobSet of this name ends like this.
    pub fn ends(&mut self, name: &str, how: &str) {
        let since = self.now.to_seconds_text();
        let end = tree!({"type": how, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": since});
        let set = tree!({"metadata": {"name": name, "namespace": "ns"}, "status": {"conditions": [end]}});
        self.put(&JOBSETS, &set);
    }

    /// An object goes, and all that it owns.
    pub fn remove(&mut self, kind: &Kind, name: &str) {
        let key = ObjectKey::of(kind, self.find(kind, name).expect("it is there"));
        self.end(&key);
    }

    /// What is refused from now on.
    pub fn refuse(&mut self, refuses: impl FnMut(&ApiRequest) -> Option<ApiError> + 'static) {
        self.refuses = Box::new(refuses);
    }

    /// Works until nothing is left to do at this instant.
    pub fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            let deletions =
                self.pending.iter().filter(|(_, call)| word(call) == ("delete", "trainjobs".into())).count();
            self.deletions_most = self.deletions_most.max(deletions);
            if let Some((id, call)) = self.pending.pop_front() {
                if !self.perform(id, &call) {
                    self.crash();
                }
            } else if self.wake_at.is_some_and(|at| at <= self.now) {
                self.wake_at = None;
                self.feed(RuntimeInput::Tick);
            } else {
                return;
            }
        }
        panic!("it never rests: {:?}", self.calls.iter().rev().take(10).collect::<Vec<_>>());
    }

    /// Works until a call of this verb and kind is about to be done.
    pub fn work_until(&mut self, verb: &str, plural: &str) {
        for _ in 0..STEPS_MAX {
            match self.pending.pop_front() {
                Some((id, call)) if is(&call, verb, plural) => return self.pending.push_front((id, call)),
                Some((id, call)) => assert!(self.perform(id, &call), "nobody dies here"),
                None => {
                    let at = self.wake_at.take().expect("something is still to come");
                    self.now = at.max(self.now);
                    self.feed(RuntimeInput::Tick);
                }
            }
        }
        panic!("nobody ever does this: {verb} {plural}");
    }

    /// Works, and lets this time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            match self.wake_at.filter(|at| *at <= end) {
                Some(at) => self.now = at.max(self.now),
                None => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// The controller is lost, and another begins with what there is.
    pub fn crash(&mut self) {
        self.it = begin(&self.settings);
        self.pending.clear();
        self.wake_at = None;
        self.list();
    }

    /// Calls since the last time this was asked, by verb and kind.
    pub fn counted(&mut self) -> Vec<String> {
        let mut counts: BTreeMap<(&str, Text), u64> = BTreeMap::new();
        for (_, call) in std::mem::take(&mut self.calls) {
            *counts.entry(word(&call)).or_default() += 1;
        }
        counts.into_iter().map(|((verb, kind), n)| format!("{verb} {kind} {n}")).collect()
    }

    /// When calls of this verb and kind were made, in seconds since the beginning.
    pub fn times(&self, verb: &str, plural: &str) -> Vec<u64> {
        let is_it = |call: &ApiRequest| word(call) == (verb, plural.into());
        self.calls.iter().filter(|(_, call)| is_it(call)).map(|(at, _)| at.since(BEGIN).as_secs()).collect()
    }

    /// The reasons of the Events, in order.
    pub fn reasons(&self) -> Vec<&str> {
        self.told.iter().map(|(_, reason, _)| reason.as_str()).collect()
    }

    /// How often a key was looked at.
    pub fn looks(&self) -> u64 {
        self.it.metrics().reconciles
    }

    /// The controller itself.
    pub fn training(&self) -> &TrainJobController {
        self.it.controller_of_type().expect("it can be looked into")
    }

    /// The value of a metric, summed over all labels; zero without samples.
    pub fn number(&self, name: &str) -> f64 {
        let of = |sample: TrainJobSample| match sample.value {
            Value::Count(count) => f64::from(u32::try_from(count).unwrap()),
            Value::Gauge(value) => value,
            Value::Spans(spans) => f64::from(u32::try_from(spans.count()).unwrap()),
        };
        let all = self.it.collect_metrics(self.now).training.samples(self.now);
        all.into_iter().filter(|sample| sample.name == name).map(of).sum()
    }

    fn born(&mut self, tree: &Tree) -> Tree {
        let uid = format!("u{}", self.revision + 1);
        let created = self.now.to_seconds_text();
        tree.with(meta_path::UID, uid).with(meta_path::CREATED, created)
    }

    fn store(&mut self, key: &ObjectKey, tree: Tree) -> ApiObject {
        self.revision += 1;
        let object = ApiObject { tree, revision: self.revision };
        self.objects.insert(key.clone(), object.clone());
        for owner in meta::owner_references(&object.tree) {
            self.owned.entry(owner.uid).or_default().insert(key.clone());
        }
        self.feed(RuntimeInput::Watched(
            key.kind.clone(),
            WatchBatch::Changes(vec![WatchChange::Applied(object.clone())]),
        ));
        object
    }

    fn end(&mut self, key: &ObjectKey) -> Option<ApiObject> {
        let gone = self.objects.remove(key)?;
        self.revision += 1;
        let uid = meta::uid(&gone.tree);
        let gone = ApiObject { revision: self.revision, ..gone };
        self.feed(RuntimeInput::Watched(
            key.kind.clone(),
            WatchBatch::Changes(vec![WatchChange::Deleted(gone.clone())]),
        ));
        let below = self.owned.remove(&uid).unwrap_or_default();
        below.iter().for_each(|key| drop(self.end(key)));
        Some(gone)
    }

    /// Lists all objects.
    fn list(&mut self) {
        let kinds: Vec<Kind> = self.it.caches().kinds().cloned().collect();
        for kind in kinds {
            let all = self.objects.iter().filter(|(key, _)| key.kind == kind).map(|(_, it)| it.clone());
            let all = all.collect();
            self.feed(RuntimeInput::Watched(kind, WatchBatch::Restarted(all)));
        }
    }

    fn feed(&mut self, input: RuntimeInput) {
        for output in self.it.handle(input, self.now) {
            match output {
                RuntimeOutput::Send(id, RequestBatch::Single(call)) => self.pending.push_back((id, call)),
                RuntimeOutput::Send(_, calls) => panic!("nothing goes together here: {calls:?}"),
                RuntimeOutput::WakeAt(at) => self.wake_at = Some(self.wake_at.map_or(at, |old| old.min(at))),
                RuntimeOutput::KindsChanged => {}
            }
        }
    }

    /// Does a call; whether the controller lives to hear of it.
    fn perform(&mut self, id: RequestId, call: &ApiRequest) -> bool {
        if call.target.kind.plural == "events" {
            let (RequestVerb::Create(event) | RequestVerb::MergePatch(event)) = &call.verb else {
                panic!("{call:?}")
            };
            if matches!(call.verb, RequestVerb::Create(_)) {
                let told =
                    (self.now, event.str_at(&["reason"]).to_owned(), event.str_at(&["message"]).to_owned());
                self.told.push(told);
            }
            let object = ApiObject { tree: event.clone(), revision: 0 };
            self.feed(RuntimeInput::Replied(id, vec![Ok(object)]));
            return true;
        }
        if self.crash_before == Some(self.calls.len()) {
            self.crash_before = None;
            return false;
        }
        self.calls.push((self.now, call.clone()));
        let result = match (self.refuses)(call) {
            Some(refusal) => Err(refusal),
            None => self.done(call),
        };
        self.feed(RuntimeInput::Replied(id, vec![result]));
        true
    }

    fn done(&mut self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        let key = ObjectKey::new(&call.target.kind, &call.target.namespace, &call.target.name);
        let there = self.objects.get(&key).cloned();
        if let Some(there) = &there {
            call.check_preconditions(there)?;
        } else if call.preconditions.uid.is_some() {
            return Err(ApiError::NotFound(call.target.name.to_string()));
        }
        match (&call.verb, there) {
            (RequestVerb::Get, Some(there)) => Ok(there),
            (RequestVerb::Apply { body, .. }, there) => {
                let new = there.as_ref().map_or_else(|| self.born(body), |there| there.tree.merge(body));
                match there {
                    Some(there) if there.tree == new => Ok(there),
                    _ => Ok(self.store(&key, new)),
                }
            }
            (RequestVerb::MergePatch(patch), Some(there)) => {
                let only_status = |it: &Tree| it.entries().iter().all(|(key, _)| key == "status");
                assert_eq!(call.target.subresource == Subresource::Status, only_status(patch), "{patch}");
                Ok(self.store(&key, there.tree.merge(patch)))
            }
            (RequestVerb::Delete { .. }, Some(there)) if meta::has_finalizers(&there.tree) => {
                let now = self.now.to_seconds_text();
                Ok(self.store(&key, there.tree.with(meta_path::DELETED, now)))
            }
            (RequestVerb::Delete { .. }, Some(_)) => Ok(self.end(&key).expect("it is there")),
            (act, _) => panic!("nobody is expected to {act:?}"),
        }
    }
}

fn begin(settings: &TrainJobControllerConfig) -> ControlLoop {
    let it = TrainJobController::new(settings.clone(), Arc::new(ZeroEntropy));
    let served: Vec<Kind> = it.kinds().into_iter().chain(it.kinds_if_served()).collect();
    ControlLoop::new(vec![Box::new(it)], &served, RuntimeOptions::default())
}

pub fn word(call: &ApiRequest) -> (&'static str, Text) {
    (verb(call), call.target.kind.plural.clone())
}

/// All kinds of what a TrainJob is made into, here.
pub fn made_kinds() -> [&'static Kind; 3] {
    [&JOBSETS, &CONFIG_MAPS, &SECRETS]
}

/// Whether this is a call of that verb about that kind.
pub fn is(call: &ApiRequest, verb: &str, plural: &str) -> bool {
    word(call) == (verb, plural.into())
}
